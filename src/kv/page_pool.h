/* kv/page_pool.h: which KV pages are free, and how many hold each of the others?
 * Ids and counts only; the bytes lie with the runner. A page is free or has a count >= 1; free + used == total always.
 * acquire and release are O(1) and allocate nothing. Owner: the scheduler; engine thread only. */
#ifndef HEADWAY_KV_PAGE_POOL_H
#define HEADWAY_KV_PAGE_POOL_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

typedef uint32_t page_id;
typedef struct page_pool page_pool;

typedef struct {
    uint32_t page_count;
    uint64_t shuffle_seed; /* 0: ids are lent in rising order at first; else the order is permuted by it (tests of
                              layouts) */
} page_pool_config;

typedef struct {
    uint32_t total, free;
    uint32_t idle;               /* kept pages with no other holder */
    uint64_t acquired, released; /* pages lent and given back so far; acquired - released == total - free */
} page_pool_counts;

status page_pool_create(page_pool **out, const page_pool_config *config, error *err);
void page_pool_destroy(page_pool *pool); /* NULL is allowed; the pages lent do not matter any more */

bool page_pool_acquire(page_pool *pool, page_id *out); /* count 1; false: none is free */
void page_pool_share(page_pool *pool, page_id page);   /* one more holder of a page in use */
void page_pool_release(page_pool *pool,
                       page_id page); /* one holder less; the last one frees it; asserts on a free page */

/* The prefix cache's own mark on a page that it holds a share of: a kept page with one holder is idle. */
void page_pool_keep(page_pool *pool, page_id page, bool kept); /* asserts that it changes */
/* Takes one page off the list of kept pages that became idle, or ceased to be, since the last call (some may have done
 * both, or be kept no more); false: the list is empty. So the cache need not look at all of them. */
bool page_pool_next_changed(page_pool *pool, page_id *out);

uint32_t page_pool_holders(const page_pool *pool, page_id page);
page_pool_counts page_pool_read_counts(const page_pool *pool);

#endif
