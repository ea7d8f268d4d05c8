/* plan/plan.c: memory and decode; the rest lies in plan_prefill.c and plan_more.c. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan/plan_private.h"

/* What a runtime takes besides: its code and tables, what it keeps of the weights twice, a chunk's activations. */
static const double runtime_bytes = 100e6, runtime_share = 0.03, activation_row_bytes = 24;
static const uint32_t batch_steps[] = {1, 2, 4, 8, 16, 32};
enum { SHALLOW = 1024 /* as plan/cost.h has it */, FEW_ROWS = 4 /* that shares are known of */ };
static const double spread_share = 0.85; /* what a step may reach when many rows share what a step costs besides */
static const double depth_steps[] = {0, 4096, 23000, 130000};

/* ---- runs of the pair ---- */

static bool same_type(const run_record *run, const plan_request *q)
{
    return q->box.type.name && !strcmp(run->type, q->box.type.name);
}

/* Small, so that looking up many depths costs little. */
static status take_pair(plan_work *w, error *err)
{
    const plan_request *q = w->q;
    if (!q->runs || !q->model || q->hardware_changed || q->kv_changed || q->box.devices != 1 ||
        q->box.step_bytes_fixed > 0)
        return OK;
    w->pair.items = calloc(q->runs->count ? q->runs->count : 1, sizeof *w->pair.items);
    if (!w->pair.items)
        return error_set(err, ERR_MEMORY, "out of memory");
    w->pair.capacity = q->runs->count;
    for (uint32_t i = 0; i < q->runs->count; i++) {
        const run_record *run = &q->runs->items[i];
        if (!strcmp(run->hardware, q->box.hw.name) && !strcmp(run->model, q->box.shape.name) && same_type(run, q))
            w->pair.items[w->pair.count++] = *run;
    }
    return OK;
}

run_summary plan_find(const plan_work *w, run_kind kind, uint32_t batch, double depth)
{
    if (!w->pair.count)
        return (run_summary){0};
    const plan_request *q = w->q;
    return run_set_find(&w->pair, kind, q->box.hw.name, q->box.shape.name, q->box.type.name, batch,
                        (uint32_t)fmin(depth, UINT32_MAX));
}

run_summary plan_find_runtime(const plan_work *w, const char *runtime, uint32_t batch, double depth)
{
    plan_work of = {.q = w->q};
    for (uint32_t i = 0; i < w->pair.count; i++)
        if (!strcmp(w->pair.items[i].runtime, runtime) && run_set_add(&of.pair, &w->pair.items[i]))
            break;
    run_summary found = plan_find(&of, RUN_DECODE, batch, depth);
    run_set_free(&of.pair);
    return found;
}

/* ---- decode ---- */

static double share_of(const cost_box *b, const run_summary *m, uint32_t batch, double depth)
{
    return cost_step_bytes(b, batch, depth) * m->median / batch / cost_bandwidth(b);
}

/* The run of the pair that is nearest, first in streams, then in depth. */
plan_near plan_nearest(const plan_work *w, run_kind kind, uint32_t batch, double depth)
{
    enum { OTHER_BATCH = 100 /* farther than any depth */ };
    plan_near near = {.batch = batch, .depth = depth};
    double best = INFINITY;
    for (uint32_t i = 0; i < w->pair.count; i++) {
        const run_record *run = &w->pair.items[i];
        double far = fabs(log((run->prompt_tokens + 1000) / (depth + 1000))) +
                     OTHER_BATCH * fabs(log((double)run->batch / batch));
        if (run->kind != kind || far >= best)
            continue;
        best = far;
        near.batch = run->batch;
        near.depth = run->prompt_tokens;
    }
    if (isfinite(best))
        near.runs = plan_find(w, kind, near.batch, near.depth);
    return near;
}

static void decode_bytes(const cost_box *b, plan_decode *d)
{
    d->weight_bytes = cost_step_weight_bytes(b, d->batch);
    d->kv_bytes = d->batch * cost_kv_bytes(b, d->depth);
    d->state_bytes = 2.0 * d->batch * b->sums.state_bytes;
    d->experts = cost_experts_touched(&b->shape, d->batch);
    d->ceiling = d->batch / cost_ceiling_s(b, d->batch, d->depth);
}

/* A run of the pair at this depth and batch is the estimate; the nearest other one gives the share of the bandwidth,
 * with its own spread; else the shares of the family do. */
static plan_decode decode_at(const plan_work *w, uint32_t batch, double depth)
{
    const cost_box *b = &w->r->box;
    plan_decode d = {.batch = batch, .depth = depth, .measured = plan_find(w, RUN_DECODE, batch, depth)};
    plan_near near = {.runs = d.measured, .batch = batch, .depth = depth};
    if (!d.measured.n)
        near = plan_nearest(w, RUN_DECODE, batch, depth);
    bool shallow = depth <= SHALLOW;
    double low = shallow ? b->shares.shallow_low : b->shares.decode_low;
    double high = shallow ? b->shares.shallow_high : b->shares.decode_high;
    d.share = b->shares.decode;
    d.calibrated = near.runs.n > 0;
    if (batch > FEW_ROWS && !(near.runs.n && near.batch > FEW_ROWS))
        high = fmax(high, spread_share);
    if (d.calibrated) {
        d.share = share_of(b, &near.runs, near.batch, near.depth);
        low = fmin(low, d.share * near.runs.low / near.runs.median);
        high = fmax(high, d.share * near.runs.high / near.runs.median);
    }
    decode_bytes(b, &d);
    double seconds = cost_decode_share_s(b, batch, depth, d.share);
    double bytes_s = cost_step_bytes(b, batch, depth) / (cost_bandwidth(b) * d.share) + cost_link_s(b, batch);
    d.by_matmul = !d.measured.n && seconds > bytes_s * (1 + 1e-9);
    d.estimate = d.measured.n ? d.measured.median : batch / seconds;
    d.low = fmin(d.estimate, batch / cost_decode_share_s(b, batch, depth, low));
    d.high = fmax(d.estimate, batch / cost_decode_share_s(b, batch, depth, high));
    if (d.measured.n) {
        d.low = fmin(d.low, d.measured.low);
        d.high = fmax(d.high, d.measured.high);
    }
    d.low_share = low;
    d.high_share = high;
    d.step_s = batch / d.estimate;
    return d;
}

static void add_depth(plan_work *w, double depth)
{
    plan_result *r = w->r;
    for (uint32_t i = 0; i < r->depth_count; i++)
        if (r->depths[i].depth == depth)
            return;
    if (r->depth_count < PLAN_DEPTHS)
        r->depths[r->depth_count++] = decode_at(w, w->q->batch, depth);
}

static int by_depth(const void *a, const void *b)
{
    double x = ((const plan_decode *)a)->depth, y = ((const plan_decode *)b)->depth;
    return (x > y) - (x < y);
}

static void fill_decode(plan_work *w)
{
    const plan_request *q = w->q;
    plan_result *r = w->r;
    double most = q->box.shape.context ? q->box.shape.context : INFINITY;
    r->decode = decode_at(w, q->batch, q->depth);
    r->weights_only = decode_at(w, 1, 0);
    add_depth(w, q->depth);
    for (size_t i = 0; i < sizeof depth_steps / sizeof *depth_steps; i++)
        if (q->model && depth_steps[i] <= most)
            add_depth(w, depth_steps[i]);
    qsort(r->depths, r->depth_count, sizeof *r->depths, by_depth);
    for (size_t i = 0; i < sizeof batch_steps / sizeof *batch_steps && q->model; i++)
        r->batches[r->batch_count++] = decode_at(w, batch_steps[i], q->depth);
}

/* ---- memory ---- */

double plan_memory_sessions(const plan_result *r, double usable)
{
    const plan_memory *m = &r->memory;
    double left = usable - (m->needed - m->cache);
    return m->session > 0 && left > 0 ? floor(left / m->session) : 0;
}

static void fill_memory(plan_work *w)
{
    const plan_request *q = w->q;
    const cost_box *b = &w->r->box;
    plan_memory *m = &w->r->memory;
    m->known = b->hw.memory_gb > 0 && q->model;
    m->usable = hardware_usable_bytes(&b->hw) * b->devices;
    if (!q->model)
        return;
    m->weights = cost_weight_bytes(b);
    m->kv_token = cost_kv_token_bytes(b);
    m->kv = q->batch * cost_kv_bytes(b, q->context);
    m->state = q->batch * b->sums.state_bytes;
    m->session = cost_kv_bytes(b, q->session_tokens) + b->sums.state_bytes;
    m->cache = q->sessions * m->session;
    m->runtime = runtime_bytes + runtime_share * m->weights + q->chunk * b->shape.hidden * activation_row_bytes;
    m->needed = m->weights + m->kv + m->state + m->cache + m->runtime;
    m->left = m->usable - m->needed;
    m->fits = m->left >= 0;
    m->sessions_warm = plan_memory_sessions(w->r, m->usable);
}

/* ---- the request ---- */

static status check(const plan_request *q, error *err)
{
    const struct {
        const char *name;
        double value, least, most;
    } limits[] = {{"--batch", q->batch, 1, 4096},      {"--devices", q->box.devices, 1, 100000},
                  {"--ctx", q->context, 0, 1e8},       {"--prompt", q->prompt, 1, 1e8},
                  {"--cached", q->cached, -1, 1e8},    {"--chunk", q->chunk, 1, 1e6},
                  {"--document", q->document, 1, 1e8}, {"--chat-share", q->chat_share, 0, 0.99},
                  {"--sessions", q->sessions, 0, 1e6}, {"--session-tokens", q->session_tokens, 1, 1e8},
                  {"--draft", q->draft, 0, 64},        {"--accept", q->accept, 0, 1}};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (!(limits[i].value >= limits[i].least && limits[i].value <= limits[i].most))
            return error_set(err, ERR_INVALID, "%s: %g is not a number from %g to %g", limits[i].name, limits[i].value,
                             limits[i].least, limits[i].most);
    if (q->cached >= q->prompt)
        return error_set(err, ERR_INVALID, "--cached: %.0f of a prompt of %.0f tokens; at least one is read anew",
                         q->cached, q->prompt);
    if (q->box.devices > 1 && q->box.link_gb_s <= 0)
        return error_set(err, ERR_INVALID, "--link GB/s is needed with --devices: %s has no link of its own",
                         q->box.hw.name);
    if (!q->model && q->box.step_bytes_fixed <= 0 && q->prefill_tok_s <= 0)
        return error_set(err, ERR_INVALID, "no model, no bytes of a step and no prefill rate: nothing to plan with");
    return OK;
}

status plan_make(plan_result *out, const plan_request *q, error *err)
{
    *out = (plan_result){.box = q->box};
    plan_work w = {.q = q, .r = out};
    status st = check(q, err);
    if (st || (st = take_pair(&w, err)))
        return st;
    out->box.shares = cost_shares_for(&q->box.hw, q->model ? &q->box.shape : NULL);
    if (q->overhead_s >= 0)
        out->box.shares.overhead_s = q->overhead_s;
    fill_memory(&w);
    plan_prefill_fill(&w); /* its measured rate says what matmuls reach, which decode asks for */
    if (q->model || q->box.step_bytes_fixed > 0)
        fill_decode(&w);
    plan_gaps_fill(&w);
    plan_speculation_fill(&w);
    plan_upgrades_fill(&w);
    plan_energy_fill(&w);
    plan_notes_fill(&w);
    run_set_free(&w.pair);
    return OK;
}
