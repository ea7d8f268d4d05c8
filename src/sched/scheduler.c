/* sched/scheduler.c: life, lists, slots and pages. Who is admitted: scheduler_admit.c; what is done next:
 * scheduler_plan.c. */
#include "sched/scheduler_state.h"

#include <assert.h>
#include <stdlib.h>

uint32_t scheduler_pages_for(const scheduler *s, uint32_t token_count)
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
    s->pages_per_sequence = scheduler_pages_for(s, scheduler_token_limit(info));
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

static status take_settings(scheduler *s, const scheduler_config *config, error *err)
{
    const runner_info *info = &s->runner->info;
    s->settings = config->settings;
    if (config->model)
        s->model = *config->model;
    status st = schedule_settings_resolve(&s->settings, &s->model, s->max_rows, err);
    if (st)
        return st;
    s->chunk_tokens = s->settings.chunk_tokens;
    if (s->chunk_tokens == 0 || s->chunk_tokens > info->max_chunk_tokens)
        s->chunk_tokens = info->max_chunk_tokens;
    s->document_tokens = schedule_document_tokens(&s->settings, &s->model, s->settings.gap_us);
    tenant_table alone = tenant_table_default();
    accounts_init(&s->accounts, config->tenants ? config->tenants : &alone, s->settings.chat_share);
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
    s->page_tokens = info->page_tokens;
    if ((st = take_settings(s, config, err)))
        goto fail;
    page_pool_config pool = {info->page_count, config->page_shuffle_seed};
    if ((st = page_pool_create(&s->pool, &pool, err)) || (st = allocate_tables(s, err)) ||
        (st = scheduler_cache_create(s, config, err)))
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
    while (scheduler_drop_orphans(s)) {}
    assert(!s->waiting.count && !s->prefilling.count && !s->decoding.count && !s->paused.count && !s->failed.count);
    scheduler_cache_destroy(s);
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

static void count_stream(scheduler *s, const sequence *seq, const sequence_list *list, int change)
{
    if (list == &s->decoding && !seq->batch)
        s->interactive_decoding += (uint32_t)change;
}

void scheduler_move_to(scheduler *s, sequence *seq, sequence_phase phase)
{
    sequence_list *from = list_of(s, seq);
    if (from) {
        sequence_list_remove(from, seq);
        count_stream(s, seq, from, -1);
    }
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
    count_stream(s, seq, to, 1);
}

void scheduler_end_chunk(scheduler *s, sequence *seq)
{
    if (seq->chunk_open)
        s->open_chunks &= ~(1ull << seq->chunk.chunk_slot);
    seq->chunk_open = false;
    seq->chunk_part = 0;
}

void scheduler_leave_slot(scheduler *s, sequence *seq, bool ended)
{
    if (seq->phase != PHASE_PREFILL && seq->phase != PHASE_DECODE)
        return;
    if (ended && !seq->chunk_open)
        scheduler_tail_save(s, seq);
    scheduler_end_chunk(s, seq);
    s->runner->ops->sequence_close(s->runner, seq->slot);
    scheduler_cache_leave(s, seq, ended);
    for (uint32_t i = 0; i < seq->page_count; i++)
        page_pool_release(s->pool, seq->pages[i]);
    seq->page_count = 0;
    seq->kv_count = 0;
    s->slots[seq->slot] = NULL;
    s->free_slots[s->free_slot_count++] = seq->slot;
    s->lesser_running -= seq->batch || seq->document;
    s->tenant_running[seq->tenant]--;
    if (s->document == seq)
        s->document = NULL;
}

bool scheduler_grow_pages(scheduler *s, sequence *seq, uint32_t token_count)
{
    for (uint32_t want = scheduler_pages_for(s, token_count); seq->page_count < want; seq->page_count++) {
        assert(seq->page_count < s->pages_per_sequence);
        if (!scheduler_take_page(s, seq, &seq->pages[seq->page_count]))
            return false;
    }
    return true;
}

static void take_request(scheduler *s, sequence *seq, uint64_t now_us)
{
    const request *r = seq->request;
    seq->tenant = r->tenant < s->accounts.tenants.count ? r->tenant : 0;
    const tenant *who = &s->accounts.tenants.tenants[seq->tenant];
    seq->batch = r->klass == CLASS_BATCH;
    seq->gap_us = r->gap_us ? r->gap_us : who->gap_us ? who->gap_us : s->settings.gap_us;
    seq->document = sequence_history(seq) > s->document_tokens;
    seq->turn = false; /* nothing of it is found yet */
    seq->arrived_us = now_us;
    scheduler_cache_arrive(s, seq);
}

void scheduler_add(scheduler *s, sequence *seq, uint64_t now_us)
{
    assert(seq->phase == PHASE_NONE);
    seq->ticket = s->next_ticket++;
    take_request(s, seq, now_us);
    accounts_enter(&s->accounts, seq->tenant);
    scheduler_move_to(s, seq, PHASE_WAITING);
    scheduler_set_backlog(s, seq);
}

void scheduler_forget_sequence(scheduler *s, sequence *seq)
{
    scheduler_move_to(s, seq, PHASE_NONE);
    scheduler_set_backlog(s, seq);
    scheduler_cache_end_ask(s, seq);
    accounts_leave(&s->accounts, seq->tenant);
}

void scheduler_remove(scheduler *s, sequence *seq)
{
    if (seq->phase == PHASE_NONE)
        return;
    scheduler_leave_slot(s, seq, true);
    scheduler_forget_sequence(s, seq);
}

void scheduler_set_tenants(scheduler *s, const tenant_table *tenants)
{
    accounts_set_tenants(&s->accounts, tenants);
    scheduler_set_floors(s);
}

void scheduler_pause(scheduler *s, sequence *seq, bool paused)
{
    if (seq->paused == paused)
        return;
    sequence_phase phase = seq->phase;
    if (paused)
        seq->last_token_us = 0;
    if (phase != PHASE_DECODE) {
        seq->paused = paused;
        return;
    }
    scheduler_move_to(s, seq, PHASE_NONE);
    seq->paused = paused;
    scheduler_move_to(s, seq, phase);
}

sequence *scheduler_take_failed(scheduler *s)
{
    sequence *seq = s->failed.first;
    if (seq)
        scheduler_forget_sequence(s, seq);
    return seq;
}

sequence *scheduler_any(const scheduler *s)
{
    const sequence_list *lists[] = {&s->waiting, &s->prefilling, &s->decoding, &s->paused, &s->failed};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        for (sequence *seq = lists[i]->first; seq; seq = seq->next)
            if (!seq->orphan)
                return seq;
    return NULL;
}

/* ---- what others read ---- */

uint32_t scheduler_running(const scheduler *s)
{
    return s->prefilling.count + s->decoding.count + s->paused.count - s->orphans;
}

scheduler_counts scheduler_read_counts(const scheduler *s)
{
    return (scheduler_counts){.waiting = s->waiting.count,
                              .running = scheduler_running(s),
                              .paused = s->paused.count,
                              .preemptions = s->preemptions,
                              .pages = page_pool_read_counts(s->pool)};
}

plan_facts scheduler_plan_facts(const scheduler *s)
{
    return s->facts;
}

const step_model *scheduler_model(const scheduler *s)
{
    return &s->model;
}

const schedule_settings *scheduler_settings(const scheduler *s)
{
    return &s->settings;
}

uint32_t scheduler_tenant_running(const scheduler *s, uint32_t tenant)
{
    return s->tenant_running[tenant];
}

uint64_t scheduler_tenant_device_us(const scheduler *s, uint32_t tenant)
{
    return s->accounts.device_us[tenant];
}

void scheduler_watch(scheduler *s, void (*moved)(void *context, const sequence *seq, scheduler_move move),
                     void *context)
{
    s->moved = moved;
    s->moved_context = context;
}

void scheduler_tell(scheduler *s, const sequence *seq, scheduler_move move)
{
    if (s->moved)
        s->moved(s->moved_context, seq, move);
}

void scheduler_fill_admission(const scheduler *s, admission_view *view)
{
    const runner_info *info = &s->runner->info;
    uint32_t streams = scheduler_running(s) - s->lesser_running;
    view->streams = streams;
    view->slots_free = info->max_sequences - scheduler_running(s);
    view->backlog_short_us = s->lane_backlog_us[LANE_SHORT];
    view->backlog_turns_us = s->lane_backlog_us[LANE_SHORT] + s->lane_backlog_us[LANE_TURN];
    view->backlog_documents_us = 0;
    for (int l = 0; l < LANES; l++)
        view->backlog_documents_us += s->lane_backlog_us[l];
    uint64_t kv = streams ? s->kv_decoding * (streams + 1) / streams : 0;
    view->decode_us = step_model_decode_us(&s->model, streams + 1, kv);
    view->smallest_gap_us = (double)schedule_smallest_gap_us(&s->model);
    view->chunk_us = s->model.prefill[TERM_CHUNK];
    view->prefill_token_us = s->model.prefill[TERM_TOKEN];
    view->prefill_depth_us = s->model.prefill[TERM_DEPTH];
    view->prefill_share = s->had_streams ? 1 - s->settings.chat_share : 1;
    view->document_tokens = s->document_tokens;
    view->turn_tokens = schedule_turn_tokens(&s->settings, s->document_tokens);
}
