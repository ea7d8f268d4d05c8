/* sched/step_model.c: a least-mean-squares filter per kind, in relative terms: with prediction p = sum of terms and
 * ratio r = measured / p - 1, each term is scaled by 1 + rate * r * share / (sum of squared shares), share = term / p.
 * So a term that made little of the prediction learns little from its error, and no unit needs scaling. */
#include "sched/step_model.h"

#include <stdlib.h>
#include <string.h>

enum { OUTLIERS_BELIEVED = 6 };
static const double learning_rate = 0.12, short_run_us = 10000;

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

/* The ratio to learn from: 0 for an outlier that stands alone. The first observations count for more. */
static double believed(step_model *m, model_kind kind, double ratio, double weight)
{
    bool outlier = ratio > 1 || ratio < -0.5;
    int32_t *row = &m->outliers[kind];
    if (!outlier) {
        *row = 0;
    } else {
        *row = ratio > 0 ? (*row > 0 ? *row : 0) + 1 : (*row < 0 ? *row : 0) - 1;
        if (abs(*row) < OUTLIERS_BELIEVED)
            return 0;
    }
    double rate = m->observations[kind] < 8 ? 0.4 : learning_rate;
    return rate * weight * clamp(ratio, -0.5, 1.5);
}

static void scale_terms(double **parameters, const double *terms, int count, double predicted, double step)
{
    double squares = 0;
    for (int i = 0; i < count; i++)
        squares += terms[i] / predicted * (terms[i] / predicted);
    for (int i = 0; i < count; i++)
        *parameters[i] *= clamp(1 + step * (terms[i] / predicted) / squares, 0.25, 4);
}

static double median_of(float *sorted, uint32_t count)
{
    return count % 2 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
}

static int by_value(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

model_error_summary step_model_error(const step_model *m, model_kind kind)
{
    const model_errors *e = &m->errors[kind];
    model_error_summary summary = {.count = e->count};
    if (e->count == 0)
        return summary;
    float sorted[MODEL_ERRORS];
    memcpy(sorted, e->ratios, e->count * sizeof sorted[0]);
    qsort(sorted, e->count, sizeof sorted[0], by_value);
    double under = sorted[(uint32_t)(0.95 * (e->count - 1) + 0.5)];
    summary.under_p95 = under > 0 ? under : 0;
    for (uint32_t i = 0; i < e->count; i++)
        sorted[i] = sorted[i] < 0 ? -sorted[i] : sorted[i];
    qsort(sorted, e->count, sizeof sorted[0], by_value);
    summary.median_abs = median_of(sorted, e->count);
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

/* What stands at 2^at rows: observed, or drawn from the nearest below, or above. */
static double base_at(const step_model *m, uint32_t at)
{
    for (uint32_t i = at + 1; i-- > 0;)
        if (m->base_us[i] > 0)
            return m->base_us[i];
    for (uint32_t i = at + 1; i < MODEL_REGIMES; i++)
        if (m->base_us[i] > 0)
            return m->base_us[i];
    return 0;
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
    return base > 0 ? base + m->per_kv_us * (double)kv_tokens : 0;
}

/* The two ends get opinions of their own before they learn. */
static void settle_bases(step_model *m, regime g, double us)
{
    double low = base_at(m, g.at), high = base_at(m, g.at + 1);
    if (low == 0)
        low = high = us;
    if (m->base_us[g.at] == 0 && g.low > 0)
        m->base_us[g.at] = low;
    if (m->base_us[g.at + 1] == 0 && g.high > 0)
        m->base_us[g.at + 1] = high > us || high == 0 ? us : high;
}

double step_model_saw_decode(step_model *m, uint32_t rows, uint64_t kv_tokens, double us)
{
    if (rows == 0 || us <= 0)
        return 0;
    double predicted = step_model_decode_us(m, rows, kv_tokens);
    regime g = regime_of(rows);
    bool fresh = (g.low > 0 && m->base_us[g.at] == 0) || (g.high > 0 && m->base_us[g.at + 1] == 0);
    settle_bases(m, g, us - m->per_kv_us * (double)kv_tokens > us / 4 ? us - m->per_kv_us * (double)kv_tokens : us / 4);
    if (predicted > 0 && !fresh)
        note_error(m, MODEL_DECODE, us / predicted - 1);
    double now = step_model_decode_us(m, rows, kv_tokens);
    double step = believed(m, MODEL_DECODE, us / now - 1, 1);
    if (m->per_kv_us == 0 && kv_tokens > 1024 && us > now) /* the first sight of depth */
        m->per_kv_us = (us - now) / (double)kv_tokens;
    double *parameters[] = {&m->base_us[g.at], &m->base_us[g.at + 1], &m->per_kv_us};
    double terms[] = {g.low * m->base_us[g.at], g.high * m->base_us[g.at + 1], m->per_kv_us * (double)kv_tokens};
    scale_terms(parameters, terms, 3, now, step);
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
    return m->chunk_us + m->per_token_us * count + m->per_depth_us * depth_sum(position, count);
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
    if (!step_model_knows(m, MODEL_PREFILL)) { /* a first guess: most of it is in the tokens */
        double tokens = us / part;
        m->chunk_us = 0.1 * tokens;
        m->per_token_us = 0.85 * tokens / count;
        m->per_depth_us = 0.05 * tokens / (depth_sum(position, count) + 1);
        m->observations[MODEL_PREFILL]++;
        return 0;
    }
    double predicted = part * step_model_prefill_us(m, position, count), ratio = us / predicted - 1;
    note_error(m, MODEL_PREFILL, ratio);
    double step = believed(m, MODEL_PREFILL, ratio, clamp(us / short_run_us, 0.05, 1));
    double *parameters[] = {&m->chunk_us, &m->per_token_us, &m->per_depth_us};
    double terms[] = {part * m->chunk_us, part * m->per_token_us * count,
                      part * m->per_depth_us * depth_sum(position, count)};
    scale_terms(parameters, terms, 3, predicted, step);
    m->observations[MODEL_PREFILL]++;
    return predicted;
}

void step_model_saw_overrun(step_model *m, double us)
{
    double most = 4 * m->overrun_us + 2000; /* one hole of the machine's does not last */
    us = clamp(us, 0, most);
    m->overrun_us += (us > m->overrun_us ? 0.25 : 0.015) * (us - m->overrun_us);
}

double step_model_overrun_us(const step_model *m)
{
    return m->overrun_us;
}

/* ---- fused ---- */

double step_model_fused_us(const step_model *m, uint32_t rows, uint64_t kv_tokens, uint32_t position, uint32_t count)
{
    double prefill = step_model_prefill_us(m, position, count);
    double row = m->row_us > 0 ? m->row_us : m->per_token_us;
    return prefill > 0 ? prefill + row * rows + m->per_kv_us * (double)kv_tokens : 0;
}

double step_model_saw_fused(step_model *m, uint32_t rows, uint64_t kv_tokens, uint32_t position, uint32_t count,
                            double us)
{
    double predicted = step_model_fused_us(m, rows, kv_tokens, position, count);
    if (predicted <= 0 || us <= 0) { /* a chunk with some more rows, as long as nothing else is known */
        step_model_saw_prefill(m, position, count + rows, 0, 1, us);
        return 0;
    }
    if (m->row_us == 0)
        m->row_us = m->per_token_us;
    double ratio = us / predicted - 1;
    note_error(m, MODEL_FUSED, ratio);
    double step = believed(m, MODEL_FUSED, ratio, 1);
    double *parameters[] = {&m->row_us, &m->chunk_us, &m->per_token_us, &m->per_depth_us};
    double terms[] = {m->row_us * rows, m->chunk_us, m->per_token_us * count,
                      m->per_depth_us * depth_sum(position, count)};
    scale_terms(parameters, terms, 4, predicted, step);
    m->observations[MODEL_FUSED]++;
    return predicted;
}
