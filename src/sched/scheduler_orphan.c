/* sched/scheduler_orphan.c: chunks whose request was cancelled. A chunk in work has no token done in all layers, so a
 * client that times out and sends its prompt again would start over by a whole chunk each time. Its sequence is kept as
 * an orphan instead, with slot, pages and cursor: it goes on while there is nothing else to do, and at the place of a
 * request that would read the same. When its chunk is done, the pages are in the prefix cache and the orphan goes; it
 * goes at once when somebody needs its room, and after ORPHAN_US. */
#include "sched/scheduler_state.h"

#include <assert.h>
#include <string.h>

enum { ORPHANS_MAX = 2, ORPHAN_US = 30000000 };

static sequence *next_orphan(sequence *seq) /* `seq` or the next one in its list */
{
    while (seq && !seq->orphan)
        seq = seq->next;
    return seq;
}

void scheduler_drop_orphan(scheduler *s, sequence *seq)
{
    assert(seq->orphan);
    s->lesser_running += seq->batch || seq->document; /* leaving counts it out */
    s->tenant_running[seq->tenant]++;
    scheduler_leave_slot(s, seq, true);
    scheduler_move_to(s, seq, PHASE_NONE);
    s->orphans--;
    if (s->prompt == seq)
        s->prompt = NULL;
    request_free(seq->request);
    free(seq);
}

bool scheduler_drop_orphans(scheduler *s)
{
    bool any = false;
    for (sequence *seq = next_orphan(s->prefilling.first), *next; seq; seq = next) {
        next = next_orphan(seq->next);
        if (!seq->wanted) {
            scheduler_drop_orphan(s, seq);
            any = true;
        }
    }
    return any;
}

void scheduler_age_orphans(scheduler *s)
{
    for (sequence *seq = s->orphans ? next_orphan(s->prefilling.first) : NULL, *next; seq; seq = next) {
        next = next_orphan(seq->next);
        bool old = s->now_us > seq->orphaned_us + ORPHAN_US;
        seq->wanted = false; /* who waits says so again in this turn */
        if (old || s->orphans > ORPHANS_MAX)
            scheduler_drop_orphan(s, seq); /* the oldest come first in the list */
    }
}

sequence *scheduler_idle_orphan(const scheduler *s)
{
    return s->orphans ? next_orphan(s->prefilling.first) : NULL;
}

/* Would the orphan's chunk spare `seq` a page at least? */
static bool reads_the_same(const scheduler *s, const sequence *orphan, const sequence *seq)
{
    uint32_t page_tokens = s->runner->info.page_tokens;
    uint32_t end = orphan->chunk.position + orphan->chunk.token_count, most = sequence_history(seq) - 1;
    uint32_t tokens = (end < most ? end : most) / page_tokens * page_tokens;
    return orphan->cache.space == seq->cache.space && !seq->request->no_cache && tokens > orphan->chunk.position &&
           tokens > seq->cache.expected &&
           memcmp(orphan->request->prompt, seq->request->prompt, tokens * sizeof(int32_t)) == 0;
}

bool scheduler_waits_for_orphan(scheduler *s, const sequence *seq)
{
    for (sequence *orphan = s->orphans ? next_orphan(s->prefilling.first) : NULL; orphan;
         orphan = next_orphan(orphan->next))
        if (reads_the_same(s, orphan, seq)) {
            orphan->wanted = true;
            return true;
        }
    return false;
}

bool scheduler_is_orphan(const scheduler *s, uint32_t slot)
{
    return scheduler_at(s, slot)->orphan;
}

void scheduler_fail_orphan(scheduler *s, uint32_t slot)
{
    scheduler_drop_orphan(s, scheduler_at(s, slot));
}

/* The orphan takes the sequence's place in its list and slot. */
static void replace(scheduler *s, sequence *seq, sequence *orphan, request *copy)
{
    *orphan = *seq;
    orphan->previous = orphan->next = NULL;
    orphan->orphan = true;
    orphan->wanted = false;
    orphan->orphaned_us = s->now_us;
    orphan->backlog_us = 0;
    orphan->cache.ask = NULL;
    sequence_list_insert(&s->prefilling, orphan, NULL);
    s->slots[seq->slot] = orphan;
    s->lesser_running -= seq->batch || seq->document;
    s->tenant_running[seq->tenant]--;
    s->orphans++;
    if (s->document == seq)
        s->document = NULL;
    if (s->prompt == seq)
        s->prompt = orphan;
    *copy = *seq->request;
    copy->prompt = NULL;
    copy->sampling.biases = NULL;
    copy->sampling.constraint = NULL;
    seq->request = copy;
    seq->chunk_open = false;
    seq->cache.open = seq->cache.state_held = false;
    seq->cache.restore = NULL;
    seq->cache.capture_count = 0;
}

bool scheduler_abandon(scheduler *s, sequence *seq, request **r)
{
    /* A chunk that still waits for a tier would hold its pages for longer than it is worth. */
    bool worth = seq->phase == PHASE_PREFILL && seq->chunk_open && seq->cache.open && !seq->cache.restore;
    sequence *orphan = worth ? malloc(sizeof *orphan) : NULL;
    request *copy = worth ? malloc(sizeof *copy) : NULL;
    if (!orphan || !copy) {
        free(orphan);
        free(copy);
        scheduler_remove(s, seq);
        return false;
    }
    replace(s, seq, orphan, copy);
    *r = copy;
    scheduler_forget_sequence(s, seq);
    return true;
}
