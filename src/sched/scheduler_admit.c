/* sched/scheduler_admit.c: who gets a slot and pages, who gives them up, and whose prompt goes on. */
#include "sched/scheduler_state.h"

#include <assert.h>

enum { RIVAL_CHUNK_MIN = 256 };
static const double rival_chunk_us = 4e5;
static const uint64_t modest_us = 10000000;
static const double bound_part = 0.85; /* of a bound that a decode step may take */

void scheduler_set_backlog(scheduler *s, sequence *seq)
{
    double *sum = &s->lane_backlog_us[sequence_lane(seq)];
    *sum -= seq->backlog_us;
    if (*sum < 0)
        *sum = 0;
    bool pending = seq->phase == PHASE_WAITING || seq->phase == PHASE_PREFILL;
    uint32_t there = seq->phase == PHASE_WAITING ? seq->cache.expected : seq->kv_count;
    seq->backlog_us =
        pending ? step_model_prefill_us(&s->model, there, sequence_history(seq) - there) * (1 - seq->chunk_part) : 0;
    *sum += seq->backlog_us;
}

/* ---- room ---- */

static bool is_lesser(const sequence *seq)
{
    return seq->batch || seq->document;
}

static bool has_room(const scheduler *s, const sequence *seq)
{
    const runner_info *info = &s->runner->info;
    uint32_t limit = scheduler_token_limit(info), running = scheduler_running(s);
    uint32_t tokens = sequence_history(seq) + 1; /* and the place of the token that comes out */
    uint64_t want = scheduler_pages_for(s, tokens < limit ? tokens : limit) + running;
    want -= seq->cache.match.in_use < want ? seq->cache.match.in_use : want;
    if (running > 0 && !seq->cold && seq->cache.expected > 0) /* what it begins with is held until it has its own */
        want += s->state_pages + 1;
    if (!s->policy->in_order && is_lesser(seq)) {
        if (s->lesser_running >= info->max_sequences - info->max_sequences / 4)
            return false;
        if (running > 0)
            want += info->page_count / 16;
    }
    /* For a while a document beside others takes no room that a session would miss. */
    bool young = s->now_us < seq->arrived_us + modest_us;
    bool modest = is_lesser(seq) && running > 0 && young && s->prefixes && !seq->request->keep;
    uint32_t room = modest ? prefix_cache_spare(s->prefixes, scheduler_owner(seq)) + tails_pages(&s->tails)
                           : scheduler_room(s, seq);
    return s->free_slot_count > 0 && room >= want;
}

static bool fits_now(scheduler *s, const sequence *seq)
{
    do
        if (has_room(s, seq))
            return true;
    while (scheduler_drop_orphans(s));
    return false;
}

/* Would one stream more make the decode step itself longer than a bound? Then it waits: a queue is not a broken bound.
 * Streams whose bound no load at all allows (the default one on a slow box) do not hold others up. */
static bool keeps_bounds(const scheduler *s, const sequence *seq)
{
    uint32_t streams = s->interactive_decoding;
    if (seq->batch || streams == 0)
        return true;
    uint64_t gap_us = s->least_gap_us && s->least_gap_us < seq->gap_us ? s->least_gap_us : seq->gap_us;
    double alone_us = step_model_decode_us(&s->model, 1, sequence_history(seq));
    double us = step_model_decode_us(&s->model, streams + 1, s->kv_decoding + sequence_history(seq));
    return us <= bound_part * (double)gap_us || alone_us > bound_part * (double)gap_us;
}

/* Back from a slot, to start again by other means. */
static void withdraw(scheduler *s, sequence *seq)
{
    seq->cache.no_tiers = true;
    s->lesser_running += is_lesser(seq); /* leaving counts it out */
    s->tenant_running[seq->tenant]++;
    scheduler_leave_slot(s, seq, false);
    scheduler_move_to(s, seq, PHASE_WAITING);
    scheduler_set_backlog(s, seq);
}

static bool try_admit(scheduler *s, sequence *seq, uint64_t now_us)
{
    uint32_t slot = s->free_slots[--s->free_slot_count];
    s->slots[slot] = seq;
    seq->slot = slot;
    seq->pages = s->page_tables + (size_t)slot * s->pages_per_sequence;
    bool begun = scheduler_cache_begin(s, seq);
    sequence_start start = {.request_id = seq->request->id,
                            .params = &seq->request->sampling,
                            .tokens = seq->request->prompt,
                            .prompt_count = seq->request->prompt_count,
                            .generated_before = seq->generated};
    status st = s->runner->ops->sequence_open(s->runner, slot, &start);
    scheduler_move_to(s, seq, PHASE_PREFILL);
    bool grown = !st && begun && scheduler_grow_pages(s, seq, sequence_history(seq));
    if (!grown || !scheduler_cache_start(s, seq)) {
        withdraw(s, seq);
        seq->cold |= !grown;
        if (!st)
            return false;
        seq->open_status = st;
        scheduler_move_to(s, seq, PHASE_FAILED);
        scheduler_set_backlog(s, seq);
        return true;
    }
    seq->cold = false;
    if (seq->admitted_us == 0)
        seq->admitted_us = now_us;
    s->lesser_running += is_lesser(seq);
    s->tenant_running[seq->tenant]++;
    scheduler_set_backlog(s, seq);
    scheduler_tell(s, seq, MOVE_ADMITTED);
    return true;
}

/* The pages that a state or a tail lies in were counted as room, and it held them: without them there is enough. */
static void admit(scheduler *s, sequence *seq, uint64_t now_us)
{
    if (!try_admit(s, seq, now_us) && seq->cold)
        try_admit(s, seq, now_us);
}

/* ---- giving up ---- */

static int rank_of(const scheduler *s, const sequence *seq) /* the higher, the sooner it goes */
{
    if (s->policy->in_order || seq->orphan)
        return seq->orphan ? 3 : 0;
    return seq->batch ? 2 : seq->document && seq->phase == PHASE_PREFILL ? 1 : 0;
}

static sequence *first_to_go(const scheduler *s)
{
    sequence *chosen = NULL;
    for (uint32_t i = 0; i < s->runner->info.max_sequences; i++) {
        sequence *seq = s->slots[i];
        if (!seq)
            continue;
        int difference = chosen ? rank_of(s, seq) - rank_of(s, chosen) : 1;
        if (difference > 0 || (difference == 0 && seq->ticket > chosen->ticket))
            chosen = seq;
    }
    return chosen;
}

static void preempt(scheduler *s, sequence *seq)
{
    if (seq->orphan) {
        scheduler_drop_orphan(s, seq);
        return;
    }
    scheduler_leave_slot(s, seq, false);
    scheduler_move_to(s, seq, PHASE_WAITING);
    seq->last_token_us = 0;
    seq->preempted = true;
    scheduler_set_backlog(s, seq);
    s->preemptions++;
    scheduler_tell(s, seq, MOVE_PREEMPTED);
}

bool scheduler_preempt_for(scheduler *s, const sequence *seq)
{
    sequence *chosen = first_to_go(s);
    preempt(s, chosen);
    return chosen != seq;
}

/* Batch sequences give way to an interactive prompt, if that is enough for it. */
static bool make_room(scheduler *s, const sequence *seq)
{
    uint64_t pages = scheduler_room(s, seq), slots = s->free_slot_count;
    for (uint32_t i = 0; i < s->runner->info.max_sequences; i++)
        if (s->slots[i] && s->slots[i]->batch) {
            pages += s->slots[i]->page_count;
            slots++;
        }
    if (slots == 0 || pages < scheduler_pages_for(s, sequence_history(seq) + 1) + scheduler_running(s))
        return false;
    while (!fits_now(s, seq)) {
        sequence *chosen = first_to_go(s);
        if (!chosen || !chosen->batch)
            return false;
        preempt(s, chosen);
    }
    return true;
}

/* ---- order ---- */

/* While documents of several tenants compete, chunks are short enough to share by. */
uint32_t scheduler_chunk_tokens(const scheduler *s, const sequence *seq)
{
    if (!seq->document || !s->rivals)
        return s->chunk_tokens;
    uint32_t tokens = step_model_prefill_tokens(&s->model, seq->kv_count, rival_chunk_us);
    tokens = tokens < RIVAL_CHUNK_MIN ? RIVAL_CHUNK_MIN : tokens;
    return tokens < s->chunk_tokens ? tokens : s->chunk_tokens;
}

static double chunk_debt_us(const scheduler *s, const sequence *seq) /* of virtual time: one chunk */
{
    const tenant *who = &s->accounts.tenants.tenants[seq->tenant];
    double us = step_model_prefill_us(&s->model, seq->kv_count, scheduler_chunk_tokens(s, seq));
    return us / (who->weight > 0 ? who->weight : 1);
}

static void look_for_rivals(scheduler *s)
{
    const sequence *first = NULL;
    const sequence_list *lists[] = {&s->prefilling, &s->waiting};
    s->rivals = false;
    for (int i = 0; i < 2; i++)
        for (const sequence *seq = lists[i]->first; seq && !s->rivals; seq = seq->next) {
            if (!seq->document || (seq->orphan && !seq->wanted))
                continue;
            s->rivals = first && seq->tenant != first->tenant;
            first = first ? first : seq;
        }
}

static bool goes_before(const scheduler *s, const sequence *a, const sequence *b)
{
    double x = accounts_virtual(&s->accounts, a->tenant), y = accounts_virtual(&s->accounts, b->tenant);
    return a->tenant != b->tenant && x != y ? x < y : a->ticket < b->ticket;
}

static bool may_run(const scheduler *s, const sequence *seq)
{
    uint32_t most = s->accounts.tenants.tenants[seq->tenant].concurrent_max;
    return !seq->paused && (most == 0 || s->tenant_running[seq->tenant] < most);
}

static void find_first(const scheduler *s, sequence *first[LANES])
{
    for (int l = 0; l < LANES; l++)
        first[l] = NULL;
    for (sequence *seq = s->waiting.first; seq; seq = seq->next) {
        lane l = sequence_lane(seq);
        if (may_run(s, seq) && (!first[l] || goes_before(s, seq, first[l])))
            first[l] = seq;
    }
}

/* Is a prompt of this lane being read already, so that `next` has to wait? A document does not wait for one that was
 * set aside and comes after it, nor for the running one once that one's tenant is more than a chunk ahead. */
static bool lane_is_taken(const scheduler *s, const sequence *next)
{
    uint32_t documents = 0;
    bool taken = false;
    for (const sequence *seq = s->prefilling.first; seq; seq = seq->next) {
        if ((seq->orphan && !seq->wanted) || !sequence_may_sample(seq)) /* one that is held keeps nobody waiting */
            continue;
        documents += seq->document;
        if (sequence_lane(seq) != sequence_lane(next))
            continue;
        double ahead = accounts_virtual(&s->accounts, seq->tenant) - accounts_virtual(&s->accounts, next->tenant);
        double allowed = seq == s->document ? chunk_debt_us(s, seq) : 0;
        taken |= !seq->document || seq->chunk_open || seq->tenant == next->tenant || ahead <= allowed;
    }
    return taken || (next->document && documents >= DOCUMENTS_OPEN_MAX);
}

static void admit_lanes(scheduler *s, uint64_t now_us)
{
    sequence *first[LANES];
    scheduler_cache_hear(s);
    find_first(s, first);
    for (int l = 0; l < LANES; l++) {
        sequence *seq = first[l];
        if (!seq || !scheduler_cache_look(s, seq) || scheduler_waits_for_orphan(s, seq) || lane_is_taken(s, seq) ||
            !keeps_bounds(s, seq))
            continue;
        if (!fits_now(s, seq) && !((l == LANE_SHORT || l == LANE_TURN) && make_room(s, seq)))
            return; /* what comes after would take the room that it waits for */
        admit(s, seq, now_us);
    }
}

void scheduler_admit_waiting(scheduler *s, uint64_t now_us)
{
    scheduler_age_orphans(s);
    if (!s->policy->in_order) {
        look_for_rivals(s);
        if (s->waiting.count > 0)
            admit_lanes(s, now_us);
        return;
    }
    sequence *seq = s->waiting.first;
    while (seq && s->prefilling.count == s->orphans) {
        sequence *next = seq->next;
        if (may_run(s, seq)) {
            if (!scheduler_cache_look(s, seq) || scheduler_waits_for_orphan(s, seq))
                return;
            if (!fits_now(s, seq))
                return; /* nobody overtakes: the first one would starve */
            admit(s, seq, now_us);
        }
        seq = next;
    }
}

/* ---- whose prompt goes on ---- */

/* The document that runs goes on until its tenant is a chunk ahead of another's. */
static sequence *pick_document(scheduler *s, lane l)
{
    sequence *best = NULL, *running = NULL;
    for (sequence *seq = s->prefilling.first; seq; seq = seq->next) {
        if (!seq->document)
            continue;
        if (!scheduler_prompt_ready(seq))
            continue;
        if (seq->chunk_open)
            return seq;
        if (sequence_lane(seq) != l)
            continue;
        if (seq == s->document)
            running = seq;
        if (!best || goes_before(s, seq, best))
            best = seq;
    }
    if (!running || running == best)
        return best;
    double ahead = accounts_virtual(&s->accounts, running->tenant) - accounts_virtual(&s->accounts, best->tenant);
    return best->tenant == running->tenant || ahead <= chunk_debt_us(s, running) ? running : best;
}

static bool chunk_slot_free(const scheduler *s)
{
    uint32_t most = s->runner->info.max_open_chunks;
    uint64_t all = most >= 64 ? UINT64_MAX : (1ull << most) - 1;
    return (s->open_chunks & all) != all;
}

static sequence *pick_in_lane(scheduler *s, lane l)
{
    if (l >= LANE_DOCUMENT)
        return pick_document(s, l);
    for (sequence *seq = s->prefilling.first; seq; seq = seq->next)
        if (sequence_lane(seq) == l && scheduler_prompt_ready(seq))
            return seq;
    return NULL;
}

/* No place for one more unfinished chunk: of those that are open, the one in the first lane comes to its end. */
static sequence *first_open(const scheduler *s)
{
    sequence *best = NULL;
    for (sequence *seq = s->prefilling.first; seq; seq = seq->next)
        if (seq->chunk_open && scheduler_prompt_ready(seq) && (!best || sequence_lane(seq) < sequence_lane(best)))
            best = seq;
    return best;
}

sequence *scheduler_pick_prompt(scheduler *s)
{
    sequence *first = NULL;
    s->ready = 0;
    for (sequence *seq = s->prefilling.last; seq; seq = seq->previous)
        if (scheduler_prompt_ready(seq)) {
            s->ready |= 1u << sequence_lane(seq);
            first = seq;
        }
    if (s->policy->in_order || s->ready == 0)
        return first;
    sequence *seq = pick_in_lane(s, accounts_pick_lane(&s->accounts, s->ready));
    return seq && !seq->chunk_open && !chunk_slot_free(s) ? first_open(s) : seq;
}
