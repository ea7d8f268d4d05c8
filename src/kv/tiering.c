/* kv/tiering.c: the threads' life, and the shares' way back. Pages that were written and restores that have ended lie
 * in lists until the engine thread comes by: it alone may touch the pool. */
#include "kv/tiering_private.h"

#include "base/clock.h"

#include <assert.h>
#include <stdlib.h>

enum { BUCKETS_MIN = 64, BUCKETS_MAX = 1 << 16 };
#define QUEUE_BYTES_DEFAULT ((uint64_t)1 << 30)
#define TOUCHED_BYTES_MAX ((uint64_t)1 << 30)

void tiering_wake(tiering *t)
{
    if (t->config.wake)
        t->config.wake(t->config.wake_context);
}

static bool any_is_slow(const tiering *t)
{
    for (uint32_t i = 0; i < t->config.tier_count; i++)
        if (!t->config.tiers[i]->ops->has_is_quick)
            return true;
    return false;
}

static status start_threads(tiering *t)
{
    for (uint32_t i = 0; i < t->config.tier_count; i++) {
        lane *l = &t->lanes[i];
        l->writer_runs = pthread_create(&l->writer, NULL, tiering_write_loop, l) == 0;
        l->reader_runs = pthread_create(&l->reader, NULL, tiering_read_loop, l) == 0;
        if (!l->writer_runs || !l->reader_runs)
            return ERR_MEMORY;
    }
    if (any_is_slow(t)) {
        t->alarm_runs = pthread_create(&t->alarm, NULL, tiering_alarm_loop, t) == 0;
        if (!t->alarm_runs)
            return ERR_MEMORY;
    }
    return OK;
}

static status init_lanes(tiering *t)
{
    for (uint32_t i = 0; i < t->config.tier_count; i++) {
        lane *l = &t->lanes[i];
        l->touches = malloc(TOUCHES_MAX * sizeof *l->touches);
        l->touching = malloc(TOUCHES_MAX * sizeof *l->touching);
        l->flushed_us = l->expired_us = clock_now_us();
        if (!l->touches || !l->touching)
            return ERR_MEMORY;
    }
    uint64_t bucket_count = BUCKETS_MIN;
    while (bucket_count < BUCKETS_MAX && bucket_count * t->page_bytes < 2 * t->lane_bytes_max)
        bucket_count *= 2;
    t->bucket_mask = (uint32_t)bucket_count - 1;
    t->buckets = calloc(bucket_count, sizeof *t->buckets);
    return t->buckets ? OK : ERR_MEMORY;
}

static tiering *make(const tiering_config *config)
{
    tiering *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->config = *config;
    t->page_bytes = config->mover->parts * (uint64_t)config->mover->part_bytes;
    uint64_t bytes_max = config->queue_bytes_max ? config->queue_bytes_max : QUEUE_BYTES_DEFAULT;
    /* A lane of its own share each: a slow tier must not take the room of a quick one. */
    t->lane_bytes_max = bytes_max / config->tier_count;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->dropped, NULL);
    pthread_cond_init(&t->alarm_set, NULL);
    for (uint32_t i = 0; i < config->tier_count; i++) {
        t->lanes[i] = (lane){.tiering = t, .index = i, .tier = config->tiers[i], .speed = tier_speed_guess()};
        pthread_cond_init(&t->lanes[i].to_write, NULL);
        pthread_cond_init(&t->lanes[i].to_read, NULL);
    }
    return t;
}

/* What the tiers hold at the start comes back first, into pages that nothing has used yet. Memory that the system gives
 * only then costs as much processor time as the reading, in the very second in which a turn waits for it. */
static void touch_pages(tiering *t)
{
    page_mover *m = t->config.mover;
    uint64_t records = 0, most = TOUCHED_BYTES_MAX / t->page_bytes, total = page_pool_read_counts(t->config.pool).total;
    for (uint32_t i = 0; i < t->config.tier_count; i++) {
        tier_counts counts = {0};
        t->config.tiers[i]->ops->read_counts(t->config.tiers[i], &counts);
        records += counts.records;
    }
    most = most < total ? most : total;
    if (m->ops->touch)
        m->ops->touch(m, 0, (uint32_t)(records < most ? records : most));
}

status tiering_open(tiering **out, const tiering_config *config, error *err)
{
    assert(config->tier_count >= 1 && config->tier_count <= TIERS_MAX);
    assert(config->mover->parts >= 1 && config->mover->parts <= PAGE_PARTS_MAX);
    tiering *t = make(config);
    if (!t) {
        for (uint32_t i = 0; i < config->tier_count; i++)
            config->tiers[i]->ops->close(config->tiers[i]);
        return error_set(err, ERR_MEMORY, "cache tiers: out of memory");
    }
    status st = init_lanes(t);
    touch_pages(t);
    if (!st)
        st = start_threads(t);
    if (st) {
        tiering_close(t, 0);
        return error_set(err, st, "cache tiers: no memory or no thread");
    }
    *out = t;
    return OK;
}

/* ---- the way back ---- */

static void give_back(tiering *t, page_id page)
{
    page_pool_release(t->config.pool, page);
    t->held--;
}

void tiering_collect(tiering *t)
{
    if (!atomic_exchange_explicit(&t->something_done, false, memory_order_acquire))
        return;
    pthread_mutex_lock(&t->lock);
    waiting_page *pages = t->done_pages;
    tier_restore *restores = t->done_restores;
    t->done_pages = NULL;
    t->done_restores = NULL;
    pthread_mutex_unlock(&t->lock);
    while (pages) {
        waiting_page *next = pages->next_done;
        give_back(t, pages->page.page);
        free(pages);
        pages = next;
    }
    while (restores) {
        tier_restore *next = restores->next_done;
        for (uint32_t i = 0; i < restores->count; i++)
            give_back(t, restores->pages[i].page);
        restores->released = true;
        if (restores->forgotten)
            tiering_free_restore(restores);
        restores = next;
    }
}

uint32_t tiering_pages_held(const tiering *t)
{
    return t->held;
}

/* ---- the end ---- */

static void end_threads(tiering *t)
{
    pthread_mutex_lock(&t->lock);
    t->closing = true;
    for (tier_restore *r = t->open_restores; r; r = r->next_open)
        atomic_store(&r->stop, true);
    for (uint32_t i = 0; i < t->config.tier_count; i++) {
        pthread_cond_broadcast(&t->lanes[i].to_write);
        pthread_cond_broadcast(&t->lanes[i].to_read);
    }
    pthread_cond_broadcast(&t->alarm_set);
    pthread_mutex_unlock(&t->lock);
    for (uint32_t i = 0; i < t->config.tier_count; i++) {
        if (t->lanes[i].writer_runs)
            pthread_join(t->lanes[i].writer, NULL);
        if (t->lanes[i].reader_runs)
            pthread_join(t->lanes[i].reader, NULL);
    }
    if (t->alarm_runs)
        pthread_join(t->alarm, NULL);
}

static void drop_unwritten(tiering *t)
{
    for (uint32_t i = 0; i < t->config.tier_count; i++) {
        lane *l = &t->lanes[i];
        while (l->first_page) {
            waiting_page *w = l->first_page;
            l->first_page = w->next[i];
            tiering_page_left(t, i, w);
        }
    }
}

void tiering_close(tiering *t, uint64_t flush_us)
{
    if (!t)
        return;
    t->close_by_us = clock_now_us() + flush_us;
    end_threads(t);
    drop_unwritten(t); /* no thread is left: no lock is needed */
    while (t->open_restores)
        tiering_restore_end(t, t->open_restores);
    while (t->open_asks)
        tiering_ask_end(t, t->open_asks);
    tiering_collect(t);
    assert(t->held == 0);
    for (uint32_t i = 0; i < t->config.tier_count; i++) {
        lane *l = &t->lanes[i];
        l->tier->ops->close(l->tier);
        pthread_cond_destroy(&l->to_write);
        pthread_cond_destroy(&l->to_read);
        free(l->touches);
        free(l->touching);
    }
    pthread_cond_destroy(&t->dropped);
    pthread_cond_destroy(&t->alarm_set);
    pthread_mutex_destroy(&t->lock);
    free(t->buckets);
    free(t);
}

uint32_t tiering_read_counts(tiering *t, tier_counts *out, const char **names)
{
    for (uint32_t i = 0; i < t->config.tier_count; i++) {
        tier *each = t->config.tiers[i];
        each->ops->read_counts(each, &out[i]);
        names[i] = each->ops->name;
    }
    return t->config.tier_count;
}
