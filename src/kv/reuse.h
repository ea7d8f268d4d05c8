/* kv/reuse.h: what would the cache find if it were larger or smaller? Watches the page keys that requests use, keeps
 * their reuse distances (in pages: how many other pages were used in between), and draws hits against size. Bounded: it
 * watches a fixed share of the keys, chosen by their hash, that halves when there are too many. Pure; owner: the
 * scheduler; engine thread only. */
#ifndef HEADWAY_KV_REUSE_H
#define HEADWAY_KV_REUSE_H

#include "kv/prefix_cache.h"

typedef struct reuse reuse;

status reuse_create(reuse **out, uint32_t keys_max, error *err); /* keys watched at most */
void reuse_destroy(reuse *r);                                    /* NULL allowed */
/* A request uses these pages, in order. `now_us` ages old uses: what happened an hour ago hardly counts. */
void reuse_saw(reuse *r, const prefix_key *keys, uint32_t count, uint64_t now_us);
bool reuse_knows(const reuse *r, prefix_key key); /* was it used before, as far as it is watched? false if unsure */
/* Share of the used pages that a cache of `pages` pages would have found. */
double reuse_hit_share(const reuse *r, uint32_t pages);
uint32_t reuse_largest(const reuse *r); /* pages: a larger cache would find nothing more */

#endif
