/* engine/gap_watch.c: see the header. */
#include "engine/gap_watch.h"

static const uint64_t second_us = 1000000;
static const double busy_part = 0.9, healthy_part = 0.5, machine_factor = 2;

/* A second has passed. An alarm: a bound was broken while the device was busy and as much was done as usual. */
static void end_second(gap_watch *w, uint64_t now_us)
{
    bool busy = (double)w->busy_us >= busy_part * (double)second_us;
    if (busy && w->violated > 0 && (double)w->tokens >= healthy_part * w->usual_tokens)
        w->alarms++;
    if (busy)
        w->usual_tokens += (w->usual_tokens > 0 ? 0.1 : 1) * ((double)w->tokens - w->usual_tokens);
    w->second_us = now_us;
    w->busy_us = w->tokens = w->violated = 0;
}

void gap_watch_step(gap_watch *w, const watched_step *step, uint64_t tokens)
{
    w->steps[w->step_count++ % WATCHED_STEPS] = *step;
    if (w->second_us == 0)
        w->second_us = step->start_us;
    w->busy_us += step->end_us - step->start_us;
    w->tokens += tokens;
    if (step->end_us >= w->second_us + second_us)
        end_second(w, step->end_us);
}

static gap_cause explain(const gap_watch *w, uint64_t before_us, uint64_t now_us, uint64_t bound_us)
{
    uint64_t decode_us = 0, surplus_us = 0, late_us = 0, free_us = 0;
    for (uint64_t i = w->step_count; i > 0 && w->step_count - i < WATCHED_STEPS; i--) {
        const watched_step *s = &w->steps[(i - 1) % WATCHED_STEPS];
        if (s->end_us <= before_us)
            break;
        uint64_t us = s->end_us - s->start_us;
        if (s->predicted_us > 0 && (double)us > machine_factor * s->predicted_us)
            surplus_us += us - (uint64_t)s->predicted_us;
        if (s->kind != STEP_PREFILL)
            decode_us += us;
        else if (s->deadline_us == 0)
            free_us += us;
        else if (s->end_us > s->deadline_us)
            late_us += s->end_us - s->deadline_us;
    }
    uint64_t over_us = now_us - before_us - bound_us;
    if (surplus_us >= over_us)
        return GAP_MACHINE;
    if (free_us >= over_us)
        return GAP_POLICY;
    if (late_us >= over_us / 2)
        return GAP_PREFILL;
    return decode_us >= (now_us - before_us) / 2 ? GAP_DECODE : GAP_POLICY;
}

bool gap_watch_token(gap_watch *w, uint64_t before_us, uint64_t now_us, uint64_t bound_us, bool preempted)
{
    w->gaps++;
    if (bound_us == 0 || now_us - before_us <= bound_us)
        return false;
    w->violations[preempted ? GAP_PREEMPTION : explain(w, before_us, now_us, bound_us)]++;
    w->violated++;
    return true;
}
