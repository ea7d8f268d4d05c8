/* sched/step_model.h: how long will this step take? Fitted online from the steps that were run: per step kind, rows,
 * depth and position in the chunk. Pure numbers: no clock, no threads; a copy of the struct is a valid model, so that a
 * snapshot can publish it and others predict from it. Owner: whoever holds the struct.
 *
 *   decode  step  = base(rows) + per_kv * (tokens of KV read by all rows)
 *   prefill chunk = chunk + sum over its tokens of (per_token + per_depth * position); a part of it takes its share
 *   fused   step  = prefill of the chunk + row * rows + per_kv * (tokens of KV read by the rows)
 * base is kept at 1, 2, 4, 8, ... rows, straight lines between: each doubling may run on another kernel. The parameters
 * of decode and of prefill are the states of two Kalman filters (least squares that forget): an observation moves what
 * is uncertain and bears on it. One that is off by more than a factor of two moves nothing unless others before it
 * agree: a noisy neighbour does not bend the model, a lasting change does so within some 10 steps. */
#ifndef HEADWAY_SCHED_STEP_MODEL_H
#define HEADWAY_SCHED_STEP_MODEL_H

#include <stdbool.h>
#include <stdint.h>

enum { MODEL_REGIMES = 12, MODEL_ERRORS = 256, DECODE_TERMS = MODEL_REGIMES + 1, PREFILL_TERMS = 3 };
typedef enum { MODEL_DECODE, MODEL_PREFILL, MODEL_FUSED, MODEL_KINDS } model_kind;

typedef struct { /* the newest errors of one kind: measured / predicted - 1 */
    float ratios[MODEL_ERRORS];
    uint32_t count, next;
} model_errors;

enum { TERM_CHUNK, TERM_TOKEN, TERM_DEPTH }; /* of prefill, microseconds: a chunk; a token; a token's position */
enum { TERM_KV = MODEL_REGIMES };            /* of decode; the others: a step with 2^i rows at depth 0, 0: not known */

typedef struct {
    double decode[DECODE_TERMS], decode_variance[DECODE_TERMS][DECODE_TERMS];
    double prefill[PREFILL_TERMS], prefill_variance[PREFILL_TERMS][PREFILL_TERMS];
    double row_us;                 /* what a decode row adds to a fused step; 0: not known */
    double overrun_us;             /* how late a prefill with a deadline comes back: mostly not later than this */
    int32_t outliers[MODEL_KINDS]; /* in a row; > 0: too slow, < 0: too fast */
    uint64_t observations[MODEL_KINDS];
    model_errors errors[MODEL_KINDS];
} step_model;

void step_model_init(step_model *m); /* no opinion: every prediction is 0 until its kind was observed */
bool step_model_knows(const step_model *m, model_kind kind);

/* `kv_tokens`: sum over the rows of the tokens that each one's attention reads. */
double step_model_decode_us(const step_model *m, uint32_t rows, uint64_t kv_tokens);
/* `count` tokens from `position` on, in one chunk, without a stop. */
double step_model_prefill_us(const step_model *m, uint32_t position, uint32_t count);
double step_model_fused_us(const step_model *m, uint32_t rows, uint64_t kv_tokens, uint32_t position, uint32_t count);
/* How many tokens from `position` on take at most `us`; UINT32_MAX without an opinion. */
uint32_t step_model_prefill_tokens(const step_model *m, uint32_t position, double us);
double step_model_overrun_us(const step_model *m);

/* Each returns what the model would have said before it learned from this. */
double step_model_saw_decode(step_model *m, uint32_t rows, uint64_t kv_tokens, double us);
/* A run over the part [from, to) of a chunk, 0 <= from < to <= 1, by the work in it. */
double step_model_saw_prefill(step_model *m, uint32_t position, uint32_t count, double from, double to, double us);
double step_model_saw_fused(step_model *m, uint32_t rows, uint64_t kv_tokens, uint32_t position, uint32_t count,
                            double us);
/* The terms of prefill as a measurement gave them; what comes still moves them. */
void step_model_set_prefill(step_model *m, double chunk_us, double token_us, double depth_us);
void step_model_saw_overrun(step_model *m, double us); /* from the deadline to the return */

typedef struct {
    double median_abs; /* of |measured / predicted - 1| over the window */
    double under_p95;  /* 95th percentile of measured / predicted - 1, >= 0: how much longer than said */
    uint32_t count;
} model_error_summary;
model_error_summary step_model_error(const step_model *m, model_kind kind);
double step_model_under(const step_model *m, model_kind kind); /* its under_p95 alone */

#endif
