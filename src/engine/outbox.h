/* engine/outbox.h: what may the consumer take? Tokens wait in a ring per request, progress as its newest state, the end
 * as one record; so memory is bounded by the live requests, however long nobody takes anything. Single producer (begin
 * ... commit: the engine thread), single consumer (take). Order holds within a request: progress, tokens, FINISHED
 * last. */
#ifndef HEADWAY_ENGINE_OUTBOX_H
#define HEADWAY_ENGINE_OUTBOX_H

#include "engine/job.h"

typedef struct outbox outbox;

status outbox_create(outbox **out, error *err);
void outbox_destroy(outbox *box); /* NULL is allowed; jobs still listed are not touched */

void outbox_begin(outbox *box); /* takes the lock for a batch of puts */
bool outbox_put_token(outbox *box, job *j, const sampled_token *token,
                      uint64_t now_us); /* false: the ring is full now */
void outbox_put_progress(outbox *box, job *j, const engine_event *event);
void outbox_put_finish(outbox *box, job *j, const engine_event *event, bool drop_tokens);
bool outbox_commit(outbox *box); /* true: there was nothing to take before the batch, and now there is */
bool outbox_has_room(outbox *box, const job *j); /* between begin and commit: half of the ring is free */

/* Fills up to `max` events. Jobs whose FINISHED is among them are linked by delivery.next into *done: the caller frees
 * them. *room: a ring that was full has room again. */
size_t outbox_take(outbox *box, engine_event *events, size_t max, job **done, bool *room);

#endif
