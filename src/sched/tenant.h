/* sched/tenant.h: who shares this box, and what is each promised? Names and numbers only; API keys stay with the
 * server. A table is immutable once given to the engine (engine_set_tenants copies it); a tenant keeps its index over
 * reloads, so that counts and requests of before stay its own. Index 0 is "default": whoever names nobody. */
#ifndef HEADWAY_SCHED_TENANT_H
#define HEADWAY_SCHED_TENANT_H

#include "sched/request.h"

enum { TENANTS_MAX = 64, TENANT_NAME_MAX = 64 };

typedef struct {
    char name[TENANT_NAME_MAX];
    request_class klass;     /* of requests that do not say */
    double weight;           /* > 0: its part of the device time among the backlogged tenants of one class */
    uint32_t concurrent_max; /* requests that run at once; more wait. 0: no limit of its own */
    uint32_t queued_max;     /* requests that wait; more are refused. 0: no limit of its own */
    uint64_t tokens_max;     /* prompt + max_tokens of all its requests in the engine. 0: no limit of its own */
    uint64_t gap_us;         /* bound between two tokens of its interactive streams. 0: the server's */
    uint64_t first_token_us; /* bound on the time to first token. 0: none */
    char share_prefix[TENANT_NAME_MAX]; /* tenants of one group share cached prefixes; "": its own only */
    uint64_t cache_floor;               /* bytes of its cached prefixes that no other tenant's may push out */
    bool removed;                       /* by a reload: takes no new requests, its index is kept */
} tenant;

typedef struct {
    uint32_t count; /* >= 1 */
    tenant tenants[TENANTS_MAX];
} tenant_table;

typedef struct {               /* of one tenant, since the start; published by the engine */
    uint32_t running, waiting; /* requests now */
    uint64_t tokens_held;      /* prompt + max_tokens of its requests in the engine */
    uint64_t device_us;        /* device time used for it */
    uint64_t prompt_tokens, cached_tokens, generated_tokens;
    uint64_t requests, refused;
    double cached_share;       /* of the tokens of a conversation's turn, that were cached, lately */
    uint64_t gaps, violations; /* gaps of its interactive streams; those over the bound */
} tenant_counts;

static inline tenant_table tenant_table_default(void)
{
    return (tenant_table){.count = 1, .tenants = {{.name = "default", .weight = 1}}};
}

#endif
