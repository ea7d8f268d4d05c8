/* kv/tiering_store.c: the way out. A page waits once, whatever the number of tiers; each lane strings the pages that it
 * has to write on a link of its own. Dropping a space takes its waiting pages out first and then asks each writer,
 * between two puts, to have its tier forget: what was handed in before the drop is gone with it, what comes later
 * stays. */
#include "kv/tiering_private.h"

#include "base/clock.h"
#include "base/thread.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define FLUSH_EVERY_US 500000u
enum { HOLD_US_MAX = 100000, HOLD_STEP_US = 2000 };
#define EXPIRE_EVERY_US_MAX 60000000u
#define EXPIRE_EVERY_US_MIN 1000000u

/* ---- pages that wait, by key ---- */

static bool same_key(prefix_key a, prefix_key b)
{
    return a.low == b.low && a.high == b.high;
}

static waiting_page **find(tiering *t, prefix_key key)
{
    waiting_page **at = &t->buckets[key.low & t->bucket_mask];
    while (*at && !same_key((*at)->page.key, key))
        at = &(*at)->next_in_bucket;
    return at;
}

static void unlist(tiering *t, waiting_page *w)
{
    if (!w->listed)
        return;
    waiting_page **at = &t->buckets[w->page.key.low & t->bucket_mask];
    while (*at != w)
        at = &(*at)->next_in_bucket;
    *at = w->next_in_bucket;
    w->listed = false;
}

void tiering_page_left(tiering *t, uint32_t lane, waiting_page *w)
{
    t->lanes[lane].bytes -= t->page_bytes;
    if (--w->left > 0)
        return;
    unlist(t, w);
    w->next_done = t->done_pages;
    t->done_pages = w;
    atomic_store_explicit(&t->something_done, true, memory_order_release);
}

static waiting_page *list_page(tiering *t, const tier_page *page)
{
    size_t token_bytes = page->token_count * sizeof page->tokens[0];
    waiting_page *w = calloc(1, sizeof *w + token_bytes);
    if (!w)
        return NULL;
    w->page = *page;
    if (token_bytes)
        memcpy(w->tokens, page->tokens, token_bytes);
    w->page.tokens = w->tokens;
    w->listed = true;
    w->next_in_bucket = t->buckets[page->key.low & t->bucket_mask];
    t->buckets[page->key.low & t->bucket_mask] = w;
    page_pool_share(t->config.pool, page->page);
    t->held++;
    return w;
}

static void enqueue(lane *l, waiting_page *w)
{
    w->taken |= 1u << l->index;
    w->left++;
    w->next[l->index] = NULL;
    *(l->first_page ? &l->last_page->next[l->index] : &l->first_page) = w;
    l->last_page = w;
    l->bytes += l->tiering->page_bytes;
}

/* Bits of the lanes that have room for those of the pages that they lack. */
static uint32_t lanes_with_room(tiering *t, const tier_page *pages, uint32_t count)
{
    uint32_t room = 0;
    uint64_t lacking[TIERS_MAX] = {0};
    for (uint32_t i = 0; i < count; i++) {
        const waiting_page *w = *find(t, pages[i].key);
        for (uint32_t k = 0; k < t->config.tier_count; k++)
            lacking[k] += !w || !(w->taken & 1u << k);
    }
    for (uint32_t k = 0; k < t->config.tier_count; k++)
        if (t->lanes[k].bytes + lacking[k] * t->page_bytes <= t->lane_bytes_max)
            room |= 1u << k;
    return room;
}

static bool enqueue_all(tiering *t, const tier_page *pages, uint32_t count, uint32_t lanes)
{
    for (uint32_t i = 0; i < count; i++) {
        waiting_page *w = *find(t, pages[i].key);
        if (!w && !(w = list_page(t, &pages[i])))
            return false;
        for (uint32_t k = 0; k < t->config.tier_count; k++)
            if (lanes & ~w->taken & 1u << k)
                enqueue(&t->lanes[k], w);
    }
    return true;
}

bool tiering_store(tiering *t, const tier_page *pages, uint32_t count)
{
    pthread_mutex_lock(&t->lock);
    uint32_t lanes = t->closing ? 0 : lanes_with_room(t, pages, count);
    bool stored = lanes && enqueue_all(t, pages, count, lanes);
    for (uint32_t k = 0; k < t->config.tier_count; k++)
        if (lanes & 1u << k)
            pthread_cond_signal(&t->lanes[k].to_write);
    pthread_mutex_unlock(&t->lock);
    return stored;
}

void tiering_touch(tiering *t, const prefix_key *keys, uint32_t count)
{
    pthread_mutex_lock(&t->lock);
    for (uint32_t k = 0; k < t->config.tier_count; k++) {
        lane *l = &t->lanes[k];
        uint32_t room = TOUCHES_MAX - l->touch_count, taken = count < room ? count : room;
        if (taken)
            memcpy(l->touches + l->touch_count, keys, taken * sizeof *keys);
        l->touch_count += taken;
        pthread_cond_signal(&l->to_write);
    }
    pthread_mutex_unlock(&t->lock);
}

/* ---- drop ---- */

static bool belongs(const waiting_page *w, uint64_t space)
{
    return space == 0 || w->page.space == space;
}

static bool take_out_waiting(tiering *t, lane *l, uint64_t space)
{
    waiting_page *kept = NULL, **at = &l->first_page;
    bool some = false;
    while (*at) {
        waiting_page *w = *at;
        if (!belongs(w, space)) {
            kept = w;
            at = &w->next[l->index];
            continue;
        }
        *at = w->next[l->index];
        tiering_page_left(t, l->index, w);
        some = true;
    }
    l->last_page = kept;
    return some;
}

/* Pages that a writer has in hand: a later store of the same key is a page of its own, written after the drop. */
static void unlist_in_hand(tiering *t, uint64_t space)
{
    for (uint32_t i = 0; i <= t->bucket_mask; i++) {
        waiting_page **at = &t->buckets[i];
        while (*at) {
            waiting_page *w = *at;
            if (!belongs(w, space)) {
                at = &w->next_in_bucket;
                continue;
            }
            *at = w->next_in_bucket;
            w->listed = false;
        }
    }
}

status tiering_drop(tiering *t, uint64_t space, error *err)
{
    drop_order order = {.space = space, .left = t->config.tier_count};
    bool some = false;
    pthread_mutex_lock(&t->lock);
    for (uint32_t k = 0; k < t->config.tier_count; k++) {
        lane *l = &t->lanes[k];
        some |= take_out_waiting(t, l, space);
        order.next[k] = l->drops;
        l->drops = &order;
        pthread_cond_signal(&l->to_write);
    }
    unlist_in_hand(t, space);
    while (order.left > 0)
        pthread_cond_wait(&t->dropped, &t->lock);
    pthread_mutex_unlock(&t->lock);
    if (some)
        tiering_wake(t);
    return order.st ? error_set(err, order.st, "%s", order.err.text) : OK;
}

/* ---- a lane's writer. All of these are called locked and unlock while the tier works. ---- */

static void obey_drop(lane *l)
{
    tiering *t = l->tiering;
    drop_order *order = l->drops;
    l->drops = order->next[l->index];
    pthread_mutex_unlock(&t->lock);
    error err = {""};
    status st = l->tier->ops->drop(l->tier, order->space, &err);
    pthread_mutex_lock(&t->lock);
    if (st && !order->st) {
        order->st = st;
        order->err = err;
        error_prefix(&order->err, st, "%s", l->tier->ops->name);
    }
    order->left--;
    pthread_cond_broadcast(&t->dropped);
}

static void write_batch(lane *l)
{
    tiering *t = l->tiering;
    waiting_page *batch[BATCH_PAGES];
    tier_page pages[BATCH_PAGES];
    uint32_t count = 0;
    while (l->first_page && count < BATCH_PAGES && (count == 0 || (count + 1) * t->page_bytes <= BATCH_BYTES)) {
        batch[count] = l->first_page;
        pages[count++] = l->first_page->page;
        l->first_page = l->first_page->next[l->index];
    }
    pthread_mutex_unlock(&t->lock);
    l->tier->ops->put(l->tier, pages, count);
    l->unflushed = true;
    pthread_mutex_lock(&t->lock);
    l->held_from_us = 0;
    for (uint32_t i = 0; i < count; i++)
        tiering_page_left(t, l->index, batch[i]);
    pthread_mutex_unlock(&t->lock);
    tiering_wake(t);
    pthread_mutex_lock(&t->lock);
}

static void write_touches(lane *l)
{
    uint32_t count = l->touch_count;
    memcpy(l->touching, l->touches, count * sizeof *l->touches);
    l->touch_count = 0;
    pthread_mutex_unlock(&l->tiering->lock);
    l->tier->ops->touch(l->tier, l->touching, count);
    pthread_mutex_lock(&l->tiering->lock);
}

static void flush(lane *l)
{
    pthread_mutex_unlock(&l->tiering->lock);
    l->tier->ops->flush(l->tier);
    l->unflushed = false;
    l->flushed_us = clock_now_us();
    pthread_mutex_lock(&l->tiering->lock);
}

static void expire(lane *l)
{
    pthread_mutex_unlock(&l->tiering->lock);
    l->tier->ops->expire(l->tier, l->tiering->config.ttl_us);
    l->expired_us = clock_now_us();
    pthread_mutex_lock(&l->tiering->lock);
}

static uint64_t flush_at(const lane *l)
{
    return l->unflushed ? l->flushed_us + FLUSH_EVERY_US : UINT64_MAX;
}

static uint64_t expire_at(const lane *l)
{
    uint64_t ttl_us = l->tiering->config.ttl_us, every_us = ttl_us / 4;
    if (every_us > EXPIRE_EVERY_US_MAX)
        every_us = EXPIRE_EVERY_US_MAX;
    if (every_us < EXPIRE_EVERY_US_MIN)
        every_us = EXPIRE_EVERY_US_MIN;
    return ttl_us ? l->expired_us + every_us : UINT64_MAX;
}

void tiering_hold_writes(tiering *t, double us)
{
    uint64_t until_us = clock_now_us() + (us > HOLD_US_MAX ? HOLD_US_MAX : (uint64_t)us);
    if (until_us > atomic_load_explicit(&t->hold_us, memory_order_relaxed)) /* the engine thread alone writes it */
        atomic_store_explicit(&t->hold_us, until_us, memory_order_relaxed);
}

static bool holds(lane *l, uint64_t now_us)
{
    tiering *t = l->tiering;
    if (t->closing || now_us >= atomic_load_explicit(&t->hold_us, memory_order_relaxed)) {
        l->held_from_us = 0;
        return false;
    }
    l->held_from_us = l->held_from_us ? l->held_from_us : now_us;
    return now_us < l->held_from_us + HOLD_US_MAX;
}

static void wait_for_work(lane *l, uint64_t now_us)
{
    uint64_t flush_us = flush_at(l), expire_us = expire_at(l), until_us = flush_us < expire_us ? flush_us : expire_us;
    if (until_us == UINT64_MAX)
        pthread_cond_wait(&l->to_write, &l->tiering->lock);
    else
        thread_wait_us(&l->to_write, &l->tiering->lock, until_us > now_us ? until_us - now_us : 0);
}

void *tiering_write_loop(void *argument)
{
    lane *l = argument;
    tiering *t = l->tiering;
    thread_step_back();
    pthread_mutex_lock(&t->lock);
    for (;;) {
        uint64_t now_us = clock_now_us();
        if (l->drops)
            obey_drop(l);
        else if (!t->closing && now_us >= expire_at(l))
            expire(l);
        else if (l->first_page && holds(l, now_us))
            thread_wait_us(&l->to_write, &t->lock, HOLD_STEP_US);
        else if (l->first_page && !(t->closing && now_us >= t->close_by_us))
            write_batch(l);
        else if (l->touch_count > 0)
            write_touches(l);
        else if (l->unflushed && (t->closing || now_us >= flush_at(l)))
            flush(l);
        else if (t->closing)
            break;
        else
            wait_for_work(l, now_us);
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}
