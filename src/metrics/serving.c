/* metrics/serving.c: names, help and edges. */
#include "metrics/serving.h"

#include <stdio.h>

static const double first_token_edges[] = {.001, .002, .003, .004, .005, .006, .008, .01, .015, .02,
                                           .03,  .04,  .06,  .08,  .1,   .15,  .25,  .5,  .75,  1,
                                           2.5,  5,    7.5,  10,   20,   40,   80,   160, 640,  2560};
static const double between_tokens_edges[] = {.0005, .001, .0015, .002, .003, .004, .005, .006, .008, .01, .0125,
                                              .015,  .02,  .025,  .035, .05,  .075, .1,   .15,  .2,   .3,  .4,
                                              .5,    .75,  1,     2.5,  5,    7.5,  10,   20,   40,   80};
static const double request_edges[] = {.01, .025, .05, .1, .2, .3, .5, .8,  1,   1.5, 2,   2.5,  5,
                                       10,  15,   20,  30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
static const double n_edges[] = {1, 2, 5, 10, 20};

enum { TOKEN_EDGES_MAX = 40 };

typedef struct {
    const double *values;
    size_t count;
} edges;

#define EDGES(array) ((edges){array, sizeof array / sizeof array[0]})

static size_t one_two_five(double *out, uint32_t most) /* 1, 2, 5, 10, ... up to `most` */
{
    static const double steps[] = {1, 2, 5};
    size_t count = 0;
    for (double power = 1; power <= most; power *= 10)
        for (int i = 0; i < 3 && power * steps[i] <= most && count < TOKEN_EDGES_MAX; i++)
            out[count++] = power * steps[i];
    return count;
}

static counter *count_of(metrics_registry *registry, const char *name, const char *help)
{
    return metrics_counter(registry, (metric_name){name, help, NULL});
}

static gauge *gauge_of(metrics_registry *registry, const char *name, const char *help)
{
    return metrics_gauge(registry, (metric_name){name, help, NULL});
}

static histogram *spread_of(metrics_registry *registry, const char *name, const char *help, edges e)
{
    return metrics_histogram(registry, (metric_name){name, help, NULL}, e.values, e.count);
}

static void register_state(serving_metrics *m, metrics_registry *r, const serving_sizes *sizes)
{
    m->running = gauge_of(r, "vllm:num_requests_running", "Number of requests in the running batch.");
    m->waiting = gauge_of(r, "vllm:num_requests_waiting", "Number of requests waiting to be processed.");
    m->kv_usage = gauge_of(r, "vllm:kv_cache_usage_perc", "KV cache usage. 1 means 100 percent usage.");
    char labels[200];
    snprintf(labels, sizeof labels,
             "block_size=\"%u\",num_gpu_blocks=\"%u\",page_bytes=\"%llu\",context_length=\"%u\","
             "enable_prefix_caching=\"%s\"",
             sizes->page_tokens, sizes->page_count, (unsigned long long)sizes->page_bytes, sizes->context_length,
             sizes->prefix_cache ? "True" : "False");
    m->cache_info = metrics_gauge(r, (metric_name){"vllm:cache_config_info", "Sizes of the KV cache.", labels});
    gauge_set(m->cache_info, 1);
    m->draining = gauge_of(r, "headway:draining", "1 when no new work is taken.");
}

static void register_tokens(serving_metrics *m, metrics_registry *r, uint32_t context_length)
{
    static const char *const reasons[SERVED_REASONS] = {"finished_reason=\"stop\"", "finished_reason=\"length\"",
                                                        "finished_reason=\"abort\"", "finished_reason=\"error\""};
    m->cache_queries = count_of(r, "vllm:prefix_cache_queries", "Prefix cache queries, in tokens.");
    m->cache_hits = count_of(r, "vllm:prefix_cache_hits", "Prefix cache hits, in tokens.");
    m->preemptions = count_of(r, "vllm:num_preemptions", "Sequences put back to the queue.");
    m->prompt_tokens = count_of(r, "vllm:prompt_tokens", "Prompt tokens read.");
    m->prompt_tokens_cached = count_of(r, "vllm:prompt_tokens_cached", "Prompt tokens that came from a cache.");
    m->generated_tokens = count_of(r, "vllm:generation_tokens", "Tokens generated.");
    for (int i = 0; i < SERVED_REASONS; i++)
        m->finished[i] = metrics_counter(r, (metric_name){"vllm:request_success", "Requests ended.", reasons[i]});
    double values[TOKEN_EDGES_MAX];
    edges tokens = {values, one_two_five(values, context_length)};
    m->request_prompt_tokens = spread_of(r, "vllm:request_prompt_tokens", "Prompt tokens of a request.", tokens);
    m->request_generated_tokens =
        spread_of(r, "vllm:request_generation_tokens", "Generated tokens of a request.", tokens);
    m->request_max_tokens = spread_of(r, "vllm:request_params_max_tokens", "max_tokens of a request.", tokens);
    m->request_n = spread_of(r, "vllm:request_params_n", "n of a request.", EDGES(n_edges));
}

static void register_times(serving_metrics *m, metrics_registry *r)
{
    edges request = EDGES(request_edges), between = EDGES(between_tokens_edges);
    m->first_token_s =
        spread_of(r, "vllm:time_to_first_token_seconds", "Arrival to first token.", EDGES(first_token_edges));
    m->between_tokens_s = spread_of(r, "vllm:inter_token_latency_seconds", "Token to token of one stream.", between);
    m->per_token_s = spread_of(r, "vllm:request_time_per_output_token_seconds", "Mean gap of a request.", between);
    m->request_s = spread_of(r, "vllm:e2e_request_latency_seconds", "Arrival to end.", request);
    m->queue_s = spread_of(r, "vllm:request_queue_time_seconds", "Arrival to first slot.", request);
    m->prefill_s = spread_of(r, "vllm:request_prefill_time_seconds", "First slot to first token.", request);
    m->decode_s = spread_of(r, "vllm:request_decode_time_seconds", "First to last token.", request);
    m->inference_s = spread_of(r, "vllm:request_inference_time_seconds", "First slot to last token.", request);
}

static void register_device(serving_metrics *m, metrics_registry *r)
{
    m->steps = count_of(r, "headway:steps", "Steps carried out.");
    m->decode_steps = count_of(r, "headway:decode_steps", "Steps with decode rows.");
    m->prefill_runs = count_of(r, "headway:prefill_runs", "Steps with a chunk of a prompt.");
    m->bytes = count_of(r, "headway:useful_bytes", "Bytes of weights, KV and state that steps touched.");
    m->busy_s = count_of(r, "headway:busy_seconds", "Time in steps.");
    m->prefill_busy_s = count_of(r, "headway:prefill_seconds", "Time in steps with a chunk of a prompt.");
    m->decode_busy_s = count_of(r, "headway:decode_seconds", "Time in pure decode steps.");
    m->last_step_bytes = gauge_of(r, "headway:last_step_bytes", "Useful bytes of the last step.");
    m->bytes_per_s = gauge_of(r, "headway:bytes_per_second", "Useful bytes of the last step by its time.");
    m->roof_bytes_per_s =
        gauge_of(r, "headway:roof_bytes_per_second", "Measured read rate of a buffer of a step's size.");
    m->roof_share = gauge_of(r, "headway:roof_share", "bytes_per_second by roof_bytes_per_second.");
}

void serving_metrics_register(serving_metrics *out, metrics_registry *registry, const serving_sizes *sizes)
{
    *out = (serving_metrics){0};
    register_state(out, registry, sizes);
    register_tokens(out, registry, sizes->context_length);
    register_times(out, registry);
    register_device(out, registry);
}
