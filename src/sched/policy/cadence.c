/* sched/policy/cadence.c: deadlines in milliseconds. Every interactive stream has one: its last token + its bound. A
 * decode step runs when the earliest of them, less the time of the step and a margin, is due, or when interactive
 * decode has had less than its share of the device; all other time goes to other work: a prompt's chunk, which stops in
 * time wherever it is, or a decode step that batch rows join. Chunks keep their full size: time cuts them, not tokens.
 */
#include "sched/policy.h"

#include <math.h>

static const double run_min_us = 500; /* below this a prefill run is not worth its start and stop */

static policy_choice decode(double batch_us)
{
    return (policy_choice){.kind = STEP_DECODE, .batch_us = batch_us};
}

static policy_choice prefill(const policy_view *view, uint64_t deadline_us)
{
    return (policy_choice){.kind = STEP_PREFILL, .chunk_tokens = view->chunk_tokens, .deadline_us = deadline_us};
}

/* Nobody waits for a token: chunks run to their ends, batch streams decode between them for their part of the time. */
static policy_choice without_streams(const policy_view *view)
{
    uint32_t batch = view->decoding;
    if (view->prefill_tokens > 0 && (view->chunk_open || batch == 0 || view->batch_owed_us <= 0))
        return prefill(view, 0);
    return batch > 0 ? decode(INFINITY) : (policy_choice){.kind = STEP_IDLE};
}

/* Interactive decode and other work take turns that are long enough for caches to stay warm: other work until decode is
 * owed this much by its share, then decode until it has had as much too much. A turn of other work is a third of the
 * bound, or what balances one step where steps are long. */
static double turn_debt_us(const policy_view *view)
{
    double by_bound = view->chat_share * view->gap_us / 6, by_step = (1 - view->chat_share) * view->decode_us / 2;
    return by_bound > by_step ? by_bound : by_step;
}

/* How long other work may go on before interactive decode has had too little by its share. */
static double until_share_us(const policy_view *view)
{
    if (view->chat_share <= 0)
        return INFINITY;
    double debt_us = turn_debt_us(view);
    if (view->after_decode && view->chat_owed_us > -debt_us)
        return 0;
    return (debt_us - view->chat_owed_us) / view->chat_share;
}

static policy_choice choose(const policy_view *view)
{
    if (view->interactive == 0)
        return without_streams(view);
    bool batch = view->decoding > view->interactive && view->solo_steps >= SOLO_STEPS_MIN;
    bool prompt = view->prefill_tokens > 0;
    if (!batch && !prompt)
        return decode(0);
    double slack_us = (double)view->deadline_us - (double)view->now_us - view->margin_us;
    double room_us = slack_us - view->decode_us - view->overrun_us, share_us = until_share_us(view);
    if (prompt && view->prefill_owed_us > 0) { /* even if a deadline breaks: nobody starves */
        double least_us = view->decode_us > run_min_us ? view->decode_us : run_min_us;
        room_us = room_us > least_us ? room_us : least_us;
        share_us = room_us;
    }
    if (room_us < run_min_us || share_us < run_min_us)
        return decode(0);
    if (batch && (!prompt || view->batch_owed_us > 0))
        return decode(slack_us);
    if (!prompt)
        return decode(0);
    bool cheaper = view->fused_us > 0 && view->fused_us < view->decode_us + view->rest_us;
    if (!view->chunk_open && cheaper && view->fused_us < slack_us && view->prefill_tokens <= view->chunk_tokens)
        return (policy_choice){.kind = STEP_FUSED, .chunk_tokens = view->prefill_tokens};
    double run_us = room_us < share_us ? room_us : share_us;
    return prefill(view, view->now_us + (uint64_t)run_us);
}

extern const sched_policy policy_cadence;
const sched_policy policy_cadence = {"cadence", false, choose};
