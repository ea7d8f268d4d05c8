/* server/measures.c: see measures.h. */
#include "server/measures.h"

static counter *count_of(server_measures *m, const char *name, const char *help)
{
    return metrics_counter(m->registry, (metric_name){name, help, NULL});
}

static gauge *gauge_of(server_measures *m, const char *name, const char *help)
{
    return metrics_gauge(m->registry, (metric_name){name, help, NULL});
}

static void register_own(server_measures *m)
{
    static const double edges[] = {.0001, .0002, .0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10};
    m->delivery_s = metrics_histogram(
        m->registry,
        (metric_name){"headway:token_delivery_seconds", "Token sampled to its frame written to the client.", NULL},
        edges, sizeof edges / sizeof *edges);
    m->refusal_s = metrics_histogram(
        m->registry,
        (metric_name){"headway_refusal_seconds", "Request read to its refusal written, for want of room.", NULL}, edges,
        sizeof edges / sizeof *edges);
    m->pages = gauge_of(m, "headway:pages", "KV pages of the pool.");
    m->pages_free = gauge_of(m, "headway:pages_free", "KV pages that no request holds, idle cached ones among them.");
    m->connections = gauge_of(m, "headway:connections", "Open connections.");
    m->accepted = count_of(m, "headway:connections_accepted", "Connections accepted.");
    m->http_requests = count_of(m, "headway:http_requests", "HTTP requests read.");
    m->http_refused = count_of(m, "headway:http_refused", "Malformed, late or oversized HTTP requests.");
    m->timed_out = count_of(m, "headway:http_timed_out", "Connections that missed a deadline.");
    m->refused = count_of(m, "headway:requests_refused", "Generations refused at admission.");
    m->cancelled = count_of(m, "headway:requests_cancelled", "Generations cancelled.");
}

static void register_llamacpp(server_measures *m)
{
    m->llama_prompt_tokens = count_of(m, "llamacpp:prompt_tokens", "Prompt tokens read.");
    m->prompt_seconds = count_of(m, "llamacpp:prompt_seconds", "Time from first slot to first token.");
    m->llama_predicted = count_of(m, "llamacpp:tokens_predicted", "Tokens generated.");
    m->predicted_seconds = count_of(m, "llamacpp:tokens_predicted_seconds", "Time from first to last token.");
    m->llama_steps = count_of(m, "llamacpp:n_decode", "Steps carried out.");
    m->llama_prompt_rate = gauge_of(m, "llamacpp:prompt_tokens_seconds", "Mean prompt tokens per second of a request.");
    m->llama_predicted_rate = gauge_of(m, "llamacpp:predicted_tokens_seconds", "Mean tokens per second of a stream.");
    m->llama_processing = gauge_of(m, "llamacpp:requests_processing", "Requests in the running batch.");
    m->llama_deferred = gauge_of(m, "llamacpp:requests_deferred", "Requests waiting.");
    m->llama_busy_slots = gauge_of(m, "llamacpp:n_busy_slots_per_decode", "Mean streams of a decode step.");
}

status measures_open(server_measures *m, const char *model_name, const runner_info *info, bool prefix_cache, error *err)
{
    buf labels = {0};
    label_text(&labels, "model_name", model_name);
    label_text(&labels, "engine", "0");
    status st = metrics_registry_create(&m->registry, labels.data, err);
    buf_free(&labels);
    if (st)
        return st;
    serving_sizes sizes = {info->context_length, info->page_tokens, info->page_count, info->page_bytes, prefix_cache};
    serving_metrics_register(&m->serving, m->registry, &sizes);
    register_own(m);
    register_llamacpp(m);
    cadence_metrics_register(&m->cadence, m->registry);
    return OK;
}

void measures_close(server_measures *m)
{
    for (uint32_t i = 0; i < m->tenant_count; i++)
        tenant_metrics_close(&m->tenants[i]);
    m->tenant_count = 0;
    metrics_registry_destroy(m->registry);
    m->registry = NULL;
}

void measures_window(server_measures *m, const engine_snapshot *e, const runner_info *info)
{
    uint64_t busy = e->busy_us - m->window_busy_us;
    if (busy < 1000)
        return;
    double rate = (double)(e->bytes - m->window_bytes) / (double)busy * 1e6;
    double share = info->read_roof > 0 ? rate / info->read_roof : 0;
    gauge_set(m->serving.bytes_per_s, rate);
    gauge_set(m->serving.roof_share, share);
    gauge_set(m->cadence.bytes_per_s, rate);
    gauge_set(m->cadence.roof_ratio, share);
    m->window_bytes = e->bytes;
    m->window_busy_us = e->busy_us;
}

static void refresh_engine(server_measures *m, const engine_snapshot *e, const runner_info *info)
{
    serving_metrics *s = &m->serving;
    gauge_set(s->running, e->running);
    gauge_set(s->waiting, e->waiting);
    gauge_set(s->kv_usage, e->pages_total ? 1.0 - (double)e->pages_free / e->pages_total : 0);
    gauge_set(s->cache_info, 1);
    gauge_set(s->draining, e->draining);
    gauge_set(s->last_step_bytes, (double)e->last_step_bytes);
    gauge_set(s->roof_bytes_per_s, info->read_roof);
    counter_reach(s->preemptions, (double)e->preemptions);
    counter_reach(s->prompt_tokens, (double)e->prompt_tokens);
    counter_reach(s->prompt_tokens_cached, (double)e->cached_tokens);
    counter_reach(s->generated_tokens, (double)e->generated_tokens);
    counter_reach(s->steps, (double)e->steps);
    counter_reach(s->decode_steps, (double)e->decode_steps);
    counter_reach(s->prefill_runs, (double)e->prefill_runs);
    counter_reach(s->bytes, (double)e->bytes);
    counter_reach(s->busy_s, (double)e->busy_us * 1e-6);
    counter_reach(s->prefill_busy_s, (double)e->prefill_us * 1e-6);
    counter_reach(s->decode_busy_s, (double)e->decode_us * 1e-6);
    gauge_set(m->pages, e->pages_total);
    gauge_set(m->pages_free, e->pages_free);
    counter_reach(m->cancelled, (double)e->cancelled);
}

static void refresh_llamacpp(server_measures *m, const engine_snapshot *e)
{
    const serving_metrics *s = &m->serving;
    double prefill = counter_value(m->prompt_seconds), decode = counter_value(m->predicted_seconds);
    counter_reach(m->llama_prompt_tokens, (double)e->prompt_tokens);
    counter_reach(m->llama_predicted, (double)e->generated_tokens);
    counter_reach(m->llama_steps, (double)e->steps);
    gauge_set(m->llama_prompt_rate, prefill > 0 ? histogram_sum(s->request_prompt_tokens) / prefill : 0);
    gauge_set(m->llama_predicted_rate, decode > 0 ? histogram_sum(s->request_generated_tokens) / decode : 0);
    gauge_set(m->llama_processing, e->running);
    gauge_set(m->llama_deferred, e->waiting);
    gauge_set(m->llama_busy_slots, e->decode_steps ? (double)e->decode_rows / (double)e->decode_steps : 0);
}

void measures_render(server_measures *m, const engine_snapshot *e, const runner_info *info, const network_counts *n,
                     buf *out)
{
    measures_window(m, e, info);
    refresh_engine(m, e, info);
    refresh_llamacpp(m, e);
    gauge_set(m->connections, n->open);
    counter_reach(m->accepted, (double)n->accepted);
    counter_reach(m->http_requests, (double)n->requests);
    counter_reach(m->http_refused, (double)n->refused);
    counter_reach(m->timed_out, (double)n->timed_out);
    metrics_registry_render(m->registry, out);
}
