/* text/jinja_strings.c: work on text that the filters, methods and operators share. Every result says of each byte
 * whether the template wrote it. */
#define _GNU_SOURCE /* memmem */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "text/jinja_eval.h"
#include "text/jinja_unicode.h"

size_t jinja_search(span text, span what, size_t from)
{
    if (from > text.size || what.size > text.size - from)
        return SIZE_MAX;
    if (!what.size)
        return from;
    const char *found = memmem(text.data + from, text.size - from, what.data, what.size);
    return found ? (size_t)(found - text.data) : SIZE_MAX;
}

jinja_string *jinja_escape(jinja_render *r, jinja_value v)
{
    jinja_string *s = jinja_to_string(r, v);
    if (s->markup)
        return s;
    jinja_builder b;
    jinja_build(&b, r);
    jinja_charge(r, s->text.size / 16);
    size_t plain = 0;
    for (size_t i = 0; i < s->text.size; i++) {
        char c = s->text.data[i];
        const char *entity = c == '&'    ? "&amp;"
                             : c == '<'  ? "&lt;"
                             : c == '>'  ? "&gt;"
                             : c == '\'' ? "&#39;"
                             : c == '"'  ? "&#34;"
                                         : NULL;
        if (!entity)
            continue;
        jinja_put_part(&b, s, plain, i - plain);
        jinja_put_text(&b, entity, jinja_trusted_at(s, i, NULL));
        plain = i + 1;
    }
    jinja_put_part(&b, s, plain, s->text.size - plain);
    b.markup = true;
    return jinja_built(&b);
}

static bool word_border(int32_t code)
{
    return jinja_is_space(code) || code == '-' || code == '(' || code == '{' || code == '[' || code == '<';
}

/* Which case the character gets; `first` says whether a word starts here. */
static jinja_case case_of(int change, int32_t code, bool first)
{
    switch (change) {
    case CHANGE_UPPER:
        return CASE_UPPER;
    case CHANGE_SWAP:
        return jinja_is_upper(code) ? CASE_LOWER : CASE_UPPER;
    case CHANGE_TITLE:
    case CHANGE_CAPITALIZE:
        return first ? CASE_TITLE : CASE_LOWER;
    case CHANGE_FILTER_TITLE:
        return first ? CASE_UPPER : CASE_LOWER;
    default:
        return CASE_LOWER;
    }
}

/* A capital sigma ends a word as the final form: a letter before it, none behind. */
static bool final_sigma(span text, size_t at, bool cased_before)
{
    size_t used;
    if (!cased_before || at >= text.size)
        return cased_before;
    return !jinja_is_cased(jinja_decode(text.data + at, text.size - at, &used));
}

jinja_string *jinja_change_string(jinja_render *r, const jinja_string *s, int change)
{
    jinja_builder b;
    jinja_build(&b, r);
    bool first = true, cased_before = false, trusted = false;
    size_t used, run_end = 0;
    for (size_t i = 0; i < s->text.size; i += used) {
        int32_t code = jinja_decode(s->text.data + i, s->text.size - i, &used), out[3];
        if (i >= run_end)
            trusted = jinja_trusted_at(s, i, &run_end);
        jinja_case to = case_of(change, code, first);
        size_t count = jinja_change_case(code, to, out);
        if (code == 0x3a3 && to == CASE_LOWER && final_sigma(s->text, i + used, cased_before))
            out[0] = 0x3c2;
        for (size_t k = 0; k < count; k++)
            jinja_put_code(&b, out[k], trusted);
        cased_before = jinja_is_cased(code);
        first = change == CHANGE_TITLE ? !cased_before : change == CHANGE_FILTER_TITLE ? word_border(code) : false;
    }
    jinja_charge(r, s->text.size / 4);
    b.markup = s->markup && change != CHANGE_FILTER_TITLE;
    return jinja_built(&b);
}

jinja_string *jinja_replace(jinja_render *r, const jinja_string *s, const jinja_string *from, const jinja_string *to,
                            int64_t count)
{
    jinja_builder b;
    jinja_build(&b, r);
    size_t at = 0, used;
    jinja_charge(r, s->text.size / 32);
    while (count != 0) {
        size_t found = jinja_search(s->text, from->text, at);
        if (found == SIZE_MAX)
            break;
        count--;
        jinja_charge(r, 1);
        if (from->text.size) {
            jinja_put_part(&b, s, at, found - at);
            jinja_put_string(&b, to);
            at = found + from->text.size;
            continue;
        }
        jinja_put_string(&b, to); /* "" is found before every character and at the end */
        if (at == s->text.size)
            break;
        jinja_decode(s->text.data + at, s->text.size - at, &used);
        jinja_put_part(&b, s, at, used);
        at += used;
    }
    jinja_put_part(&b, s, at, s->text.size - at);
    b.markup = s->markup;
    return jinja_built(&b);
}

jinja_string *jinja_repeat(jinja_render *r, const jinja_string *s, int64_t times)
{
    jinja_builder b;
    jinja_build(&b, r);
    for (int64_t i = 0; i < times && s->text.size; i++) {
        jinja_charge(r, 1);
        jinja_put_string(&b, s);
    }
    b.markup = s->markup;
    return jinja_built(&b);
}

jinja_string *jinja_join(jinja_render *r, const jinja_string *separator, jinja_list *items, bool only_strings)
{
    jinja_builder b;
    jinja_build(&b, r);
    for (size_t i = 0; i < items->count; i++) {
        jinja_charge(r, 1);
        if (only_strings && !separator->markup && items->items[i].type != V_STRING)
            jinja_fail(r, "sequence item %zu: expected str instance, %s found", i, jinja_type_name(items->items[i]));
        if (i)
            jinja_put_string(&b, separator);
        if (only_strings && separator->markup)
            jinja_put_string(&b, jinja_escape(r, items->items[i]));
        else
            jinja_put_value(&b, items->items[i]);
    }
    b.markup = only_strings && separator->markup;
    return jinja_built(&b);
}

/* Copies digits without blanks around and single underscores between; false when too long or malformed. */
static bool number_text(span text, char *out, size_t capacity)
{
    text = jinja_strip(text, (span){0}, false, true, true);
    size_t size = 0;
    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i];
        if (c == '_' && i > 0 && i + 1 < text.size && text.data[i - 1] != '_')
            continue;
        if (size + 1 >= capacity || c == '_' || c == 0 || (c & 0x80) || jinja_is_space(c))
            return false;
        out[size++] = c;
    }
    out[size] = 0;
    return size > 0;
}

bool jinja_parse_int(span text, int base, int64_t *out)
{
    char digits[80], *end;
    if ((base && (base < 2 || base > 36)) || !number_text(text, digits, sizeof digits))
        return false;
    char *at = digits + (digits[0] == '-' || digits[0] == '+');
    if (at[0] == '0' && (at[1] | 32) == 'b' && (base == 0 || base == 2)) {
        memmove(at, at + 2, strlen(at + 2) + 1);
        base = 2;
    } else if (at[0] == '0' && (at[1] | 32) == 'o' && (base == 0 || base == 8)) {
        memmove(at, at + 2, strlen(at + 2) + 1);
        base = 8;
    } else if (base != 16 && base != 0 && at[0] == '0' && (at[1] | 32) == 'x') {
        return false;
    }
    if (*at == '-' || *at == '+')
        return false;
    errno = 0;
    *out = strtoll(digits, &end, base);
    return end != digits && !*end && errno == 0;
}

bool jinja_parse_float(span text, double *out)
{
    char digits[400], *end;
    if (!number_text(text, digits, sizeof digits) || strpbrk(digits, "xXpP("))
        return false;
    *out = strtod(digits, &end);
    return end != digits && !*end;
}

bool jinja_arg_bool(jinja_render *r, jinja_value v, bool otherwise)
{
    return jinja_given(v) ? jinja_truth(r, v) : otherwise;
}

int64_t jinja_arg_int(jinja_render *r, jinja_value v, int64_t otherwise, const char *what)
{
    int64_t i;
    if (!jinja_given(v))
        return otherwise;
    if (v.type == V_UNDEFINED)
        jinja_undefined_error(r, v);
    if (!jinja_integer(v, &i))
        jinja_fail(r, "%s must be an integer, not '%s'", what, jinja_type_name(v));
    return i;
}

jinja_string *jinja_arg_str(jinja_render *r, jinja_value v, const char *what)
{
    if (v.type == V_UNDEFINED)
        jinja_undefined_error(r, v);
    if (v.type != V_STRING)
        jinja_fail(r, "%s must be a str, not '%s'", what, jinja_type_name(v));
    return v.string;
}
