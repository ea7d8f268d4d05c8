/* kv/page_pool.c: a stack of free ids beside a table of counts. The last page given back is the first lent again: it is
 * the one most likely still warm in a cache. */
#include "kv/page_pool.h"

#include "base/rng.h"

#include <assert.h>
#include <stdlib.h>

struct page_pool {
    uint32_t *holders;   /* (total): 0 means free */
    uint8_t *kept;       /* (total): the prefix cache holds one share */
    uint8_t *listed;     /* (total): is in `changed` */
    page_id *changed;    /* (total): changed_count pages whose idleness changed */
    page_id *free_pages; /* (total): a stack of free_count ids */
    uint32_t total, free_count, idle, changed_count;
    uint64_t acquired, released;
};

static void fill_free_pages(page_pool *pool, uint64_t seed)
{
    for (uint32_t i = 0; i < pool->total; i++)
        pool->free_pages[i] = pool->total - 1 - i; /* a stack: id 0 comes out first */
    if (seed == 0)
        return;
    rng random = {seed};
    for (uint32_t i = pool->total; i > 1; i--) {
        uint32_t other = (uint32_t)rng_below(&random, i);
        page_id last = pool->free_pages[i - 1];
        pool->free_pages[i - 1] = pool->free_pages[other];
        pool->free_pages[other] = last;
    }
}

status page_pool_create(page_pool **out, const page_pool_config *config, error *err)
{
    if (config->page_count == 0)
        return error_set(err, ERR_INVALID, "page pool: 0 pages, want at least 1");
    page_pool *pool = calloc(1, sizeof *pool);
    if (pool) {
        pool->holders = calloc(config->page_count, sizeof *pool->holders);
        pool->kept = calloc(config->page_count, sizeof *pool->kept);
        pool->listed = calloc(config->page_count, sizeof *pool->listed);
        pool->changed = calloc(config->page_count, sizeof *pool->changed);
        pool->free_pages = calloc(config->page_count, sizeof *pool->free_pages);
    }
    if (!pool || !pool->holders || !pool->kept || !pool->listed || !pool->changed || !pool->free_pages) {
        page_pool_destroy(pool);
        return error_set(err, ERR_MEMORY, "page pool: no memory for the tables of %u pages", config->page_count);
    }
    pool->total = pool->free_count = config->page_count;
    fill_free_pages(pool, config->shuffle_seed);
    *out = pool;
    return OK;
}

void page_pool_destroy(page_pool *pool)
{
    if (!pool)
        return;
    free(pool->holders);
    free(pool->kept);
    free(pool->listed);
    free(pool->changed);
    free(pool->free_pages);
    free(pool);
}

/* A kept page with one holder is idle from now on, or was until now. */
static void idle_changed(page_pool *pool, page_id page, bool idle)
{
    pool->idle += idle ? 1 : UINT32_MAX;
    if (!pool->listed[page])
        pool->changed[pool->changed_count++] = page;
    pool->listed[page] = 1;
}

bool page_pool_acquire(page_pool *pool, page_id *out)
{
    if (pool->free_count == 0)
        return false;
    page_id page = pool->free_pages[--pool->free_count];
    assert(pool->holders[page] == 0);
    pool->holders[page] = 1;
    pool->acquired++;
    *out = page;
    return true;
}

void page_pool_share(page_pool *pool, page_id page)
{
    assert(page < pool->total && pool->holders[page] > 0 && pool->holders[page] < UINT32_MAX);
    if (pool->kept[page] && pool->holders[page] == 1)
        idle_changed(pool, page, false);
    pool->holders[page]++;
}

void page_pool_release(page_pool *pool, page_id page)
{
    assert(page < pool->total && pool->holders[page] > 0);
    if (--pool->holders[page] > 0) {
        if (pool->kept[page] && pool->holders[page] == 1)
            idle_changed(pool, page, true);
        return;
    }
    assert(!pool->kept[page]);
    assert(pool->free_count < pool->total);
    pool->free_pages[pool->free_count++] = page;
    pool->released++;
}

void page_pool_keep(page_pool *pool, page_id page, bool kept)
{
    assert(page < pool->total && pool->holders[page] > 0 && pool->kept[page] != kept);
    pool->kept[page] = kept;
    if (pool->holders[page] == 1)
        idle_changed(pool, page, kept);
}

bool page_pool_next_changed(page_pool *pool, page_id *out)
{
    if (pool->changed_count == 0)
        return false;
    *out = pool->changed[--pool->changed_count];
    pool->listed[*out] = 0;
    return true;
}

uint32_t page_pool_holders(const page_pool *pool, page_id page)
{
    assert(page < pool->total);
    return pool->holders[page];
}

page_pool_counts page_pool_read_counts(const page_pool *pool)
{
    return (page_pool_counts){pool->total, pool->free_count, pool->idle, pool->acquired, pool->released};
}
