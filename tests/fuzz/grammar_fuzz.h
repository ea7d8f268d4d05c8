/* tests/fuzz/grammar_fuzz.h: what holds for every grammar that compiles: from wherever a walk gets, it can go on or
 * end. */
#ifndef HEADWAY_TESTS_GRAMMAR_FUZZ_H
#define HEADWAY_TESTS_GRAMMAR_FUZZ_H

#include <stdlib.h>

#include "base/rng.h"
#include "text/grammar/machine.h"

static inline void fuzz_walk(const grammar *g, uint64_t seed)
{
    machine m;
    way buffers[2][WAYS_MAX];
    way_list now = {buffers[0], 0, WAYS_MAX, false};
    rng r = {seed};
    if (machine_init(&m, g, 16))
        return;
    machine_start(&m, &now);
    for (int i = 0; i < 100 && (now.count || !now.ended); i++) {
        if (!now.count)
            abort(); /* a dead end */
        const fa_state *s = &g->all.states[now.ways[rng_below(&r, now.count)].state];
        const fa_edge *e = &g->all.edges[s->first_edge + rng_below(&r, s->edge_count)];
        way_list next = {now.ways == buffers[0] ? buffers[1] : buffers[0], 0, WAYS_MAX, false};
        machine_step(&m, now.ways, now.count, (uint8_t)(e->lo + rng_below(&r, (uint64_t)(e->hi - e->lo) + 1)), &next);
        now = next;
        if (i % 16 == 0)
            machine_compact(&m, &now);
    }
    machine_free(&m);
}

/* Takes the builder. */
static inline void fuzz_finish(grammar_builder *b, grammar_rule root, uint64_t seed)
{
    grammar *g;
    error err = {""};
    if (grammar_finish(b, root, &g, &err) == OK) {
        fuzz_walk(g, seed);
        grammar_release(g);
    } else if (!err.text[0]) {
        abort();
    }
    grammar_builder_destroy(b);
}

#endif
