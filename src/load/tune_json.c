/* load/tune_json.c: curves.json and steps.json. Written by hand in a fixed order; a number that is not known is null.
 */
#include <math.h>
#include <stdio.h>
#include <time.h>

#include "load/tune.h"

static void put_string(buf *out, const char *name, const char *text)
{
    buf_printf(out, "\"%s\":\"", name);
    for (; text && *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            buf_printf(out, "\\%c", c);
        else if (c < 0x20 || c == 0x7f || c == '<')
            buf_printf(out, "\\u%04x", c);
        else
            buf_byte(out, (char)c);
    }
    buf_byte(out, '"');
}

static void put_number(buf *out, const char *name, double value)
{
    if (isfinite(value))
        buf_printf(out, "\"%s\":%.6g", name, value);
    else
        buf_printf(out, "\"%s\":null", name);
}

/* "name":value, */
static void number(buf *out, const char *name, double value)
{
    put_number(out, name, value);
    buf_byte(out, ',');
}

static void put_head(const tune_report *r, const char *format, buf *out)
{
    struct tm utc;
    char date[32] = "";
    time_t seconds = (time_t)r->unix_seconds;
    if (gmtime_r(&seconds, &utc))
        strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &utc);
    buf_printf(out, "{\"format\":\"%s\",", format);
    put_string(out, "machine", r->machine);
    buf_byte(out, ',');
    put_string(out, "model", r->model);
    buf_byte(out, ',');
    put_string(out, "date", date);
    buf_printf(out, ",\"quick\":%s,", r->quick ? "true" : "false");
    put_number(out, "load_average", r->load_average);
    buf_text(out, ",\n");
}

/* ---- curves.json ---- */

static void put_measures(const tune_sample *s, buf *out)
{
    double nothing = s->gaps ? 1 : NAN;
    number(out, "document_premium", s->starved ? NAN : s->premium);
    number(out, "document_ttft_ms", s->starved ? NAN : s->ttft_us / 1e3);
    buf_printf(out, "\"starved\":%s,\"estimated\":%s,\"gaps\":%u,", s->starved ? "true" : "false",
               s->estimated ? "true" : "false", s->gaps);
    number(out, "gap_p50_ms", nothing * s->p50_us / 1e3);
    number(out, "gap_p99_ms", nothing * s->p99_us / 1e3);
    number(out, "chat_gap_ms", nothing * s->worst_us / 1e3);
    put_number(out, "chat_tokens_per_s", nothing * s->chat_tokens_per_s);
}

static void put_point(const tune_report *r, const tune_point *p, buf *out)
{
    buf_printf(out, "{\"chunk\":%u,", p->chunk);
    if (p->bound_sweep) {
        number(out, "bound_ms", (double)p->gap_us / 1e3);
        number(out, "chat_share", p->chat_share);
    }
    if (!tune_value(p)) {
        put_string(out, "refused", p->refused);
        buf_byte(out, '}');
        return;
    }
    put_measures(tune_value(p), out);
    if (!p->bound_sweep)
        buf_printf(out, ",\"keeps_bound\":%s", tune_keeps(r, p) ? "true" : "false");
    buf_text(out, ",\"samples\":[");
    for (uint32_t i = 0; i < p->sample_count; i++) {
        buf_text(out, i ? ",{" : "{");
        put_measures(&p->samples[i], out);
        buf_byte(out, '}');
    }
    buf_text(out, "]}");
}

static void put_policies(const tune_report *r, buf *out)
{
    const char *policy = NULL;
    buf_text(out, "\"policies\":[");
    for (uint32_t i = 0; i < r->point_count; i++) {
        const tune_point *p = &r->points[i];
        if (p->bound_sweep)
            continue;
        if (!policy || strcmp(policy, p->policy) != 0) {
            int sweet = tune_sweet(r, p->policy);
            buf_text(out, policy ? "]},\n{" : "\n{");
            put_string(out, "policy", policy = p->policy);
            if (sweet >= 0)
                buf_printf(out, ",\"sweet\":%u", r->points[sweet].chunk);
            buf_text(out, ",\"points\":[\n");
        } else {
            buf_text(out, ",\n");
        }
        put_point(r, p, out);
    }
    buf_text(out, policy ? "]}],\n" : "],\n");
}

/* ,"cache":{...}; nothing when too little was measured */
static void put_cache(const tune_report *r, buf *out)
{
    tune_cache_advice a = tune_cache_advise(r);
    if (!a.known)
        return;
    buf_text(out, ",\n\"cache\":{");
    number(out, "reuse", r->reuse.given ? r->reuse.share : NAN);
    number(out, "prompt_tokens", a.prompt_tokens);
    number(out, "answer_tokens", a.answer_tokens);
    number(out, "read_ms", a.read_us / 1e3);
    number(out, "cache_spares_ms", r->reuse.given ? a.spared_us / 1e3 : NAN);
    number(out, "generate_ms", a.answer_us / 1e3);
    number(out, "q8_spares_ms", a.q8_us / 1e3);
    number(out, "q4_spares_ms", a.q4_us / 1e3);
    put_number(out, "break_even_reuse", a.break_even);
    buf_byte(out, '}');
}

void tune_curves_json(const tune_report *r, buf *out)
{
    int choice = tune_choice(r);
    put_head(r, "headway-curves-1", out);
    number(out, "bound_ms", (double)r->gap_us / 1e3);
    buf_printf(out, "\"bound_auto\":%s,", r->gap_auto ? "true" : "false");
    number(out, "smallest_bound_ms", (double)r->smallest_gap_us / 1e3);
    number(out, "chat_share", r->chat_share);
    buf_printf(out, "\"context\":%u,\"document_tokens\":%u,\"chat_prompt_tokens\":%u,\n\"alone\":{", r->context,
               r->document_tokens, r->chat_tokens);
    number(out, "document_ttft_ms", r->alone_us.least / 1e3);
    number(out, "document_ttft_median_ms", r->alone_us.median / 1e3);
    number(out, "document_ttft_most_ms", r->alone_us.most / 1e3);
    number(out, "chat_gap_ms", r->solo_gap_us / 1e3);
    put_number(out, "chat_tokens_per_s", r->solo_tokens_per_s);
    buf_printf(out, ",\"steady\":%s},\n\"choice\":", tune_is_steady(r) ? "true" : "false");
    if (choice >= 0) {
        buf_byte(out, '{');
        put_string(out, "policy", r->points[choice].policy);
        buf_printf(out, ",\"chunk\":%u,\"keeps_bound\":%s},\n", r->points[choice].chunk,
                   tune_keeps(r, &r->points[choice]) ? "true" : "false");
    } else {
        buf_text(out, "null,\n");
    }
    put_policies(r, out);
    buf_text(out, "\"bounds\":[");
    bool first = true;
    for (uint32_t i = 0; i < r->point_count; i++) {
        if (!r->points[i].bound_sweep)
            continue;
        buf_text(out, first ? "\n" : ",\n");
        first = false;
        put_point(r, &r->points[i], out);
    }
    buf_byte(out, ']');
    put_cache(r, out);
    buf_text(out, "}\n");
}

/* ---- steps.json ---- */

static void put_spread(buf *out, double scale, const char *unit, const tune_spread *s)
{
    static const char *const names[] = {"", "_least", "_most"};
    const double values[] = {s->median, s->least, s->most};
    char name[32];
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "%s%s", unit, names[i]);
        number(out, name, values[i] * scale);
    }
    buf_printf(out, "\"repeats\":%u", s->repeats);
}

static void put_costs(buf *out, const char *name, const char *size, const tune_cost_list *list, double token_flops)
{
    bool tokens = strcmp(size, "tokens") == 0;
    buf_printf(out, ",\n\"%s\":[", name);
    for (uint32_t i = 0; i < list->count; i++) {
        const tune_cost *c = &list->items[i];
        buf_printf(out, "%s{\"%s\":%u,\"position\":%u,", i ? ",\n" : "\n", size, c->size, c->position);
        put_spread(out, 1, "us", &c->us);
        buf_byte(out, ',');
        put_number(out, "tokens_per_s", c->us.median > 0 ? c->size * 1e6 / c->us.median : NAN);
        if (tokens) {
            buf_byte(out, ',');
            put_number(out, "gflop_per_s",
                       token_flops > 0 && c->us.median > 0 ? token_flops * c->size / c->us.median / 1e3 : NAN);
        }
        buf_byte(out, '}');
    }
    buf_byte(out, ']');
}

static void put_holes(buf *out, const canary_report *holes)
{
    if (!holes->watched_us)
        return;
    buf_printf(out, ",\n\"holes\":{\"watched_us\":%llu,\"counts\":[", (unsigned long long)holes->watched_us);
    for (uint32_t i = 0; i < CANARY_SIZES; i++)
        buf_printf(out, i ? ",%u" : "%u", holes->holes[i]);
    buf_text(out, "]}");
}

void tune_steps_json(const tune_report *r, buf *out)
{
    const tune_costs *c = &r->costs;
    put_head(r, "headway-steps-1", out);
    buf_printf(out, "\"weight_bytes\":%llu,", (unsigned long long)c->weight_bytes);
    put_number(out, "token_flops", c->token_flops > 0 ? c->token_flops : NAN);
    buf_byte(out, ',');
    put_number(out, "kv_token_bytes", r->kv_token_bytes > 0 ? r->kv_token_bytes : NAN);
    buf_printf(out, ",\"state_bytes\":%llu", (unsigned long long)c->state_bytes);
    buf_text(out, ",\n\"read\":[");
    for (uint32_t i = 0; i < c->read_count; i++) {
        buf_printf(out, "%s{\"bytes\":%llu,", i ? ",\n" : "\n", (unsigned long long)c->reads[i].bytes);
        put_spread(out, 1, "bytes_per_s", &c->reads[i].rate);
        buf_byte(out, '}');
    }
    buf_byte(out, ']');
    put_costs(out, "prefill", "tokens", &c->chunks, c->token_flops);
    put_costs(out, "prefill_at", "tokens", &c->positions, c->token_flops);
    put_costs(out, "decode", "rows", &c->rows, 0);
    put_costs(out, "decode_at", "rows", &c->depths, 0);
    put_holes(out, &c->holes);
    buf_text(out, "}\n");
}
