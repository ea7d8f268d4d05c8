/* engine/inbox.h: what came in since the last step? Requests, cancellations and pokes, and the table of all live
 * requests by id. Multi producer (put, cancel, poke: any thread), single consumer (collect, wait: the engine thread).
 * Bounded: put is refused when too many wait or live; a live request can be cancelled once. A job is live from put to
 * forget. */
#ifndef HEADWAY_ENGINE_INBOX_H
#define HEADWAY_ENGINE_INBOX_H

#include "engine/job.h"

typedef struct inbox inbox;

typedef struct {
    uint32_t waiting_max; /* jobs waiting, here or with the scheduler */
    uint32_t live_max;    /* jobs between put and forget */
} inbox_config;

typedef struct {
    job *job;
    finish_reason reason;
} cancellation;

typedef struct {
    job *arrivals;                     /* in order, linked by mail.next */
    const cancellation *cancellations; /* of live jobs that have not finished; valid until the next collect */
    uint32_t arrival_count, cancellation_count;
    bool stop;
} inbox_batch;

status inbox_create(inbox **out, const inbox_config *config, error *err);
void inbox_destroy(inbox *box); /* NULL is allowed; no job is live */

status inbox_put(inbox *box, job *j, error *err); /* ERR_BUSY, ERR_INVALID (id in use); then the caller keeps the job */
bool inbox_cancel(inbox *box, uint64_t request_id, finish_reason reason); /* false: not live, or cancelled already */
void inbox_poke(inbox *box);                                              /* ends a wait */
void inbox_drain(inbox *box);                                             /* from now on put answers ERR_BUSY */
void inbox_stop(inbox *box);                                              /* drain, and the consumer is told to stop */
void inbox_forget(inbox *box, job *j); /* consumer of events: the job is not live any more */

inbox_batch inbox_collect(inbox *box,
                          uint32_t waiting_elsewhere); /* without blocking; `waiting_elsewhere`: with the scheduler */
void inbox_wait(inbox *box, uint64_t most_us); /* until there is something to collect; at most so long, 0: for ever */
uint32_t inbox_waiting(inbox *box);            /* not collected yet */
bool inbox_draining(inbox *box);

#endif
