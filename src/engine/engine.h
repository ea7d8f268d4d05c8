/* engine/engine.h: token ids in, token ids out. One thread runs the step loop over a runner; other threads submit,
 * cancel and read snapshots. The engine owns a request from a successful submit until its FINISHED event has been
 * taken. */
#ifndef HEADWAY_ENGINE_ENGINE_H
#define HEADWAY_ENGINE_ENGINE_H

#include "engine/trace.h"
#include "kv/tiering.h"
#include "sched/cache_report.h"
#include "sched/admission.h"
#include "sched/runner.h"
#include "sched/settings.h"

typedef struct engine engine;

typedef struct {
    bool off;               /* prefixes are not kept at all */
    uint64_t idle_bytes;    /* of the page pool, that may hold prefixes nobody uses; 0: all of it */
    uint64_t ttl_us;        /* of a prefix that is not used; 0: none */
    tier *tiers[TIERS_MAX]; /* beyond memory, in the order they are asked; the engine owns them from engine_create on */
    uint32_t tier_count;
} cache_config;

typedef struct {
    const char *policy;          /* see policy_names(); NULL: "cadence" */
    schedule_settings schedule;  /* a zero is the default */
    const tenant_table *tenants; /* copied; NULL: the default tenant alone */
    cache_config cache;
    bool unseeded;               /* start without measuring steps: the model learns from what comes */
    uint32_t max_queued;         /* requests waiting at most; submit answers ERR_BUSY above; default 1024 */
    hw_clock *clock;             /* NULL: the real one */
    void (*wake)(void *context); /* called (engine thread) when the outbox goes from empty to non-empty; may be NULL */
    void *wake_context;
} engine_config;

typedef enum { EVENT_TOKEN, EVENT_PROGRESS, EVENT_FINISHED } event_kind;

typedef struct {
    event_kind kind;
    uint64_t request_id;
    void *context;                      /* request.context */
    sampled_token token;                /* EVENT_TOKEN; top arrays filled only when asked for */
    uint32_t prompt_done, prompt_total; /* EVENT_PROGRESS and FINISHED: tokens */
    uint32_t cached;                    /* of the prompt's tokens; every event */
    cache_lookup lookup;                /* FINISHED: what the prefix cache had for it, and why no more */
    finish_reason reason;               /* EVENT_FINISHED */
    int32_t stop_token;   /* EVENT_FINISHED with FINISH_STOP: which; -1 else. It is not delivered as EVENT_TOKEN. */
    uint32_t generated;   /* the stop token is not counted */
    char error_text[160]; /* FINISH_ERROR */
    uint64_t queued_us, prefill_us, decode_us; /* FINISHED: durations */
    uint64_t time_us;                          /* when it happened */
} engine_event;

typedef enum {              /* why a gap was over its bound */
               GAP_PREFILL, /* a prefill run came back too late */
               GAP_DECODE,  /* the decode steps themselves took longer */
               GAP_MACHINE, /* a step took more than twice what the model said: the machine was busy with something else
                             */
               GAP_PREEMPTION, /* its pages were taken for another stream */
               GAP_POLICY,     /* the policy chose other work */
               GAP_CAUSES
} gap_cause;

typedef struct { /* for admission and metrics: a consistent copy */
    uint32_t running, waiting, max_sequences;
    uint32_t pages_total, pages_free; /* free: those that only the prefix cache holds too */
    uint64_t prompt_tokens, cached_tokens, generated_tokens, steps, decode_steps, prefill_runs, cancelled;
    uint64_t finished[4]; /* by finish_reason */
    uint64_t bytes, busy_us, last_step_bytes, last_step_us;
    uint64_t prefill_us, decode_us;
    bool draining, failed;
    uint64_t preemptions; /* sequences put back to the queue because the pool was full */
    uint64_t decode_rows; /* tokens of all decode steps: / decode_steps = mean batch */
    uint64_t fused_us;    /* of busy_us, in fused steps (in neither prefill_us nor decode_us) */
    uint64_t fused_steps;
    uint64_t gaps, violations[GAP_CAUSES]; /* of interactive streams */
    uint64_t alarms;  /* violations while the device was busy and its throughput usual: see docs/operating.md */
    int64_t slack_us; /* to the earliest deadline, at the last plan; INT64_MAX: no stream has one */
    uint64_t gap_us;  /* the bound of requests that bring none */
    uint64_t last_step_end_us, now_us; /* of the engine's clock: a step that ended, this snapshot */
    admission_view admission;          /* what admission_decide looks at */
} engine_snapshot;

status engine_create(engine **out, runner *runner, const engine_config *config, error *err); /* borrows the runner */
status engine_start(engine *e, error *err);                                                  /* starts the thread */
bool engine_step(engine *e);    /* without a thread: one turn of the loop; false: nothing to do */
void engine_destroy(engine *e); /* stops the thread, frees all requests; NULL allowed */

/* Joins the thread; what is unfinished ends as CANCELLED, and its events can be taken. */
void engine_stop(engine *e);

/* Any thread. On OK the engine owns `r` (malloc'ed, with malloc'ed prompt and biases). ERR_BUSY: queue full; ERR_LIMIT:
 * longer than the context or the pool; ERR_INVALID. On failure the caller keeps it. */
status engine_submit(engine *e, request *r, error *err);

/* Any thread. FINISHED with `reason` follows within one step; tokens not taken by then are dropped. Unknown ids and
 * second calls do nothing. */
void engine_cancel(engine *e, uint64_t request_id, finish_reason reason);

/* One consumer thread. Takes up to `max` events; returns how many: after a wake, take until it is fewer than `max`.
 * Within a request the order is progress, tokens, FINISHED; with FINISHED the request is freed. A request with 256
 * tokens not taken gets no steps until half of them are. */
size_t engine_take_events(engine *e, engine_event *events, size_t max);
void engine_read_snapshot(engine *e, engine_snapshot *out); /* any thread; never blocks the step loop */

/* Any thread. From the next step on; requests keep their tenant's index. */
status engine_set_tenants(engine *e, const tenant_table *tenants, error *err);
void engine_read_tenants(engine *e, tenant_counts *out, uint32_t count); /* any thread; `count` from index 0 on */
/* Any thread. May `ask` be accepted as things are? The prompt's length may still be unknown (0): then only the queue's
 * limits count. A refusal is counted for its tenant. engine_submit does not ask again, but holds the queue's limit. */
admission_answer engine_admit(engine *e, const admission_ask *ask);
size_t engine_read_trace(engine *e, uint64_t *cursor, trace_record *records, size_t max, uint64_t *lost);
step_model engine_step_model(engine *e);              /* any thread: a copy of the newest */
void engine_read_cache(engine *e, cache_report *out); /* any thread: as of some 100 ms ago at most; like the step model,
                                                         without engine_start by the turning thread only, as of now */
/* Any thread; waits. Forgets every cached prefix of a tenant, or of all (tenant < 0), in memory and in the tiers.
 * *pages (may be NULL): given back by memory. */
status engine_forget(engine *e, int tenant, uint32_t *pages, error *err);
void engine_describe(engine *e, char *text, size_t size); /* one line: policy, bound, documents, and why */
const runner_info *engine_runner_info(const engine *e);
uint32_t engine_token_limit(const engine *e); /* prompt_count + max_tokens of one request at most (context and pool) */
void engine_drain(engine *e);                 /* refuse new work; running and queued work ends normally */

#endif
