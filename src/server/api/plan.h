/* server/api/plan.h: what a request asks to be generated, whatever dialect it came in. Filled by a worker thread from
 * the JSON body, used by the loop thread to make engine requests. The exchange owns it. */
#ifndef HEADWAY_SERVER_API_PLAN_H
#define HEADWAY_SERVER_API_PLAN_H

#include <jansson.h>

#include "sched/request.h"
#include "server/stop_match.h"
#include "server/terms.h"
#include "text/grammar/grammar.h"
#include "text/tokenizer.h"

enum { THOUGHT_UNLIMITED = UINT32_MAX };
enum { CHOICES_MAX = 64, PROMPTS_MAX = 256, GENERATIONS_MAX = 1024 };

typedef struct {
    token_list *prompts; /* owned, prompt_count of them */
    uint32_t prompt_count;
    uint32_t choices;    /* per prompt */
    uint32_t max_tokens; /* 0: what the context leaves */
    bool stream, include_usage, continuous_usage, return_progress, timings;
    bool ignore_eos, keep_specials, include_stop, has_seed;
    bool want_logprobs;
    sampling_params sampling; /* biases owned */
    stop_set stops;
    grammar *grammar;     /* a reference: what the answer has to be; NULL: anything */
    int32_t *stop_tokens; /* owned: the request's own */
    uint32_t stop_token_count;
    service_tier tier;
    uint32_t shared_tokens;                               /* of the first prompt; see sched/request.h */
    uint32_t turn_marks[TURN_MARKS_MAX], turn_mark_count; /* the same */
    uint64_t cache_salt;
    bool no_cache, keep;
    struct {
        const char *family, *thoughts; /* as in output_parser_config; NULL: not looked for */
        bool thought_open;             /* by the prompt */
        bool thought_may_open;         /* the answer may begin with one */
        bool one_call;                 /* the first call ends the answer */
        bool must_call;                /* an answer without a call is none */
        json_t *tools;                 /* owned: what may be called */
        uint32_t thought_budget;       /* tokens; THOUGHT_UNLIMITED */
    } output;
} generation_plan;

void plan_init(generation_plan *plan); /* the defaults */
void plan_free(generation_plan *plan);

#endif
