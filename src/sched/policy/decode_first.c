/* sched/policy/decode_first.c: prompts wait until no stream decodes. The other extreme, for the curves: the best
 * cadence there is, and prompts that may never be read. */
#include "sched/policy.h"

static policy_choice choose(const policy_view *view)
{
    if (view->decoding > 0)
        return (policy_choice){.kind = STEP_DECODE};
    if (view->prefill_tokens > 0)
        return (policy_choice){.kind = STEP_PREFILL, .chunk_tokens = view->chunk_tokens};
    return (policy_choice){.kind = STEP_IDLE};
}

extern const sched_policy policy_decode_first;
const sched_policy policy_decode_first = {"decode-first", true, choose};
