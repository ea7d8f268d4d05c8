/* tests/unit/text/grammar_fixture.h: grammars from texts, and masks against the plain way: each token byte by byte. */
#ifndef HEADWAY_TESTS_GRAMMAR_FIXTURE_H
#define HEADWAY_TESTS_GRAMMAR_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <sched.h>

#include "base/rng.h"
#include "text/grammar/token_masks.h"

typedef enum { KIND_SCHEMA, KIND_REGEX, KIND_EBNF } grammar_kind;

typedef struct {
    grammar_kind kind;
    const char *text;
} grammar_case;

static inline status try_grammar(grammar_kind kind, const char *text, grammar **out, error *err)
{
    grammar_builder *b;
    grammar_rule root;
    assert_int_equal(grammar_builder_create(&b, err), OK);
    if (kind == KIND_SCHEMA) {
        json_error_t where;
        json_t *schema = json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, &where);
        if (!schema)
            fail_msg("%s: %s", text, where.text);
        root = grammar_json_schema(b, schema);
        status st = grammar_finish(b, root, out, err);
        json_decref(schema);
        grammar_builder_destroy(b);
        return st;
    }
    root = kind == KIND_REGEX ? grammar_regex(b, span_from(text)) : grammar_ebnf(b, span_from(text));
    status st = grammar_finish(b, root, out, err);
    grammar_builder_destroy(b);
    return st;
}

static inline grammar *make_grammar(grammar_kind kind, const char *text)
{
    grammar *g = NULL;
    error err = {""};
    if (try_grammar(kind, text, &g, &err))
        fail_msg("%s: %s", text, err.text);
    return g;
}

static inline void wait_ready(token_constraint *c)
{
    while (!c->ops->ready(c))
        sched_yield();
}

/* Would the grammar go on after this token? From where `c` is, which stays there. */
static inline bool allowed_plainly(constraint *c, int32_t token)
{
    span bytes = token_trie_bytes(&c->masks->trie, token);
    if (c->untouched && c->masks->trie.drops_space && bytes.size && bytes.data[0] == ' ')
        bytes = span_of(bytes.data + 1, bytes.size - 1);
    if (!bytes.size)
        return false;
    way buffers[2][WAYS_MAX];
    way_list now = c->now;
    uint32_t frames = c->machine.frame_count;
    for (size_t i = 0; i < bytes.size; i++) {
        way_list next = {buffers[i % 2], 0, WAYS_MAX, false};
        machine_step(&c->machine, now.ways, now.count, (uint8_t)bytes.data[i], &next);
        now = next;
    }
    machine_forget(&c->machine, frames);
    return now.count || now.ended;
}

/* Fails at the first token whose bit is wrong. */
static inline void check_mask(constraint *c)
{
    const uint32_t *mask = c->base.ops->mask(&c->base);
    for (uint32_t i = 0; i < c->masks->trie.vocab; i++) {
        bool want = c->masks->stop_bits[i / 32] >> i % 32 & 1 ? c->now.ended : allowed_plainly(c, (int32_t)i);
        bool got = mask[i / 32] >> i % 32 & 1;
        if (want != got) {
            span bytes = token_trie_bytes(&c->masks->trie, (int32_t)i);
            fail_msg("token %u \"%.*s\": mask says %d, the grammar %d", i, (int)bytes.size, bytes.data, got, want);
        }
    }
}

static inline int32_t random_allowed(constraint *c, rng *r)
{
    const uint32_t *mask = c->base.ops->mask(&c->base);
    uint32_t vocab = c->masks->trie.vocab, start = (uint32_t)rng_below(r, vocab);
    for (uint32_t i = 0; i < vocab; i++) {
        uint32_t token = (start + i) % vocab;
        if (mask[token / 32] >> token % 32 & 1)
            return (int32_t)token;
    }
    return -1;
}

/* A walk of random tokens; every `each`-th mask is compared. Returns the tokens taken; `text` gets their bytes. */
static inline uint32_t walk_checked(token_masks *m, grammar *g, uint64_t seed, uint32_t most, uint32_t each, buf *text,
                                    constraint_state *end)
{
    token_constraint *base;
    error err = {""};
    rng r = {seed};
    assert_int_equal(grammar_constraint(&base, g, m, &err), OK);
    constraint *c = (constraint *)base;
    uint32_t taken = 0;
    *end = c->state;
    while (taken < most && *end == CONSTRAINT_OPEN) {
        wait_ready(base);
        if (taken % each == 0)
            check_mask(c);
        int32_t token = random_allowed(c, &r);
        assert_true(token >= 0);
        span bytes = token_trie_bytes(&m->trie, token);
        if (c->untouched && m->trie.drops_space && bytes.size && bytes.data[0] == ' ')
            bytes = span_of(bytes.data + 1, bytes.size - 1);
        buf_append(text, bytes.data, bytes.size);
        *end = base->ops->accept(base, token);
        taken++;
    }
    base->ops->destroy(base);
    return taken;
}

static const grammar_case grammar_cases[] = {
    {KIND_SCHEMA, "true"},
    {KIND_SCHEMA,
     "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"age\":{\"type\":\"integer\","
     "\"minimum\":0,\"maximum\":150},\"tags\":{\"type\":\"array\",\"items\":{\"enum\":[\"a\",\"bb\",\"c c\"]},"
     "\"maxItems\":3}},\"required\":[\"name\",\"age\"],\"additionalProperties\":false}"},
    {KIND_SCHEMA,
     "{\"$ref\":\"#/$defs/tree\",\"$defs\":{\"tree\":{\"type\":\"object\",\"properties\":{\"v\":{\"type\":"
     "\"number\"},\"kids\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/tree\"}}},\"required\":[\"v\"]}}}"},
    {KIND_SCHEMA, "{\"type\":\"string\",\"minLength\":3,\"maxLength\":400}"},
    {KIND_SCHEMA,
     "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"maxLength\":200},\"minItems\":2,\"maxItems\":90}"},
    {KIND_SCHEMA, "{\"type\":\"string\",\"pattern\":\"^[a-z]{2,5}(-[0-9]+)?$\"}"},
    {KIND_SCHEMA,
     "{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"number\"},{\"type\":\"object\",\"additionalProperties\":"
     "{\"type\":\"boolean\"}}]}"},
    {KIND_REGEX, "(yes|no|maybe)( [a-z]+){0,200}"},
    {KIND_REGEX, "\\S+@\\w+\\.(com|org)"},
    {KIND_REGEX, ".{0,1000}end"},
};
enum { GRAMMAR_CASES = sizeof grammar_cases / sizeof *grammar_cases };

#endif
