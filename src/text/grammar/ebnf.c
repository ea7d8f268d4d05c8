/* text/grammar/ebnf.c: grammars as text, in two spellings. GBNF, as llama.cpp has it: `name ::= alternatives`, "text",
 * [classes], groups, repetitions, the root rule is `root`. Lark, as vLLM takes it: `name: alternatives`, /regex/,
 * "a".."z", [optional], x~2..4, %ignore, %import common.X, the first rule is `start`. A rule goes on until the next one
 * begins. A rule that begins with itself is rewritten as a repetition, where that is all there is to it. */
#include "text/grammar/parts.h"

#include <stdio.h>
#include <stdlib.h>

enum { RULES_MAX = 20000, ITEMS_MAX = 4096, REPEAT_MAX = 1000000 };

typedef struct {
    grammar_builder *b;
    span text;
    size_t at;
    bool lark;
    json_t *names; /* to rule numbers */
    json_t *defined;
    uint32_t depth;
    grammar_rule ignored; /* what %ignore allows after a terminal; 0: nothing */
    grammar_rule current; /* the rule that is read */
    bool in_terminal;     /* it is one: nothing is ignored inside */
} reader;

typedef struct {
    grammar_rule items[ITEMS_MAX];
    uint32_t count;
} rule_list;

static grammar_rule alternatives(reader *r, grammar_rule self);

static grammar_rule refuse(reader *r, status code, const char *why)
{
    size_t line = 1;
    for (size_t i = 0; i < r->at && i < r->text.size; i++)
        line += r->text.data[i] == '\n';
    return builder_fail(r->b, code, "grammar, line %zu: %s", line, why);
}

static int peek(const reader *r)
{
    return r->at < r->text.size ? (uint8_t)r->text.data[r->at] : -1;
}

static int peek_at(const reader *r, size_t ahead)
{
    return r->at + ahead < r->text.size ? (uint8_t)r->text.data[r->at + ahead] : -1;
}

static bool starts_with(const reader *r, const char *word)
{
    size_t size = strlen(word);
    return r->text.size - r->at >= size && memcmp(r->text.data + r->at, word, size) == 0;
}

static bool take(reader *r, const char *word)
{
    if (r->at > r->text.size || !starts_with(r, word))
        return false;
    r->at += strlen(word);
    return true;
}

static void skip_space(reader *r)
{
    for (;;) {
        int c = peek(r);
        if (c == ' ' || c == '\t' || c == '\n' || c == '\r')
            r->at++;
        else if (c == '#' || (r->lark && c == '/' && peek_at(r, 1) == '/'))
            while (peek(r) >= 0 && peek(r) != '\n')
                r->at++;
        else
            return;
    }
}

static bool is_name(int c, bool first)
{
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    return letter || (!first && ((c >= '0' && c <= '9') || c == '-' || c == '.'));
}

static span take_name(reader *r)
{
    size_t from = r->at;
    while (is_name(peek(r), r->at == from) && !(r->lark && (peek(r) == '-' || peek(r) == '.')))
        r->at++;
    return span_of(r->text.data + from, r->at - from);
}

/* Does a definition begin here? Behind it on true. */
static bool take_definition(reader *r, span *name)
{
    size_t from = r->at;
    if (r->lark)
        while (peek(r) == '?' || peek(r) == '!')
            r->at++;
    *name = take_name(r);
    if (name->size && r->lark && take(r, "."))
        while (peek(r) >= '0' && peek(r) <= '9') /* a priority */
            r->at++;
    skip_space(r);
    if (name->size && take(r, r->lark ? ":" : "::="))
        return true;
    r->at = from;
    return false;
}

static bool at_definition(reader *r)
{
    reader copy = *r;
    span name;
    return take_definition(&copy, &name) || (r->lark && peek(r) == '%');
}

static grammar_rule rule_named(reader *r, span name)
{
    json_t *known = json_object_getn(r->names, name.data, name.size);
    if (known)
        return (grammar_rule)json_integer_value(known);
    if (json_object_size(r->names) >= RULES_MAX)
        return refuse(r, ERR_LIMIT, "too many rules");
    grammar_rule rule = builder_rule(r->b, name);
    json_object_setn_new_nocheck(r->names, name.data, name.size, json_integer(rule));
    return rule;
}

/* ---- characters ---- */

static bool hex(reader *r, int digits, uint32_t *out)
{
    *out = 0;
    for (int i = 0; i < digits; i++, r->at++) {
        int c = peek(r), lower = c | 0x20;
        int digit = c >= '0' && c <= '9' ? c - '0' : lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
        if (digit < 0)
            return refuse(r, ERR_INVALID, "a hexadecimal digit is missing");
        *out = *out << 4 | (uint32_t)digit;
    }
    return *out <= 0x10FFFF || refuse(r, ERR_INVALID, "not a character");
}

/* One character of a literal or a class, escapes read. */
static bool take_character(reader *r, uint32_t *code)
{
    static const char names[] = "nrtbf0", values[] = {10, 13, 9, 8, 12, 0};
    int c = peek(r);
    if (c < 0)
        return refuse(r, ERR_INVALID, "the grammar ends inside a text or a class");
    r->at++;
    if (c == '\\') {
        int e = peek(r);
        const char *name = e > 0 ? strchr(names, e) : NULL;
        if (e < 0)
            return refuse(r, ERR_INVALID, "a backslash ends the grammar");
        r->at++;
        if (name)
            *code = (uint32_t)values[name - names];
        else if (e == 'x' || e == 'u' || e == 'U')
            return hex(r, e == 'x' ? 2 : e == 'u' ? 4 : 8, code);
        else if ((e >= 'a' && e <= 'z') || (e >= 'A' && e <= 'Z') || (e >= '0' && e <= '9'))
            return refuse(r, ERR_UNSUPPORTED, "an unknown escape");
        else
            *code = (uint32_t)e;
        return e < 0x80 || refuse(r, ERR_INVALID, "an unknown escape");
    }
    uint32_t more = c < 0x80 ? 0 : c < 0xC2 ? 9 : c < 0xE0 ? 1 : c < 0xF0 ? 2 : c < 0xF5 ? 3 : 9;
    *code = more ? (uint32_t)c & (0x3Fu >> more) : (uint32_t)c;
    for (; more && more < 9 && (peek(r) & 0xC0) == 0x80 && peek(r) >= 0; more--)
        *code = *code << 6 | ((uint32_t)r->text.data[r->at++] & 0x3F);
    return more == 0 || refuse(r, ERR_INVALID, "not UTF-8");
}

static grammar_rule one_code(reader *r, uint32_t code, bool fold)
{
    bool letter = (code | 0x20) >= 'a' && (code | 0x20) <= 'z';
    grammar_rule rule = code_rule(r->b, code, SPELL_RAW);
    return fold && letter ? builder_either(r->b, rule, code_rule(r->b, code ^ 0x20, SPELL_RAW)) : rule;
}

/* Is the text that begins here followed by an i? */
static bool is_folded(const reader *r)
{
    size_t i = 0;
    while (peek_at(r, i) >= 0 && peek_at(r, i) != '"')
        i += peek_at(r, i) == '\\' ? 2 : 1;
    return r->lark && peek_at(r, i + 1) == 'i' && !is_name(peek_at(r, i + 2), false);
}

/* Behind the opening quote. */
static grammar_rule literal(reader *r, uint32_t *only)
{
    bool fold = is_folded(r);
    grammar_rule rule = builder_empty(r->b);
    uint32_t count = 0, code = 0;
    while (peek(r) != '"' && !r->b->failed) {
        if (!take_character(r, &code))
            return 0;
        rule = count++ ? builder_pair(r->b, rule, one_code(r, code, fold)) : one_code(r, code, fold);
    }
    take(r, "\"");
    if (fold)
        take(r, "i");
    *only = count == 1 ? code : UINT32_MAX;
    return r->b->failed ? 0 : rule;
}

static grammar_rule class_of(reader *r) /* behind the opening bracket */
{
    code_set s = {0};
    bool negate = take(r, "^");
    uint32_t lo, hi;
    while (!r->b->failed && peek(r) != ']' && take_character(r, &lo)) {
        hi = lo;
        if (peek(r) == '-' && peek_at(r, 1) != ']') {
            r->at++;
            if (!take_character(r, &hi))
                break;
        }
        if (hi < lo)
            refuse(r, ERR_INVALID, "a range in brackets runs backwards");
        code_set_add(&s, lo, hi);
    }
    take(r, "]");
    code_set_close(&s, negate);
    grammar_rule rule = r->b->failed ? 0 : code_set_rule(r->b, &s, SPELL_RAW);
    code_set_free(&s);
    return rule;
}

static grammar_rule regex_literal(reader *r) /* behind the opening slash */
{
    size_t from = r->at;
    while (peek(r) >= 0 && peek(r) != '/' && peek(r) != '\n')
        r->at += peek(r) == '\\' ? 2 : 1;
    if (peek(r) != '/')
        return refuse(r, ERR_INVALID, "a regular expression is not closed");
    span pattern = span_of(r->text.data + from, r->at - from);
    r->at++;
    if (peek(r) >= 'a' && peek(r) <= 'z')
        return refuse(r, ERR_UNSUPPORTED, "flags of regular expressions are not supported");
    return regex_rule(r->b, pattern, SPELL_RAW, PATTERN_WHOLE, "grammar");
}

/* ---- items ---- */

static grammar_rule with_ignored(reader *r, grammar_rule rule)
{
    return r->ignored && !r->in_terminal ? builder_pair(r->b, rule, builder_optional(r->b, r->ignored)) : rule;
}

static grammar_rule quoted_item(reader *r)
{
    uint32_t lo, hi;
    grammar_rule rule = literal(r, &lo);
    if (r->lark && rule && take(r, "..")) {
        code_set s = {0};
        if (!take(r, "\"") || !literal(r, &hi) || lo == UINT32_MAX || hi == UINT32_MAX || hi < lo)
            return refuse(r, ERR_INVALID, "a range wants one character on either side");
        code_set_add(&s, lo, hi);
        rule = code_set_rule(r->b, &s, SPELL_RAW);
        code_set_free(&s);
    }
    return with_ignored(r, rule);
}

static grammar_rule group(reader *r, const char *close)
{
    if (++r->depth > NESTING_MAX)
        return refuse(r, ERR_LIMIT, "groups are nested too deep");
    grammar_rule rule = alternatives(r, 0);
    r->depth--;
    skip_space(r);
    return !rule || take(r, close) ? rule : refuse(r, ERR_INVALID, "a group is not closed");
}

static bool is_terminal_name(span name)
{
    char c = name.data[name.data[0] == '_' && name.size > 1];
    return c >= 'A' && c <= 'Z';
}

static grammar_rule item(reader *r)
{
    if (take(r, "\""))
        return quoted_item(r);
    if (take(r, "("))
        return group(r, ")");
    if (take(r, "["))
        return r->lark ? builder_optional(r->b, group(r, "]")) : class_of(r);
    if (r->lark && take(r, "/"))
        return with_ignored(r, regex_literal(r));
    if (!r->lark && take(r, "."))
        return any_character(r->b, SPELL_RAW);
    span name = take_name(r);
    if (!name.size)
        return refuse(r, ERR_INVALID, "a text, a class, a group or a rule is expected");
    if (r->lark && peek(r) == '{')
        return refuse(r, ERR_UNSUPPORTED, "templates are not supported");
    grammar_rule rule = rule_named(r, name);
    return r->lark && is_terminal_name(name) ? with_ignored(r, rule) : rule;
}

static bool take_number(reader *r, uint32_t *out)
{
    uint64_t n = 0;
    size_t from = r->at;
    for (; peek(r) >= '0' && peek(r) <= '9'; r->at++)
        n = n > REPEAT_MAX ? n : n * 10 + (uint64_t)(peek(r) - '0');
    *out = (uint32_t)n;
    return r->at > from && (n <= REPEAT_MAX || refuse(r, ERR_LIMIT, "a repetition of over a million"));
}

static bool take_counts(reader *r, uint32_t *min, uint32_t *max)
{
    const char *between = r->lark ? ".." : ",";
    skip_space(r);
    bool known = take_number(r, min);
    *min = known ? *min : 0;
    *max = *min;
    skip_space(r);
    if (take(r, between)) {
        skip_space(r);
        if (!take_number(r, max))
            *max = UINT32_MAX;
        known = true;
    }
    skip_space(r);
    return known && (r->lark || take(r, "}")) && *min <= *max;
}

static grammar_rule repeated(reader *r, grammar_rule rule)
{
    for (;;) {
        uint32_t min = 0, max = UINT32_MAX;
        if (take(r, "?")) {
            max = 1;
        } else if (take(r, "+")) {
            min = 1;
        } else if (take(r, r->lark ? "~" : "{")) {
            if (!take_counts(r, &min, &max))
                return refuse(r, ERR_INVALID, "a repetition cannot be read");
        } else if (!take(r, "*")) {
            return rule;
        }
        rule = grammar_repeat(r->b, rule, min, max);
    }
}

static bool ends_sequence(reader *r)
{
    int c = peek(r);
    return c < 0 || c == '|' || c == ')' || (r->lark && (c == ']' || starts_with(r, "->"))) || at_definition(r);
}

/* One alternative; *begins_with_self: it begins with `self`, which is left out. */
static grammar_rule sequence(reader *r, grammar_rule self, bool *begins_with_self)
{
    rule_list *list = calloc(1, sizeof *list);
    *begins_with_self = false;
    if (!list)
        return refuse(r, ERR_MEMORY, "out of memory");
    for (bool first = true; skip_space(r), !r->b->failed && !ends_sequence(r); first = false) {
        grammar_rule one = item(r);
        bool bare = one == self && !(peek(r) > 0 && strchr("?+*~{", peek(r)));
        if (first && self && bare) {
            *begins_with_self = true;
            continue;
        }
        if (list->count == ITEMS_MAX)
            refuse(r, ERR_LIMIT, "an alternative is too long");
        else
            list->items[list->count++] = repeated(r, one);
    }
    if (r->lark && take(r, "->")) { /* an alias */
        skip_space(r);
        take_name(r);
        skip_space(r);
    }
    grammar_rule rule = r->b->failed ? 0 : grammar_sequence(r->b, list->items, list->count);
    free(list);
    return rule;
}

/* self: x | self y  is  x y*. */
static grammar_rule alternatives(reader *r, grammar_rule self)
{
    rule_list *plain = calloc(2, sizeof *plain), *more = plain + 1;
    if (!plain)
        return refuse(r, ERR_MEMORY, "out of memory");
    do {
        bool recursive;
        grammar_rule one = sequence(r, self, &recursive);
        rule_list *list = recursive ? more : plain;
        if (one && list->count == ITEMS_MAX)
            refuse(r, ERR_LIMIT, "a rule has too many alternatives");
        else if (one)
            list->items[list->count++] = one;
        skip_space(r);
    } while (!r->b->failed && take(r, "|"));
    grammar_rule rule = r->b->failed ? 0 : grammar_choice(r->b, plain->items, plain->count);
    if (rule && more->count)
        rule = builder_pair(r->b, rule,
                            grammar_repeat(r->b, grammar_choice(r->b, more->items, more->count), 0, UINT32_MAX));
    free(plain);
    return rule;
}

/* ---- rules ---- */

static const char *common_terminal(span name)
{
    static const char *const terminals[][2] = {
        {"DIGIT", "[0-9]"},
        {"HEXDIGIT", "[0-9a-fA-F]"},
        {"INT", "[0-9]+"},
        {"SIGNED_INT", "[+-]?[0-9]+"},
        {"DECIMAL", "[0-9]+\\.[0-9]*|\\.[0-9]+"},
        {"FLOAT", "[0-9]+[eE][+-]?[0-9]+|([0-9]+\\.[0-9]*|\\.[0-9]+)([eE][+-]?[0-9]+)?"},
        {"NUMBER", "[0-9]+(\\.[0-9]*)?([eE][+-]?[0-9]+)?|\\.[0-9]+([eE][+-]?[0-9]+)?"},
        {"SIGNED_NUMBER", "[+-]?([0-9]+(\\.[0-9]*)?([eE][+-]?[0-9]+)?|\\.[0-9]+([eE][+-]?[0-9]+)?)"},
        {"ESCAPED_STRING", "\"([^\"\\\\\\n]|\\\\.)*\""},
        {"LCASE_LETTER", "[a-z]"},
        {"UCASE_LETTER", "[A-Z]"},
        {"LETTER", "[a-zA-Z]"},
        {"WORD", "[a-zA-Z]+"},
        {"CNAME", "[_a-zA-Z][_a-zA-Z0-9]*"},
        {"WS_INLINE", "[ \\t]+"},
        {"WS", "[ \\t\\f\\r\\n]+"},
        {"CR", "\\r"},
        {"LF", "\\n"},
        {"NEWLINE", "(\\r?\\n)+"},
    };
    for (size_t i = 0; i < sizeof terminals / sizeof *terminals; i++)
        if (span_is(name, terminals[i][0]))
            return terminals[i][1];
    return NULL;
}

static void define(reader *r, span name, grammar_rule body)
{
    if (json_object_getn(r->defined, name.data, name.size))
        builder_fail(r->b, ERR_INVALID, "grammar: rule \"%.*s\" is defined twice",
                     (int)(name.size < 60 ? name.size : 60), name.data);
    json_object_setn_new_nocheck(r->defined, name.data, name.size, json_true());
    builder_define(r->b, rule_named(r, name), body);
}

static void import_one(reader *r)
{
    skip_space(r);
    span name = take_name(r), local = name;
    const char *pattern = common_terminal(name);
    skip_space(r);
    if (take(r, "->")) {
        skip_space(r);
        local = take_name(r);
    }
    if (!pattern || !local.size)
        refuse(r, ERR_UNSUPPORTED, "%import knows the usual terminals of common only");
    else
        define(r, local, regex_rule(r->b, span_from(pattern), SPELL_RAW, PATTERN_WHOLE, "grammar"));
}

static void directive(reader *r)
{
    if (take(r, "%ignore")) {
        skip_space(r);
        r->in_terminal = true;
        grammar_rule rule = alternatives(r, 0);
        if (r->ignored)
            builder_define(r->b, r->ignored,
                           r->b->nodes[r->ignored].a ? builder_either(r->b, r->b->nodes[r->ignored].a, rule) : rule);
        r->in_terminal = false;
    } else if (take(r, "%import")) {
        skip_space(r);
        if (!take(r, "common"))
            refuse(r, ERR_UNSUPPORTED, "%import knows the usual terminals of common only");
        else if (take(r, "."))
            import_one(r);
        else if (skip_space(r), take(r, "("))
            do
                import_one(r);
            while (!r->b->failed && (skip_space(r), take(r, ",")));
        skip_space(r);
        take(r, ")");
    } else {
        refuse(r, ERR_UNSUPPORTED, "only %ignore and %import are supported");
    }
}

static bool read_rules(reader *r)
{
    while (skip_space(r), !r->b->failed && peek(r) >= 0) {
        span name;
        if (r->lark && peek(r) == '%') {
            directive(r);
        } else if (take_definition(r, &name)) {
            r->in_terminal = r->lark && is_terminal_name(name);
            define(r, name, alternatives(r, rule_named(r, name)));
        } else {
            refuse(r, ERR_INVALID, "a rule is expected");
        }
    }
    return !r->b->failed;
}

static bool all_defined(reader *r)
{
    const char *name;
    json_t *number;
    json_object_foreach(r->names, name, number) if (!json_object_get(r->defined, name))
    {
        builder_fail(r->b, ERR_INVALID, "grammar: rule \"%.60s\" is not defined", name);
        return false;
    }
    return true;
}

static bool holds(span text, const char *word)
{
    size_t size = strlen(word);
    for (size_t i = 0; i + size <= text.size; i++)
        if (memcmp(text.data + i, word, size) == 0)
            return true;
    return false;
}

grammar_rule grammar_ebnf(grammar_builder *b, span text)
{
    reader r = {.b = b, .text = text, .lark = !holds(text, "::="), .names = json_object(), .defined = json_object()};
    const char *root = r.lark ? "start" : "root";
    grammar_rule rule = 0;
    if (r.lark && holds(text, "%ignore"))
        r.ignored = builder_rule(b, span_from("ignored"));
    if (r.names && r.defined && read_rules(&r) && all_defined(&r)) {
        json_t *first = json_object_get(r.names, root);
        if (first)
            rule = (grammar_rule)json_integer_value(first);
        else
            builder_fail(b, ERR_INVALID, "grammar: there is no rule \"%s\"", root);
    }
    json_decref(r.names);
    json_decref(r.defined);
    return b->failed ? 0 : rule;
}
