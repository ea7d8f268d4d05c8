/* server/measures.h: the numbers behind /metrics: those of metrics/serving.h, the essentials under llama.cpp's names,
 * and the connection layer's. Requests are observed as they end; totals are copied from snapshots before rendering.
 * Loop thread. */
#ifndef HEADWAY_SERVER_MEASURES_H
#define HEADWAY_SERVER_MEASURES_H

#include "engine/engine.h"
#include "metrics/cache.h"
#include "metrics/cadence.h"
#include "metrics/serving.h"
#include "metrics/tenants.h"
#include "server/connection.h"

typedef struct server_measures {
    metrics_registry *registry;
    serving_metrics serving;
    histogram *delivery_s; /* token sampled to frame written */
    histogram *refusal_s;  /* body read to answer, of requests that admission refuses */
    gauge *pages, *pages_free, *connections;
    counter *accepted, *http_requests, *http_refused, *timed_out, *refused, *cancelled;
    counter *prompt_seconds, *predicted_seconds, *llama_prompt_tokens, *llama_predicted, *llama_steps;
    gauge *llama_prompt_rate, *llama_predicted_rate, *llama_processing, *llama_deferred, *llama_busy_slots;
    cadence_metrics cadence;
    tenant_metrics tenants[TENANTS_MAX]; /* by index; `tenant_count` are registered */
    uint32_t tenant_count;
    cache_metrics cache; /* registered at the first measures_cache, which knows the tiers */
    cache_tenant_metrics cache_tenants[TENANTS_MAX];
    uint32_t cache_tenant_count;
    uint64_t window_bytes, window_busy_us; /* of the snapshot that the current rate began with */
} server_measures;

status measures_open(server_measures *m, const char *model_name, const runner_info *info, bool prefix_cache,
                     error *err);
void measures_close(server_measures *m);
/* Once in a while: the rate of the steps since the last call. */
void measures_window(server_measures *m, const engine_snapshot *e, const runner_info *info);
/* Once in a while and before rendering: a tenant that is new gets its series. */
void measures_tenants(server_measures *m, engine *e, const tenant_table *table, uint64_t now_us);
void measures_gap(server_measures *m, uint32_t tenant, request_class klass, uint64_t gap_us); /* between two tokens */
void measures_cadence(server_measures *m, engine *e, const engine_snapshot *now);             /* before rendering */
void measures_cache(server_measures *m, engine *e, const tenant_table *table);                /* before rendering */
void measures_render(server_measures *m, const engine_snapshot *e, const runner_info *info, const network_counts *n,
                     buf *out);

#endif
