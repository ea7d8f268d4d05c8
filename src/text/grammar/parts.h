/* text/grammar/parts.h: what a grammar is made of; private to text/grammar and its tests. A builder holds a graph of
 * nodes; grammar_finish makes procedures of it: finite automata over bytes whose states may also call another
 * procedure, so that a stack of return states is all that a text's prefix leaves behind. A compiled grammar is
 * immutable: any thread reads it. */
#ifndef HEADWAY_TEXT_GRAMMAR_PARTS_H
#define HEADWAY_TEXT_GRAMMAR_PARTS_H

#include "text/grammar/grammar.h"

#include <stdatomic.h>

enum {
    NODES_MAX = 400000,
    TEXT_MAX = 4 << 20,  /* bytes of literals */
    STATES_MAX = 300000, /* of all procedures */
    EDGES_MAX = 1500000,
    WORK_MAX = 6000000,    /* steps of compilation: well below a second */
    DFA_STATES_MAX = 6000, /* of one procedure; above it stays nondeterministic */
    DFA_GROWTH_MAX = 16,   /* and at most so many for each state that it had */
    INLINE_MAX = 96,       /* a counted repetition up to this size is written out, a larger one counts */
    SHARED_MIN = 24,       /* a node of this size that is used twice becomes a procedure */
    NESTING_MAX = 200,     /* of brackets, groups, subschemas */
};

/* ---- automata ---- */

typedef struct {
    uint8_t lo, hi;
    uint32_t to;
} fa_edge;

enum { TAIL_CALL = UINT32_MAX };

typedef struct {
    uint32_t callee; /* procedure */
    uint32_t to;     /* state after it returned; TAIL_CALL: the caller's end */
} fa_call;

typedef struct {
    uint32_t first_edge, first_call;
    uint16_t edge_count, call_count;
    bool accept;
    bool plain; /* edges only: nothing happens on arriving here */
    uint32_t procedure;
} fa_state;

typedef struct { /* state 0 is the start; edges of a deterministic one are sorted and disjoint */
    fa_state *states;
    fa_edge *edges;
    fa_call *calls;
    uint32_t state_count, edge_count, call_count;
    uint32_t state_capacity, edge_capacity, call_capacity;
} automaton;

void automaton_free(automaton *a);
bool automaton_add_state(automaton *a, bool accept); /* edges and calls that are added next belong to it */
bool automaton_add_edge(automaton *a, uint8_t lo, uint8_t hi, uint32_t to);
bool automaton_add_call(automaton *a, uint32_t callee, uint32_t to);

/* ---- the builder ---- */

typedef enum {
    NODE_NEVER,  /* no text */
    NODE_TEXT,   /* a: offset in bytes, b: size */
    NODE_RANGE,  /* one byte from a to b */
    NODE_SEQ,    /* a: first of kids, b: count */
    NODE_CHOICE, /* the same */
    NODE_LIST,   /* the same; c: separator. In order, those with LIST_OPTIONAL may be missing */
    NODE_SOME,   /* a list that is not empty */
    NODE_REPEAT, /* a: child, b: min, c: max */
    NODE_RULE,   /* a: body, 0 as long as it is not known; b: offset of its name, c: size */
    NODE_FA,     /* a: index in automata; deterministic */
} node_kind;

#define LIST_OPTIONAL 0x80000000u

typedef struct {
    node_kind kind;
    uint32_t a, b, c;
} node;

typedef struct schema_memo schema_memo;

struct grammar_builder {
    node *nodes;
    uint32_t node_count, node_capacity;
    uint32_t *kids;
    uint32_t kid_count, kid_capacity;
    buf bytes;
    automaton *automata;
    uint32_t automaton_count, automaton_capacity;
    uint64_t work;
    status failed;
    error why;
    grammar_rule never, empty, json_string, json_number, json_value, json_object, space,
        colon_space; /* made once; 0: not yet */
};

grammar_rule builder_fail(grammar_builder *b, status code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));             /* the first one stays; 0 */
bool builder_work(grammar_builder *b, uint64_t steps); /* false: too much */
grammar_rule builder_node(grammar_builder *b, node_kind kind, uint32_t a, uint32_t b2, uint32_t c);
grammar_rule builder_never(grammar_builder *b);
grammar_rule builder_empty(grammar_builder *b);
grammar_rule builder_range(grammar_builder *b, uint8_t lo, uint8_t hi);
grammar_rule builder_optional(grammar_builder *b, grammar_rule rule);
grammar_rule builder_pair(grammar_builder *b, grammar_rule first, grammar_rule second);
grammar_rule builder_either(grammar_builder *b, grammar_rule first, grammar_rule second);
grammar_rule builder_string(grammar_builder *b, const char *text);
/* kids: LIST_OPTIONAL may be set. */
grammar_rule builder_list(grammar_builder *b, const grammar_rule *kids, uint32_t count, grammar_rule separator,
                          bool some);
grammar_rule builder_rule(grammar_builder *b, span name); /* defined later: */
void builder_define(grammar_builder *b, grammar_rule rule, grammar_rule body);
grammar_rule builder_automaton(grammar_builder *b, automaton *a); /* takes it, also when it fails */

/* ---- regular languages ---- */

/* The deterministic automaton of a rule that calls nothing and counts nothing large. False: b has failed. */
bool regular_of(grammar_builder *b, grammar_rule rule, automaton *out);
typedef enum { REGULAR_AND, REGULAR_MINUS } regular_operation;
/* Both deterministic. The result has no state that leads nowhere. */
bool regular_combine(grammar_builder *b, const automaton *x, const automaton *y, regular_operation how, automaton *out);
bool automaton_accepts(const automaton *a, span text); /* deterministic, without calls */

/* ---- code points ---- */

typedef struct {
    uint32_t lo, hi;
} code_range;

typedef struct {
    code_range *ranges; /* sorted and disjoint after code_set_close */
    uint32_t count, capacity;
    bool failed;
} code_set;

void code_set_add(code_set *s, uint32_t lo, uint32_t hi);
void code_set_close(code_set *s, bool negate);
void code_set_free(code_set *s);

typedef enum {
    SPELL_RAW,  /* UTF-8 */
    SPELL_JSON, /* UTF-8 inside a JSON string: quotes, backslashes and control characters are escaped */
} spelling;

grammar_rule code_set_rule(grammar_builder *b, const code_set *s, spelling how); /* one character of the set */
grammar_rule code_rule(grammar_builder *b, uint32_t code, spelling how);
grammar_rule any_character(grammar_builder *b, spelling how);

/* ---- the parts that schemas share ---- */

typedef enum { PATTERN_WHOLE, PATTERN_FOUND } pattern_use; /* must match all of the text, or some of it */
grammar_rule regex_rule(grammar_builder *b, span pattern, spelling how, pattern_use use, const char *what);

grammar_rule json_space(grammar_builder *b);      /* may be empty */
grammar_rule json_colon(grammar_builder *b);      /* colon, and a space or not */
grammar_rule json_comma(grammar_builder *b);      /* comma and space */
grammar_rule json_any_string(grammar_builder *b); /* quotes and all */
grammar_rule json_character(grammar_builder *b);  /* one, escapes too */
grammar_rule json_any_number(grammar_builder *b);
grammar_rule json_any_integer(grammar_builder *b);
grammar_rule json_literal(grammar_builder *b, const json_t *value);  /* this value, with spaces or not */
grammar_rule json_array_of(grammar_builder *b, grammar_rule inside); /* brackets round what may be empty */
grammar_rule json_object_of(grammar_builder *b, grammar_rule inside);

typedef struct {
    bool has_low, has_high;
    int64_t low, high;    /* both included */
    uint32_t multiple_of; /* 1: any; up to MULTIPLE_MAX */
} integer_range;
enum { MULTIPLE_MAX = 1000 };
grammar_rule integer_rule(grammar_builder *b, const integer_range *range);

typedef struct {
    bool present, exclusive;
    double value;
} number_bound;
grammar_rule number_rule(grammar_builder *b, number_bound low, number_bound high); /* no exponents */

/* ---- the compiled grammar ---- */

typedef struct {
    uint32_t start; /* state; of a loop: unused */
    bool loop, lexical;
    uint32_t body, min, max; /* of a loop */
    uint64_t shape;          /* of a lexical one: equal for equal automata of any grammar */
    uint32_t first_state;
} procedure;

struct grammar {
    _Atomic uint32_t references;
    uint64_t id; /* unique in this process */
    automaton all;
    procedure *procedures;
    uint32_t procedure_count, root;
    bool empty; /* the empty text is one of them */
};

status grammar_compile(grammar_builder *b, grammar_rule root, grammar **out, error *err);
uint64_t grammar_secret(void); /* of this process: what outsiders send must not meet in one hash */

#endif
