/* plan/plan_explain.c: each figure's formula with its numbers put in, by the name that it has in the JSON. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "plan/plan_private.h"

#define W(word) (word).text

static void line(buf *out, const char *name, const char *format, ...) __attribute__((format(printf, 3, 4)));

static void line(buf *out, const char *name, const char *format, ...)
{
    char text[512], first[48];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    snprintf(first, sizeof first, "  %-26s = ", name);
    plan_put_wrapped(out, first, "                               ", text);
}

static void explain_memory(const plan_request *q, const plan_result *r, buf *out)
{
    const plan_memory *m = &r->memory;
    const cost_box *b = &r->box;
    line(out, "memory.weights_bytes", "%s parameters x %s / 8 = %s", W(plan_count((double)b->sums.total)),
         W(plan_bits(b)), W(plan_bytes(m->weights)));
    line(out, "memory.kv_bytes_per_token", "%s numbers (K and V, of each head, in %u layers) x %.4g bits / 8 = %s",
         W(plan_count(b->sums.kv_values)), b->shape.attention_layers - b->shape.window_layers, b->kv_bits,
         W(plan_bytes(m->kv_token)));
    if (b->sums.window_values > 0)
        line(out, "memory.kv_bytes", "%s x (%s tokens x %s + at most %u tokens x %s in layers with a window) = %s",
             W(plan_streams(q->batch)), W(plan_count(q->context)), W(plan_bytes(m->kv_token)), b->shape.window,
             W(plan_bytes(b->sums.window_values * b->kv_bits / 8)), W(plan_bytes(m->kv)));
    else
        line(out, "memory.kv_bytes", "%s x %s tokens x %s = %s", W(plan_streams(q->batch)), W(plan_count(q->context)),
             W(plan_bytes(m->kv_token)), W(plan_bytes(m->kv)));
    line(out, "memory.state_bytes", "%s x %s = %s", W(plan_streams(q->batch)), W(plan_bytes(b->sums.state_bytes)),
         W(plan_bytes(m->state)));
    line(out, "memory.cache_bytes", "%s sessions x (KV of %s tokens + a state) = %s x %s = %s",
         W(plan_count(q->sessions)), W(plan_count(q->session_tokens)), W(plan_count(q->sessions)),
         W(plan_bytes(m->session)), W(plan_bytes(m->cache)));
    line(out, "memory.runtime_bytes",
         "100 MB + 3%% of the weights + 24 bytes x %u channels x a chunk of %s = %s: a guess", b->shape.hidden,
         W(plan_count(q->chunk)), W(plan_bytes(m->runtime)));
    line(out, "memory.usable_bytes", "%u x (%s less what a %s device leaves to others) = %s", b->devices,
         W(plan_bytes(b->hw.memory_gb * 1e9)), hardware_kind_name(b->hw.kind), W(plan_bytes(m->usable)));
    line(out, "memory.left_bytes", "usable - weights - kv - state - cache - runtime = %s%s", m->left < 0 ? "-" : "",
         W(plan_bytes(fabs(m->left))));
    if (m->session > 0)
        line(out, "memory.warm_sessions", "(left + cache) / %s = %s, rounded down", W(plan_bytes(m->session)),
             W(plan_count(m->sessions_warm)));
}

static void explain_weights(const plan_result *r, buf *out)
{
    const plan_decode *d = &r->decode;
    const cost_box *b = &r->box;
    if (b->step_bytes_fixed > 0)
        line(out, "decode.weight_bytes", "%s of a stream, given", W(plan_bytes(b->step_bytes_fixed)));
    else if (b->sums.expert_layers)
        line(out, "decode.weight_bytes",
             "(%s always + %u layers x %s experts x %s) x %s / 8 = %s; experts touched = "
             "%u x (1 - (1 - %u/%u)^%u) = %s",
             W(plan_parameters((double)b->sums.always)), b->sums.expert_layers, W(plan_number(d->experts)),
             W(plan_parameters((double)b->sums.expert)), W(plan_bits(b)), W(plan_bytes(d->weight_bytes)),
             b->shape.experts, b->shape.experts_used, b->shape.experts, d->batch, W(plan_number(d->experts)));
    else
        line(out, "decode.weight_bytes", "%s parameters x %s / 8 = %s", W(plan_parameters((double)b->sums.always)),
             W(plan_bits(b)), W(plan_bytes(d->weight_bytes)));
}

/* Streams x bandwidth x share / bytes; where that is not the rate, what else took the time. */
static void rate_line(buf *out, const char *name, const cost_box *b, const plan_decode *d, double share, double bytes,
                      double rate, const char *more)
{
    double by_bytes = d->batch * cost_bandwidth(b) * share / bytes;
    bool less = rate < by_bytes * (1 - 1e-6);
    char of[24] = "";
    if (share != 1)
        snprintf(of, sizeof of, " x %.3f", share);
    line(out, name, "%s x %s GB/s%s / %s = %s%s%s%s", W(plan_streams(d->batch)),
         W(plan_number(cost_bandwidth(b) / 1e9)), of, W(plan_bytes(bytes)), W(plan_number(by_bytes)),
         less ? "; with matmuls or the link " : "", less ? W(plan_number(rate)) : "", more);
}

static void explain_decode(const plan_request *q, const plan_result *r, buf *out)
{
    const plan_decode *d = &r->decode;
    const cost_box *b = &r->box;
    double bytes = d->weight_bytes + d->kv_bytes + d->state_bytes;
    explain_weights(r, out);
    if (q->model) {
        line(out, "decode.kv_bytes", "%s x KV of %s tokens = %s", W(plan_streams(d->batch)), W(plan_count(d->depth)),
             W(plan_bytes(d->kv_bytes)));
        line(out, "decode.state_bytes", "%s x %s, read and written = %s", W(plan_streams(d->batch)),
             W(plan_bytes(b->sums.state_bytes)), W(plan_bytes(d->state_bytes)));
    }
    rate_line(out, "decode.ceiling_tok_s", b, d, 1, d->depth > 0 ? bytes : d->weight_bytes, d->ceiling,
              d->depth > 0 ? "" : " (at depth 0 of the weights alone: nothing is kept yet)");
    rate_line(out, "decode.low_tok_s", b, d, d->low_share, bytes, d->low, "");
    rate_line(out, "decode.high_tok_s", b, d, d->high_share, bytes, d->high, "");
    line(out, "range", "%s", b->shares.why);
    if (d->measured.n)
        line(out, "decode.estimate_tok_s",
             "the median of %u measured, %s to %s (%s, %s); a share of %.3f of the bandwidth", d->measured.n,
             W(plan_number(d->measured.low)), W(plan_number(d->measured.high)), d->measured.runtimes, d->measured.date,
             d->share);
    else
        rate_line(out, "decode.estimate_tok_s", b, d, d->share, bytes, d->estimate,
                  d->calibrated ? "; the share is that of this pair's nearest run" : "");
    if (b->devices > 1)
        line(out, "of it the link",
             "%u layers x 2 x (2 x %u/%u x %u rows x %u channels x 2 bytes / %s GB/s + 5 us) = %s", b->shape.layers,
             b->devices - 1, b->devices, d->batch, b->shape.hidden, W(plan_number(b->link_gb_s)),
             W(plan_seconds(cost_link_s(b, d->batch))));
}

static void explain_speculation(const plan_request *q, const plan_result *r, buf *out)
{
    const plan_speculation *s = &r->speculation;
    if (s->tokens <= 0)
        return;
    line(out, "speculation.tokens_per_step", "(1 - %.3g^%u) / (1 - %.3g) = %.3g", q->accept, q->draft + 1, q->accept,
         s->tokens);
    line(out, "speculation.step_bytes", "weights with %u rows + KV + states + %u drafts of a layer and the head = %s",
         q->batch * (q->draft + 1), q->draft, W(plan_bytes(s->step_bytes)));
    line(out, "speculation.bytes_per_token", "%s / (%u x %.3g) = %s", W(plan_bytes(s->step_bytes)), q->batch, s->tokens,
         W(plan_bytes(s->bytes_token)));
}

static void explain_chunk(const plan_request *q, const plan_result *r, buf *out)
{
    const plan_prefill *p = &r->prefill;
    const cost_box *b = &r->box;
    double tokens = fmin(q->chunk, p->prompt);
    line(out, "prefill.flops", "%s tokens x %s + attention %s x positions seen = %s", W(plan_count(p->prompt)),
         W(plan_parameters(b->sums.flops_token)), W(plan_parameters(b->sums.flops_depth)),
         W(plan_parameters(p->flops)));
    line(out, "prefill.chunk_matmul_s", "%s / (%s/s x %.3f) = %s", W(plan_parameters(cost_prefill_flops(b, 0, tokens))),
         W(plan_parameters(p->rate_flops)), b->shares.matmul, W(plan_seconds(p->chunk_compute_s)));
    line(out, "prefill.chunk_read_s", "%s / (%s GB/s x %.3g) = %s", W(plan_bytes(p->chunk_bytes)),
         W(plan_number(cost_bandwidth(b) / 1e9)), b->shares.read, W(plan_seconds(p->chunk_read_s)));
    line(out, "prefill.chunk_s", "the two together%s = %s", b->devices > 1 ? " and the link" : "",
         W(plan_seconds(p->chunk_s)));
}

static void explain_prefill(const plan_request *q, const plan_result *r, buf *out)
{
    const plan_prefill *p = &r->prefill;
    if (p->tok_s <= 0)
        return;
    if (p->given)
        line(out, "prefill.tok_s", "%s, given", W(plan_number(p->tok_s)));
    else
        explain_chunk(q, r, out);
    if (p->measured.n)
        line(out, "prefill.tok_s", "the median of %u measured (%s, %s)", p->measured.n, p->measured.runtimes,
             p->measured.date);
    else if (!p->given)
        line(out, "prefill.tok_s", "%s tokens / the sum of their chunks = %s", W(plan_count(p->prompt)),
             W(plan_number(p->tok_s)));
    line(out, "prefill.ttft_cold_s", "%s / %s tok/s + overhead %s = %s", W(plan_count(p->prompt)),
         W(plan_number(p->tok_s)), W(plan_seconds(p->overhead_s)), W(plan_seconds(p->cold_s)));
    line(out, "prefill.ttft_warm_s", "reading %s tokens behind %s + putting %s in place %s + overhead = %s",
         W(plan_count(p->warm_new)), W(plan_count(p->prompt - p->warm_new)), W(plan_bytes(p->restore_bytes)),
         W(plan_seconds(p->restore_s)), W(plan_seconds(p->warm_s)));
    if (p->ssd_s > 0 && p->restore_bytes > 0)
        line(out, "prefill.restore_ssd_s", "%s / %s GB/s = %s", W(plan_bytes(p->restore_bytes)),
             W(plan_number(q->ssd_gb_s)), W(plan_seconds(p->restore_ssd_s)));
    if (r->prefill_time_share > 0)
        line(out, "prefill.time_share", "(%.4g / %s) / (%.4g / %s + 1 / %s) = %.3f", q->reads_per_token,
             W(plan_number(p->tok_s)), q->reads_per_token, W(plan_number(p->tok_s)), W(plan_number(r->decode.estimate)),
             r->prefill_time_share);
}

static void explain_gaps(const plan_request *q, const plan_result *r, buf *out)
{
    if (!r->gap_count)
        return;
    line(out, "gaps[].worst_gap_s",
         "prefill-first, gate: the last chunk %s + a step %s; chunked: the chunk + its rows' KV and states; cadence: "
         "the "
         "bound %s; decode-first: a step",
         W(plan_seconds(r->gaps[0].gap_s - r->decode.step_s)), W(plan_seconds(r->decode.step_s)),
         W(plan_seconds(r->gap_s)));
    line(out, "gaps[].document_s",
         "%s tokens alone, and a step (prefill-first), rows (chunked) or 250 ms (gate) between two chunks; cadence: "
         "alone / (1 - the larger of %s / %s and %.3g)",
         W(plan_count(q->document)), W(plan_seconds(r->decode.step_s)), W(plan_seconds(r->gap_s)), q->chat_share);
}

static void explain_energy(const plan_result *r, buf *out)
{
    double watts = r->box.hw.watts * r->box.devices;
    if (r->joules_decode > 0)
        line(out, "energy.joules_per_1000_written", "1,000 x %s W / %s tok/s = %s", W(plan_number(watts)),
             W(plan_number(r->decode.estimate)), W(plan_number(r->joules_decode)));
    if (r->joules_prefill > 0)
        line(out, "energy.joules_per_1000_read", "1,000 x %s W / %s tok/s = %s", W(plan_number(watts)),
             W(plan_number(r->prefill.tok_s)), W(plan_number(r->joules_prefill)));
}

void plan_explain(const plan_request *q, const plan_result *r, buf *out)
{
    buf_text(out, "how each figure is made\n");
    if (q->model)
        explain_memory(q, r, out);
    if (r->decode.estimate > 0)
        explain_decode(q, r, out);
    explain_speculation(q, r, out);
    explain_prefill(q, r, out);
    explain_gaps(q, r, out);
    explain_energy(r, out);
    line(out, "source of the machine", "%s", r->box.hw.source ? r->box.hw.source : "as given");
}
