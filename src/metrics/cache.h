/* metrics/cache.h: what is kept of prompts, where, and what was found of it. Copied in from the engine's report before
 * rendering. One thread registers and writes. */
#ifndef HEADWAY_METRICS_CACHE_H
#define HEADWAY_METRICS_CACHE_H

#include "metrics/registry.h"

/* In the order of sched/cache_report.h and kv/prefix_cache.h. */
enum { CACHE_METRIC_TIERS = 2, CACHE_METRIC_MISSES = 6, CACHE_METRIC_EVICTIONS = 4, CACHE_METRIC_STATES = 4 };

typedef struct { /* of one tier */
    gauge *records, *bytes, *bytes_max, *online;
    counter *puts, *put_bytes, *gets, *get_bytes, *misses, *damaged, *dropped, *errors;
} cache_tier_metrics;

typedef struct {
    counter *external_queries, *external_hits; /* tokens: of all tiers, vLLM's names */
    counter *evicted_pages[CACHE_METRIC_EVICTIONS], *evicted_checkpoints[CACHE_METRIC_EVICTIONS];
    gauge *idle_pages, *idle_pages_max, *checkpoints, *nodes, *entries[CACHE_METRIC_STATES];
    gauge *sessions_live, *sessions_fit, *sessions_bytes;
    cache_tier_metrics tiers[CACHE_METRIC_TIERS];
    uint32_t tier_count;
} cache_metrics;

typedef struct { /* of one tenant; hits: RAM, then the tiers */
    counter *hits[1 + CACHE_METRIC_TIERS], *misses[CACHE_METRIC_MISSES], *evicted_pages;
    gauge *pages;
} cache_tenant_metrics;

typedef struct {
    uint32_t count;
    const char *names[CACHE_METRIC_TIERS];
} cache_metric_tiers;

void cache_metrics_register(cache_metrics *out, metrics_registry *registry, const cache_metric_tiers *tiers);
void cache_tenant_metrics_register(cache_tenant_metrics *out, metrics_registry *registry, const char *tenant,
                                   const cache_metric_tiers *tiers);

#endif
