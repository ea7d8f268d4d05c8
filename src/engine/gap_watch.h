/* engine/gap_watch.h: which gaps were over their bound, why, and would anybody notice? Remembers the newest steps, so
 * that a gap can be explained by what filled it; and watches, second by second, for gaps that hide behind a busy device
 * and a healthy throughput. Numbers only; time comes in. Owner: the engine; engine thread only. */
#ifndef HEADWAY_ENGINE_GAP_WATCH_H
#define HEADWAY_ENGINE_GAP_WATCH_H

#include "engine/engine.h"

enum { WATCHED_STEPS = 128 };

typedef struct {
    uint64_t start_us, end_us, deadline_us; /* of the step; 0: none */
    double predicted_us;
    step_kind kind;
} watched_step;

typedef struct {
    watched_step steps[WATCHED_STEPS];
    uint64_t step_count;
    uint64_t second_us, busy_us, tokens, violated; /* of the second that began at second_us */
    double usual_tokens;                           /* of a busy second */
    uint64_t gaps, violations[GAP_CAUSES], alarms;
} gap_watch;

/* `tokens`: read and written by the step. */
void gap_watch_step(gap_watch *w, const watched_step *step, uint64_t tokens);
/* A token at `now_us`, the one before at `before_us`. true: over the bound (0: none). */
bool gap_watch_token(gap_watch *w, uint64_t before_us, uint64_t now_us, uint64_t bound_us, bool preempted);

#endif
