/* load/tune_sweep.h: which points are measured, how long may a document be so that all fit the time, and which are
 * measured again? Main thread. */
#ifndef HEADWAY_LOAD_TUNE_SWEEP_H
#define HEADWAY_LOAD_TUNE_SWEEP_H

#include "load/tune_run.h"
#include "load/tune_steps.h"

typedef struct {
    runner *runner;
    hw_clock *clock;
    uint64_t gap_us; /* the operator's bound; 0: auto */
    double chat_share;
    bool quick;
    uint64_t end_us; /* of the clock: when all should be over */
    tune_teller teller;
} tune_sweep;

/* Needs report->costs; fills the rest of the numbers and the points. ERR_LIMIT: the bound cannot be kept here,
 * err->text names the smallest that can; ERR_IO: a run failed. */
status tune_sweep_run(const tune_sweep *sweep, tune_report *report, error *err);

/* The points that will be measured, for a document of so many tokens. */
void tune_plan_points(tune_report *r, uint32_t chunk_max);
/* Predicted microseconds of all of them. */
double tune_predict_us(const tune_report *r, uint32_t document_tokens);

#endif
