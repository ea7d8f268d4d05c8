/* metrics/tenants.c: names, help and edges. */
#include "metrics/tenants.h"

#include <stdio.h>
#include <stdlib.h>

static const uint32_t window_minutes[TENANT_WINDOWS] = {WINDOW_HOUR, WINDOW_DAY};
static const char *const window_names[TENANT_WINDOWS] = {"1h", "24h"};

static counter *count_of(metrics_registry *registry, const char *labels, const char *name, const char *help)
{
    return metrics_counter(registry, (metric_name){name, help, labels});
}

static gauge *gauge_of(metrics_registry *registry, const char *labels, const char *name, const char *help)
{
    return metrics_gauge(registry, (metric_name){name, help, labels});
}

static void register_ratios(tenant_metrics *m, metrics_registry *registry)
{
    for (int i = 0; i < TENANT_WINDOWS; i++) {
        buf labels = {0};
        label_text(&labels, "tenant", m->name);
        label_text(&labels, "window", window_names[i]);
        m->input_output[i] = gauge_of(registry, labels.data, "headway_input_output_ratio",
                                      "Prompt tokens by generated tokens of a tenant, over the window.");
        m->reuse[i] = gauge_of(registry, labels.data, "headway_reuse_ratio",
                               "Part of a tenant's prompt tokens that came from a cache, over the window.");
        buf_free(&labels);
    }
}

void tenant_metrics_register(tenant_metrics *out, metrics_registry *registry, const char *name)
{
    *out = (tenant_metrics){.window = calloc(1, sizeof *out->window)};
    snprintf(out->name, sizeof out->name, "%s", name);
    buf text = {0};
    label_text(&text, "tenant", out->name);
    const char *labels = text.data;
    out->running = gauge_of(registry, labels, "headway_tenant_running", "Requests of a tenant that run.");
    out->waiting = gauge_of(registry, labels, "headway_tenant_waiting", "Requests of a tenant that wait.");
    out->tokens_held = gauge_of(registry, labels, "headway_tenant_tokens_in_flight",
                                "Prompt and answer tokens that a tenant's requests may hold.");
    out->device_s = count_of(registry, labels, "headway_tenant_device_seconds", "Device time used for a tenant.");
    out->prompt_tokens = count_of(registry, labels, "headway_tenant_prompt_tokens", "Prompt tokens of a tenant.");
    out->cached_tokens =
        count_of(registry, labels, "headway_tenant_cached_tokens", "Prompt tokens that came from a cache.");
    out->generated_tokens =
        count_of(registry, labels, "headway_tenant_generated_tokens", "Tokens generated for a tenant.");
    out->requests = count_of(registry, labels, "headway_tenant_requests", "Generations of a tenant.");
    out->refused = count_of(registry, labels, "headway_tenant_refused", "Generations refused to a tenant.");
    out->gaps = count_of(registry, labels, "headway_tenant_gaps", "Gaps of a tenant's interactive streams.");
    out->violations = count_of(registry, labels, "headway_tenant_gap_violations",
                               "Gaps of a tenant's interactive streams that were over their bound.");
    buf_free(&text);
    register_ratios(out, registry);
}

void tenant_metrics_close(tenant_metrics *m)
{
    free(m->window);
    m->window = NULL;
}

static void update_ratios(tenant_metrics *m, token_totals totals, uint64_t now_us)
{
    for (int i = 0; m->window && i < TENANT_WINDOWS; i++) {
        token_totals sum = token_window_sum(m->window, now_us, totals, window_minutes[i]);
        gauge_set(m->input_output[i], sum.generated ? (double)sum.prompt / (double)sum.generated : 0);
        gauge_set(m->reuse[i], sum.prompt ? (double)sum.cached / (double)sum.prompt : 0);
    }
}

void tenant_metrics_update(tenant_metrics *m, const tenant_numbers *now, uint64_t now_us)
{
    gauge_set(m->running, now->running);
    gauge_set(m->waiting, now->waiting);
    gauge_set(m->tokens_held, (double)now->tokens_held);
    counter_reach(m->device_s, (double)now->device_us / 1e6);
    counter_reach(m->prompt_tokens, (double)now->tokens.prompt);
    counter_reach(m->cached_tokens, (double)now->tokens.cached);
    counter_reach(m->generated_tokens, (double)now->tokens.generated);
    counter_reach(m->requests, (double)now->requests);
    counter_reach(m->refused, (double)now->refused);
    counter_reach(m->gaps, (double)now->gaps);
    counter_reach(m->violations, (double)now->violations);
    if (m->window)
        token_window_sample(m->window, now_us, now->tokens);
    update_ratios(m, now->tokens, now_us);
}

void tenant_metrics_gap(tenant_metrics *m, metrics_registry *registry, uint32_t klass, double gap_s)
{
    static const double edges[] = {.001, .002, .003, .004, .005, .006, .008, .01, .0125, .015, .02,
                                   .025, .03,  .035, .04,  .05,  .06,  .075, .1,  .15,   .2,   .3,
                                   .5,   .75,  1,    2.5,  5,    10,   20,   40,  80};
    static const char *const classes[TENANT_CLASSES] = {"interactive", "batch"};
    if (klass >= TENANT_CLASSES)
        return;
    if (!m->gap_s[klass]) {
        buf labels = {0};
        label_text(&labels, "tenant", m->name);
        label_text(&labels, "class", classes[klass]);
        m->gap_s[klass] = metrics_histogram(
            registry,
            (metric_name){"headway_gap_seconds", "Token to token of one stream, by tenant and class.", labels.data},
            edges, sizeof edges / sizeof *edges);
        buf_free(&labels);
    }
    histogram_observe(m->gap_s[klass], gap_s);
}
