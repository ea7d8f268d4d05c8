/* sched/admission.h: can this request be kept to what it wants? A pure function of a published view, so that it is
 * decided off the engine thread and tested with numbers alone. What cannot be kept is refused with a reason that a
 * program can read; what is accepted is kept. Any thread. */
#ifndef HEADWAY_SCHED_ADMISSION_H
#define HEADWAY_SCHED_ADMISSION_H

#include "sched/step_model.h"
#include "sched/tenant.h"

typedef struct { /* published by the engine after each step; the step model's numbers that matter here */
    uint32_t waiting, waiting_max;
    uint32_t streams;            /* interactive streams that decode or are about to */
    uint32_t slots_free;         /* whoever holds the others */
    double backlog_short_us;     /* predicted prefill that comes before a new short prompt */
    double backlog_turns_us;     /* before a new turn that is long (schedule_turn_tokens) */
    double backlog_documents_us; /* and before a new document, with it all included */
    double decode_us;            /* a decode step with all interactive streams and one more, at mean depth */
    double smallest_gap_us;      /* what the box can keep for a single stream */
    double chunk_us, prefill_token_us, prefill_depth_us; /* as in step_model */
    double prefill_share;                                /* part of the device time that prefill gets now, 0 to 1 */
    uint32_t document_tokens, turn_tokens;
    bool draining, failed;
} admission_view;

typedef struct {
    uint32_t tenant;
    request_class klass;
    uint32_t prompt_tokens; /* 0: not known yet */
    uint32_t max_tokens;
    bool conversation;       /* it continues one: most of it is probably cached (request.keep) */
    uint32_t copies;         /* sequences that it makes (choices x prompts); 0 counts as 1 */
    uint64_t gap_us;         /* asked for by the request itself; 0: none */
    uint64_t first_token_us; /* the same */
} admission_ask;

typedef enum {
    ADMIT_OK,
    ADMIT_QUEUE_FULL,    /* 429 "queue_full": the server's queue */
    ADMIT_TENANT_QUEUE,  /* 429 "tenant_queue_full" */
    ADMIT_TENANT_TOKENS, /* 429 "tenant_tokens_in_flight" */
    ADMIT_FIRST_TOKEN,   /* 429 "first_token_bound": the first token would come later than its bound */
    ADMIT_GAP,           /* 400 "gap_bound_impossible": no load at all would allow it; smallest_gap_us says what does */
    ADMIT_GAP_LOAD,      /* 429 "gap_bound_load": not beside the streams that run now */
    ADMIT_DRAINING,      /* 503 "draining" */
    ADMIT_FAILED,        /* 503 "engine_failed" */
    ADMIT_TENANT_REMOVED, /* 403 "tenant_removed" */
} admission_verdict;

typedef struct {
    admission_verdict verdict;
    int status;             /* HTTP: 200, 400, 403, 429, 503 */
    const char *reason;     /* the word in quotes above; static; NULL with ADMIT_OK */
    uint32_t retry_after_s; /* >= 1 with 429 and 503 */
    double predicted_first_token_us, smallest_gap_us;
    bool document;     /* it is document-scale */
    char message[200]; /* for people */
} admission_answer;

admission_answer admission_decide(const admission_view *view, const tenant *who, const tenant_counts *counts,
                                  const admission_ask *ask);

#endif
