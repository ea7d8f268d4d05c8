/* engine/job.h: everything the engine keeps about one request, in one allocation made by the submitting thread.
 * Life: engine_submit -> inbox -> scheduler -> finished -> FINISHED taken -> freed by the consumer. Three parts, three
 * guards: `sequence` and `steps` belong to the engine thread, `mail` is guarded by the inbox's lock, `delivery` by the
 * outbox's. */
#ifndef HEADWAY_ENGINE_JOB_H
#define HEADWAY_ENGINE_JOB_H

#include "engine/engine.h"
#include "sched/sequence.h"

typedef struct job job;

typedef struct { /* a token that waits for the consumer */
    int32_t token;
    float logprob;
    uint64_t time_us;
} waiting_token;

typedef struct {
    uint32_t count;
    int32_t tokens[LOGPROBS_MAX];
    float logprobs[LOGPROBS_MAX];
} waiting_tops;

enum { JOB_TOKENS_MAX = 256 }; /* undelivered tokens of one request; then its stream rests until they are taken */

struct job {
    sequence sequence; /* first: a sequence* of the scheduler is a job* */
    request *request;
    uint64_t submitted_us;

    struct { /* engine thread */
        bool finished;
        uint64_t first_token_us, last_token_us;
        bool rested; /* since its last token: its client was slow */
    } steps;

    struct { /* inbox */
        job *next, *next_in_bucket;
        bool cancelled;
    } mail;

    struct { /* outbox */
        job *next;
        bool listed;           /* on the list of jobs with something to take */
        waiting_token *tokens; /* (capacity): a ring */
        waiting_tops *tops;    /* (capacity), or NULL: not asked for */
        uint32_t capacity, first, count;
        uint32_t cached; /* prompt tokens, once the first token is there */
        bool progress, finished;
        engine_event progress_event, finish_event;
    } delivery;
};

status job_create(job **out, request *r, uint64_t now_us, error *err); /* takes over `r` on OK only */
void job_destroy(job *j);                                              /* with its request; NULL is allowed */
void job_disown(job *j);                                               /* frees all but the request */

#endif
