/* text/grammar/token_masks.h: the parts of token_masks and of its constraints; private to token_masks.c, constraint.c
 * and tests. One worker thread makes masks; `lock` guards everything but the machine of a constraint, which belongs to
 * the worker while `working` or `queued`, to the engine thread otherwise. */
#ifndef HEADWAY_TEXT_GRAMMAR_TOKEN_MASKS_H
#define HEADWAY_TEXT_GRAMMAR_TOKEN_MASKS_H

#include "text/grammar/mask_cache.h"
#include "text/grammar/mask_walk.h"

#include <pthread.h>

typedef struct constraint constraint;

typedef struct {
    uint64_t made, made_us; /* masks, and what they took */
    uint64_t asked, found;  /* by constraints; and how many of those were there */
    uint64_t slowest_us;
} mask_counts;

struct token_masks {
    token_trie trie;
    uint32_t words;       /* of a mask */
    uint32_t *stop_bits;  /* (words) */
    uint32_t *other_bits; /* (words): all but those */
    const tokenizer *tokenizer;
    pthread_mutex_t lock;
    pthread_cond_t work;
    pthread_t thread;
    bool started, stopping;
    mask_cache cache;
    constraint *first, *last; /* that wait for a mask */
    mask_walk walk;           /* the worker's */
    mask_counts counts;
};

struct constraint {
    token_constraint base; /* first */
    grammar *g;
    token_masks *masks;
    machine machine;
    way buffers[2][WAYS_MAX];
    way_list now;
    bool untouched;                                                /* no token yet */
    bool waiting;                                                  /* for the marker */
    char marker[MARKER_BYTES_MAX + 1], tail[MARKER_BYTES_MAX + 1]; /* tail: the last bytes of the text */
    size_t marker_size, tail_size;
    constraint_state state;
    mask_entry *mask; /* held */
    _Atomic bool ready;
    bool queued, working, dead;
    constraint *next;
    void (*woken)(void *context);
    void *woken_context;
};

/* Worker: the mask for where `c` is now; NULL: out of memory. */
mask_entry *token_masks_make(token_masks *m, constraint *c);
void token_masks_key(const constraint *c, uint64_t key[2]);
void constraint_free(constraint *c);
mask_counts token_masks_counts(token_masks *m);

#endif
