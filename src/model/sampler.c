/* model/sampler.c: penalties, filters and the draw. All of the vocabulary is weighed in one vector loop; lists and
 * sorting see only tokens above a threshold that is lowered until it holds all that a filter can keep. */
#include "model/sampler.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

typedef struct {
    float weight;
    int32_t id;
} candidate;

struct sampler {
    const sampling_params *params;
    uint32_t vocab, generated;
    uint32_t *counts; /* times generated, per id; NULL without penalties */
    uint8_t *seen;    /* in prompt or generated, per id */
    int32_t *touched; /* ids with seen set */
    uint32_t touched_count;
    float *weights;     /* vocab: exp((logit - best) / temperature); NULL when greedy */
    double *block_mass; /* of WEIGHT_BLOCK weights each */
    candidate *list;    /* vocab */
    float *raw;         /* vocab: logits before bias and penalties; NULL without logprobs */
};

enum { WEIGHT_BLOCK = 256, LANES = 16, ARGMAX_BLOCK = 2048 };
static const float exponent_floor = -80.0f; /* smaller weights are 0 */

static bool has_penalties(const sampling_params *p)
{
    return p->repetition_penalty != 1 || p->presence_penalty != 0 || p->frequency_penalty != 0;
}

static void note_token(sampler *s, int32_t id, bool generated)
{
    if (!s->counts || id < 0 || (uint32_t)id >= s->vocab)
        return;
    if (!s->seen[id]) {
        s->seen[id] = 1;
        s->touched[s->touched_count++] = id;
    }
    s->counts[id] += generated;
}

status sampler_create(sampler **out, const sampling_params *params, uint32_t vocab, const int32_t *tokens,
                      uint32_t prompt_count, uint32_t generated_before)
{
    sampler *s = calloc(1, sizeof *s);
    if (!s)
        return ERR_MEMORY;
    s->params = params;
    s->vocab = vocab;
    s->generated = generated_before;
    bool penalties = has_penalties(params);
    if (penalties) {
        s->counts = calloc(vocab, sizeof *s->counts);
        s->seen = calloc(vocab, 1);
        s->touched = malloc(vocab * sizeof *s->touched);
    }
    if (params->temperature > 0) {
        s->list = malloc(vocab * sizeof *s->list);
        s->weights = malloc(vocab * sizeof *s->weights);
        s->block_mass = malloc((vocab / WEIGHT_BLOCK + 1) * sizeof *s->block_mass);
    }
    if (params->logprobs)
        s->raw = malloc(vocab * sizeof *s->raw);
    if ((params->logprobs && !s->raw) || (penalties && (!s->counts || !s->seen || !s->touched)) ||
        (params->temperature > 0 && (!s->list || !s->weights || !s->block_mass))) {
        sampler_destroy(s);
        return ERR_MEMORY;
    }
    for (uint32_t i = 0; i < prompt_count + generated_before; i++)
        note_token(s, tokens[i], i >= prompt_count);
    *out = s;
    return OK;
}

void sampler_destroy(sampler *s)
{
    if (!s)
        return;
    free(s->counts);
    free(s->seen);
    free(s->touched);
    free(s->list);
    free(s->weights);
    free(s->block_mass);
    free(s->raw);
    free(s);
}

/* What the request's constraint bars is out before anything else looks. */
static void apply_mask(const sampler *s, float *logits)
{
    token_constraint *c = s->params->constraint;
    const uint32_t *mask = c ? c->ops->mask(c) : NULL;
    for (uint32_t i = 0; mask && i < s->vocab; i += 32) {
        uint32_t word = mask[i / 32], end = s->vocab - i < 32 ? s->vocab - i : 32;
        for (uint32_t k = 0; word != UINT32_MAX && k < end; k++)
            logits[i + k] = word >> k & 1 ? logits[i + k] : -INFINITY;
    }
}

static void apply_penalties(const sampler *s, float *logits)
{
    const sampling_params *p = s->params;
    for (uint32_t i = 0; i < p->bias_count; i++)
        if (p->biases[i].token >= 0 && (uint32_t)p->biases[i].token < s->vocab)
            logits[p->biases[i].token] += p->biases[i].bias;
    for (uint32_t i = 0; i < s->touched_count; i++) {
        int32_t id = s->touched[i];
        float l = logits[id];
        l = l > 0 ? l / p->repetition_penalty : l * p->repetition_penalty;
        if (s->counts[id])
            l -= p->presence_penalty + p->frequency_penalty * (float)s->counts[id];
        logits[id] = l;
    }
}

static float highest(const float *logits, uint32_t count)
{
    float lane[LANES], best = -INFINITY;
    uint32_t i = 0;
    for (int k = 0; k < LANES; k++)
        lane[k] = -INFINITY;
    for (; i + LANES <= count; i += LANES)
        for (int k = 0; k < LANES; k++)
            lane[k] = logits[i + (uint32_t)k] > lane[k] ? logits[i + (uint32_t)k] : lane[k];
    for (; i < count; i++)
        best = logits[i] > best ? logits[i] : best;
    for (int k = 0; k < LANES; k++)
        best = lane[k] > best ? lane[k] : best;
    return best;
}

/* The first of the highest: only a block that beats all before it is looked at twice. */
static int32_t argmax(const float *logits, uint32_t count)
{
    float best = -INFINITY;
    uint32_t block = 0;
    for (uint32_t i = 0; i < count; i += ARGMAX_BLOCK) {
        float most = highest(logits + i, count - i < ARGMAX_BLOCK ? count - i : ARGMAX_BLOCK);
        if (most > best) {
            best = most;
            block = i;
        }
    }
    for (uint32_t i = block; i < count; i++)
        if (logits[i] == best)
            return (int32_t)i;
    return 0; /* all NaN */
}

static int by_weight(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    if (x->weight != y->weight)
        return x->weight < y->weight ? 1 : -1;
    return x->id < y->id ? -1 : 1;
}

/* 2^(x log2 e) for x in [-80, 0], relative error below 2e-7: a Taylor polynomial in the fraction, the rest in the
 * exponent. */
static inline float exp_of(float x)
{
    const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
    float t = x * 1.44269504f, n = (t + magic) - magic, f = t - n;
    float p = 1.5403530e-4f;
    p = p * f + 1.3333558e-3f;
    p = p * f + 9.6181291e-3f;
    p = p * f + 5.5504109e-2f;
    p = p * f + 2.4022651e-1f;
    p = p * f + 6.9314718e-1f;
    p = p * f + 1.0f;
    int32_t bits = ((int32_t)n + 127) << 23;
    float scale;
    memcpy(&scale, &bits, sizeof scale);
    return p * scale;
}

/* Fills weights and block masses; returns the mass of all. */
static double weigh(const sampler *s, const float *logits, float best)
{
    float inverse = 1.0f / s->params->temperature;
    for (uint32_t i = 0; i < s->vocab; i++) {
        float x = (logits[i] - best) * inverse, kept = x > exponent_floor ? x : exponent_floor;
        float weight = exp_of(kept);
        s->weights[i] = x > exponent_floor ? weight : 0; /* bans and NaN too */
    }
    double total = 0;
    for (uint32_t b = 0; b * WEIGHT_BLOCK < s->vocab; b++) {
        float lane[LANES] = {0};
        uint32_t i = b * WEIGHT_BLOCK, end = s->vocab - i < WEIGHT_BLOCK ? s->vocab : i + WEIGHT_BLOCK;
        for (; i + LANES <= end; i += LANES)
            for (int k = 0; k < LANES; k++)
                lane[k] += s->weights[i + (uint32_t)k];
        double sum = 0;
        for (; i < end; i++)
            sum += (double)s->weights[i];
        for (int k = 0; k < LANES; k++)
            sum += (double)lane[k];
        s->block_mass[b] = sum;
        total += sum;
    }
    return total;
}

/* Lists every token of at least `least`, in order of ids. */
static uint32_t gather(const sampler *s, float least)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->vocab; i++)
        if (s->weights[i] >= least)
            s->list[count++] = (candidate){s->weights[i], (int32_t)i};
    return count;
}

static double mass(const candidate *list, uint32_t count)
{
    double sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += (double)list[i].weight;
    return sum;
}

typedef struct {
    double distance;
    uint32_t index;
} typical_entry;

static int by_distance(const void *a, const void *b)
{
    const typical_entry *x = a, *y = b;
    if (x->distance != y->distance)
        return x->distance < y->distance ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

/* Keeps the tokens whose surprise is nearest to the entropy, until their mass reaches p (Meister et al., "Locally
 * Typical Sampling"). */
static uint32_t keep_typical(candidate *list, uint32_t count, float p)
{
    double total = mass(list, count), entropy = 0;
    for (uint32_t i = 0; i < count; i++) {
        double q = (double)list[i].weight / total;
        entropy -= q > 0 ? q * log(q) : 0;
    }
    typical_entry *order = malloc(count * sizeof *order);
    uint8_t *keep = calloc(count, 1);
    uint32_t kept = 0;
    if (order && keep) {
        for (uint32_t i = 0; i < count; i++)
            order[i] = (typical_entry){fabs(-log((double)list[i].weight / total) - entropy), i};
        qsort(order, count, sizeof *order, by_distance);
        double sum = 0;
        for (uint32_t i = 0; i < count && (i == 0 || sum < (double)p * total); i++) {
            keep[order[i].index] = 1;
            sum += (double)list[order[i].index].weight;
        }
        for (uint32_t i = 0; i < count; i++) /* order of logits is kept */
            if (keep[i])
                list[kept++] = list[i];
    }
    free(order);
    free(keep);
    return kept ? kept : count;
}

static void sift_down(candidate *heap, uint32_t count, uint32_t at)
{
    for (uint32_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && by_weight(&heap[child + 1], &heap[child]) < 0)
            child++;
        if (by_weight(&heap[at], &heap[child]) <= 0)
            return;
        candidate t = heap[at];
        heap[at] = heap[child];
        heap[child] = t;
    }
}

/* Moves the best candidates to the end of the list, best last, until `most` are there or their mass reaches `enough`;
 * the caller turns them round. A heap: O(n) to build, and nearly always few are taken. */
static uint32_t select_best(candidate *list, uint32_t count, uint32_t most, double enough)
{
    double sum = 0;
    uint32_t taken = 0;
    for (uint32_t i = count / 2; i-- > 0;)
        sift_down(list, count, i);
    while (taken < count && taken < most && (taken == 0 || sum < enough)) {
        candidate best = list[0];
        uint32_t last = count - ++taken;
        list[0] = list[last];
        list[last] = best;
        sum += (double)best.weight;
        sift_down(list, last, 0);
    }
    return taken;
}

/* The best come to the front, in order; returns how many. */
static uint32_t sort_best(candidate *list, uint32_t count, uint32_t most, double enough)
{
    uint32_t taken = select_best(list, count, most, enough);
    for (uint32_t i = 0; i < count / 2 && i < taken; i++) {
        candidate t = list[i];
        list[i] = list[count - 1 - i];
        list[count - 1 - i] = t;
    }
    return taken;
}

static uint32_t keep_top_p(const candidate *list, uint32_t count, float p)
{
    double limit = (double)p * mass(list, count), sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        sum += (double)list[i].weight;
        if (sum >= limit)
            return i + 1;
    }
    return count;
}

static uint32_t keep_min_p(const candidate *list, uint32_t count, float p)
{
    uint32_t kept = 1;
    while (kept < count && list[kept].weight >= p * list[0].weight)
        kept++;
    return kept;
}

/* The list of all tokens that the filters can keep, best first: the threshold falls until they are in. */
static uint32_t list_best(const sampler *s, double total)
{
    const sampling_params *p = s->params;
    bool whole = p->typical_p < 1 && !p->top_k; /* needs every token */
    uint32_t most = p->top_k ? p->top_k : UINT32_MAX;
    double enough = whole || p->top_k || p->top_p >= 1 ? INFINITY : (double)p->top_p * total;
    if (isinf(enough) && !p->top_k && !whole && p->min_p > 0) /* min-p alone: its threshold is known */
        return sort_best(s->list, gather(s, p->min_p), UINT32_MAX, INFINITY);
    for (float least = whole ? 0x1p-100f : 1e-3f;; least *= 1e-2f) {
        uint32_t count = gather(s, least);
        if (least < 0x1p-100f || count >= most || mass(s->list, count) >= enough)
            return sort_best(s->list, count, most, enough);
    }
}

static uint32_t filter(const sampler *s, double total)
{
    const sampling_params *p = s->params;
    uint32_t count = list_best(s, total);
    if (p->typical_p < 1)
        count = keep_typical(s->list, count, p->typical_p);
    if (p->top_p < 1 && (p->top_k || p->typical_p < 1))
        count = keep_top_p(s->list, count, p->top_p);
    if (p->min_p > 0)
        count = keep_min_p(s->list, count, p->min_p);
    return count;
}

static int32_t draw_listed(const sampler *s, uint32_t count, double unit)
{
    double point = unit * mass(s->list, count), sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        sum += (double)s->list[i].weight;
        if (point < sum)
            return s->list[i].id;
    }
    return s->list[count - 1].id;
}

static int32_t draw_any(const sampler *s, double total, double unit)
{
    double point = unit * total;
    uint32_t b = 0, last = (s->vocab - 1) / WEIGHT_BLOCK;
    while (b < last && point >= s->block_mass[b])
        point -= s->block_mass[b++];
    int32_t id = -1;
    for (uint32_t i = b * WEIGHT_BLOCK; i < s->vocab; i++) {
        if (s->weights[i] > 0)
            id = (int32_t)i;
        if (id >= 0 && (point -= (double)s->weights[i]) < 0)
            return id;
    }
    return id;
}

static int32_t draw(const sampler *s, const float *logits)
{
    const sampling_params *p = s->params;
    int32_t top = argmax(logits, s->vocab);
    if (!isfinite(logits[top])) /* everything banned, or +inf by a bias: nothing to weigh */
        return top;
    double total = weigh(s, logits, logits[top]);
    rng r = {p->seed ^ ((uint64_t)s->generated + 1) * 0xD1342543DE82EF95u};
    rng_next(&r);
    double unit = rng_unit(&r);
    int32_t id;
    if (p->top_k || p->top_p < 1 || p->min_p > 0 || p->typical_p < 1)
        id = draw_listed(s, filter(s, total), unit);
    else
        id = draw_any(s, total, unit);
    return id >= 0 ? id : top;
}

static void insert_top(sampled_token *out, uint32_t capacity, int32_t id, float logit)
{
    uint32_t at = out->top_count < capacity ? out->top_count++ : capacity - 1;
    for (; at > 0 && out->top_logprobs[at - 1] < logit; at--) {
        out->top_logprobs[at] = out->top_logprobs[at - 1];
        out->top_tokens[at] = out->top_tokens[at - 1];
    }
    out->top_logprobs[at] = logit;
    out->top_tokens[at] = id;
}

/* Leaves raw logits in the logprob fields; returns log of the sum of exponentials. */
static double note_top(const sampler *s, const float *logits, sampled_token *out)
{
    uint32_t want = s->params->logprobs - 1;
    double best = (double)logits[argmax(logits, s->vocab)], sum = 0;
    for (uint32_t i = 0; i < s->vocab; i++) {
        sum += exp((double)logits[i] - best);
        if (want && (out->top_count < want || logits[i] > out->top_logprobs[want - 1]))
            insert_top(out, want, (int32_t)i, logits[i]);
    }
    return best + log(sum);
}

void sampler_draw(sampler *s, float *logits, sampled_token *out)
{
    assert(s->params->logprobs <= LOGPROBS_MAX + 1);
    double log_sum = 0;
    out->top_count = 0;
    out->logprob = 0;
    if (s->params->logprobs) {
        log_sum = note_top(s, logits, out);
        for (uint32_t i = 0; i < out->top_count; i++)
            out->top_logprobs[i] = (float)((double)out->top_logprobs[i] - log_sum);
        memcpy(s->raw, logits, s->vocab * sizeof *logits);
    }
    apply_mask(s, logits);
    apply_penalties(s, logits);
    out->token = s->list ? draw(s, logits) : argmax(logits, s->vocab);
    if (s->raw)
        out->logprob = (float)((double)s->raw[out->token] - log_sum);
    note_token(s, out->token, true);
    s->generated++;
}
