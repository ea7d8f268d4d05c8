/* sched/scheduler.h: who gets the device next, and whose pages make room? The mechanism under all policies: queue,
 * admission, slots, pages, preemption, building and applying step plans. A policy (sched/policy.h) only chooses the
 * kind of step.
 *
 * First come, first served: the first waiting sequence is admitted when a slot is free, no other prompt is being read
 * and its whole history fits the free pages with one page to spare for each running stream. Decoding streams take turns
 * when there are more than rows. When a stream needs a page and none is free, the youngest running sequence goes back
 * to the queue (its place there is its order of arrival) and is later prefilled again with what it has generated: the
 * oldest always goes on, so no set of requests, each of which fits the pool, can block itself. Owner: the engine;
 * engine thread only. */
#ifndef HEADWAY_SCHED_SCHEDULER_H
#define HEADWAY_SCHED_SCHEDULER_H

#include "sched/policy.h"
#include "sched/runner.h"
#include "sched/sequence.h"

typedef struct scheduler scheduler;

typedef struct {
    runner *runner; /* borrowed; sequences are opened and closed on it */
    const sched_policy *policy;
    uint32_t chunk_tokens;      /* budget of a chunk; 0 or more than the runner's max: the runner's max */
    uint64_t page_shuffle_seed; /* see kv/page_pool.h */
} scheduler_config;

typedef struct {
    uint32_t waiting, running, paused; /* paused: of the running */
    uint64_t preemptions;
    page_pool_counts pages;
} scheduler_counts;

status scheduler_create(scheduler **out, const scheduler_config *config, error *err);
void scheduler_destroy(scheduler *s); /* NULL is allowed; every sequence has been removed */

void scheduler_add(scheduler *s, sequence *seq);    /* into the queue; `seq` is zero but for its request */
void scheduler_remove(scheduler *s, sequence *seq); /* from wherever it is: slot and pages are free at once */
void scheduler_pause(scheduler *s, sequence *seq, bool paused);
sequence *scheduler_any(const scheduler *s);   /* the oldest waiting, else a running one; NULL: none is left */
sequence *scheduler_take_failed(scheduler *s); /* one that the runner refused to open, removed; NULL: none */

void scheduler_next(scheduler *s, uint64_t now_us, step_plan *plan); /* pointers in it are valid until the next call */
void scheduler_apply(scheduler *s, const step_plan *plan, const step_result *result); /* appends the tokens sampled */
sequence *scheduler_at(const scheduler *s, uint32_t slot);

scheduler_counts scheduler_read_counts(const scheduler *s);
uint32_t scheduler_token_limit(const runner_info *info); /* prompt and generated tokens that one request may have */

#endif
