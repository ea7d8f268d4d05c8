/* tests/unit/kv/memory_tier.h: a tier in memory that can be slow, stuck, forgetful and wrong, and a mover over an
 * array. Any thread; the knobs are atomics. */
#ifndef HEADWAY_TESTS_MEMORY_TIER_H
#define HEADWAY_TESTS_MEMORY_TIER_H

#include "base/clock.h"
#include "kv/tier/tier.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { MOVER_PAGES = 256, MOVER_PARTS = 4, MOVER_PART_BYTES = 64, TIER_RECORDS = 4096, PAGE_TOKENS = 4 };

typedef struct {
    page_mover base;
    char bytes[MOVER_PAGES][MOVER_PARTS][MOVER_PART_BYTES];
} array_mover;

static void *array_at(page_mover *self, page_id page, uint32_t part)
{
    return ((array_mover *)self)->bytes[page][part];
}

static const page_mover_ops array_ops = {array_at, NULL, NULL, NULL};

typedef struct {
    prefix_key key;
    uint64_t space;
    int32_t tokens[PAGE_TOKENS];
    char bytes[MOVER_PARTS][MOVER_PART_BYTES];
    bool damaged;
} memory_record;

typedef struct {
    tier base;
    page_mover *mover;
    pthread_mutex_t lock;
    memory_record *records; /* (TIER_RECORDS) */
    uint32_t count;
    /* Knobs: microseconds, and gates that stay shut while true. */
    _Atomic uint32_t has_us, put_us, part_us;
    _Atomic bool has_shut, put_shut, part_shut[MOVER_PARTS], drop_fails;
    _Atomic uint32_t fail_part;    /* a damaged record fails here */
    _Atomic uint32_t gets_allowed; /* further ones wait; 0: any */
    /* What was seen. */
    _Atomic uint32_t puts, put_pages, touches, flushes, expires, gets, drops;
    _Atomic bool in_put, in_get;
    _Atomic bool *closed; /* set at close; may be NULL */
} memory_tier;

static void tier_pause(uint64_t us)
{
    if (us)
        clock_real()->sleep_us(clock_real(), us);
}

static void tier_gate(const _Atomic bool *shut)
{
    while (atomic_load(shut))
        tier_pause(200);
}

static memory_record *memory_find(memory_tier *m, prefix_key key)
{
    for (uint32_t i = 0; i < m->count; i++)
        if (m->records[i].key.low == key.low && m->records[i].key.high == key.high)
            return &m->records[i];
    return NULL;
}

static void memory_has(tier *t, const prefix_key *keys, uint32_t count, bool *out)
{
    memory_tier *m = (memory_tier *)t;
    tier_pause(m->has_us);
    tier_gate(&m->has_shut);
    pthread_mutex_lock(&m->lock);
    for (uint32_t i = 0; i < count; i++)
        out[i] = memory_find(m, keys[i]) != NULL;
    pthread_mutex_unlock(&m->lock);
}

static void memory_put(tier *t, const tier_page *pages, uint32_t count)
{
    memory_tier *m = (memory_tier *)t;
    atomic_store(&m->in_put, true);
    m->puts++;
    tier_pause(m->put_us);
    tier_gate(&m->put_shut);
    pthread_mutex_lock(&m->lock);
    for (uint32_t i = 0; i < count; i++) {
        m->put_pages++;
        if (memory_find(m, pages[i].key) || m->count == TIER_RECORDS)
            continue;
        memory_record *r = &m->records[m->count++];
        *r = (memory_record){.key = pages[i].key, .space = pages[i].space};
        memcpy(r->tokens, pages[i].tokens, pages[i].token_count * sizeof r->tokens[0]);
        for (uint32_t p = 0; p < MOVER_PARTS; p++)
            memcpy(r->bytes[p], m->mover->ops->at(m->mover, pages[i].page, p), MOVER_PART_BYTES);
    }
    pthread_mutex_unlock(&m->lock);
    atomic_store(&m->in_put, false);
}

static void memory_get(tier *t, const tier_page *pages, uint32_t count, tier_landed landed, void *context,
                       const _Atomic bool *stop)
{
    memory_tier *m = (memory_tier *)t;
    bool *failed = calloc(count + 1, sizeof *failed);
    atomic_store(&m->in_get, true);
    while (m->gets_allowed && m->gets >= m->gets_allowed)
        tier_pause(200);
    m->gets++;
    for (uint32_t p = 0; p < MOVER_PARTS; p++) {
        tier_gate(&m->part_shut[p]);
        for (uint32_t i = 0; i < count && !atomic_load(stop); i++) {
            tier_pause(m->part_us);
            if (failed[i])
                continue;
            pthread_mutex_lock(&m->lock);
            memory_record *r = memory_find(m, pages[i].key);
            bool good = r && memcmp(r->tokens, pages[i].tokens, pages[i].token_count * sizeof r->tokens[0]) == 0 &&
                        !(r->damaged && p >= m->fail_part);
            if (r) /* a damaged part leaves other bytes behind */
                memcpy(m->mover->ops->at(m->mover, pages[i].page, p), good ? r->bytes[p] : "damage", good ? 64 : 6);
            pthread_mutex_unlock(&m->lock);
            failed[i] = !good;
            landed(context, i, p, good ? OK : ERR_NOT_FOUND);
        }
    }
    free(failed);
    atomic_store(&m->in_get, false);
}

static void memory_touch(tier *t, const prefix_key *keys, uint32_t count)
{
    (void)keys;
    ((memory_tier *)t)->touches += count;
}

static status memory_drop(tier *t, uint64_t space, error *err)
{
    memory_tier *m = (memory_tier *)t;
    m->drops++;
    if (m->drop_fails)
        return error_set(err, ERR_IO, "no way");
    pthread_mutex_lock(&m->lock);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < m->count; i++)
        if (space && m->records[i].space != space)
            m->records[kept++] = m->records[i];
    m->count = kept;
    pthread_mutex_unlock(&m->lock);
    return OK;
}

static void memory_expire(tier *t, uint64_t ttl_us)
{
    (void)ttl_us;
    ((memory_tier *)t)->expires++;
}

static void memory_flush(tier *t)
{
    ((memory_tier *)t)->flushes++;
}

static void memory_counts(tier *t, tier_counts *out)
{
    memory_tier *m = (memory_tier *)t;
    pthread_mutex_lock(&m->lock);
    *out = (tier_counts){.records = m->count, .online = true};
    pthread_mutex_unlock(&m->lock);
}

static void memory_close(tier *t) /* the fixture frees it: tests look at it afterwards */
{
    memory_tier *m = (memory_tier *)t;
    if (m->closed)
        *m->closed = true;
}

static const tier_ops quick_ops = {"quick",     true,          memory_has,   memory_put,    memory_get,  memory_touch,
                                   memory_drop, memory_expire, memory_flush, memory_counts, memory_close};
static const tier_ops slow_ops = {"slow",      false,         memory_has,   memory_put,    memory_get,  memory_touch,
                                  memory_drop, memory_expire, memory_flush, memory_counts, memory_close};

static memory_tier *memory_tier_make(page_mover *mover, const tier_ops *ops)
{
    memory_tier *m = calloc(1, sizeof *m);
    m->base.ops = ops;
    m->mover = mover;
    m->records = calloc(TIER_RECORDS, sizeof *m->records);
    pthread_mutex_init(&m->lock, NULL);
    return m;
}

static void memory_tier_free(memory_tier *m)
{
    pthread_mutex_destroy(&m->lock);
    free(m->records);
    free(m);
}

#endif
