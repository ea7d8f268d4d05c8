/* sim/sim_check.c: does this plan keep the contract of sched/runner.h and sched/step_plan.h? */
#include "sim/sim_sequence.h"

static status check_span(const sim_runner *s, const uint32_t *pages, uint32_t first, uint32_t count, error *err)
{
    if ((uint64_t)first + count > s->config.context_length)
        return error_set(err, ERR_INVALID, "plan: positions %u to %u, the context is %u", first, first + count,
                         s->config.context_length);
    uint32_t last = (first + count - 1) / s->config.page_tokens;
    for (uint32_t i = s->config.light ? last : 0; i <= last; i++)
        if (pages[i] >= s->config.page_count)
            return error_set(err, ERR_INVALID, "plan: page %u of %u", pages[i], s->config.page_count);
    return OK;
}

static status check_row(const sim_runner *s, const decode_row *row, error *err)
{
    if (row->seq >= s->config.max_sequences || !s->sequences[row->seq].open)
        return error_set(err, ERR_INVALID, "plan: decode row of sequence %u, which is not open", row->seq);
    const sim_sequence *sequence = &s->sequences[row->seq];
    bool in_place = row->position == sequence->kv_count && row->position >= sequence->start.prompt_count;
    if (!in_place && !sequence->start.measuring)
        return error_set(err, ERR_INVALID, "plan: decode row at %u, sequence %u holds %u tokens", row->position,
                         row->seq, sequence->kv_count);
    return check_span(s, row->pages, row->position, 1, err);
}

/* ---- chunks ---- */

uint64_t sim_captures_hash(const sim_runner *s, const prefill_chunk *chunk)
{
    uint64_t hash = chunk->capture_count;
    for (uint32_t i = 0; i < chunk->capture_count && !s->config.light; i++) {
        hash = sim_mix(hash, chunk->captures[i].position);
        for (uint32_t k = 0; k < s->pages.state_pages; k++)
            hash = sim_mix(hash, chunk->captures[i].pages[k]);
    }
    return hash;
}

static bool same_chunk(const sim_runner *s, const prefill_chunk *a, const sim_sequence *sequence)
{
    const prefill_chunk *b = &sequence->chunk;
    return a->seq == b->seq && a->pages == b->pages && a->position == b->position && a->tokens == b->tokens &&
           a->token_count == b->token_count && a->sample == b->sample && a->chunk_slot == b->chunk_slot &&
           (!a->parts_ready || sequence->by_part) && sim_captures_hash(s, a) == sequence->captures_hash;
}

/* May the sequence begin, or go on, at this position? What was not computed here has to be restored: a state for that
 * very position where states are kept, else whole pages. */
static status check_position(const sim_runner *s, const prefill_chunk *chunk, error *err)
{
    const sim_sequence *sequence = &s->sequences[chunk->seq];
    if (sequence->start.measuring || chunk->position == sequence->kv_count)
        return OK;
    if (sequence->begun)
        return error_set(err, ERR_INVALID, "plan: chunk at %u, sequence %u holds %u tokens", chunk->position,
                         chunk->seq, sequence->kv_count);
    if (s->pages.state_pages)
        return error_set(err, ERR_INVALID, "plan: sequence %u begins at %u without a state", chunk->seq,
                         chunk->position);
    if (!s->config.copies && chunk->position % s->config.page_tokens)
        return error_set(err, ERR_INVALID, "plan: sequence %u begins at %u, pages have %u tokens", chunk->seq,
                         chunk->position, s->config.page_tokens);
    return OK;
}

static bool holds_page(const prefill_chunk *chunk, uint32_t page_tokens, uint32_t page)
{
    for (uint32_t i = 0; i <= (chunk->position + chunk->token_count - 1) / page_tokens; i++)
        if (chunk->pages[i] == page)
            return true;
    return false;
}

static bool captured_before(const sim_runner *s, const prefill_chunk *chunk, uint32_t capture, uint32_t index)
{
    uint32_t pages = s->pages.state_pages, page = chunk->captures[capture].pages[index];
    for (uint32_t at = 0; at < capture * pages + index; at++)
        if (chunk->captures[at / pages].pages[at % pages] == page)
            return true;
    return false;
}

static status check_captures(const sim_runner *s, const prefill_chunk *chunk, error *err)
{
    if (chunk->capture_count > CAPTURES_MAX || (chunk->capture_count && !s->pages.state_pages))
        return error_set(err, ERR_INVALID, "plan: %u captures of a chunk, at most %d", chunk->capture_count,
                         s->pages.state_pages ? CAPTURES_MAX : 0);
    uint32_t after = chunk->position;
    for (uint32_t i = 0; i < chunk->capture_count; i++) {
        const state_capture *c = &chunk->captures[i];
        if (c->position <= after || c->position > chunk->position + chunk->token_count)
            return error_set(err, ERR_INVALID, "plan: capture at %u after %u in a chunk of %u tokens at %u",
                             c->position, after, chunk->token_count, chunk->position);
        after = c->position;
        for (uint32_t k = 0; k < s->pages.state_pages; k++)
            if (c->pages[k] >= s->config.page_count ||
                (!s->config.light &&
                 (holds_page(chunk, s->config.page_tokens, c->pages[k]) || captured_before(s, chunk, i, k))))
                return error_set(err, ERR_INVALID, "plan: capture at %u into page %u, which is in use or none",
                                 c->position, c->pages[k]);
    }
    return OK;
}

static bool slot_taken(const sim_runner *s, uint32_t chunk_slot)
{
    const sim_sequence *user = &s->sequences[s->slot_users[chunk_slot]];
    return user->open && user->chunk_open && user->chunk.chunk_slot == chunk_slot;
}

static status check_chunk(const sim_runner *s, const step_plan *plan, error *err)
{
    const prefill_chunk *chunk = &plan->chunk;
    if (chunk->seq >= s->config.max_sequences || !s->sequences[chunk->seq].open)
        return error_set(err, ERR_INVALID, "plan: chunk of sequence %u, which is not open", chunk->seq);
    const sim_sequence *sequence = &s->sequences[chunk->seq];
    if (sequence->chunk_open && plan->kind == STEP_FUSED)
        return error_set(err, ERR_INVALID, "plan: a fused step with the unfinished chunk of sequence %u", chunk->seq);
    if (sequence->chunk_open)
        return same_chunk(s, chunk, sequence)
                   ? OK
                   : error_set(err, ERR_INVALID, "plan: the chunk of sequence %u changed while it was open",
                               chunk->seq);
    uint64_t end = (uint64_t)sequence->start.prompt_count + sequence->start.generated_before;
    if (chunk->token_count == 0 || chunk->token_count > s->config.max_chunk_tokens ||
        (!sequence->start.measuring && (uint64_t)chunk->position + chunk->token_count > end))
        return error_set(err, ERR_INVALID, "plan: chunk of %u tokens at %u, sequence %u has %u to read",
                         chunk->token_count, chunk->position, chunk->seq, (uint32_t)end);
    if (chunk->chunk_slot >= SIM_OPEN_CHUNKS || (plan->kind == STEP_PREFILL && slot_taken(s, chunk->chunk_slot)))
        return error_set(err, ERR_INVALID, "plan: chunk slot %u is taken or none", chunk->chunk_slot);
    status st = check_position(s, chunk, err);
    if (!st)
        st = check_span(s, chunk->pages, chunk->position, chunk->token_count, err);
    return st ? st : check_captures(s, chunk, err);
}

status sim_check_plan(const sim_runner *s, const step_plan *plan, error *err)
{
    if (plan->row_count > s->config.max_rows)
        return error_set(err, ERR_INVALID, "plan: %u rows, at most %u", plan->row_count, s->config.max_rows);
    for (uint32_t i = 0; i < plan->row_count; i++) {
        status st = check_row(s, &plan->rows[i], err);
        if (st)
            return st;
    }
    bool wants_chunk = plan->kind == STEP_PREFILL || plan->kind == STEP_FUSED;
    return wants_chunk ? check_chunk(s, plan, err) : OK;
}
