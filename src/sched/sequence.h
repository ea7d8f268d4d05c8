/* sched/sequence.h: how far is one request? Its place in the queue or its slot, its pages, how much of it has KV.
 * request->prompt holds the history: prompt_count prompt tokens, then `generated` tokens; there is room for max_tokens
 * of them and it never moves. kv_count <= history; a decoding sequence has kv_count == history - 1: its last token is
 * the next input. Owner: the engine; engine thread only, between scheduler_add and scheduler_remove. */
#ifndef HEADWAY_SCHED_SEQUENCE_H
#define HEADWAY_SCHED_SEQUENCE_H

#include "kv/page_pool.h"
#include "sched/accounts.h"
#include "sched/step_plan.h"

typedef enum { PHASE_NONE, PHASE_WAITING, PHASE_PREFILL, PHASE_DECODE, PHASE_FAILED } sequence_phase;

typedef struct sequence sequence;
struct sequence {
    request *request;
    sequence *previous, *next; /* in the one list that it is on */
    sequence_phase phase;
    bool paused;     /* nobody takes its tokens: no step for it */
    uint64_t ticket; /* order of arrival; kept over preemptions */
    uint32_t slot;   /* of the runner, in PHASE_PREFILL and PHASE_DECODE */
    uint32_t generated;
    uint32_t kv_count; /* positions [0, kv_count) are in the pages */
    page_id *pages;    /* a row of the scheduler's table */
    uint32_t page_count;
    bool chunk_open; /* `chunk` was interrupted: the same one has to be passed again */
    prefill_chunk chunk;
    double chunk_part;                /* of its work that is done */
    status open_status;               /* PHASE_FAILED: what the runner said */
    uint64_t arrived_us, admitted_us; /* admitted: first slot; 0: none yet */
    uint32_t tenant;
    bool batch;             /* nobody watches: no deadline */
    bool document;          /* its prompt is document-scale */
    uint64_t gap_us;        /* bound between two tokens; batch: none */
    uint64_t last_token_us; /* 0: none yet, or its cadence was broken off: paused, or put back to the queue */
    double backlog_us;      /* predicted: what its prompt still takes; in the lane's sum while it waits or prefills */
    bool preempted;         /* since its last token */
};

static inline uint32_t sequence_history(const sequence *seq) /* tokens */
{
    return seq->request->prompt_count + seq->generated;
}

static inline lane sequence_lane(const sequence *seq)
{
    return (lane)((seq->document ? LANE_DOCUMENT : LANE_SHORT) + (seq->batch ? 1 : 0));
}

typedef struct { /* a list that owns nothing */
    sequence *first, *last;
    uint32_t count;
} sequence_list;

static inline void sequence_list_insert(sequence_list *list, sequence *seq, sequence *before) /* NULL: at the end */
{
    seq->next = before;
    seq->previous = before ? before->previous : list->last;
    *(seq->previous ? &seq->previous->next : &list->first) = seq;
    *(before ? &before->previous : &list->last) = seq;
    list->count++;
}

static inline void sequence_list_remove(sequence_list *list, sequence *seq)
{
    *(seq->previous ? &seq->previous->next : &list->first) = seq->next;
    *(seq->next ? &seq->next->previous : &list->last) = seq->previous;
    seq->previous = seq->next = NULL;
    list->count--;
}

#endif
