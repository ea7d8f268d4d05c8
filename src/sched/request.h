/* sched/request.h: what is one generation asked to be? Ids, counts and numbers only: no text. A request is built by the
 * submitting thread, handed over by engine_submit and owned by the engine until its FINISHED event. */
#ifndef HEADWAY_SCHED_REQUEST_H
#define HEADWAY_SCHED_REQUEST_H

#include "base/token_constraint.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct {
    int32_t token;
    float bias; /* -INFINITY bans */
} logit_bias;

typedef struct {
    float temperature;                         /* 0: greedy, exactly argmax (ties: lowest id) */
    uint32_t top_k;                            /* 0: off */
    float top_p;                               /* 1: off */
    float min_p;                               /* 0: off */
    float typical_p;                           /* 1: off */
    float repetition_penalty;                  /* 1: off; over prompt and generated tokens */
    float presence_penalty, frequency_penalty; /* 0: off; over generated tokens */
    uint64_t seed;                             /* the random number of the n-th token depends on seed and n only */
    token_constraint *constraint;              /* what may come next; owned by the request; NULL: anything */
    const logit_bias *biases;                  /* owned by the request */
    uint32_t bias_count;
    uint32_t logprobs; /* 0: none; else 1 + number of top alternatives wanted (max LOGPROBS_MAX) */
} sampling_params;

enum { LOGPROBS_MAX = 21, TURN_MARKS_MAX = 6 };

typedef enum { CLASS_INTERACTIVE, CLASS_BATCH } request_class;

typedef struct {
    uint64_t id;                /* unique, set by the submitter */
    int32_t *prompt;            /* owned: freed with free() */
    uint32_t prompt_count;      /* >= 1 */
    uint32_t max_tokens;        /* generated tokens at most, >= 1 */
    const int32_t *stop_tokens; /* borrowed from the model; empty with ignore_eos */
    uint32_t stop_token_count;
    sampling_params sampling;
    request_class klass;
    uint32_t tenant;         /* index in the tenant table */
    uint64_t gap_us;         /* bound between two tokens of an interactive stream; 0: its tenant's, else the server's */
    uint64_t first_token_us; /* bound on the time to first token; 0: its tenant's, else none */
    uint32_t shared_tokens;  /* leading tokens that other requests probably share (system prompt, tools); 0: unknown */
    uint32_t
        turn_marks[TURN_MARKS_MAX]; /* tokens before its last turns, rising: where an edited conversation may part */
    uint32_t turn_mark_count;
    uint64_t cache_salt;  /* requests with other salts share no prefix; 0: none */
    bool no_cache;        /* neither reads nor leaves anything in the prefix cache */
    bool keep;            /* the client says that it will come back to this prefix (a conversation) */
    bool want_progress;   /* PROGRESS events while prefilling */
    uint64_t received_us; /* when the submitter had all of it, on the engine's clock; 0: not told. For the trace */
    void *context;        /* the submitter's; returned in events */
} request;

static inline void request_free(request *r) /* NULL is allowed */
{
    if (!r)
        return;
    if (r->sampling.constraint)
        r->sampling.constraint->ops->destroy(r->sampling.constraint);
    free(r->prompt);
    free((void *)r->sampling.biases);
    free(r);
}

typedef enum { FINISH_STOP, FINISH_LENGTH, FINISH_CANCELLED, FINISH_ERROR } finish_reason;

#endif
