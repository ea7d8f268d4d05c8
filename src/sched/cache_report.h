/* sched/cache_report.h: what does the prefix cache hold, what did it find and what did it miss? Numbers only, in tokens
 * unless said; a consistent copy for metrics, the dashboard and usage fields. */
#ifndef HEADWAY_SCHED_CACHE_REPORT_H
#define HEADWAY_SCHED_CACHE_REPORT_H

#include "kv/tiering.h"
#include "sched/tenant.h"

enum { PLACE_RAM, PLACE_TIERS, CACHE_PLACES = PLACE_TIERS + TIERS_MAX }; /* PLACE_TIERS + i: tier i */

typedef enum {               /* why tokens of a prompt had to be computed */
               MISS_NEW,     /* nobody has sent them before: what comes after the nearest entry's first difference */
               MISS_EVICTED, /* they were here, and had to go */
               MISS_STATE,   /* their KV is here, but no checkpoint of the recurrent state */
               MISS_SLOWER,  /* a tier has them, but computing them is faster */
               MISS_FAILED,  /* a tier said it had them, and they were not whole or did not come */
               MISS_LAST,    /* the rest of the last page, which is always computed */
               MISS_CAUSES
} miss_cause;

typedef struct {        /* of one request */
    uint32_t looked_up; /* prompt tokens */
    uint32_t hits[CACHE_PLACES];
    uint32_t misses[MISS_CAUSES];
    uint32_t differs_at; /* the first token that no entry has; looked_up: the whole prompt was there */
} cache_lookup;

typedef struct { /* since the start */
    uint64_t looked_up, hits[CACHE_PLACES], misses[MISS_CAUSES];
    uint64_t evicted_pages;
    uint32_t pages; /* now, interactive and batch */
} cache_tenant;

enum { REUSE_POINTS = 24 };

typedef struct { /* what the cache would find if it had `pages` pages, of the newest uses */
    uint32_t pages;
    double hit_share; /* of tokens */
} reuse_point;

typedef struct {
    bool on;
    prefix_cache_counts counts;
    uint32_t page_tokens, idle_pages_max;
    uint64_t page_bytes;
    cache_tenant tenants[TENANTS_MAX];
    uint32_t line_count;
    prefix_line lines[PREFIX_LINES_MAX];
    bool line_spilled[PREFIX_LINES_MAX]; /* a tier still has its last page */
    uint32_t tier_count;
    const char *tier_names[TIERS_MAX];
    tier_counts tiers[TIERS_MAX];
    reuse_point curve[REUSE_POINTS];
    uint32_t curve_count;
    uint32_t sessions_live, sessions_fit; /* that come back to their prefix; of them, how many fit now */
    uint64_t sessions_bytes;              /* for all of them */
} cache_report;

#endif
