/* sched/settings.c: see the header. */
#include "sched/settings.h"

#include <math.h>

static const double share_default = 0.25, auto_steps = 4, document_bounds = 4;
static const uint32_t document_least = 64; /* tokens: a question is no document on the slowest box */
static const uint64_t auto_floor_us = 50000, window_default_us = 250000;

uint64_t schedule_smallest_gap_us(const step_model *model)
{
    double step_us = step_model_decode_us(model, 1, 0);
    if (step_us <= 0)
        return 1;
    /* A step, a prefill run that comes back late, and as much again of the step for what both may be wrong by. */
    return (uint64_t)ceil((2 * step_us + step_model_overrun_us(model)) / 1000) * 1000;
}

uint32_t schedule_document_tokens(const schedule_settings *settings, const step_model *model, uint64_t gap_us)
{
    if (settings->document_tokens)
        return settings->document_tokens;
    uint32_t tokens = step_model_prefill_tokens(model, 0, document_bounds * (double)gap_us);
    return tokens < document_least ? document_least : tokens;
}

uint32_t schedule_turn_tokens(const schedule_settings *settings, uint32_t document_tokens)
{
    const uint32_t turn = 4; /* somebody who asks on waits a second, not until all documents are read */
    return settings->document_tokens || document_tokens > UINT32_MAX / turn ? document_tokens : turn * document_tokens;
}

static status check_gap(const schedule_settings *settings, const step_model *model, error *err)
{
    uint64_t least_us = schedule_smallest_gap_us(model);
    if (settings->gap_us >= least_us)
        return OK;
    return error_set(
        err, ERR_LIMIT,
        "a gap bound of %.3g ms cannot be kept here: a decode step takes %.3g ms and a prefill stops within "
        "%.3g ms; the smallest bound is %.3g ms",
        (double)settings->gap_us / 1e3, step_model_decode_us(model, 1, 0) / 1e3, step_model_overrun_us(model) / 1e3,
        (double)least_us / 1e3);
}

status schedule_settings_resolve(schedule_settings *settings, const step_model *model, uint32_t rows, error *err)
{
    if (settings->chat_share_set && !(settings->chat_share >= 0 && settings->chat_share <= 0.9))
        return error_set(err, ERR_INVALID, "chat share %g: want 0 to 0.9", settings->chat_share);
    if (!settings->chat_share_set)
        settings->chat_share = share_default;
    if (settings->window_us == 0)
        settings->window_us = window_default_us;
    if (settings->gap_us > 0)
        return check_gap(settings, model, err);
    double steps_us = auto_steps * step_model_decode_us(model, rows, 0);
    settings->gap_us = steps_us > (double)auto_floor_us ? (uint64_t)ceil(steps_us / 1000) * 1000 : auto_floor_us;
    return OK;
}
