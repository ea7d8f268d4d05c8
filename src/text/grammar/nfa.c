/* text/grammar/nfa.c: subset construction. A set holds the states that matter: with edges of bytes, with calls, or the
 * end. Above a bound each set is the closure of one state, which keeps it small and leaves choices to the reader. */
#include "text/grammar/nfa.h"

#include <stdlib.h>

/* ---- building ---- */

void nfa_init(nfa *n)
{
    *n = (nfa){.edge_count = 1};
    nfa_state(n);
    nfa_state(n);
}

void nfa_free(nfa *n)
{
    free(n->heads);
    free(n->edges);
    *n = (nfa){0};
}

uint32_t nfa_state(nfa *n)
{
    if (n->state_count == n->state_capacity) {
        uint32_t more = n->state_capacity ? n->state_capacity * 2 : 64;
        uint32_t *moved = more > NODES_MAX * 4u ? NULL : realloc(n->heads, more * sizeof *moved);
        if (!moved) {
            n->failed = true;
            return 0;
        }
        n->heads = moved;
        n->state_capacity = more;
    }
    n->heads[n->state_count] = 0;
    return n->state_count++;
}

static void add_edge(nfa *n, uint32_t from, nfa_edge edge)
{
    if (n->edge_count >= n->edge_capacity) {
        uint32_t more = n->edge_capacity ? n->edge_capacity * 2 : 128;
        nfa_edge *moved = more > NODES_MAX * 8u ? NULL : realloc(n->edges, more * sizeof *moved);
        if (!moved) {
            n->failed = true;
            return;
        }
        n->edges = moved;
        n->edge_capacity = more;
    }
    if (n->failed)
        return;
    edge.next = n->heads[from];
    n->heads[from] = n->edge_count;
    n->edges[n->edge_count++] = edge;
}

void nfa_silent(nfa *n, uint32_t from, uint32_t to)
{
    if (from != to)
        add_edge(n, from, (nfa_edge){.kind = EDGE_SILENT, .to = to});
}

void nfa_bytes(nfa *n, uint32_t from, uint8_t lo, uint8_t hi, uint32_t to)
{
    add_edge(n, from, (nfa_edge){.kind = EDGE_BYTES, .lo = lo, .hi = hi, .to = to});
}

void nfa_call(nfa *n, uint32_t from, uint32_t callee, uint32_t to)
{
    add_edge(n, from, (nfa_edge){.kind = EDGE_CALL, .callee = callee, .to = to});
}

/* ---- sets ---- */

typedef struct {
    uint32_t at, size;
} state_set;

typedef struct {
    grammar_builder *b;
    const nfa *n;
    state_set *sets; /* by number of the result's state */
    uint32_t set_count, set_capacity;
    uint32_t *pool;
    uint32_t pool_size, pool_capacity;
    uint32_t *table, table_size; /* set number + 1 */
    uint32_t *stamps, stamp;     /* by state: seen in this closure */
    uint32_t *todo, *found;      /* by state: scratch */
    uint32_t *slots;             /* scratch: targets by segment */
    uint32_t slot_capacity;
    bool failed;
} resolver;

static bool matters(const nfa *n, uint32_t state)
{
    if (state == NFA_END)
        return true;
    for (uint32_t e = n->heads[state]; e; e = n->edges[e].next)
        if (n->edges[e].kind != EDGE_SILENT)
            return true;
    return false;
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* The states that are reached silently from `from`, into r->found, ascending; returns how many. */
static uint32_t closure(resolver *r, const uint32_t *from, uint32_t count)
{
    uint32_t todo = 0, found = 0;
    r->stamp++;
    for (uint32_t i = 0; i < count; i++)
        if (r->stamps[from[i]] != r->stamp) {
            r->stamps[from[i]] = r->stamp;
            r->todo[todo++] = from[i];
        }
    while (todo) {
        uint32_t state = r->todo[--todo];
        if (matters(r->n, state))
            r->found[found++] = state;
        for (uint32_t e = r->n->heads[state]; e; e = r->n->edges[e].next) {
            uint32_t to = r->n->edges[e].to;
            if (r->n->edges[e].kind == EDGE_SILENT && r->stamps[to] != r->stamp) {
                r->stamps[to] = r->stamp;
                r->todo[todo++] = to;
            }
        }
        builder_work(r->b, 1);
    }
    if (found > 1)
        qsort(r->found, found, sizeof *r->found, by_number);
    return found;
}

static uint32_t hash_set(const uint32_t *set, uint32_t size)
{
    uint64_t h = size;
    for (uint32_t i = 0; i < size; i++)
        h = (h ^ set[i]) * 0x9E3779B97F4A7C15u;
    return (uint32_t)(h >> 32);
}

static bool make_room(resolver *r, uint32_t size)
{
    if (r->set_count == r->set_capacity) {
        uint32_t more = r->set_capacity ? r->set_capacity * 2 : 64, *table = calloc(more * 2, sizeof *table);
        state_set *sets = realloc(r->sets, more * sizeof *sets);
        if (sets)
            r->sets = sets;
        if (!sets || !table) {
            free(table);
            return false;
        }
        r->set_capacity = more;
        free(r->table);
        r->table = table;
        r->table_size = more * 2;
        for (uint32_t i = 0; i < r->set_count; i++) {
            uint32_t h = hash_set(r->pool + r->sets[i].at, r->sets[i].size) % r->table_size;
            while (table[h])
                h = (h + 1) % r->table_size;
            table[h] = i + 1;
        }
    }
    if (!r->pool || r->pool_size + size > r->pool_capacity) {
        uint32_t more = (r->pool_size + size) * 2 + 256;
        uint32_t *pool = more > 64u << 20 ? NULL : realloc(r->pool, more * sizeof *pool);
        if (!pool)
            return false;
        r->pool = pool;
        r->pool_capacity = more;
    }
    return true;
}

/* The number of the set r->found; `apart`: a number of its own, that no later set shares. */
static uint32_t set_number(resolver *r, uint32_t size, bool apart)
{
    if (!make_room(r, size)) {
        builder_fail(r->b, ERR_LIMIT, "the grammar is too large");
        return 0;
    }
    uint32_t h = hash_set(r->found, size) % r->table_size;
    for (; r->table[h] && !apart; h = (h + 1) % r->table_size) {
        const state_set *s = &r->sets[r->table[h] - 1];
        if (s->size == size && memcmp(r->pool + s->at, r->found, size * sizeof *r->found) == 0)
            return r->table[h] - 1;
    }
    memcpy(r->pool + r->pool_size, r->found, size * sizeof *r->found);
    r->sets[r->set_count] = (state_set){r->pool_size, size};
    r->pool_size += size;
    builder_work(r->b, size);
    if (!apart)
        r->table[h] = r->set_count + 1;
    return r->set_count++;
}

static uint32_t number_of(resolver *r, const uint32_t *targets, uint32_t count)
{
    return set_number(r, closure(r, targets, count), false);
}

/* ---- one state of the result ---- */

typedef struct {
    bool cut[257];
    uint32_t first[257], used[257]; /* of each segment: its targets in slots */
    uint8_t segment[256];
    uint32_t segments;
} split;

static bool reserve_slots(resolver *r, uint32_t count)
{
    if (count > r->slot_capacity) {
        uint32_t *moved = realloc(r->slots, count * 2 * sizeof *moved);
        if (!moved)
            return false;
        r->slots = moved;
        r->slot_capacity = count * 2;
    }
    return true;
}

#define EACH_EDGE(r, set, e)                                                                                           \
    for (uint32_t i_ = 0; i_ < (set).size; i_++)                                                                       \
        for (uint32_t e = (r)->n->heads[(r)->pool[(set).at + i_]]; e; e = (r)->n->edges[e].next)

/* Sorts the targets of the set's edges into the segments of bytes that no edge divides. False: out of memory. */
static bool split_bytes(resolver *r, state_set set, split *s)
{
    const nfa_edge *edges = r->n->edges;
    memset(s, 0, sizeof *s);
    s->cut[0] = true;
    EACH_EDGE(r, set, e)
    if (edges[e].kind == EDGE_BYTES)
        s->cut[edges[e].lo] = s->cut[edges[e].hi + 1] = true;
    for (int byte = 0; byte < 256; byte++) {
        s->segments += s->cut[byte];
        s->segment[byte] = (uint8_t)(s->segments - 1);
    }
    uint32_t total = 0;
    EACH_EDGE(r, set, e)
    if (edges[e].kind == EDGE_BYTES)
        for (uint32_t g = s->segment[edges[e].lo]; g <= s->segment[edges[e].hi]; g++) {
            s->first[g + 1]++;
            total++;
        }
    for (uint32_t g = 0; g < s->segments; g++)
        s->first[g + 1] += s->first[g];
    if (!builder_work(r->b, total + 64) || !reserve_slots(r, total + 1))
        return false;
    EACH_EDGE(r, set, e)
    if (edges[e].kind == EDGE_BYTES)
        for (uint32_t g = s->segment[edges[e].lo]; g <= s->segment[edges[e].hi]; g++)
            r->slots[s->first[g] + s->used[g]++] = edges[e].to;
    return true;
}

static bool resolve_bytes(resolver *r, state_set set, automaton *out)
{
    split s;
    if (!split_bytes(r, set, &s))
        return false;
    for (int byte = 0; byte < 256;) {
        uint32_t g = s.segment[byte];
        int end = byte + 1;
        while (end < 256 && s.segment[end] == g)
            end++;
        if (s.used[g]) {
            uint32_t to = number_of(r, r->slots + s.first[g], s.used[g]);
            if (!automaton_add_edge(out, (uint8_t)byte, (uint8_t)(end - 1), to))
                return false;
        }
        byte = end;
    }
    return true;
}

static int by_callee(const void *a, const void *b)
{
    const fa_call *x = a, *y = b;
    return x->callee != y->callee ? (x->callee < y->callee ? -1 : 1) : x->to < y->to ? -1 : x->to > y->to;
}

static uint32_t call_target(resolver *r, const uint32_t *targets, uint32_t count)
{
    uint32_t size = closure(r, targets, count);
    return size == 1 && r->found[0] == NFA_END ? TAIL_CALL : set_number(r, size, false);
}

static bool resolve_calls(resolver *r, state_set set, bool single, automaton *out)
{
    uint32_t count = 0;
    EACH_EDGE(r, set, e) count += r->n->edges[e].kind == EDGE_CALL;
    if (!count)
        return true;
    fa_call *calls = malloc(count * sizeof *calls);
    if (!calls || !reserve_slots(r, count)) {
        free(calls);
        return false;
    }
    count = 0;
    EACH_EDGE(r, set, e)
    if (r->n->edges[e].kind == EDGE_CALL)
        calls[count++] = (fa_call){r->n->edges[e].callee, r->n->edges[e].to};
    qsort(calls, count, sizeof *calls, by_callee);
    bool ok = true;
    for (uint32_t i = 0, end; ok && i < count; i = end) {
        for (end = i; end < count && calls[end].callee == calls[i].callee && (end == i || !single); end++)
            r->slots[end - i] = calls[end].to;
        ok = automaton_add_call(out, calls[i].callee, call_target(r, r->slots, end - i));
    }
    free(calls);
    return ok && builder_work(r->b, count * 4);
}

static bool resolve_single(resolver *r, state_set set, automaton *out)
{
    EACH_EDGE(r, set, e)
    {
        const nfa_edge *edge = &r->n->edges[e];
        if (edge->kind == EDGE_BYTES &&
            !(builder_work(r->b, 2) && automaton_add_edge(out, edge->lo, edge->hi, number_of(r, &edge->to, 1))))
            return false;
    }
    return true;
}

static bool holds_end(const resolver *r, state_set set)
{
    for (uint32_t i = 0; i < set.size; i++)
        if (r->pool[set.at + i] == NFA_END)
            return true;
    return false;
}

/* False: failed, or more than `limit` states. */
static bool resolve(resolver *r, bool bar_start, bool single, uint32_t limit, automaton *out)
{
    uint32_t start = NFA_START;
    uint32_t size = closure(r, &start, 1);
    set_number(r, size, bar_start);
    for (uint32_t i = 0; i < r->set_count && !r->b->failed; i++) {
        state_set set = r->sets[i];
        if (r->set_count > limit)
            return false;
        if (!automaton_add_state(out, holds_end(r, set) && !(bar_start && i == 0)))
            return false;
        if (!(single ? resolve_single(r, set, out) : resolve_bytes(r, set, out)) || !resolve_calls(r, set, single, out))
            return false;
    }
    return !r->b->failed;
}

static void resolver_free(resolver *r)
{
    free(r->sets);
    free(r->pool);
    free(r->table);
    free(r->stamps);
    free(r->todo);
    free(r->found);
    free(r->slots);
}

static bool try_resolve(grammar_builder *b, const nfa *n, bool bar_start, bool single, uint32_t limit, automaton *out)
{
    resolver r = {.b = b, .n = n};
    r.stamps = calloc(n->state_count, sizeof *r.stamps);
    r.todo = malloc(n->state_count * sizeof *r.todo);
    r.found = malloc(n->state_count * sizeof *r.found);
    bool ok = r.stamps && r.todo && r.found && resolve(&r, bar_start, single, limit, out);
    resolver_free(&r);
    if (!ok)
        automaton_free(out);
    return ok;
}

bool nfa_resolve(grammar_builder *b, const nfa *n, bool bar_start, bool must, automaton *out)
{
    *out = (automaton){0};
    if (n->failed)
        builder_fail(b, ERR_LIMIT, "the grammar is too large");
    if (b->failed)
        return false;
    uint32_t limit = n->state_count * DFA_GROWTH_MAX + 256;
    limit = must ? STATES_MAX / 4 : limit > DFA_STATES_MAX && n->state_count < DFA_STATES_MAX ? DFA_STATES_MAX : limit;
    if (try_resolve(b, n, bar_start, false, limit, out))
        return true;
    if (!b->failed && !must && try_resolve(b, n, bar_start, true, STATES_MAX, out))
        return true;
    builder_fail(b, ERR_LIMIT, "the grammar is too large or too ambiguous to be compiled");
    return false;
}
