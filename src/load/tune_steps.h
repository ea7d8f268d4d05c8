/* load/tune_steps.h: what do single steps cost here? Driven through the runner's contract before an engine exists.
 * Every cost is the median of repetitions with its spread. Pages 0, 1, 2 ... are given to slots in turn and free again
 * afterwards. No other thread uses the runner. */
#ifndef HEADWAY_LOAD_TUNE_STEPS_H
#define HEADWAY_LOAD_TUNE_STEPS_H

#include "load/tune.h"
#include "sched/runner.h"

typedef struct {
    void (*tell)(void *context, const char *what, double part); /* part of the steps done, 0 to 1 */
    void *context;
} tune_teller;

typedef struct {
    runner *runner;
    hw_clock *clock;
    bool quick;         /* fewer sizes and repetitions */
    uint64_t budget_us; /* what would take longer is left out: large chunks, deep positions */
    tune_teller teller;
} tune_stepping;

/* Fills chunks, positions, rows, depths and weight_bytes of `out`. ERR_LIMIT: a context too short to measure anything.
 */
status tune_measure_steps(const tune_stepping *stepping, tune_costs *out, error *err);
/* One chunk of so many random tokens at position 0: for counting what it does. */
status tune_run_chunk(runner *r, hw_clock *clock, uint32_t tokens, error *err);

/* Microseconds that a prompt of so many tokens takes alone in chunks of the largest size measured. */
double tune_prompt_us(const tune_costs *costs, uint32_t tokens);

#endif
