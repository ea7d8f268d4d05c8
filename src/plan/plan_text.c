/* plan/plan_text.c: a plan for a terminal, at most 98 columns. */
#include <math.h>
#include <stdio.h>

#include "plan/plan_private.h"

enum { COLUMNS = 98 };

#define W(word) (word).text

void plan_put_wrapped(buf *out, const char *first, const char *indent, const char *text)
{
    size_t used = strlen(first), words = 0;
    buf_text(out, first);
    while (*text) {
        size_t size = strcspn(text, " ");
        if (words && used + 1 + size > COLUMNS) {
            buf_printf(out, "\n%s", indent);
            used = strlen(indent);
            words = 0;
        }
        buf_printf(out, "%s%.*s", words ? " " : "", (int)size, text);
        used += size + (words ? 1 : 0);
        words++;
        text += size + (text[size] ? 1 : 0);
    }
    buf_byte(out, '\n');
}

/* "measured, n = 7, 2026-11-30, mlx-vlm" or "est." */
void plan_put_basis(buf *out, const run_summary *m, bool paper)
{
    if (!m->n) {
        buf_text(out, paper ? "est., on paper only" : "est.");
        return;
    }
    buf_printf(out, "measured, n = %u, %s%s%s", m->n, m->date, m->runtimes[0] ? ", " : "", m->runtimes);
    if (m->on_battery)
        buf_printf(out, ", %u on battery", m->on_battery);
    if (m->throttled)
        buf_printf(out, ", %u throttled", m->throttled);
}

/* ---- what is planned ---- */

void plan_rates_text(const hardware *hw, buf *out)
{
    static const char *const names[RATE_KINDS] = {"f32", "f16", "fp8", "int8", "fp4"};
    bool any = false;
    for (int i = 0; i < RATE_KINDS; i++) {
        if (hw->tflops[i] <= 0)
            continue;
        buf_printf(out, ", %s%s in %s", W(plan_number(hw->tflops[i])), any ? "" : " TFLOP/s", names[i]);
        any = true;
    }
}

static void put_head(const plan_request *q, const plan_result *r, buf *out)
{
    const cost_box *b = &r->box;
    buf line = {0};
    if (q->model) {
        buf_printf(&line, "%s, %s parameters", b->shape.title[0] ? b->shape.title : b->shape.name,
                   W(plan_parameters((double)b->sums.total)));
        if (b->sums.expert_layers)
            buf_printf(&line, ", %s of them for a token (%u of %u experts)", W(plan_parameters((double)b->sums.active)),
                       b->shape.experts_used, b->shape.experts);
        buf_printf(&line, "; %s, %s a weight (%s)", b->type.name, W(plan_bits(b)), q->model_from);
        plan_put_wrapped(out, "model       ", "            ", line.data ? line.data : "");
    } else if (b->step_bytes_fixed > 0) {
        buf_printf(out, "model       none: %s of weights a step, as given\n", W(plan_bytes(b->step_bytes_fixed)));
    }
    if (b->hw.bandwidth_gb_s <= 0) {
        buf_free(&line);
        return;
    }
    buf_clear(&line);
    if (b->devices > 1)
        buf_printf(&line, "%u x ", b->devices);
    buf_printf(&line, "%s: %s GB/s", b->hw.title, W(plan_number(b->hw.bandwidth_gb_s)));
    if (b->hw.memory_gb > 0)
        buf_printf(&line, ", %s", W(plan_bytes(b->hw.memory_gb * 1e9)));
    plan_rates_text(&b->hw, &line);
    if (b->hw.watts > 0)
        buf_printf(&line, ", %s W (%s GB/s a watt)", W(plan_number(b->hw.watts)),
                   W(plan_number(b->hw.bandwidth_gb_s / b->hw.watts)));
    if (b->hw.price_usd > 0)
        buf_printf(&line, ", %s USD (%s)", W(plan_count(b->hw.price_usd)), b->hw.price_date);
    if (b->devices > 1)
        buf_printf(&line, "; %s GB/s between them", W(plan_number(b->link_gb_s)));
    buf_printf(&line, " (%s)", q->hardware_from);
    plan_put_wrapped(out, "machine     ", "            ", line.data ? line.data : "");
    buf_free(&line);
}

/* ---- memory ---- */

static void put_amount(buf *out, const char *what, double bytes)
{
    buf_printf(out, "  %-17s %9s", what, W(plan_bytes(bytes)));
}

static void put_memory(const plan_request *q, const plan_result *r, buf *out)
{
    const plan_memory *m = &r->memory;
    if (!q->model)
        return;
    if (!m->known)
        buf_printf(out, "\nmemory      %s are needed; what there is was not said (--memory GB)\n",
                   W(plan_bytes(m->needed)));
    else if (m->usable <= 0)
        buf_printf(out, "\nmemory      does not fit: %s, and no model lies here alone\n", W(plan_bytes(m->needed)));
    else if (m->fits)
        buf_printf(out, "\nmemory      fits: %s of the %s that a model may take, %s left\n", W(plan_bytes(m->needed)),
                   W(plan_bytes(m->usable)), W(plan_bytes(m->left)));
    else
        buf_printf(out, "\nmemory      does not fit: %s, %s more than the %s that a model may take\n",
                   W(plan_bytes(m->needed)), W(plan_bytes(-m->left)), W(plan_bytes(m->usable)));
    put_amount(out, "weights", m->weights);
    buf_byte(out, '\n');
    put_amount(out, "KV", m->kv);
    buf_printf(out, "   %s of %s tokens, %s a token", W(plan_streams(q->batch)), W(plan_count(q->context)),
               W(plan_bytes(m->kv_token)));
    if (r->box.sums.window_values > 0)
        buf_printf(out, "\n%32s%u layers keep %s of them", "", r->box.shape.window_layers,
                   W(plan_count(r->box.shape.window)));
    buf_byte(out, '\n');
    if (m->state > 0) {
        put_amount(out, "state", m->state);
        buf_text(out, "   of the linear layers, whatever the depth\n");
    }
    if (q->sessions > 0) {
        put_amount(out, "cache", m->cache);
        buf_printf(out, "   %s sessions of %s tokens, %s each\n", W(plan_count(q->sessions)),
                   W(plan_count(q->session_tokens)), W(plan_bytes(m->session)));
    }
    put_amount(out, "runtime", m->runtime);
    buf_byte(out, '\n');
    if (m->usable > 0)
        buf_printf(out, "  %-17s %9s   of %s tokens that the memory can keep\n", "warm sessions",
                   W(plan_count(m->sessions_warm)), W(plan_count(q->session_tokens)));
}

/* ---- decode ---- */

static void put_row(const plan_decode *d, bool experts, buf *out)
{
    buf_printf(out, "  %7u %9s %9s", d->batch, W(plan_count(d->depth)),
               W(plan_bytes(d->weight_bytes + d->kv_bytes + d->state_bytes)));
    if (experts)
        buf_printf(out, " %8s", W(plan_number(d->experts)));
    buf_printf(out, " %8s %8s %8s %8s  ", W(plan_number(d->ceiling)), W(plan_number(d->low)), W(plan_number(d->high)),
               W(plan_number(d->estimate)));
    if (d->measured.n)
        buf_printf(out, "measured, n = %u\n", d->measured.n);
    else
        buf_text(out, d->by_matmul ? "est., by matmuls\n" : d->calibrated ? "est. by its runs\n" : "est.\n");
}

static void put_decode(const plan_request *q, const plan_result *r, buf *out)
{
    const plan_decode *d = &r->decode;
    bool experts = r->box.shape.experts > 0;
    if (d->estimate <= 0)
        return;
    buf_printf(out, "\ndecode      %s tok/s (", W(plan_number(d->estimate)));
    plan_put_basis(out, &d->measured, r->box.hw.kind == HW_SRAM);
    buf_printf(out, "), %s a step\n", W(plan_seconds(d->step_s)));
    buf_printf(out, "            ceiling %s tok/s, %.0f%% of it reached; range %s to %s\n", W(plan_number(d->ceiling)),
               100 * d->estimate / d->ceiling, W(plan_number(d->low)), W(plan_number(d->high)));
    buf line = {0};
    buf_printf(&line, "Weights of a step at full bandwidth: %s / %s GB/s = %s. Range: %s.",
               W(plan_bytes(r->weights_only.weight_bytes)), W(plan_number(cost_bandwidth(&r->box) / 1e9)),
               W(plan_seconds(r->weights_only.weight_bytes / cost_bandwidth(&r->box))), r->box.shares.why);
    plan_put_wrapped(out, "            ", "            ", line.data ? line.data : "");
    buf_free(&line);
    if (!q->model)
        return;
    buf_printf(out, "  %7s %9s %9s%s %8s %8s %8s %8s\n", "streams", "depth", "a step", experts ? "  experts" : "",
               "ceiling", "low", "high", "tok/s");
    for (uint32_t i = 0; i < r->depth_count; i++)
        put_row(&r->depths[i], experts, out);
    for (uint32_t i = 0; i < r->batch_count; i++)
        if (r->batches[i].batch != q->batch)
            put_row(&r->batches[i], experts, out);
}

static void put_speculation(const plan_request *q, const plan_result *r, buf *out)
{
    const plan_speculation *s = &r->speculation;
    if (s->tokens <= 0)
        return;
    buf_printf(out, "\nspeculation %u drafted a step, each taken with %.3g: %.2f tokens a step, est.\n", q->draft,
               q->accept, s->tokens);
    buf_printf(out, "            %s a step (%s of drafts): %s an accepted token, %s without\n",
               W(plan_bytes(s->step_bytes)), W(plan_bytes(s->draft_bytes)), W(plan_bytes(s->bytes_token)),
               W(plan_bytes(s->plain_bytes / q->batch)));
    buf_printf(out, "            %s tok/s, %.2fx\n", W(plan_number(s->tok_s)), s->gain);
}

/* ---- prefill ---- */

static void put_first_tokens(const plan_request *q, const plan_result *r, buf *out)
{
    const plan_prefill *p = &r->prefill;
    buf_printf(out, "  first token of a prompt of %s tokens, %s of it overhead\n", W(plan_count(p->prompt)),
               W(plan_seconds(p->overhead_s)));
    buf_printf(out, "    %-15s %9s\n", "cold", W(plan_seconds(p->cold_s)));
    buf_printf(out, "    %-15s %9s   %s tokens are new, %s come back", "warm", W(plan_seconds(p->warm_s)),
               W(plan_count(p->warm_new)), W(plan_count(p->prompt - p->warm_new)));
    if (p->restore_bytes > 0)
        buf_printf(out, ": %s, %s", W(plan_bytes(p->restore_bytes)), W(plan_seconds(p->restore_s)));
    if (p->ssd_s > 0 && p->restore_bytes > 0)
        buf_printf(out, "\n    %-15s %9s   the same from a disk of %s GB/s: %s", "warm, from SSD",
                   W(plan_seconds(p->ssd_s)), W(plan_number(q->ssd_gb_s)), W(plan_seconds(p->restore_ssd_s)));
    buf_byte(out, '\n');
}

static void put_prefill(const plan_request *q, const plan_result *r, buf *out)
{
    const plan_prefill *p = &r->prefill;
    if (p->tok_s <= 0)
        return;
    buf_printf(out, "\nprefill     %s tok/s (", W(plan_number(p->tok_s)));
    if (p->given)
        buf_text(out, "given");
    else
        plan_put_basis(out, &p->measured, r->box.hw.kind == HW_SRAM);
    buf_text(out, ")\n");
    if (!p->given) {
        buf_printf(out, "            a chunk of %s tokens takes %s: matmuls %s, reading weights %s\n",
                   W(plan_count(fmin(q->chunk, p->prompt))), W(plan_seconds(p->chunk_s)),
                   W(plan_seconds(p->chunk_compute_s)), W(plan_seconds(p->chunk_read_s)));
        if (r->box.shape.experts)
            buf_printf(out, "            it touches %s of %u experts in each layer: %s of the %s of weights\n",
                       W(plan_number(p->chunk_experts)), r->box.shape.experts, W(plan_bytes(p->chunk_bytes)),
                       W(plan_bytes(r->memory.weights)));
    }
    put_first_tokens(q, r, out);
    if (r->prefill_time_share > 0)
        buf_printf(out, "  at %.4g tokens read for each one written, all of them anew, %.0f%% of the time is prefill\n",
                   q->reads_per_token, 100 * r->prefill_time_share);
}

static void put_gaps(const plan_request *q, const plan_result *r, buf *out)
{
    if (!r->gap_count)
        return;
    buf_printf(out, "\ngaps        of a chat beside a document of %s tokens, chunks of %s, est.\n",
               W(plan_count(q->document)), W(plan_count(fmin(q->chunk, q->document))));
    buf_printf(out, "  %-14s %9s %12s %11s\n", "policy", "worst gap", "document", "chat tok/s");
    for (uint32_t i = 0; i < r->gap_count; i++)
        buf_printf(out, "  %-14s %9s %12s %11s  %s\n", r->gaps[i].policy, W(plan_seconds(r->gaps[i].gap_s)),
                   W(plan_seconds(r->gaps[i].document_s)), W(plan_number(r->gaps[i].chat_tok_s)), r->gaps[i].why);
}

/* ---- the rest ---- */

static void put_gain(buf *out, double factor)
{
    if (isfinite(factor))
        buf_printf(out, " %+8.0f%%", 100 * (factor - 1) + 0.0);
    else
        buf_printf(out, " %9s", "-");
}

static void put_upgrades(const plan_request *q, const plan_result *r, buf *out)
{
    const plan_upgrades *u = &r->upgrades;
    if (!q->model || r->decode.estimate <= 0)
        return;
    buf_printf(out, "\ntwice the             decode   prefill   warm sessions (est.)\n");
    const struct {
        const char *what;
        double decode, prefill, sessions;
    } rows[] = {{"bandwidth", u->bandwidth_decode, u->bandwidth_prefill, r->memory.sessions_warm},
                {"matmuls (cores)", u->matmul_decode, u->matmul_prefill, r->memory.sessions_warm},
                {"memory", u->memory_decode, u->memory_prefill, u->memory_sessions}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        buf_printf(out, "  %-16s", rows[i].what);
        put_gain(out, rows[i].decode);
        put_gain(out, rows[i].prefill);
        buf_printf(out, " %15s\n", W(plan_count(rows[i].sessions)));
    }
}

static void put_energy(const plan_result *r, buf *out)
{
    if (r->joules_decode <= 0 && r->joules_prefill <= 0)
        return;
    buf_printf(out, "\nenergy      of 1,000 tokens at %s W, est.:", W(plan_number(r->box.hw.watts * r->box.devices)));
    if (r->joules_decode > 0)
        buf_printf(out, " written %s J", W(plan_number(r->joules_decode)));
    if (r->joules_prefill > 0)
        buf_printf(out, "%s read %s J", r->joules_decode > 0 ? "," : "", W(plan_number(r->joules_prefill)));
    buf_byte(out, '\n');
}

void plan_text(const plan_request *q, const plan_result *r, buf *out)
{
    put_head(q, r, out);
    put_memory(q, r, out);
    put_decode(q, r, out);
    put_speculation(q, r, out);
    put_prefill(q, r, out);
    put_gaps(q, r, out);
    put_energy(r, out);
    put_upgrades(q, r, out);
    if (r->note_count)
        buf_byte(out, '\n');
    for (uint32_t i = 0; i < r->note_count; i++)
        plan_put_wrapped(out, "note        ", "            ", r->notes[i]);
}
