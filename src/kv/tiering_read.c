/* kv/tiering_read.c: the way back in. A restore is cut by tier; each reader takes its piece as a head and a body, and
 * every page and part that lands is struck off one common list. Once a page has failed, the parts that count stand
 * still: what is there then is good only as a shorter prefix, and reading goes on just until that is whole. */
#include "kv/tiering_private.h"

#include "base/clock.h"
#include "base/thread.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define NEVER_US 1e15 /* more than anything that can be computed instead */

double tiering_restore_us(const tiering *t, uint32_t holder, uint64_t bytes)
{
    if (holder == 0 || holder > t->config.tier_count)
        return NEVER_US;
    tiering *open = (tiering *)t; /* the lock is no part of what is const */
    pthread_mutex_lock(&open->lock);
    const lane *l = &t->lanes[holder - 1];
    double us = tier_speed_predict(&l->speed, l->read_bytes + bytes, clock_now_us());
    pthread_mutex_unlock(&open->lock);
    return us;
}

/* ---- a restore is made ---- */

void tiering_free_restore(tier_restore *r)
{
    if (!r)
        return;
    pthread_mutex_destroy(&r->lock);
    free(r->pages);
    free(r->tokens);
    free(r->landed);
    free(r->failed);
    for (uint32_t i = 0; i < TIERS_MAX; i++) {
        free(r->pieces[i].order);
        free(r->pieces[i].pages);
    }
    free(r);
}

static bool copy_pages(tier_restore *r, const tier_page *pages)
{
    uint64_t token_count = 0;
    for (uint32_t i = 0; i < r->count; i++)
        token_count += pages[i].token_count;
    r->pages = malloc((r->count + 1) * sizeof *r->pages);
    r->tokens = malloc((token_count + 1) * sizeof *r->tokens);
    r->landed = calloc(r->count + 1, sizeof *r->landed);
    r->failed = calloc(r->count + 1, sizeof *r->failed);
    if (!r->pages || !r->tokens || !r->landed || !r->failed)
        return false;
    int32_t *to = r->tokens;
    for (uint32_t i = 0; i < r->count; i++) {
        r->pages[i] = pages[i];
        r->pages[i].tokens = to;
        if (pages[i].token_count)
            memcpy(to, pages[i].tokens, pages[i].token_count * sizeof *to);
        to += pages[i].token_count;
    }
    return true;
}

static bool cut_piece(tier_restore *r, const uint32_t *holders, uint32_t lane, uint64_t page_bytes)
{
    restore_piece *piece = &r->pieces[lane];
    for (uint32_t i = 0; i < r->count; i++)
        piece->count += holders[i] == lane + 1;
    piece->order = malloc((piece->count + 1) * sizeof *piece->order);
    piece->pages = malloc((piece->count + 1) * sizeof *piece->pages);
    if (!piece->order || !piece->pages)
        return false;
    uint32_t at = 0;
    for (uint32_t i = 0; i < r->count; i++)
        if (holders[i] == lane + 1) {
            piece->head += i < r->head;
            piece->order[at] = i;
            piece->pages[at++] = r->pages[i];
        }
    piece->bytes = piece->count * page_bytes;
    return true;
}

static void fail_page(tier_restore *r, uint32_t page);
static void publish(tier_restore *r);

static tier_restore *make_restore(const tiering *t, const tier_page *pages, const uint32_t *holders, uint32_t count,
                                  uint32_t head)
{
    assert(head <= count);
    tier_restore *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    pthread_mutex_init(&r->lock, NULL);
    r->count = count;
    r->head = r->head_left = head;
    r->parts = t->config.mover->parts;
    r->part_bytes = t->config.mover->part_bytes;
    r->failed_at = UINT32_MAX;
    for (uint32_t p = 0; p < r->parts; p++)
        r->part_left[p] = count - head;
    bool made = copy_pages(r, pages);
    for (uint32_t k = 0; made && k < t->config.tier_count; k++)
        made = cut_piece(r, holders, k, t->page_bytes);
    if (!made) {
        tiering_free_restore(r);
        return NULL;
    }
    for (uint32_t i = 0; i < count; i++)
        if (holders[i] == 0 || holders[i] > t->config.tier_count)
            fail_page(r, i);
    publish(r);
    return r;
}

static void end_restore(tiering *t, tier_restore *r) /* locked; no lane has it any more */
{
    pthread_mutex_lock(&r->lock);
    r->ended = true;
    pthread_mutex_unlock(&r->lock);
    r->next_done = t->done_restores;
    t->done_restores = r;
    atomic_store_explicit(&t->something_done, true, memory_order_release);
}

static void enqueue(tiering *t, tier_restore *r) /* locked */
{
    for (uint32_t k = 0; k < t->config.tier_count; k++) {
        lane *l = &t->lanes[k];
        if (r->pieces[k].count == 0)
            continue;
        r->pieces_left++;
        l->read_bytes += r->pieces[k].bytes;
        *(l->first_restore ? &l->last_restore->next_in_lane[k] : &l->first_restore) = r;
        l->last_restore = r;
        pthread_cond_signal(&l->to_read);
    }
    if (r->pieces_left == 0)
        end_restore(t, r);
    r->next_open = t->open_restores;
    if (t->open_restores)
        t->open_restores->previous_open = r;
    t->open_restores = r;
    t->open_restore_count++;
}

tier_restore *tiering_restore(tiering *t, const tier_page *pages, const uint32_t *holders, uint32_t count,
                              uint32_t head)
{
    tier_restore *r = t->open_restore_count < RESTORES_MAX ? make_restore(t, pages, holders, count, head) : NULL;
    if (!r)
        return NULL;
    for (uint32_t i = 0; i < count; i++)
        page_pool_share(t->config.pool, pages[i].page);
    t->held += count;
    pthread_mutex_lock(&t->lock);
    enqueue(t, r);
    pthread_mutex_unlock(&t->lock);
    return r;
}

/* ---- and looked at ---- */

restore_progress tiering_progress(const tier_restore *r)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)&r->lock; /* no part of what is const */
    pthread_mutex_lock(lock);
    restore_progress p = {.head_done = r->head_left == 0 && !r->head_failed,
                          .parts_done = atomic_load(&r->parts_out),
                          .ended = r->ended,
                          .whole = r->leading,
                          .head_failed = r->head_failed};
    memcpy(p.bytes_by_tier, r->bytes_by_tier, sizeof p.bytes_by_tier);
    pthread_mutex_unlock(lock);
    return p;
}

const _Atomic uint32_t *tiering_parts(const tier_restore *r)
{
    return &r->parts_out;
}

static void take_out_of_lane(tiering *t, lane *l, tier_restore *r)
{
    tier_restore *before = NULL, **at = &l->first_restore;
    while (*at && *at != r) {
        before = *at;
        at = &before->next_in_lane[l->index];
    }
    if (!*at)
        return; /* its reader has it in hand, or is through with it */
    *at = r->next_in_lane[l->index];
    if (l->last_restore == r)
        l->last_restore = before;
    l->read_bytes -= r->pieces[l->index].bytes;
    if (--r->pieces_left == 0)
        end_restore(t, r);
}

void tiering_restore_end(tiering *t, tier_restore *r)
{
    atomic_store(&r->stop, true);
    pthread_mutex_lock(&t->lock);
    for (uint32_t k = 0; k < t->config.tier_count; k++)
        take_out_of_lane(t, &t->lanes[k], r);
    *(r->previous_open ? &r->previous_open->next_open : &t->open_restores) = r->next_open;
    if (r->next_open)
        r->next_open->previous_open = r->previous_open;
    t->open_restore_count--;
    pthread_mutex_unlock(&t->lock);
    r->forgotten = true;
    if (r->released)
        tiering_free_restore(r);
}

/* ---- what lands is struck off. All locked by the restore's lock. ---- */

static bool is_whole(const tier_restore *r, uint32_t page)
{
    return !r->failed[page] && r->landed[page] == (1u << r->parts) - 1;
}

static void fail_page(tier_restore *r, uint32_t page)
{
    r->failed[page] = true;
    if (page < r->head)
        r->head_failed = true;
    else if (page - r->head < r->failed_at)
        r->failed_at = page - r->head;
}

static void strike_off(tier_restore *r, uint32_t page, uint32_t part, uint32_t lane)
{
    r->landed[page] |= (uint8_t)(1u << part);
    r->bytes_by_tier[lane] += r->part_bytes;
    if (page >= r->head)
        r->part_left[part]--;
    else if (is_whole(r, page))
        r->head_left--;
}

/* Brings what others look at up to date. */
static void publish(tier_restore *r)
{
    while (r->leading < r->count - r->head && is_whole(r, r->head + r->leading))
        r->leading++;
    bool failed = r->head_failed || r->failed_at != UINT32_MAX;
    uint32_t parts = atomic_load(&r->parts_out);
    while (!failed && r->head_left == 0 && parts < r->parts && r->part_left[parts] == 0)
        parts++;
    atomic_store_explicit(&r->parts_out, parts, memory_order_release);
    if (r->head_failed || r->leading == r->failed_at)
        atomic_store(&r->stop, true); /* the rest is of no use */
}

typedef struct {
    tiering *tiering;
    tier_restore *restore;
    uint32_t lane, first; /* index 0 of this get is number `first` of the lane's piece */
} landing;

static void landed(void *context, uint32_t index, uint32_t part, status st)
{
    const landing *l = context;
    tier_restore *r = l->restore;
    const restore_piece *piece = &r->pieces[l->lane];
    assert(l->first + index < piece->count && (st || part < r->parts));
    uint32_t page = piece->order[l->first + index];
    pthread_mutex_lock(&r->lock);
    uint32_t parts_before = atomic_load(&r->parts_out), head_before = r->head_left;
    if (st)
        fail_page(r, page);
    else if (!r->failed[page] && !(r->landed[page] & 1u << part))
        strike_off(r, page, part, l->lane);
    publish(r);
    bool news = atomic_load(&r->parts_out) != parts_before || (head_before > 0 && r->head_left == 0);
    pthread_mutex_unlock(&r->lock);
    if (news)
        tiering_wake(l->tiering);
}

/* ---- a lane's reader ---- */

static void read_pages(lane *l, tier_restore *r, uint32_t first, uint32_t end)
{
    landing context = {l->tiering, r, l->index, first};
    if (first < end && !atomic_load(&r->stop))
        l->tier->ops->get(l->tier, r->pieces[l->index].pages + first, end - first, landed, &context, &r->stop);
    pthread_mutex_lock(&r->lock);
    for (uint32_t i = first; i < end; i++) /* what was neither whole nor failed was stopped */
        if (!is_whole(r, r->pieces[l->index].order[i]))
            fail_page(r, r->pieces[l->index].order[i]);
    publish(r);
    pthread_mutex_unlock(&r->lock);
}

static uint64_t bytes_from(tier_restore *r, uint32_t lane)
{
    pthread_mutex_lock(&r->lock);
    uint64_t bytes = r->bytes_by_tier[lane];
    pthread_mutex_unlock(&r->lock);
    return bytes;
}

bool tiering_read_restore(lane *l)
{
    tiering *t = l->tiering;
    tier_restore *r = l->first_restore;
    if (!r)
        return false;
    l->first_restore = r->next_in_lane[l->index];
    pthread_mutex_unlock(&t->lock);
    const restore_piece *piece = &r->pieces[l->index];
    uint64_t start_us = clock_now_us();
    read_pages(l, r, 0, piece->head);
    read_pages(l, r, piece->head, piece->count);
    uint64_t bytes = bytes_from(r, l->index), now_us = clock_now_us();
    pthread_mutex_lock(&t->lock);
    if (bytes > 0)
        tier_speed_learn(&l->speed, bytes, now_us - start_us, now_us);
    l->read_bytes -= piece->bytes;
    if (--r->pieces_left == 0)
        end_restore(t, r); /* the engine thread may free it as soon as the lock is open */
    pthread_mutex_unlock(&t->lock);
    tiering_wake(t);
    pthread_mutex_lock(&t->lock);
    return true;
}

void *tiering_read_loop(void *argument)
{
    lane *l = argument;
    tiering *t = l->tiering;
    thread_step_back();
    pthread_mutex_lock(&t->lock);
    for (;;) {
        if (tiering_read_ask(l) || tiering_read_restore(l)) /* asks first: somebody waits for them before all else */
            continue;
        if (t->closing)
            break;
        pthread_cond_wait(&l->to_read, &t->lock);
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}
