/* engine/engine_state.h: the engine's own things, shared by engine.c and engine_notes.c. Private to them. */
#ifndef HEADWAY_ENGINE_ENGINE_STATE_H
#define HEADWAY_ENGINE_ENGINE_STATE_H

#include "engine/cache_desk.h"
#include "engine/engine.h"
#include "engine/front_desk.h"
#include "engine/gap_watch.h"
#include "engine/inbox.h"
#include "engine/outbox.h"
#include "engine/snapshot_board.h"

#include <pthread.h>
#include <stdatomic.h>

struct engine {
    runner *runner;
    hw_clock *clock;
    void (*wake)(void *context);
    void *wake_context;
    inbox *inbox;
    outbox *outbox;
    scheduler *scheduler;
    trace *trace;
    const sched_policy *policy;
    bool gap_chosen; /* by the operator */
    front_desk desk;
    cache_desk cache;
    gap_watch gaps;
    pthread_mutex_t model_lock; /* of `model` */
    step_model model;           /* for other threads */
    uint64_t model_published_us;
    uint32_t waiting_max;
    sampled_token *sampled; /* (max_rows + 1) */
    engine_snapshot counts; /* the engine thread's own; published on the board */
    snapshot_board board;
    _Atomic bool room_made; /* by the consumer, in a ring that was full */
    job **resting;          /* (max_sequences + queue): jobs whose ring is full */
    uint32_t resting_count;
    uint32_t failures; /* runs that failed in a row */
    pthread_t thread;
    uint32_t tenant_count;
    uint64_t idle_us; /* a turn at least as often, for what expires; 0: none */
    bool started, stopped;
    bool threaded; /* engine_start was called; before, who turns the engine is the only one to look at it */
};

/* engine_notes.c: engine thread */
void engine_publish(engine *e, uint64_t now_us);
void engine_note_request(engine *e, const job *j, trace_kind kind, uint64_t now_us);
void engine_note_move(void *context, const sequence *seq, scheduler_move move); /* for scheduler_watch */
void engine_note_step(engine *e, const step_plan *plan, const step_result *result, uint64_t start_us, uint64_t end_us);
void engine_note_token(engine *e, job *j, uint64_t now_us); /* its gap is measured unless its client had stopped it */

#endif
