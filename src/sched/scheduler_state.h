/* sched/scheduler_state.h: what the parts of the scheduler share. A sequence is on exactly one list: waiting (by
 * ticket), prefilling, decoding (turn order: the head has waited longest), paused or failed. Private to
 * sched/scheduler*.c. */
#ifndef HEADWAY_SCHED_SCHEDULER_STATE_H
#define HEADWAY_SCHED_SCHEDULER_STATE_H

#include "kv/reuse.h"
#include "sched/scheduler.h"
#include "sched/tails.h"

enum { DOCUMENTS_OPEN_MAX = 4 }; /* documents with pages that are being read: one runs, the others are set aside */

struct scheduler {
    runner *runner;
    const sched_policy *policy;
    schedule_settings settings;
    uint32_t chunk_tokens, page_tokens, pages_per_sequence, max_rows;
    uint64_t now_us; /* as of the last call that said */
    page_pool *pool;
    prefix_cache *prefixes; /* NULL: nothing is kept */
    tiering *tiers;         /* NULL: none */
    reuse *reuse;           /* NULL: nothing is kept */
    tails tails;            /* none are kept where it was not opened */
    uint64_t ttl_us;        /* of what is not used; 0: none */
    uint32_t state_pages;   /* of a checkpoint; 0: the model keeps no state */
    uint32_t idle_pages_max;
    uint32_t grid_pages;     /* between two checkpoints inside a long prompt */
    state_capture *captures; /* (max_sequences, CAPTURES_MAX) */
    page_id *state_tables;   /* (max_sequences, CAPTURES_MAX + 1, state_pages): captures, then the rolling one */
    prefix_key *keys;        /* (pages_per_sequence): scratch */
    tier_page *tier_pages;   /* (pages_per_sequence + state_pages): scratch */
    uint32_t *holders;       /* the same */
    cache_tenant cache_counts[TENANTS_MAX];
    uint64_t forgotten_us[TENANTS_MAX]; /* what started before is not stored any more */
    uint32_t orphans;
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
void scheduler_forget_sequence(scheduler *s, sequence *seq); /* out of the books; it has no slot */
void scheduler_leave_slot(scheduler *s, sequence *seq, bool ended);
bool scheduler_grow_pages(scheduler *s, sequence *seq, uint32_t token_count);
void scheduler_end_chunk(scheduler *s, sequence *seq);
void scheduler_tell(scheduler *s, const sequence *seq, scheduler_move move);

/* scheduler_cache.c: before and while a sequence starts */
status scheduler_cache_create(scheduler *s, const scheduler_config *config, error *err);
void scheduler_cache_destroy(scheduler *s);
void scheduler_cache_arrive(scheduler *s, sequence *seq); /* a first look: is it a document? */
bool scheduler_cache_look(scheduler *s, sequence *seq);   /* false: a tier has not answered yet */
void scheduler_cache_hear(scheduler *s); /* looks again where tiers have answered since: who waits may change lanes */
uint32_t scheduler_room(const scheduler *s, const sequence *seq); /* pages that are free or could be made so for it */
void scheduler_release_pages(scheduler *s, const page_id *pages, uint32_t count);
void scheduler_release_state(scheduler *s, sequence *seq); /* the pages of the state that it started from */
bool scheduler_take_pages(scheduler *s, const sequence *seq, uint32_t count, page_id *out);
bool scheduler_take_page(scheduler *s, const sequence *seq, page_id *out);
/* It has a slot: takes its leading pages. False: what the tiers promised cannot be had; look again. */
bool scheduler_cache_begin(scheduler *s, sequence *seq);
/* The runner has opened it and it has all its pages: the state, the restore. False: as above. */
bool scheduler_cache_start(scheduler *s, sequence *seq);
void scheduler_cache_poll(scheduler *s); /* each turn */
void scheduler_cache_end_ask(scheduler *s, sequence *seq);
bool scheduler_prompt_ready(const sequence *seq); /* it could go on now */

/* scheduler_keep.c: what a sequence leaves behind */
void scheduler_cache_captures(scheduler *s, sequence *seq);          /* of the chunk that was just planned */
void scheduler_cache_read(scheduler *s, sequence *seq);              /* kv_count has moved by a chunk */
void scheduler_cache_decoded(scheduler *s, sequence *seq);           /* by a decode row */
void scheduler_cache_leave(scheduler *s, sequence *seq, bool ended); /* before its pages go; `ended`: not preempted */
void scheduler_cache_restored(scheduler *s, sequence *seq);          /* all of its restore has come */
page_id *scheduler_state_table(const scheduler *s, const sequence *seq, uint32_t index);
uint32_t scheduler_owner(const sequence *seq);
void scheduler_keys(const scheduler *s, const sequence *seq, uint32_t pages); /* into s->keys */

bool scheduler_worth_keeping(const scheduler *s, const sequence *seq); /* behind its pages, or in a tier */

/* scheduler_tail.c */
uint32_t scheduler_tail_in_memory(const scheduler *s, const sequence *seq); /* tokens behind match.pages */
/* Once the ask is answered: fills tier_tail and tier_pages. False: a tier has not answered yet. */
bool scheduler_tail_in_tiers(scheduler *s, sequence *seq);
void scheduler_tail_hold(scheduler *s, sequence *seq);   /* the one behind match.pages: tail_tokens, 0 if it is gone */
void scheduler_tail_let_go(scheduler *s, sequence *seq); /* nothing if none is held */
void scheduler_tail_start(scheduler *s, sequence *seq);  /* copies what is held into its page behind memory_pages */
prefix_key scheduler_tail_key(const scheduler *s, const sequence *seq, uint32_t depth, uint32_t count);
void scheduler_tail_save(scheduler *s, sequence *seq); /* it ends, and the runner still has its state */
void scheduler_tail_put(scheduler *s, sequence *seq);  /* it has left its slot, its pages are still held */

void scheduler_set_floors(scheduler *s); /* scheduler_report.c: of the tenants' table */

/* scheduler_orphan.c */
void scheduler_drop_orphan(scheduler *s, sequence *seq);
bool scheduler_drop_orphans(scheduler *s);                          /* that nobody waits for; false: none */
bool scheduler_waits_for_orphan(scheduler *s, const sequence *seq); /* an orphan reads what `seq` would read */
sequence *scheduler_idle_orphan(const scheduler *s);                /* to go on with while nothing else is to do */
void scheduler_age_orphans(scheduler *s);                           /* each turn */

/* scheduler_admit.c */
void scheduler_admit_waiting(scheduler *s, uint64_t now_us);
bool scheduler_preempt_for(scheduler *s, const sequence *seq); /* one running sequence; false: `seq` itself went */
uint32_t scheduler_chunk_tokens(const scheduler *s, const sequence *seq); /* of its next chunk, at most */
sequence *scheduler_pick_prompt(scheduler *s);                            /* to advance next; NULL: none */
void scheduler_set_backlog(scheduler *s, sequence *seq); /* after its prompt's rest or lane has changed */

/* scheduler_plan.c: scheduler_next, scheduler_apply */

#endif
