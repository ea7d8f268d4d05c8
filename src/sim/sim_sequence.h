/* sim/sim_sequence.h: what the sim runner knows of its sequences, and the check of plans against it. Private to sim/.
 */
#ifndef HEADWAY_SIM_SIM_SEQUENCE_H
#define HEADWAY_SIM_SIM_SEQUENCE_H

#include "base/rng.h"
#include "sim/sim_pages.h"

#include <stdatomic.h>

enum { SIM_OPEN_CHUNKS = 4 };

typedef struct {
    bool open;
    sequence_start start;
    bool begun;        /* a row or a chunk was run, or a state loaded */
    uint32_t kv_count; /* tokens that rows may follow */
    sim_state state;   /* where one is kept */
    uint64_t fault;    /* not 0: something in the pages is not this sequence's; changes what is said */
    bool chunk_open;
    prefill_chunk chunk;
    uint64_t captures_hash;
    uint64_t chunk_done;   /* tokens done, or tokens of one part each where `by_part` */
    uint64_t units_done;   /* with costs: the chunk's units that were paid for */
    bool by_part;          /* part by part, as they come; else token by token */
    uint32_t parts_looked; /* parts of the restored KV that were looked at */
} sim_sequence;

typedef struct {
    runner base; /* first */
    sim_config config;
    sim_costs costs;                 /* with config.costs, which then points here */
    double hole_in_us[CANARY_SIZES]; /* of steps with rows: to the next hole of each size; 0: not drawn yet */
    rng holes;
    double carry_us; /* less than one: what steps took and the clock was not told yet */
    sim_voice voice;
    sim_pages pages;
    sim_sequence *sequences;              /* (max_sequences) */
    uint64_t *word_seeds;                 /* (max_sequences): of the made-up words */
    uint32_t slot_users[SIM_OPEN_CHUNKS]; /* sequences that had a chunk there last */
    _Atomic bool yield;
    uint64_t interrupt_us; /* 0: none */
    char name[64];
} sim_runner;

status sim_check_plan(const sim_runner *s, const step_plan *plan, error *err); /* sim_check.c */
uint64_t sim_captures_hash(const sim_runner *s, const prefill_chunk *chunk);

#endif
