/* load/tune_cache.c: cache or quantize? From the steps of this box and the user's reuse. Reading x tokens of a prompt
 * takes u x + d x^2 / 2: u from the largest chunk at position 0, d from the document alone. A decode step takes a + b p
 * at depth p: b is what the KV costs, and what a quantized type has less of. */
#include <math.h>

#include "load/tune.h"

static const double answer_tokens_default = 200;

typedef struct {
    double token_us, depth_us; /* u, d */
} reading;

static bool fit_reading(const tune_report *r, reading *out)
{
    const tune_cost_list *chunks = &r->costs.chunks;
    double tokens = r->document_tokens;
    if (!chunks->count || tokens < 1 || r->alone_us.least <= 0)
        return false;
    const tune_cost *largest = &chunks->items[chunks->count - 1];
    double whole = r->alone_us.least / tokens;
    out->token_us = fmin(largest->us.least / largest->size, whole);
    out->depth_us = 2 * (whole - out->token_us) / tokens;
    return out->token_us > 0;
}

static double read_us(reading m, double tokens)
{
    return m.token_us * tokens + m.depth_us * tokens * tokens / 2;
}

static double tokens_in(reading m, double us)
{
    double b = m.token_us, a = m.depth_us / 2;
    return a > 1e-12 ? (sqrt(b * b + 4 * a * us) - b) / (2 * a) : us / b;
}

tune_cache_advice tune_cache_advise(const tune_report *r)
{
    tune_cache_advice out = {.break_even = 1};
    const tune_cost_list *depths = &r->costs.depths;
    reading m;
    if (depths->count < 2 || !fit_reading(r, &m))
        return out;
    const tune_cost *first = &depths->items[0], *last = &depths->items[depths->count - 1];
    if (last->position <= first->position)
        return out;
    double slope = fmax(0, (last->us.median - first->us.median) / (last->position - first->position));
    double base = fmax(0, first->us.median - slope * first->position);
    double prompt = r->reuse.prompt_tokens > 0 ? r->reuse.prompt_tokens : r->document_tokens;
    double answer = r->reuse.answer_tokens > 0 ? r->reuse.answer_tokens : answer_tokens_default;
    double kv_us = answer * slope * (prompt + answer / 2);
    out = (tune_cache_advice){.known = true,
                              .prompt_tokens = prompt,
                              .answer_tokens = answer,
                              .read_us = read_us(m, prompt),
                              .spared_us = read_us(m, prompt * r->reuse.share),
                              .answer_us = answer * base + kv_us,
                              .q8_us = kv_us * (100 - TUNE_Q8_PERCENT) / 100,
                              .q4_us = kv_us * (100 - TUNE_Q4_PERCENT) / 100};
    out.break_even = fmin(1, tokens_in(m, out.q8_us) / prompt);
    return out;
}

static void put_sizes(const tune_report *r, const tune_cache_advice *a, buf *out)
{
    if (r->kv_token_bytes <= 0)
        return;
    double mb = r->kv_token_bytes * a->prompt_tokens / 1048576;
    buf_printf(out, "Its KV: %.0f MB in f16, %.0f in q8, %.0f in q4: so many more sessions stay warm.\n", mb,
               mb * TUNE_Q8_PERCENT / 100, mb * TUNE_Q4_PERCENT / 100);
}

void tune_cache_text(const tune_report *r, buf *out)
{
    tune_cache_advice a = tune_cache_advise(r);
    if (!a.known)
        return;
    buf_printf(out, "\nCache or quantize, for prompts of %.0f tokens and answers of %.0f:\n", a.prompt_tokens,
               a.answer_tokens);
    if (r->reuse.given)
        buf_printf(out, "  the cache spares %.2f of %.2f s of reading, at a reuse of %.0f%% (%s);\n", a.spared_us / 1e6,
                   a.read_us / 1e6, r->reuse.share * 100, r->reuse.measured ? "measured" : "as given");
    else
        buf_printf(out, "  the cache spares the reuse's share of %.2f s of reading (--reuse says it);\n",
                   a.read_us / 1e6);
    buf_printf(out, "  --kv q8 spares %.2f of %.2f s of generating, q4 %.2f (by their bytes).\n", a.q8_us / 1e6,
               a.answer_us / 1e6, a.q4_us / 1e6);
    put_sizes(r, &a, out);
    if (!r->reuse.given)
        buf_printf(out, "Above a reuse of %.1f%% the cache spares more.\n", a.break_even * 100);
    else if (r->reuse.share > a.break_even)
        buf_printf(out, "Cache first (it spares more above a reuse of %.1f%%); q8 makes room for more.\n",
                   a.break_even * 100);
    else
        buf_printf(out, "Quantize first (the cache spares more above a reuse of %.1f%%).\n", a.break_even * 100);
}
