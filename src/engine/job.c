/* engine/job.c: all memory of a request is taken when it is submitted, so that the step loop allocates nothing. */
#include "engine/job.h"

#include <stdlib.h>

status job_create(job **out, request *r, uint64_t now_us, error *err)
{
    job *j = calloc(1, sizeof *j);
    /* The history grows in place behind the prompt and never moves: a runner borrows it. */
    int32_t *history = realloc(r->prompt, ((size_t)r->prompt_count + r->max_tokens) * sizeof *history);
    if (history)
        r->prompt = history;
    if (!j || !history)
        goto fail;
    uint32_t capacity = r->max_tokens < JOB_TOKENS_MAX ? r->max_tokens : JOB_TOKENS_MAX;
    j->delivery.capacity = capacity;
    j->delivery.tokens = calloc(capacity, sizeof *j->delivery.tokens);
    if (r->sampling.logprobs > 1)
        j->delivery.tops = calloc(capacity, sizeof *j->delivery.tops);
    if (!j->delivery.tokens || (r->sampling.logprobs > 1 && !j->delivery.tops))
        goto fail;
    j->request = r;
    j->sequence.request = r;
    j->submitted_us = now_us;
    *out = j;
    return OK;
fail:
    job_disown(j);
    return error_set(err, ERR_MEMORY, "request %llu: no memory for %u prompt and %u new tokens",
                     (unsigned long long)r->id, r->prompt_count, r->max_tokens);
}

void job_disown(job *j)
{
    if (!j)
        return;
    free(j->delivery.tokens);
    free(j->delivery.tops);
    free(j);
}

void job_destroy(job *j)
{
    if (!j)
        return;
    request_free(j->request);
    job_disown(j);
}
