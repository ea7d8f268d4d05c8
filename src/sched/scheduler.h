/* sched/scheduler.h: who gets the device next, and whose pages make room? The mechanism under all policies: queue,
 * lanes, admission to slots, pages, preemption, building and applying step plans. A policy (sched/policy.h) only
 * chooses the kind of step.
 *
 * Policies that keep order: first come, first served; the first waiting sequence is admitted when a slot is free, no
 * other prompt is being read and its whole history fits the pages that are free, or that the prefix cache can give up,
 * with one page to spare for each running stream. The others: prompts stand in five lanes (short before documents,
 * interactive before batch, none below its floor); inside a lane the tenant with the least device time by weight goes
 * first, by arrival inside a tenant. At most one document runs; it is set aside, pages kept, at a chunk border when its
 * tenant is ahead of another by more than a chunk. Documents and batch work leave a quarter of the slots to short
 * interactive prompts.
 *
 * When a stream needs a page and none is free, a running sequence goes back to the queue (its place there is its order
 * of arrival) and is later prefilled again with what it has generated: batch before interactive, the youngest first.
 * The oldest interactive one always goes on, so no set of requests, each of which fits the pool, can block itself.
 * Owner: the engine; engine thread only. */
#ifndef HEADWAY_SCHED_SCHEDULER_H
#define HEADWAY_SCHED_SCHEDULER_H

#include "sched/admission.h"
#include "sched/policy.h"
#include "sched/runner.h"
#include "sched/sequence.h"
#include "sched/settings.h"

typedef struct scheduler scheduler;

typedef struct {
    uint64_t idle_bytes;    /* of the pool, that may hold prefixes nobody uses; 0: all of it */
    uint64_t ttl_us;        /* 0: none */
    tier *tiers[TIERS_MAX]; /* owned by the scheduler from scheduler_create on, even if it fails */
    uint32_t tier_count;
    void (*wake)(void *context); /* something came from a tier; any thread */
    void *wake_context;
} prefix_settings;

typedef struct {
    runner *runner; /* borrowed; sequences are opened and closed on it */
    const sched_policy *policy;
    schedule_settings settings;   /* resolved here */
    const step_model *model;      /* seeded; copied. NULL: learns from nothing */
    const tenant_table *tenants;  /* copied; NULL: the default one */
    uint64_t page_shuffle_seed;   /* see kv/page_pool.h */
    const prefix_settings *cache; /* NULL: no prefix is kept */
} scheduler_config;

typedef struct {
    uint32_t waiting, running, paused; /* paused: of the running */
    uint64_t preemptions;
    page_pool_counts pages;
} scheduler_counts;

typedef struct { /* what a plan was made from, for the trace */
    double predicted_us;
    int64_t slack_us; /* to the earliest deadline; INT64_MAX: there is none */
} plan_facts;

status scheduler_create(scheduler **out, const scheduler_config *config, error *err);
void scheduler_destroy(scheduler *s); /* NULL is allowed; every sequence has been removed */

/* Into the queue; `seq` is zero but for its request. */
void scheduler_add(scheduler *s, sequence *seq, uint64_t now_us);
void scheduler_remove(scheduler *s, sequence *seq); /* from wherever it is: slot and pages are free at once */
void scheduler_pause(scheduler *s, sequence *seq, bool paused);
/* Instead of scheduler_remove, for a cancelled one: if its chunk is open, whoever sends the same prompt again can have
 * it. The scheduler then takes *r (the sequence's request, malloc'ed) over and leaves a copy without prompt in its
 * place; false: it was only removed. */
bool scheduler_abandon(scheduler *s, sequence *seq, request **r);
bool scheduler_is_orphan(const scheduler *s, uint32_t slot); /* nobody is told of it */
void scheduler_fail_orphan(scheduler *s, uint32_t slot);
sequence *scheduler_any(const scheduler *s);   /* the oldest waiting, else a running one; NULL: none is left */
sequence *scheduler_take_failed(scheduler *s); /* one that the runner refused to open, removed; NULL: none */
void scheduler_set_tenants(scheduler *s, const tenant_table *tenants);

void scheduler_next(scheduler *s, uint64_t now_us, step_plan *plan); /* pointers in it are valid until the next call */
/* Appends the tokens sampled, learns from the time. */
void scheduler_apply(scheduler *s, const step_plan *plan, const step_result *result, uint64_t start_us,
                     uint64_t end_us);
sequence *scheduler_at(const scheduler *s, uint32_t slot);

scheduler_counts scheduler_read_counts(const scheduler *s);
plan_facts scheduler_plan_facts(const scheduler *s); /* of the last plan */
const step_model *scheduler_model(const scheduler *s);
const schedule_settings *scheduler_settings(const scheduler *s);
void scheduler_fill_admission(const scheduler *s, admission_view *view); /* all but the engine's own fields */
uint32_t scheduler_tenant_running(const scheduler *s, uint32_t tenant);
uint64_t scheduler_tenant_device_us(const scheduler *s, uint32_t tenant);
uint32_t scheduler_token_limit(const runner_info *info); /* prompt and generated tokens that one request may have */

void scheduler_fill_cache(const scheduler *s, cache_report *report);
uint32_t scheduler_spare_pages(const scheduler *s); /* free, or held by nobody but the cache */
/* Forgets every prefix of a tenant, or of all (tenant < 0), in memory; the pages given back. */
uint32_t scheduler_forget(scheduler *s, int tenant);
uint64_t scheduler_tier_space(const scheduler *s, int tenant); /* what scheduler_tiering's tiering_drop wants */
tiering *scheduler_tiering(const scheduler *s);                /* NULL: there are no tiers */

/* Called when a sequence is admitted, set aside or preempted; for traces. */
typedef enum { MOVE_ADMITTED, MOVE_SET_ASIDE, MOVE_PREEMPTED } scheduler_move;
void scheduler_watch(scheduler *s, void (*moved)(void *context, const sequence *seq, scheduler_move move),
                     void *context);

#endif
