/* cli/serve_cache.h: the prefix cache as the flags of `headway serve` want it: how much of the page pool may hold idle
 * prefixes, and which tiers stand behind it. Main thread. */
#ifndef HEADWAY_CLI_SERVE_CACHE_H
#define HEADWAY_CLI_SERVE_CACHE_H

#include "cli/help.h"
#include "engine/engine.h"
#include "runner/cache_plan.h"

typedef struct { /* texts borrowed from the flags */
    bool off;
    cache_wish wish;
    const char *disk, *redis; /* NULL: none */
    uint64_t disk_bytes, ttl_us;
} serve_cache;

/* Of values that serve_flags_check has seen. ERR_INVALID: two flags that contradict each other. */
status serve_cache_read(serve_cache *out, const command_flags *flags, error *err);
/* Sizes the cache for the pool of `r` and opens the tiers; engine_create takes them over. ERR_INVALID: the pool is too
 * small for it, or `r` cannot move pages. On failure nothing is open. */
status serve_cache_open(const serve_cache *c, runner *r, cache_config *out, error *err);
/* One line: what is kept, where, and what is there already. */
void serve_cache_describe(const serve_cache *c, const runner *r, const cache_config *config, char *text, size_t size);

#endif
