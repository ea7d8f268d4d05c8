/* text/grammar/compile.c: from nodes to procedures. A procedure's automaton holds its texts that are not empty; where
 * it may be empty, its callers have a silent edge. So every call consumes something, and a procedure that reaches
 * itself before the first byte is the one thing that has to be refused. */
#include "text/grammar/weave.h"

#include <pthread.h>
#include <stdlib.h>
#ifdef __APPLE__
#include <sys/random.h>
#endif
#include <unistd.h>

typedef struct {
    grammar_builder *b;
    weave_facts facts;
    grammar *g;
    uint32_t *numbers; /* by node: procedure + 1 */
    uint32_t *roots;   /* by procedure: node */
    uint32_t capacity;
} compiler;

/* ---- what is known of the nodes ---- */

static uint8_t traits_of_series(const compiler *c, const node *n)
{
    uint8_t all = TRAIT_PRODUCTIVE | TRAIT_NULLABLE, some_long = 0;
    bool list = n->kind == NODE_LIST || n->kind == NODE_SOME;
    uint8_t any = 0;
    uint32_t required = 0;
    for (uint32_t i = 0; i < n->b; i++) {
        uint32_t kid = c->b->kids[n->a + i];
        uint8_t t = c->facts.traits[kid & ~LIST_OPTIONAL];
        any |= t;
        some_long |= t & TRAIT_LONG;
        if (list && (kid & LIST_OPTIONAL))
            continue;
        required++;
        all &= t;
    }
    if (!(all & TRAIT_PRODUCTIVE))
        return 0;
    if (n->kind == NODE_SOME && required == 0)
        return any;
    if (list && required > 1 && !(c->facts.traits[n->c] & TRAIT_NULLABLE))
        all &= (uint8_t)~TRAIT_NULLABLE;
    return all | some_long;
}

static uint8_t traits_of(const compiler *c, uint32_t id)
{
    const node *n = &c->b->nodes[id];
    const uint8_t *traits = c->facts.traits;
    uint8_t t = 0;
    switch (n->kind) {
    case NODE_NEVER:
        return 0;
    case NODE_TEXT:
        return TRAIT_PRODUCTIVE | (n->b ? TRAIT_LONG : TRAIT_NULLABLE);
    case NODE_RANGE:
        return TRAIT_PRODUCTIVE | TRAIT_LONG;
    case NODE_CHOICE:
        for (uint32_t i = 0; i < n->b; i++)
            t |= traits[c->b->kids[n->a + i]];
        return t;
    case NODE_REPEAT:
        t = traits[n->a];
        return n->b ? t : t | TRAIT_PRODUCTIVE | TRAIT_NULLABLE;
    case NODE_RULE:
        return n->a ? traits[n->a] : 0;
    case NODE_FA: {
        const automaton *a = &c->b->automata[n->a];
        t |= a->states[0].accept ? TRAIT_PRODUCTIVE | TRAIT_NULLABLE : 0;
        return t | (a->states[0].edge_count ? TRAIT_PRODUCTIVE | TRAIT_LONG : 0);
    }
    default:
        return traits_of_series(c, n);
    }
}

/* Only rules refer forward: few passes do. */
static bool find_traits(compiler *c)
{
    uint32_t count = c->b->node_count;
    bool changed = true;
    for (bool up = true; changed; up = !up) {
        changed = false;
        if (!builder_work(c->b, count + c->b->kid_count / 2))
            return false;
        for (uint32_t i = 0; i < count; i++) {
            uint32_t id = up ? i : count - 1 - i;
            uint8_t t = traits_of(c, id);
            changed |= t != c->facts.traits[id];
            c->facts.traits[id] = t;
        }
    }
    return true;
}

static void note_use(compiler *c, uint32_t id)
{
    c->facts.uses[id] += c->facts.uses[id] < 2;
}

static uint32_t weight_seen(const compiler *c, uint32_t id)
{
    const node *n = &c->b->nodes[id];
    bool leaf = n->kind == NODE_TEXT || n->kind == NODE_RANGE || n->kind == NODE_NEVER;
    bool call =
        !leaf && (weave_is_loop(c->b, &c->facts, id) || (c->facts.uses[id] > 1 && c->facts.weights[id] > SHARED_MIN));
    return call ? 1 : c->facts.weights[id];
}

static uint32_t weight_of(const compiler *c, const node *n)
{
    uint64_t sum = 1;
    switch (n->kind) {
    case NODE_TEXT:
        return n->b ? n->b : 1;
    case NODE_REPEAT: {
        uint64_t times = n->c == UINT32_MAX ? (uint64_t)n->b + 1 : n->c;
        sum = times * weight_seen(c, n->a);
        break;
    }
    case NODE_SEQ:
    case NODE_CHOICE:
    case NODE_LIST:
    case NODE_SOME:
        for (uint32_t i = 0; i < n->b; i++)
            sum += weight_seen(c, c->b->kids[n->a + i] & ~LIST_OPTIONAL);
        break;
    default:
        break;
    }
    return sum > 1u << 30 ? 1u << 30 : (uint32_t)sum;
}

static void find_weights(compiler *c)
{
    for (uint32_t i = 1; i < c->b->node_count; i++) {
        const node *n = &c->b->nodes[i];
        bool series = n->kind == NODE_SEQ || n->kind == NODE_CHOICE || n->kind == NODE_LIST || n->kind == NODE_SOME;
        for (uint32_t k = 0; series && k < n->b; k++)
            note_use(c, c->b->kids[n->a + k] & ~LIST_OPTIONAL);
        if (n->kind == NODE_LIST || n->kind == NODE_SOME)
            c->facts.uses[n->c] = 2;
        if (n->kind == NODE_REPEAT)
            note_use(c, n->a);
    }
    for (uint32_t i = 0; i < c->b->node_count; i++)
        c->facts.weights[i] = weight_of(c, &c->b->nodes[i]);
}

/* ---- procedures ---- */

static uint32_t procedure_of(void *context, uint32_t id)
{
    compiler *c = context;
    grammar *g = c->g;
    if (c->numbers[id])
        return c->numbers[id] - 1;
    if (g->procedure_count == c->capacity) {
        uint32_t more = c->capacity ? c->capacity * 2 : 64;
        procedure *procedures = realloc(g->procedures, more * sizeof *procedures);
        if (procedures)
            g->procedures = procedures;
        uint32_t *roots = realloc(c->roots, more * sizeof *roots);
        if (roots)
            c->roots = roots;
        if (!procedures || !roots) {
            builder_fail(c->b, ERR_MEMORY, "grammar: out of memory");
            return 0;
        }
        c->capacity = more;
    }
    g->procedures[g->procedure_count] = (procedure){0};
    c->roots[g->procedure_count] = id;
    c->numbers[id] = ++g->procedure_count;
    return g->procedure_count - 1;
}

static void make_loop(compiler *c, uint32_t number)
{
    const node *n = &c->b->nodes[c->roots[number]];
    uint8_t traits = c->facts.traits[n->a];
    uint32_t body = procedure_of(c, n->a);
    procedure *p = &c->g->procedures[number];
    p->loop = true;
    p->body = body;
    p->min = traits & TRAIT_NULLABLE ? 0 : n->b;
    p->max = n->c;
}

/* Moves a procedure's automaton into the one of all. */
static bool take_automaton(compiler *c, uint32_t number, const automaton *a)
{
    automaton *all = &c->g->all;
    uint32_t base = all->state_count;
    bool ok = base + a->state_count <= STATES_MAX && all->edge_count + a->edge_count <= EDGES_MAX;
    c->g->procedures[number].start = c->g->procedures[number].first_state = base;
    for (uint32_t i = 0; ok && i < a->state_count; i++) {
        const fa_state *s = &a->states[i];
        ok = automaton_add_state(all, s->accept);
        for (uint32_t e = 0; ok && e < s->edge_count; e++) {
            const fa_edge *edge = &a->edges[s->first_edge + e];
            ok = automaton_add_edge(all, edge->lo, edge->hi, base + edge->to);
        }
        for (uint32_t k = 0; ok && k < s->call_count; k++) {
            const fa_call *call = &a->calls[s->first_call + k];
            ok = automaton_add_call(all, call->callee, call->to == TAIL_CALL ? TAIL_CALL : base + call->to);
        }
        if (ok) {
            all->states[base + i].procedure = number;
            all->states[base + i].plain = !s->accept && !s->call_count && s->edge_count;
        }
    }
    if (!ok)
        builder_fail(c->b, ERR_LIMIT, "the grammar is too large: over %d states or %d edges", STATES_MAX, EDGES_MAX);
    return ok;
}

static bool make_procedure(compiler *c, uint32_t number)
{
    uint32_t id = c->roots[number];
    if (weave_is_loop(c->b, &c->facts, id)) {
        make_loop(c, number);
        return !c->b->failed;
    }
    nfa n;
    automaton a = {0};
    nfa_init(&n);
    weave_procedure(c->b, &n, &c->facts, id);
    bool ok = nfa_resolve(c->b, &n, true, false, &a) && take_automaton(c, number, &a);
    automaton_free(&a);
    nfa_free(&n);
    return ok;
}

/* ---- left recursion ---- */

static uint32_t start_callee(const grammar *g, uint32_t number, uint32_t which) /* UINT32_MAX: no more */
{
    const procedure *p = &g->procedures[number];
    if (p->loop)
        return which == 0 ? p->body : UINT32_MAX;
    const fa_state *s = &g->all.states[p->start];
    return which < s->call_count ? g->all.calls[s->first_call + which].callee : UINT32_MAX;
}

static bool fail_recursion(compiler *c, const uint32_t *path, uint32_t depth)
{
    for (uint32_t i = depth; i-- > 0;) {
        const node *n = &c->b->nodes[c->roots[path[i]]];
        if (n->kind == NODE_RULE && n->c) {
            builder_fail(c->b, ERR_UNSUPPORTED, "rule \"%.*s\" is left-recursive: it begins with itself", (int)n->c,
                         c->b->bytes.data + n->b);
            return false;
        }
    }
    builder_fail(c->b, ERR_UNSUPPORTED, "the grammar is left-recursive: a part begins with itself");
    return false;
}

static bool check_recursion(compiler *c)
{
    const grammar *g = c->g;
    uint32_t count = g->procedure_count, depth = 0;
    uint8_t *colours = calloc(count, 1); /* 1: on the path, 2: done */
    uint32_t *path = malloc(count * sizeof *path), *next = calloc(count, sizeof *next);
    bool ok = colours && path && next;
    for (uint32_t i = 0; ok && i < count; i++) {
        if (colours[i])
            continue;
        path[depth++] = i;
        colours[i] = 1;
        while (ok && depth) {
            uint32_t here = path[depth - 1], callee = start_callee(g, here, next[here]++);
            if (callee == UINT32_MAX) {
                colours[here] = 2;
                depth--;
            } else if (colours[callee] == 1) {
                ok = fail_recursion(c, path, depth);
            } else if (!colours[callee]) {
                colours[callee] = 1;
                path[depth++] = callee;
            }
        }
    }
    free(colours);
    free(path);
    free(next);
    return ok;
}

/* ---- lexical procedures ---- */

static uint64_t secret;

static void make_secret(void)
{
    if (getentropy(&secret, sizeof secret))
        secret = 0x6C62272E07BB0142u ^ (uintptr_t)&secret;
}

uint64_t grammar_secret(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_secret);
    return secret;
}

static uint64_t mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) * 0x9E3779B97F4A7C15u;
    return h ^ h >> 29;
}

/* Without calls, or with calls of lexical loops only: then `shape` says everything about it. */
static bool shape_of(const grammar *g, const procedure *p, uint32_t end, uint64_t *shape, bool *calls)
{
    uint64_t h = grammar_secret();
    *calls = false;
    for (uint32_t i = p->first_state; i < end; i++) {
        const fa_state *s = &g->all.states[i];
        h = mix(h, (uint64_t)s->accept << 32 | s->edge_count);
        for (uint32_t e = 0; e < s->edge_count; e++) {
            const fa_edge *edge = &g->all.edges[s->first_edge + e];
            h = mix(h, (uint64_t)(edge->to - p->first_state) << 16 | (uint64_t)edge->lo << 8 | edge->hi);
        }
        for (uint32_t k = 0; k < s->call_count; k++) {
            const fa_call *call = &g->all.calls[s->first_call + k];
            const procedure *q = &g->procedures[call->callee];
            if (!q->loop || !q->lexical)
                return false;
            *calls = true;
            h = mix(mix(h, mix(q->shape, (uint64_t)q->min << 32 | q->max)),
                    call->to == TAIL_CALL ? 0 : call->to - p->first_state + 1);
        }
    }
    *shape = h;
    return true;
}

static void find_lexical(grammar *g)
{
    for (int round = 0; round < 3; round++) /* plain ones, loops of those, those that call such loops */
        for (uint32_t i = 0; i < g->procedure_count; i++) {
            procedure *p = &g->procedures[i];
            bool calls = false;
            if (p->loop && round == 1) {
                const procedure *body = &g->procedures[p->body];
                p->lexical = body->lexical && !body->loop;
                p->shape = mix(body->shape, 1);
            } else if (!p->loop && round != 1) {
                uint32_t end = p->first_state;
                while (end < g->all.state_count && g->all.states[end].procedure == i)
                    end++;
                bool plain = shape_of(g, p, end, &p->shape, &calls);
                p->lexical = p->lexical || (plain && (round == 2 || !calls));
            }
        }
}

/* ---- all of it ---- */

static bool compile(compiler *c, grammar_rule root)
{
    grammar_builder *b = c->b;
    static _Atomic uint64_t last_id;
    c->facts.traits = calloc(b->node_count, 1);
    c->facts.uses = calloc(b->node_count, 1);
    c->facts.weights = calloc(b->node_count, sizeof *c->facts.weights);
    c->numbers = calloc(b->node_count, sizeof *c->numbers);
    c->facts.procedure_of = procedure_of;
    c->facts.context = c;
    if (!c->facts.traits || !c->facts.uses || !c->facts.weights || !c->numbers) {
        builder_fail(b, ERR_MEMORY, "grammar: out of memory");
        return false;
    }
    if (!find_traits(c))
        return false;
    find_weights(c);
    uint8_t traits = c->facts.traits[root];
    if (!(traits & TRAIT_PRODUCTIVE)) {
        builder_fail(b, ERR_INVALID, "no text satisfies this");
        return false;
    }
    grammar *g = c->g;
    g->references = 1;
    g->id = atomic_fetch_add(&last_id, 1) + 1;
    g->empty = traits & TRAIT_NULLABLE;
    if (traits & TRAIT_LONG)
        g->root = procedure_of(c, root);
    else
        g->root = UINT32_MAX;
    for (uint32_t i = 0; i < g->procedure_count; i++)
        if (!make_procedure(c, i))
            return false;
    if (g->procedure_count && !check_recursion(c))
        return false;
    find_lexical(g);
    return true;
}

status grammar_compile(grammar_builder *b, grammar_rule root, grammar **out, error *err)
{
    compiler c = {.b = b, .g = calloc(1, sizeof *c.g)};
    if (!c.g)
        builder_fail(b, ERR_MEMORY, "grammar: out of memory");
    bool ok = !b->failed && compile(&c, root);
    free(c.facts.traits);
    free(c.facts.uses);
    free(c.facts.weights);
    free(c.numbers);
    free(c.roots);
    if (!ok) {
        if (!b->failed)
            builder_fail(b, ERR_MEMORY, "grammar: out of memory");
        if (c.g)
            c.g->references = 1;
        grammar_release(c.g);
        return error_set(err, b->failed, "%s", b->why.text);
    }
    *out = c.g;
    return OK;
}

void grammar_hold(grammar *g)
{
    atomic_fetch_add(&g->references, 1);
}

void grammar_release(grammar *g)
{
    if (!g || atomic_fetch_sub(&g->references, 1) > 1)
        return;
    automaton_free(&g->all);
    free(g->procedures);
    free(g);
}
