/* text/jinja_printf.c: Python's two ways to format: "%s" % x and "{}".format(x). */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "text/jinja_eval.h"
#include "text/jinja_unicode.h"

enum { WIDTH_MAX = 10000, PRECISION_MAX = 400 };

typedef struct {
    int32_t fill;
    char align; /* '<' '>' '^' '=' or 0 */
    char sign;  /* '+', ' ' or 0 */
    bool alternate, zero;
    char group;               /* ',' '_' or 0 */
    int64_t width, precision; /* precision -1: not given */
    char type;
} format_spec;

static void put_fill(jinja_builder *b, int32_t fill, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        jinja_put_code(b, fill, false);
}

/* `s` in a field: padded to the width. The sign of a number stays in front of '=' padding. */
static void put_field(jinja_builder *b, jinja_string *s, const format_spec *spec, char align)
{
    int64_t missing = spec->width - (int64_t)jinja_string_chars(s);
    size_t head = 0;
    if (missing < 0)
        missing = 0;
    if (align == '=' && s->text.size && (s->text.data[0] == '-' || s->text.data[0] == '+' || s->text.data[0] == ' '))
        head = 1;
    if (align == '=')
        while (spec->alternate && head + 1 < s->text.size && head < 3 && strchr("0xXob", s->text.data[head]) &&
               (head < 2 || s->text.data[0] != '0') && s->text.data[head])
            head++;
    jinja_put_part(b, s, 0, head);
    int64_t left = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
    put_fill(b, spec->fill, left);
    jinja_put_part(b, s, head, s->text.size - head);
    put_fill(b, spec->fill, missing - left);
}

/* Puts separators between groups of three digits of the whole part. */
static void group_digits(char *text, size_t capacity, char separator)
{
    size_t start = 0, size = strlen(text);
    while (text[start] && (text[start] < '0' || text[start] > '9'))
        start++;
    size_t end = start;
    while (text[end] >= '0' && text[end] <= '9')
        end++;
    for (size_t at = end; at > start + 3 && size + 1 < capacity;) {
        at -= 3;
        memmove(text + at + 1, text + at, size - at + 1);
        text[at] = separator;
        size++;
    }
}

static jinja_string *int_text(jinja_render *r, int64_t i, const format_spec *spec)
{
    char digits[80], text[128];
    uint64_t magnitude = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
    char type = spec->type;
    const char *prefix = "";
    size_t at = sizeof digits;
    unsigned base = type == 'x' || type == 'X' ? 16 : type == 'o' ? 8 : type == 'b' ? 2 : 10;
    digits[--at] = 0;
    do {
        digits[--at] = (type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef")[magnitude % base];
        magnitude /= base;
    } while (magnitude);
    for (int64_t size = (int64_t)(sizeof digits - 1 - at); size < spec->precision && at > 1; size++)
        digits[--at] = '0';
    if (spec->alternate)
        prefix = type == 'x' ? "0x" : type == 'X' ? "0X" : type == 'o' ? "0o" : type == 'b' ? "0b" : "";
    snprintf(text, sizeof text, "%s%s%s",
             i < 0               ? "-"
             : spec->sign == '+' ? "+"
             : spec->sign == ' ' ? " "
                                 : "",
             prefix, digits + at);
    if (spec->group && base == 10)
        group_digits(text, sizeof text, spec->group);
    return jinja_string_copy(r, text);
}

static jinja_string *float_text(jinja_render *r, double d, const format_spec *spec)
{
    char text[900], format[16];
    const char *sign = spec->sign == '+' && !signbit(d) ? "+" : spec->sign == ' ' && !signbit(d) ? " " : "";
    char type = spec->type == '%' ? 'f' : spec->type == 'F' ? 'f' : spec->type;
    int precision = spec->precision < 0 ? 6 : (int)spec->precision;
    if (spec->type == '%')
        d *= 100;
    snprintf(text, sizeof text, "%s", sign);
    size_t at = strlen(text);
    if (type == 0 && spec->precision < 0) {
        jinja_float_text(d, text + at);
    } else {
        snprintf(format, sizeof format, "%%%s.*%c", spec->alternate ? "#" : "", type ? type : 'g');
        snprintf(text + at, sizeof text - at - 2, format, precision, d);
    }
    if (spec->group)
        group_digits(text, sizeof text - 2, spec->group);
    if (spec->type == '%')
        memcpy(text + strlen(text), "%", 2); /* the room was kept */
    return jinja_string_copy(r, text);
}

static bool is_float_type(char type)
{
    return type && strchr("eEfFgG%", type);
}

/* A number in the form that the spec asks for; NULL when the value is no number or the type is not one of numbers. */
static jinja_string *number_text(jinja_render *r, jinja_value v, const format_spec *spec)
{
    int64_t i;
    double d;
    if (!jinja_number(v, &d))
        return NULL;
    if (v.type == V_BIG && (!spec->type || spec->type == 'd'))
        return v.string;
    if (is_float_type(spec->type) || (v.type == V_FLOAT && !spec->type))
        return float_text(r, d, spec);
    if (jinja_integer(v, &i) && (!spec->type || strchr("dxXob", spec->type)))
        return int_text(r, i, spec);
    return NULL;
}

static jinja_string *repr_of(jinja_render *r, jinja_value v)
{
    jinja_builder b;
    jinja_build(&b, r);
    jinja_put_repr(&b, v, 0);
    return jinja_built(&b);
}

static jinja_string *cut(jinja_render *r, jinja_string *s, int64_t precision)
{
    if (precision < 0 || (size_t)precision >= jinja_string_chars(s))
        return s;
    return jinja_string_sub(&r->arena, s, 0, jinja_string_offset(s, (size_t)precision));
}

/* ---- % ---- */

typedef struct {
    jinja_render *r;
    jinja_string *format;
    jinja_value args;
    size_t at, next; /* in the format; the next positional argument */
    bool by_name;
} percent_state;

static char percent_peek(const percent_state *p)
{
    if (p->at >= p->format->text.size)
        jinja_fail(p->r, "incomplete format");
    return p->format->text.data[p->at];
}

static jinja_value percent_argument(percent_state *p)
{
    bool is_tuple = p->args.type == V_LIST && p->args.list->kind == LIST_TUPLE;
    size_t count = is_tuple ? p->args.list->count : 1;
    if (p->next >= count)
        jinja_fail(p->r, "not enough arguments for format string");
    size_t i = p->next++;
    return is_tuple ? p->args.list->items[i] : p->args;
}

static jinja_value percent_named(percent_state *p)
{
    size_t start = ++p->at;
    while (percent_peek(p) != ')')
        p->at++;
    span key = span_of(p->format->text.data + start, p->at - start);
    p->at++;
    if (p->args.type != V_DICT)
        jinja_fail(p->r, "format requires a mapping");
    jinja_value *found = jinja_dict_find(p->r, p->args.dict, key);
    if (!found)
        jinja_fail(p->r, "format: no key '%.*s'", key.size > 60 ? 60 : (int)key.size, key.data);
    p->by_name = true;
    return *found;
}

static int64_t percent_number(percent_state *p, int64_t most)
{
    int64_t number = 0;
    if (percent_peek(p) == '*') {
        p->at++;
        number = jinja_arg_int(p->r, percent_argument(p), 0, "* of a format");
    }
    while (percent_peek(p) >= '0' && percent_peek(p) <= '9' && number <= most)
        number = number * 10 + (p->format->text.data[p->at++] - '0');
    if (number > most || number < -most)
        jinja_fail(p->r, "format: width or precision over %" PRId64, most);
    return number;
}

static void percent_value(percent_state *p, jinja_builder *b, jinja_value v, format_spec *spec)
{
    jinja_string *text;
    int64_t i;
    char type = spec->type;
    if (type == 's' || type == 'r' || type == 'a') {
        text = type == 's' ? jinja_to_string(p->r, v) : repr_of(p->r, v);
        text = cut(p->r, p->format->markup ? jinja_escape(p->r, jinja_of_string(text)) : text, spec->precision);
    } else if (type == 'c') {
        jinja_builder c;
        jinja_build(&c, p->r);
        if (v.type == V_STRING && jinja_string_chars(v.string) == 1)
            jinja_put_string(&c, v.string);
        else if (jinja_integer(v, &i) && i >= 0 && i <= 0x10ffff)
            jinja_put_code(&c, (int32_t)i, false);
        else
            jinja_fail(p->r, "%%c requires int or char");
        text = jinja_built(&c);
    } else {
        if (strchr("iud", type) && v.type == V_FLOAT && fabs(v.real) < 9e18)
            v = jinja_int((int64_t)v.real);
        if (type == 'i' || type == 'u')
            spec->type = 'd';
        text = number_text(p->r, v, spec);
        if (!text)
            jinja_fail(p->r, "%%%c format: a number is required, not %s", type, jinja_type_name(v));
        if (spec->zero && spec->align != '<') {
            spec->fill = '0';
            spec->align = '=';
        }
    }
    put_field(b, text, spec, spec->align ? spec->align : '>');
}

static void percent_one(percent_state *p, jinja_builder *b)
{
    format_spec spec = {.fill = ' ', .precision = -1};
    jinja_value named = {.type = V_MISSING};
    p->at++;
    if (percent_peek(p) == '(')
        named = percent_named(p);
    for (; strchr("-+ 0#", percent_peek(p)) && percent_peek(p); p->at++) {
        char c = percent_peek(p);
        if (c == '-')
            spec.align = '<';
        else if (c == '+' || (c == ' ' && !spec.sign))
            spec.sign = c;
        spec.zero |= c == '0';
        spec.alternate |= c == '#';
    }
    spec.width = percent_number(p, WIDTH_MAX);
    if (spec.width < 0) {
        spec.align = '<';
        spec.width = -spec.width;
    }
    if (percent_peek(p) == '.') {
        p->at++;
        spec.precision = percent_number(p, PRECISION_MAX);
    }
    while (strchr("hlL", percent_peek(p)) && percent_peek(p))
        p->at++;
    spec.type = percent_peek(p);
    p->at++;
    if (spec.type == '%') {
        jinja_put_part(b, p->format, p->at - 1, 1);
        return;
    }
    if (!spec.type || !strchr("srcdiuoxXeEfFgGa", spec.type))
        jinja_fail(p->r, "unsupported format character (0x%02x)", (unsigned char)spec.type);
    percent_value(p, b, jinja_given(named) ? named : percent_argument(p), &spec);
}

jinja_string *jinja_percent(jinja_render *r, jinja_string *format, jinja_value args)
{
    percent_state p = {.r = r, .format = format, .args = args};
    jinja_builder b;
    jinja_build(&b, r);
    while (p.at < format->text.size) {
        size_t found = jinja_search(format->text, span_from("%"), p.at);
        size_t end = found == SIZE_MAX ? format->text.size : found;
        jinja_put_part(&b, format, p.at, end - p.at);
        p.at = end;
        jinja_charge(r, 1);
        if (p.at < format->text.size)
            percent_one(&p, &b);
    }
    bool is_tuple = args.type == V_LIST && args.list->kind == LIST_TUPLE;
    size_t count = is_tuple ? args.list->count : 1;
    bool lenient = p.by_name || args.type == V_DICT || (args.type == V_LIST && !is_tuple);
    if (p.next < count && !lenient)
        jinja_fail(r, "not all arguments converted during string formatting");
    b.markup = format->markup;
    return jinja_built(&b);
}

/* ---- {} ---- */

typedef struct {
    jinja_render *r;
    const jinja_args *args;
    uint32_t next; /* the next automatic number */
    bool automatic, manual;
} brace_state;

static jinja_value brace_lookup(brace_state *f, span name)
{
    int64_t number = 0;
    bool digits = name.size > 0;
    for (size_t i = 0; i < name.size; i++)
        digits = digits && name.data[i] >= '0' && name.data[i] <= '9';
    if (!name.size || digits) {
        if (digits && !jinja_parse_int(name, 10, &number))
            jinja_fail(f->r, "format: index out of range");
        f->automatic |= !digits;
        f->manual |= digits;
        if (f->automatic && f->manual)
            jinja_fail(f->r, "cannot mix manual and automatic field numbering");
        if (!digits)
            number = f->next++;
        if (number >= f->args->count)
            jinja_fail(f->r, "Replacement index %" PRId64 " out of range for positional args tuple", number);
        return f->args->values[number];
    }
    for (uint32_t i = 0; i < f->args->named_count; i++)
        if (span_equal(f->args->names[i]->text, name))
            return f->args->named[i];
    jinja_fail(f->r, "format: no argument '%.*s'", name.size > 60 ? 60 : (int)name.size, name.data);
}

/* "0.name[key]" */
static jinja_value brace_field(brace_state *f, span field)
{
    size_t at = 0;
    while (at < field.size && field.data[at] != '.' && field.data[at] != '[')
        at++;
    jinja_value v = brace_lookup(f, span_of(field.data, at));
    while (at < field.size) {
        char open = field.data[at++];
        size_t start = at;
        while (at < field.size &&
               (open == '[' ? field.data[at] != ']' : field.data[at] != '.' && field.data[at] != '['))
            at++;
        jinja_value key =
            jinja_of_string(jinja_string_borrow(&f->r->arena, span_of(field.data + start, at - start), false));
        if (open == '[') {
            int64_t number;
            if (at >= field.size)
                jinja_fail(f->r, "format: expected ']'");
            at++;
            if (jinja_parse_int(key.string->text, 10, &number))
                key = jinja_int(number);
        }
        v = jinja_get_item(f->r, v, key);
    }
    return v;
}

static int64_t spec_number(jinja_render *r, span text, size_t *at, int64_t most)
{
    int64_t number = 0;
    while (*at < text.size && text.data[*at] >= '0' && text.data[*at] <= '9') {
        number = number * 10 + (text.data[(*at)++] - '0');
        if (number > most)
            jinja_fail(r, "format: width or precision over %" PRId64, most);
    }
    return number;
}

static bool is_align(char c)
{
    return c == '<' || c == '>' || c == '^' || c == '=';
}

static format_spec parse_spec(jinja_render *r, span text)
{
    format_spec spec = {.fill = ' ', .precision = -1};
    size_t at = 0, used = 1;
    if (text.size > 1)
        jinja_decode(text.data, text.size, &used);
    if (text.size > used && is_align(text.data[used])) {
        spec.fill = jinja_decode(text.data, text.size, &used);
        spec.align = text.data[used];
        at = used + 1;
    } else if (text.size && is_align(text.data[0])) {
        spec.align = text.data[at++];
    }
    if (at < text.size && (text.data[at] == '+' || text.data[at] == '-' || text.data[at] == ' '))
        spec.sign = text.data[at++];
    if (spec.sign == '-')
        spec.sign = 0;
    if (at < text.size && text.data[at] == '#') {
        spec.alternate = true;
        at++;
    }
    if (at < text.size && text.data[at] == '0') {
        spec.zero = true;
        at++;
    }
    spec.width = spec_number(r, text, &at, WIDTH_MAX);
    if (at < text.size && (text.data[at] == ',' || text.data[at] == '_'))
        spec.group = text.data[at++];
    if (at < text.size && text.data[at] == '.') {
        at++;
        spec.precision = spec_number(r, text, &at, PRECISION_MAX);
    }
    if (at < text.size)
        spec.type = text.data[at++];
    if (at < text.size || (spec.type && !strchr("sdxXobeEfFgG%cn", spec.type)))
        jinja_fail(r, "Invalid format specifier '%.*s'", text.size > 40 ? 40 : (int)text.size, text.data);
    if (spec.zero && !spec.align) {
        spec.fill = '0';
        spec.align = '=';
    }
    return spec;
}

static void brace_put(brace_state *f, jinja_builder *b, jinja_value v, char conversion, span spec_text)
{
    jinja_render *r = f->r;
    format_spec spec = parse_spec(r, spec_text);
    if (conversion == 'r' || conversion == 'a')
        v = jinja_of_string(repr_of(r, v));
    else if (conversion == 's')
        v = jinja_of_string(jinja_to_string(r, v));
    else if (conversion)
        jinja_fail(r, "format: unknown conversion");
    if (!spec_text.size) {
        jinja_put_value(b, b->markup ? jinja_of_string(jinja_escape(r, v)) : v);
        return;
    }
    if (v.type == V_BOOL && !spec.type)
        v = jinja_of_string(jinja_to_string(r, v));
    jinja_string *text = number_text(r, v, &spec);
    if (text) {
        put_field(b, text, &spec, spec.align ? spec.align : '>');
        return;
    }
    if (v.type != V_STRING || (spec.type && spec.type != 's'))
        jinja_fail(r, "unsupported format string passed to %s", jinja_type_name(v));
    text = cut(r, b->markup ? jinja_escape(r, v) : v.string, spec.precision);
    put_field(b, text, &spec, spec.align && spec.align != '=' ? spec.align : '<');
}

/* The text between braces: field, "!conversion", ":spec". */
static void brace_one(brace_state *f, jinja_builder *b, span body)
{
    size_t at = 0;
    while (at < body.size && body.data[at] != '!' && body.data[at] != ':') {
        if (body.data[at] == '[')
            while (at < body.size && body.data[at] != ']')
                at++;
        at += at < body.size;
    }
    span field = span_of(body.data, at), spec = {"", 0};
    char conversion = 0;
    if (at + 1 < body.size && body.data[at] == '!') {
        conversion = body.data[at + 1];
        at += 2;
    }
    if (at < body.size && body.data[at] == ':')
        spec = span_of(body.data + at + 1, body.size - at - 1);
    else if (at < body.size)
        jinja_fail(f->r, "format: expected ':' after conversion specifier");
    brace_put(f, b, brace_field(f, field), conversion, spec);
}

jinja_string *jinja_brace_format(jinja_render *r, jinja_string *format, const jinja_args *args)
{
    brace_state f = {.r = r, .args = args};
    jinja_builder b;
    jinja_build(&b, r);
    b.markup = format->markup;
    span text = format->text;
    for (size_t at = 0; at < text.size;) {
        size_t start = at;
        while (at < text.size && text.data[at] != '{' && text.data[at] != '}')
            at++;
        jinja_put_part(&b, format, start, at - start);
        if (at == text.size)
            break;
        jinja_charge(r, 1);
        if (at + 1 < text.size && text.data[at + 1] == text.data[at]) { /* {{ or }} */
            jinja_put_part(&b, format, at, 1);
            at += 2;
            continue;
        }
        size_t end = text.data[at] == '{' ? jinja_search(text, span_from("}"), at) : SIZE_MAX;
        if (end == SIZE_MAX)
            jinja_fail(r, "format: single '%c' encountered in format string", text.data[at]);
        span body = span_of(text.data + at + 1, end - at - 1);
        if (jinja_search(body, span_from("{"), 0) != SIZE_MAX)
            jinja_fail(r, "format: nested fields are not supported");
        brace_one(&f, &b, body);
        at = end + 1;
    }
    return jinja_built(&b);
}
