/* sched/sequence.h: how far is one request? Its place in the queue or its slot, its pages, how much of it has KV.
 * request->prompt holds the history: prompt_count prompt tokens, then `generated` tokens; there is room for max_tokens
 * of them and it never moves. kv_count <= history; a decoding sequence has kv_count == history - 1: its last token is
 * the next input. Owner: the engine; engine thread only, between scheduler_add and scheduler_remove. */
#ifndef HEADWAY_SCHED_SEQUENCE_H
#define HEADWAY_SCHED_SEQUENCE_H

#include "sched/cache_report.h"
#include "sched/accounts.h"
#include "sched/step_plan.h"

typedef enum { PHASE_NONE, PHASE_WAITING, PHASE_PREFILL, PHASE_DECODE, PHASE_FAILED } sequence_phase;

typedef struct sequence sequence;

typedef struct {             /* between a sequence and the prefix cache: see sched/scheduler_cache.c */
    uint64_t space, group;   /* whose entries it sees; the same without the request's salt: what a tier forgets by */
    prefix_match match;      /* at the last look */
    uint32_t tier_pages;     /* beyond match, as far as is known: pages that a restore would reach */
    uint32_t expected;       /* tokens that will be there when it starts, as far as is known */
    prefix_cursor cursor;    /* while it has a slot and `open` */
    bool open, no_tiers;     /* no_tiers: a restore has failed */
    bool state_held;         /* the pages of the state it starts from are held */
    bool state_due;          /* that state comes from a tier and is not loaded yet */
    uint32_t memory_pages;   /* pages that it started with from memory */
    uint32_t restored_pages; /* and pages after them that a tier brings */
    uint32_t memory_tail, tier_tail; /* at the last look: tokens of a tail behind match.pages, behind tier_pages */
    uint32_t tail_tokens;            /* tokens after its leading pages, from the partly filled page of another */
    bool tail_held, tail_restored;   /* that page is held until it is copied; a tier brings it */
    bool tail_saved;                 /* the state at its end lies in its first row of the table of states */
    bool tail_known;                 /* the tiers have said whether they have one */
    bool heard;                      /* they have said all that they were asked, and it was looked at */
    page_id tail_page;
    uint64_t tail_serial;                    /* of the tail that it went on in; 0: none */
    uint32_t tail_holder, tail_state_holder; /* of tier_tail */
    tier_ask *tail_ask;
    uint32_t planned_parts; /* that were there when its chunk was planned last */
    uint32_t needed_parts;  /* before its chunk can go on */
    uint32_t rolling;       /* position of the state that its rolling pages hold; 0: none */
    uint32_t own_from;      /* pages before it were in memory: the tiers have been offered them */
    tier_ask *ask;
    tier_restore *restore;
    uint32_t capture_count;  /* of the open chunk */
    state_capture *captures; /* (CAPTURES_MAX): a row of the scheduler's table */
    uint32_t cached;         /* tokens that did not have to be computed, at its first start */
    bool counted;            /* `lookup` is filled */
    cache_lookup lookup;
} sequence_cache;

struct sequence {
    request *request;
    sequence *previous, *next; /* in the one list that it is on */
    sequence_phase phase;
    bool paused;     /* nobody takes its tokens: no step for it */
    bool held;       /* its constraint's mask is not made yet: no step for it in this turn */
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
    bool turn;              /* it would be, but half of it or more is cached: LANE_TURN */
    uint64_t gap_us;        /* bound between two tokens; batch: none */
    uint64_t last_token_us; /* 0: none yet, or its cadence was broken off: paused, or put back to the queue */
    double backlog_us;      /* predicted: what its prompt still takes; in the lane's sum while it waits or prefills */
    bool preempted;         /* since its last token */
    bool broken;            /* a step with it failed: what its state holds is unknown */
    bool cold;              /* there was no room for a state or a tail to begin with beside its own pages */
    bool orphan, wanted;    /* cancelled, its chunk is kept for a while; somebody with the same prompt waits for it */
    uint64_t orphaned_us;
    sequence_cache cache;
};

static inline uint32_t sequence_history(const sequence *seq) /* tokens */
{
    return seq->request->prompt_count + seq->generated;
}

static inline bool sequence_may_sample(const sequence *seq) /* what its next token may be is known */
{
    token_constraint *c = seq->request->sampling.constraint;
    return !c || c->ops->ready(c);
}

static inline lane sequence_lane(const sequence *seq)
{
    if (seq->document)
        return seq->batch ? LANE_DOCUMENT_BATCH : LANE_DOCUMENT;
    return seq->batch ? LANE_SHORT_BATCH : seq->turn ? LANE_TURN : LANE_SHORT;
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
