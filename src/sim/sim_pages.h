/* sim/sim_pages.h: the page memory of the pretended model: what KV and recurrent state are made of, and their mover.
 * A page is `parts` parts of one 64-bit hash per token. Part 0 has a chain: each hash is made of the token and of the
 * hash before it; part p has the same chain under a mark of its own. The state after n tokens is another chain, kept
 * with the SIM_WORD - 1 values before it. A checkpoint is state_pages pages filled to their last byte with what follows
 * from these, so that a byte that is not its own shows. Engine thread, but for the mover (kv/page_mover.h). */
#ifndef HEADWAY_SIM_SIM_PAGES_H
#define HEADWAY_SIM_SIM_PAGES_H

#include "sim/sim_runner.h"

typedef struct {
    page_mover mover; /* first */
    uint32_t page_tokens, page_count, state_pages;
    uint64_t *memory;    /* (page_count, parts, page_tokens); NULL in the light runner */
    uint32_t *positions; /* (page_count), in the light runner: of the state that begins in that page */
} sim_pages;

typedef struct { /* of one sequence, after `position` tokens */
    uint32_t position;
    uint64_t recent[SIM_WORD]; /* recent[i]: the chain after position - i tokens */
} sim_state;

uint64_t sim_mix(uint64_t a, uint64_t b);

/* Takes pages, tokens and parts of a config without zeros; state_pages 0: as many as a state needs. Without memory
 * nothing may be read or written but states, of which only the position is kept. */
status sim_pages_open(sim_pages *p, const sim_config *config, error *err);
void sim_pages_close(sim_pages *p);

void sim_pages_copy(sim_pages *p, page_id to, page_id from);

uint64_t sim_kv_read(const sim_pages *p, const uint32_t *pages, uint32_t position); /* part 0 */
void sim_kv_write(sim_pages *p, const uint32_t *pages, uint32_t position, uint32_t part, int32_t token);
/* 0: the part's hash at `position` is what `token` there and the hash before it make; else a number that is not. */
uint64_t sim_kv_fault(const sim_pages *p, const uint32_t *pages, uint32_t position, uint32_t part, int32_t token);

void sim_state_advance(sim_state *s, int32_t token);
void sim_state_store(sim_pages *p, const sim_state *s, const page_id *pages);
/* Returns 0, or a number that is not where a byte of the pages is not what was stored. */
uint64_t sim_state_fetch(const sim_pages *p, sim_state *s, const page_id *pages);

#endif
