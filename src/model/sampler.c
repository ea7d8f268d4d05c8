/* model/sampler.c: penalties, filters and the draw. The candidate list holds only what can matter: tokens whose weight
 * is above e^-30 of the best one's after temperature; what is dropped sums to less than 1e-8 of the mass of any
 * vocabulary here. */
#include "model/sampler.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

typedef struct {
    float logit, weight; /* after temperature; weight = exp(logit - best) */
    int32_t id;
} candidate;

struct sampler {
    const sampling_params *params;
    uint32_t vocab, generated;
    uint32_t *counts; /* times generated, per id; NULL without penalties */
    uint8_t *seen;    /* in prompt or generated, per id */
    int32_t *touched; /* ids with seen set */
    uint32_t touched_count;
    candidate *list; /* vocab; NULL when greedy */
    float *raw;      /* vocab: logits before bias and penalties; NULL without logprobs */
};

static const float weight_floor = -30.0f;

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
    if (params->temperature > 0)
        s->list = malloc(vocab * sizeof *s->list);
    if (params->logprobs)
        s->raw = malloc(vocab * sizeof *s->raw);
    if ((params->logprobs && !s->raw) || (penalties && (!s->counts || !s->seen || !s->touched)) ||
        (params->temperature > 0 && !s->list)) {
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
    free(s->raw);
    free(s);
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

static int32_t argmax(const float *logits, uint32_t count)
{
    float best = -INFINITY;
    for (uint32_t i = 0; i < count; i++) /* two passes: the first vectorises */
        best = logits[i] > best ? logits[i] : best;
    for (uint32_t i = 0; i < count; i++)
        if (logits[i] == best)
            return (int32_t)i;
    return 0; /* all NaN or -inf */
}

static int by_logit(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    if (x->logit != y->logit)
        return x->logit < y->logit ? 1 : -1;
    return x->id < y->id ? -1 : 1;
}

static uint32_t gather(const sampler *s, const float *logits)
{
    int32_t top = argmax(logits, s->vocab);
    float best = logits[top], floor = best + weight_floor * s->params->temperature;
    uint32_t count = 0;
    if (!isfinite(best)) { /* everything banned, or +inf by a bias: nothing to weigh */
        s->list[0] = (candidate){0, 1, top};
        return 1;
    }
    for (uint32_t i = 0; i < s->vocab; i++)
        if (logits[i] >= floor) {
            float scaled = (logits[i] - best) / s->params->temperature;
            s->list[count++] = (candidate){scaled, expf(scaled), (int32_t)i};
        }
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
        if (child + 1 < count && by_logit(&heap[child + 1], &heap[child]) < 0)
            child++;
        if (by_logit(&heap[at], &heap[child]) <= 0)
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

static uint32_t drop_below(candidate *list, uint32_t count, float least)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++)
        if (list[i].weight >= least)
            list[kept++] = list[i];
    return kept;
}

static uint32_t filter(const sampler *s, uint32_t count)
{
    const sampling_params *p = s->params;
    bool sorted = p->top_k || p->top_p < 1 || p->min_p > 0 || p->typical_p < 1;
    if (!sorted)
        return count;
    uint32_t most = p->top_k ? p->top_k : UINT32_MAX;
    bool whole = p->top_k || p->typical_p < 1; /* what follows needs the mass of all that top-k keeps */
    double enough = whole || p->top_p >= 1 ? INFINITY : (double)p->top_p * mass(s->list, count);
    if (p->min_p > 0 && !whole && p->top_p >= 1)
        count = drop_below(s->list, count, p->min_p); /* cheap, and all that is asked */
    count = sort_best(s->list, count, most, enough);
    if (p->typical_p < 1)
        count = keep_typical(s->list, count, p->typical_p);
    if (p->top_p < 1 && whole)
        count = keep_top_p(s->list, count, p->top_p);
    if (p->min_p > 0)
        count = keep_min_p(s->list, count, p->min_p);
    return count;
}

static int32_t draw(const sampler *s, uint32_t count)
{
    rng r = {s->params->seed ^ ((uint64_t)s->generated + 1) * 0xD1342543DE82EF95u};
    rng_next(&r);
    double point = rng_unit(&r) * mass(s->list, count), sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        sum += (double)s->list[i].weight;
        if (point < sum)
            return s->list[i].id;
    }
    return s->list[count - 1].id;
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
    apply_penalties(s, logits);
    out->token = s->list ? draw(s, filter(s, gather(s, logits))) : argmax(logits, s->vocab);
    if (s->raw)
        out->logprob = (float)((double)s->raw[out->token] - log_sum);
    note_token(s, out->token, true);
    s->generated++;
}
