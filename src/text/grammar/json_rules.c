/* text/grammar/json_rules.c: JSON as it is generated. Space is a blank, or a new line and some indentation, once: a
 * model cannot go round in it. */
#include "text/grammar/parts.h"

#include <stdlib.h>

static grammar_rule raw(grammar_builder *b, const char *pattern)
{
    return regex_rule(b, span_from(pattern), SPELL_RAW, PATTERN_WHOLE, "json");
}

grammar_rule json_space(grammar_builder *b)
{
    if (!b->space) {
        b->space = builder_rule(b, span_from("space"));
        builder_define(b, b->space, raw(b, "( |\\n( {0,32}|\\t{0,8}))?"));
    }
    return b->space;
}

grammar_rule json_colon(grammar_builder *b)
{
    if (!b->colon_space)
        b->colon_space = raw(b, ": ?");
    return b->colon_space;
}

grammar_rule json_comma(grammar_builder *b)
{
    return builder_pair(b, builder_string(b, ","), json_space(b));
}

grammar_rule json_character(grammar_builder *b)
{
    grammar_rule ways[] = {
        raw(b, "[^\"\\\\\\x00-\\x1f]"),
        raw(b, "\\\\([\"\\\\/bfnrt]|u([0-9a-cA-CefEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}|"
               "[dD][89abAB][0-9a-fA-F]{2}\\\\u[dD][c-fC-F][0-9a-fA-F]{2}))"),
    };
    return grammar_choice(b, ways, 2);
}

grammar_rule json_any_string(grammar_builder *b)
{
    if (!b->json_string) {
        b->json_string = builder_rule(b, span_from("string"));
        grammar_rule quote = builder_string(b, "\"");
        grammar_rule parts[] = {quote, grammar_repeat(b, json_character(b), 0, UINT32_MAX), quote};
        builder_define(b, b->json_string, grammar_sequence(b, parts, 3));
    }
    return b->json_string;
}

grammar_rule json_any_integer(grammar_builder *b)
{
    return raw(b, "-?(0|[1-9][0-9]{0,17})");
}

grammar_rule json_any_number(grammar_builder *b)
{
    if (!b->json_number) {
        b->json_number = builder_rule(b, span_from("number"));
        builder_define(b, b->json_number, raw(b, "-?(0|[1-9][0-9]{0,17})(\\.[0-9]{1,17})?([eE][+-]?[0-9]{1,2})?"));
    }
    return b->json_number;
}

static grammar_rule enclosed(grammar_builder *b, const char *open, grammar_rule inside, const char *close)
{
    grammar_rule space = json_space(b);
    grammar_rule parts[] = {builder_string(b, open), space, inside, space, builder_string(b, close)};
    return grammar_sequence(b, parts, 5);
}

grammar_rule json_array_of(grammar_builder *b, grammar_rule inside)
{
    return enclosed(b, "[", inside, "]");
}

grammar_rule json_object_of(grammar_builder *b, grammar_rule inside)
{
    return enclosed(b, "{", inside, "}");
}

static grammar_rule some_of(grammar_builder *b, grammar_rule item) /* item, item, ...; or nothing */
{
    grammar_rule more = grammar_repeat(b, builder_pair(b, json_comma(b), item), 0, UINT32_MAX);
    return builder_optional(b, builder_pair(b, item, more));
}

static void make_values(grammar_builder *b)
{
    if (b->json_value)
        return;
    grammar_rule value = b->json_value = builder_rule(b, span_from("value"));
    grammar_rule object = b->json_object = builder_rule(b, span_from("object"));
    grammar_rule array = builder_rule(b, span_from("array"));
    grammar_rule member[] = {json_any_string(b), json_colon(b), value};
    builder_define(b, object, json_object_of(b, some_of(b, grammar_sequence(b, member, 3))));
    builder_define(b, array, json_array_of(b, some_of(b, value)));
    grammar_rule ways[] = {object,
                           array,
                           json_any_string(b),
                           json_any_number(b),
                           builder_string(b, "true"),
                           builder_string(b, "false"),
                           builder_string(b, "null")};
    builder_define(b, value, grammar_choice(b, ways, 7));
}

grammar_rule grammar_json_any(grammar_builder *b, bool object)
{
    make_values(b);
    return b->failed ? 0 : object ? b->json_object : b->json_value;
}

/* ---- a given value ---- */

static grammar_rule dumped(grammar_builder *b, const json_t *value)
{
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    if (!text)
        return builder_fail(b, ERR_MEMORY, "grammar: out of memory");
    grammar_rule rule = builder_string(b, text);
    free(text);
    return rule;
}

static grammar_rule joined(grammar_builder *b, grammar_rule before, grammar_rule item)
{
    return before ? grammar_sequence(b, (grammar_rule[]){before, json_comma(b), item}, 3) : item;
}

static grammar_rule literal(grammar_builder *b, const json_t *value, uint32_t depth)
{
    grammar_rule inside = 0;
    if (depth > NESTING_MAX)
        return builder_fail(b, ERR_LIMIT, "a value is nested too deep");
    if (json_is_array(value)) {
        size_t i;
        json_t *item;
        json_array_foreach(value, i, item) inside = joined(b, inside, literal(b, item, depth + 1));
        return json_array_of(b, inside ? inside : builder_empty(b));
    }
    if (!json_is_object(value))
        return dumped(b, value);
    const char *key;
    size_t size;
    json_t *item;
    json_object_keylen_foreach((json_t *)value, key, size, item)
    {
        json_t *name = json_stringn_nocheck(key, size);
        grammar_rule member[] = {dumped(b, name), json_colon(b), literal(b, item, depth + 1)};
        json_decref(name);
        inside = joined(b, inside, grammar_sequence(b, member, 3));
    }
    return json_object_of(b, inside ? inside : builder_empty(b));
}

grammar_rule json_literal(grammar_builder *b, const json_t *value)
{
    return b->failed ? 0 : literal(b, value, 0);
}

/* ---- text up to a marker ---- */

/* The next state of a UTF-8 reader: 0 between characters, UINT32_MAX: no UTF-8. States 1 to 3: so many bytes to come;
 * 4 to 7: one with a narrower next byte (after E0, ED, F0, F4). */
static uint32_t utf8_step(uint32_t state, uint8_t c)
{
    static const struct {
        uint8_t lo, hi, to;
    } special[] = {{0xA0, 0xBF, 1}, {0x80, 0x9F, 1}, {0x90, 0xBF, 2}, {0x80, 0x8F, 2}};
    if (state == 0)
        return c < 0x80               ? 0
               : c < 0xC2 || c > 0xF4 ? UINT32_MAX
               : c < 0xE0             ? 1
               : c == 0xE0            ? 4
               : c == 0xED            ? 5
               : c < 0xF0             ? 2
               : c == 0xF0            ? 6
               : c == 0xF4            ? 7
                                      : 3;
    if (state <= 3)
        return (c & 0xC0) == 0x80 ? state - 1 : UINT32_MAX;
    return c >= special[state - 4].lo && c <= special[state - 4].hi ? special[state - 4].to : UINT32_MAX;
}

enum { UTF8_STATES = 8, MARKER_MAX = 1000 };

/* State k * UTF8_STATES + u: the last k bytes are the marker's first; the last state is the end. */
static bool until_states(automaton *a, span marker, const uint32_t *fallback)
{
    uint32_t size = (uint32_t)marker.size;
    bool ok = true;
    for (uint32_t state = 0; ok && state < size * UTF8_STATES; state++) {
        uint32_t k = state / UTF8_STATES, u = state % UTF8_STATES;
        ok = automaton_add_state(a, false);
        for (int c = 0; ok && c < 256; c++) {
            uint32_t next = utf8_step(u, (uint8_t)c), match = k;
            while (match && (uint8_t)marker.data[match] != c)
                match = fallback[match];
            match += (uint8_t)marker.data[match] == c;
            if (next != UINT32_MAX)
                ok = automaton_add_edge(a, (uint8_t)c, (uint8_t)c,
                                        match == size ? size * UTF8_STATES : match * UTF8_STATES + next);
        }
    }
    return ok && automaton_add_state(a, true);
}

grammar_rule grammar_until(grammar_builder *b, span marker)
{
    uint32_t fallback[MARKER_MAX + 1] = {0};
    automaton a = {0};
    if (b->failed)
        return 0;
    if (marker.size == 0 || marker.size > MARKER_MAX)
        return builder_fail(b, ERR_INVALID, "a marker must have 1 to %d bytes", MARKER_MAX);
    for (uint32_t i = 1, k = 0; i < marker.size; i++) { /* Knuth, Morris, Pratt */
        while (k && marker.data[i] != marker.data[k])
            k = fallback[k];
        k += marker.data[i] == marker.data[k];
        fallback[i + 1] = k;
    }
    if (until_states(&a, marker, fallback) && builder_work(b, a.edge_count))
        return builder_automaton(b, &a);
    automaton_free(&a);
    return builder_fail(b, ERR_MEMORY, "grammar: out of memory");
}
