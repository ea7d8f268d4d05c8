/* sched/scheduler.c: see the header for the rules. A sequence is on exactly one list: waiting (by ticket), prefilling,
 * decoding (turn order: the head has waited longest), paused or failed. */
#include "sched/scheduler.h"

#include <assert.h>
#include <stdlib.h>

enum { PREFILL_WIDTH = 1 }; /* prompts being read at a time */

struct scheduler {
    runner *runner;
    const sched_policy *policy;
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
    bool chunk_since_decode;
};

static uint32_t pages_for(const scheduler *s, uint32_t token_count)
{
    return (token_count + s->runner->info.page_tokens - 1) / s->runner->info.page_tokens;
}

uint32_t scheduler_token_limit(const runner_info *info)
{
    uint64_t pool_tokens = (uint64_t)info->page_count * info->page_tokens;
    return pool_tokens < info->context_length ? (uint32_t)pool_tokens : info->context_length;
}

static status check_info(const runner_info *info, error *err)
{
    if (!info->context_length || !info->page_tokens || !info->page_count || !info->max_sequences || !info->max_rows ||
        !info->max_chunk_tokens || !info->max_open_chunks)
        return error_set(
            err, ERR_INVALID,
            "runner %s: context %u, page %u tokens, %u pages, %u sequences, %u rows, chunk %u, %u open chunks: "
            "all must be at least 1",
            info->model_name ? info->model_name : "?", info->context_length, info->page_tokens, info->page_count,
            info->max_sequences, info->max_rows, info->max_chunk_tokens, info->max_open_chunks);
    return OK;
}

static status allocate_tables(scheduler *s, error *err)
{
    const runner_info *info = &s->runner->info;
    s->pages_per_sequence = pages_for(s, scheduler_token_limit(info));
    s->page_tables = calloc((size_t)info->max_sequences * s->pages_per_sequence, sizeof *s->page_tables);
    s->slots = calloc(info->max_sequences, sizeof(sequence *));
    s->free_slots = calloc(info->max_sequences, sizeof *s->free_slots);
    s->rows = calloc(info->max_rows, sizeof *s->rows);
    s->picked = calloc(info->max_rows, sizeof(sequence *));
    if (!s->page_tables || !s->slots || !s->free_slots || !s->rows || !s->picked)
        return error_set(err, ERR_MEMORY, "scheduler: no memory for %u sequences of %u pages", info->max_sequences,
                         s->pages_per_sequence);
    while (s->free_slot_count < info->max_sequences) {
        s->free_slots[s->free_slot_count] = info->max_sequences - 1 - s->free_slot_count; /* slot 0 comes out first */
        s->free_slot_count++;
    }
    return OK;
}

status scheduler_create(scheduler **out, const scheduler_config *config, error *err)
{
    const runner_info *info = &config->runner->info;
    status st = check_info(info, err);
    if (st)
        return st;
    scheduler *s = calloc(1, sizeof *s);
    if (!s)
        return error_set(err, ERR_MEMORY, "scheduler: out of memory");
    s->runner = config->runner;
    s->policy = config->policy;
    s->max_rows = info->max_rows;
    s->chunk_tokens = config->chunk_tokens;
    if (s->chunk_tokens == 0 || s->chunk_tokens > info->max_chunk_tokens)
        s->chunk_tokens = info->max_chunk_tokens;
    page_pool_config pool = {info->page_count, config->page_shuffle_seed};
    if ((st = page_pool_create(&s->pool, &pool, err)) || (st = allocate_tables(s, err)))
        goto fail;
    *out = s;
    return OK;
fail:
    scheduler_destroy(s);
    return st;
}

void scheduler_destroy(scheduler *s)
{
    if (!s)
        return;
    assert(!s->waiting.count && !s->prefilling.count && !s->decoding.count && !s->paused.count && !s->failed.count);
    page_pool_destroy(s->pool);
    free(s->page_tables);
    free(s->slots);
    free(s->free_slots);
    free(s->rows);
    free(s->picked);
    free(s);
}

/* ---- lists, slots and pages ---- */

static sequence_list *list_of(scheduler *s, const sequence *seq)
{
    switch (seq->phase) {
    case PHASE_WAITING:
        return &s->waiting;
    case PHASE_PREFILL:
        return &s->prefilling;
    case PHASE_DECODE:
        return seq->paused ? &s->paused : &s->decoding;
    case PHASE_FAILED:
        return &s->failed;
    case PHASE_NONE:
        break;
    }
    return NULL;
}

static void move_to(scheduler *s, sequence *seq, sequence_phase phase)
{
    sequence_list *from = list_of(s, seq);
    if (from)
        sequence_list_remove(from, seq);
    seq->phase = phase;
    sequence_list *to = list_of(s, seq);
    if (!to)
        return;
    sequence *before = NULL;
    if (phase == PHASE_WAITING) { /* by ticket; a newcomer has the highest, a preempted one goes near the front */
        sequence *after = to->last;
        while (after && after->ticket > seq->ticket) {
            before = after;
            after = after->previous;
        }
    }
    sequence_list_insert(to, seq, before);
}

static void end_chunk(scheduler *s, sequence *seq)
{
    if (seq->chunk_open)
        s->open_chunks &= ~(1ull << seq->chunk.chunk_slot);
    seq->chunk_open = false;
}

static void leave_slot(scheduler *s, sequence *seq)
{
    if (seq->phase != PHASE_PREFILL && seq->phase != PHASE_DECODE)
        return;
    end_chunk(s, seq);
    s->runner->ops->sequence_close(s->runner, seq->slot);
    for (uint32_t i = 0; i < seq->page_count; i++)
        page_pool_release(s->pool, seq->pages[i]);
    seq->page_count = 0;
    seq->kv_count = 0;
    s->slots[seq->slot] = NULL;
    s->free_slots[s->free_slot_count++] = seq->slot;
}

static bool grow_pages(scheduler *s, sequence *seq, uint32_t token_count)
{
    for (uint32_t want = pages_for(s, token_count); seq->page_count < want; seq->page_count++) {
        assert(seq->page_count < s->pages_per_sequence);
        if (!page_pool_acquire(s->pool, &seq->pages[seq->page_count]))
            return false;
    }
    return true;
}

void scheduler_add(scheduler *s, sequence *seq)
{
    assert(seq->phase == PHASE_NONE);
    seq->ticket = s->next_ticket++;
    move_to(s, seq, PHASE_WAITING);
}

void scheduler_remove(scheduler *s, sequence *seq)
{
    leave_slot(s, seq);
    move_to(s, seq, PHASE_NONE);
}

void scheduler_pause(scheduler *s, sequence *seq, bool paused)
{
    if (seq->paused == paused)
        return;
    sequence_phase phase = seq->phase;
    if (phase != PHASE_DECODE) {
        seq->paused = paused;
        return;
    }
    move_to(s, seq, PHASE_NONE);
    seq->paused = paused;
    move_to(s, seq, phase);
}

sequence *scheduler_take_failed(scheduler *s)
{
    sequence *seq = s->failed.first;
    if (seq)
        move_to(s, seq, PHASE_NONE);
    return seq;
}

sequence *scheduler_any(const scheduler *s)
{
    const sequence_list *lists[] = {&s->waiting, &s->prefilling, &s->decoding, &s->paused, &s->failed};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        if (lists[i]->first)
            return lists[i]->first;
    return NULL;
}

sequence *scheduler_at(const scheduler *s, uint32_t slot)
{
    assert(slot < s->runner->info.max_sequences && s->slots[slot]);
    return s->slots[slot];
}

/* ---- admission and preemption ---- */

static uint32_t running_count(const scheduler *s)
{
    return s->prefilling.count + s->decoding.count + s->paused.count;
}

static bool fits_now(const scheduler *s, const sequence *seq)
{
    uint32_t limit = scheduler_token_limit(&s->runner->info);
    uint32_t tokens = sequence_history(seq) + 1; /* and the place of the token that comes out */
    uint64_t want = pages_for(s, tokens < limit ? tokens : limit);
    return s->free_slot_count > 0 && page_pool_read_counts(s->pool).free >= want + running_count(s);
}

static void admit(scheduler *s, sequence *seq, uint64_t now_us)
{
    uint32_t slot = s->free_slots[--s->free_slot_count];
    s->slots[slot] = seq;
    seq->slot = slot;
    seq->pages = s->page_tables + (size_t)slot * s->pages_per_sequence;
    sequence_start start = {.request_id = seq->request->id,
                            .params = &seq->request->sampling,
                            .tokens = seq->request->prompt,
                            .prompt_count = seq->request->prompt_count,
                            .generated_before = seq->generated};
    status st = s->runner->ops->sequence_open(s->runner, slot, &start);
    if (st) {
        s->slots[slot] = NULL;
        s->free_slots[s->free_slot_count++] = slot;
        seq->open_status = st;
        move_to(s, seq, PHASE_FAILED);
        return;
    }
    bool grown = grow_pages(s, seq, sequence_history(seq));
    assert(grown);
    (void)grown;
    if (seq->admitted_us == 0)
        seq->admitted_us = now_us;
    move_to(s, seq, PHASE_PREFILL);
}

static void admit_waiting(scheduler *s, uint64_t now_us)
{
    sequence *seq = s->waiting.first;
    while (seq && s->prefilling.count < PREFILL_WIDTH) {
        sequence *next = seq->next;
        if (!seq->paused) {
            if (!fits_now(s, seq))
                return; /* nobody overtakes: the first one would starve */
            admit(s, seq, now_us);
        }
        seq = next;
    }
}

static sequence *youngest_running(const scheduler *s)
{
    sequence *youngest = NULL;
    for (uint32_t i = 0; i < s->runner->info.max_sequences; i++)
        if (s->slots[i] && (!youngest || s->slots[i]->ticket > youngest->ticket))
            youngest = s->slots[i];
    return youngest;
}

static void preempt(scheduler *s, sequence *seq)
{
    leave_slot(s, seq);
    move_to(s, seq, PHASE_WAITING);
    s->preemptions++;
}

/* ---- building a plan ---- */

static uint32_t pick_rows(scheduler *s)
{
    uint32_t count = 0;
    for (sequence *seq = s->decoding.first; seq && count < s->max_rows; seq = seq->next)
        s->picked[count++] = seq;
    for (uint32_t i = 0; i < count; i++) {
        sequence *seq = s->picked[i];
        while (seq->phase == PHASE_DECODE && !grow_pages(s, seq, seq->kv_count + 1))
            preempt(s, youngest_running(s));
    }
    return count;
}

static void plan_rows(scheduler *s, step_plan *plan)
{
    uint32_t picked = pick_rows(s);
    for (uint32_t i = 0; i < picked; i++) {
        sequence *seq = s->picked[i];
        if (seq->phase != PHASE_DECODE) /* preempted for another row */
            continue;
        move_to(s, seq, PHASE_DECODE); /* to the end of the turn order */
        s->rows[plan->row_count++] = (decode_row){.seq = seq->slot,
                                                  .pages = seq->pages,
                                                  .position = seq->kv_count,
                                                  .token = seq->request->prompt[seq->kv_count]};
    }
    plan->rows = s->rows;
}

static uint32_t take_chunk_slot(scheduler *s)
{
    uint32_t slot = (uint32_t)__builtin_ctzll(~s->open_chunks);
    assert(slot < s->runner->info.max_open_chunks);
    s->open_chunks |= 1ull << slot;
    return slot;
}

static void plan_chunk(scheduler *s, step_plan *plan, uint32_t token_budget)
{
    sequence *seq = s->prefilling.first;
    if (!seq)
        return;
    if (!seq->chunk_open) {
        uint32_t left = sequence_history(seq) - seq->kv_count;
        uint32_t count = left < token_budget ? left : token_budget;
        assert(count >= 1 && count <= s->runner->info.max_chunk_tokens);
        seq->chunk = (prefill_chunk){.seq = seq->slot,
                                     .pages = seq->pages,
                                     .position = seq->kv_count,
                                     .tokens = seq->request->prompt + seq->kv_count,
                                     .token_count = count,
                                     .sample = count == left,
                                     .chunk_slot = take_chunk_slot(s)};
        seq->chunk_open = true;
    }
    plan->chunk = seq->chunk;
}

static policy_view view_of(const scheduler *s, uint64_t now_us)
{
    const sequence *head = s->prefilling.first;
    return (policy_view){.now_us = now_us,
                         .decoding = s->decoding.count,
                         .prefill_tokens = head ? sequence_history(head) - head->kv_count : 0,
                         .chunk_open = head && head->chunk_open,
                         .chunk_since_decode = s->chunk_since_decode,
                         .max_rows = s->max_rows,
                         .chunk_tokens = s->chunk_tokens};
}

void scheduler_next(scheduler *s, uint64_t now_us, step_plan *plan)
{
    admit_waiting(s, now_us);
    uint64_t preemptions;
    do { /* again when every row had to give its pages to streams that are paused */
        preemptions = s->preemptions;
        policy_view view = view_of(s, now_us);
        policy_choice choice = s->policy->choose(&view);
        *plan = (step_plan){.deadline_us = choice.deadline_us};
        assert(choice.kind != STEP_FUSED || !view.chunk_open);
        if (choice.kind == STEP_DECODE || choice.kind == STEP_FUSED)
            plan_rows(s, plan);
        if (choice.kind == STEP_PREFILL || choice.kind == STEP_FUSED)
            plan_chunk(s, plan, choice.chunk_tokens);
        bool rows = plan->row_count > 0, chunk = plan->chunk.token_count > 0;
        plan->kind = rows && chunk ? STEP_FUSED : rows ? STEP_DECODE : chunk ? STEP_PREFILL : STEP_IDLE;
    } while (plan->kind == STEP_IDLE && s->preemptions != preemptions);
}

/* ---- applying a result ---- */

static void append_token(sequence *seq, int32_t token)
{
    assert(seq->generated < seq->request->max_tokens);
    seq->request->prompt[sequence_history(seq)] = token;
    seq->generated++;
}

static void apply_chunk(scheduler *s, const step_plan *plan, const step_result *result)
{
    if (plan->chunk.token_count == 0 || !result->chunk_done)
        return;
    sequence *seq = scheduler_at(s, plan->chunk.seq);
    end_chunk(s, seq);
    seq->kv_count += plan->chunk.token_count;
    if (!plan->chunk.sample)
        return;
    assert(seq->kv_count == sequence_history(seq));
    append_token(seq, result->tokens[plan->row_count].token);
    move_to(s, seq, PHASE_DECODE);
}

void scheduler_apply(scheduler *s, const step_plan *plan, const step_result *result)
{
    for (uint32_t i = 0; i < plan->row_count; i++) {
        sequence *seq = scheduler_at(s, plan->rows[i].seq);
        seq->kv_count++;
        append_token(seq, result->tokens[i].token);
    }
    apply_chunk(s, plan, result);
    if (plan->row_count > 0)
        s->chunk_since_decode = false;
    if (plan->kind == STEP_PREFILL && result->chunk_done)
        s->chunk_since_decode = true;
}

scheduler_counts scheduler_read_counts(const scheduler *s)
{
    return (scheduler_counts){.waiting = s->waiting.count,
                              .running = running_count(s),
                              .paused = s->paused.count,
                              .preemptions = s->preemptions,
                              .pages = page_pool_read_counts(s->pool)};
}
