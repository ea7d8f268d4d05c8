/* sched/step_model.c: two Kalman filters in units of time. With terms f, parameters x and variance P: the prediction is
 * f x, its error e moves x by K e, K = P f / (f P f + R), and P shrinks by K f P. R is the square of what a step's time
 * usually scatters by. Before each update P grows by a small part of the parameters' squares, up to a limit: that is
 * how the filter forgets. */
#include "sched/step_model.h"

#include <stdlib.h>
#include <string.h>

enum { OUTLIERS_BELIEVED = 6 };
static const double row_rate = 0.1;
static const double step_fade = 0.01, lasting_fade = 0.5;  /* of a parameter, in each step */
static const double scatter_part = 0.08, scatter_us = 150; /* of a step's time, and of any */

void step_model_init(step_model *m)
{
    memset(m, 0, sizeof *m);
}

bool step_model_knows(const step_model *m, model_kind kind)
{
    return m->observations[kind] > 0;
}

/* ---- errors and learning ---- */

static double clamp(double value, double low, double high)
{
    return value < low ? low : value > high ? high : value;
}

static void note_error(step_model *m, model_kind kind, double ratio)
{
    model_errors *e = &m->errors[kind];
    e->ratios[e->next] = (float)ratio;
    e->next = (e->next + 1) % MODEL_ERRORS;
    if (e->count < MODEL_ERRORS)
        e->count++;
}

/* Is it to be learned from? Not an outlier that stands alone. *lasting: it is the newest of a row of them. */
static bool believed(step_model *m, model_kind kind, double ratio, bool *lasting)
{
    bool outlier = ratio > 1 || ratio < -0.5;
    int32_t *row = &m->outliers[kind];
    *lasting = false;
    if (!outlier) {
        *row = 0;
        return true;
    }
    *row = ratio > 0 ? (*row > 0 ? *row : 0) + 1 : (*row < 0 ? *row : 0) - 1;
    *lasting = abs(*row) >= OUTLIERS_BELIEVED;
    return *lasting;
}

typedef struct {
    double *x, *variance; /* (n), (n, n) */
    const double *terms;  /* (n) */
    int n;
} filter;

/* What is known for sure fades: a little with each step, much when a lasting change was seen. */
static void fade(filter *f, double part)
{
    for (int i = 0; i < f->n; i++) {
        double *own = &f->variance[i * f->n + i], square = f->x[i] * f->x[i];
        if (f->terms[i] != 0 && *own < square)
            *own += part * part * square;
    }
}

static void update(filter *f, double measured, double scatter)
{
    double gain[DECODE_TERMS], predicted = 0, uncertain = scatter * scatter;
    for (int i = 0; i < f->n; i++) {
        gain[i] = 0;
        for (int k = 0; k < f->n; k++)
            if (f->terms[k] != 0) /* few are not */
                gain[i] += f->variance[i * f->n + k] * f->terms[k];
        predicted += f->terms[i] * f->x[i];
        uncertain += f->terms[i] * gain[i];
    }
    double moved[DECODE_TERMS] = {0}, after = 0;
    for (int i = 0; i < f->n; i++) {
        if (f->x[i] > 0) /* never negative */
            moved[i] = clamp(f->x[i] + gain[i] / uncertain * (measured - predicted), f->x[i] / 4, f->x[i] * 4);
        after += f->terms[i] * moved[i];
    }
    /* A term that is next to nothing and should be the one to grow is held by its limit, and those that should shrink
     * for it are not: then the prediction moves away from what was measured, further each time. */
    bool away = (after - predicted) * (measured - predicted) < 0;
    double scale = predicted > 0 ? clamp(measured / predicted, 0.25, 4) : 1;
    for (int i = 0; i < f->n; i++)
        f->x[i] = away ? f->x[i] * scale : moved[i];
    for (int i = 0; i < f->n; i++)
        for (int k = 0; k < f->n && gain[i] != 0; k++)
            f->variance[i * f->n + k] -= gain[i] * gain[k] / uncertain;
}

static void learn(step_model *m, model_kind kind, filter *f, double measured, double predicted)
{
    bool lasting;
    if (!believed(m, kind, measured / predicted - 1, &lasting))
        return;
    fade(f, lasting ? lasting_fade : step_fade);
    update(f, measured, scatter_part * predicted + scatter_us);
}

/* Moves the value that would stand at `at` if they were sorted there, smaller ones before it, larger ones behind. */
static float select_value(float *values, uint32_t count, uint32_t at)
{
    uint32_t low = 0, high = count - 1;
    while (low < high) {
        float pivot = values[low + (high - low) / 2];
        uint32_t i = low, k = high;
        for (;;) {
            while (values[i] < pivot)
                i++;
            while (values[k] > pivot)
                k--;
            if (i >= k)
                break;
            float swapped = values[i];
            values[i++] = values[k];
            values[k--] = swapped;
        }
        if (at <= k)
            high = k;
        else
            low = k + 1;
    }
    return values[at];
}

static double median_of(float *values, uint32_t count)
{
    float upper = select_value(values, count, count / 2);
    return count % 2 ? upper : (select_value(values, count, count / 2 - 1) + upper) / 2;
}

static double under_of(float *values, uint32_t count)
{
    double under = count ? select_value(values, count, (uint32_t)(0.95 * (count - 1) + 0.5)) : 0;
    return under > 0 ? under : 0;
}

double step_model_under(const step_model *m, model_kind kind)
{
    const model_errors *e = &m->errors[kind];
    float values[MODEL_ERRORS];
    memcpy(values, e->ratios, e->count * sizeof values[0]);
    return under_of(values, e->count);
}

model_error_summary step_model_error(const step_model *m, model_kind kind)
{
    const model_errors *e = &m->errors[kind];
    model_error_summary summary = {.count = e->count};
    if (e->count == 0)
        return summary;
    float values[MODEL_ERRORS];
    memcpy(values, e->ratios, e->count * sizeof values[0]);
    summary.under_p95 = under_of(values, e->count);
    for (uint32_t i = 0; i < e->count; i++)
        values[i] = values[i] < 0 ? -values[i] : values[i];
    summary.median_abs = median_of(values, e->count);
    return summary;
}

/* ---- decode ---- */

typedef struct { /* base(rows) = low * base_us[at] + high * base_us[at + 1] */
    uint32_t at;
    double low, high;
} regime;

static regime regime_of(uint32_t rows)
{
    uint32_t at = 0;
    while (at + 2 < MODEL_REGIMES && (2u << at) <= rows)
        at++;
    double from = (double)(1u << at), part = clamp(((double)rows - from) / from, 0, 1);
    return (regime){at, 1 - part, part};
}

/* What stands at 2^at rows: observed, or on the line between the nearest that were. */
static double base_at(const step_model *m, uint32_t at)
{
    int below = (int)at, above = (int)at;
    while (below >= 0 && m->decode[below] == 0)
        below--;
    while (above < MODEL_REGIMES && m->decode[above] == 0)
        above++;
    if (below < 0)
        return above < MODEL_REGIMES ? m->decode[above] : 0;
    if (above == MODEL_REGIMES) { /* on from the two highest */
        above = below--;
        while (below >= 0 && m->decode[below] == 0)
            below--;
        if (below < 0)
            return m->decode[above];
    }
    double from = (double)(1u << below), to = (double)(1u << above), rows = (double)(1u << at);
    double part = above > below ? (rows - from) / (to - from) : 0;
    double base_us = m->decode[below] + part * (m->decode[above] - m->decode[below]);
    return base_us > m->decode[below] / 2 ? base_us : m->decode[below] / 2;
}

static double base_of(const step_model *m, regime g)
{
    return g.low * base_at(m, g.at) + g.high * base_at(m, g.at + 1);
}

double step_model_decode_us(const step_model *m, uint32_t rows, uint64_t kv_tokens)
{
    if (rows == 0)
        return 0;
    double base = base_of(m, regime_of(rows));
    return base > 0 ? base + m->decode[TERM_KV] * (double)kv_tokens : 0;
}

static void set_term(step_model *m, uint32_t at, double value, double deviation)
{
    m->decode[at] = value;
    for (int i = 0; i < DECODE_TERMS; i++)
        m->decode_variance[at][i] = m->decode_variance[i][at] = 0;
    m->decode_variance[at][at] = deviation * deviation;
}

/* Ends without an opinion get one: the line's, or, where both have none, what makes this prediction right. */
static void settle_bases(step_model *m, regime g, double us)
{
    double low = base_at(m, g.at), high = base_at(m, g.at + 1);
    bool no_low = m->decode[g.at] == 0, no_high = g.high > 0 && m->decode[g.at + 1] == 0;
    if (low == 0)
        low = high = us;
    double scale = no_low && (no_high || g.high == 0) ? us / (g.low * low + g.high * high) : 1;
    if (no_low)
        set_term(m, g.at, low * scale, low * scale / 2);
    if (no_high)
        set_term(m, g.at + 1, high * scale, high * scale / 2);
    if (m->decode[TERM_KV] == 0) /* next to nothing, but it may well be more */
        set_term(m, TERM_KV, 1e-6 * us, 1e-3 * us);
}

double step_model_saw_decode(step_model *m, uint32_t rows, uint64_t kv_tokens, double us)
{
    if (rows == 0 || us <= 0)
        return 0;
    double predicted = step_model_decode_us(m, rows, kv_tokens);
    regime g = regime_of(rows);
    bool fresh = (g.low > 0 && m->decode[g.at] == 0) || (g.high > 0 && m->decode[g.at + 1] == 0);
    settle_bases(m, g, us);
    if (predicted > 0 && !fresh)
        note_error(m, MODEL_DECODE, us / predicted - 1);
    double terms[DECODE_TERMS] = {[TERM_KV] = (double)kv_tokens};
    terms[g.at] = g.low;
    if (g.high > 0)
        terms[g.at + 1] = g.high;
    filter f = {m->decode, &m->decode_variance[0][0], terms, DECODE_TERMS};
    learn(m, MODEL_DECODE, &f, us, step_model_decode_us(m, rows, kv_tokens));
    m->observations[MODEL_DECODE]++;
    return predicted;
}

/* ---- prefill ---- */

static double depth_sum(uint32_t position, uint32_t count) /* of the positions of its tokens */
{
    return (double)count * ((double)position + ((double)count - 1) / 2);
}

double step_model_prefill_us(const step_model *m, uint32_t position, uint32_t count)
{
    if (count == 0 || !step_model_knows(m, MODEL_PREFILL))
        return 0;
    return m->prefill[TERM_CHUNK] + m->prefill[TERM_TOKEN] * count +
           m->prefill[TERM_DEPTH] * depth_sum(position, count);
}

uint32_t step_model_prefill_tokens(const step_model *m, uint32_t position, double us)
{
    if (!step_model_knows(m, MODEL_PREFILL))
        return UINT32_MAX;
    uint32_t low = 0, high = 1u << 26; /* low fits, high does not */
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (step_model_prefill_us(m, position, middle) <= us)
            low = middle;
        else
            high = middle;
    }
    return low;
}

double step_model_saw_prefill(step_model *m, uint32_t position, uint32_t count, double from, double to, double us)
{
    double part = to - from;
    if (count == 0 || us <= 0 || part <= 0)
        return 0;
    double whole_us = us / part;
    if (!step_model_knows(m, MODEL_PREFILL)) { /* a first guess: most of it is in the tokens */
        step_model_set_prefill(m, 0.05 * whole_us, 0.94 * whole_us / count,
                               0.01 * whole_us / (depth_sum(position, count) + 1));
        return 0;
    }
    double predicted = part * step_model_prefill_us(m, position, count);
    note_error(m, MODEL_PREFILL, us / predicted - 1);
    double terms[PREFILL_TERMS] = {part, part * count, part * depth_sum(position, count)};
    filter f = {m->prefill, &m->prefill_variance[0][0], terms, PREFILL_TERMS};
    learn(m, MODEL_PREFILL, &f, us, predicted);
    m->observations[MODEL_PREFILL]++;
    return predicted;
}

void step_model_set_prefill(step_model *m, double chunk_us, double token_us, double depth_us)
{
    const double values[PREFILL_TERMS] = {chunk_us, token_us, depth_us};
    const double deviations[PREFILL_TERMS] = {chunk_us + 10 * token_us, token_us / 2, depth_us + token_us / 2000};
    memset(m->prefill_variance, 0, sizeof m->prefill_variance);
    for (int i = 0; i < PREFILL_TERMS; i++) {
        m->prefill[i] = values[i];
        m->prefill_variance[i][i] = deviations[i] * deviations[i];
    }
    m->observations[MODEL_PREFILL]++;
}

void step_model_saw_overrun(step_model *m, double us)
{
    double most = 4 * m->overrun_us + 2000; /* one hole of the machine's does not last */
    us = clamp(us, 0, most);
    m->overrun_us += (us > m->overrun_us ? 0.35 : 0.008) * (us - m->overrun_us);
}

double step_model_overrun_us(const step_model *m)
{
    return m->overrun_us;
}

/* ---- fused ---- */

double step_model_fused_us(const step_model *m, uint32_t rows, uint64_t kv_tokens, uint32_t position, uint32_t count)
{
    double prefill = step_model_prefill_us(m, position, count);
    double row = m->row_us > 0 ? m->row_us : m->prefill[TERM_TOKEN];
    return prefill > 0 ? prefill + row * rows + m->decode[TERM_KV] * (double)kv_tokens : 0;
}

double step_model_saw_fused(step_model *m, uint32_t rows, uint64_t kv_tokens, uint32_t position, uint32_t count,
                            double us)
{
    double predicted = step_model_fused_us(m, rows, kv_tokens, position, count);
    if (predicted <= 0 || us <= 0) { /* a chunk with some more rows, as long as nothing else is known */
        step_model_saw_prefill(m, position, count + rows, 0, 1, us);
        return 0;
    }
    note_error(m, MODEL_FUSED, us / predicted - 1);
    bool lasting;
    if (believed(m, MODEL_FUSED, us / predicted - 1, &lasting) && rows > 0) {
        double row = m->row_us > 0 ? m->row_us : m->prefill[TERM_TOKEN];
        m->row_us = clamp(row + row_rate * (us - predicted) / rows, row / 2, row * 2);
    }
    m->observations[MODEL_FUSED]++;
    return predicted;
}
