/* sim/sim_runner.c: steps that take the time they are said to, and what is said. */
#include "sim/sim_runner.h"

#include "sim/byte_vocab.h"
#include "sim/sim_sequence.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- made-up words ---- */

static const char *const words[] = {"stone", "river", "cloud", "light", "grain", "wheel", "south", "paper",
                                    "green", "clock", "table", "early", "house", "quiet", "seven", "field",
                                    "plain", "train", "tower", "water", "glass", "month", "north", "bread",
                                    "round", "small", "chair", "white", "storm", "horse", "sound", "first"};

static void words_open(void *self, uint32_t seq, const sequence_start *start)
{
    ((sim_runner *)self)->word_seeds[seq] = start->params->temperature > 0 ? start->params->seed : 0;
}

static int32_t words_token(void *self, uint32_t seq, uint32_t index, uint64_t state)
{
    const sim_runner *s = self;
    if (index == s->config.reply_tokens)
        return BYTE_VOCAB_IM_END;
    uint32_t letter = index % SIM_WORD;
    if (letter == SIM_WORD - 1)
        return ' ';
    return words[sim_mix(state, s->word_seeds[seq]) % (sizeof words / sizeof words[0])][letter];
}

/* ---- what is said ---- */

static void note_fault(sim_sequence *sequence, uint64_t fault)
{
    if (fault && !sequence->fault)
        sequence->fault = fault;
}

/* Where a page begins, is it the one that follows the page before? */
static void look_at_borders(const sim_runner *s, sim_sequence *sequence, const uint32_t *pages, uint32_t kv_count)
{
    for (uint32_t at = 0; at < kv_count; at += s->config.page_tokens)
        for (uint32_t part = 0; part < s->config.parts; part++)
            note_fault(sequence, sim_kv_fault(&s->pages, pages, at, part, sequence->start.tokens[at]));
}

/* A hash of all tokens before the word that token number `index` of the reply is in, as pages and state have them. */
static uint64_t said_before(const sim_runner *s, sim_sequence *sequence, const uint32_t *pages, uint32_t kv_count)
{
    uint32_t letter = (kv_count - sequence->start.prompt_count) % SIM_WORD;
    if (s->config.light)
        return sim_mix(kv_count - sequence->start.prompt_count - letter, 0);
    if (letter == 0)
        look_at_borders(s, sequence, pages, kv_count);
    uint64_t hash = sim_kv_read(&s->pages, pages, kv_count - letter - 1);
    if (s->pages.state_pages)
        hash = sim_mix(hash, sequence->state.recent[letter]);
    return sequence->fault ? sim_mix(hash, sequence->fault) : hash;
}

/* The token that is wanted, or the first one that the request's constraint allows. */
static int32_t constrained(const sequence_start *start, int32_t token)
{
    token_constraint *c = start->params->constraint;
    const uint32_t *mask = c ? c->ops->mask(c) : NULL;
    if (!mask || mask[token / 32] >> token % 32 & 1)
        return token;
    for (int32_t i = 0; i < BYTE_VOCAB_SIZE; i++)
        if (mask[i / 32] >> i % 32 & 1)
            return i;
    return token;
}

static void sample(sim_runner *s, uint32_t seq, const uint32_t *pages, uint32_t kv_count, sampled_token *out)
{
    const sequence_start *start = &s->sequences[seq].start;
    if (start->measuring) { /* nothing is said */
        *out = (sampled_token){.seq = seq};
        return;
    }
    uint64_t before = said_before(s, &s->sequences[seq], pages, kv_count);
    out->token = constrained(start, s->voice.token(s->voice.self, seq, kv_count - start->prompt_count, before));
    out->seq = seq;
    out->logprob = 0;
    out->top_count = 0;
    if (start->params->logprobs == 0)
        return;
    out->logprob = -0.25f;
    out->top_count = start->params->logprobs - 1;
    for (uint32_t i = 0; i < out->top_count; i++) {
        out->top_tokens[i] = i == 0 ? out->token : (out->token + (int32_t)i) % 128;
        out->top_logprobs[i] = -0.25f - 2.0f * (float)i;
    }
}

/* ---- steps ---- */

static void write_token(sim_runner *s, const uint32_t *pages, uint32_t position, int32_t token)
{
    for (uint32_t part = 0; part < s->config.parts; part++)
        sim_kv_write(&s->pages, pages, position, part, token);
}

static void decode(sim_runner *s, const step_plan *plan, step_result *result)
{
    for (uint32_t i = 0; i < plan->row_count; i++) {
        const decode_row *row = &plan->rows[i];
        sim_sequence *sequence = &s->sequences[row->seq];
        if (s->config.light) {
            sequence->state.position++;
        } else {
            write_token(s, row->pages, row->position, row->token);
            sim_state_advance(&sequence->state, row->token);
        }
        sequence->begun = true;
        sequence->kv_count++;
        sample(s, row->seq, row->pages, row->position + 1, &result->tokens[result->token_count++]);
        result->kv_bytes += (row->position + 1) * s->config.kv_token_bytes + 2 * s->config.state_bytes;
    }
}

/* Tokens before the chunk that this sequence did not compute: is each of them what it should be, in this part? */
static void look_at_restored(const sim_runner *s, sim_sequence *sequence, uint32_t parts)
{
    const prefill_chunk *chunk = &sequence->chunk;
    for (; sequence->parts_looked < parts; sequence->parts_looked++)
        for (uint32_t at = 0; at < chunk->position && !sequence->start.measuring; at++)
            note_fault(sequence,
                       sim_kv_fault(&s->pages, chunk->pages, at, sequence->parts_looked, sequence->start.tokens[at]));
}

static void state_token(sim_runner *s, sim_sequence *sequence, uint32_t index)
{
    const prefill_chunk *chunk = &sequence->chunk;
    sim_state_advance(&sequence->state, chunk->tokens[index]);
    for (uint32_t i = 0; i < chunk->capture_count; i++)
        if (chunk->captures[i].position == chunk->position + index + 1)
            sim_state_store(&s->pages, &sequence->state, chunk->captures[i].pages);
}

/* Nothing but where the state is, and the captures on the way. */
static void pass_lightly(sim_runner *s, sim_sequence *sequence, uint32_t first, uint32_t count)
{
    const prefill_chunk *chunk = &sequence->chunk;
    uint32_t from = chunk->position + first, to = from + count;
    for (uint32_t i = 0; i < chunk->capture_count; i++)
        if (chunk->captures[i].position > from && chunk->captures[i].position <= to)
            sim_state_store(&s->pages, &(sim_state){.position = chunk->captures[i].position}, chunk->captures[i].pages);
    sequence->state.position = to;
}

/* The next `count` tokens of the chunk, all in one part. */
static void run_tokens(sim_runner *s, sim_sequence *sequence, uint32_t count)
{
    const prefill_chunk *chunk = &sequence->chunk;
    uint32_t part = sequence->by_part ? (uint32_t)(sequence->chunk_done / chunk->token_count) : 0;
    uint32_t first = (uint32_t)(sequence->chunk_done % chunk->token_count);
    bool last_part = !sequence->by_part || part + 1 == s->config.parts;
    sequence->chunk_done += count;
    if (s->config.light) {
        if (last_part)
            pass_lightly(s, sequence, first, count);
        return;
    }
    look_at_restored(s, sequence, sequence->by_part ? part + 1 : s->config.parts);
    for (uint32_t i = first; i < first + count; i++) {
        if (sequence->by_part)
            sim_kv_write(&s->pages, chunk->pages, chunk->position + i, part, chunk->tokens[i]);
        else
            write_token(s, chunk->pages, chunk->position + i, chunk->tokens[i]);
        if (last_part)
            state_token(s, sequence, i);
    }
}

static uint64_t tokens_of_chunk(const sim_runner *s, const sim_sequence *sequence) /* times the parts, `by_part` */
{
    return (uint64_t)sequence->chunk.token_count * (sequence->by_part ? s->config.parts : 1);
}

static void begin_chunk(sim_runner *s, sim_sequence *sequence, const prefill_chunk *chunk, bool steady)
{
    sequence->chunk_done = sequence->units_done = 0;
    sequence->by_part = chunk->parts_ready && !steady;
    sequence->captures_hash = sim_captures_hash(s, chunk);
    sequence->chunk_open = sequence->begun = true;
    if (!steady)
        s->slot_users[chunk->chunk_slot] = chunk->seq;
    if (chunk->position == 0) {
        sequence->parts_looked = s->config.parts;
        sequence->state = (sim_state){0};
    }
}

static uint32_t parts_ready(const sim_runner *s, const prefill_chunk *chunk)
{
    return chunk->parts_ready ? atomic_load_explicit(chunk->parts_ready, memory_order_acquire) : s->config.parts;
}

/* ---- chunks by a rate ---- */

static uint64_t prefill_us(const sim_runner *s, double token_count)
{
    return (uint64_t)(token_count * 1e6 / s->config.prefill_tokens_per_s);
}

/* One block at least, then on to the end, the deadline, a yield or a part that has not come. */
static void run_blocks(sim_runner *s, sim_sequence *sequence, const step_plan *plan, step_result *result,
                       hw_clock *clock)
{
    const prefill_chunk *chunk = &sequence->chunk;
    uint32_t per_token = sequence->by_part ? s->config.parts : 1;
    uint64_t due_us = clock->now_us(clock), all = tokens_of_chunk(s, sequence);
    while (sequence->chunk_done < all) {
        uint64_t done = sequence->chunk_done;
        if (sequence->by_part && done / chunk->token_count >= parts_ready(s, chunk)) {
            result->stalled = true;
            return;
        }
        uint32_t left = (uint32_t)(chunk->token_count - done % chunk->token_count);
        run_tokens(s, sequence, left < s->config.block_tokens ? left : s->config.block_tokens);
        due_us += prefill_us(s, (double)sequence->chunk_done / per_token) - prefill_us(s, (double)done / per_token);
        uint64_t now_us = clock->now_us(clock);
        if (due_us > now_us)
            clock->sleep_us(clock, due_us - now_us);
        bool steady = plan->kind == STEP_FUSED;
        if (!steady && (atomic_load(&s->yield) || (plan->deadline_us && due_us >= plan->deadline_us)))
            return;
    }
}

/* ---- chunks by costs ---- */

static void spend(sim_runner *s, double us, hw_clock *clock)
{
    s->carry_us += us;
    uint64_t whole_us = (uint64_t)s->carry_us;
    s->carry_us -= (double)whole_us;
    if (whole_us > 0)
        clock->sleep_us(clock, whole_us);
}

/* A step of so many microseconds is a little longer or shorter, and as much longer as the machine does something else
 * meanwhile. A hole is half as long again as the least of its size. */
static double disturbed(sim_runner *s, double us, bool fused)
{
    double longer = 0;
    if (!fused && s->costs.spread[0] > 0)
        us *= s->costs.spread[rng_below(&s->holes, COST_SPREAD)];
    for (uint32_t i = 0; i < CANARY_SIZES; i++) {
        if (s->costs.holes_s[i] <= 0)
            continue;
        double mean_us = 1e6 / s->costs.holes_s[i];
        if (s->hole_in_us[i] <= 0)
            s->hole_in_us[i] = -log(1 - rng_unit(&s->holes)) * mean_us;
        for (s->hole_in_us[i] -= us; s->hole_in_us[i] <= 0; s->hole_in_us[i] -= log(1 - rng_unit(&s->holes)) * mean_us)
            longer += 1.5 * (1000u << i);
    }
    return us + longer;
}

/* The tokens that belong to the chunk's units so far. */
static void catch_up(sim_runner *s, sim_sequence *sequence, uint64_t all_units)
{
    uint64_t due = tokens_of_chunk(s, sequence) * sequence->units_done / all_units;
    uint32_t count = sequence->chunk.token_count;
    while (sequence->chunk_done < due) {
        uint64_t left = count - sequence->chunk_done % count, more = due - sequence->chunk_done;
        run_tokens(s, sequence, (uint32_t)(left < more ? left : more));
    }
}

typedef struct {                           /* of one run over units of a chunk */
    uint64_t from, all, start_us, stop_us; /* first unit, units of the chunk; stop_us 0: no time to stop at */
    double unit_us, owed_us;               /* what steps before left over */
} paid_run;

static paid_run begin_run(const sim_runner *s, const sim_sequence *sequence, uint64_t deadline_us, uint64_t now_us)
{
    const prefill_chunk *c = &sequence->chunk;
    paid_run run = {.from = sequence->units_done,
                    .all = sim_costs_chunk_units(&s->costs, c->token_count),
                    .start_us = now_us,
                    .stop_us = deadline_us,
                    .owed_us = s->carry_us};
    run.unit_us = sim_costs_prefill_us(&s->costs, c->position, c->token_count) / (double)run.all;
    if (s->interrupt_us > now_us && (!run.stop_us || s->interrupt_us < run.stop_us))
        run.stop_us = s->interrupt_us;
    return run;
}

/* The first unit at whose end it is time to stop: one at least is done. */
static uint64_t stop_unit(const paid_run *run)
{
    if (!run->stop_us || run->unit_us <= 0)
        return run->all;
    double left_us = run->stop_us > run->start_us ? (double)(run->stop_us - run->start_us) - run->owed_us : 0;
    double units = ceil(left_us / run->unit_us);
    return run->from + (units < 1 ? 1 : units < (double)run->all ? (uint64_t)units : run->all);
}

static void run_units(sim_runner *s, sim_sequence *sequence, const step_plan *plan, step_result *result,
                      hw_clock *clock)
{
    const prefill_chunk *chunk = &sequence->chunk;
    paid_run run = begin_run(s, sequence, plan->deadline_us, clock->now_us(clock));
    bool real = clock == clock_real(); /* others may yield meanwhile */
    while (sequence->units_done < run.all) {
        uint64_t ready = sequence->by_part ? run.all * parts_ready(s, chunk) / s->config.parts : run.all;
        if (sequence->units_done >= ready) {
            result->stalled = true;
            return;
        }
        uint64_t stop = real ? sequence->units_done + 1 : stop_unit(&run);
        sequence->units_done = stop < ready ? stop : ready;
        double us = run.owed_us + run.unit_us * (double)(sequence->units_done - run.from);
        uint64_t due_us = run.start_us + (uint64_t)us, now_us = clock->now_us(clock);
        s->carry_us = us - floor(us);
        catch_up(s, sequence, run.all);
        if (due_us > now_us)
            clock->sleep_us(clock, due_us - now_us);
        if (atomic_load(&s->yield) || (run.stop_us && due_us >= run.stop_us))
            return;
    }
}

/* ---- a chunk ---- */

static double part_done(const sim_runner *s, const sim_sequence *sequence)
{
    if (s->config.costs)
        return (double)sequence->units_done / (double)sim_costs_chunk_units(&s->costs, sequence->chunk.token_count);
    return (double)sequence->chunk_done / (double)tokens_of_chunk(s, sequence);
}

static void run_chunk(sim_runner *s, sim_sequence *sequence, const step_plan *plan, step_result *result,
                      hw_clock *clock)
{
    if (!s->config.costs) {
        run_blocks(s, sequence, plan, result, clock);
    } else if (plan->kind == STEP_PREFILL) {
        run_units(s, sequence, plan, result, clock);
    } else { /* paid with the rows */
        sequence->units_done = sim_costs_chunk_units(&s->costs, sequence->chunk.token_count);
        catch_up(s, sequence, sequence->units_done);
    }
}

/* Bytes of the part [from, to) of a chunk; parts add up to the whole. */
static void count_chunk(const sim_runner *s, const sim_sequence *sequence, double from, double to, step_result *result)
{
    const prefill_chunk *c = &sequence->chunk;
    double kv = (double)c->token_count * (double)s->config.kv_token_bytes, weights = 0;
    if (s->config.costs) { /* what stands before the chunk is read, states are read and written */
        kv += (double)c->position * (double)s->config.kv_token_bytes + 2 * (double)s->config.state_bytes;
        weights = sim_costs_weight_bytes(&s->costs, c->token_count);
    }
    result->kv_bytes += (uint64_t)(to * kv) - (uint64_t)(from * kv);
    result->weight_bytes += (uint64_t)(to * weights) - (uint64_t)(from * weights);
}

/* A fused step does not stop: a chunk whose KV has not come is left out of it. */
static void prefill(sim_runner *s, const step_plan *plan, step_result *result, hw_clock *clock)
{
    const prefill_chunk *chunk = &plan->chunk;
    sim_sequence *sequence = &s->sequences[chunk->seq];
    bool steady = plan->kind == STEP_FUSED;
    if (steady && parts_ready(s, chunk) < s->config.parts) {
        result->stalled = true;
        return;
    }
    sequence->chunk = *chunk;
    if (!sequence->chunk_open)
        begin_chunk(s, sequence, chunk, steady);
    double from = part_done(s, sequence);
    run_chunk(s, sequence, plan, result, clock);
    result->chunk_part = part_done(s, sequence);
    count_chunk(s, sequence, from, result->chunk_part, result);
    if (result->chunk_part < 1)
        return;
    sequence->chunk_open = false;
    sequence->kv_count = chunk->position + chunk->token_count;
    result->chunk_done = true;
    if (chunk->sample)
        sample(s, chunk->seq, chunk->pages, sequence->kv_count, &result->tokens[result->token_count++]);
}

/* ---- steps ---- */

/* Rows, with the chunk where they go together; a chunk alone pays as it goes. */
static void pay_rows(sim_runner *s, const step_plan *plan, step_result *result, hw_clock *clock)
{
    uint64_t kv = 0;
    for (uint32_t i = 0; i < plan->row_count; i++)
        kv += plan->rows[i].position + 1;
    const prefill_chunk *c = &plan->chunk;
    bool fused = plan->kind == STEP_FUSED && parts_ready(s, c) == s->config.parts;
    uint32_t count = fused ? c->token_count : 0;
    double us = sim_costs_fused_us(&s->costs, plan->row_count, (double)kv, c->position, count);
    spend(s, clock == clock_real() ? us : disturbed(s, us, fused), clock); /* a real machine has holes of its own */
    double alone = fused ? sim_costs_weight_bytes(&s->costs, count) : 0;   /* count_chunk adds them */
    result->weight_bytes += (uint64_t)(sim_costs_weight_bytes(&s->costs, plan->row_count + count) - alone);
}

static status sim_run(runner *self, const step_plan *plan, step_result *result, hw_clock *clock, error *err)
{
    sim_runner *s = (sim_runner *)self;
    status st = sim_check_plan(s, plan, err);
    if (st)
        return st;
    atomic_store(&s->yield, false);
    result->token_count = 0;
    result->chunk_done = result->stalled = false;
    result->chunk_part = 0;
    result->kv_bytes = result->weight_bytes = 0;
    if (s->config.costs && clock != clock_real()) /* there the engine takes its own time */
        s->carry_us += s->costs.step_us;
    if (plan->row_count > 0) {
        decode(s, plan, result);
        if (s->config.costs)
            pay_rows(s, plan, result, clock);
        else
            clock->sleep_us(clock, s->config.decode_base_us + plan->row_count * s->config.decode_row_us);
    }
    if (plan->kind == STEP_PREFILL || plan->kind == STEP_FUSED)
        prefill(s, plan, result, clock);
    if (!s->config.costs)
        result->weight_bytes = s->config.weight_bytes;
    result->bytes = result->weight_bytes + result->kv_bytes;
    return OK;
}

/* ---- life ---- */

static status sim_sequence_open(runner *self, uint32_t seq, const sequence_start *start)
{
    sim_runner *s = (sim_runner *)self;
    if (seq >= s->config.max_sequences || s->sequences[seq].open || start->prompt_count == 0)
        return ERR_INVALID;
    s->sequences[seq] = (sim_sequence){.open = true, .start = *start};
    if (!start->measuring)
        s->voice.open(s->voice.self, seq, start);
    return OK;
}

static void sim_sequence_close(runner *self, uint32_t seq)
{
    ((sim_runner *)self)->sequences[seq].open = false;
}

static status check_state_pages(const sim_runner *s, uint32_t seq, const page_id *pages)
{
    if (seq >= s->config.max_sequences || !s->sequences[seq].open)
        return ERR_INVALID;
    for (uint32_t i = 0; i < s->pages.state_pages; i++)
        if (pages[i] >= s->config.page_count)
            return ERR_INVALID;
    return s->sequences[seq].chunk_open ? ERR_BUSY : OK;
}

static status sim_state_save(runner *self, uint32_t seq, const page_id *pages)
{
    sim_runner *s = (sim_runner *)self;
    status st = check_state_pages(s, seq, pages);
    if (!st)
        sim_state_store(&s->pages, &s->sequences[seq].state, pages);
    return st;
}

static status sim_state_load(runner *self, uint32_t seq, const page_id *pages)
{
    sim_runner *s = (sim_runner *)self;
    status st = check_state_pages(s, seq, pages);
    if (st)
        return st;
    sim_sequence *sequence = &s->sequences[seq];
    note_fault(sequence, sim_state_fetch(&s->pages, &sequence->state, pages));
    sequence->kv_count = sequence->state.position;
    sequence->begun = true;
    sequence->parts_looked = 0;
    return OK;
}

static void sim_yield(runner *self)
{
    atomic_store(&((sim_runner *)self)->yield, true);
}

void sim_runner_interrupt_at(runner *r, uint64_t time_us)
{
    ((sim_runner *)r)->interrupt_us = time_us;
}

static void sim_close(runner *self)
{
    sim_runner *s = (sim_runner *)self;
    if (!s)
        return;
    if (s->voice.close)
        s->voice.close(s->voice.self);
    free(s->sequences);
    sim_pages_close(&s->pages);
    free(s->word_seeds);
    free(s);
}

static void sim_page_copy(runner *self, page_id to, page_id from)
{
    sim_pages_copy(&((sim_runner *)self)->pages, to, from);
}

static const runner_ops sim_ops = {.name = "sim",
                                   .sequence_open = sim_sequence_open,
                                   .sequence_close = sim_sequence_close,
                                   .run = sim_run,
                                   .yield = sim_yield,
                                   .close = sim_close};
static const runner_ops stateful_ops = {.name = "sim",
                                        .sequence_open = sim_sequence_open,
                                        .sequence_close = sim_sequence_close,
                                        .run = sim_run,
                                        .yield = sim_yield,
                                        .close = sim_close,
                                        .state_save = sim_state_save,
                                        .state_load = sim_state_load,
                                        .page_copy = sim_page_copy};

static const runner_ops copying_ops = {.name = "sim",
                                       .sequence_open = sim_sequence_open,
                                       .sequence_close = sim_sequence_close,
                                       .run = sim_run,
                                       .yield = sim_yield,
                                       .close = sim_close,
                                       .page_copy = sim_page_copy};

#define DEFAULT(field, value)                                                                                          \
    if (!c->field)                                                                                                     \
    c->field = (value)

static void take_costs(sim_config *c, const sim_costs *costs)
{
    if (costs->kv_token_bytes >= 1)
        c->kv_token_bytes = (uint64_t)(costs->kv_token_bytes + 0.5);
    if (costs->state_bytes >= 1)
        c->state_bytes = (uint64_t)(costs->state_bytes + 0.5);
    if (costs->weight_bytes >= 1)
        c->weight_bytes = (uint64_t)(costs->weight_bytes + 0.5);
    DEFAULT(max_chunk_tokens, 2048);
    c->costs = costs;
}

static void fill_defaults(sim_config *c)
{
    DEFAULT(model_name, "sim");
    DEFAULT(prefill_tokens_per_s, 20000);
    DEFAULT(decode_base_us, 2000);
    DEFAULT(decode_row_us, 5);
    DEFAULT(reply_tokens, 128);
    DEFAULT(context_length, 8192);
    DEFAULT(page_tokens, 16);
    DEFAULT(parts, 2);
    DEFAULT(page_count, (c->context_length + c->page_tokens - 1) / c->page_tokens * 64);
    DEFAULT(max_sequences, 1024);
    DEFAULT(max_rows, c->max_sequences);
    DEFAULT(max_chunk_tokens, 512);
    DEFAULT(block_tokens, 64);
    DEFAULT(weight_bytes, 100000000);
    DEFAULT(kv_token_bytes, 20480);
    uint64_t page_bytes = c->page_tokens * c->kv_token_bytes;
    if (c->costs && c->state_bytes)
        DEFAULT(state_pages, (uint32_t)((c->state_bytes + page_bytes - 1) / page_bytes));
}

static void fill_info(sim_runner *s)
{
    const sim_config *c = &s->config;
    s->base.info = (runner_info){.model_name = s->name,
                                 .vocab_size = BYTE_VOCAB_SIZE,
                                 .context_length = c->context_length,
                                 .page_tokens = c->page_tokens,
                                 .page_count = c->page_count,
                                 .page_bytes = c->page_tokens * c->kv_token_bytes,
                                 .state_bytes = c->state_bytes,
                                 .state_pages = s->pages.state_pages,
                                 .max_sequences = c->max_sequences,
                                 .max_rows = c->max_rows,
                                 .max_chunk_tokens = c->max_chunk_tokens,
                                 .max_open_chunks = SIM_OPEN_CHUNKS,
                                 .weight_bytes = c->weight_bytes};
}

status sim_runner_create(runner **out, const sim_config *config, error *err)
{
    sim_runner *s = calloc(1, sizeof *s);
    if (!s)
        return error_set(err, ERR_MEMORY, "sim runner: out of memory");
    s->base.ops = &sim_ops;
    s->config = config ? *config : (sim_config){0};
    if (s->config.costs) {
        s->costs = *s->config.costs;
        take_costs(&s->config, &s->costs);
    }
    fill_defaults(&s->config);
    snprintf(s->name, sizeof s->name, "%s", s->config.model_name);
    status st = sim_pages_open(&s->pages, &s->config, err);
    s->sequences = calloc(s->config.max_sequences, sizeof *s->sequences);
    s->word_seeds = calloc(s->config.max_sequences, sizeof *s->word_seeds);
    if (!st && (!s->sequences || !s->word_seeds))
        st = error_set(err, ERR_MEMORY, "sim runner: no memory for %u sequences", s->config.max_sequences);
    if (st) {
        sim_close(&s->base);
        return st;
    }
    fill_info(s);
    s->base.ops = s->pages.state_pages ? &stateful_ops : s->config.copies ? &copying_ops : &sim_ops;
    s->base.mover = s->config.light ? NULL : &s->pages.mover;
    s->voice = s->config.voice ? *s->config.voice : (sim_voice){s, words_open, words_token, NULL};
    s->config.voice = NULL;
    *out = &s->base;
    return OK;
}
