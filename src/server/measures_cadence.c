/* server/measures_cadence.c: from the engine's numbers about bounds, tenants and the step model to their series. */
#include "server/measures.h"

#include <assert.h>
#include <math.h>

static_assert((int)CADENCE_CAUSES == (int)GAP_CAUSES, "the causes of engine.h have their names in metrics/cadence.c");
static_assert((int)CADENCE_KINDS == (int)MODEL_KINDS,
              "the kinds of step_model.h have their names in metrics/cadence.c");

void measures_tenants(server_measures *m, engine *e, const tenant_table *table, uint64_t now_us)
{
    tenant_counts counts[TENANTS_MAX];
    uint32_t count = table->count < TENANTS_MAX ? table->count : TENANTS_MAX;
    engine_read_tenants(e, counts, count);
    for (uint32_t i = 0; i < count; i++) {
        const tenant_counts *c = &counts[i];
        if (i >= m->tenant_count) {
            tenant_metrics_register(&m->tenants[i], m->registry, table->tenants[i].name);
            m->tenant_count = i + 1;
        }
        tenant_numbers now = {.running = c->running,
                              .waiting = c->waiting,
                              .tokens_held = c->tokens_held,
                              .device_us = c->device_us,
                              .tokens = {c->prompt_tokens, c->cached_tokens, c->generated_tokens},
                              .requests = c->requests,
                              .refused = c->refused,
                              .gaps = c->gaps,
                              .violations = c->violations};
        tenant_metrics_update(&m->tenants[i], &now, now_us);
    }
}

void measures_gap(server_measures *m, uint32_t tenant, request_class klass, uint64_t gap_us)
{
    if (tenant < m->tenant_count)
        tenant_metrics_gap(&m->tenants[tenant], m->registry, klass, (double)gap_us / 1e6);
}

void measures_cadence(server_measures *m, engine *e, const engine_snapshot *now)
{
    cadence_metrics *c = &m->cadence;
    uint64_t step_us[CADENCE_KINDS] = {now->decode_us, now->prefill_us, now->fused_us};
    step_model model = engine_step_model(e);
    for (int i = 0; i < CADENCE_KINDS; i++) {
        model_error_summary error = step_model_error(&model, (model_kind)i);
        gauge_set(c->error_median[i], error.median_abs);
        gauge_set(c->error_under[i], error.under_p95);
        counter_reach(c->step_s[i], (double)step_us[i] / 1e6);
    }
    for (int i = 0; i < CADENCE_CAUSES; i++)
        counter_reach(c->violations[i], (double)now->violations[i]);
    counter_reach(c->gaps, (double)now->gaps);
    counter_reach(c->alarms, (double)now->alarms);
    gauge_set(c->bound_s, (double)now->gap_us / 1e6);
    gauge_set(c->smallest_s, now->admission.smallest_gap_us / 1e6);
    gauge_set(c->slack_s, now->slack_us == INT64_MAX ? INFINITY : (double)now->slack_us / 1e6);
}
