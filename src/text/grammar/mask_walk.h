/* text/grammar/mask_walk.h: which tokens may follow? The tree of tokens is walked with the ways of a machine; what no
 * way goes into is passed over whole. */
#ifndef HEADWAY_TEXT_GRAMMAR_MASK_WALK_H
#define HEADWAY_TEXT_GRAMMAR_MASK_WALK_H

#include "text/grammar/machine.h"
#include "text/grammar/token_trie.h"

typedef struct {
    uint32_t end; /* of the nodes of this level */
    uint32_t ways, count;
    uint32_t frames; /* of the machine, that the level needs */
} walk_level;

typedef struct { /* the scratch of one thread */
    const token_trie *trie;
    walk_level *levels; /* (longest + 2) */
    way *ways;          /* (longest + 2) * WAYS_MAX */
    uint32_t *bits;     /* what is found goes here */
    uint32_t *exits;    /* (node_count) with want_exits: nodes where the bottom was reached and that have children */
    uint32_t exit_count;
    bool want_exits;
    bool cut; /* by the bound on steps: not all was found */
} mask_walk;

enum { WALK_STEPS_MAX = 6000000 };

bool mask_walk_init(mask_walk *w, const token_trie *trie);
void mask_walk_free(mask_walk *w);

/* From node `from` to `end`, each beginning at `ways`. The machine is as before afterwards. */
void mask_walk_nodes(mask_walk *w, machine *m, const way *ways, uint32_t count, uint32_t from, uint32_t end);
/* One byte of a token at least, whatever the bound says: the nodes below the root only. */
void mask_walk_roots(mask_walk *w, machine *m, const way *ways, uint32_t count);

#endif
