/* sched/policy/gate.c: the case study's fix. One document is read at a time (the scheduler's lanes see to that), and
 * after each of its chunks a window stays open in which streams decode at full speed; so the worst gap is one chunk,
 * however many documents wait. Short prompts do not wait for the window, but never come twice without a decode step. */
#include "sched/policy.h"

static policy_choice choose(const policy_view *view)
{
    if (view->decoding > 0) {
        policy_choice decode = {.kind = STEP_DECODE, .batch_us = 1e12};
        bool window = view->chunk_ended_us && view->now_us < view->chunk_ended_us + view->window_us;
        if (view->prefill_tokens == 0 ||
            (!view->chunk_open && (view->chunk_since_decode || (view->document && window))))
            return decode;
    }
    if (view->prefill_tokens > 0)
        return (policy_choice){.kind = STEP_PREFILL, .chunk_tokens = view->chunk_tokens};
    return (policy_choice){.kind = STEP_IDLE};
}

extern const sched_policy policy_gate;
const sched_policy policy_gate = {"gate", false, choose};
