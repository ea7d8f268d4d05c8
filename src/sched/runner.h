/* sched/runner.h: the contract between the control plane and whatever computes: the real model, `sim` or `script`.
 * All calls on the engine thread, except runner_ops.yield (any thread). run blocks until the step is done, or, for a
 * prefill, until the deadline or a yield at the next row block; the unfinished chunk keeps its cursor in chunk_slot and
 * the engine passes the very same chunk again to go on. sequence_close also drops a sequence's unfinished chunk. */
#ifndef HEADWAY_SCHED_RUNNER_H
#define HEADWAY_SCHED_RUNNER_H

#include "base/clock.h"
#include "base/error.h"
#include "kv/page_mover.h"
#include "sched/step_plan.h"

typedef struct runner runner;

typedef struct {
    const char *model_name;
    uint32_t vocab_size;
    uint32_t context_length; /* tokens one sequence may hold */
    uint32_t page_tokens;
    uint32_t page_count;              /* of the pool */
    uint64_t page_bytes, state_bytes; /* per page; recurrent state per sequence (0 for dense models) */
    uint32_t state_pages;             /* pages that hold one such state */
    uint32_t max_sequences, max_rows, max_chunk_tokens, max_open_chunks;
    uint64_t weight_bytes; /* read by one decode step */
    double read_roof;      /* bytes/s measured, 0: unknown */
} runner_info;

typedef struct { /* a sequence slot starts; all of it stays valid and in place until sequence_close */
    uint64_t request_id;
    const sampling_params *params;
    const int32_t *tokens; /* prompt_count prompt tokens, then the generated ones so far; the engine appends to it */
    uint32_t prompt_count;
    uint32_t
        generated_before; /* > 0 after a preemption: all of it is prefilled again, and the next token sampled is number
                             generated_before (from 0) of the request: random numbers, penalties go on from there */
    bool measuring; /* only times matter: rows and chunks may be anywhere in the context, whatever was read before */
} sequence_start;

typedef struct {
    const char *name;                                                                 /* "model", "sim", "script" */
    status (*sequence_open)(runner *self, uint32_t seq, const sequence_start *start); /* copies *start */
    void (*sequence_close)(runner *self, uint32_t seq);
    status (*run)(runner *self, const step_plan *plan, step_result *result, hw_clock *clock, error *err);
    void (*yield)(runner *self); /* any thread: a running prefill stops at its next row block, and one that starts
                                    before yield_seen too */
    /* Engine thread, before it looks at what came in: yields until now are seen to. NULL: run forgets them itself. */
    void (*yield_seen)(runner *self);
    void (*close)(runner *self);
    /* The recurrent state of a slot, as the tokens run so far left it, into info.state_pages pages of the pool, and
     * back into any slot: the next row of that slot then has the position that followed the save. ERR_BUSY while a
     * chunk of the slot is unfinished. Both NULL when no state is kept. */
    status (*state_save)(runner *self, uint32_t seq, const page_id *pages);
    status (*state_load)(runner *self, uint32_t seq, const page_id *pages);
    void (*page_copy)(runner *self, page_id to,
                      page_id from); /* KV and all; NULL: a sequence begins at a page border */
} runner_ops;

struct runner {
    const runner_ops *ops;
    runner_info info;
    page_mover *mover; /* NULL: its pages stay where they are */
};

#endif
