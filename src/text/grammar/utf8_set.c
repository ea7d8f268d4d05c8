/* text/grammar/utf8_set.c: sets of characters as rules over bytes. */
#include "text/grammar/parts.h"

#include <stdio.h>
#include <stdlib.h>

enum { CODE_MAX = 0x10FFFF };

void code_set_add(code_set *s, uint32_t lo, uint32_t hi)
{
    if (s->count == s->capacity) {
        uint32_t more = s->capacity ? s->capacity * 2 : 16;
        code_range *ranges = more > 1u << 16 ? NULL : realloc(s->ranges, more * sizeof *ranges);
        if (!ranges) {
            s->failed = true;
            return;
        }
        s->ranges = ranges;
        s->capacity = more;
    }
    s->ranges[s->count++] = (code_range){lo, hi};
}

static int by_low(const void *a, const void *b)
{
    const code_range *x = a, *y = b;
    return x->lo < y->lo ? -1 : x->lo > y->lo;
}

void code_set_close(code_set *s, bool negate)
{
    uint32_t count = 0;
    if (s->count)
        qsort(s->ranges, s->count, sizeof *s->ranges, by_low);
    for (uint32_t i = 0; i < s->count; i++) {
        code_range r = s->ranges[i];
        if (count && r.lo <= s->ranges[count - 1].hi + 1)
            s->ranges[count - 1].hi = r.hi > s->ranges[count - 1].hi ? r.hi : s->ranges[count - 1].hi;
        else
            s->ranges[count++] = r;
    }
    s->count = count;
    if (!negate)
        return;
    code_set other = {0};
    uint32_t next = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        if (s->ranges[i].lo > next)
            code_set_add(&other, next, s->ranges[i].lo - 1);
        next = s->ranges[i].hi + 1;
    }
    if (next <= CODE_MAX)
        code_set_add(&other, next, CODE_MAX);
    other.failed |= s->failed;
    code_set_free(s);
    *s = other;
}

void code_set_free(code_set *s)
{
    free(s->ranges);
    *s = (code_set){0};
}

/* ---- ranges of code points to runs of bytes ---- */

typedef struct {
    grammar_builder *b;
    grammar_rule rules[4096];
    uint32_t count;
} alternatives;

static void add(alternatives *a, grammar_rule rule)
{
    if (a->count < sizeof a->rules / sizeof *a->rules)
        a->rules[a->count++] = rule;
    else
        builder_fail(a->b, ERR_LIMIT, "a set of characters is too large");
}

static uint32_t encode(uint32_t code, uint8_t *out)
{
    if (code < 0x80) {
        out[0] = (uint8_t)code;
        return 1;
    }
    uint32_t size = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (uint32_t i = size - 1; i > 0; i--, code >>= 6)
        out[i] = (uint8_t)(0x80 | (code & 0x3F));
    out[0] = (uint8_t)((size == 2 ? 0xC0 : size == 3 ? 0xE0 : 0xF0) | code);
    return size;
}

static void add_bytes(alternatives *a, const uint8_t *lo, const uint8_t *hi, uint32_t size)
{
    grammar_rule parts[4];
    for (uint32_t i = 0; i < size; i++)
        parts[i] = builder_range(a->b, lo[i], hi[i]);
    add(a, grammar_sequence(a->b, parts, size));
}

/* Splits until all bytes of a range but the first differing one run from 80 to BF. */
static void add_range(alternatives *a, uint32_t lo, uint32_t hi)
{
    static const uint32_t borders[] = {0x7F, 0x7FF, 0xD7FF, 0xDFFF, 0xFFFF};
    if (lo > hi || (lo >= 0xD800 && hi <= 0xDFFF))
        return;
    for (size_t i = 0; i < sizeof borders / sizeof *borders; i++)
        if (lo <= borders[i] && hi > borders[i]) {
            add_range(a, lo, borders[i]);
            add_range(a, borders[i] + 1, hi);
            return;
        }
    for (uint32_t bits = 6; lo >= 0x80 && bits <= 18; bits += 6) {
        uint32_t mask = (1u << bits) - 1;
        if ((lo & ~mask) == (hi & ~mask))
            break;
        if (lo & mask) {
            add_range(a, lo, lo | mask);
            add_range(a, (lo | mask) + 1, hi);
            return;
        }
        if ((hi & mask) != mask) {
            add_range(a, lo, (hi & ~mask) - 1);
            add_range(a, hi & ~mask, hi);
            return;
        }
    }
    uint8_t first[4], last[4];
    uint32_t size = encode(lo, first);
    encode(hi, last);
    add_bytes(a, first, last, size);
}

/* What a JSON string must escape, with the short form where there is one. */
static grammar_rule escape_of(grammar_builder *b, uint32_t code)
{
    static const char shorts[][2] = {{8, 'b'}, {9, 't'}, {10, 'n'}, {12, 'f'}, {13, 'r'}, {'"', '"'}, {'\\', '\\'}};
    char text[8];
    for (size_t i = 0; i < sizeof shorts / sizeof *shorts; i++)
        if ((uint32_t)shorts[i][0] == code) {
            snprintf(text, sizeof text, "\\%c", shorts[i][1]);
            return builder_string(b, text);
        }
    snprintf(text, sizeof text, "\\u%04x", code & 0xFF);
    return builder_string(b, text);
}

static void add_spelled(alternatives *a, uint32_t lo, uint32_t hi, spelling how)
{
    if (how == SPELL_RAW) {
        add_range(a, lo, hi);
        return;
    }
    for (; lo <= hi && (lo < 0x20 || lo == '"' || lo == '\\'); lo++)
        add(a, escape_of(a->b, lo));
    static const uint32_t special[] = {'"', '\\'};
    for (int i = 0; i < 2; i++)
        if (lo <= special[i] && special[i] <= hi) {
            if (lo < special[i])
                add_range(a, lo, special[i] - 1);
            add(a, escape_of(a->b, special[i]));
            lo = special[i] + 1;
        }
    if (lo <= hi)
        add_range(a, lo, hi);
}

grammar_rule code_set_rule(grammar_builder *b, const code_set *s, spelling how)
{
    if (s->failed)
        return builder_fail(b, ERR_LIMIT, "a set of characters is too large");
    alternatives *a = calloc(1, sizeof *a);
    if (!a)
        return builder_fail(b, ERR_MEMORY, "grammar: out of memory");
    a->b = b;
    for (uint32_t i = 0; i < s->count; i++)
        add_spelled(a, s->ranges[i].lo, s->ranges[i].hi, how);
    grammar_rule rule = grammar_choice(b, a->rules, a->count);
    free(a);
    return rule;
}

grammar_rule code_rule(grammar_builder *b, uint32_t code, spelling how)
{
    uint8_t bytes[4];
    if (how == SPELL_JSON && (code < 0x20 || code == '"' || code == '\\'))
        return escape_of(b, code);
    return grammar_text(b, span_of((const char *)bytes, encode(code, bytes)));
}

grammar_rule any_character(grammar_builder *b, spelling how)
{
    code_set all = {0};
    code_set_add(&all, 0, CODE_MAX);
    grammar_rule rule = code_set_rule(b, &all, how);
    code_set_free(&all);
    return rule;
}
