/* load/report_json.c: the machine-readable report. Written by hand in a fixed order, so that a file can be compared
 * with another; a number that is not known is null. */
#include <math.h>

#include "load/report.h"

enum { STREAM_TOKENS_MAX = 400000 }; /* in an HTML file */

static void put_text(buf *out, const char *data, size_t size)
{
    buf_byte(out, '"');
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)data[i];
        if (c == '"' || c == '\\')
            buf_printf(out, "\\%c", c);
        else if (c < 0x20 || c == 0x7f || c == '<') /* '<': the object may stand inside a script element */
            buf_printf(out, "\\u%04x", c);
        else
            buf_byte(out, (char)c);
    }
    buf_byte(out, '"');
}

static void put_string(buf *out, const char *name, const char *text)
{
    buf_printf(out, "\"%s\":", name);
    if (text)
        put_text(out, text, strlen(text));
    else
        buf_text(out, "null");
}

static void put_number(buf *out, const char *name, double value)
{
    if (isfinite(value))
        buf_printf(out, "\"%s\":%.6g", name, value);
    else
        buf_printf(out, "\"%s\":null", name);
}

static double seconds_since(const load_report *r, uint64_t at_us)
{
    double us = (double)at_us - (double)r->summary->start_us;
    return us / 1e6;
}

static void put_quantiles(buf *out, const char *name, const load_quantiles *q)
{
    double none = q->count ? 1 : NAN;
    buf_printf(out, "\"%s\":{\"count\":%llu,", name, (unsigned long long)q->count);
    put_number(out, "mean", none * q->mean);
    buf_byte(out, ',');
    put_number(out, "median", none * q->median);
    buf_byte(out, ',');
    put_number(out, "p90", none * q->p90);
    buf_byte(out, ',');
    put_number(out, "p99", none * q->p99);
    buf_byte(out, ',');
    put_number(out, "max", none * q->max);
    buf_byte(out, '}');
}

static void put_cell(buf *out, const load_cell *c, load_role role)
{
    buf_byte(out, '{');
    put_string(out, "role", load_role_name(role));
    buf_printf(out, ",\"requests\":%u,\"done\":%u,\"refused\":%u,\"failed\":%u,\"cut\":%u,", c->requests, c->done,
               c->refused, c->failed, c->cut);
    put_quantiles(out, "ttft_ms", &c->ttft_ms);
    buf_byte(out, ',');
    put_quantiles(out, "itl_ms", &c->itl_ms);
    buf_byte(out, ',');
    put_quantiles(out, "tpot_ms", &c->tpot_ms);
    buf_byte(out, ',');
    put_quantiles(out, "e2e_ms", &c->e2e_ms);
    buf_byte(out, ',');
    put_quantiles(out, "stream_tok_s", &c->stream_tok_s);
    buf_byte(out, ',');
    put_number(out, "worst_gap_at_s", c->itl_ms.count ? c->worst_gap_at_s : NAN);
    buf_printf(out, ",\"prompt_tokens\":%llu,\"cached_tokens\":%llu,\"output_tokens\":%llu,",
               (unsigned long long)c->prompt_tokens, (unsigned long long)c->cached_tokens,
               (unsigned long long)c->output_tokens);
    put_number(out, "input_output_ratio", c->output_tokens ? (double)c->prompt_tokens / (double)c->output_tokens : NAN);
    buf_printf(out, ",\"judged\":%u,\"good\":%u,\"tokens\":%llu,\"good_tokens\":%llu,", c->judged, c->good,
               (unsigned long long)c->tokens, (unsigned long long)c->good_tokens);
    put_number(out, "goodput_requests_s", c->good_s);
    buf_byte(out, ',');
    put_number(out, "prompt_tok_s", c->prompt_tok_s);
    buf_byte(out, ',');
    put_number(out, "output_tok_s", c->output_tok_s);
    buf_byte(out, '}');
}

static void put_phases(const load_report *r, buf *out)
{
    buf_text(out, "\"phases\":[");
    for (uint32_t p = 0; p < r->plan->phase_count; p++) {
        const load_phase *phase = &r->plan->phases[p];
        buf_text(out, p ? ",\n{" : "\n{");
        put_string(out, "name", phase->name);
        buf_byte(out, ',');
        put_number(out, "start_s", r->spans[p].start_us ? seconds_since(r, r->spans[p].start_us) : NAN);
        buf_byte(out, ',');
        put_number(out, "end_s", r->spans[p].end_us ? seconds_since(r, r->spans[p].end_us) : NAN);
        buf_text(out, ",\"loads\":[");
        for (uint32_t g = 0; g < phase->group_count; g++) {
            const load_group *group = &phase->groups[g];
            buf_text(out, g ? ",{" : "{");
            put_string(out, "role", load_role_name(group->role));
            buf_printf(out, ",\"concurrency\":%u,", group->concurrency);
            put_number(out, "rate", group->rate);
            buf_byte(out, '}');
        }
        buf_text(out, "],\"cells\":[");
        bool first = true;
        for (int role = 0; role < LOAD_ROLES; role++) {
            const load_cell *c = &r->summary->cells[p][role];
            if (!c->requests)
                continue;
            buf_text(out, first ? "" : ",\n ");
            put_cell(out, c, (load_role)role);
            first = false;
        }
        buf_text(out, "]}");
    }
    buf_byte(out, ']');
}

static void put_slowdown(const load_report *r, buf *out)
{
    bool first = true;
    buf_text(out, "\"slowdown\":{");
    for (int role = 0; role < LOAD_ROLES; role++) {
        const load_slowdown *s = &r->summary->slowdown[role];
        if (!r->summary->compared[role])
            continue;
        buf_printf(out, "%s\"%s\":{", first ? "" : ",", load_role_name((load_role)role));
        const struct {
            const char *name;
            double value;
        } rows[] = {{"ttft_median", s->ttft_median}, {"itl_median", s->itl_median},   {"itl_p99", s->itl_p99},
                    {"worst_gap", s->worst_gap},     {"stream_rate", s->stream_rate}, {"prompt_rate", s->prompt_rate}};
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            put_number(out, rows[i].name, rows[i].value);
            buf_text(out, i + 1 < sizeof rows / sizeof *rows ? "," : "}");
        }
        first = false;
    }
    buf_byte(out, '}');
}

static void put_refusals(const load_report *r, buf *out)
{
    buf_text(out, "\"refusals\":[");
    for (uint32_t i = 0; i < r->summary->refusal_count; i++) {
        const load_refusal *one = &r->summary->refusals[i];
        buf_text(out, i ? ",{" : "{");
        put_string(out, "role", load_role_name(one->role));
        buf_byte(out, ',');
        put_string(out, "outcome", one->outcome == LOAD_REFUSED ? "refused" : "failed");
        buf_printf(out, ",\"status\":%d,", one->http_status);
        put_string(out, "reason", one->reason);
        buf_byte(out, ',');
        put_string(out, "message", one->message);
        buf_printf(out, ",\"count\":%u,\"retry_after_min_s\":%u,\"retry_after_max_s\":%u}", one->count,
                   one->retry_after_min_s, one->retry_after_max_s);
    }
    buf_byte(out, ']');
}

static void put_spread(const load_report *r, buf *out)
{
    const load_summary *s = r->summary;
    buf_text(out, "\"timeline\":{");
    put_number(out, "bin_s", s->bin_s);
    for (int role = 0; role < LOAD_ROLES; role++) {
        bool any = false;
        for (int i = 0; i < TIMELINE_BINS && !any; i++)
            any = s->worst_ms[role][i] > 0;
        if (!any)
            continue;
        buf_printf(out, ",\n\"%s\":[", load_role_name((load_role)role));
        for (int i = 0; i < TIMELINE_BINS; i++)
            buf_printf(out, "%s%.5g", i ? "," : "", (double)s->worst_ms[role][i]);
        buf_byte(out, ']');
    }
    buf_text(out, "},\n\"resident\":{");
    put_string(out, "role", load_role_name(s->resident_role));
    buf_text(out, ",\"bins\":[");
    for (uint32_t i = 0; i < s->resident_count; i++) {
        buf_printf(out, "%s{\"tokens\":%llu,", i ? ",\n" : "", (unsigned long long)s->resident[i].tokens);
        put_quantiles(out, "itl_ms", &s->resident[i].itl_ms);
        buf_byte(out, '}');
    }
    buf_text(out, "]}");
}

/* Times in tenths of a millisecond after the request was due, each as the difference to the one before. */
static void put_stream(const load_sample *s, buf *out)
{
    uint64_t before = 0;
    buf_text(out, ",\"at\":[");
    for (uint32_t i = 0; i < s->mark_count; i++) {
        uint64_t at = (s->marks[i].at_us - s->intended_us + 50) / 100;
        buf_printf(out, "%s%llu", i ? "," : "", (unsigned long long)(at - before));
        before = at;
    }
    buf_text(out, "],\"text\":[");
    for (uint32_t i = 0, start = 0; i < s->mark_count; start = s->marks[i++].text_end) {
        buf_text(out, i ? "," : "");
        put_text(out, s->text.data + start, s->marks[i].text_end - start);
    }
    buf_byte(out, ']');
}

static void put_request(const load_report *r, const load_sample *s, bool stream, buf *out)
{
    static const char *const outcomes[] = {"running", "done", "refused", "failed", "cut"};
    bool any = s->mark_count > 0;
    double longest = 0;
    for (uint32_t i = 1; i < s->mark_count; i++)
        longest = fmax(longest, (double)(s->marks[i].at_us - s->marks[i - 1].at_us) / 1e3);
    buf_printf(out, "{\"phase\":%u,\"role\":\"%s\",\"session\":%u,\"turn\":%u,\"outcome\":\"%s\",\"status\":%d,",
               s->phase, load_role_name(s->role), s->session, s->turn, outcomes[s->outcome], s->http_status);
    put_string(out, "reason", s->reason);
    buf_printf(out, ",\"intended_s\":%.4f,\"sent_s\":%.4f,\"end_s\":%.4f,", seconds_since(r, s->intended_us),
               seconds_since(r, s->sent_us), seconds_since(r, s->end_us));
    put_number(out, "ttft_ms", any ? (double)(s->marks[0].at_us - s->intended_us) / 1e3 : NAN);
    buf_byte(out, ',');
    put_number(out, "longest_gap_ms", s->mark_count > 1 ? longest : NAN);
    buf_printf(out, ",\"prompt_tokens\":%u,\"cached_tokens\":%u,\"output_tokens\":%u,\"deltas\":%u",
               sample_prompt_tokens(s), s->usage.cached_tokens, sample_output_tokens(s), s->mark_count);
    if (stream)
        put_stream(s, out);
    buf_byte(out, '}');
}

void report_json(const load_report *r, unsigned flags, buf *out)
{
    buf_text(out, "{\"schema\":\"headway-bench/1\",");
    put_string(out, "workload", r->kind);
    buf_byte(out, ',');
    put_string(out, "url", r->url);
    buf_byte(out, ',');
    put_string(out, "model", r->model);
    buf_byte(out, ',');
    put_string(out, "trace", r->trace);
    buf_printf(out, ",\"unix_seconds\":%llu,\"seed\":%llu,", (unsigned long long)r->unix_seconds,
               (unsigned long long)r->seed);
    put_number(out, "scale", r->scale);
    buf_byte(out, ',');
    put_number(out, "tokens_per_word", r->tokens_per_word);
    buf_printf(out, ",\"stopped\":%s%s,\"bounds\":{", r->stopped ? "true" : "false",
               r->simulated ? ",\"simulated\":true" : "");
    put_number(out, "gap_ms", r->bounds.gap_ms);
    buf_byte(out, ',');
    put_number(out, "ttft_ms", r->bounds.ttft_ms);
    buf_text(out, "},\"client\":{");
    put_number(out, "largest_hole_ms", (double)r->canary.worst_us / 1e3);
    buf_byte(out, ',');
    put_number(out, "largest_hole_at_s", r->canary.worst_at_us ? seconds_since(r, r->canary.worst_at_us) : NAN);
    buf_printf(out, ",\"holes_over_5ms\":%llu,", (unsigned long long)r->canary.over_5ms);
    put_number(out, "late_send_max_ms", r->summary->late_ms_max);
    buf_text(out, "},\n");
    put_phases(r, out);
    buf_text(out, ",\n");
    put_slowdown(r, out);
    buf_text(out, ",\n");
    put_refusals(r, out);
    buf_text(out, ",\n");
    put_spread(r, out);
    if (flags) {
        uint64_t tokens = 0;
        buf_text(out, ",\n\"requests\":[");
        for (uint32_t i = 0; i < r->samples->count; i++) {
            const load_sample *s = &r->samples->items[i];
            tokens += s->mark_count;
            buf_text(out, i ? ",\n" : "\n");
            put_request(r, s, (flags & REPORT_STREAMS) && tokens <= STREAM_TOKENS_MAX, out);
        }
        buf_byte(out, ']');
    }
    buf_text(out, "}\n");
}
