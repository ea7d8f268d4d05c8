/* sched/scheduler_plan.c: what the device does next, and what is learned from how long it took. */
#include "sched/scheduler_state.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>

enum { MARGIN_STEPS = 32 };
static const double delivery_part = 0.08; /* of a bound, kept for the way from here to the client */
static const double batch_starved_us = 3e5;

/* ---- the view ---- */

typedef struct { /* the streams that could decode */
    uint32_t interactive, held;
    uint64_t kv_interactive, kv_all;
    uint64_t deadline_us, gap_us; /* the earliest, and that stream's bound */
    uint64_t least_gap_us;
} stream_facts;

static stream_facts look_at_streams(const scheduler *s)
{
    stream_facts f = {.deadline_us = UINT64_MAX};
    for (sequence *seq = s->decoding.first; seq; seq = seq->next) {
        uint64_t kv = seq->kv_count + 1;
        seq->held = !sequence_may_sample(seq);
        f.held += seq->held;
        if (seq->held)
            continue;
        f.kv_all += kv;
        if (seq->batch)
            continue;
        f.interactive++;
        f.kv_interactive += kv;
        uint64_t deadline_us = seq->last_token_us + seq->gap_us; /* without a last token: due at once */
        if (deadline_us < f.deadline_us) {
            f.deadline_us = deadline_us;
            f.gap_us = seq->gap_us;
        }
        if (f.least_gap_us == 0 || seq->gap_us < f.least_gap_us)
            f.least_gap_us = seq->gap_us;
    }
    return f;
}

static void refresh_margin(scheduler *s)
{
    if (s->margin_age++ % MARGIN_STEPS != 0)
        return;
    s->margin_part = step_model_under(&s->model, MODEL_DECODE);
    if (s->margin_part > 1)
        s->margin_part = 1;
    s->document_tokens = schedule_document_tokens(&s->settings, &s->model, s->settings.gap_us);
    if (s->prefixes)
        prefix_cache_set_cost(s->prefixes, s->model.prefill[TERM_TOKEN], s->model.prefill[TERM_DEPTH]);
}

static policy_view view_of(scheduler *s, uint64_t now_us)
{
    stream_facts f = look_at_streams(s);
    sequence *prompt = s->prompt = scheduler_pick_prompt(s);
    uint32_t left = prompt ? sequence_history(prompt) - prompt->kv_count : 0;
    uint32_t rows = f.interactive < s->max_rows ? f.interactive : s->max_rows;
    s->decode_us = step_model_decode_us(&s->model, rows, f.kv_interactive);
    s->kv_decoding = f.kv_interactive;
    s->least_gap_us = f.least_gap_us;
    s->had_streams = f.interactive > 0;
    s->had_batch = s->decoding.count - f.held > f.interactive;
    s->had_prompts = prompt != NULL;
    refresh_margin(s);
    policy_view view = {.now_us = now_us,
                        .decoding = s->decoding.count - f.held,
                        .interactive = f.interactive,
                        .prefill_tokens = left,
                        .document = prompt && (prompt->document || prompt->turn),
                        .chunk_open = prompt && prompt->chunk_open,
                        .chunk_since_decode = s->chunk_since_decode,
                        .chunk_ended_us = s->chunk_ended_us,
                        .max_rows = s->max_rows,
                        .chunk_tokens = s->chunk_tokens,
                        .window_us = s->settings.window_us,
                        .deadline_us = f.deadline_us,
                        .gap_us = (double)f.gap_us,
                        .after_decode = s->after_decode,
                        .decode_us = s->decode_us,
                        .margin_us = s->margin_part * s->decode_us + delivery_part * (double)f.gap_us,
                        .overrun_us = step_model_overrun_us(&s->model),
                        .chat_share = s->settings.chat_share,
                        .chat_owed_us = s->accounts.chat_owed_us,
                        .prefill_owed_us = s->accounts.prefill_owed_us,
                        .batch_owed_us = s->accounts.batch_owed_us,
                        .solo_steps = s->solo_steps};
    if (prompt && !prompt->chunk_open && left <= s->chunk_tokens) {
        view.rest_us = step_model_prefill_us(&s->model, prompt->kv_count, left);
        view.fused_us = step_model_fused_us(&s->model, rows, f.kv_interactive, prompt->kv_count, left);
    }
    s->facts.slack_us =
        f.interactive ? (int64_t)(f.deadline_us - now_us) - (int64_t)s->decode_us : INT64_MAX; /* may be negative */
    return view;
}

/* ---- decode rows ---- */

static void pick_streams(scheduler *s, uint32_t *count, bool batch, double budget_us, uint64_t *kv)
{
    for (sequence *seq = s->decoding.first; seq && *count < s->max_rows; seq = seq->next) {
        if (seq->batch != batch || seq->held)
            continue;
        uint64_t with = *kv + seq->kv_count + 1;
        if (batch && step_model_decode_us(&s->model, *count + 1, with) > budget_us)
            continue;
        *kv = with;
        s->picked[(*count)++] = seq;
    }
}

/* In order: everybody in turn. Else the interactive ones, then batch within the budget. */
static uint32_t pick_rows(scheduler *s, double batch_us)
{
    uint32_t count = 0;
    uint64_t kv = 0;
    if (s->policy->in_order) {
        for (sequence *seq = s->decoding.first; seq && count < s->max_rows; seq = seq->next)
            if (!seq->held)
                s->picked[count++] = seq;
    } else {
        pick_streams(s, &count, false, 0, &kv);
        uint32_t interactive = count;
        bool alone = interactive == 0;
        if (batch_us > 0 || alone)
            pick_streams(s, &count, true, alone ? 1e300 : batch_us, &kv);
        if (batch_us > 0 && count == interactive && s->accounts.batch_owed_us > batch_starved_us)
            for (sequence *seq = s->decoding.first; seq && count == interactive && count < s->max_rows; seq = seq->next)
                if (seq->batch && !seq->held) /* one, though it does not fit */
                    s->picked[count++] = seq;
    }
    for (uint32_t i = 0; i < count; i++) {
        sequence *seq = s->picked[i];
        while (seq->phase == PHASE_DECODE && !scheduler_grow_pages(s, seq, seq->kv_count + 1))
            if (!scheduler_preempt_for(s, seq))
                break;
    }
    return count;
}

static void plan_rows(scheduler *s, step_plan *plan, double batch_us)
{
    uint32_t picked = pick_rows(s, batch_us);
    for (uint32_t i = 0; i < picked; i++) {
        sequence *seq = s->picked[i];
        if (seq->phase != PHASE_DECODE) /* preempted for another row */
            continue;
        scheduler_move_to(s, seq, PHASE_DECODE); /* to the end of the turn order */
        s->rows[plan->row_count++] = (decode_row){.seq = seq->slot,
                                                  .pages = seq->pages,
                                                  .position = seq->kv_count,
                                                  .token = seq->request->prompt[seq->kv_count]};
    }
    plan->rows = s->rows;
}

/* ---- chunks ---- */

static uint32_t take_chunk_slot(scheduler *s)
{
    uint32_t slot = (uint32_t)__builtin_ctzll(~s->open_chunks);
    assert(slot < s->runner->info.max_open_chunks);
    s->open_chunks |= 1ull << slot;
    return slot;
}

static void turn_to_document(scheduler *s, sequence *seq)
{
    if (s->document && s->document != seq && s->document->phase == PHASE_PREFILL)
        scheduler_tell(s, s->document, MOVE_SET_ASIDE);
    s->document = seq;
}

static void plan_chunk(scheduler *s, step_plan *plan, uint32_t token_budget)
{
    sequence *seq = s->prompt;
    if (!seq || seq->phase != PHASE_PREFILL) /* preempted for a row */
        return;
    if (seq->document && !seq->orphan) /* an orphan is nobody's document: none of its moves is told */
        turn_to_document(s, seq);
    if (!seq->chunk_open) {
        uint32_t left = sequence_history(seq) - seq->kv_count, most = scheduler_chunk_tokens(s, seq);
        token_budget = token_budget < most ? token_budget : most;
        uint32_t count = left < token_budget ? left : token_budget, over = (seq->kv_count + count) % s->page_tokens;
        if (s->state_pages && count < left && count > over)
            count -= over; /* to a page border, where the state can be kept */
        assert(count >= 1 && count <= s->runner->info.max_chunk_tokens);
        seq->chunk = (prefill_chunk){.seq = seq->slot,
                                     .pages = seq->pages,
                                     .position = seq->kv_count,
                                     .tokens = seq->request->prompt + seq->kv_count,
                                     .token_count = count,
                                     .sample = count == left,
                                     .chunk_slot = take_chunk_slot(s)};
        seq->chunk_open = true;
        seq->chunk_part = 0;
        scheduler_cache_captures(s, seq);
    }
    plan->chunk = seq->chunk;
    if (seq->cache.restore)
        seq->cache.planned_parts = atomic_load_explicit(tiering_parts(seq->cache.restore), memory_order_acquire);
}

/* ---- the plan ---- */

static uint64_t kv_of_rows(const step_plan *plan)
{
    uint64_t kv = 0;
    for (uint32_t i = 0; i < plan->row_count; i++)
        kv += plan->rows[i].position + 1;
    return kv;
}

static double predict(const scheduler *s, const step_plan *plan, uint64_t now_us)
{
    const prefill_chunk *c = &plan->chunk;
    if (plan->kind == STEP_DECODE)
        return step_model_decode_us(&s->model, plan->row_count, kv_of_rows(plan));
    if (plan->kind == STEP_FUSED)
        return step_model_fused_us(&s->model, plan->row_count, kv_of_rows(plan), c->position, c->token_count);
    if (plan->kind != STEP_PREFILL)
        return 0;
    double rest_us = step_model_prefill_us(&s->model, c->position, c->token_count) * (1 - s->prompt->chunk_part);
    double limit_us = (double)plan->deadline_us - (double)now_us + step_model_overrun_us(&s->model) / 2;
    return plan->deadline_us && limit_us < rest_us ? limit_us : rest_us;
}

void scheduler_next(scheduler *s, uint64_t now_us, step_plan *plan)
{
    s->now_us = now_us;
    scheduler_cache_poll(s);
    scheduler_admit_waiting(s, now_us);
    uint64_t preemptions;
    do { /* again when every row had to give its pages to streams that are paused */
        preemptions = s->preemptions;
        policy_view view = view_of(s, now_us);
        policy_choice choice = s->policy->choose(&view);
        *plan = (step_plan){.deadline_us = choice.deadline_us};
        assert(choice.kind != STEP_FUSED || !view.chunk_open);
        if (choice.kind == STEP_DECODE || choice.kind == STEP_FUSED)
            plan_rows(s, plan, choice.batch_us);
        if (choice.kind == STEP_PREFILL || choice.kind == STEP_FUSED)
            plan_chunk(s, plan, choice.chunk_tokens);
        bool rows = plan->row_count > 0, chunk = plan->chunk.token_count > 0;
        plan->kind = rows && chunk ? STEP_FUSED : rows ? STEP_DECODE : chunk ? STEP_PREFILL : STEP_IDLE;
    } while (plan->kind == STEP_IDLE && s->preemptions != preemptions);
    if (plan->kind == STEP_IDLE && (s->prompt = scheduler_idle_orphan(s))) {
        plan_chunk(s, plan, 0);
        plan->kind = STEP_PREFILL;
    }
    s->facts.predicted_us = predict(s, plan, now_us);
}

/* ---- applying a result ---- */

static void append_token(sequence *seq, int32_t token, uint64_t now_us)
{
    assert(seq->generated < seq->request->max_tokens);
    seq->request->prompt[sequence_history(seq)] = token;
    seq->generated++;
    seq->last_token_us = now_us;
}

static void learn(scheduler *s, const step_plan *plan, const step_result *result, double us, uint64_t end_us)
{
    const prefill_chunk *c = &plan->chunk;
    if (plan->kind == STEP_DECODE || (plan->kind == STEP_FUSED && result->stalled)) { /* it went without its chunk */
        step_model_saw_decode(&s->model, plan->row_count, kv_of_rows(plan), us);
    } else if (plan->kind == STEP_FUSED) {
        step_model_saw_fused(&s->model, plan->row_count, kv_of_rows(plan), c->position, c->token_count, us);
    } else {
        double to = result->chunk_done ? 1 : result->chunk_part;
        if (to <= s->prompt->chunk_part) /* it stalled at once */
            return;
        step_model_saw_prefill(&s->model, c->position, c->token_count, s->prompt->chunk_part, to, us);
        s->prompt->chunk_part = to;
        if (plan->deadline_us && end_us >= plan->deadline_us)
            step_model_saw_overrun(&s->model, (double)(end_us - plan->deadline_us));
    }
}

/* Whose time was it? */
static void charge(scheduler *s, const step_plan *plan, const step_result *result, double us)
{
    bool chunk = plan->chunk.token_count > 0 && !(plan->kind == STEP_FUSED && result->stalled);
    uint32_t batch_rows = 0, rows = plan->row_count;
    for (uint32_t i = 0; i < rows; i++)
        batch_rows += s->slots[plan->rows[i].seq]->batch;
    double interactive_us = rows == batch_rows ? 0 : us;
    if ((batch_rows > 0 || chunk) && interactive_us > s->decode_us && s->decode_us > 0)
        interactive_us = s->decode_us;
    double rows_us = chunk ? (rows ? (interactive_us > 0 ? interactive_us : us / 2) : 0) : us;
    for (uint32_t i = 0; i < rows; i++)
        accounts_charge(&s->accounts, s->slots[plan->rows[i].seq]->tenant, rows_us / rows);
    if (chunk) {
        accounts_charge(&s->accounts, s->prompt->tenant, us - rows_us);
        accounts_charge_lane(&s->accounts, sequence_lane(s->prompt), s->ready, us - rows_us);
    }
    work_done work = {.us = us,
                      .interactive_us = interactive_us,
                      .prefill_us = us - rows_us,
                      .batch_us = batch_rows > 0 ? rows_us - interactive_us : 0,
                      .streams = s->had_streams,
                      .prompts = s->had_prompts,
                      .batch = s->had_batch};
    accounts_work(&s->accounts, &work);
    if (rows > 0)
        s->solo_steps = batch_rows > 0 ? 0 : s->solo_steps + 1;
}

static void apply_chunk(scheduler *s, const step_plan *plan, const step_result *result, uint64_t end_us)
{
    if (plan->chunk.token_count == 0)
        return;
    sequence *seq = scheduler_at(s, plan->chunk.seq);
    if (result->stalled)
        seq->cache.needed_parts = seq->cache.planned_parts + 1;
    if (result->chunk_done) {
        scheduler_end_chunk(s, seq);
        if (seq->cache.restore)
            scheduler_cache_restored(s, seq);
        seq->kv_count += plan->chunk.token_count;
        scheduler_cache_read(s, seq);
        if (seq->document)
            s->chunk_ended_us = end_us;
        if (seq->orphan) {
            scheduler_drop_orphan(s, seq);
            return;
        }
        if (plan->chunk.sample) {
            assert(seq->kv_count == sequence_history(seq));
            append_token(seq, result->tokens[plan->row_count].token, end_us);
            scheduler_move_to(s, seq, PHASE_DECODE);
            if (s->document == seq)
                s->document = NULL;
        }
    }
    if (!seq->orphan)
        scheduler_set_backlog(s, seq);
}

void scheduler_apply(scheduler *s, const step_plan *plan, const step_result *result, uint64_t start_us, uint64_t end_us)
{
    double us = end_us > start_us ? (double)(end_us - start_us) : 0;
    s->now_us = end_us;
    learn(s, plan, result, us, end_us);
    charge(s, plan, result, us);
    for (uint32_t i = 0; i < plan->row_count; i++) {
        sequence *seq = scheduler_at(s, plan->rows[i].seq);
        seq->kv_count++;
        append_token(seq, result->tokens[i].token, end_us);
        scheduler_cache_decoded(s, seq);
    }
    apply_chunk(s, plan, result, end_us);
    s->after_decode = plan->kind == STEP_DECODE;
    if (plan->row_count > 0)
        s->chunk_since_decode = false;
    if (plan->kind == STEP_PREFILL && result->chunk_done)
        s->chunk_since_decode = true;
}

sequence *scheduler_at(const scheduler *s, uint32_t slot)
{
    assert(slot < s->runner->info.max_sequences && s->slots[slot]);
    return s->slots[slot];
}
