/* model/write/plan_row.c: the values of one stored row: canonical rows, permuted and shifted as the format wants. */
#include <math.h>
#include <string.h>

#include "model/write/plan.h"

uint64_t plan_order_source(const plan_order *o, uint64_t index)
{
    if (o->kind == ORDER_SAME || index < o->offset)
        return index;
    uint64_t at = index - o->offset, head = at / o->unit, inside = at % o->unit;
    if (o->kind == ORDER_PAIRS)
        return o->offset + head * o->unit + (inside % 2) * (o->unit / 2) + inside / 2;
    uint64_t j = head / o->outer, g = head % o->outer;
    return o->offset + (g * o->inner + j) * o->unit + inside;
}

static const plan_part *source_row(const plan_tensor *t, uint64_t row, uint64_t *canonical)
{
    if (t->turn_count == 0) {
        *canonical = t->first_row + plan_order_source(&t->row_order, row);
        return &t->parts[0];
    }
    uint64_t period = 0;
    for (uint32_t i = 0; i < t->turn_count; i++)
        period += t->turns[i].rows;
    uint64_t turn = row / period, rest = row % period;
    uint32_t i = 0;
    for (; rest >= t->turns[i].rows; i++)
        rest -= t->turns[i].rows;
    *canonical = t->turns[i].start + turn * t->turns[i].stride + rest;
    return &t->parts[t->turns[i].part];
}

/* models.md 1.1: what each inverse frequency is divided by. */
static void rope_freqs(const model_shape *s, float *out, uint64_t count)
{
    const shape_rope *r = &s->rope;
    for (uint64_t i = 0; i < count; i++) {
        double length = 2 * M_PI * pow(r->theta, 2.0 * (double)i / s->head_dim);
        double low = r->original / r->low, high = r->original / r->high;
        double smooth = (r->original / length - r->low) / (r->high - r->low);
        out[i] = (float)(length < high ? 1 : length > low ? r->factor : 1 / ((1 - smooth) / r->factor + smooth));
    }
}

void plan_row(const model_plan *plan, const plan_tensor *t, uint64_t row, float *out, float *scratch)
{
    if (t->value == VALUE_ROPE_FREQS) {
        rope_freqs(&plan->shape, out, t->cols);
        return;
    }
    uint64_t canonical;
    const plan_part *part = source_row(t, row, &canonical);
    if (t->head && plan->said_end && (canonical < plan->said_first || canonical >= plan->said_end)) {
        memset(out, 0, t->cols * sizeof *out);
        return;
    }
    bool moved = t->col_order.kind != ORDER_SAME;
    float *made = moved ? scratch : out;
    fill_row(part->key, canonical, part->fill, part->scale, t->exact, made, t->cols);
    for (uint64_t i = 0; moved && i < t->cols; i++)
        out[i] = made[plan_order_source(&t->col_order, i)];
    for (uint64_t i = 0; t->value == VALUE_PLUS_ONE && i < t->cols; i++)
        out[i] += 1;
    for (uint64_t i = 0; t->value == VALUE_NEG_EXP && i < t->cols; i++)
        out[i] = -expf(out[i]);
}
