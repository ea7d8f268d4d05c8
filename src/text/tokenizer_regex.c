/* text/tokenizer_regex.c: Oniguruma patterns on PCRE2.
 * The two agree on nearly all that pre-tokenizers use. What differs is spelled out as explicit classes (\s, \S, \w, \W,
 * \h, scripts, letters newer than PCRE2's Unicode); what cannot be said in PCRE2 (&&, nested classes) is refused. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/tokenizer_regex.h"

#include <ctype.h>
#include <pcre2.h>
#include <stdlib.h>

#include "text/tokenizer_unicode.h"
#include "text/tokenizer_utf8.h"

enum {
    MATCH_LIMIT_BASE = 10 * 1000 * 1000,
    MATCH_LIMIT_PER_BYTE = 64,
    HEAP_LIMIT_KIB = 256 * 1024,
    JIT_STACK_MAX = 16 << 20
};

struct regex {
    pcre2_code *code;
};

struct regex_scratch {
    pcre2_match_data *match;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
};

/* Unicode's White_Space: PCRE2's \s has U+180E too. As the inside of a class, and its complement. */
static const char SPACE[] = "\\x09-\\x0d\\x20\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}"
                            "\\x{205f}\\x{3000}";
static const char NOT_SPACE[] =
    "\\x00-\\x08\\x0e-\\x1f\\x21-\\x{84}\\x{86}-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-\\x{1fff}\\x{200b}-\\x{2027}"
    "\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}\\x{3001}-\\x{10ffff}";

typedef struct {
    buf *out;
    span in;
    size_t at;
    bool in_class;
    error *err;
} translation;

static status refuse(translation *t, const char *what)
{
    return error_set(t->err, ERR_UNSUPPORTED, "regular expression: %s at byte %zu of \"%.*s\" is not supported", what,
                     t->at, (int)(t->in.size > 200 ? 200 : t->in.size), t->in.data);
}

static void append_additions(buf *out, const char *name)
{
    for (size_t i = 0; i < unicode_addition_count; i++) {
        const unicode_addition *a = &unicode_additions[i];
        if (a->category[0] != name[0] || (name[1] && a->category[1] != name[1]))
            continue;
        buf_printf(out, "\\x{%x}", a->first);
        if (a->last != a->first)
            buf_printf(out, "-\\x{%x}", a->last);
    }
}

/* \s, \w, … and their complements, where the two engines differ. Outside a class they need brackets of their own. */
static void append_set(translation *t, const char *inside, const char *categories)
{
    buf_text(t->out, t->in_class ? "" : "[");
    buf_text(t->out, inside);
    for (const char *c = categories; *c; c++)
        append_additions(t->out, (const char[]){*c, 0});
    buf_text(t->out, t->in_class ? "" : "]");
}

static bool is_general_category(const char *name)
{
    static const char known[] =
        "L Lu Ll Lt Lm Lo M Mn Mc Me N Nd Nl No P Pc Pd Ps Pe Pi Pf Po S Sm Sc Sk So Z Zs Zl Zp C";
    size_t size = strlen(name);
    for (const char *p = known; (p = strstr(p, name)); p++)
        if ((p == known || p[-1] == ' ') && (p[size] == ' ' || p[size] == 0))
            return true;
    return false;
}

/* \p{Name}, \P{Name}, \p{^Name}: at stands after the p. */
static status translate_property(translation *t, bool negated)
{
    char name[40];
    size_t size = 0, at = t->at;
    if (at >= t->in.size || t->in.data[at] != '{')
        return refuse(t, "\\p without {…}");
    for (at++; at < t->in.size && t->in.data[at] != '}' && size + 1 < sizeof name; at++) {
        if (t->in.data[at] == '^' && size == 0)
            negated = !negated;
        else
            name[size++] = t->in.data[at];
    }
    name[size] = 0;
    if (at >= t->in.size || t->in.data[at] != '}' || size == 0)
        return refuse(t, "this property");
    for (size_t i = 0; i < size; i++)
        if (!isalnum((unsigned char)name[i]) && name[i] != '_' && name[i] != '&')
            return refuse(t, "this property");
    t->at = at + 1;
    if (!is_general_category(name)) { /* a script: Oniguruma means the script, not its extensions */
        buf_printf(t->out, "\\%c{sc:%s}", negated ? 'P' : 'p', name);
        return OK;
    }
    if (!negated) {
        buf_text(t->out, t->in_class ? "" : "[");
        buf_printf(t->out, "\\p{%s}", name);
        append_additions(t->out, name);
        buf_text(t->out, t->in_class ? "" : "]");
        return OK;
    }
    if (t->in_class)
        return refuse(t, "a negated property inside a class");
    buf_printf(t->out, "[^\\p{%s}", name);
    append_additions(t->out, name);
    buf_text(t->out, "]");
    return OK;
}

static status translate_escape(translation *t)
{
    if (t->at + 1 >= t->in.size)
        return refuse(t, "a lone backslash");
    char c = t->in.data[t->at + 1];
    t->at += 2;
    switch (c) {
    case 's':
        append_set(t, SPACE, "");
        return OK;
    case 'S':
        append_set(t, NOT_SPACE, "");
        return OK;
    case 'w':
        append_set(t, "\\p{L}\\p{M}\\p{Nd}\\p{Pc}", "LM");
        return OK;
    case 'd':
        append_set(t, "\\p{Nd}", "");
        return OK;
    case 'W':
        if (t->in_class)
            return refuse(t, "\\W inside a class");
        append_set(t, "^\\p{L}\\p{M}\\p{Nd}\\p{Pc}", "LM");
        return OK;
    case 'D':
        if (t->in_class)
            return refuse(t, "\\D inside a class");
        append_set(t, "^\\p{Nd}", "");
        return OK;
    case 'h':
        append_set(t, "0-9a-fA-F", "");
        return OK;
    case 'p':
    case 'P':
        return translate_property(t, c == 'P');
    case 'n':
    case 'r':
    case 't':
    case 'f':
    case 'x':
        buf_byte(t->out, '\\');
        buf_byte(t->out, c);
        return OK;
    case 'v':
        buf_text(t->out, "\\x0b");
        return OK;
    case 'b':
    case 'B':
    case 'A':
    case 'z':
    case 'Z':
        if (t->in_class)
            return refuse(t, "this escape inside a class");
        buf_byte(t->out, '\\');
        buf_byte(t->out, c);
        return OK;
    default:
        if (isalnum((unsigned char)c))
            return refuse(t, "this escape");
        buf_byte(t->out, '\\');
        buf_byte(t->out, c);
        return OK;
    }
}

static status translate_class_char(translation *t)
{
    char c = t->in.data[t->at], next = t->at + 1 < t->in.size ? t->in.data[t->at + 1] : 0;
    if (c == '&' && next == '&')
        return refuse(t, "an intersection of classes");
    if (c == '[' && next != ':')
        return refuse(t, "a class inside a class");
    if (c == '[') { /* [:alpha:] passes through */
        while (t->at < t->in.size && t->in.data[t->at] != ']')
            buf_byte(t->out, t->in.data[t->at++]);
        if (t->at >= t->in.size)
            return refuse(t, "an open class");
    } else if (c == ']') {
        t->in_class = false;
    }
    buf_byte(t->out, t->in.data[t->at++]);
    return OK;
}

static status translate_plain(translation *t)
{
    char c = t->in.data[t->at], next = t->at + 1 < t->in.size ? t->in.data[t->at + 1] : 0;
    if (c == '}' && next == '+') /* possessive here, a second repeat there */
        return refuse(t, "a repeat after {…}");
    buf_byte(t->out, c);
    t->at++;
    if (c != '[')
        return OK;
    t->in_class = true;
    if (next == '^') {
        buf_byte(t->out, '^');
        t->at++;
    }
    if (t->at < t->in.size && t->in.data[t->at] == ']') {
        buf_text(t->out, "\\]");
        t->at++;
    }
    return OK;
}

status regex_translate(buf *out, span pattern, error *err)
{
    if (pattern.size > REGEX_PATTERN_MAX)
        return error_set(err, ERR_INVALID, "regular expression of %zu bytes: at most %d are supported", pattern.size,
                         REGEX_PATTERN_MAX);
    translation t = {out, pattern, 0, false, err};
    while (t.at < pattern.size) {
        status st;
        if (pattern.data[t.at] == '\\')
            st = translate_escape(&t);
        else if (t.in_class)
            st = translate_class_char(&t);
        else
            st = translate_plain(&t);
        if (st)
            return st;
    }
    return out->failed ? error_set(err, ERR_MEMORY, "out of memory for a regular expression") : OK;
}

static status compile(regex **out, span pattern, uint32_t options, span shown, error *err)
{
    int code = 0;
    PCRE2_SIZE where = 0;
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    regex *r = calloc(1, sizeof *r);
    if (!context || !r) {
        pcre2_compile_context_free(context);
        free(r);
        return error_set(err, ERR_MEMORY, "out of memory for a regular expression");
    }
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    r->code = pcre2_compile((PCRE2_SPTR)pattern.data, pattern.size, options, &code, &where, context);
    pcre2_compile_context_free(context);
    if (!r->code) {
        char words[128];
        pcre2_get_error_message(code, (PCRE2_UCHAR *)words, sizeof words);
        free(r);
        return error_set(err, ERR_INVALID, "regular expression \"%.*s\": %s",
                         (int)(shown.size > 200 ? 200 : shown.size), shown.data, words);
    }
    pcre2_jit_compile(r->code, PCRE2_JIT_COMPLETE); /* failure: the interpreter runs it */
    *out = r;
    return OK;
}

status regex_compile(regex **out, span pattern, error *err)
{
    buf translated = {0};
    status st = regex_translate(&translated, pattern, err);
    if (!st) {
        buf_reserve(&translated, 0);
        st = compile(out, buf_span(&translated), PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                     pattern, err);
    }
    buf_free(&translated);
    return st;
}

status regex_compile_literal(regex **out, span text, error *err)
{
    return compile(out, text, PCRE2_UTF | PCRE2_LITERAL, text, err);
}

void regex_free(regex *r)
{
    if (!r)
        return;
    pcre2_code_free(r->code);
    free(r);
}

regex_scratch *regex_scratch_create(void)
{
    regex_scratch *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->match = pcre2_match_data_create(1, NULL);
    s->context = pcre2_match_context_create(NULL);
    if (!s->match || !s->context) {
        regex_scratch_free(s);
        return NULL;
    }
    pcre2_set_heap_limit(s->context, HEAP_LIMIT_KIB);
    s->stack = pcre2_jit_stack_create(32 * 1024, JIT_STACK_MAX, NULL); /* NULL: no JIT here */
    if (s->stack)
        pcre2_jit_stack_assign(s->context, NULL, s->stack);
    return s;
}

void regex_scratch_free(regex_scratch *s)
{
    if (!s)
        return;
    pcre2_match_data_free(s->match);
    pcre2_match_context_free(s->context);
    if (s->stack)
        pcre2_jit_stack_free(s->stack);
    free(s);
}

status regex_find(const regex *r, regex_scratch *s, span text, size_t from, bool *found, size_t *start, size_t *end,
                  error *err)
{
    *found = false;
    uint64_t limit = MATCH_LIMIT_BASE + (uint64_t)MATCH_LIMIT_PER_BYTE * text.size;
    pcre2_set_match_limit(s->context, limit > UINT32_MAX ? UINT32_MAX : (uint32_t)limit);
    while (from < text.size) {
        PCRE2_SPTR subject = (PCRE2_SPTR)text.data;
        int rc = pcre2_match(r->code, subject, text.size, from, PCRE2_NO_UTF_CHECK, s->match, s->context);
        if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
            rc =
                pcre2_match(r->code, subject, text.size, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, s->match, s->context);
        if (rc == PCRE2_ERROR_NOMATCH)
            return OK;
        if (rc < 0) {
            char words[128];
            pcre2_get_error_message(rc, (PCRE2_UCHAR *)words, sizeof words);
            return error_set(err, rc == PCRE2_ERROR_NOMEMORY ? ERR_MEMORY : ERR_LIMIT,
                             "the tokenizer's regular expression failed on this text: %s", words);
        }
        const PCRE2_SIZE *where = pcre2_get_ovector_pointer(s->match);
        if (where[1] > where[0] && where[0] >= from) {
            *found = true;
            *start = where[0];
            *end = where[1];
            return OK;
        }
        from += utf8_size((unsigned char)text.data[from]); /* an empty match splits nothing */
    }
    return OK;
}
