/* server/debug/state.c: GET /debug/state: the engine's numbers, its tenants, every live stream. */
#include "server/debug/debug.h"

#include <inttypes.h>

#include "base/clock.h"
#include "base/memory_info.h"
#include "server/measures.h"

static void write_engine(buf *out, const engine_snapshot *e)
{
    static const char *const causes[GAP_CAUSES] = {"prefill", "decode", "machine", "preemption", "policy"};
    buf_printf(out,
               "\"engine\":{\"running\":%u,\"waiting\":%u,\"max_sequences\":%u,\"steps\":%" PRIu64
               ",\"decode_steps\":%" PRIu64 ",\"prefill_runs\":%" PRIu64 ",\"fused_steps\":%" PRIu64
               ",\"decode_us\":%" PRIu64 ",\"prefill_us\":%" PRIu64 ",\"fused_us\":%" PRIu64 ",\"busy_us\":%" PRIu64,
               e->running, e->waiting, e->max_sequences, e->steps, e->decode_steps, e->prefill_runs, e->fused_steps,
               e->decode_us, e->prefill_us, e->fused_us, e->busy_us);
    buf_printf(out,
               ",\"prompt_tokens\":%" PRIu64 ",\"cached_tokens\":%" PRIu64 ",\"generated_tokens\":%" PRIu64
               ",\"preemptions\":%" PRIu64 ",\"cancelled\":%" PRIu64 ",\"gaps\":%" PRIu64 ",\"alarms\":%" PRIu64
               ",\"gap_us\":%" PRIu64 ",\"smallest_gap_us\":%.0f,\"document_tokens\":%u,\"slack_us\":",
               e->prompt_tokens, e->cached_tokens, e->generated_tokens, e->preemptions, e->cancelled, e->gaps,
               e->alarms, e->gap_us, e->admission.smallest_gap_us, e->admission.document_tokens);
    if (e->slack_us == INT64_MAX)
        buf_text(out, "null");
    else
        buf_printf(out, "%" PRId64, e->slack_us);
    buf_text(out, ",\"violations\":{");
    for (int i = 0; i < GAP_CAUSES; i++)
        buf_printf(out, "%s\"%s\":%" PRIu64, i ? "," : "", causes[i], e->violations[i]);
    buf_text(out, "}}");
}

static void write_model(buf *out, engine *e)
{
    static const char *const kinds[MODEL_KINDS] = {"decode", "prefill", "fused"};
    step_model model = engine_step_model(e);
    buf_text(out, ",\"step_model\":{");
    for (int i = 0; i < MODEL_KINDS; i++) {
        model_error_summary error = step_model_error(&model, (model_kind)i);
        buf_printf(out, "%s\"%s\":{\"median_error\":%.4f,\"under_p95\":%.4f,\"steps\":%u}", i ? "," : "", kinds[i],
                   error.median_abs, error.under_p95, error.count);
    }
    buf_byte(out, '}');
}

static void write_device(buf *out, const exchange *x, const engine_snapshot *e)
{
    const runner_info *info = engine_runner_info(x->model->engine);
    const serving_metrics *m = &server_measures_of(x->server)->serving;
    buf_printf(out,
               ",\"memory\":{\"pages_total\":%u,\"pages_free\":%u,\"page_bytes\":%" PRIu64
               ",\"page_tokens\":%u,\"weight_bytes\":%" PRIu64 ",\"resident_bytes\":%" PRIu64 "}",
               e->pages_total, e->pages_free, info->page_bytes, info->page_tokens, info->weight_bytes,
               memory_resident());
    buf_text(out, ",\"roof\":{\"bytes_per_s\":");
    json_text_number(out, gauge_value(m->bytes_per_s));
    buf_text(out, ",\"roof_bytes_per_s\":");
    json_text_number(out, info->read_roof);
    buf_byte(out, '}');
}

static void write_tenants(buf *out, const exchange *x)
{
    const tenant_table *table = server_tenants(x->server);
    tenant_counts counts[TENANTS_MAX];
    server_measures *m = server_measures_of(x->server);
    engine_read_tenants(x->model->engine, counts, table->count);
    buf_text(out, ",\"tenants\":[");
    for (uint32_t i = 0; i < table->count; i++) {
        const tenant *t = &table->tenants[i];
        const tenant_counts *c = &counts[i];
        const tenant_metrics *known = i < m->tenant_count ? &m->tenants[i] : NULL;
        buf_text(out, i ? ",{\"name\":" : "{\"name\":");
        json_text_string(out, span_from(t->name));
        buf_printf(out,
                   ",\"class\":\"%s\",\"weight\":%g,\"removed\":%s,\"running\":%u,\"waiting\":%u,\"queued_max\":%u"
                   ",\"gap_us\":%" PRIu64 ",\"device_us\":%" PRIu64 ",\"prompt_tokens\":%" PRIu64
                   ",\"cached_tokens\":%" PRIu64 ",\"generated_tokens\":%" PRIu64 ",\"requests\":%" PRIu64
                   ",\"refused\":%" PRIu64 ",\"gaps\":%" PRIu64 ",\"violations\":%" PRIu64,
                   t->klass == CLASS_BATCH ? "batch" : "interactive", t->weight, t->removed ? "true" : "false",
                   c->running, c->waiting, t->queued_max, t->gap_us, c->device_us, c->prompt_tokens, c->cached_tokens,
                   c->generated_tokens, c->requests, c->refused, c->gaps, c->violations);
        buf_printf(out, ",\"input_output_1h\":%.4g,\"reuse_1h\":%.4g}", known ? gauge_value(known->input_output[0]) : 0,
                   known ? gauge_value(known->reuse[0]) : 0);
    }
    buf_byte(out, ']');
}

static void write_stream(buf *out, const exchange *x, const generation *g, uint64_t now_us)
{
    const char *phase = g->tokens ? "decoding" : g->prompt_done > g->cached ? "reading" : "waiting";
    if (x->connection && connection_congested(x->connection))
        phase = "client is slow";
    buf_printf(out,
               "{\"id\":%" PRIu64 ",\"tenant\":%u,\"class\":\"%s\",\"phase\":\"%s\",\"age_us\":%" PRIu64
               ",\"prompt_done\":%u,\"prompt_tokens\":%u,\"cached\":%u,\"tokens\":%u",
               g->id, g->tenant, g->klass == CLASS_BATCH ? "batch" : "interactive", phase, now_us - x->arrived_us,
               g->prompt_done, g->prompt_tokens, g->cached, g->tokens);
    buf_printf(out,
               ",\"first_token_us\":%" PRIu64 ",\"since_token_us\":%" PRIu64 ",\"bound_us\":%" PRIu64
               ",\"last_gap_us\":%" PRIu64 ",\"worst_gap_us\":%" PRIu64 ",\"middle_gap_us\":%.0f,\"over\":%u}",
               g->tokens ? g->first_us - x->arrived_us : 0, g->tokens && now_us > g->last_us ? now_us - g->last_us : 0,
               g->gaps.bound_us, g->gaps.last_us, g->gaps.worst_us, gap_stats_middle_us(&g->gaps), g->gaps.over);
}

static void write_streams(buf *out, const exchange *self, uint64_t now_us)
{
    uint32_t total = 0;
    buf_text(out, ",\"streams\":[");
    for (const exchange *x = server_exchanges(self->server); x; x = x->next)
        for (uint32_t i = 0; x->live && i < x->count; i++) {
            if (x->generations[i].done)
                continue;
            if (total > 0 && total < STREAMS_MAX)
                buf_byte(out, ',');
            if (total++ < STREAMS_MAX)
                write_stream(out, x, &x->generations[i], now_us);
        }
    buf_printf(out, "],\"streams_total\":%u", total);
}

void debug_state(exchange *x)
{
    engine_snapshot now;
    uint64_t now_us = clock_now_us();
    char description[512] = "";
    buf *out = &x->answer.body;
    engine *e = x->model->engine;
    engine_read_snapshot(e, &now);
    engine_describe(e, description, sizeof description);
    buf_printf(out, "{\"now_us\":%" PRIu64 ",\"model\":", now_us);
    json_text_string(out, span_from(x->model->name));
    buf_printf(out, ",\"context_length\":%u,\"description\":", x->model->context_length);
    json_text_string(out, span_from(description));
    buf_printf(out, ",\"health\":\"%s\",", health_word(server_health(x->server, &now, now_us)));
    write_engine(out, &now);
    write_model(out, e);
    write_device(out, x, &now);
    write_tenants(out, x);
    debug_write_cache(out, x, now_us); /* a sleeping engine's snapshot is old, its clock is ours */
    write_streams(out, x, now_us);
    buf_byte(out, '}');
    buf_text(&x->answer.headers, "Cache-Control: no-store\r\n");
    x->answer.status = 200;
    x->answer.type = "application/json";
}
