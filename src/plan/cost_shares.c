/* plan/cost_shares.c: how much of what the makers say is reached, by what is known to have been measured. A run's share
 * is that of its useful bytes in bandwidth; the runs of a family of devices, with dense models and with experts apart,
 * make the range. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan/measured.h"

enum { KNOWN_MAX = 128, ROWS_MAX = 4 /* more rows may be bound by matmuls, and say nothing of bandwidth */ };

static const double dense_low = 0.75, dense_high = 0.85, dense_middle = 0.80;
static const double experts_low = 0.15, experts_high = 0.60; /* where nothing at all is known */
static const double read_share = 0.85, matmul_share = 0.50, overhead_s = 0.02;
static const double margin = 0.01; /* of a range, so that rounding leaves its runs inside */

typedef struct {
    double values[KNOWN_MAX];
    uint32_t count;
} share_list;

typedef struct {
    share_list decode, matmul;
} family_shares;

static void add(share_list *l, double value)
{
    if (l->count < KNOWN_MAX && isfinite(value) && value > 0)
        l->values[l->count++] = value;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of a list with at least one. */
static double median(share_list *l)
{
    qsort(l->values, l->count, sizeof *l->values, by_value);
    return l->count % 2 ? l->values[l->count / 2] : sqrt(l->values[l->count / 2 - 1] * l->values[l->count / 2]);
}

/* The box of a run; false: its hardware, model or type is in no table. */
static bool box_of(const run_record *r, cost_box *b)
{
    const hardware *hw;
    const model_shape *shape;
    const weight_type *type;
    size_t index;
    if (hardware_find(&hw, r->hardware, NULL) || catalogue_find(&shape, &index, r->model, NULL) ||
        weight_type_find(&type, r->type, NULL))
        return false;
    *b = (cost_box){.hw = *hw, .devices = 1, .shape = *shape, .type = *type, .kv_bits = 16};
    b->shares = (cost_shares){.decode = 1, .read = read_share, .matmul = 1};
    model_shape_sums(shape, &b->sums);
    return true;
}

static double decode_share(const run_record *r, const cost_box *b)
{
    double step_s = r->batch / r->tok_s;
    return cost_step_bytes(b, r->batch, r->prompt_tokens) / (cost_bandwidth(b) * step_s);
}

/* What is left of the run's time when its weights were read; 0: nothing is. */
static double prefill_share(const run_record *r, const cost_box *b)
{
    double chunk = fmin(r->prompt_tokens, 2048), rate = cost_matmul_rate(b), count = r->prompt_tokens;
    if (rate <= 0 || count < 1)
        return 0;
    double reads = ceil(count / chunk) * cost_step_weight_bytes(b, chunk) / (cost_bandwidth(b) * read_share);
    double compute_s = count / r->tok_s - reads;
    return compute_s > 0 ? fmin(cost_prefill_flops(b, 0, count) / rate / compute_s, 1) : 0;
}

/* `family` NULL: of any. */
static void collect(family_shares *out, const char *family, bool experts)
{
    run_record r;
    cost_box b;
    *out = (family_shares){0};
    for (const char *const *line = known_runs; *line; line++) {
        if (run_record_read(&r, span_from(*line), NULL) || !box_of(&r, &b) || (b.shape.experts > 0) != experts ||
            (family && strcmp(b.hw.family, family) != 0))
            continue;
        if (r.kind == RUN_PREFILL)
            add(&out->matmul, prefill_share(&r, &b));
        else if (r.batch <= ROWS_MAX)
            add(&out->decode, decode_share(&r, &b));
    }
}

static void take_decode(cost_shares *out, share_list *known)
{
    out->decode = median(known); /* sorted now */
    out->decode_low = fmin(out->decode_low, known->values[0] * (1 - margin));
    out->decode_high = fmax(out->decode_high, known->values[known->count - 1] * (1 + margin));
}

static void take_dense(cost_shares *out, share_list *known)
{
    *out = (cost_shares){.decode = dense_middle, .decode_low = dense_low, .decode_high = dense_high};
    out->why = "dense models reach 0.75 to 0.85";
    if (!known->count)
        return;
    take_decode(out, known);
    out->why = "dense models: 0.75 to 0.85, widened by the known runs of this family of devices";
}

static void take_experts(cost_shares *out, share_list *known)
{
    family_shares any;
    *out = (cost_shares){.decode_low = 1, .decode_high = 0};
    out->why = "experts: the known runs of this family of devices";
    if (known->count) {
        take_decode(out, known);
        return;
    }
    collect(&any, NULL, true);
    out->why = "experts: the known runs of all families of devices, none of this one";
    if (any.decode.count)
        take_decode(out, &any.decode);
    else
        *out = (cost_shares){.decode = sqrt(experts_low * experts_high),
                             .decode_low = experts_low,
                             .decode_high = experts_high,
                             .why = "experts: a guess, no run is known"};
}

cost_shares cost_shares_for(const hardware *hw, const model_shape *shape)
{
    cost_shares out;
    family_shares known = {0};
    bool experts = shape && shape->experts > 0;
    if (shape && hw->family)
        collect(&known, hw->family, experts);
    if (experts)
        take_experts(&out, &known.decode);
    else
        take_dense(&out, &known.decode);
    if (shape && hw->family && !known.matmul.count) { /* a prompt's matmuls differ less */
        family_shares other;
        collect(&other, hw->family, !experts);
        known.matmul = other.matmul;
    }
    out.matmul = known.matmul.count ? median(&known.matmul) : matmul_share;
    out.read = read_share;
    out.overhead_s = overhead_s;
    return out;
}
