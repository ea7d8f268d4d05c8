/* cli/simulate_run.c: one plan, played against one world. */
#include <math.h>
#include <stdlib.h>

#include "cli/simulate.h"

enum { PAGE_TOKENS = 32, CHUNK_TOKENS = 2048, PAGES_MAX = 1 << 23, CONTEXT_MAX = 1 << 20, TICK_S = 600 };

static uint64_t longest_session(const simulate_result *r, uint32_t message_tokens)
{
    static const uint32_t messages[] = {[LOAD_AGENTS] = 2 * TURNS_MAX + 2, [LOAD_DOCUMENTS] = 2, [LOAD_TRACE] = 0};
    uint64_t longest = 0;
    for (uint32_t p = 0; p < r->plan.phase_count; p++)
        for (uint32_t g = 0; g < r->plan.phases[p].group_count; g++) {
            load_role role = r->plan.phases[p].groups[g].role;
            uint64_t tokens = workload_longest(&r->work, role) + (uint64_t)messages[role] * message_tokens;
            longest = tokens > longest ? tokens : longest;
        }
    return longest;
}

/* So long that each agent has read its first prompt and streams, whatever the policy. */
static double head_start_s(const simulate_options *o, const simulate_box *box)
{
    if (!o->sizes.prompt_tokens)
        return 0;
    double us = 0, tokens = o->sizes.prompt_tokens * o->scale;
    for (double at = 0; at < tokens; at += CHUNK_TOKENS)
        us += sim_costs_prefill_us(&box->costs, at, fmin(CHUNK_TOKENS, tokens - at));
    return 3 + 2 * us / 1e6 * (o->plan.agents ? o->plan.agents : 2);
}

static status make_plan(simulate_result *r, const simulate_options *o, const simulate_box *box, error *err)
{
    plan_options plan = o->plan;
    r->work = (workload){.seed = o->seed, .scale = o->scale, .sizes = o->sizes};
    if (o->day) {
        workload_day(plan.requests ? plan.requests : 10000, &r->plan, &r->work.sizes);
        return OK;
    }
    if (plan.kind == BENCH_TRACE) {
        status st = trace_file_open(&r->trace, o->trace_path, plan.requests, o->speed, err);
        if (st)
            return st;
        r->work.trace = &r->trace;
    }
    plan.head_start_s = head_start_s(o, box);
    workload_plan(&plan, &r->trace, &r->plan);
    return OK;
}

static status size_memory(simulate_result *r, const simulate_options *o, const simulate_box *box, sim_config *config,
                          error *err)
{
    uint64_t token_bytes = (uint64_t)(box->costs.kv_token_bytes + 0.5), longest = longest_session(r, o->message_tokens);
    token_bytes = token_bytes ? token_bytes : 1;
    r->page_tokens = PAGE_TOKENS;
    r->page_bytes = token_bytes * PAGE_TOKENS;
    r->pages = box->kv_memory / r->page_bytes;
    r->pages = r->pages > PAGES_MAX ? PAGES_MAX : r->pages;
    uint64_t context = o->context ? o->context : box->context ? box->context : longest + 64;
    r->context = (uint32_t)(context > CONTEXT_MAX ? CONTEXT_MAX : context);
    if (longest > r->context)
        return error_set(err, ERR_LIMIT, "a session of this load comes to %llu tokens, the context holds %u (--ctx)",
                         (unsigned long long)longest, r->context);
    uint64_t state = box->costs.state_bytes > 0 ? (uint64_t)ceil(box->costs.state_bytes / (double)r->page_bytes) : 0;
    if (r->pages < 8 + 2 * state)
        return error_set(err, ERR_LIMIT,
                         "the KV memory, %llu pages of %llu bytes, does not hold two recurrent states of %.3g GB "
                         "(--kv-memory)",
                         (unsigned long long)r->pages, (unsigned long long)r->page_bytes, box->costs.state_bytes / 1e9);
    if (longest > r->pages * PAGE_TOKENS)
        return error_set(err, ERR_LIMIT,
                         "a session of this load comes to %llu tokens, the KV memory of %.3g GB holds %llu "
                         "(--kv-memory)",
                         (unsigned long long)longest, (double)box->kv_memory / 1e9,
                         (unsigned long long)r->pages * PAGE_TOKENS);
    config->page_tokens = PAGE_TOKENS;
    config->page_count = (uint32_t)r->pages;
    config->kv_token_bytes = token_bytes;
    config->state_bytes = (uint64_t)(box->costs.state_bytes + 0.5);
    config->state_pages = (uint32_t)state;
    config->context_length = r->context;
    return OK;
}

static status size_cache(simulate_result *r, const simulate_options *o, const sim_config *config, world_config *out,
                         error *err)
{
    const runner_info info = {.page_tokens = PAGE_TOKENS,
                              .page_count = config->page_count,
                              .page_bytes = r->page_bytes,
                              .state_bytes = config->state_bytes,
                              .state_pages = config->state_pages};
    uint64_t pages = cache_wish_pages(&o->cache, &info, r->context);
    out->cache_off = o->cache_off;
    if (!pages)
        return OK;
    if (pages > config->page_count)
        return error_set(
            err, ERR_LIMIT, "--cache-sessions %u: that is %.3g GB, and the KV memory has %.3g (--kv-memory)",
            o->cache.sessions, (double)(pages * r->page_bytes) / 1e9, (double)(r->pages * r->page_bytes) / 1e9);
    r->idle_bytes = out->cache_idle_bytes = pages * r->page_bytes;
    return OK;
}

static status play(simulate_result *r, const simulate_options *o, world *w, const replay_config *how, error *err)
{
    status st = replay_run(how, &r->samples, r->spans, err);
    world_read_report(w, &r->world);
    r->stopped = how->stop && *how->stop;
    r->bounds = o->bounds;
    if (r->bounds.gap_ms <= 0)
        r->bounds.gap_ms = (double)r->world.boxes[0].gap_us / 1e3;
    if (!st)
        st = summary_build(&r->summary, &r->samples, &r->plan, r->spans, &r->bounds, err);
    return st ? st : load_beside_build(&r->beside, &r->samples, &r->plan, &r->summary, err);
}

status simulate_run(simulate_result *out, const simulate_options *o, const simulate_box *box,
                    void (*progress)(void *context, const load_progress_now *now), void *context, volatile int *stop,
                    error *err)
{
    *out = (simulate_result){.bounds = o->bounds};
    uint32_t chunk = o->schedule.chunk_tokens > CHUNK_TOKENS ? o->schedule.chunk_tokens : CHUNK_TOKENS;
    world_config config = {.policy = o->policy,
                           .schedule = o->schedule,
                           .boxes = o->boxes,
                           .decode_boxes = o->decode_boxes,
                           .link_bytes_s = (o->link_gb_s > 0 ? o->link_gb_s : box->link_gb_s) * 1e9,
                           .route = o->route,
                           .message_tokens = o->message_tokens,
                           .documents_batch = o->documents_batch,
                           .stop = stop};
    config.runner = (sim_config){.model_name = "sim",
                                 .costs = &box->costs,
                                 .light = true,
                                 .reply_tokens = UINT32_MAX,
                                 .max_sequences = o->parallel,
                                 .max_rows = o->parallel,
                                 .max_chunk_tokens = chunk};
    world *w = NULL;
    status st = make_plan(out, o, box, err);
    if (!st)
        st = size_memory(out, o, box, &config.runner, err);
    if (!st)
        st = size_cache(out, o, &config.runner, &config, err);
    if (!st)
        st = world_create(&w, &config, err);
    if (!st) {
        const replay_config how = {.work = &out->work,
                                   .plan = &out->plan,
                                   .transport = world_transport(w),
                                   .clock = world_clock(w),
                                   .tick_us = TICK_S * 1000000ull,
                                   .progress = progress,
                                   .context = context,
                                   .stop = stop};
        st = play(out, o, w, &how, err);
    }
    world_destroy(w);
    return st;
}

void simulate_result_free(simulate_result *r)
{
    samples_free(&r->samples);
    trace_file_free(&r->trace);
}
