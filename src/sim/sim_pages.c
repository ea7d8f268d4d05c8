/* sim/sim_pages.c: hashes in pages. */
#include "sim/sim_pages.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { STATE_WORDS = 1 + SIM_WORD + 1 /* position, recent, at least one of the filling */, SIM_LAYOUT = 1 };

uint64_t sim_mix(uint64_t a, uint64_t b)
{
    uint64_t z = (a ^ (b + 0x9E3779B97F4A7C15u)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* ---- the mover ---- */

static uint64_t *part_at(const sim_pages *p, page_id page, uint32_t part)
{
    return p->memory + ((size_t)page * p->mover.parts + part) * p->page_tokens;
}

static void *mover_at(page_mover *self, page_id page, uint32_t part)
{
    return part_at((sim_pages *)self, page, part);
}

static void mover_read(page_mover *self, page_id page, uint32_t part, void *dst)
{
    memcpy(dst, part_at((sim_pages *)self, page, part), self->part_bytes);
}

static void mover_write(page_mover *self, page_id page, uint32_t part, const void *src)
{
    memcpy(part_at((sim_pages *)self, page, part), src, self->part_bytes);
}

static const page_mover_ops mover_ops = {mover_at, mover_read, mover_write, NULL};

static uint64_t fingerprint(const sim_config *config, const sim_pages *p)
{
    const uint64_t numbers[] = {SIM_LAYOUT, config->page_tokens, config->parts, config->state_bytes, p->state_pages};
    return XXH3_64bits_withSeed(numbers, sizeof numbers, XXH3_64bits(config->model_name, strlen(config->model_name)));
}

/* ---- life ---- */

status sim_pages_open(sim_pages *p, const sim_config *config, error *err)
{
    if (config->parts > PAGE_PARTS_MAX)
        return error_set(err, ERR_INVALID, "sim runner: %u parts of a page, at most %d", config->parts, PAGE_PARTS_MAX);
    *p = (sim_pages){.mover = {.ops = &mover_ops, .parts = config->parts},
                     .page_tokens = config->page_tokens,
                     .page_count = config->page_count};
    p->mover.part_bytes = config->page_tokens * sizeof *p->memory;
    uint32_t page_words = config->parts * config->page_tokens;
    uint32_t least = config->state_bytes ? (STATE_WORDS + page_words - 1) / page_words : 0;
    p->state_pages = config->state_bytes && config->state_pages ? config->state_pages : least;
    if (p->state_pages < least)
        return error_set(err, ERR_INVALID, "sim runner: a state needs %u pages of %u tokens", least, p->page_tokens);
    p->mover.fingerprint = fingerprint(config, p);
    if (config->light)
        p->positions = calloc(config->page_count, sizeof *p->positions);
    else
        p->memory = calloc((size_t)config->page_count * page_words, sizeof *p->memory);
    if (!p->memory && !p->positions)
        return error_set(err, ERR_MEMORY, "sim runner: no memory for %u pages of %u tokens", config->page_count,
                         config->page_tokens);
    return OK;
}

void sim_pages_close(sim_pages *p)
{
    free(p->memory);
    free(p->positions);
    p->memory = NULL;
    p->positions = NULL;
}

void sim_pages_copy(sim_pages *p, page_id to, page_id from)
{
    for (uint32_t part = 0; p->memory && part < p->mover.parts; part++)
        memcpy(part_at(p, to, part), part_at(p, from, part), p->mover.part_bytes);
}

/* ---- KV ---- */

static uint64_t *kv_at(const sim_pages *p, const uint32_t *pages, uint32_t position, uint32_t part)
{
    return part_at(p, pages[position / p->page_tokens], part) + position % p->page_tokens;
}

uint64_t sim_kv_read(const sim_pages *p, const uint32_t *pages, uint32_t position)
{
    return *kv_at(p, pages, position, 0);
}

static uint64_t kv_made(const sim_pages *p, const uint32_t *pages, uint32_t position, uint32_t part, int32_t token)
{
    uint64_t before = position > 0 ? sim_kv_read(p, pages, position - 1) : 0;
    uint64_t chain = sim_mix(before, (uint64_t)token);
    return part ? sim_mix(chain, part) : chain;
}

void sim_kv_write(sim_pages *p, const uint32_t *pages, uint32_t position, uint32_t part, int32_t token)
{
    *kv_at(p, pages, position, part) = kv_made(p, pages, position, part, token);
}

uint64_t sim_kv_fault(const sim_pages *p, const uint32_t *pages, uint32_t position, uint32_t part, int32_t token)
{
    uint64_t there = *kv_at(p, pages, position, part), made = kv_made(p, pages, position, part, token);
    return there == made ? 0 : sim_mix(there, position) | 1;
}

/* ---- recurrent state ---- */

void sim_state_advance(sim_state *s, int32_t token)
{
    uint64_t now = sim_mix(~s->recent[0], (uint64_t)token);
    memmove(s->recent + 1, s->recent, (SIM_WORD - 1) * sizeof *s->recent);
    s->recent[0] = now;
    s->position++;
}

static uint64_t *state_word(const sim_pages *p, const page_id *pages, uint32_t index)
{
    uint32_t page_words = p->mover.parts * p->page_tokens;
    return part_at(p, pages[index / page_words], 0) + index % page_words;
}

static uint64_t mark_of(const sim_state *s)
{
    uint64_t mark = s->position;
    for (uint32_t i = 0; i < SIM_WORD; i++)
        mark = sim_mix(mark, s->recent[i]);
    return mark;
}

static uint64_t stored_word(const sim_state *s, uint64_t mark, uint32_t index)
{
    return index == 0 ? s->position : index <= SIM_WORD ? s->recent[index - 1] : sim_mix(mark, index);
}

static uint32_t stored_words(const sim_pages *p)
{
    return p->state_pages * p->mover.parts * p->page_tokens;
}

void sim_state_store(sim_pages *p, const sim_state *s, const page_id *pages)
{
    if (!p->memory) {
        p->positions[pages[0]] = s->position;
        return;
    }
    uint64_t mark = mark_of(s);
    for (uint32_t i = 0; i < stored_words(p); i++)
        *state_word(p, pages, i) = stored_word(s, mark, i);
}

uint64_t sim_state_fetch(const sim_pages *p, sim_state *s, const page_id *pages)
{
    if (!p->memory) {
        s->position = p->positions[pages[0]];
        return 0;
    }
    uint64_t fault = 0;
    s->position = (uint32_t)*state_word(p, pages, 0);
    for (uint32_t i = 0; i < SIM_WORD; i++)
        s->recent[i] = *state_word(p, pages, 1 + i);
    uint64_t mark = mark_of(s);
    for (uint32_t i = 0; i < stored_words(p); i++)
        if (*state_word(p, pages, i) != stored_word(s, mark, i))
            fault = sim_mix(fault, i) | 1;
    return fault;
}
