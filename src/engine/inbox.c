/* engine/inbox.c: one lock, held for a few pointer moves. Cancellations are kept as ids and looked up when collected: a
 * job whose FINISHED was taken in between is simply not found. */
#include "engine/inbox.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

typedef struct {
    uint64_t request_id;
    finish_reason reason;
} cancel_wish;

struct inbox {
    pthread_mutex_t lock;
    pthread_cond_t filled;
    inbox_config config;
    job **buckets; /* (bucket_mask + 1) chains by id */
    uint32_t bucket_mask, live;
    job *first, *last; /* arrivals */
    uint32_t arrivals, waiting_elsewhere;
    cancel_wish *wishes;   /* (live_max) */
    cancellation *granted; /* (live_max): the consumer's */
    uint32_t wish_count;
    bool poked, draining, stop;
};

static uint32_t bucket_of(const inbox *box, uint64_t id)
{
    return (uint32_t)((id * 0x9E3779B97F4A7C15u) >> 32) & box->bucket_mask;
}

static job **find(inbox *box, uint64_t id) /* where the pointer to it lies; *result is NULL: not live */
{
    job **at = &box->buckets[bucket_of(box, id)];
    while (*at && (*at)->request->id != id)
        at = &(*at)->mail.next_in_bucket;
    return at;
}

status inbox_create(inbox **out, const inbox_config *config, error *err)
{
    uint32_t bucket_count = 1;
    while (bucket_count < config->live_max && bucket_count < 1u << 20)
        bucket_count *= 2;
    inbox *box = calloc(1, sizeof *box);
    if (!box)
        return error_set(err, ERR_MEMORY, "inbox: out of memory");
    pthread_mutex_init(&box->lock, NULL);
    pthread_cond_init(&box->filled, NULL);
    box->config = *config;
    box->bucket_mask = bucket_count - 1;
    box->buckets = calloc(bucket_count, sizeof(job *));
    box->wishes = calloc(config->live_max, sizeof *box->wishes);
    box->granted = calloc(config->live_max, sizeof *box->granted);
    if (!box->buckets || !box->wishes || !box->granted) {
        inbox_destroy(box);
        return error_set(err, ERR_MEMORY, "inbox: no memory for %u requests", config->live_max);
    }
    *out = box;
    return OK;
}

void inbox_destroy(inbox *box)
{
    if (!box)
        return;
    assert(box->live == 0);
    pthread_mutex_destroy(&box->lock);
    pthread_cond_destroy(&box->filled);
    free(box->buckets);
    free(box->wishes);
    free(box->granted);
    free(box);
}

static status check_room(const inbox *box, error *err)
{
    if (box->draining)
        return error_set(err, ERR_BUSY, "the engine is shutting down");
    uint32_t waiting = box->arrivals + box->waiting_elsewhere;
    if (waiting >= box->config.waiting_max)
        return error_set(err, ERR_BUSY, "the queue is full: %u requests wait, at most %u may", waiting,
                         box->config.waiting_max);
    if (box->live >= box->config.live_max)
        return error_set(err, ERR_BUSY, "%u requests are open, at most %u may be", box->live, box->config.live_max);
    return OK;
}

status inbox_put(inbox *box, job *j, error *err)
{
    pthread_mutex_lock(&box->lock);
    status st = check_room(box, err);
    job **at = find(box, j->request->id);
    if (!st && *at)
        st = error_set(err, ERR_INVALID, "request id %llu is in use", (unsigned long long)j->request->id);
    if (!st) {
        *at = j;
        j->mail.next = j->mail.next_in_bucket = NULL;
        *(box->first ? &box->last->mail.next : &box->first) = j;
        box->last = j;
        box->arrivals++;
        box->live++;
        pthread_cond_signal(&box->filled);
    }
    pthread_mutex_unlock(&box->lock);
    return st;
}

bool inbox_cancel(inbox *box, uint64_t request_id, finish_reason reason)
{
    pthread_mutex_lock(&box->lock);
    job *j = *find(box, request_id);
    bool fresh = j && !j->mail.cancelled && box->wish_count < box->config.live_max;
    if (fresh) {
        j->mail.cancelled = true;
        box->wishes[box->wish_count++] = (cancel_wish){request_id, reason};
        pthread_cond_signal(&box->filled);
    }
    pthread_mutex_unlock(&box->lock);
    return fresh;
}

static void raise_flag(inbox *box, bool *flag, bool drain)
{
    pthread_mutex_lock(&box->lock);
    *flag = true;
    box->draining |= drain;
    pthread_cond_signal(&box->filled);
    pthread_mutex_unlock(&box->lock);
}

void inbox_poke(inbox *box)
{
    raise_flag(box, &box->poked, false);
}

void inbox_drain(inbox *box)
{
    raise_flag(box, &box->poked, true);
}

void inbox_stop(inbox *box)
{
    raise_flag(box, &box->stop, true);
}

void inbox_forget(inbox *box, job *j)
{
    pthread_mutex_lock(&box->lock);
    job **at = find(box, j->request->id);
    assert(*at == j);
    *at = j->mail.next_in_bucket;
    box->live--;
    pthread_mutex_unlock(&box->lock);
}

inbox_batch inbox_collect(inbox *box, uint32_t waiting_elsewhere)
{
    pthread_mutex_lock(&box->lock);
    inbox_batch batch = {
        .arrivals = box->first, .cancellations = box->granted, .arrival_count = box->arrivals, .stop = box->stop};
    box->waiting_elsewhere = waiting_elsewhere + box->arrivals;
    box->first = box->last = NULL;
    box->arrivals = 0;
    for (uint32_t i = 0; i < box->wish_count; i++) {
        job *j = *find(box, box->wishes[i].request_id);
        if (j && j->mail.cancelled &&
            !j->steps.finished) /* this thread alone finishes jobs: it stays live until then */
            box->granted[batch.cancellation_count++] = (cancellation){j, box->wishes[i].reason};
    }
    box->wish_count = 0;
    box->poked = false;
    pthread_mutex_unlock(&box->lock);
    return batch;
}

void inbox_wait(inbox *box, uint64_t most_us)
{
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    uint64_t ns = (uint64_t)end.tv_nsec + most_us % 1000000 * 1000;
    end.tv_sec += (time_t)(most_us / 1000000 + ns / 1000000000);
    end.tv_nsec = (long)(ns % 1000000000);
    pthread_mutex_lock(&box->lock);
    int late = 0;
    while (!box->first && box->wish_count == 0 && !box->poked && !box->stop && !late)
        late = most_us ? pthread_cond_timedwait(&box->filled, &box->lock, &end)
                       : pthread_cond_wait(&box->filled, &box->lock);
    pthread_mutex_unlock(&box->lock);
}

uint32_t inbox_waiting(inbox *box)
{
    pthread_mutex_lock(&box->lock);
    uint32_t count = box->arrivals;
    pthread_mutex_unlock(&box->lock);
    return count;
}

bool inbox_draining(inbox *box)
{
    pthread_mutex_lock(&box->lock);
    bool draining = box->draining;
    pthread_mutex_unlock(&box->lock);
    return draining;
}
