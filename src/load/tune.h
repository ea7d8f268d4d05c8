/* load/tune.h: what did `headway tune` measure of this box, and what follows from it? Step costs, then points: one
 * policy with one setting, a chat that decodes beside a document. From them the sweet spot, and the files: curves.json
 * ("headway-curves-1"), steps.json ("headway-steps-1"), curves.html, headway.conf; all described in docs/tuning.md.
 * Numbers in, text out: the same report gives the same bytes. One thread. */
#ifndef HEADWAY_LOAD_TUNE_H
#define HEADWAY_LOAD_TUNE_H

#include "base/buf.h"
#include "base/error.h"
#include "load/canary.h"

enum { TUNE_COSTS_MAX = 32, TUNE_POINTS_MAX = 96, TUNE_SAMPLES_MAX = 2, TUNE_REFUSED_MAX = 240 };

typedef struct { /* of repetitions */
    double median, least, most;
    uint32_t repeats;
} tune_spread;

typedef struct {
    uint64_t bytes;
    tune_spread rate; /* bytes/s */
} tune_read;

typedef struct {
    uint32_t size, position; /* tokens of a chunk, or rows of a decode step; where they stand in the context */
    tune_spread us;
} tune_cost;

typedef struct {
    tune_cost items[TUNE_COSTS_MAX];
    uint32_t count;
} tune_cost_list;

typedef struct {
    tune_read reads[TUNE_COSTS_MAX]; /* none for a simulated runner */
    uint32_t read_count;
    tune_cost_list chunks;    /* prefill at position 0, by tokens */
    tune_cost_list positions; /* prefill of one size, by position */
    tune_cost_list rows;      /* decode at depth 0, by rows */
    tune_cost_list depths;    /* decode of one row, by depth */
    canary_report holes;      /* of the machine while all this was measured; watched_us 0: nobody watched */
    double token_flops;       /* of the matmuls of one prompt token; 0: not known */
    uint64_t weight_bytes;    /* read by one decode step */
    uint64_t state_bytes;     /* of a sequence's recurrent state; 0: none */
} tune_costs;

typedef struct {    /* a chat beside a document, once */
    double ttft_us; /* of the document, from its submission; starved: how long it was waited for */
    double premium; /* ttft against the document alone; 0: starved */
    bool starved;   /* nothing of the document was read in the time that it takes alone */
    bool estimated; /* cut short: premium from the part that was read */
    uint32_t gaps;  /* of the chat while the document was there */
    double p50_us, p99_us, worst_us;
    double chat_tokens_per_s;
} tune_sample;

typedef struct {
    const char *policy;
    bool bound_sweep; /* one of cadence's bounds and shares, else one of the chunks */
    uint32_t chunk;   /* tokens */
    uint64_t gap_us;  /* the bound */
    double chat_share;
    tune_sample samples[TUNE_SAMPLES_MAX];
    uint32_t sample_count, best;    /* which sample counts; valid with sample_count > 0 */
    char refused[TUNE_REFUSED_MAX]; /* why the engine refused these settings; "": it did not */
} tune_point;

typedef struct { /* of the user's requests: a given share, or a running server's numbers */
    bool given, measured;
    double share;                        /* of prompt tokens that were sent before, 0 to 1 */
    double prompt_tokens, answer_tokens; /* means; 0: not known */
} tune_reuse;

typedef struct {
    const char *machine, *model;
    uint64_t unix_seconds;
    double load_average; /* of the machine before the run; 0: not known, or simulated */
    bool quick, gap_auto;
    bool sparse;                      /* fewer points: quick, or the box is slow */
    uint64_t gap_us, smallest_gap_us; /* the operator's bound; the least that this box can keep */
    double chat_share;
    uint32_t context, document_tokens, chat_tokens;
    tune_spread alone_us;                  /* the document alone, to its first token; premiums are against the least */
    double solo_gap_us, solo_tokens_per_s; /* the chat alone: median gap */
    tune_costs costs;
    tune_reuse reuse;
    double kv_token_bytes; /* of KV as it is kept; 0: not known */
    tune_point points[TUNE_POINTS_MAX];
    uint32_t point_count;
} tune_report;

tune_spread tune_spread_of(double *values, uint32_t count);              /* sorts them; count >= 1 */
double tune_quantile(const double *sorted, uint32_t count, double part); /* the least value that `part` do not exceed */

/* Did the document alone take much the same time before and after the points? */
static inline bool tune_is_steady(const tune_report *r)
{
    return r->alone_us.most <= 1.25 * r->alone_us.least;
}

static inline const tune_sample *tune_value(const tune_point *p) /* NULL: refused, or not measured yet */
{
    return p->sample_count ? &p->samples[p->best] : NULL;
}

/* Takes a further sample in: of two that differ the one with the lower 99th percentile counts, since what disturbs a
 * run only adds. */
void tune_add_sample(tune_point *p, const tune_sample *sample);
/* Does the point break out from between its neighbours, or a bound that its policy promises, or was a bound refused
 * that this box can keep? Then it was disturbed, or is worth another look. */
bool tune_is_odd(const tune_report *r, uint32_t index);

/* Is the bound kept by 99 of 100 gaps, does the chat have its share of its rate alone, does the document get read? */
bool tune_keeps(const tune_report *r, const tune_point *p);
/* Of one policy's chunks (NULL: of all policies'): the point with the smallest premium that keeps the bound; within
 * 5% of it cadence goes first, then gate, chunked, prefill-first. -1: none keeps it. */
int tune_sweet(const tune_report *r, const char *policy);
/* What to serve with: the sweet spot, else the point with the smallest 99th percentile that starves nobody; -1: no
 * point at all. */
int tune_choice(const tune_report *r);

/* Does a prefix cache spare more of a request's time here, or a quantized KV cache? */
typedef struct {
    bool known; /* enough was measured to say */
    double prompt_tokens, answer_tokens;
    double read_us, spared_us;      /* reading a prompt; of it the part that comes back */
    double answer_us, q8_us, q4_us; /* generating an answer; what the two types spare of it, by their bytes */
    double break_even;              /* the share of prompts from which on the cache spares more than q8; 1: never */
} tune_cache_advice;
enum { TUNE_Q8_PERCENT = 53, TUNE_Q4_PERCENT = 28 }; /* of the bytes of f16, scales included */
tune_cache_advice tune_cache_advise(const tune_report *r);

void tune_curves_json(const tune_report *r, buf *out);
void tune_steps_json(const tune_report *r, buf *out);
void tune_html(const tune_report *r, buf *out);
void tune_table(const tune_report *r, buf *out);      /* for a terminal, at most 80 columns */
void tune_cache_text(const tune_report *r, buf *out); /* a part of the table; nothing when it is not known */

typedef struct { /* other settings that the run had, for [server]; NULL: not set */
    const char *name, *value;
} tune_setting;
/* A file for `serve --config`. `settings` ends with a NULL name; a value that a config line cannot hold is left out and
 * said in a comment. */
void tune_config(const tune_report *r, const tune_setting *settings, buf *out);

#endif
