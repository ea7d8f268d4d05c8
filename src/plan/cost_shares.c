/* plan/cost_shares.c: how much of what the makers say is reached, by what is known to have been measured. A run's share
 * is that of its useful bytes in bandwidth, or of its operations in the matmul rate. All runs of a family of devices,
 * with dense models and with experts apart, make the range; the middle is that of Headway's own runs, or else of the
 * fastest runtime, since nobody plans with a slow one: of that model on that device where there are any, else of any
 * model of its kind there, else of the family's devices of that kind (a small step on fast memory is mostly launches),
 * else of the family. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan/measured.h"

enum { SAMPLES_MAX = 256, ROWS_MAX = 4 /* more rows may be bound by matmuls, and say nothing of bandwidth */ };
enum { CHUNK = 2048 /* of the prompts of known runs */, SHALLOW = 1024 };

static const double dense_low = 0.75, dense_high = 0.85, dense_middle = 0.80;
static const double experts_low = 0.15, experts_high = 0.60; /* where nothing at all is known */
static const double read_share = 0.80 /* of weights in order: as dense models decode */, overhead_s = 0.02;
/* Of prompts, where no run is known: cards reach two fifths of what their makers say, chips with little to say nearly
 * all. */
static const double matmul_shares[HW_KINDS] = {0.82, 0.40, 0.40, 0.60, 0.40, 0.40};
static const double few_spread = 1.35; /* high over low of a range of models with experts, at least */
static const double margin = 0.01;     /* of a range, so that rounding leaves its runs inside */

typedef struct {
    const char *family, *hardware;
    hardware_kind kind;
    char model[64], runtime[48];
    double share, low, high; /* low and high: of the run's repeats */
    bool shallow;
} share_sample;

typedef struct {
    share_sample items[SAMPLES_MAX];
    uint32_t count;
} share_list;

/* ---- a run's share ---- */

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
    double chunk = fmin(r->prompt_tokens, CHUNK), rate = cost_matmul_rate(b), count = r->prompt_tokens;
    if (rate <= 0 || count < 1)
        return 0;
    double reads = ceil(count / chunk) * cost_step_weight_bytes(b, chunk) / (cost_bandwidth(b) * read_share);
    double compute_s = count / r->tok_s - reads;
    return compute_s > 0 ? fmin(cost_prefill_flops(b, 0, count) / rate / compute_s, 1) : 0;
}

static void collect(share_list *out, run_kind kind, bool experts)
{
    run_record r;
    cost_box b;
    out->count = 0;
    for (const char *const *line = known_runs; *line && out->count < SAMPLES_MAX; line++) {
        if (run_record_read(&r, span_from(*line), NULL) || r.kind != kind || !box_of(&r, &b) ||
            (b.shape.experts > 0) != experts || (kind == RUN_DECODE && r.batch > ROWS_MAX))
            continue;
        double share = kind == RUN_PREFILL ? prefill_share(&r, &b) : decode_share(&r, &b);
        if (!isfinite(share) || share <= 0)
            continue;
        share_sample *s = &out->items[out->count++];
        *s = (share_sample){.family = b.hw.family, .hardware = b.hw.name, .kind = b.hw.kind, .share = share};
        s->shallow = r.prompt_tokens <= SHALLOW;
        memcpy(s->model, b.shape.name, sizeof s->model);
        memcpy(s->runtime, r.runtime, sizeof s->runtime);
        s->low = r.tok_s_low > 0 ? share * r.tok_s_low / r.tok_s : share;
        s->high = r.tok_s_high > 0 ? share * r.tok_s_high / r.tok_s : share;
    }
}

/* ---- the middle ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Shares differ by factors: of two in the middle the geometric mean. 0 of none. */
static double median(double *values, uint32_t count)
{
    if (!count)
        return 0;
    qsort(values, count, sizeof *values, by_value);
    return count % 2 ? values[count / 2] : sqrt(values[count / 2 - 1] * values[count / 2]);
}

typedef struct { /* whose runs; NULL: anybody's */
    const char *family, *hardware, *model;
    const hardware_kind *kind;
} share_scope;

static bool in_scope(const share_sample *s, const share_scope *of)
{
    return (!of->family || !strcmp(s->family, of->family)) && (!of->hardware || !strcmp(s->hardware, of->hardware)) &&
           (!of->model || !strcmp(s->model, of->model)) && (!of->kind || s->kind == *of->kind);
}

static double runtime_middle(const share_list *l, const share_scope *of, const char *runtime)
{
    double values[SAMPLES_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < l->count; i++)
        if (in_scope(&l->items[i], of) && !strcmp(l->items[i].runtime, runtime))
            values[count++] = l->items[i].share;
    return median(values, count);
}

/* 0: nothing is known of it. */
static double middle_of(const share_list *l, share_scope of)
{
    double ours = runtime_middle(l, &of, "headway"), best = 0;
    for (uint32_t i = 0; i < l->count && ours <= 0; i++)
        if (in_scope(&l->items[i], &of))
            best = fmax(best, runtime_middle(l, &of, l->items[i].runtime));
    return ours > 0 ? ours : best;
}

static double nearest_middle(const share_list *l, const hardware *hw, const model_shape *shape)
{
    const char *name = hw->name ? hw->name : "", *family = hw->family ? hw->family : "other";
    const share_scope scopes[] = {{.hardware = name, .model = shape->name},
                                  {.hardware = name},
                                  {.family = family, .kind = &hw->kind},
                                  {.family = family}};
    double middle = 0;
    for (size_t i = 0; i < sizeof scopes / sizeof *scopes && middle <= 0; i++)
        middle = middle_of(l, scopes[i]);
    return middle;
}

/* Of the families, each of which has one voice; by that model where any of them ran it. */
static double any_middle(const share_list *l, const char *model)
{
    double values[SAMPLES_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < l->count; i++) {
        uint32_t first = 0;
        while (strcmp(l->items[first].family, l->items[i].family) != 0)
            first++;
        double middle = first == i ? middle_of(l, (share_scope){.family = l->items[i].family, .model = model}) : 0;
        if (middle > 0)
            values[count++] = middle;
    }
    return count || !model ? median(values, count) : any_middle(l, NULL);
}

/* ---- the range ---- */

/* `family` NULL: of all. */
static void widen(cost_shares *out, const share_list *l, const char *family)
{
    for (uint32_t i = 0; i < l->count; i++) {
        if (family && strcmp(l->items[i].family, family) != 0)
            continue;
        double low = l->items[i].low * (1 - margin), high = l->items[i].high * (1 + margin);
        out->decode_low = fmin(out->decode_low, low);
        out->decode_high = fmax(out->decode_high, high);
        if (!l->items[i].shallow)
            continue;
        out->shallow_low = fmin(out->shallow_low, low);
        out->shallow_high = fmax(out->shallow_high, high);
    }
}

static void take_dense(cost_shares *out, const share_list *known, const char *family, double middle)
{
    out->decode_low = out->shallow_low = dense_low;
    out->decode_high = out->shallow_high = dense_high;
    out->decode = middle > 0 ? middle : dense_middle;
    out->why = middle > 0 ? "0.75 to 0.85, as dense models reach, and what is known of this family of devices"
                          : "0.75 to 0.85 of the bandwidth, as dense models reach";
    widen(out, known, family);
}

/* One or two runs say little of what others will see. */
static void stretch(double *low, double *high)
{
    double missing = few_spread * *low / *high;
    if (missing > 1) {
        *low /= sqrt(missing);
        *high = fmin(*high * sqrt(missing), 1);
    }
}

static void take_experts(cost_shares *out, const share_list *known, const char *family, const char *model,
                         double middle)
{
    out->decode_low = out->shallow_low = 1;
    out->decode_high = out->shallow_high = 0;
    out->decode = middle > 0 ? middle : any_middle(known, model);
    out->why = middle > 0 ? "what is known of models with experts on this family of devices"
                          : "what is known of models with experts on any device; nothing is of this family";
    widen(out, known, middle > 0 ? family : NULL);
    if (out->shallow_high <= 0) { /* deep runs only */
        out->shallow_low = out->decode_low;
        out->shallow_high = out->decode_high;
    }
    stretch(&out->shallow_low, &out->shallow_high);
    stretch(&out->decode_low, &out->decode_high);
    out->decode_low = fmin(out->decode_low, out->shallow_low);
    out->decode_high = fmax(out->decode_high, out->shallow_high);
    if (known->count)
        return;
    out->decode_low = out->shallow_low = experts_low;
    out->decode_high = out->shallow_high = experts_high;
    out->decode = sqrt(experts_low * experts_high);
    out->why = "a guess: no run of a model with experts is known";
}

cost_shares cost_shares_for(const hardware *hw, const model_shape *shape)
{
    cost_shares out = {.read = read_share, .matmul = matmul_shares[hw->kind], .overhead_s = overhead_s};
    share_list known = {.count = 0};
    const char *family = hw->family ? hw->family : "other";
    bool experts = shape && shape->experts > 0;
    if (shape)
        collect(&known, RUN_DECODE, experts);
    double middle = shape ? nearest_middle(&known, hw, shape) : 0;
    if (experts)
        take_experts(&out, &known, family, shape->name, middle);
    else
        take_dense(&out, &known, family, middle);
    if (shape)
        collect(&known, RUN_PREFILL, experts);
    double matmul = shape ? middle_of(&known, (share_scope){.family = family}) : 0;
    if (matmul > 0)
        out.matmul = matmul;
    return out;
}
