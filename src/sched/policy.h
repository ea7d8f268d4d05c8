/* sched/policy.h: decode, prefill, or both now? A policy is a pure function of what the scheduler shows it, so it is
 * tested with numbers alone. A new policy is one file in sched/policy/ and one line in the table of sched/policy.c. */
#ifndef HEADWAY_SCHED_POLICY_H
#define HEADWAY_SCHED_POLICY_H

#include "sched/step_plan.h"

typedef struct {
    uint64_t now_us;
    uint32_t decoding;       /* streams that can take a decode step now */
    uint32_t prefill_tokens; /* the prompt to go on with: tokens left of it; 0: no prompt waits for a chunk */
    bool chunk_open;         /* its last chunk was interrupted: a prefill would go on with that one, as it is */
    bool chunk_since_decode; /* a chunk has ended since the last decode step */
    uint32_t max_rows;       /* of a decode step */
    uint32_t chunk_tokens;   /* the token budget of a chunk */
} policy_view;

typedef struct {
    step_kind kind;        /* STEP_FUSED only without chunk_open */
    uint32_t chunk_tokens; /* of a new chunk, at most; >= 1 when a chunk is wanted */
    uint64_t deadline_us;  /* 0: run the chunk to its end */
} policy_choice;

typedef struct {
    const char *name;
    policy_choice (*choose)(const policy_view *view);
} sched_policy;

const sched_policy *policy_find(const char *name); /* NULL: there is none of that name */
const char *policy_names(void);                    /* "prefill-first, chunked", for messages */

#endif
