/* sched/step_model.h: how long will this step take? Fitted online from the steps that were run: per step kind, rows,
 * depth and position in the chunk. Pure numbers: no clock, no threads; a copy of the struct is a valid model, so that a
 * snapshot can publish it and others predict from it. Owner: whoever holds the struct.
 *
 *   decode  step = base(rows) + per_kv * (tokens of KV read by all rows)
 *   prefill chunk = sum over its tokens of (per_token + per_depth * position)
 *   fused   step = max(decode, ...) is learned as prefill of chunk + rows tokens, plus what rows cost beyond that
 * base(rows) is kept per regime of rows (1, 2, 3-4, 5-8, ...) because each doubling may run on another kernel. Every
 * observation moves a parameter by a small part of its error, and one that is off by more than a factor of two only
 * when others agree: a noisy neighbour does not bend the model, a lasting change does within some 30 steps. */
#ifndef HEADWAY_SCHED_STEP_MODEL_H
#define HEADWAY_SCHED_STEP_MODEL_H

#include <stdbool.h>
#include <stdint.h>

enum { MODEL_REGIMES = 12, MODEL_ERRORS = 256 };
typedef enum { MODEL_DECODE, MODEL_PREFILL, MODEL_FUSED, MODEL_KINDS } model_kind;

typedef struct { /* a window of the newest errors of one kind: (measured - predicted) / predicted */
    float ratios[MODEL_ERRORS];
    uint32_t count, next;
} model_errors;

typedef struct {
    double base_us[MODEL_REGIMES];     /* a decode step with 2^i rows at depth 0; 0: not known yet */
    double per_kv_us;                  /* of a decode step, for each token of KV read */
    double per_token_us, per_depth_us; /* of prefill: a token at position 0; what each position of depth adds to it */
    double overrun_us;                 /* how late a prefill that was given a deadline stopped: mostly at most this */
    double row_us;                     /* what a decode row adds to a fused step beyond a chunk token's cost */
    double overrun_max_us;
    uint32_t outliers[MODEL_KINDS]; /* in a row, of one sign */
    uint64_t observations[MODEL_KINDS];
    model_errors errors[MODEL_KINDS];
} step_model;

void step_model_init(step_model *m); /* no opinion: every prediction is 0 until something was observed */

/* `kv_tokens`: sum over the rows of the tokens that each one's attention reads. */
double step_model_decode_us(const step_model *m, uint32_t rows, uint64_t kv_tokens);
/* `count` tokens from `position` on, as one prompt, in chunks of any size; without stopping for anything. */
double step_model_prefill_us(const step_model *m, uint32_t position, uint32_t count);
double step_model_fused_us(const step_model *m, uint32_t rows, uint64_t kv_tokens, uint32_t position, uint32_t count);
/* How many tokens from `position` on can be prefilled in `us`; 0 when not even one, UINT32_MAX without an opinion. */
uint32_t step_model_prefill_tokens(const step_model *m, uint32_t position, double us);
/* After the deadline of a prefill this long may pass before the runner comes back. */
double step_model_overrun_us(const step_model *m);

void step_model_saw_decode(step_model *m, uint32_t rows, uint64_t kv_tokens, double us);
/* A run over the part [from, to) of a chunk, 0 <= from < to <= 1, by the work in it. */
void step_model_saw_prefill(step_model *m, uint32_t position, uint32_t count, double from, double to, double us);
void step_model_saw_fused(step_model *m, uint32_t rows, uint64_t kv_tokens, uint32_t position, uint32_t count,
                          double us);
void step_model_saw_overrun(step_model *m, double us); /* time between deadline and return */

typedef struct {
    double median_abs; /* of |error ratio| over the window */
    double under_p95;  /* 95th percentile of how much longer a step took than predicted, as a ratio; >= 0 */
    uint32_t count;
} model_error_summary;
model_error_summary step_model_error(const step_model *m, model_kind kind);

#endif
