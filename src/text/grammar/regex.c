/* text/grammar/regex.c: regular expressions as JSON Schema has them (ECMA-262), without what is not regular. Dialects
 * differ in what \d, \w, \s and their complements mean outside ASCII: a set is taken that is right in all of them. */
#include "text/grammar/parts.h"

#include <stdlib.h>

typedef enum { PART_RULE, PART_SEQ, PART_ALT, PART_START, PART_END } part_kind;

typedef struct {
    part_kind kind;
    grammar_rule rule;
    uint32_t first, last, next; /* kids, and the next of the same parent; 0: none */
    bool anchors;               /* has a ^ or $ below */
} part;

typedef struct {
    grammar_builder *b;
    const char *what; /* the keyword, for messages */
    span text;
    size_t at;
    spelling how;
    pattern_use use;
    uint32_t depth;
    part *parts;
    uint32_t count, capacity;
} parser;

enum { REPEAT_MAX = 1000000, CODE_LAST = 0x10FFFF };

static uint32_t refuse(parser *p, status code, const char *why)
{
    builder_fail(p->b, code, "%s: %s, at byte %zu", p->what, why, p->at);
    return 0;
}

static uint32_t add_part(parser *p, part_kind kind, grammar_rule rule)
{
    if (p->b->failed)
        return 0;
    if (p->count == p->capacity) {
        uint32_t more = p->capacity ? p->capacity * 2 : 32;
        part *parts = more > NODES_MAX ? NULL : realloc(p->parts, more * sizeof *parts);
        if (!parts)
            return refuse(p, ERR_LIMIT, "the expression is too large");
        p->parts = parts;
        p->capacity = more;
        if (!p->count)
            p->parts[p->count++] = (part){0};
    }
    p->parts[p->count] = (part){.kind = kind, .rule = rule, .anchors = kind == PART_START || kind == PART_END};
    return p->count++;
}

static void add_kid(parser *p, uint32_t parent, uint32_t kid)
{
    if (!parent || !kid)
        return;
    part *owner = &p->parts[parent];
    if (owner->last)
        p->parts[owner->last].next = kid;
    else
        owner->first = kid;
    owner->last = kid;
    owner->anchors |= p->parts[kid].anchors;
}

static int peek(const parser *p)
{
    return p->at < p->text.size ? (uint8_t)p->text.data[p->at] : -1;
}

static bool take(parser *p, char c)
{
    if (peek(p) != (uint8_t)c)
        return false;
    p->at++;
    return true;
}

static uint32_t take_code(parser *p) /* the text is valid UTF-8 */
{
    uint8_t lead = (uint8_t)p->text.data[p->at++];
    uint32_t more = lead < 0xC0 ? 0 : lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
    uint32_t code = more ? lead & (0x3Fu >> more) : lead;
    for (; more && p->at < p->text.size; more--)
        code = code << 6 | ((uint8_t)p->text.data[p->at++] & 0x3F);
    return code;
}

/* ---- sets ---- */

static void add_all(code_set *s, const code_range *ranges, size_t count)
{
    for (size_t i = 0; i < count; i++)
        code_set_add(s, ranges[i].lo, ranges[i].hi);
}

/* \d and kin; false: no such class. `partial`: its complement differs between dialects outside ASCII. */
static bool add_class(code_set *s, char name, bool *partial)
{
    static const code_range digits[] = {{'0', '9'}}, not_digits[] = {{0, '0' - 1}, {'9' + 1, 0x7F}};
    static const code_range words[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    static const code_range not_words[] = {
        {0, '0' - 1}, {'9' + 1, 'A' - 1}, {'Z' + 1, '_' - 1}, {'`', '`'}, {'{', 0x7F}};
    static const code_range spaces[] = {{9, 13}, {' ', ' '}};
    static const code_range not_spaces[] = {{0, 8},           {14, 0x1B},       {'!', 0x84},      {0x86, 0x9F},
                                            {0xA1, 0x167F},   {0x1681, 0x1FFF}, {0x200B, 0x2027}, {0x202A, 0x202E},
                                            {0x2030, 0x205E}, {0x2060, 0x2FFF}, {0x3001, 0xFEFE}, {0xFF00, CODE_LAST}};
#define CLASS(letter, ranges)                                                                                          \
    case letter:                                                                                                       \
        add_all(s, ranges, sizeof(ranges) / sizeof *(ranges));                                                         \
        break
    switch (name) {
        CLASS('d', digits);
        CLASS('D', not_digits);
        CLASS('w', words);
        CLASS('W', not_words);
        CLASS('s', spaces);
        CLASS('S', not_spaces);
    default:
        return false;
    }
    *partial = true;
    return true;
}

static bool hex_code(parser *p, uint32_t digits, uint32_t *out)
{
    uint32_t code = 0;
    for (uint32_t i = 0; i < digits; i++, p->at++) {
        int c = peek(p), lower = c | 0x20;
        int digit = c >= '0' && c <= '9' ? c - '0' : lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
        if (digit < 0)
            return refuse(p, ERR_INVALID, "a hexadecimal digit is missing");
        code = code << 4 | (uint32_t)digit;
    }
    *out = code;
    return true;
}

static bool unicode_escape(parser *p, uint32_t *out)
{
    if (take(p, '{')) {
        uint32_t code = 0, digits = 0;
        for (; peek(p) >= 0 && peek(p) != '}' && digits < 7; digits++) {
            uint32_t digit;
            if (!hex_code(p, 1, &digit))
                return false;
            code = code << 4 | digit;
        }
        if (!digits || !take(p, '}') || code > CODE_LAST)
            return refuse(p, ERR_INVALID, "\\u{...} is not a character");
        *out = code;
        return true;
    }
    if (!hex_code(p, 4, out))
        return false;
    if (*out >= 0xD800 && *out < 0xDC00 && p->at + 6 <= p->text.size && p->text.data[p->at] == '\\' &&
        p->text.data[p->at + 1] == 'u') {
        uint32_t low;
        p->at += 2;
        if (!hex_code(p, 4, &low))
            return false;
        *out = 0x10000 + ((*out - 0xD800) << 10) + (low - 0xDC00);
    }
    return *out <= CODE_LAST || refuse(p, ERR_INVALID, "not a character");
}

/* Behind the backslash: one character. False: b has failed. */
static bool escaped_code(parser *p, uint32_t *out)
{
    static const char names[] = "tnrfv0", codes[] = {9, 10, 13, 12, 11, 0};
    int c = peek(p);
    if (c < 0)
        return refuse(p, ERR_INVALID, "a backslash ends the expression");
    const char *name = c ? strchr(names, c) : NULL;
    if (name) {
        p->at++;
        *out = (uint32_t)codes[name - names];
        return (c != '0' || peek(p) < '0' || peek(p) > '9') || refuse(p, ERR_UNSUPPORTED, "octal escapes");
    }
    if (c == 'x' || c == 'u') {
        p->at++;
        return c == 'x' ? hex_code(p, 2, out) : unicode_escape(p, out);
    }
    if (c == 'c') {
        p->at++;
        int letter = peek(p);
        if (!((letter | 0x20) >= 'a' && (letter | 0x20) <= 'z'))
            return refuse(p, ERR_INVALID, "\\c wants a letter");
        p->at++;
        *out = (uint32_t)letter & 31;
        return true;
    }
    if ((c >= '1' && c <= '9') || c == 'k')
        return refuse(p, ERR_UNSUPPORTED, "references to groups are not supported");
    if (c == 'b' || c == 'B' || c == 'A' || c == 'Z' || c == 'z')
        return refuse(p, ERR_UNSUPPORTED, "word borders and \\A, \\Z are not supported");
    if (c == 'p' || c == 'P')
        return refuse(p, ERR_UNSUPPORTED, "\\p{...} is not supported");
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
        return refuse(p, ERR_UNSUPPORTED, "an unknown escape");
    *out = take_code(p);
    return true;
}

/* One end of a range in brackets, or a class by itself (*is_class). */
static bool bracket_item(parser *p, code_set *s, uint32_t *code, bool *is_class, bool *partial)
{
    *is_class = false;
    if (!take(p, '\\')) {
        *code = take_code(p);
        return true;
    }
    int c = peek(p);
    if (c > 0 && add_class(s, (char)c, partial)) {
        p->at++;
        *is_class = true;
        return true;
    }
    if (take(p, 'b')) {
        *code = 8;
        return true;
    }
    return escaped_code(p, code);
}

static uint32_t parse_bracket(parser *p)
{
    code_set s = {0};
    bool negate = take(p, '^'), partial = false, ok = true;
    while (ok && peek(p) >= 0 && peek(p) != ']') {
        uint32_t lo, hi;
        bool is_class, last_class = false;
        ok = bracket_item(p, &s, &lo, &is_class, &partial);
        if (!ok || is_class)
            continue;
        hi = lo;
        if (peek(p) == '-' && p->at + 1 < p->text.size && p->text.data[p->at + 1] != ']') {
            p->at++;
            ok = bracket_item(p, &s, &hi, &last_class, &partial);
            if (ok && last_class) { /* [a-\d]: the dash is itself */
                code_set_add(&s, '-', '-');
                hi = lo;
            }
        }
        if (ok && hi < lo)
            ok = refuse(p, ERR_INVALID, "a range in brackets runs backwards");
        if (ok)
            code_set_add(&s, lo, hi);
    }
    if (ok && !take(p, ']'))
        ok = refuse(p, ERR_INVALID, "a bracket is not closed");
    if (ok && negate && partial)
        code_set_add(&s, 0x80, CODE_LAST);
    code_set_close(&s, negate);
    uint32_t part = ok ? add_part(p, PART_RULE, code_set_rule(p->b, &s, p->how)) : 0;
    code_set_free(&s);
    return part;
}

static uint32_t parse_dot(parser *p)
{
    code_set s = {0};
    code_set_add(&s, 10, 10);
    code_set_add(&s, 13, 13);
    code_set_add(&s, 0x2028, 0x2029);
    code_set_close(&s, true);
    uint32_t part = add_part(p, PART_RULE, code_set_rule(p->b, &s, p->how));
    code_set_free(&s);
    return part;
}

static uint32_t parse_escape(parser *p)
{
    code_set s = {0};
    bool partial;
    uint32_t code, part = 0;
    int c = peek(p);
    if (c > 0 && add_class(&s, (char)c, &partial)) {
        p->at++;
        code_set_close(&s, false);
        part = add_part(p, PART_RULE, code_set_rule(p->b, &s, p->how));
    } else if (escaped_code(p, &code)) {
        part = add_part(p, PART_RULE, code_rule(p->b, code, p->how));
    }
    code_set_free(&s);
    return part;
}

/* ---- structure ---- */

static uint32_t parse_alternatives(parser *p);
static grammar_rule emit(parser *p, uint32_t id, bool at_start, bool at_end);

static uint32_t parse_group(parser *p)
{
    if (take(p, '?')) {
        bool plain = take(p, ':');
        if (!plain && peek(p) == 'P')
            p->at++;
        if (!plain && peek(p) == '<' && p->at + 1 < p->text.size && !strchr("=!", p->text.data[p->at + 1])) {
            while (peek(p) >= 0 && peek(p) != '>')
                p->at++;
            plain = take(p, '>');
        }
        if (!plain)
            return refuse(p, ERR_UNSUPPORTED, "looking ahead or behind and inline flags are not supported");
    }
    uint32_t inside = parse_alternatives(p);
    if (inside && !take(p, ')'))
        return refuse(p, ERR_INVALID, "a group is not closed");
    return inside;
}

static uint32_t parse_atom(parser *p)
{
    int c = peek(p);
    switch (c) {
    case '(':
        p->at++;
        return parse_group(p);
    case '[':
        p->at++;
        return parse_bracket(p);
    case '.':
        p->at++;
        return parse_dot(p);
    case '\\':
        p->at++;
        return parse_escape(p);
    case '^':
    case '$':
        p->at++;
        return add_part(p, c == '^' ? PART_START : PART_END, 0);
    case '*':
    case '+':
    case '?':
        return refuse(p, ERR_INVALID, "nothing to repeat");
    default:
        return add_part(p, PART_RULE, code_rule(p->b, take_code(p), p->how));
    }
}

static bool take_number(parser *p, uint32_t *out)
{
    uint64_t n = 0;
    size_t from = p->at;
    for (; peek(p) >= '0' && peek(p) <= '9'; p->at++)
        n = n > REPEAT_MAX ? n : n * 10 + (uint64_t)(peek(p) - '0');
    *out = (uint32_t)n;
    return p->at > from;
}

/* {n}, {n,} or {n,m}; anything else in braces is text. */
static bool take_braces(parser *p, uint32_t *min, uint32_t *max)
{
    size_t from = p->at;
    if (take(p, '{') && take_number(p, min)) {
        *max = *min;
        if (take(p, ',') && !take_number(p, max))
            *max = UINT32_MAX;
        if (take(p, '}'))
            return true;
    }
    p->at = from;
    return false;
}

static bool take_quantifier(parser *p, uint32_t *min, uint32_t *max)
{
    *min = 0;
    *max = UINT32_MAX;
    if (take(p, '?'))
        *max = 1;
    else if (take(p, '+'))
        *min = 1;
    else if (!take(p, '*') && !take_braces(p, min, max))
        return false;
    if (*min > REPEAT_MAX || (*max > REPEAT_MAX && *max != UINT32_MAX))
        refuse(p, ERR_LIMIT, "a repetition of over a million");
    if (*min > *max)
        refuse(p, ERR_INVALID, "a repetition runs backwards");
    if (!take(p, '?') && peek(p) == '+')
        refuse(p, ERR_UNSUPPORTED, "possessive repetitions are not supported");
    return true;
}

static uint32_t parse_sequence(parser *p)
{
    uint32_t seq = add_part(p, PART_SEQ, 0);
    while (!p->b->failed && peek(p) >= 0 && peek(p) != '|' && peek(p) != ')') {
        uint32_t atom = parse_atom(p), min, max;
        while (!p->b->failed && take_quantifier(p, &min, &max)) {
            if (p->b->failed)
                return 0;
            if (p->parts[atom].anchors)
                return refuse(p, ERR_UNSUPPORTED, "a repeated ^ or $ is not supported");
            atom = add_part(p, PART_RULE, grammar_repeat(p->b, emit(p, atom, false, false), min, max));
        }
        add_kid(p, seq, atom);
    }
    return p->b->failed ? 0 : seq;
}

static uint32_t parse_alternatives(parser *p)
{
    if (++p->depth > NESTING_MAX)
        return refuse(p, ERR_LIMIT, "groups are nested too deep");
    uint32_t alt = add_part(p, PART_ALT, 0);
    do {
        add_kid(p, alt, parse_sequence(p));
    } while (!p->b->failed && take(p, '|'));
    p->depth--;
    return p->b->failed ? 0 : alt;
}

/* ---- to rules ---- */

static grammar_rule anything(parser *p)
{
    return p->use == PATTERN_WHOLE ? builder_empty(p->b)
                                   : grammar_repeat(p->b, any_character(p->b, p->how), 0, UINT32_MAX);
}

static grammar_rule with_ends(parser *p, grammar_rule rule, bool at_start, bool at_end)
{
    if (at_start)
        rule = builder_pair(p->b, anything(p), rule);
    return at_end ? builder_pair(p->b, rule, anything(p)) : rule;
}

static grammar_rule emit_kids(parser *p, uint32_t id, bool at_start, bool at_end)
{
    bool sequence = p->parts[id].kind == PART_SEQ;
    uint32_t count = 0, n = 0, first = p->parts[id].first;
    for (uint32_t kid = first; kid; kid = p->parts[kid].next)
        count++;
    grammar_rule *rules = malloc((count + 1) * sizeof *rules);
    if (!rules)
        return builder_fail(p->b, ERR_MEMORY, "grammar: out of memory");
    for (uint32_t kid = first; kid; kid = p->parts[kid].next) {
        bool starts = at_start && (!sequence || kid == first), ends = at_end && (!sequence || !p->parts[kid].next);
        rules[n++] = emit(p, kid, starts, ends);
    }
    grammar_rule rule = sequence ? grammar_sequence(p->b, rules, n) : grammar_choice(p->b, rules, n);
    free(rules);
    return rule;
}

/* at_start: nothing stands before this in the expression, so that ^ holds here and without it anything may come. */
static grammar_rule emit(parser *p, uint32_t id, bool at_start, bool at_end)
{
    if (p->b->failed || !id)
        return 0;
    switch (p->parts[id].kind) {
    case PART_RULE:
        return with_ends(p, p->parts[id].rule, at_start, at_end);
    case PART_START:
        return at_start ? with_ends(p, builder_empty(p->b), false, at_end)
                        : refuse(p, ERR_UNSUPPORTED, "^ is supported at the start only");
    case PART_END:
        return at_end ? with_ends(p, builder_empty(p->b), at_start, false)
                      : refuse(p, ERR_UNSUPPORTED, "$ is supported at the end only");
    case PART_SEQ:
        if (!p->parts[id].first)
            return with_ends(p, builder_empty(p->b), at_start, at_end);
        return emit_kids(p, id, at_start, at_end);
    case PART_ALT:
        return emit_kids(p, id, at_start, at_end);
    }
    return 0;
}

static bool is_utf8(span text)
{
    for (size_t i = 0; i < text.size;) {
        uint8_t c = (uint8_t)text.data[i];
        size_t more = c < 0x80                ? 0
                      : c >= 0xC2 && c < 0xE0 ? 1
                      : c >= 0xE0 && c < 0xF0 ? 2
                      : c >= 0xF0 && c < 0xF5 ? 3
                                              : 9;
        if (i + more >= text.size)
            return false;
        for (size_t k = 1; k <= more; k++)
            if (((uint8_t)text.data[i + k] & 0xC0) != 0x80)
                return false;
        i += more + 1;
    }
    return true;
}

grammar_rule regex_rule(grammar_builder *b, span pattern, spelling how, pattern_use use, const char *what)
{
    parser p = {.b = b, .what = what, .text = pattern, .how = how, .use = use};
    if (b->failed)
        return 0;
    if (!is_utf8(pattern))
        return builder_fail(b, ERR_INVALID, "%s: not UTF-8", what);
    uint32_t root = parse_alternatives(&p);
    if (root && p.at < pattern.size)
        refuse(&p, ERR_INVALID, "a ) too many");
    grammar_rule rule = emit(&p, root, true, true);
    free(p.parts);
    return b->failed ? 0 : rule;
}

grammar_rule grammar_regex(grammar_builder *b, span pattern)
{
    return regex_rule(b, pattern, SPELL_RAW, PATTERN_WHOLE, "regex");
}
