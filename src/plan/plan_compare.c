/* plan/plan_compare.c: two machines under the same load: what limits each, what the second buys, for a watt, for a
 * dollar. */
#include <math.h>
#include <stdio.h>

#include "plan/plan_private.h"

#define W(word) (word).text

/* ---- limits ---- */

static const char *decode_limit(const plan_result *r)
{
    return r->decode.estimate <= 0 ? "-" : r->decode.by_matmul ? "matmul" : "bandwidth";
}

static const char *prefill_limit(const plan_result *r)
{
    const plan_prefill *p = &r->prefill;
    return p->tok_s <= 0 ? "-" : p->given ? "given" : p->chunk_compute_s >= p->chunk_read_s ? "matmul" : "bandwidth";
}

static const char *memory_limit(const plan_result *r)
{
    return !r->memory.known ? "-" : r->memory.fits ? "fits" : "does not fit";
}

/* ---- rows ---- */

typedef struct {
    const char *what, *key;
    double a, b;
    plan_word (*word)(double);
} compare_row;

enum { ROWS = 17 };

static double per(double value, double of)
{
    return of > 0 && value > 0 ? value / of : NAN;
}

static double matmul(const plan_side *s)
{
    double rate = cost_matmul_rate(&s->r->box);
    return rate > 0 ? rate / 1e12 : NAN;
}

/* Whatever the model: of dense f16, the share that prompts reach. */
static double usable_matmul(const hardware *hw, double devices)
{
    double rate = hw->tflops[RATE_F16] > 0 ? hw->tflops[RATE_F16] : hw->tflops[RATE_F32];
    return rate > 0 ? rate * devices * cost_shares_for(hw, NULL).matmul : NAN;
}

static plan_word seconds_word(double s)
{
    plan_word none = {"-"};
    return isfinite(s) ? plan_seconds(s) : none;
}

static double known(double value)
{
    return value > 0 ? value : NAN;
}

static uint32_t fill_rows(const plan_side *a, const plan_side *b, compare_row rows[ROWS])
{
    const plan_side *s[2] = {a, b};
    double v[ROWS][2];
    for (int i = 0; i < 2; i++) {
        const plan_result *r = s[i]->r;
        const hardware *hw = &r->box.hw;
        double n = r->box.devices, watts = hw->watts * n, price = hw->price_usd * n;
        double bandwidth = cost_bandwidth(&r->box) / 1e9;
        double of[ROWS] = {known(hw->memory_gb * n),
                           bandwidth,
                           matmul(s[i]),
                           usable_matmul(hw, n),
                           known(watts),
                           known(price),
                           known(r->decode.ceiling),
                           known(r->decode.estimate),
                           known(r->prefill.tok_s),
                           r->prefill.tok_s > 0 ? r->prefill.asked_s : NAN,
                           r->memory.sessions_warm,
                           per(bandwidth, watts),
                           per(r->decode.estimate, watts),
                           per(r->prefill.tok_s, watts),
                           per(1000 * r->decode.estimate, price),
                           per(1000 * r->prefill.tok_s, price),
                           per(1000 * hw->memory_gb * n, price)};
        for (int k = 0; k < ROWS; k++)
            v[k][i] = of[k];
    }
    static const struct {
        const char *what, *key;
        plan_word (*word)(double);
    } names[ROWS] = {{"memory, GB", "memory_gb", plan_number},
                     {"bandwidth, GB/s", "bandwidth_gb_s", plan_number},
                     {"matmuls, T/s", "matmul_tera", plan_number},
                     {"usable in f16, T/s", "usable_f16_tera", plan_number},
                     {"power, W", "watts", plan_number},
                     {"price, USD", "price_usd", plan_number},
                     {"decode ceiling, tok/s", "ceiling_tok_s", plan_number},
                     {"decode, tok/s", "decode_tok_s", plan_number},
                     {"prefill, tok/s", "prefill_tok_s", plan_number},
                     {"first token", "ttft_s", seconds_word},
                     {"warm sessions", "warm_sessions", plan_number},
                     {"GB/s a watt", "gb_s_per_watt", plan_number},
                     {"decode a watt", "decode_per_watt", plan_number},
                     {"prefill a watt", "prefill_per_watt", plan_number},
                     {"decode for 1,000 USD", "decode_per_1000_usd", plan_number},
                     {"prefill for 1,000 USD", "prefill_per_1000_usd", plan_number},
                     {"GB for 1,000 USD", "gb_per_1000_usd", plan_number}};
    for (int k = 0; k < ROWS; k++)
        rows[k] = (compare_row){names[k].what, names[k].key, v[k][0], v[k][1], names[k].word};
    return ROWS;
}

/* ---- as text ---- */

static void put_row(const compare_row *row, buf *out)
{
    buf_printf(out, "  %-22s %16s %16s", row->what, W(row->word(row->a)), W(row->word(row->b)));
    if (isfinite(row->a) && isfinite(row->b) && row->a > 0)
        buf_printf(out, " %9sx", W(plan_number(row->b / row->a)));
    buf_byte(out, '\n');
}

static void put_words(const char *what, const char *a, const char *b, buf *out)
{
    buf_printf(out, "  %-22s %16.16s %16.16s\n", what, a, b);
}

static void put_percent(double factor, buf *out)
{
    if (isfinite(factor) && factor > 0)
        buf_printf(out, "%+.0f%%", 100 * (factor - 1) + 0.0);
    else
        buf_text(out, "unknown");
}

static void put_verdict(const plan_side *a, const plan_side *b, buf *out)
{
    const plan_result *x = a->r, *y = b->r;
    buf line = {0};
    buf_printf(&line, "%s instead of %s: decode ", y->box.hw.name, x->box.hw.name);
    put_percent(per(y->decode.estimate, x->decode.estimate), &line);
    buf_text(&line, ", prefill ");
    put_percent(per(y->prefill.tok_s, x->prefill.tok_s), &line);
    buf_printf(&line, ", warm sessions %s instead of %s.", W(plan_count(y->memory.sessions_warm)),
               W(plan_count(x->memory.sessions_warm)));
    double more = usable_matmul(&y->box.hw, y->box.devices) / usable_matmul(&x->box.hw, x->box.devices);
    if (isfinite(more))
        buf_printf(&line, " Usable matmuls %sx, bandwidth %sx.", W(plan_number(more)),
                   W(plan_number(cost_bandwidth(&y->box) / cost_bandwidth(&x->box))));
    if (x->memory.fits != y->memory.fits)
        buf_printf(&line, " The load fits %s only.", x->memory.fits ? x->box.hw.name : y->box.hw.name);
    plan_put_wrapped(out, "", "", line.data ? line.data : "");
    buf_free(&line);
}

static void put_notes(const plan_side *s, buf *out)
{
    char first[64];
    for (uint32_t i = 0; i < s->r->note_count; i++) {
        snprintf(first, sizeof first, "note        %.40s: ", s->r->box.hw.name);
        plan_put_wrapped(out, strstr(s->r->notes[i], s->r->box.hw.name) == s->r->notes[i] ? "note        " : first,
                         "            ", s->r->notes[i]);
    }
    if (s->r->box.hw.price_usd > 0)
        buf_printf(out, "note        %s: price of %s\n", s->r->box.hw.name, s->r->box.hw.price_date);
}

void plan_compare_text(const plan_side *a, const plan_side *b, buf *out)
{
    compare_row rows[ROWS];
    const cost_box *x = &a->r->box;
    uint32_t count = fill_rows(a, b, rows);
    if (a->q->model)
        buf_printf(out, "%s:%s, %s at depth %s, a prompt of %s tokens; est. or measured\n\n", x->shape.name,
                   x->type.name, W(plan_streams(a->q->batch)), W(plan_count(a->q->depth)), W(plan_count(a->q->prompt)));
    put_words("", x->hw.name, b->r->box.hw.name, out);
    if (a->q->model)
        put_words("the load", memory_limit(a->r), memory_limit(b->r), out);
    put_words("decode is bound by", decode_limit(a->r), decode_limit(b->r), out);
    put_words("prefill is bound by", prefill_limit(a->r), prefill_limit(b->r), out);
    put_words("decode is", a->r->decode.measured.n ? "measured" : "est.", b->r->decode.measured.n ? "measured" : "est.",
              out);
    put_words("prefill is", a->r->prefill.measured.n ? "measured" : "est.",
              b->r->prefill.measured.n ? "measured" : "est.", out);
    for (uint32_t i = 0; i < count; i++)
        if (isfinite(rows[i].a) || isfinite(rows[i].b))
            put_row(&rows[i], out);
    buf_byte(out, '\n');
    put_verdict(a, b, out);
    put_notes(a, out);
    put_notes(b, out);
}

/* ---- as JSON ---- */

static void put_side(const plan_side *s, buf *out)
{
    buf_byte(out, '{');
    plan_json_fields(s->q, s->r, out);
    buf_byte(out, '}');
}

static void put_limits(const char *name, const plan_result *r, buf *out)
{
    buf_printf(out, "\"%s\": {", name);
    plan_put_string(out, "decode", decode_limit(r));
    buf_text(out, ", ");
    plan_put_string(out, "prefill", prefill_limit(r));
    buf_text(out, ", ");
    plan_put_string(out, "memory", memory_limit(r));
    buf_byte(out, '}');
}

status plan_compare_json(const plan_side *a, const plan_side *b, buf *out, error *err)
{
    compare_row rows[ROWS];
    uint32_t count = fill_rows(a, b, rows);
    buf_byte(out, '{');
    plan_put_string(out, "format", "headway-plan-compare/1");
    buf_text(out, ",\n\"limits\": {");
    put_limits("a", a->r, out);
    buf_text(out, ", ");
    put_limits("b", b->r, out);
    buf_text(out, "},\n\"rows\": {");
    for (uint32_t i = 0; i < count; i++) {
        buf_printf(out, "%s\"%s\": {", i ? ",\n " : "\n ", rows[i].key);
        plan_put_number(out, "a", rows[i].a);
        buf_text(out, ", ");
        plan_put_number(out, "b", rows[i].b);
        buf_text(out, ", ");
        plan_put_number(out, "ratio", per(rows[i].b, rows[i].a));
        buf_byte(out, '}');
    }
    buf_text(out, "},\n\"a\": ");
    put_side(a, out);
    buf_text(out, ",\n\"b\": ");
    put_side(b, out);
    buf_text(out, "}\n");
    return out->failed ? error_set(err, ERR_MEMORY, "out of memory") : OK;
}
