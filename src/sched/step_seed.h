/* sched/step_seed.h: how long do steps take here, before any has been served? A short measurement through the runner's
 * own contract, before a scheduler exists: some decode steps (one row and many, shallow and deep) and a piece of
 * prefill. Takes about SEED_MS, where a step is slow SEED_STEPS of them, SEED_MS_MAX at most; slots and pages are free
 * again afterwards. What the pages hold does not matter: time does not depend on it. Owner: whoever starts an engine;
 * no thread runs on the runner yet. */
#ifndef HEADWAY_SCHED_STEP_SEED_H
#define HEADWAY_SCHED_STEP_SEED_H

#include "sched/runner.h"
#include "sched/step_model.h"

enum { SEED_MS = 150, SEED_STEPS = 12, SEED_MS_MAX = 1500 };

void step_model_seed(step_model *m, runner *r, hw_clock *clock); /* on failure m keeps what it has */

#endif
