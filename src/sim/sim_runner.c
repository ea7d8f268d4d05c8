/* sim/sim_runner.c: the KV of the pretended model is one hash per token: of the token and of the hash before it. */
#include "sim/sim_runner.h"

#include "sim/byte_vocab.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    bool open;
    sequence_start start;
    uint32_t kv_count;
    bool chunk_open;
    prefill_chunk chunk;
    uint32_t chunk_done; /* tokens of `chunk` that are in the pages */
} sim_sequence;

typedef struct {
    runner base; /* first */
    sim_config config;
    sim_voice voice;
    sim_sequence *sequences; /* (max_sequences) */
    uint64_t *kv;            /* (page_count, page_tokens) */
    uint64_t *word_seeds;    /* (max_sequences): of the made-up words */
    _Atomic bool yield;
    char name[64];
} sim_runner;

/* ---- made-up words ---- */

static const char *const words[] = {"stone", "river", "cloud", "light", "grain", "wheel", "south", "paper",
                                    "green", "clock", "table", "early", "house", "quiet", "seven", "field",
                                    "plain", "train", "tower", "water", "glass", "month", "north", "bread",
                                    "round", "small", "chair", "white", "storm", "horse", "sound", "first"};

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t z = (a ^ (b + 0x9E3779B97F4A7C15u)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

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
    return words[mix(state, s->word_seeds[seq]) % (sizeof words / sizeof words[0])][letter];
}

/* ---- KV ---- */

static uint64_t *kv_at(sim_runner *s, const uint32_t *pages, uint32_t position)
{
    uint32_t page_tokens = s->config.page_tokens;
    return &s->kv[(size_t)pages[position / page_tokens] * page_tokens + position % page_tokens];
}

static void write_kv(sim_runner *s, const uint32_t *pages, uint32_t position, int32_t token)
{
    uint64_t before = position > 0 ? *kv_at(s, pages, position - 1) : 0;
    *kv_at(s, pages, position) = mix(before, (uint64_t)token);
}

static void sample(sim_runner *s, uint32_t seq, const uint32_t *pages, uint32_t kv_count, sampled_token *out)
{
    const sequence_start *start = &s->sequences[seq].start;
    if (start->measuring) { /* nothing is said */
        *out = (sampled_token){.seq = seq};
        return;
    }
    uint32_t index = kv_count - start->prompt_count;
    uint32_t word_start = start->prompt_count + index / SIM_WORD * SIM_WORD;
    out->token = s->voice.token(s->voice.self, seq, index, *kv_at(s, pages, word_start - 1));
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

/* ---- the contract ---- */

static status check_span(const sim_runner *s, const uint32_t *pages, uint32_t first, uint32_t count, error *err)
{
    if ((uint64_t)first + count > s->config.context_length)
        return error_set(err, ERR_INVALID, "plan: positions %u to %u, the context is %u", first, first + count,
                         s->config.context_length);
    for (uint32_t i = 0; i <= (first + count - 1) / s->config.page_tokens; i++)
        if (pages[i] >= s->config.page_count)
            return error_set(err, ERR_INVALID, "plan: page %u of %u", pages[i], s->config.page_count);
    return OK;
}

static status check_row(sim_runner *s, const decode_row *row, error *err)
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

static bool same_chunk(const prefill_chunk *a, const prefill_chunk *b)
{
    return a->seq == b->seq && a->pages == b->pages && a->position == b->position && a->tokens == b->tokens &&
           a->token_count == b->token_count && a->sample == b->sample && a->chunk_slot == b->chunk_slot;
}

static status check_chunk(sim_runner *s, const prefill_chunk *chunk, error *err)
{
    if (chunk->seq >= s->config.max_sequences || !s->sequences[chunk->seq].open)
        return error_set(err, ERR_INVALID, "plan: chunk of sequence %u, which is not open", chunk->seq);
    const sim_sequence *sequence = &s->sequences[chunk->seq];
    if (sequence->chunk_open)
        return same_chunk(chunk, &sequence->chunk)
                   ? OK
                   : error_set(err, ERR_INVALID, "plan: the chunk of sequence %u changed while it was open",
                               chunk->seq);
    if ((chunk->position != sequence->kv_count && !sequence->start.measuring) || chunk->token_count == 0 ||
        chunk->token_count > s->config.max_chunk_tokens || chunk->chunk_slot >= s->base.info.max_open_chunks)
        return error_set(err, ERR_INVALID, "plan: chunk of %u tokens at %u in slot %u, sequence %u holds %u tokens",
                         chunk->token_count, chunk->position, chunk->chunk_slot, chunk->seq, sequence->kv_count);
    return check_span(s, chunk->pages, chunk->position, chunk->token_count, err);
}

static status check_plan(sim_runner *s, const step_plan *plan, error *err)
{
    if (plan->row_count > s->config.max_rows)
        return error_set(err, ERR_INVALID, "plan: %u rows, at most %u", plan->row_count, s->config.max_rows);
    for (uint32_t i = 0; i < plan->row_count; i++) {
        status st = check_row(s, &plan->rows[i], err);
        if (st)
            return st;
    }
    bool wants_chunk = plan->kind == STEP_PREFILL || plan->kind == STEP_FUSED;
    return wants_chunk ? check_chunk(s, &plan->chunk, err) : OK;
}

/* ---- steps ---- */

static void decode(sim_runner *s, const step_plan *plan, step_result *result)
{
    for (uint32_t i = 0; i < plan->row_count; i++) {
        const decode_row *row = &plan->rows[i];
        write_kv(s, row->pages, row->position, row->token);
        s->sequences[row->seq].kv_count++;
        sample(s, row->seq, row->pages, row->position + 1, &result->tokens[result->token_count++]);
        result->kv_bytes += (row->position + 1) * s->config.kv_token_bytes;
    }
}

static uint64_t prefill_us(const sim_runner *s, uint32_t token_count)
{
    return (uint64_t)((double)token_count * 1e6 / s->config.prefill_tokens_per_s);
}

/* One block at least, then on to the end, the deadline or a yield. `steady`: a fused step does not stop. */
static void prefill(sim_runner *s, const step_plan *plan, step_result *result, hw_clock *clock, bool steady)
{
    const prefill_chunk *chunk = &plan->chunk;
    sim_sequence *sequence = &s->sequences[chunk->seq];
    if (!sequence->chunk_open)
        sequence->chunk_done = 0;
    sequence->chunk_open = true;
    sequence->chunk = *chunk;
    uint32_t run_from = sequence->chunk_done;
    uint64_t due_us = clock->now_us(clock);
    do {
        uint32_t left = chunk->token_count - sequence->chunk_done;
        uint32_t count = left < s->config.block_tokens ? left : s->config.block_tokens;
        for (uint32_t i = sequence->chunk_done; i < sequence->chunk_done + count; i++)
            write_kv(s, chunk->pages, chunk->position + i, chunk->tokens[i]);
        sequence->chunk_done += count;
        due_us += prefill_us(s, sequence->chunk_done) - prefill_us(s, sequence->chunk_done - count);
        uint64_t now_us = clock->now_us(clock);
        if (due_us > now_us)
            clock->sleep_us(clock, due_us - now_us);
        if (!steady && (atomic_load(&s->yield) || (plan->deadline_us && due_us >= plan->deadline_us)))
            break;
    } while (sequence->chunk_done < chunk->token_count);
    result->kv_bytes += (sequence->chunk_done - run_from) * s->config.kv_token_bytes;
    result->chunk_part = (double)sequence->chunk_done / chunk->token_count;
    if (sequence->chunk_done < chunk->token_count)
        return;
    sequence->chunk_open = false;
    sequence->kv_count = chunk->position + chunk->token_count;
    result->chunk_done = true;
    if (chunk->sample)
        sample(s, chunk->seq, chunk->pages, sequence->kv_count, &result->tokens[result->token_count++]);
}

static status sim_run(runner *self, const step_plan *plan, step_result *result, hw_clock *clock, error *err)
{
    sim_runner *s = (sim_runner *)self;
    status st = check_plan(s, plan, err);
    if (st)
        return st;
    atomic_store(&s->yield, false);
    result->token_count = 0;
    result->chunk_done = false;
    result->chunk_part = 0;
    result->kv_bytes = 0;
    if (plan->row_count > 0) {
        decode(s, plan, result);
        clock->sleep_us(clock, s->config.decode_base_us + plan->row_count * s->config.decode_row_us);
    }
    if (plan->kind == STEP_PREFILL || plan->kind == STEP_FUSED)
        prefill(s, plan, result, clock, plan->kind == STEP_FUSED);
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

static void sim_yield(runner *self)
{
    atomic_store(&((sim_runner *)self)->yield, true);
}

static void sim_close(runner *self)
{
    sim_runner *s = (sim_runner *)self;
    if (!s)
        return;
    if (s->voice.close)
        s->voice.close(s->voice.self);
    free(s->sequences);
    free(s->kv);
    free(s->word_seeds);
    free(s);
}

static const runner_ops sim_ops = {.name = "sim",
                                   .sequence_open = sim_sequence_open,
                                   .sequence_close = sim_sequence_close,
                                   .run = sim_run,
                                   .yield = sim_yield,
                                   .close = sim_close};

#define DEFAULT(field, value)                                                                                          \
    if (!c->field)                                                                                                     \
    c->field = (value)

static void fill_defaults(sim_config *c)
{
    DEFAULT(model_name, "sim");
    DEFAULT(prefill_tokens_per_s, 20000);
    DEFAULT(decode_base_us, 2000);
    DEFAULT(decode_row_us, 5);
    DEFAULT(reply_tokens, 128);
    DEFAULT(context_length, 8192);
    DEFAULT(page_tokens, 16);
    DEFAULT(page_count, (c->context_length + c->page_tokens - 1) / c->page_tokens * 64);
    DEFAULT(max_sequences, 1024);
    DEFAULT(max_rows, c->max_sequences);
    DEFAULT(max_chunk_tokens, 512);
    DEFAULT(block_tokens, 64);
    DEFAULT(weight_bytes, 100000000);
    DEFAULT(kv_token_bytes, 20480);
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
                                 .max_sequences = c->max_sequences,
                                 .max_rows = c->max_rows,
                                 .max_chunk_tokens = c->max_chunk_tokens,
                                 .max_open_chunks = 4,
                                 .weight_bytes = c->weight_bytes};
}

status sim_runner_create(runner **out, const sim_config *config, error *err)
{
    sim_runner *s = calloc(1, sizeof *s);
    if (!s)
        return error_set(err, ERR_MEMORY, "sim runner: out of memory");
    s->base.ops = &sim_ops;
    s->config = config ? *config : (sim_config){0};
    fill_defaults(&s->config);
    snprintf(s->name, sizeof s->name, "%s", s->config.model_name);
    fill_info(s);
    s->sequences = calloc(s->config.max_sequences, sizeof *s->sequences);
    s->word_seeds = calloc(s->config.max_sequences, sizeof *s->word_seeds);
    s->kv = calloc((size_t)s->config.page_count * s->config.page_tokens, sizeof *s->kv);
    if (!s->sequences || !s->word_seeds || !s->kv) {
        error_set(err, ERR_MEMORY, "sim runner: no memory for %u pages of %u tokens", s->config.page_count,
                  s->config.page_tokens);
        sim_close(&s->base);
        return ERR_MEMORY;
    }
    s->voice = s->config.voice ? *s->config.voice : (sim_voice){s, words_open, words_token, NULL};
    s->config.voice = NULL;
    *out = &s->base;
    return OK;
}
