/* text/grammar/builder.c: the nodes of a grammar that is being put together. The first failure stays and makes every
 * later call answer 0, so that callers look once, in grammar_finish. */
#include "text/grammar/parts.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

status grammar_builder_create(grammar_builder **out, error *err)
{
    grammar_builder *b = calloc(1, sizeof *b);
    if (!b)
        return error_set(err, ERR_MEMORY, "grammar: out of memory");
    b->bytes.limit = TEXT_MAX;
    builder_node(b, NODE_NEVER, 0, 0, 0); /* 0 is no rule */
    *out = b;
    return OK;
}

void grammar_builder_destroy(grammar_builder *b)
{
    if (!b)
        return;
    for (uint32_t i = 0; i < b->automaton_count; i++)
        automaton_free(&b->automata[i]);
    free(b->automata);
    free(b->nodes);
    free(b->kids);
    buf_free(&b->bytes);
    free(b);
}

grammar_rule builder_fail(grammar_builder *b, status code, const char *format, ...)
{
    if (b->failed)
        return 0;
    va_list args;
    va_start(args, format);
    vsnprintf(b->why.text, sizeof b->why.text, format, args);
    va_end(args);
    b->failed = code;
    return 0;
}

bool builder_work(grammar_builder *b, uint64_t steps)
{
    b->work += steps;
    if (b->work > WORK_MAX)
        builder_fail(b, ERR_LIMIT, "the grammar is too large or too ambiguous to be compiled");
    return !b->failed;
}

static bool grow(void **array, uint32_t *capacity, uint32_t count, size_t item)
{
    if (count < *capacity)
        return true;
    uint32_t more = *capacity ? *capacity * 2 : 64;
    void *moved = realloc(*array, more * item);
    if (!moved)
        return false;
    *array = moved;
    *capacity = more;
    return true;
}

grammar_rule builder_node(grammar_builder *b, node_kind kind, uint32_t a, uint32_t b2, uint32_t c)
{
    if (b->failed)
        return 0;
    if (b->node_count >= NODES_MAX)
        return builder_fail(b, ERR_LIMIT, "the grammar is too large: over %d parts", NODES_MAX);
    if (!grow((void **)&b->nodes, &b->node_capacity, b->node_count, sizeof *b->nodes))
        return builder_fail(b, ERR_MEMORY, "grammar: out of memory");
    b->nodes[b->node_count] = (node){kind, a, b2, c};
    return b->node_count++;
}

grammar_rule builder_never(grammar_builder *b)
{
    if (!b->never)
        b->never = builder_node(b, NODE_NEVER, 0, 0, 0);
    return b->never;
}

grammar_rule builder_empty(grammar_builder *b)
{
    if (!b->empty)
        b->empty = builder_node(b, NODE_TEXT, 0, 0, 0);
    return b->empty;
}

grammar_rule builder_range(grammar_builder *b, uint8_t lo, uint8_t hi)
{
    return builder_node(b, NODE_RANGE, lo, hi, 0);
}

grammar_rule grammar_text(grammar_builder *b, span literal)
{
    size_t at = b->bytes.size;
    buf_append(&b->bytes, literal.data, literal.size);
    if (b->bytes.failed)
        return builder_fail(b, ERR_LIMIT, "the grammar is too large: over %d bytes of literals", TEXT_MAX);
    return literal.size ? builder_node(b, NODE_TEXT, (uint32_t)at, (uint32_t)literal.size, 0) : builder_empty(b);
}

grammar_rule builder_string(grammar_builder *b, const char *text)
{
    return grammar_text(b, span_from(text));
}

static grammar_rule add_kids(grammar_builder *b, node_kind kind, const grammar_rule *rules, uint32_t count, uint32_t c)
{
    uint32_t first = b->kid_count;
    for (uint32_t i = 0; i < count; i++) {
        if (!(rules[i] & ~LIST_OPTIONAL))
            return b->failed ? 0 : builder_fail(b, ERR_INVALID, "grammar: a part is missing");
        if (!grow((void **)&b->kids, &b->kid_capacity, b->kid_count, sizeof *b->kids))
            return builder_fail(b, ERR_MEMORY, "grammar: out of memory");
        b->kids[b->kid_count++] = rules[i];
    }
    if (b->kid_count > NODES_MAX * 2)
        return builder_fail(b, ERR_LIMIT, "the grammar is too large");
    return builder_node(b, kind, first, count, c);
}

grammar_rule grammar_sequence(grammar_builder *b, const grammar_rule *rules, uint32_t count)
{
    return count == 0 ? builder_empty(b) : count == 1 ? rules[0] : add_kids(b, NODE_SEQ, rules, count, 0);
}

grammar_rule grammar_choice(grammar_builder *b, const grammar_rule *rules, uint32_t count)
{
    return count == 0 ? builder_never(b) : count == 1 ? rules[0] : add_kids(b, NODE_CHOICE, rules, count, 0);
}

grammar_rule builder_list(grammar_builder *b, const grammar_rule *kids, uint32_t count, grammar_rule separator,
                          bool some)
{
    if (!separator)
        return 0;
    return add_kids(b, some ? NODE_SOME : NODE_LIST, kids, count, separator);
}

grammar_rule grammar_repeat(grammar_builder *b, grammar_rule rule, uint32_t min, uint32_t max)
{
    if (!rule)
        return 0;
    if (min > max)
        return builder_never(b);
    return max == 0 ? builder_empty(b) : min == 1 && max == 1 ? rule : builder_node(b, NODE_REPEAT, rule, min, max);
}

grammar_rule builder_optional(grammar_builder *b, grammar_rule rule)
{
    return grammar_repeat(b, rule, 0, 1);
}

grammar_rule builder_pair(grammar_builder *b, grammar_rule first, grammar_rule second)
{
    return grammar_sequence(b, (grammar_rule[]){first, second}, 2);
}

grammar_rule builder_either(grammar_builder *b, grammar_rule first, grammar_rule second)
{
    return grammar_choice(b, (grammar_rule[]){first, second}, 2);
}

grammar_rule builder_rule(grammar_builder *b, span name)
{
    size_t at = b->bytes.size, size = name.size < 60 ? name.size : 60;
    buf_append(&b->bytes, name.data, size);
    if (b->bytes.failed)
        return builder_fail(b, ERR_LIMIT, "the grammar is too large");
    return builder_node(b, NODE_RULE, 0, (uint32_t)at, (uint32_t)size);
}

void builder_define(grammar_builder *b, grammar_rule rule, grammar_rule body)
{
    if (rule && body)
        b->nodes[rule].a = body;
}

grammar_rule builder_automaton(grammar_builder *b, automaton *a)
{
    if (b->failed || !grow((void **)&b->automata, &b->automaton_capacity, b->automaton_count, sizeof *a)) {
        automaton_free(a);
        return builder_fail(b, ERR_MEMORY, "grammar: out of memory");
    }
    b->automata[b->automaton_count] = *a;
    *a = (automaton){0};
    return builder_node(b, NODE_FA, b->automaton_count++, 0, 0);
}

status grammar_finish(grammar_builder *b, grammar_rule root, grammar **out, error *err)
{
    if (!root)
        builder_fail(b, ERR_INVALID, "the grammar is empty");
    return grammar_compile(b, root, out, err);
}

/* ---- automata ---- */

void automaton_free(automaton *a)
{
    free(a->states);
    free(a->edges);
    free(a->calls);
    *a = (automaton){0};
}

bool automaton_add_state(automaton *a, bool accept)
{
    if (!grow((void **)&a->states, &a->state_capacity, a->state_count, sizeof *a->states))
        return false;
    a->states[a->state_count++] =
        (fa_state){.first_edge = a->edge_count, .first_call = a->call_count, .accept = accept};
    return true;
}

bool automaton_add_edge(automaton *a, uint8_t lo, uint8_t hi, uint32_t to)
{
    fa_state *s = &a->states[a->state_count - 1];
    if (s->edge_count) { /* adjacent ones with one target are one */
        fa_edge *last = &a->edges[a->edge_count - 1];
        if (last->to == to && last->hi + 1 == lo) {
            last->hi = hi;
            return true;
        }
    }
    if (s->edge_count == UINT16_MAX || !grow((void **)&a->edges, &a->edge_capacity, a->edge_count, sizeof *a->edges))
        return false;
    a->edges[a->edge_count++] = (fa_edge){lo, hi, to};
    s->edge_count++;
    return true;
}

bool automaton_add_call(automaton *a, uint32_t callee, uint32_t to)
{
    fa_state *s = &a->states[a->state_count - 1];
    if (s->call_count == UINT16_MAX || !grow((void **)&a->calls, &a->call_capacity, a->call_count, sizeof *a->calls))
        return false;
    a->calls[a->call_count++] = (fa_call){callee, to};
    s->call_count++;
    return true;
}

bool automaton_accepts(const automaton *a, span text)
{
    uint32_t at = 0;
    for (size_t i = 0; i < text.size; i++) {
        const fa_state *s = &a->states[at];
        uint8_t byte = (uint8_t)text.data[i];
        uint32_t e = s->first_edge, end = e + s->edge_count;
        while (e < end && !(a->edges[e].lo <= byte && byte <= a->edges[e].hi))
            e++;
        if (e == end)
            return false;
        at = a->edges[e].to;
    }
    return a->state_count > 0 && a->states[at].accept;
}
