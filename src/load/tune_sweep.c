/* load/tune_sweep.c: see the header. */
#include "load/tune_sweep.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    CHUNK_LEAST = 64,
    CHAT_TOKENS = 32,
    ALONE_RUNS = 3,
    /* two before the points, one after */ DOCUMENT_LEAST = 256,
    DOCUMENT_WANTED = 1024,
    POINT_RANKS = 3,
    SOLO_US = 1000000
};
static const double point_fixed_us = 400000; /* an engine's start and a chat's first tokens */
static const double window_us = 250000;      /* gate's, between two chunks */
static const double rerun_part = 0.15;       /* of the time, kept for points that do not fit */

/* ---- which points ---- */

static void add_point(tune_report *r, const tune_point *p)
{
    if (r->point_count < TUNE_POINTS_MAX)
        r->points[r->point_count++] = *p;
}

static void add_chunks(tune_report *r, const char *policy, uint32_t chunk_max)
{
    bool ends_only = strcmp(policy, "decode-first") == 0; /* between them nothing changes: it reads nothing */
    uint32_t factor = ends_only ? chunk_max / CHUNK_LEAST : r->sparse ? 4 : 2;
    for (uint32_t chunk = CHUNK_LEAST < chunk_max ? CHUNK_LEAST : chunk_max;; chunk *= factor < 2 ? 2 : factor) {
        chunk = chunk < chunk_max ? chunk : chunk_max;
        add_point(r, &(tune_point){.policy = policy, .chunk = chunk, .gap_us = r->gap_us, .chat_share = r->chat_share});
        if (chunk == chunk_max)
            return;
    }
}

void tune_plan_points(tune_report *r, uint32_t chunk_max)
{
    static const char *const policies[] = {"prefill-first", "decode-first", "chunked", "gate", "cadence"};
    static const uint32_t bounds_ms[] = {10, 25, 50, 100, 200}, few_ms[] = {25, 50, 100};
    static const double shares[] = {0, 0.25, 0.5};
    r->point_count = 0;
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++)
        add_chunks(r, policies[i], chunk_max);
    const uint32_t *bounds = r->sparse ? few_ms : bounds_ms;
    uint32_t count = r->sparse ? 3 : 5;
    for (uint32_t s = 0; s < 3; s += r->sparse ? 2 : 1)
        for (uint32_t b = 0; b < count; b++)
            add_point(r, &(tune_point){.policy = "cadence",
                                       .bound_sweep = true,
                                       .chunk = chunk_max,
                                       .gap_us = bounds[b] * UINT64_C(1000),
                                       .chat_share = shares[s]});
}

/* ---- how long they take ---- */

static double point_us(const tune_point *p, double alone_us, uint32_t document_tokens)
{
    if (strcmp(p->policy, "decode-first") == 0)
        return alone_us;
    if (strcmp(p->policy, "gate") == 0)
        return fmin(1.1 * alone_us + window_us * ceil((double)document_tokens / p->chunk), 6 * alone_us);
    if (strcmp(p->policy, "cadence") == 0)
        return 1.2 * alone_us / (1 - fmin(p->chat_share, 0.8));
    return (strcmp(p->policy, "chunked") == 0 ? 1.4 : 1.1) * alone_us;
}

double tune_predict_us(const tune_report *r, uint32_t document_tokens)
{
    double alone_us = tune_prompt_us(&r->costs, document_tokens), sum_us = SOLO_US + (1 + ALONE_RUNS) * alone_us;
    for (uint32_t i = 0; i < r->point_count; i++)
        sum_us += point_fixed_us + point_us(&r->points[i], alone_us, document_tokens);
    return sum_us;
}

static double time_left_us(const tune_sweep *sweep)
{
    uint64_t now_us = sweep->clock->now_us(sweep->clock);
    return sweep->end_us > now_us ? (double)(sweep->end_us - now_us) : 0;
}

/* The largest document, from half of the context down to `least`, whose points fit the time; else `least`. */
static bool fit_document(const tune_sweep *sweep, tune_report *r, uint32_t least)
{
    uint32_t chunk_most = sweep->runner->info.max_chunk_tokens, tokens = r->context / 2;
    double left_us = time_left_us(sweep) * (1 - rerun_part);
    for (;; tokens = tokens * 7 / 8 > least ? tokens * 7 / 8 : least) {
        uint32_t chunk = CHUNK_LEAST;
        while (chunk * 2 <= chunk_most && chunk * 2 <= tokens)
            chunk *= 2;
        tune_plan_points(r, chunk < chunk_most ? chunk : chunk_most);
        r->document_tokens = tokens;
        if (tune_predict_us(r, tokens) <= left_us)
            return true;
        if (tokens <= least)
            return false;
    }
}

/* A slow box gets fewer points rather than a document that says nothing. */
static void choose_document(const tune_sweep *sweep, tune_report *r)
{
    r->chat_tokens = CHAT_TOKENS;
    r->sparse = sweep->quick;
    if (fit_document(sweep, r, r->quick ? DOCUMENT_LEAST : DOCUMENT_WANTED) || r->quick)
        return;
    r->sparse = true;
    fit_document(sweep, r, DOCUMENT_LEAST);
}

/* ---- measuring ---- */

typedef struct {
    const tune_sweep *sweep;
    tune_report *report;
    uint64_t seed, started_us;
    double alone_us[ALONE_RUNS];
    uint32_t alone_count;
} measurer;

static tune_load load_of(measurer *m, const char *policy)
{
    return (tune_load){.runner = m->sweep->runner,
                       .clock = m->sweep->clock,
                       .policy = policy,
                       .schedule = {.chat_share = m->report->chat_share, .chat_share_set = true},
                       .seed = ++m->seed};
}

static status measure_document(measurer *m, error *err)
{
    tune_sample sample;
    tune_load load = load_of(m, "prefill-first");
    load.document_tokens = m->report->document_tokens;
    status st = tune_run(&load, &sample, err);
    if (st)
        return st;
    m->alone_us[m->alone_count++] = sample.ttft_us;
    double sorted[ALONE_RUNS];
    memcpy(sorted, m->alone_us, sizeof sorted);
    m->report->alone_us = tune_spread_of(sorted, m->alone_count);
    return OK;
}

static void rescale(tune_report *r, double factor)
{
    for (uint32_t i = 0; i < r->costs.chunks.count; i++)
        r->costs.chunks.items[i].us.median *= factor;
    for (uint32_t i = 0; i < r->costs.positions.count; i++)
        r->costs.positions.items[i].us.median *= factor;
}

static status measure_alone(measurer *m, error *err)
{
    tune_report *r = m->report;
    tune_sample sample;
    status st = OK;
    while (!st && m->alone_count < (r->quick ? 1 : 2))
        st = measure_document(m, err);
    if (st)
        return st;
    tune_load load = load_of(m, "cadence");
    load.chat_tokens = r->chat_tokens;
    load.chat_us = SOLO_US;
    if ((st = tune_run(&load, &sample, err)))
        return st;
    r->solo_gap_us = sample.p50_us;
    r->solo_tokens_per_s = sample.chat_tokens_per_s;
    return OK;
}

/* Once more after the points: a machine that changed meanwhile shows in the spread, and the least, which all
 * premiums are against, is one that it can reach. */
static status measure_alone_again(measurer *m, error *err)
{
    tune_report *r = m->report;
    status st = measure_document(m, err);
    for (uint32_t i = 0; i < r->point_count && !st; i++)
        for (uint32_t k = 0; k < r->points[i].sample_count; k++) {
            tune_sample *s = &r->points[i].samples[k];
            if (!s->starved)
                s->premium = s->ttft_us / r->alone_us.least;
        }
    return st;
}

static status measure_point(measurer *m, tune_point *p, error *err)
{
    tune_report *r = m->report;
    tune_load load = load_of(m, p->policy);
    load.schedule.chat_share = p->chat_share;
    load.schedule.chunk_tokens = p->chunk;
    load.schedule.document_tokens = r->document_tokens / 2; /* it is one, at any bound */
    if (p->bound_sweep || !r->gap_auto)
        load.schedule.gap_us = p->gap_us;
    load.chat_tokens = r->chat_tokens;
    load.document_tokens = r->document_tokens;
    load.alone_us = (uint64_t)r->alone_us.least;
    tune_sample sample;
    error own = {""};
    status st = tune_run(&load, &sample, &own);
    if (st == ERR_LIMIT) {
        snprintf(p->refused, sizeof p->refused, "%s", own.text);
        return OK;
    }
    if (st)
        return error_set(err, st, "%s", own.text);
    p->refused[0] = 0;
    tune_add_sample(p, &sample);
    return OK;
}

static void tell_point(const measurer *m, const tune_point *p, double part)
{
    char what[96];
    if (p->bound_sweep)
        snprintf(what, sizeof what, "%s, bound %.0f ms, share %g", p->policy, (double)p->gap_us / 1e3, p->chat_share);
    else
        snprintf(what, sizeof what, "%s, chunk %u", p->policy, p->chunk);
    if (m->sweep->teller.tell)
        m->sweep->teller.tell(m->sweep->teller.context, what, part);
}

/* Points that do not fit, until the time is over. */
static status measure_again(measurer *m, error *err)
{
    tune_report *r = m->report;
    status st = OK;
    for (uint32_t i = 0; i < r->point_count && !st; i++) {
        tune_point *p = &r->points[i];
        double cost_us = point_fixed_us + (tune_value(p) ? tune_value(p)->ttft_us : 0);
        if (p->sample_count > 1 || !tune_is_odd(r, i) || cost_us > time_left_us(m->sweep))
            continue;
        tell_point(m, p, 0.95 + 0.05 * i / r->point_count);
        st = measure_point(m, p, err);
    }
    return st;
}

/* 0: without it there is no choice; 1: the coarse curve of bounds; 2: what refines both. The coarse ones are those of a
 * sparse plan: every second chunk and the last. */
static int rank_of(const tune_report *r, const tune_point *p)
{
    uint32_t chunk_max = r->points[r->point_count - 1].chunk, steps = 0;
    if (p->bound_sweep) {
        bool outer = p->gap_us == 10000 || p->gap_us == 200000 || p->chat_share == 0.25;
        return outer && !r->sparse ? 2 : 1;
    }
    for (uint32_t chunk = CHUNK_LEAST; chunk < p->chunk; chunk *= 2)
        steps++;
    return steps % 2 == 0 || p->chunk == chunk_max ? 0 : 2;
}

/* When the machine turned out slower than it was at the start, the finer points are left out. */
static status measure_rank(measurer *m, int rank, error *err)
{
    tune_report *r = m->report;
    status st = OK;
    for (uint32_t i = 0; i < r->point_count && !st; i++) {
        tune_point *p = &r->points[i];
        double cost_us = point_fixed_us + point_us(p, r->alone_us.median, r->document_tokens);
        double left_us = time_left_us(m->sweep), all_us = fmax(1, (double)m->sweep->end_us - (double)m->started_us);
        if (rank_of(r, p) != rank || (rank > 0 && cost_us > left_us))
            continue;
        tell_point(m, p, 0.95 * (1 - left_us / all_us));
        st = measure_point(m, p, err);
    }
    return st;
}

static void drop_unmeasured(tune_report *r)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < r->point_count; i++)
        if (tune_value(&r->points[i]) || r->points[i].refused[0])
            r->points[kept++] = r->points[i];
    r->point_count = kept;
}

status tune_sweep_run(const tune_sweep *sweep, tune_report *r, error *err)
{
    measurer m = {.sweep = sweep, .report = r, .started_us = sweep->clock->now_us(sweep->clock)};
    r->gap_auto = sweep->gap_us == 0;
    r->chat_share = sweep->chat_share;
    r->quick = sweep->quick;
    tune_load load = load_of(&m, "cadence");
    load.schedule.gap_us = sweep->gap_us;
    status st = tune_resolve_gap(&load, &r->gap_us, &r->smallest_gap_us, err);
    if (st)
        return st;
    uint64_t pool = (uint64_t)sweep->runner->info.page_count * sweep->runner->info.page_tokens;
    r->context = sweep->runner->info.context_length;
    if (pool < r->context)
        r->context = (uint32_t)pool;
    choose_document(sweep, r);
    if (sweep->teller.tell)
        sweep->teller.tell(sweep->teller.context, "document and chat, each alone", 0);
    if ((st = measure_document(&m, err)))
        return st;
    double off = r->alone_us.median / tune_prompt_us(&r->costs, r->document_tokens);
    if (off < 0.7 || off > 1.4) { /* the steps were measured in another mood of the machine: once more, by this speed */
        m.alone_count = 0;
        rescale(r, off);
        choose_document(sweep, r);
        rescale(r, 1 / off);
    }
    if ((st = measure_alone(&m, err)))
        return st;
    for (int rank = 0; rank < POINT_RANKS && !st; rank++)
        st = measure_rank(&m, rank, err);
    drop_unmeasured(r);
    if (!st)
        st = measure_alone_again(&m, err);
    return st ? st : measure_again(&m, err);
}
