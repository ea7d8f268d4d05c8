/* sched/scheduler_state.h: what the parts of the scheduler share. A sequence is on exactly one list: waiting (by
 * ticket), prefilling, decoding (turn order: the head has waited longest), paused or failed. Private to
 * sched/scheduler*.c. */
#ifndef HEADWAY_SCHED_SCHEDULER_STATE_H
#define HEADWAY_SCHED_SCHEDULER_STATE_H

#include "sched/scheduler.h"

enum { DOCUMENTS_OPEN_MAX = 4 }; /* documents with pages that are being read: one runs, the others are set aside */

struct scheduler {
    runner *runner;
    const sched_policy *policy;
    schedule_settings settings;
    uint32_t chunk_tokens, pages_per_sequence, max_rows;
    page_pool *pool;
    page_id *page_tables; /* (max_sequences, pages_per_sequence) */
    sequence **slots;     /* (max_sequences): NULL is free */
    uint32_t *free_slots; /* a stack */
    uint32_t free_slot_count;
    uint64_t open_chunks; /* bit i: chunk slot i is taken */
    decode_row *rows;     /* (max_rows) of the plan being carried out */
    sequence **picked;    /* (max_rows) */
    sequence_list waiting, prefilling, decoding, paused, failed;
    uint64_t next_ticket, preemptions;
    uint32_t interactive_decoding; /* of the decoding list */
    uint32_t lesser_running;       /* documents and batch sequences with a slot */
    uint32_t tenant_running[TENANTS_MAX];
    bool chunk_since_decode, after_decode;
    uint64_t chunk_ended_us;
    uint32_t solo_steps;
    bool rivals; /* documents of several tenants wait or are being read */

    step_model model;
    accounts accounts;
    double lane_backlog_us[LANES];
    uint32_t document_tokens; /* of the newest model */
    uint64_t least_gap_us;    /* of the interactive decoding streams, at the last plan; 0: none */
    uint64_t kv_decoding;     /* KV tokens of the interactive decoding streams, as of the last plan */

    sequence *document; /* that runs, or ran last; NULL: none */
    sequence *prompt;   /* of the last plan */
    uint32_t ready;     /* lanes with a prompt, at the last plan */
    double margin_part; /* of a decode step, by the newest errors */
    uint32_t margin_age;
    plan_facts facts;
    double decode_us;                         /* predicted at the last plan: the interactive streams alone */
    bool had_streams, had_prompts, had_batch; /* at the last plan */
    void (*moved)(void *context, const sequence *seq, scheduler_move move);
    void *moved_context;
};

uint32_t scheduler_pages_for(const scheduler *s, uint32_t token_count);
uint32_t scheduler_running(const scheduler *s);
void scheduler_move_to(scheduler *s, sequence *seq, sequence_phase phase);
void scheduler_leave_slot(scheduler *s, sequence *seq);
bool scheduler_grow_pages(scheduler *s, sequence *seq, uint32_t token_count);
void scheduler_end_chunk(scheduler *s, sequence *seq);
void scheduler_tell(scheduler *s, const sequence *seq, scheduler_move move);

/* scheduler_admit.c */
void scheduler_admit_waiting(scheduler *s, uint64_t now_us);
bool scheduler_preempt_for(scheduler *s, const sequence *seq); /* one running sequence; false: `seq` itself went */
uint32_t scheduler_chunk_tokens(const scheduler *s, const sequence *seq); /* of its next chunk, at most */
sequence *scheduler_pick_prompt(scheduler *s);                            /* to advance next; NULL: none */
void scheduler_set_backlog(scheduler *s, sequence *seq); /* after its prompt's rest or lane has changed */

/* scheduler_plan.c: scheduler_next, scheduler_apply */

#endif
