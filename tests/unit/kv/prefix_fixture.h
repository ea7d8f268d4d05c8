/* tests/unit/kv/prefix_fixture.h: a pool, a cache over it, and requests that are computed at once. */
#ifndef HEADWAY_TESTS_PREFIX_FIXTURE_H
#define HEADWAY_TESTS_PREFIX_FIXTURE_H

#include "kv/prefix_cache.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { TEXT_MAX = 16384, STATE_MAX = 8 };

typedef struct {
    page_pool *pool;
    prefix_cache *cache;
    prefix_cache_config config;
    uint64_t now_us;
} fixture;

static inline fixture fixture_open(uint32_t pages, prefix_cache_config config)
{
    fixture f = {.config = config, .now_us = 1};
    assert_int_equal(page_pool_create(&f.pool, &(page_pool_config){.page_count = pages}, NULL), OK);
    f.config.pool = f.pool;
    if (f.config.page_tokens == 0)
        f.config.page_tokens = 32;
    if (f.config.idle_pages_max == 0)
        f.config.idle_pages_max = pages;
    if (f.config.token_us == 0)
        f.config.token_us = 100;
    assert_int_equal(prefix_cache_create(&f.cache, &f.config, NULL), OK);
    return f;
}

static inline uint32_t free_pages(const fixture *f)
{
    return page_pool_read_counts(f->pool).free;
}

/* Fails when a page leaked. */
static inline void fixture_close(fixture *f)
{
    prefix_cache_destroy(f->cache);
    assert_int_equal(free_pages(f), page_pool_read_counts(f->pool).total);
    assert_int_equal(page_pool_read_counts(f->pool).idle, 0);
    page_pool_destroy(f->pool);
}

typedef struct { /* a request that runs */
    prefix_cursor cursor;
    page_id pages[TEXT_MAX / 2];
    uint32_t page_count, hit; /* pages held; of them, found */
} sequence;

static inline page_id take_page(fixture *f, uint32_t owner)
{
    page_id page;
    if (free_pages(f) == 0)
        prefix_cache_make_room(f->cache, 1, owner, f->now_us);
    assert_true(page_pool_acquire(f->pool, &page));
    return page;
}

static inline void put_state(fixture *f, sequence *s)
{
    page_id state[STATE_MAX];
    if (prefix_cache_has_state(f->cache, &s->cursor))
        return;
    for (uint32_t i = 0; i < f->config.state_pages; i++)
        state[i] = take_page(f, s->cursor.owner);
    prefix_cache_put_state(f->cache, &s->cursor, state, f->now_us);
    for (uint32_t i = 0; i < f->config.state_pages; i++)
        page_pool_release(f->pool, state[i]);
}

/* Finds what is there; at least one token is left to compute. */
static inline sequence *sequence_open(fixture *f, uint64_t space, uint32_t owner, const int32_t *text, uint32_t count)
{
    sequence *s = calloc(1, sizeof *s);
    page_id state[STATE_MAX];
    prefix_match match = prefix_cache_find(f->cache, space, text, count, (count - 1) / f->config.page_tokens);
    prefix_cache_open(f->cache, &s->cursor, space, owner, text, match.usable, f->now_us, s->pages, state);
    for (uint32_t i = 0; match.usable && i < f->config.state_pages; i++)
        page_pool_release(f->pool, state[i]);
    s->page_count = s->hit = match.usable;
    return s;
}

/* Computes on to `count` tokens; a checkpoint every `grid` pages (0: none). */
static inline void sequence_compute(fixture *f, sequence *s, const int32_t *text, uint32_t count, uint32_t grid)
{
    uint32_t page_tokens = f->config.page_tokens;
    while ((s->page_count + 1) * page_tokens <= count) {
        page_id page = take_page(f, s->cursor.owner);
        s->pages[s->page_count] = page;
        assert_true(prefix_cache_extend(f->cache, &s->cursor, text + s->page_count * page_tokens, page, f->now_us));
        s->page_count++;
        if (grid && s->page_count % grid == 0)
            put_state(f, s);
    }
}

static inline void sequence_close(fixture *f, sequence *s, bool ended)
{
    prefix_cache_close(f->cache, &s->cursor, ended, f->now_us);
    for (uint32_t i = 0; i < s->page_count; i++)
        page_pool_release(f->pool, s->pages[i]);
    free(s);
}

/* One whole request; with states, a checkpoint at its end. Returns the pages that were found. */
static inline uint32_t request_run(fixture *f, uint64_t space, uint32_t owner, const int32_t *text, uint32_t count,
                                   uint32_t grid)
{
    f->now_us += 1000;
    sequence *s = sequence_open(f, space, owner, text, count);
    uint32_t hit = s->hit;
    sequence_compute(f, s, text, count, grid);
    if (f->config.state_pages)
        put_state(f, s);
    sequence_close(f, s, true);
    prefix_cache_trim(f->cache, f->now_us);
    return hit;
}

static inline uint32_t usable_pages(const fixture *f, uint64_t space, const int32_t *text, uint32_t count)
{
    return prefix_cache_find(f->cache, space, text, count, UINT32_MAX).usable;
}

static inline void fill_text(int32_t *text, uint32_t count, uint64_t seed)
{
    rng random = {seed};
    for (uint32_t i = 0; i < count; i++)
        text[i] = (int32_t)rng_below(&random, 50000);
}

#endif
