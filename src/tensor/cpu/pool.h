/* tensor/cpu/pool.h: how do all cores share one operation?
 * A job is `tile_count` calls of `tile`; workers and the caller claim tile indices one by one, so a slow core takes
 * fewer. Which thread runs a tile never changes its result: a tile writes only what is its own. pool_run returns when
 * every tile is done. Between pool_step_begin and pool_step_end idle workers spin (at most about 50 us) before they
 * sleep; outside a step they sleep at once. Workers run at nice +5. Owner: one cpu backend; all calls come from one
 * thread at a time. */
#ifndef HEADWAY_TENSOR_CPU_POOL_H
#define HEADWAY_TENSOR_CPU_POOL_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

typedef struct pool pool;

/* `worker` is 0 for the caller and below pool_threads for the others: two tiles that run at once have different ones.
 */
typedef void (*pool_tile)(void *ctx, uint32_t index, uint32_t worker);

/* `threads` counts the caller, so 1 starts no worker; 0 means one per core of this machine (POOL_THREADS_MAX at most).
 */
enum { POOL_THREADS_MAX = 256 };
status pool_open(pool **out, uint32_t threads, error *err);
void pool_close(pool *p); /* NULL allowed */
uint32_t pool_threads(const pool *p);

void pool_run(pool *p, pool_tile tile, void *ctx, uint32_t tile_count);
void pool_step_begin(pool *p);
void pool_step_end(pool *p);

/* Makes every worker's scratch at least `bytes` long (start-up only: never while a tile runs). */
status pool_reserve(pool *p, size_t bytes);
/* The worker's own scratch, 64-byte aligned, of the largest size reserved so far; contents are whatever the last tile
 * left. */
void *pool_scratch(const pool *p, uint32_t worker);

#endif
