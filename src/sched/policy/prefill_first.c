/* sched/policy/prefill_first.c: queued chunks back to back, one decode step between two chunks. The incident that the
 * other policies are compared with: every stream lives on one step per chunk for as long as a prompt waits. */
#include "sched/policy.h"

static policy_choice choose(const policy_view *view)
{
    bool prefill = view->prefill_tokens > 0;
    if (prefill && (view->chunk_open || !view->chunk_since_decode || view->decoding == 0))
        return (policy_choice){.kind = STEP_PREFILL, .chunk_tokens = view->chunk_tokens};
    return (policy_choice){.kind = view->decoding > 0 ? STEP_DECODE : STEP_IDLE};
}

extern const sched_policy policy_prefill_first;
const sched_policy policy_prefill_first = {"prefill-first", true, choose};
