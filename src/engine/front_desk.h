/* engine/front_desk.h: may this request come in, and whose is it? The tenants' table, what each has in the engine, and
 * admission on the newest snapshot. Counts are atomic: submitters raise what is held, the engine thread publishes what
 * runs; a limit is checked by raising first and taking back, so that no burst slips through. Any thread, but for the
 * calls marked. Owner: the engine. */
#ifndef HEADWAY_ENGINE_FRONT_DESK_H
#define HEADWAY_ENGINE_FRONT_DESK_H

#include "engine/engine.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct {
    _Atomic uint64_t live, running, cached_ppm /* of a conversation's turn, lately */, tokens_held, device_us,
        prompt_tokens, cached_tokens, generated_tokens, requests, refused, gaps, violations;
} desk_counts;

typedef struct {
    pthread_mutex_t lock; /* of the table */
    tenant_table tenants;
    _Atomic bool changed; /* the engine thread has not seen the newest table */
    desk_counts counts[TENANTS_MAX];
} front_desk;

void front_desk_open(front_desk *d, const tenant_table *tenants); /* NULL: the default tenant */
void front_desk_close(front_desk *d);
status front_desk_set(front_desk *d, const tenant_table *tenants, error *err);
bool front_desk_news(front_desk *d, tenant_table *out); /* engine thread: true once after each set */

admission_answer front_desk_admit(front_desk *d, const admission_view *view, const admission_ask *ask);
/* At submission: counts the request in. ERR_BUSY: over a limit of its tenant's; nothing was counted but the refusal. */
status front_desk_enter(front_desk *d, const request *r, uint32_t slots_free, error *err);
void front_desk_leave(front_desk *d, const request *r); /* it has finished, or was not taken after all */
/* Engine thread: `cached` of the `prompt` tokens of a turn that continued a conversation. */
void front_desk_saw_turn(front_desk *d, uint32_t tenant, uint32_t prompt, uint32_t cached);
void front_desk_read(front_desk *d, tenant_counts *out, uint32_t count);

#endif
