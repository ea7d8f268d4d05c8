/* load/summary.h: what do the samples say? Pure arithmetic: the same samples give the same numbers. Times of a cell are
 * milliseconds. TTFT: from the intended send to the first text. ITL: every gap between two texts of an answer. TPOT:
 * (last - first) / (output tokens - 1). E2E: from the intended send to the last text. A gap that a cut left open counts
 * when it is already longer than every closed gap of its stream. Quantiles interpolate linearly. One thread. */
#ifndef HEADWAY_LOAD_SUMMARY_H
#define HEADWAY_LOAD_SUMMARY_H

#include "load/replay.h"

typedef struct {
    uint64_t count; /* 0: the others mean nothing */
    double mean, median, p90, p99, max;
} load_quantiles;

/* Of `count` sorted values, 0 <= q <= 1; NAN for none. */
double quantile_of(const double *sorted, size_t count, double q);
load_quantiles quantiles_of(double *values, size_t count); /* sorts them */

typedef struct { /* bounds of a good request, in milliseconds: all of its gaps, its TTFT. Documents have none. */
    double gap_ms, ttft_ms;
} load_bounds;

typedef struct {
    uint32_t requests, done, refused, failed, cut;
    load_quantiles ttft_ms, itl_ms, tpot_ms, e2e_ms;
    load_quantiles stream_tok_s; /* tokens a second of each stream while it decodes */
    double worst_gap_at_s;       /* after the run's start */
    uint32_t worst_gap_sample;
    uint64_t prompt_tokens, cached_tokens, output_tokens; /* of answered requests */
    uint32_t judged, good;                                /* requests; a cut one is judged only if it broke a bound */
    uint64_t tokens, good_tokens;                         /* tokens whose own wait was within bounds */
    double seconds, prompt_tok_s, output_tok_s, good_s;   /* of the phase; rates over it */
} load_cell;

typedef struct {                                                                  /* together / alone; NAN: unknown */
    double ttft_median, itl_median, itl_p99, worst_gap, stream_rate, prompt_rate; /* rates: alone / together */
} load_slowdown;

enum { REFUSALS_MAX = 32, TIMELINE_BINS = 240, RESIDENT_BINS = 24 };

typedef struct {
    load_role role;
    load_outcome outcome; /* LOAD_REFUSED or LOAD_FAILED */
    int http_status;
    char reason[REASON_MAX], message[160]; /* message: of the first */
    uint32_t count, retry_after_min_s, retry_after_max_s;
} load_refusal;

typedef struct {
    uint64_t tokens; /* at least so many tokens were held by the streams that decode */
    load_quantiles itl_ms;
} resident_bin;

typedef struct {
    load_cell cells[PHASES_MAX][LOAD_ROLES];
    load_slowdown slowdown[LOAD_ROLES];
    bool compared[LOAD_ROLES]; /* slowdown is known */
    load_refusal refusals[REFUSALS_MAX];
    uint32_t refusal_count;
    uint64_t start_us, end_us; /* of the run */
    double bin_s;
    float worst_ms[LOAD_ROLES][TIMELINE_BINS]; /* longest gap that ended in the bin; 0: none ended */
    resident_bin resident[RESIDENT_BINS];
    uint32_t resident_count;
    load_role resident_role; /* whose gaps */
    double late_ms_max;      /* a request left the client this long after it was due */
} load_summary;

status summary_build(load_summary *out, const load_samples *samples, const load_plan *plan, const load_span *spans,
                     const load_bounds *bounds, error *err);

#endif
