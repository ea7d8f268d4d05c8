/* sched/policy.h: decode, prefill, or both now? A policy is a pure function of what the scheduler shows it, so it is
 * tested with numbers alone. A new policy is one file in sched/policy/ and one line in the table of sched/policy.c. */
#ifndef HEADWAY_SCHED_POLICY_H
#define HEADWAY_SCHED_POLICY_H

#include "sched/step_plan.h"

typedef struct {
    uint64_t now_us;
    uint32_t decoding;        /* streams that can take a decode step now */
    uint32_t interactive;     /* of them, those with a deadline; the others are batch */
    uint32_t prefill_tokens;  /* the prompt to go on with: tokens left of it; 0: no prompt waits for a chunk */
    bool document;            /* it is document-scale */
    bool chunk_open;          /* its last chunk was interrupted: a prefill would go on with that one, as it is */
    bool chunk_since_decode;  /* a chunk has ended since the last decode step */
    uint64_t chunk_ended_us;  /* when a document's chunk last ended; 0: never */
    uint32_t max_rows;        /* of a decode step */
    uint32_t chunk_tokens;    /* the token budget of a chunk */
    uint64_t window_us;       /* of decode between two chunks of a document */
    uint64_t deadline_us;     /* the earliest of the interactive streams: last token + bound */
    double gap_us;            /* the bound of that stream */
    bool after_decode;        /* the last step was a decode step */
    double decode_us;         /* predicted: a step of all interactive streams; 0: no opinion */
    double margin_us;         /* what predictions, overrun and delivery may be wrong by */
    double overrun_us;        /* how late a prefill with a deadline comes back */
    double rest_us, fused_us; /* predicted: the prompt's rest alone, and fused with all rows; 0: no opinion */
    double chat_share;        /* least part of the device time for interactive decode while other work waits */
    double chat_owed_us;      /* time that interactive decode has had too little by that share; < 0: too much */
    double prefill_owed_us;   /* the same of prefill, by the floor under which it never falls */
    double batch_owed_us;     /* the same of batch decode, by its part of what is not interactive decode */
    uint32_t solo_steps;      /* decode steps since batch rows were in one */
} policy_view;

typedef struct {
    step_kind kind;        /* STEP_FUSED only without chunk_open */
    uint32_t chunk_tokens; /* of a new chunk, at most; >= 1 when a chunk is wanted */
    uint64_t deadline_us;  /* 0: run the chunk to its end */
    double batch_us;       /* decode: batch rows may join while the predicted step stays within this; 0: none may.
                              Without interactive streams all join. */
} policy_choice;

typedef struct {
    const char *name;
    bool in_order; /* one queue, one prompt at a time, all streams alike; else lanes, classes, tenants count */
    policy_choice (*choose)(const policy_view *view);
} sched_policy;

enum { SOLO_STEPS_MIN = 2 }; /* decode steps without batch rows between two with them */

const sched_policy *policy_find(const char *name); /* NULL: there is none of that name */
const char *policy_names(void);                    /* "prefill-first, ...", for messages */

#endif
