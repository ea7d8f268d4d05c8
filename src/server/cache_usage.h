/* server/cache_usage.h: what does an answer say of the prefix cache? Words for places and causes, and for one exchange
 * the header `x-headway-cache` and the field `headway_cache`. Loop thread. */
#ifndef HEADWAY_SERVER_CACHE_USAGE_H
#define HEADWAY_SERVER_CACHE_USAGE_H

#include "server/exchange.h"

extern const char *const cache_miss_words[MISS_CAUSES];
extern const char *const cache_eviction_words[EVICTED_CAUSES];

uint32_t cache_hit_tokens(const cache_lookup *lookup);
/* The cause of most of the missed tokens; the rest of the last page, which is always computed, only if there is no
 * other. NULL: nothing was missed. */
const char *cache_main_cause(const cache_lookup *lookup);

/* The first token that no entry has. Of what only a tier had it is known to the page. looked_up: none differs. */
uint32_t cache_differs_at(const cache_lookup *lookup);

/* "x-headway-cache: hit=1984/2063; ram=1984; differs_at=2011; cause=new" of all prompts of x together; nothing when the
 * cache was not asked. */
void cache_usage_header(const exchange *x, buf *out);
/* ,"headway_cache":{...} of one generation that has ended; nothing when the cache was not asked. */
void cache_usage_field(const exchange *x, const generation *g, buf *out);

#endif
