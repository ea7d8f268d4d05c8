/* text/jinja_lexer.c: the tokenizer of templates. The source is cut at `{{`, `{%`, `{#`; what lies between is data,
 * whose blanks are trimmed here, so that the parser sees only what may be printed. */
#include "text/jinja_lexer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "text/jinja_unicode.h"

enum { BRACKET_DEPTH_MAX = 200 };

typedef struct {
    jinja_arena *arena;
    const char *source;
    size_t size, at;
    uint32_t line;
    bool line_starting; /* the last match ended with a line feed, or nothing was read yet */
    char brackets[BRACKET_DEPTH_MAX];
    size_t bracket_count;
    jinja_token *tokens;
    size_t count, capacity;
} lexer;

void jinja_syntax_error(jinja_arena *arena, uint32_t line, const char *format, ...)
{
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    jinja_throw(arena->trap, ERR_INVALID, "template line %u: %s", line, text);
}

static jinja_token *push(lexer *l, jinja_token_type type, const char *text, size_t size)
{
    if (l->count == l->capacity) {
        size_t capacity = l->capacity ? l->capacity * 2 : 256;
        l->tokens = jinja_grow(l->arena, l->tokens, l->count * sizeof *l->tokens, capacity * sizeof *l->tokens);
        l->capacity = capacity;
    }
    jinja_token *token = &l->tokens[l->count++];
    *token = (jinja_token){.type = type, .line = l->line, .text = span_of(text, size)};
    return token;
}

/* Moves on to `to`, counting lines. */
static void advance(lexer *l, size_t to)
{
    for (size_t i = l->at; i < to; i++)
        l->line += l->source[i] == '\n';
    l->line_starting = to > l->at && l->source[to - 1] == '\n';
    l->at = to;
}

static bool starts(const lexer *l, size_t at, const char *text)
{
    size_t size = strlen(text);
    return l->size - at >= size && memcmp(l->source + at, text, size) == 0;
}

static size_t skip_blanks(const lexer *l, size_t at)
{
    size_t used;
    while (at < l->size && jinja_is_space(jinja_decode(l->source + at, l->size - at, &used)))
        at += used;
    return at;
}

/* "\r\n" and "\r" become "\n"; one line feed at the end goes. */
static void normalize(lexer *l, span source)
{
    char *out = jinja_alloc_raw(l->arena, source.size + 1);
    size_t size = 0;
    for (size_t i = 0; i < source.size; i++) {
        char c = source.data[i];
        if (c == '\r') {
            c = '\n';
            if (i + 1 < source.size && source.data[i + 1] == '\n')
                i++;
        }
        out[size++] = c;
    }
    if (size && out[size - 1] == '\n')
        size--;
    out[size] = 0;
    l->source = out;
    l->size = size;
}

/* Data before a tag: `sign` is '-', '+' or 0; `strips` says whether the tag takes part in lstrip_blocks. */
static void push_data(lexer *l, size_t end, char sign, bool strips)
{
    span text = span_of(l->source + l->at, end - l->at);
    if (sign == '-') {
        text = jinja_strip(text, (span){0}, false, false, true);
    } else if (sign != '+' && strips) {
        size_t line = text.size;
        while (line > 0 && text.data[line - 1] != '\n')
            line--;
        if ((line > 0 || l->line_starting) && skip_blanks(l, l->at + line) >= end)
            text.size = line;
    }
    if (text.size)
        push(l, TOK_DATA, text.data, text.size);
}

static char sign_at(const lexer *l, size_t at)
{
    return at < l->size && (l->source[at] == '-' || l->source[at] == '+') ? l->source[at] : 0;
}

/* `at` is behind the two characters that open a block. Gives the end of "raw %}" / "endraw %}" or 0. */
static size_t match_raw(const lexer *l, size_t at, const char *word, bool is_end)
{
    if (sign_at(l, at))
        at++;
    at = skip_blanks(l, at);
    if (!starts(l, at, word))
        return 0;
    at = skip_blanks(l, at + strlen(word));
    if (starts(l, at, "-%}"))
        return skip_blanks(l, at + 3);
    if (is_end && starts(l, at, "+%}"))
        return at + 3;
    if (!starts(l, at, "%}"))
        return 0;
    return is_end && starts(l, at + 2, "\n") ? at + 3 : at + 2;
}

static void lex_raw(lexer *l)
{
    for (size_t i = l->at; i + 1 < l->size; i++) {
        size_t end;
        if (!starts(l, i, "{%") || !(end = match_raw(l, i + 2, "endraw", true)))
            continue;
        push_data(l, i, sign_at(l, i + 2), true);
        advance(l, end);
        return;
    }
    jinja_syntax_error(l->arena, l->line, "Missing end of raw directive");
}

static void lex_comment(lexer *l)
{
    for (size_t i = l->at; i + 1 < l->size; i++) {
        if (!starts(l, i, "#}"))
            continue;
        char sign = i > l->at ? l->source[i - 1] : 0;
        size_t end = i + 2;
        if (sign == '-')
            end = skip_blanks(l, end);
        else if (sign != '+' && starts(l, end, "\n"))
            end++;
        advance(l, end);
        return;
    }
    if (l->at < l->size) /* jinja2 lets "{#" end a template */
        jinja_syntax_error(l->arena, l->line, "Missing end of comment tag");
}

static int digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 32;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : 99;
}

/* Digits with single underscores between; gives the end. */
static size_t skip_digits(const lexer *l, size_t at, int base)
{
    while (at < l->size) {
        if (digit_value(l->source[at]) < base)
            at++;
        else if (l->source[at] == '_' && at + 1 < l->size && digit_value(l->source[at + 1]) < base)
            at += 2;
        else
            break;
    }
    return at;
}

static size_t float_end(const lexer *l, size_t at)
{
    if (at > 0 && l->source[at - 1] == '.')
        return 0;
    size_t end = skip_digits(l, at, 10), fraction = end;
    if (end + 1 < l->size && l->source[end] == '.' && digit_value(l->source[end + 1]) < 10)
        fraction = skip_digits(l, end + 1, 10);
    size_t exponent = fraction;
    if (exponent < l->size && (l->source[exponent] | 32) == 'e') {
        exponent++;
        if (sign_at(l, exponent))
            exponent++;
        if (exponent < l->size && digit_value(l->source[exponent]) < 10)
            return skip_digits(l, exponent, 10);
    }
    return fraction > end ? fraction : 0;
}

static void lex_number(lexer *l)
{
    char digits[128];
    size_t size = 0, end = float_end(l, l->at), start = l->at;
    bool is_float = end > 0;
    int base = 10;
    if (!is_float) {
        char second = start + 1 < l->size ? l->source[start + 1] | 32 : 0;
        base = l->source[start] != '0' ? 10 : second == 'x' ? 16 : second == 'o' ? 8 : second == 'b' ? 2 : 1;
        size_t body = start + (base == 10 || base == 1 ? 0 : 2);
        if (base == 1) {
            end = skip_digits(l, start, 1);
            base = 10;
        } else {
            if (base != 10 && body < l->size && l->source[body] == '_')
                body++;
            end = skip_digits(l, body, base);
        }
        if (end == body) { /* "0x" without digits: the zero stands alone */
            end = start + 1;
            base = 10;
        }
        if (base != 10)
            start = body;
    }
    for (size_t i = start; i < end; i++) {
        if (size + 1 >= sizeof digits)
            jinja_syntax_error(l->arena, l->line, "number with more than %zu digits", sizeof digits - 1);
        if (l->source[i] != '_')
            digits[size++] = l->source[i];
    }
    digits[size] = 0;
    jinja_token *token = push(l, is_float ? TOK_FLOAT : TOK_INTEGER, l->source + l->at, end - l->at);
    errno = 0;
    if (is_float)
        token->real = strtod(digits, NULL);
    else
        token->integer = strtoll(digits, NULL, base);
    if (!is_float && errno == ERANGE)
        jinja_syntax_error(l->arena, l->line, "integer %s does not fit 64 bits", digits);
    advance(l, end);
}

/* Reads `count` hex digits behind an escape. */
static int32_t hex_escape(lexer *l, size_t at, size_t end, size_t count)
{
    int64_t code = 0;
    for (size_t i = 0; i < count; i++) {
        if (at + i >= end || digit_value(l->source[at + i]) > 15)
            jinja_syntax_error(l->arena, l->line, "truncated escape in a string");
        code = code * 16 + digit_value(l->source[at + i]);
    }
    if (code > 0x10ffff)
        jinja_syntax_error(l->arena, l->line, "illegal Unicode character in a string");
    return (int32_t)code;
}

/* One escape of Python's unicode-escape at source[at] (behind the backslash); gives the bytes read. */
static size_t unescape(lexer *l, size_t at, size_t end, char *out, size_t *size)
{
    static const char letters[] = "\\'\"abfnrtv", values[] = "\\'\"\a\b\f\n\r\t\v";
    char c = l->source[at];
    const char *letter = c ? strchr(letters, c) : NULL;
    if (letter) {
        out[(*size)++] = values[letter - letters];
        return 1;
    }
    if (c == '\n')
        return 1;
    if (c == 'x' || c == 'u' || c == 'U') {
        size_t count = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        int32_t code = hex_escape(l, at + 1, end, count);
        bool pair = c == 'u' && code >= 0xd800 && code < 0xdc00 && at + 7 < end && l->source[at + 5] == '\\' &&
                    l->source[at + 6] == 'u';
        if (pair) {
            int32_t low = hex_escape(l, at + 7, end, 4);
            if (low >= 0xdc00 && low < 0xe000) {
                *size += jinja_encode(0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00), out + *size);
                return 11;
            }
        }
        *size += jinja_encode(code, out + *size);
        return 1 + count;
    }
    if (c == 'N')
        jinja_syntax_error(l->arena, l->line, "\\N{...} in a string is not supported");
    if (c >= '0' && c <= '7') {
        int32_t code = 0;
        size_t used = 0;
        for (; used < 3 && at + used < end && l->source[at + used] >= '0' && l->source[at + used] <= '7'; used++)
            code = code * 8 + (l->source[at + used] - '0');
        *size += jinja_encode(code, out + *size);
        return used;
    }
    out[(*size)++] = '\\';
    return 0;
}

static void lex_string(lexer *l)
{
    char quote = l->source[l->at];
    size_t start = l->at + 1, end = start;
    while (end < l->size && l->source[end] != quote)
        end += l->source[end] == '\\' ? 2 : 1;
    if (end >= l->size)
        jinja_syntax_error(l->arena, l->line, "unexpected char %c: the string never ends", quote);
    char *out = jinja_alloc_raw(l->arena, end - start + 4);
    size_t size = 0;
    for (size_t i = start; i < end;) {
        char c = l->source[i++];
        if (c == '\\')
            i += unescape(l, i, end, out, &size);
        else
            out[size++] = c;
    }
    push(l, TOK_STRING, out, size);
    advance(l, end + 1);
}

static void lex_name(lexer *l)
{
    size_t end = l->at, used;
    while (end < l->size && jinja_is_name(jinja_decode(l->source + end, l->size - end, &used)))
        end += used;
    push(l, TOK_NAME, l->source + l->at, end - l->at);
    advance(l, end);
}

static const struct {
    const char *text;
    jinja_token_type type;
} operators[] = {
    {"//", TOK_FLOORDIV}, {"**", TOK_POW},   {"==", TOK_EQ},      {"!=", TOK_NE},      {">=", TOK_GE},
    {"<=", TOK_LE},       {"+", TOK_ADD},    {"-", TOK_SUB},      {"/", TOK_DIV},      {"*", TOK_MUL},
    {"%", TOK_MOD},       {"~", TOK_TILDE},  {"[", TOK_LBRACKET}, {"]", TOK_RBRACKET}, {"(", TOK_LPAREN},
    {")", TOK_RPAREN},    {"{", TOK_LBRACE}, {"}", TOK_RBRACE},   {">", TOK_GT},       {"<", TOK_LT},
    {"=", TOK_ASSIGN},    {".", TOK_DOT},    {":", TOK_COLON},    {"|", TOK_PIPE},     {",", TOK_COMMA},
    {";", TOK_SEMICOLON},
};

static void balance(lexer *l, char c)
{
    char closer = c == '(' ? ')' : c == '[' ? ']' : c == '{' ? '}' : 0;
    if (closer) {
        if (l->bracket_count == BRACKET_DEPTH_MAX)
            jinja_syntax_error(l->arena, l->line, "brackets nested deeper than %d", BRACKET_DEPTH_MAX);
        l->brackets[l->bracket_count++] = closer;
    } else if (c == ')' || c == ']' || c == '}') {
        if (!l->bracket_count)
            jinja_syntax_error(l->arena, l->line, "unexpected '%c'", c);
        char expected = l->brackets[--l->bracket_count];
        if (expected != c)
            jinja_syntax_error(l->arena, l->line, "unexpected '%c', expected '%c'", c, expected);
    }
}

static void lex_operator(lexer *l)
{
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        if (!starts(l, l->at, operators[i].text))
            continue;
        size_t size = strlen(operators[i].text);
        if (size == 1)
            balance(l, l->source[l->at]);
        push(l, operators[i].type, l->source + l->at, size);
        advance(l, l->at + size);
        return;
    }
    jinja_syntax_error(l->arena, l->line, "unexpected char 0x%02x", (unsigned char)l->source[l->at]);
}

/* The end of a tag at l->at, or 0. */
static size_t tag_end(const lexer *l, bool block)
{
    if (block && starts(l, l->at, "+%}"))
        return l->at + 3;
    if (starts(l, l->at, block ? "-%}" : "-}}"))
        return skip_blanks(l, l->at + 3);
    if (!starts(l, l->at, block ? "%}" : "}}"))
        return 0;
    return block && starts(l, l->at + 2, "\n") ? l->at + 3 : l->at + 2;
}

static void lex_tag(lexer *l, bool block)
{
    l->bracket_count = 0;
    while (l->at < l->size) {
        size_t end = l->bracket_count ? 0 : tag_end(l, block), used;
        if (end) {
            push(l, block ? TOK_BLOCK_END : TOK_VARIABLE_END, l->source + l->at, 2);
            advance(l, end);
            return;
        }
        int32_t code = jinja_decode(l->source + l->at, l->size - l->at, &used);
        if (jinja_is_space(code))
            advance(l, skip_blanks(l, l->at));
        else if (code >= '0' && code <= '9')
            lex_number(l);
        else if (jinja_is_name_start(code))
            lex_name(l);
        else if (code == '"' || code == '\'')
            lex_string(l);
        else
            lex_operator(l);
    }
}

/* At "{{", "{%" or "{#" in source[open]: the data before, then the tag. */
static void lex_opening(lexer *l, size_t open)
{
    char kind = l->source[open + 1], sign = sign_at(l, open + 2);
    size_t raw_end = kind == '%' ? match_raw(l, open + 2, "raw", false) : 0;
    push_data(l, open, sign, kind != '{');
    if (raw_end) {
        advance(l, raw_end);
        lex_raw(l);
        return;
    }
    advance(l, open + 2 + (sign != 0));
    if (kind == '#') {
        lex_comment(l);
        return;
    }
    push(l, kind == '%' ? TOK_BLOCK_BEGIN : TOK_VARIABLE_BEGIN, l->source + open, 2);
    lex_tag(l, kind == '%');
}

jinja_tokens jinja_lex(jinja_arena *arena, span source)
{
    lexer l = {.arena = arena, .line = 1, .line_starting = true};
    normalize(&l, source);
    for (size_t i = 0; i < l.size;) {
        bool opens = l.source[i] == '{' && i + 1 < l.size &&
                     (l.source[i + 1] == '{' || l.source[i + 1] == '%' || l.source[i + 1] == '#');
        if (!opens) {
            i++;
            continue;
        }
        lex_opening(&l, i);
        i = l.at;
    }
    if (l.at < l.size)
        push(&l, TOK_DATA, l.source + l.at, l.size - l.at);
    advance(&l, l.size);
    push(&l, TOK_EOF, "", 0);
    return (jinja_tokens){l.tokens, l.count};
}
