/* plan/plan_prefill.c: how long until the first token, and what do streams feel of a document meanwhile? */
#include <math.h>

#include "plan/plan_private.h"

enum { COPIES = 2 /* a page put in place is read and written */ };
static const double window_s = 0.25;    /* of policy gate, between two chunks */
static const double gap_least_s = 0.05; /* serve's own bound is this, or 4 steps */

bool plan_prefill_known(const plan_request *q, const cost_box *b)
{
    return q->prefill_tok_s > 0 || (q->model && cost_matmul_rate(b) > 0);
}

double plan_chunk_s(const plan_request *q, const cost_box *b, double position, double count)
{
    return q->prefill_tok_s > 0 ? count / q->prefill_tok_s : cost_chunk_s(b, position, count);
}

double plan_prefill_s(const plan_request *q, const cost_box *b, double position, double count)
{
    return q->prefill_tok_s > 0 ? count / q->prefill_tok_s : cost_prefill_s(b, position, count, q->chunk);
}

/* The matmul share by which a prompt of `count` takes what was measured. Where no rate is known there is none. */
static void calibrate(plan_work *w, const run_summary *m, double count)
{
    cost_box *b = &w->r->box, plain = *b;
    double rate = cost_matmul_rate(b);
    if (rate <= 0)
        return;
    plain.shares.matmul = 1;
    double fastest_s = cost_prefill_s(&plain, 0, count, w->q->chunk);
    plain.shares.matmul = 0.5;
    double compute_s = cost_prefill_s(&plain, 0, count, w->q->chunk) - fastest_s; /* the time at share 1 */
    double left_s = count / m->median - (fastest_s - compute_s);
    if (left_s > 0)
        b->shares.matmul = compute_s / left_s;
}

/* An exact run of the pair is the rate; the nearest one says what its matmuls reach. */
static void take_measured(plan_work *w, plan_prefill *p)
{
    plan_near near = plan_nearest(w, RUN_PREFILL, 1, p->prompt);
    p->measured = plan_find(w, RUN_PREFILL, 1, p->prompt);
    if (p->measured.n)
        calibrate(w, &p->measured, p->prompt);
    else if (near.runs.n)
        calibrate(w, &near.runs, near.depth);
}

static void fill_chunk(const plan_work *w, plan_prefill *p)
{
    const plan_request *q = w->q;
    const cost_box *b = &w->r->box;
    double tokens = fmin(q->chunk, p->prompt), rate = cost_matmul_rate(b) * b->shares.matmul;
    p->chunk_bytes = q->model ? cost_step_weight_bytes(b, tokens) : 0;
    p->chunk_experts = cost_experts_touched(&b->shape, tokens);
    p->chunk_read_s = p->chunk_bytes > 0 ? p->chunk_bytes / (cost_bandwidth(b) * b->shares.read) : 0;
    p->chunk_compute_s = rate > 0 && q->model ? cost_prefill_flops(b, 0, tokens) / rate : 0;
    p->rate_flops = cost_matmul_rate(b);
    p->flops = q->model ? cost_prefill_flops(b, 0, p->prompt) : 0;
}

void plan_prefill_fill(plan_work *w)
{
    const plan_request *q = w->q;
    cost_box *b = &w->r->box;
    plan_prefill *p = &w->r->prefill;
    p->prompt = q->prompt;
    p->cached = fmax(q->cached, 0);
    p->given = q->prefill_tok_s > 0;
    p->overhead_s = b->shares.overhead_s;
    if (!p->given && q->model)
        take_measured(w, p);
    fill_chunk(w, p);
    p->warm_new = q->cached > 0 ? q->prompt - q->cached : fmax(1, fmin(512, floor(q->prompt / 8)));
    double warm = q->prompt - p->warm_new;
    p->restore_bytes = q->model ? cost_kv_bytes(b, warm) + b->sums.state_bytes : 0;
    p->restore_s = q->model ? COPIES * p->restore_bytes / (cost_bandwidth(b) * b->shares.read) : 0;
    p->restore_ssd_s = q->ssd_gb_s > 0 ? p->restore_bytes / (q->ssd_gb_s * 1e9) : 0;
    if (!plan_prefill_known(q, b))
        return;
    double read_s = p->measured.n ? q->prompt / p->measured.median : plan_prefill_s(q, b, 0, q->prompt);
    double warm_s = plan_prefill_s(q, b, warm, p->warm_new) + p->overhead_s;
    p->tok_s = q->prompt / read_s;
    p->chunk_s = plan_chunk_s(q, b, 0, fmin(q->chunk, q->prompt));
    p->cold_s = read_s + p->overhead_s;
    p->warm_s = warm_s + p->restore_s;
    p->ssd_s = q->ssd_gb_s > 0 ? warm_s + p->restore_ssd_s : 0;
    p->asked_s = q->cached > 0 ? p->warm_s : p->cold_s;
}

/* ---- gaps ---- */

typedef struct {
    double alone_s, chunks, longest_s; /* of the document: its time alone, chunks, the longest of them */
    double step_s, row_s;              /* a decode step; what its rows add to a chunk that they run with */
    double overhead_s;
} beside;

static plan_gap cadence_gap(const plan_request *q, double bound_s, const beside *d)
{
    plan_gap g = {.policy = "cadence", .gap_s = bound_s, .why = "the bound"};
    double part = fmax(d->step_s / bound_s, q->chat_share);
    if (d->step_s >= bound_s) {
        g.gap_s = d->step_s;
        g.why = "cannot be kept: a step is longer";
        part = 0.99;
    }
    g.document_s = d->alone_s / (1 - part) + d->overhead_s;
    g.chat_tok_s = part / d->step_s;
    return g;
}

void plan_gaps_fill(plan_work *w)
{
    const plan_request *q = w->q;
    plan_result *r = w->r;
    if (!plan_prefill_known(q, &r->box) || r->decode.estimate <= 0)
        return;
    r->gap_s = q->gap_s > 0 ? q->gap_s : fmax(gap_least_s, 4 * r->decode.step_s);
    double chunk = fmin(q->chunk, q->document), last = q->document - chunk;
    beside d = {.step_s = r->decode.step_s, .overhead_s = r->prefill.overhead_s};
    d.alone_s = plan_prefill_s(q, &r->box, 0, q->document);
    d.chunks = ceil(q->document / chunk);
    d.longest_s = plan_chunk_s(q, &r->box, last, chunk);
    /* what a row reads besides the weights that the chunk reads anyway */
    d.row_s = (r->decode.kv_bytes + r->decode.state_bytes) / (cost_bandwidth(&r->box) * r->decode.share);
    double first_s = d.alone_s + d.chunks * d.step_s;
    double fused_s =
        d.chunks * fmax(d.alone_s / d.chunks + d.row_s, d.step_s); /* no step is shorter for a chunk in it */
    double windows_s = d.alone_s + (d.chunks - 1) * fmax(window_s, d.step_s);
    double window_tokens = (d.chunks - 1) * fmax(1, window_s / d.step_s);
    plan_gap *g = r->gaps;
    *g++ = (plan_gap){"prefill-first", "a chunk and a step", d.longest_s + d.step_s, first_s + d.overhead_s,
                      d.chunks / first_s};
    *g++ = (plan_gap){"chunked", "a chunk with the streams in it", fmax(d.longest_s + d.row_s, d.step_s),
                      fused_s + d.overhead_s, d.chunks / fused_s};
    *g++ = (plan_gap){"gate", "a chunk; a window of 250 ms after each", d.longest_s + d.step_s,
                      windows_s + d.overhead_s, window_tokens / windows_s};
    *g++ = cadence_gap(q, r->gap_s, &d);
    *g++ = (plan_gap){"decode-first", "a step; documents wait for all streams", d.step_s, INFINITY, 1 / d.step_s};
    r->gap_count = (uint32_t)(g - r->gaps);
}
