/* load/report_text.c: the report for a terminal, at most 100 columns. */
#include <math.h>
#include <stdio.h>

#include "load/report.h"

static void put_ms(buf *out, const load_quantiles *q, double value)
{
    if (q->count == 0)
        buf_printf(out, "%9s", "-");
    else
        buf_printf(out, value < 1000 ? "%9.1f" : "%9.0f", value);
}

static void put_row(buf *out, const char *phase, load_role role, const load_cell *c)
{
    char done[24];
    snprintf(done, sizeof done, "%u/%u", c->done, c->requests);
    buf_printf(out, "%-16s %-10s %7s", phase, load_role_name(role), done);
    put_ms(out, &c->ttft_ms, c->ttft_ms.median);
    put_ms(out, &c->ttft_ms, c->ttft_ms.p99);
    put_ms(out, &c->itl_ms, c->itl_ms.median);
    put_ms(out, &c->itl_ms, c->itl_ms.p99);
    put_ms(out, &c->itl_ms, c->itl_ms.max);
    if (c->stream_tok_s.count)
        buf_printf(out, "%8.1f", c->stream_tok_s.median);
    else
        buf_printf(out, "%8s", "-");
    buf_printf(out, "%9.1f\n", c->prompt_tok_s);
}

static void put_cells(const load_report *r, buf *out)
{
    buf_printf(out, "%35s %17s %26s %7s %8s\n", "", "first token, ms", "between tokens, ms", "tok/s", "prompt");
    buf_printf(out, "%-16s %-10s %7s%9s%9s%9s%9s%9s%8s%9s\n", "phase", "load", "done", "median", "p99", "median", "p99",
               "worst", "stream", "tok/s");
    for (uint32_t p = 0; p < r->plan->phase_count; p++)
        for (int role = 0; role < LOAD_ROLES; role++)
            if (r->summary->cells[p][role].requests)
                put_row(out, r->plan->phases[p].name, (load_role)role, &r->summary->cells[p][role]);
}

static void put_times(buf *out, const char *what, double factor)
{
    if (isfinite(factor))
        buf_printf(out, "  %s %.2fx", what, factor);
}

static void put_slowdowns(const load_report *r, buf *out)
{
    for (int role = 0; role < LOAD_ROLES; role++) {
        const load_slowdown *s = &r->summary->slowdown[role];
        if (!r->summary->compared[role])
            continue;
        buf_printf(out, "%-10s against alone:", load_role_name((load_role)role));
        put_times(out, "TTFT", s->ttft_median);
        put_times(out, "gap median", s->itl_median);
        put_times(out, "p99", s->itl_p99);
        put_times(out, "worst", s->worst_gap);
        put_times(out, role == LOAD_AGENTS ? "stream slowed" : "prompts slowed",
                  role == LOAD_AGENTS ? s->stream_rate : s->prompt_rate);
        buf_byte(out, '\n');
    }
}

static void put_goodput(const load_report *r, buf *out)
{
    buf_printf(out, "goodput    first token <= %.0f ms and every gap <= %.0f ms (documents: answered)\n",
               r->bounds.ttft_ms, r->bounds.gap_ms);
    for (uint32_t p = 0; p < r->plan->phase_count; p++)
        for (int role = 0; role < LOAD_ROLES; role++) {
            const load_cell *c = &r->summary->cells[p][role];
            if (!c->judged)
                continue;
            buf_printf(out, "           %s, %s: %u of %u requests, %.2f/s", r->plan->phases[p].name,
                       load_role_name((load_role)role), c->good, c->judged, c->good_s);
            if (role != LOAD_DOCUMENTS)
                buf_printf(out, "; %.1f%% of the tokens",
                           c->tokens ? 100.0 * (double)c->good_tokens / (double)c->tokens : 0);
            buf_byte(out, '\n');
        }
}

static void put_tokens(const load_report *r, buf *out)
{
    uint64_t prompt = 0, output = 0, cached = 0;
    for (uint32_t p = 0; p < r->plan->phase_count; p++)
        for (int role = 0; role < LOAD_ROLES; role++) {
            prompt += r->summary->cells[p][role].prompt_tokens;
            output += r->summary->cells[p][role].output_tokens;
            cached += r->summary->cells[p][role].cached_tokens;
        }
    if (prompt && output)
        buf_printf(out, "tokens     %llu in, %llu out: %.1f to 1; %.1f%% of the prompts came from the server's cache\n",
                   (unsigned long long)prompt, (unsigned long long)output, (double)prompt / (double)output,
                   100.0 * (double)cached / (double)prompt);
    if (r->summary->resident_count < 2)
        return;
    buf_printf(out, "gap held   median/p99 ms of the %s by tokens held", load_role_name(r->summary->resident_role));
    for (uint32_t i = 0; i < r->summary->resident_count; i++) {
        const resident_bin *b = &r->summary->resident[i];
        buf_printf(out, "%s%llu+: %.1f/%.1f", i % 4 ? "  " : "\n           ", (unsigned long long)b->tokens,
                   b->itl_ms.median, b->itl_ms.p99);
    }
    buf_byte(out, '\n');
}

static void put_worst(const load_report *r, buf *out)
{
    double worst = -1, at_s = 0;
    uint32_t index = 0;
    const char *phase = "";
    for (uint32_t p = 0; p < r->plan->phase_count; p++) {
        const load_cell *c = &r->summary->cells[p][r->summary->resident_role];
        if (!c->itl_ms.count || c->itl_ms.max <= worst)
            continue;
        worst = c->itl_ms.max;
        at_s = c->worst_gap_at_s;
        index = c->worst_gap_sample;
        phase = r->plan->phases[p].name;
    }
    if (worst >= 0) {
        const load_sample *s = &r->samples->items[index];
        buf_printf(out, "worst gap  %.1f ms: %s, %s session %u turn %u, %.1f s after the start\n", worst, phase,
                   load_role_name(s->role), s->session, s->turn, at_s);
    }
    if (r->simulated)
        return;
    buf_printf(out, "canary     the machine's largest hole in this client: %.1f ms (%llu over 5 ms)",
               (double)r->canary.worst_us / 1e3, (unsigned long long)r->canary.over_5ms);
    if (r->canary.worst_at_us)
        buf_printf(out, ", %.1f s after the start",
                   ((double)r->canary.worst_at_us - (double)r->summary->start_us) / 1e6);
    buf_byte(out, '\n');
}

static void put_refusals(const load_report *r, buf *out)
{
    for (uint32_t i = 0; i < r->summary->refusal_count; i++) {
        const load_refusal *one = &r->summary->refusals[i];
        buf_printf(out, "%-10s %u x %s, status %d: %s", one->outcome == LOAD_REFUSED ? "refused" : "failed", one->count,
                   load_role_name(one->role), one->http_status, one->reason);
        if (one->message[0])
            buf_printf(out, ": %.80s", one->message);
        if (one->outcome == LOAD_REFUSED && one->retry_after_max_s)
            buf_printf(out, " (Retry-After %u to %u s)", one->retry_after_min_s, one->retry_after_max_s);
        buf_byte(out, '\n');
    }
    if (r->samples->full)
        buf_text(out, "note       a limit of the recorder was reached: the run ended there\n");
    if (r->stopped)
        buf_text(out, "note       stopped before its end\n");
}

void report_text(const load_report *r, buf *out)
{
    buf_printf(out, "%s%s  %s  model %s  seed %llu  scale %.3g", r->simulated ? "" : "bench ", r->kind, r->url,
               r->model, (unsigned long long)r->seed, r->scale);
    if (!r->simulated)
        buf_printf(out, "  %.2f tokens a word", r->tokens_per_word);
    buf_text(out, "\n\n");
    put_cells(r, out);
    buf_byte(out, '\n');
    put_slowdowns(r, out);
    put_goodput(r, out);
    put_tokens(r, out);
    put_worst(r, out);
    put_refusals(r, out);
}
