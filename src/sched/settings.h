/* sched/settings.h: what may an operator set about the schedule? Numbers of the command line or the config file; what
 * is left at zero is chosen for this box when the scheduler starts (schedule_settings_resolve). */
#ifndef HEADWAY_SCHED_SETTINGS_H
#define HEADWAY_SCHED_SETTINGS_H

#include "base/error.h"
#include "sched/step_model.h"

typedef struct {
    uint64_t gap_us;          /* bound between two tokens; 0: auto = max(50 ms, 4 decode steps) */
    double chat_share;        /* least part of the device time for interactive decode while prompts wait, 0 to 1 */
    bool chat_share_set;      /* false: 0.25 */
    uint64_t window_us;       /* policy gate: of decode between two chunks; 0: 250 ms */
    uint32_t document_tokens; /* prompts longer than this are documents; 0: those whose prefill takes over 4 bounds */
    uint32_t chunk_tokens;    /* budget of a chunk; 0: the runner's max */
} schedule_settings;

/* Fills what is zero from `model` (seeded); ERR_LIMIT: an explicit gap_us is shorter than this box can keep, the text
 * names the smallest that it can. `rows`: streams that may decode at once. */
status schedule_settings_resolve(schedule_settings *settings, const step_model *model, uint32_t rows, error *err);
/* Prompts with more tokens to read than this are documents, for a stream bound of `gap_us`. */
uint32_t schedule_document_tokens(const schedule_settings *settings, const step_model *model, uint64_t gap_us);
/* A turn of which at least half is cached is no document up to so many tokens to read: documents do not stand in its
 * way, and it does not stand in that of short prompts. */
uint32_t schedule_turn_tokens(const schedule_settings *settings, uint32_t document_tokens);
uint64_t schedule_smallest_gap_us(const step_model *model); /* that one stream can be promised */

#endif
