/* load/beside.c: the times in which documents are read, joined where they overlap, laid over the gaps of the agents. */
#include "load/beside.h"

#include <math.h>
#include <stdlib.h>

typedef struct {
    uint64_t from_us, to_us;
} reading;

typedef struct {
    reading *readings; /* apart from each other, ascending */
    uint32_t count;
    double *gaps; /* ms, of those that touch a reading */
    size_t gap_count;
    double decode_us, weighted, longest_us;
    uint64_t tokens;
} tally;

static int by_start(const void *a, const void *b)
{
    const reading *x = a, *y = b;
    return (x->from_us > y->from_us) - (x->from_us < y->from_us);
}

static void find_readings(tally *t, const load_samples *samples, uint32_t phase, uint32_t *documents)
{
    for (uint32_t i = 0; i < samples->count; i++) {
        const load_sample *s = &samples->items[i];
        bool read = s->mark_count > 0;
        if (s->phase != phase || s->role != LOAD_DOCUMENTS || (!read && s->outcome != LOAD_CUT))
            continue;
        *documents += read;
        t->readings[t->count++] = (reading){s->intended_us, read ? s->marks[0].at_us : s->end_us};
    }
    qsort(t->readings, t->count, sizeof *t->readings, by_start);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < t->count; i++) {
        reading *last = kept ? &t->readings[kept - 1] : NULL;
        if (last && t->readings[i].from_us <= last->to_us)
            last->to_us = t->readings[i].to_us > last->to_us ? t->readings[i].to_us : last->to_us;
        else
            t->readings[kept++] = t->readings[i];
    }
    t->count = kept;
}

/* *next: the first reading that does not end before; only moves on. */
static double overlap_us(const tally *t, uint32_t *next, uint64_t from_us, uint64_t to_us)
{
    double sum = 0;
    while (*next < t->count && t->readings[*next].to_us <= from_us)
        (*next)++;
    for (uint32_t i = *next; i < t->count && t->readings[i].from_us < to_us; i++) {
        uint64_t from = t->readings[i].from_us > from_us ? t->readings[i].from_us : from_us;
        uint64_t to = t->readings[i].to_us < to_us ? t->readings[i].to_us : to_us;
        sum += (double)(to - from);
    }
    return sum;
}

static void add_gap(tally *t, uint32_t *next, uint64_t from_us, uint64_t to_us, bool token)
{
    double inside_us = overlap_us(t, next, from_us, to_us), gap_us = (double)(to_us - from_us);
    if (inside_us <= 0)
        return;
    t->decode_us += inside_us;
    t->weighted += inside_us * gap_us;
    t->longest_us = gap_us > t->longest_us ? gap_us : t->longest_us;
    t->gaps[t->gap_count++] = gap_us / 1e3;
    uint32_t at = *next;
    while (at < t->count && t->readings[at].to_us < to_us)
        at++;
    t->tokens += token && at < t->count && t->readings[at].from_us <= to_us;
}

static void add_stream(tally *t, const load_sample *s)
{
    uint32_t next = 0;
    for (uint32_t i = 1; i < s->mark_count; i++)
        add_gap(t, &next, s->marks[i - 1].at_us, s->marks[i].at_us, true);
    if (s->outcome == LOAD_CUT && s->mark_count && s->end_us > s->marks[s->mark_count - 1].at_us)
        add_gap(t, &next, s->marks[s->mark_count - 1].at_us, s->end_us, false);
}

static double alone(const load_plan *plan, const load_summary *summary, load_role role, bool rate)
{
    for (uint32_t p = 0; p < plan->phase_count; p++) {
        const load_cell *c = &summary->cells[p][role];
        if (!plan->phases[p].together && (rate ? c->stream_tok_s.count : c->ttft_ms.count) > 0)
            return rate ? c->stream_tok_s.median : c->ttft_ms.median / 1e3;
    }
    return NAN;
}

static void finish(load_beside *out, tally *t, const load_cell *documents)
{
    out->known = t->decode_us > 0;
    out->document_ttft_s = documents->ttft_ms.count ? documents->ttft_ms.median / 1e3 : NAN;
    out->premium = out->document_ttft_s / out->document_alone_ttft_s - 1;
    out->seconds = t->decode_us / 1e6;
    out->longest_gap_ms = t->longest_us / 1e3;
    if (!out->known)
        return;
    out->chat_tok_s = (double)t->tokens / out->seconds;
    out->mean_gap_ms = t->tokens ? t->decode_us / 1e3 / (double)t->tokens : NAN;
    out->time_gap_ms = t->weighted / t->decode_us / 1e3;
    out->median_gap_ms = quantiles_of(t->gaps, t->gap_count).median;
}

status load_beside_build(load_beside *out, const load_samples *samples, const load_plan *plan,
                         const load_summary *summary, error *err)
{
    uint32_t phase = 0;
    *out = (load_beside){.known = false};
    while (phase < plan->phase_count && !plan->phases[phase].together)
        phase++;
    if (phase == plan->phase_count)
        return OK;
    size_t gaps = 1;
    for (uint32_t i = 0; i < samples->count; i++)
        gaps += samples->items[i].phase == phase ? samples->items[i].mark_count + 1 : 0;
    tally t = {.readings = malloc((samples->count + 1) * sizeof *t.readings), .gaps = malloc(gaps * sizeof *t.gaps)};
    if (t.readings && t.gaps) {
        find_readings(&t, samples, phase, &out->documents);
        for (uint32_t i = 0; i < samples->count; i++)
            if (samples->items[i].phase == phase && samples->items[i].role == LOAD_AGENTS)
                add_stream(&t, &samples->items[i]);
        out->document_alone_ttft_s = alone(plan, summary, LOAD_DOCUMENTS, false);
        out->chat_alone_tok_s = alone(plan, summary, LOAD_AGENTS, true);
        finish(out, &t, &summary->cells[phase][LOAD_DOCUMENTS]);
    }
    bool failed = !t.readings || !t.gaps;
    free(t.readings);
    free(t.gaps);
    return failed ? error_set(err, ERR_MEMORY, "report: out of memory") : OK;
}
