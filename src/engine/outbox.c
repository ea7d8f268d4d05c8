/* engine/outbox.c: a list of the jobs that have something, in the order in which they got it. */
#include "engine/outbox.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct outbox {
    pthread_mutex_t lock;
    job *first, *last; /* jobs with something to take */
    bool was_empty;    /* at begin */
};

status outbox_create(outbox **out, error *err)
{
    outbox *box = calloc(1, sizeof *box);
    if (!box)
        return error_set(err, ERR_MEMORY, "outbox: out of memory");
    pthread_mutex_init(&box->lock, NULL);
    *out = box;
    return OK;
}

void outbox_destroy(outbox *box)
{
    if (!box)
        return;
    pthread_mutex_destroy(&box->lock);
    free(box);
}

/* ---- producer ---- */

void outbox_begin(outbox *box)
{
    pthread_mutex_lock(&box->lock);
    box->was_empty = box->first == NULL;
}

bool outbox_commit(outbox *box)
{
    bool filled = box->was_empty && box->first;
    pthread_mutex_unlock(&box->lock);
    return filled;
}

static void list_job(outbox *box, job *j)
{
    if (j->delivery.listed)
        return;
    j->delivery.listed = true;
    j->delivery.next = NULL;
    *(box->first ? &box->last->delivery.next : &box->first) = j;
    box->last = j;
}

bool outbox_put_token(outbox *box, job *j, const sampled_token *token, uint64_t now_us)
{
    assert(j->delivery.count < j->delivery.capacity && !j->delivery.finished);
    uint32_t at = (j->delivery.first + j->delivery.count++) % j->delivery.capacity;
    j->delivery.cached = j->sequence.cache.cached;
    j->delivery.tokens[at] = (waiting_token){token->token, token->logprob, now_us};
    if (j->delivery.tops) {
        waiting_tops *tops = &j->delivery.tops[at];
        tops->count = token->top_count < LOGPROBS_MAX ? token->top_count : LOGPROBS_MAX;
        memcpy(tops->tokens, token->top_tokens, tops->count * sizeof tops->tokens[0]);
        memcpy(tops->logprobs, token->top_logprobs, tops->count * sizeof tops->logprobs[0]);
    }
    list_job(box, j);
    return j->delivery.count < j->delivery.capacity;
}

void outbox_put_progress(outbox *box, job *j, const engine_event *event)
{
    j->delivery.progress = true;
    j->delivery.progress_event = *event;
    list_job(box, j);
}

void outbox_put_finish(outbox *box, job *j, const engine_event *event, bool drop_tokens)
{
    assert(!j->delivery.finished);
    j->delivery.finished = true;
    j->delivery.finish_event = *event;
    if (drop_tokens) {
        j->delivery.count = 0;
        j->delivery.progress = false;
    }
    list_job(box, j);
}

bool outbox_has_room(outbox *box, const job *j)
{
    (void)box;
    return j->delivery.count <= j->delivery.capacity / 2;
}

/* ---- consumer ---- */

static void take_token(job *j, engine_event *event)
{
    uint32_t at = j->delivery.first;
    const waiting_token *token = &j->delivery.tokens[at];
    event->kind = EVENT_TOKEN;
    event->request_id = j->request->id;
    event->context = j->request->context;
    event->cached = j->delivery.cached;
    event->token.token = token->token;
    event->token.logprob = token->logprob;
    event->token.top_count = 0;
    event->token.seq = 0;
    event->time_us = token->time_us;
    if (j->delivery.tops) {
        const waiting_tops *tops = &j->delivery.tops[at];
        event->token.top_count = tops->count;
        memcpy(event->token.top_tokens, tops->tokens, tops->count * sizeof tops->tokens[0]);
        memcpy(event->token.top_logprobs, tops->logprobs, tops->count * sizeof tops->logprobs[0]);
    }
    j->delivery.first = (at + 1) % j->delivery.capacity;
    j->delivery.count--;
}

static bool has_more(const job *j)
{
    return j->delivery.progress || j->delivery.count > 0 || j->delivery.finished;
}

static void take_one(job *j, engine_event *event, bool *room)
{
    if (j->delivery.progress) {
        *event = j->delivery.progress_event;
        j->delivery.progress = false;
    } else if (j->delivery.count > 0) {
        take_token(j, event);
        *room |= j->delivery.count == j->delivery.capacity / 2;
    } else {
        *event = j->delivery.finish_event;
    }
}

size_t outbox_take(outbox *box, engine_event *events, size_t max, job **done, bool *room)
{
    *done = NULL;
    *room = false;
    size_t count = 0;
    pthread_mutex_lock(&box->lock);
    while (count < max && box->first) {
        job *j = box->first;
        take_one(j, &events[count], room);
        bool ended = events[count++].kind == EVENT_FINISHED;
        if (!ended && has_more(j))
            continue;
        box->first = j->delivery.next;
        j->delivery.listed = false;
        if (ended) {
            j->delivery.next = *done;
            *done = j;
        }
    }
    pthread_mutex_unlock(&box->lock);
    return count;
}
