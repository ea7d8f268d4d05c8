/* text/grammar/nfa.h: a nondeterministic automaton with silent edges and calls, and what becomes of it. Private to the
 * compilation of grammars. */
#ifndef HEADWAY_TEXT_GRAMMAR_NFA_H
#define HEADWAY_TEXT_GRAMMAR_NFA_H

#include "text/grammar/parts.h"

typedef enum { EDGE_SILENT, EDGE_BYTES, EDGE_CALL } edge_kind;

typedef struct {
    uint32_t next; /* of the same state; 0: none */
    uint32_t to, callee;
    uint8_t kind, lo, hi;
} nfa_edge;

enum { NFA_START, NFA_END };

typedef struct {
    uint32_t *heads; /* of each state: index in edges, 0: none */
    nfa_edge *edges; /* 0 is not used */
    uint32_t state_count, state_capacity, edge_count, edge_capacity;
    bool failed;
} nfa;

void nfa_init(nfa *n); /* with NFA_START and NFA_END */
void nfa_free(nfa *n);
uint32_t nfa_state(nfa *n);
void nfa_silent(nfa *n, uint32_t from, uint32_t to);
void nfa_bytes(nfa *n, uint32_t from, uint8_t lo, uint8_t hi, uint32_t to);
void nfa_call(nfa *n, uint32_t from, uint32_t callee, uint32_t to);

/* `bar_start`: the start does not accept, even if the end is reached from it silently. Deterministic in bytes when that
 * stays small, otherwise (unless `must`) without silent edges only. False: b has failed. */
bool nfa_resolve(grammar_builder *b, const nfa *n, bool bar_start, bool must, automaton *out);

#endif
