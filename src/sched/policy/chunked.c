/* sched/policy/chunked.c: one token budget per step. Decode rows come first, a chunk gets what is left, and both go
 * through the layers together. At least one part in eight of the budget is the chunk's, so that a full batch of streams
 * cannot starve prompts. */
#include "sched/policy.h"

enum { CHUNK_SHARE = 8 };

static policy_choice choose(const policy_view *view)
{
    if (view->prefill_tokens == 0)
        return (policy_choice){.kind = view->decoding > 0 ? STEP_DECODE : STEP_IDLE};
    if (view->chunk_open || view->decoding == 0)
        return (policy_choice){.kind = STEP_PREFILL, .chunk_tokens = view->chunk_tokens};
    uint32_t rows = view->decoding < view->max_rows ? view->decoding : view->max_rows;
    uint32_t least = (view->chunk_tokens + CHUNK_SHARE - 1) / CHUNK_SHARE;
    uint32_t left = view->chunk_tokens > rows ? view->chunk_tokens - rows : 0;
    return (policy_choice){.kind = STEP_FUSED, .chunk_tokens = left > least ? left : least};
}

extern const sched_policy policy_chunked;
const sched_policy policy_chunked = {"chunked", true, choose};
