/* load/summary.c: cells, then what is compared and spread over time. */
#include "load/summary.h"

#include <math.h>
#include <stdlib.h>

typedef struct { /* growing; one allocation error is kept */
    double *items;
    size_t count, capacity;
    bool failed;
} values;

static void values_add(values *v, double value)
{
    if (v->count == v->capacity) {
        size_t capacity = v->capacity ? v->capacity * 2 : 256;
        double *items = realloc(v->items, capacity * sizeof *items);
        if (!items) {
            v->failed = true;
            return;
        }
        v->items = items;
        v->capacity = capacity;
    }
    v->items[v->count++] = value;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double quantile_of(const double *sorted, size_t count, double q)
{
    if (count == 0)
        return NAN;
    double at = q * (double)(count - 1);
    size_t low = (size_t)at, high = low + 1 < count ? low + 1 : low;
    return sorted[low] + (sorted[high] - sorted[low]) * (at - (double)low);
}

load_quantiles quantiles_of(double *v, size_t count)
{
    load_quantiles q = {.count = count};
    if (count == 0)
        return q;
    qsort(v, count, sizeof *v, by_value);
    for (size_t i = 0; i < count; i++)
        q.mean += v[i] / (double)count;
    q.median = quantile_of(v, count, 0.5);
    q.p90 = quantile_of(v, count, 0.9);
    q.p99 = quantile_of(v, count, 0.99);
    q.max = v[count - 1];
    return q;
}

static double ms_between(uint64_t from_us, uint64_t to_us)
{
    return to_us > from_us ? (double)(to_us - from_us) / 1e3 : 0;
}

/* ---- gaps of one stream ---- */

typedef struct {
    const load_sample *sample;
    uint32_t next;
    double longest;
    bool tail_taken;
} gap_walk;

/* The next gap: its length and its end. False: there is none. */
static bool next_gap(gap_walk *w, double *ms, uint64_t *end_us)
{
    const load_sample *s = w->sample;
    if (w->next + 1 < s->mark_count) {
        *end_us = s->marks[++w->next].at_us;
        *ms = ms_between(s->marks[w->next - 1].at_us, *end_us);
        w->longest = *ms > w->longest ? *ms : w->longest;
        return true;
    }
    if (s->outcome != LOAD_CUT || s->mark_count == 0 || w->tail_taken)
        return false;
    w->tail_taken = true;
    *end_us = s->end_us;
    *ms = ms_between(s->marks[s->mark_count - 1].at_us, s->end_us);
    return *ms > w->longest;
}

/* ---- cells ---- */

typedef struct {
    values ttft, itl, tpot, e2e, rate;
} cell_values;

static void judge(load_cell *c, const load_sample *s, const load_bounds *bounds, double longest_gap)
{
    bool documents = s->role == LOAD_DOCUMENTS, done = s->outcome == LOAD_DONE;
    bool first_late = s->mark_count ? ms_between(s->intended_us, s->marks[0].at_us) > bounds->ttft_ms
                                    : ms_between(s->intended_us, s->end_us) > bounds->ttft_ms;
    bool broken = !documents && (first_late || longest_gap > bounds->gap_ms);
    if (s->outcome == LOAD_CUT && !broken)
        return;
    c->judged++;
    c->good += done && !broken;
}

static void add_sample(load_cell *c, cell_values *v, const load_sample *s, uint32_t index, const load_bounds *bounds,
                       uint64_t run_start_us)
{
    c->requests++;
    c->done += s->outcome == LOAD_DONE;
    c->refused += s->outcome == LOAD_REFUSED;
    c->failed += s->outcome == LOAD_FAILED;
    c->cut += s->outcome == LOAD_CUT;
    gap_walk walk = {.sample = s};
    double gap, longest = 0;
    uint64_t end_us;
    while (next_gap(&walk, &gap, &end_us)) {
        values_add(&v->itl, gap);
        c->good_tokens += !walk.tail_taken && gap <= bounds->gap_ms;
        if (gap > longest)
            longest = gap;
        if (gap > c->itl_ms.max) { /* filled for good by quantiles_of */
            c->itl_ms.max = gap;
            c->worst_gap_at_s = ms_between(run_start_us, end_us) / 1e3;
            c->worst_gap_sample = index;
        }
    }
    judge(c, s, bounds, longest);
    if (s->mark_count == 0)
        return;
    uint64_t first = s->marks[0].at_us, last = s->marks[s->mark_count - 1].at_us;
    double ttft = ms_between(s->intended_us, first), decode = ms_between(first, last);
    values_add(&v->ttft, ttft);
    c->tokens += s->mark_count;
    c->good_tokens += ttft <= bounds->ttft_ms;
    c->prompt_tokens += sample_prompt_tokens(s);
    c->cached_tokens += s->usage.cached_tokens;
    c->output_tokens += sample_output_tokens(s);
    if (s->outcome == LOAD_DONE && sample_output_tokens(s) > 1)
        values_add(&v->tpot, decode / (sample_output_tokens(s) - 1));
    if (s->outcome == LOAD_DONE)
        values_add(&v->e2e, ms_between(s->intended_us, last));
    if (s->mark_count > 1 && decode > 0)
        values_add(&v->rate, (s->mark_count - 1) / (decode / 1e3));
}

static status build_cell(load_cell *c, const load_samples *samples, uint32_t phase, load_role role,
                         const load_bounds *bounds, const load_span *span, uint64_t run_start_us, error *err)
{
    cell_values v = {0};
    for (uint32_t i = 0; i < samples->count; i++)
        if (samples->items[i].phase == phase && samples->items[i].role == role)
            add_sample(c, &v, &samples->items[i], i, bounds, run_start_us);
    c->ttft_ms = quantiles_of(v.ttft.items, v.ttft.count);
    c->itl_ms = quantiles_of(v.itl.items, v.itl.count);
    c->tpot_ms = quantiles_of(v.tpot.items, v.tpot.count);
    c->e2e_ms = quantiles_of(v.e2e.items, v.e2e.count);
    c->stream_tok_s = quantiles_of(v.rate.items, v.rate.count);
    c->seconds = ms_between(span->start_us, span->end_us) / 1e3;
    if (c->seconds > 0) {
        c->prompt_tok_s = (double)c->prompt_tokens / c->seconds;
        c->output_tok_s = (double)c->output_tokens / c->seconds;
        c->good_s = c->good / c->seconds;
    }
    bool failed = v.ttft.failed || v.itl.failed || v.tpot.failed || v.e2e.failed || v.rate.failed;
    free(v.ttft.items);
    free(v.itl.items);
    free(v.tpot.items);
    free(v.e2e.items);
    free(v.rate.items);
    return failed ? error_set(err, ERR_MEMORY, "report: out of memory") : OK;
}

static double ratio(double a, double b)
{
    return a > 0 && b > 0 ? a / b : NAN;
}

static void compare(load_summary *out, const load_plan *plan)
{
    for (int role = 0; role < LOAD_ROLES; role++) {
        const load_cell *alone = NULL, *together = NULL;
        for (uint32_t p = 0; p < plan->phase_count; p++) {
            const load_cell *c = &out->cells[p][role];
            if (c->requests > 0)
                *(plan->phases[p].together ? &together : &alone) = c;
        }
        if (!alone || !together)
            continue;
        out->compared[role] = true;
        out->slowdown[role] = (load_slowdown){
            ratio(together->ttft_ms.median, alone->ttft_ms.median),
            ratio(together->itl_ms.median, alone->itl_ms.median),
            ratio(together->itl_ms.p99, alone->itl_ms.p99),
            ratio(together->itl_ms.max, alone->itl_ms.max),
            ratio(alone->stream_tok_s.median, together->stream_tok_s.median),
            ratio(alone->prompt_tok_s, together->prompt_tok_s),
        };
    }
}

/* ---- refusals ---- */

static void count_refusal(load_summary *out, const load_sample *s)
{
    uint32_t i = 0;
    for (; i < out->refusal_count; i++) {
        const load_refusal *r = &out->refusals[i];
        if (r->role == s->role && r->outcome == s->outcome && r->http_status == s->http_status &&
            !strcmp(r->reason, s->reason))
            break;
    }
    if (i == out->refusal_count) {
        if (i == REFUSALS_MAX) { /* the last line stands for all others */
            i--;
            memcpy(out->refusals[i].reason, "others", sizeof "others");
        } else {
            load_refusal *fresh = &out->refusals[out->refusal_count++];
            *fresh = (load_refusal){s->role, s->outcome, s->http_status, "", "", 0, UINT32_MAX, 0};
            memcpy(fresh->reason, s->reason, sizeof fresh->reason);
            memcpy(fresh->message, s->message, sizeof fresh->message);
        }
    }
    load_refusal *r = &out->refusals[i];
    r->count++;
    if (s->retry_after_s < r->retry_after_min_s)
        r->retry_after_min_s = s->retry_after_s;
    if (s->retry_after_s > r->retry_after_max_s)
        r->retry_after_max_s = s->retry_after_s;
}

/* ---- over time, and over the tokens that streams hold ---- */

static void spread_over_time(load_summary *out, const load_sample *s)
{
    gap_walk walk = {.sample = s};
    double gap;
    uint64_t end_us;
    while (next_gap(&walk, &gap, &end_us)) {
        uint64_t bin = out->bin_s > 0 ? (uint64_t)(ms_between(out->start_us, end_us) / 1e3 / out->bin_s) : 0;
        float *worst = &out->worst_ms[s->role][bin < TIMELINE_BINS ? bin : TIMELINE_BINS - 1];
        if (gap > *worst)
            *worst = (float)gap;
    }
}

typedef struct { /* at a time: a stream begins to hold its prompt, one token more, or lets all go */
    uint64_t at_us;
    int64_t change;
    double gap_ms; /* of a token that ends one; < 0: none */
} held_event;

static int by_time(const void *a, const void *b)
{
    const held_event *x = a, *y = b;
    if (x->at_us != y->at_us)
        return x->at_us < y->at_us ? -1 : 1;
    return (x->change > y->change) - (x->change < y->change);
}

static size_t fill_events(const load_samples *samples, load_role role, held_event *events)
{
    size_t count = 0;
    for (uint32_t i = 0; i < samples->count; i++) {
        const load_sample *s = &samples->items[i];
        for (uint32_t k = 0; k < s->mark_count; k++) {
            double gap = k && s->role == role ? ms_between(s->marks[k - 1].at_us, s->marks[k].at_us) : -1;
            events[count++] = (held_event){s->marks[k].at_us, k ? 1 : 1 + (int64_t)sample_prompt_tokens(s), gap};
        }
        if (s->mark_count)
            events[count++] = (held_event){s->marks[s->mark_count - 1].at_us + 1,
                                           -(int64_t)sample_prompt_tokens(s) - s->mark_count, -1};
    }
    qsort(events, count, sizeof *events, by_time);
    return count;
}

static status build_resident(load_summary *out, const load_samples *samples, error *err)
{
    size_t most = 1;
    for (uint32_t i = 0; i < samples->count; i++)
        most += samples->items[i].mark_count + 1;
    held_event *events = malloc(most * sizeof *events);
    values bins[RESIDENT_BINS] = {0};
    if (!events)
        return error_set(err, ERR_MEMORY, "report: out of memory");
    size_t count = fill_events(samples, out->resident_role, events);
    int64_t held = 0;
    bool failed = false;
    for (size_t i = 0; i < count; i++) {
        held += events[i].change;
        if (events[i].gap_ms < 0)
            continue;
        int bin = 0; /* powers of two from 256 on */
        while (bin + 1 < RESIDENT_BINS && held >= (256ll << bin))
            bin++;
        values_add(&bins[bin], events[i].gap_ms);
    }
    for (int i = 0; i < RESIDENT_BINS; i++) {
        failed = failed || bins[i].failed;
        if (bins[i].count)
            out->resident[out->resident_count++] =
                (resident_bin){i ? 128ull << i : 0, quantiles_of(bins[i].items, bins[i].count)};
        free(bins[i].items);
    }
    free(events);
    return failed ? error_set(err, ERR_MEMORY, "report: out of memory") : OK;
}

/* The first role that is there in the order agents, trace, documents. */
static load_role watched_role(const load_summary *out, const load_plan *plan)
{
    static const load_role order[] = {LOAD_AGENTS, LOAD_TRACE, LOAD_DOCUMENTS};
    for (size_t i = 0; i < 3; i++)
        for (uint32_t p = 0; p < plan->phase_count; p++)
            if (out->cells[p][order[i]].itl_ms.count)
                return order[i];
    return LOAD_AGENTS;
}

status summary_build(load_summary *out, const load_samples *samples, const load_plan *plan, const load_span *spans,
                     const load_bounds *bounds, error *err)
{
    *out = (load_summary){.start_us = spans[0].start_us};
    for (uint32_t p = 0; p < plan->phase_count; p++)
        if (spans[p].end_us > out->end_us)
            out->end_us = spans[p].end_us;
    out->bin_s = ms_between(out->start_us, out->end_us) / 1e3 / TIMELINE_BINS;
    status st = OK;
    for (uint32_t p = 0; !st && p < plan->phase_count; p++)
        for (int role = 0; !st && role < LOAD_ROLES; role++)
            st = build_cell(&out->cells[p][role], samples, p, (load_role)role, bounds, &spans[p], out->start_us, err);
    if (st)
        return st;
    compare(out, plan);
    for (uint32_t i = 0; i < samples->count; i++) {
        const load_sample *s = &samples->items[i];
        if (s->outcome == LOAD_REFUSED || s->outcome == LOAD_FAILED)
            count_refusal(out, s);
        spread_over_time(out, s);
        double late = ms_between(s->intended_us, s->sent_us);
        out->late_ms_max = late > out->late_ms_max ? late : out->late_ms_max;
    }
    out->resident_role = watched_role(out, plan);
    return build_resident(out, samples, err);
}
