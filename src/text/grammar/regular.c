/* text/grammar/regular.c: finite automata with each other: both, one without the other. */
#include "text/grammar/nfa.h"
#include "text/grammar/weave.h"

#include <stdlib.h>

/* Marks the states from which an accepting one is reached. */
static bool mark_live(grammar_builder *b, const automaton *a, uint8_t *live)
{
    for (bool changed = true; changed;) { /* targets mostly have higher numbers */
        changed = false;
        for (uint32_t i = a->state_count; i-- > 0;) {
            const fa_state *s = &a->states[i];
            bool was = live[i];
            live[i] = was || s->accept;
            for (uint32_t e = 0; !live[i] && e < s->edge_count; e++)
                live[i] = live[a->edges[s->first_edge + e].to];
            changed |= live[i] != was;
        }
        if (!builder_work(b, a->state_count + a->edge_count / 2))
            return false;
    }
    return true;
}

/* Takes out what leads nowhere. */
static bool trim(grammar_builder *b, automaton *a)
{
    uint8_t *live = calloc(a->state_count + 1, 1);
    uint32_t *number = calloc(a->state_count + 1, sizeof *number), count = 0;
    automaton out = {0};
    bool ok = live && number && mark_live(b, a, live);
    for (uint32_t i = 0; ok && i < a->state_count; i++)
        number[i] = live[i] || i == 0 ? count++ : 0;
    for (uint32_t i = 0; ok && i < a->state_count; i++) {
        const fa_state *s = &a->states[i];
        if (!live[i] && i != 0)
            continue;
        ok = automaton_add_state(&out, s->accept);
        for (uint32_t e = 0; ok && e < s->edge_count; e++) {
            const fa_edge *edge = &a->edges[s->first_edge + e];
            if (live[edge->to])
                ok = automaton_add_edge(&out, edge->lo, edge->hi, number[edge->to]);
        }
    }
    free(live);
    free(number);
    automaton_free(a);
    *a = out;
    return ok || (builder_fail(b, ERR_MEMORY, "grammar: out of memory"), false);
}

bool regular_of(grammar_builder *b, grammar_rule rule, automaton *out)
{
    nfa n;
    *out = (automaton){0};
    if (b->failed || !rule)
        return false;
    nfa_init(&n);
    weave_regular(b, &n, rule);
    bool ok = nfa_resolve(b, &n, false, true, out) && trim(b, out);
    nfa_free(&n);
    if (!ok)
        automaton_free(out);
    return ok;
}

/* ---- pairs of states ---- */

typedef struct {
    uint32_t x, y;
} state_pair;

typedef struct {
    state_pair *pairs;
    uint32_t count, capacity;
    uint32_t *table, table_size; /* number + 1 */
} pair_table;

enum { NOWHERE = UINT32_MAX };

static uint32_t pair_slot(const pair_table *t, state_pair p)
{
    uint64_t h = ((uint64_t)p.x << 32 | p.y) * 0x9E3779B97F4A7C15u;
    uint32_t at = (uint32_t)(h >> 33) % t->table_size;
    while (t->table[at]) {
        state_pair q = t->pairs[t->table[at] - 1];
        if (q.x == p.x && q.y == p.y)
            break;
        at = (at + 1) % t->table_size;
    }
    return at;
}

static bool pair_number(pair_table *t, state_pair p, uint32_t *out)
{
    if (t->count == t->capacity) {
        uint32_t more = t->capacity ? t->capacity * 2 : 256;
        state_pair *pairs = realloc(t->pairs, more * sizeof *pairs);
        if (!pairs)
            return false;
        t->pairs = pairs;
        t->capacity = more;
        free(t->table);
        t->table_size = more * 2;
        t->table = calloc(t->table_size, sizeof *t->table);
        if (!t->table)
            return false;
        for (uint32_t i = 0; i < t->count; i++)
            t->table[pair_slot(t, t->pairs[i])] = i + 1;
    }
    uint32_t at = pair_slot(t, p);
    if (!t->table[at]) {
        t->pairs[t->count++] = p;
        t->table[at] = t->count;
    }
    *out = t->table[at] - 1;
    return true;
}

static const fa_edge *edge_at(const automaton *a, uint32_t state, int byte, int *until)
{
    *until = 256;
    if (state == NOWHERE)
        return NULL;
    const fa_state *s = &a->states[state];
    for (uint32_t e = 0; e < s->edge_count; e++) {
        const fa_edge *edge = &a->edges[s->first_edge + e];
        if (edge->lo > byte) {
            *until = edge->lo;
            return NULL;
        }
        if (edge->hi >= byte) {
            *until = edge->hi + 1;
            return edge;
        }
    }
    return NULL;
}

static bool combine_state(const automaton *x, const automaton *y, regular_operation how, pair_table *t, state_pair p,
                          automaton *out)
{
    bool in_y = p.y != NOWHERE && y->states[p.y].accept;
    if (!automaton_add_state(out, x->states[p.x].accept && (how == REGULAR_AND ? in_y : !in_y)))
        return false;
    for (int byte = 0, until_x, until_y; byte < 256; byte = until_x < until_y ? until_x : until_y) {
        const fa_edge *ex = edge_at(x, p.x, byte, &until_x), *ey = edge_at(y, p.y, byte, &until_y);
        uint32_t to;
        if (!ex || (how == REGULAR_AND && !ey))
            continue;
        if (!pair_number(t, (state_pair){ex->to, ey ? ey->to : NOWHERE}, &to) ||
            !automaton_add_edge(out, (uint8_t)byte, (uint8_t)((until_x < until_y ? until_x : until_y) - 1), to))
            return false;
    }
    return true;
}

bool regular_combine(grammar_builder *b, const automaton *x, const automaton *y, regular_operation how, automaton *out)
{
    pair_table t = {0};
    uint32_t first;
    *out = (automaton){0};
    bool ok = !b->failed && x->state_count && y->state_count && pair_number(&t, (state_pair){0, 0}, &first);
    for (uint32_t i = 0; ok && i < t.count; i++) {
        ok = builder_work(b, 8 + x->states[t.pairs[i].x].edge_count) && t.count < STATES_MAX / 2 &&
             combine_state(x, y, how, &t, t.pairs[i], out);
    }
    free(t.pairs);
    free(t.table);
    if (!ok)
        builder_fail(b, ERR_LIMIT, "the grammar is too large to be compiled");
    ok = ok && trim(b, out);
    if (!ok)
        automaton_free(out);
    return ok;
}
