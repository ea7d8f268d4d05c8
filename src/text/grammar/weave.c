/* text/grammar/weave.c: Thompson's construction. No sub-automaton relies on its first state having no edge in, or its
 * last none out: repetitions bring a state of their own. */
#include "text/grammar/weave.h"

typedef struct {
    grammar_builder *b;
    nfa *n;
    const weave_facts *facts; /* NULL: all is written out */
    uint32_t depth;
} weaver;

static void weave(weaver *w, uint32_t id, uint32_t from, uint32_t to);

static uint32_t times_of(const node *n)
{
    return n->c == UINT32_MAX ? n->b : n->c;
}

bool weave_is_loop(const grammar_builder *b, const weave_facts *f, uint32_t id)
{
    const node *n = &b->nodes[id];
    return n->kind == NODE_REPEAT && times_of(n) > 1 && (uint64_t)times_of(n) * f->weights[n->a] > INLINE_MAX;
}

static bool is_call(const weaver *w, uint32_t id)
{
    const node *n = &w->b->nodes[id];
    switch (n->kind) {
    case NODE_RULE:
    case NODE_FA:
        return true;
    case NODE_NEVER:
    case NODE_TEXT:
    case NODE_RANGE:
        return false;
    default:
        return weave_is_loop(w->b, w->facts, id) || (w->facts->uses[id] > 1 && w->facts->weights[id] > SHARED_MIN);
    }
}

static void weave_text(weaver *w, const node *n, uint32_t from, uint32_t to)
{
    if (n->b == 0)
        nfa_silent(w->n, from, to);
    for (uint32_t i = 0; i < n->b; i++) {
        uint32_t next = i + 1 == n->b ? to : nfa_state(w->n);
        uint8_t byte = (uint8_t)w->b->bytes.data[n->a + i];
        nfa_bytes(w->n, from, byte, byte, next);
        from = next;
    }
}

static void weave_repeat(weaver *w, const node *n, uint32_t from, uint32_t to)
{
    for (uint32_t i = 0; i < n->b && !w->b->failed && !w->n->failed; i++) {
        uint32_t next = nfa_state(w->n);
        weave(w, n->a, from, next);
        from = next;
    }
    if (n->c == UINT32_MAX) {
        uint32_t hub = nfa_state(w->n);
        nfa_silent(w->n, from, hub);
        weave(w, n->a, hub, hub);
        nfa_silent(w->n, hub, to);
        return;
    }
    for (uint32_t i = n->b; i < n->c && !w->b->failed && !w->n->failed; i++) {
        uint32_t next = nfa_state(w->n);
        nfa_silent(w->n, from, to);
        weave(w, n->a, from, next);
        from = next;
    }
    nfa_silent(w->n, from, to);
}

/* Two rows of states, before and after the first element; an element is written once, between them. */
static void weave_list(weaver *w, const node *n, uint32_t from, uint32_t to)
{
    uint32_t before = from, after = UINT32_MAX;
    uint32_t count = n->b, first = n->a, separator = n->c;
    bool some = n->kind == NODE_SOME;
    for (uint32_t i = 0; i < count && !w->b->failed; i++) {
        uint32_t kid = w->b->kids[first + i];
        bool optional = kid & LIST_OPTIONAL;
        if (w->facts && !(w->facts->traits[kid & ~LIST_OPTIONAL] & TRAIT_PRODUCTIVE))
            continue; /* an optional one, or the list would not be written */
        uint32_t here = nfa_state(w->n), done = nfa_state(w->n);
        if (before != UINT32_MAX)
            nfa_silent(w->n, before, here);
        if (after != UINT32_MAX) {
            weave(w, separator, after, here);
            if (optional)
                nfa_silent(w->n, after, done);
        }
        weave(w, kid & ~LIST_OPTIONAL, here, done);
        if (before != UINT32_MAX && optional) {
            uint32_t next = nfa_state(w->n);
            nfa_silent(w->n, before, next);
            before = next;
        } else {
            before = UINT32_MAX;
        }
        after = done;
    }
    if (after != UINT32_MAX)
        nfa_silent(w->n, after, to);
    if (before != UINT32_MAX && !some)
        nfa_silent(w->n, before, to);
}

static void weave_automaton(weaver *w, const automaton *a, uint32_t from, uint32_t to)
{
    uint32_t base = w->n->state_count;
    for (uint32_t i = 0; i < a->state_count; i++)
        nfa_state(w->n);
    if (w->n->failed)
        return;
    nfa_silent(w->n, from, base);
    for (uint32_t i = 0; i < a->state_count; i++) {
        const fa_state *s = &a->states[i];
        for (uint32_t e = 0; e < s->edge_count; e++) {
            const fa_edge *edge = &a->edges[s->first_edge + e];
            nfa_bytes(w->n, base + i, edge->lo, edge->hi, base + edge->to);
        }
        if (s->accept)
            nfa_silent(w->n, base + i, to);
    }
    builder_work(w->b, a->state_count);
}

/* The node as it is, calls below it only. */
static void weave_open(weaver *w, uint32_t id, uint32_t from, uint32_t to)
{
    node n = w->b->nodes[id];
    switch (n.kind) {
    case NODE_NEVER:
        break;
    case NODE_TEXT:
        weave_text(w, &n, from, to);
        break;
    case NODE_RANGE:
        nfa_bytes(w->n, from, (uint8_t)n.a, (uint8_t)n.b, to);
        break;
    case NODE_SEQ:
        for (uint32_t i = 0; i < n.b && !w->b->failed; i++) {
            uint32_t next = i + 1 == n.b ? to : nfa_state(w->n);
            weave(w, w->b->kids[n.a + i], from, next);
            from = next;
        }
        break;
    case NODE_CHOICE:
        for (uint32_t i = 0; i < n.b && !w->b->failed; i++)
            weave(w, w->b->kids[n.a + i], from, to);
        break;
    case NODE_LIST:
    case NODE_SOME:
        weave_list(w, &n, from, to);
        break;
    case NODE_REPEAT:
        weave_repeat(w, &n, from, to);
        break;
    case NODE_RULE:
        if (n.a)
            weave(w, n.a, from, to);
        break;
    case NODE_FA:
        weave_automaton(w, &w->b->automata[n.a], from, to);
        break;
    }
}

static void weave(weaver *w, uint32_t id, uint32_t from, uint32_t to)
{
    if (!builder_work(w->b, 1) || w->n->failed)
        return;
    if (w->facts && !(w->facts->traits[id] & TRAIT_PRODUCTIVE))
        return;
    if (w->facts && is_call(w, id)) {
        uint8_t traits = w->facts->traits[id];
        if (traits & TRAIT_NULLABLE)
            nfa_silent(w->n, from, to);
        if (traits & TRAIT_LONG)
            nfa_call(w->n, from, w->facts->procedure_of(w->facts->context, id), to);
        return;
    }
    if (++w->depth > NESTING_MAX * 16)
        builder_fail(w->b, ERR_LIMIT, "the grammar is nested too deep");
    else
        weave_open(w, id, from, to);
    w->depth--;
}

void weave_procedure(grammar_builder *b, nfa *n, const weave_facts *f, uint32_t id)
{
    weaver w = {.b = b, .n = n, .facts = f};
    weave_open(&w, id, NFA_START, NFA_END);
}

void weave_regular(grammar_builder *b, nfa *n, uint32_t id)
{
    weaver w = {.b = b, .n = n};
    weave(&w, id, NFA_START, NFA_END);
}
