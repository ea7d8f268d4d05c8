/* metrics/serving.h: the numbers of a serving engine under the names that dashboards know (vLLM's), with finer edges
 * below 10 ms, and Headway's own beside them. The server observes requests as they end and copies totals from the
 * engine's snapshot before it renders. Any thread, after serving_metrics_register. */
#ifndef HEADWAY_METRICS_SERVING_H
#define HEADWAY_METRICS_SERVING_H

#include "metrics/registry.h"

enum { SERVED_STOP, SERVED_LENGTH, SERVED_ABORT, SERVED_ERROR, SERVED_REASONS };

typedef struct {
    gauge *running, *waiting;            /* requests */
    gauge *kv_usage;                     /* 0 to 1 */
    gauge *cache_info;                   /* 1, the sizes are labels */
    counter *cache_queries, *cache_hits; /* tokens */
    counter *preemptions, *prompt_tokens, *prompt_tokens_cached, *generated_tokens;
    counter *finished[SERVED_REASONS];
    histogram *request_prompt_tokens, *request_generated_tokens, *request_max_tokens, *request_n; /* of one request */
    histogram *first_token_s, *between_tokens_s, *per_token_s, *request_s, *queue_s, *prefill_s, *decode_s,
        *inference_s;
    counter *steps, *decode_steps, *prefill_runs, *bytes, *busy_s, *prefill_busy_s, *decode_busy_s;
    gauge *bytes_per_s, *last_step_bytes, *roof_bytes_per_s, *roof_share;
    gauge *draining;
} serving_metrics;

typedef struct {
    uint32_t context_length, page_tokens, page_count;
    uint64_t page_bytes;
    bool prefix_cache; /* prefixes are kept */
} serving_sizes;

void serving_metrics_register(serving_metrics *out, metrics_registry *registry, const serving_sizes *sizes);

#endif
