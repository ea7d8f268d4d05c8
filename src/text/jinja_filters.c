/* text/jinja_filters.c: filters on text and single values. */
#include <math.h>
#include <stdio.h>

#include "text/jinja_eval.h"
#include "text/jinja_unicode.h"

#define FILTER(name) static jinja_value name(jinja_render *r, jinja_value v, jinja_value *a, const jinja_args *args)

static jinja_value method(jinja_render *r, jinja_value v, const char *name, const jinja_args *args)
{
    jinja_value text = jinja_of_string(jinja_to_string(r, v));
    return jinja_native_call(r, jinja_find_in(jinja_string_methods, jinja_string_method_count, span_from(name)), text,
                             args);
}

static jinja_value change(jinja_render *r, jinja_value v, int how)
{
    return jinja_of_string(jinja_change_string(r, jinja_to_string(r, v), how));
}

FILTER(upper)
{
    (void)a, (void)args;
    return change(r, v, CHANGE_UPPER);
}

FILTER(lower)
{
    (void)a, (void)args;
    return change(r, v, CHANGE_LOWER);
}

FILTER(title)
{
    (void)a, (void)args;
    return change(r, v, CHANGE_FILTER_TITLE);
}

FILTER(capitalize)
{
    (void)a, (void)args;
    return change(r, v, CHANGE_CAPITALIZE);
}

FILTER(trim)
{
    (void)a;
    return method(r, v, "strip", args);
}

FILTER(center)
{
    jinja_args width = {.values = a, .count = 1};
    (void)args;
    if (!jinja_given(a[0]))
        a[0] = jinja_int(80);
    return method(r, v, "center", &width);
}

FILTER(string)
{
    (void)a, (void)args;
    return jinja_of_string(jinja_to_string(r, v));
}

FILTER(safe)
{
    (void)a, (void)args;
    return jinja_of_string(jinja_as_markup(r, jinja_to_string(r, v)));
}

FILTER(escape)
{
    (void)a, (void)args;
    return jinja_of_string(jinja_escape(r, v));
}

FILTER(forceescape)
{
    (void)a, (void)args;
    jinja_string *plain = jinja_as_markup(r, jinja_to_string(r, v));
    plain->markup = false;
    return jinja_of_string(jinja_escape(r, jinja_of_string(plain)));
}

FILTER(replace)
{
    (void)args;
    jinja_string *s = jinja_to_string(r, v);
    if (s->markup) { /* str(s): the filter leaves Markup behind */
        s = jinja_as_markup(r, s);
        s->markup = false;
    }
    int64_t count = jinja_given(a[2]) && a[2].type != V_NONE ? jinja_arg_int(r, a[2], -1, "count") : -1;
    return jinja_of_string(jinja_replace(r, s, jinja_to_string(r, a[0]), jinja_to_string(r, a[1]), count));
}

FILTER(format)
{
    (void)a;
    if (args->count && args->named_count)
        jinja_fail(r, "can't handle positional and keyword arguments at the same time");
    jinja_value values;
    if (args->named_count) {
        jinja_dict *named = jinja_dict_new(r, args->named_count);
        for (uint32_t i = 0; i < args->named_count; i++)
            jinja_dict_put(r, named, jinja_of_string(jinja_string_borrow(&r->arena, args->names[i]->text, false)),
                           args->named[i]);
        values = jinja_of_dict(named);
    } else {
        jinja_list *tuple = jinja_list_new(r, LIST_TUPLE, args->count);
        for (uint32_t i = 0; i < args->count; i++)
            jinja_list_push(r, tuple, args->values[i]);
        values = jinja_of_list(tuple);
    }
    return jinja_of_string(jinja_percent(r, jinja_to_string(r, v), values));
}

FILTER(default_value)
{
    (void)args;
    bool missing = v.type == V_UNDEFINED || (jinja_arg_bool(r, a[1], false) && !jinja_truth(r, v));
    if (!missing)
        return v;
    return jinja_given(a[0]) ? a[0] : jinja_of_string(jinja_string_borrow(&r->arena, span_of("", 0), true));
}

/* indent(width=4, first=False, blank=False): each line behind the first gets the blanks in front. */
FILTER(indent)
{
    (void)args;
    jinja_string *s = jinja_arg_str(r, v, "text to indent");
    jinja_string *blanks;
    if (jinja_given(a[0]) && a[0].type == V_STRING)
        blanks = a[0].string;
    else
        blanks =
            jinja_repeat(r, jinja_string_borrow(&r->arena, span_of(" ", 1), true), jinja_arg_int(r, a[0], 4, "width"));
    bool first = jinja_arg_bool(r, a[1], false), blank = jinja_arg_bool(r, a[2], false);
    jinja_builder b;
    jinja_build(&b, r);
    if (first)
        jinja_put_string(&b, blanks);
    size_t at = 0;
    for (;;) {
        size_t end = jinja_search(s->text, span_from("\n"), at);
        size_t stop = end == SIZE_MAX ? s->text.size : end;
        if (at > 0 && (blank || stop > at))
            jinja_put_string(&b, blanks);
        jinja_charge(r, 1);
        jinja_put_part(&b, s, at, stop - at);
        if (end == SIZE_MAX)
            break;
        jinja_put_part(&b, s, end, 1);
        at = end + 1;
    }
    b.markup = s->markup;
    return jinja_of_string(jinja_built(&b));
}

FILTER(truncate)
{
    (void)args;
    jinja_string *s = jinja_arg_str(r, v, "text to truncate");
    int64_t length = jinja_arg_int(r, a[0], 255, "length"), leeway = jinja_arg_int(r, a[3], 5, "leeway");
    jinja_string *end =
        jinja_given(a[2]) ? jinja_to_string(r, a[2]) : jinja_string_borrow(&r->arena, span_of("...", 3), true);
    int64_t end_chars = (int64_t)jinja_string_chars(end);
    if (length < end_chars)
        jinja_fail(r, "truncate: expected length >= %lld, got %lld", (long long)end_chars, (long long)length);
    if (leeway < 0)
        jinja_fail(r, "truncate: expected leeway >= 0");
    if ((int64_t)jinja_string_chars(s) - leeway <= length)
        return jinja_of_string(s);
    size_t keep = jinja_string_offset(s, (size_t)(length - end_chars));
    if (!jinja_arg_bool(r, a[1], false)) { /* back to the last blank, if there is one */
        size_t word = keep;
        while (word > 0 && s->text.data[word - 1] != ' ')
            word--;
        keep = word ? word - 1 : keep;
    }
    jinja_builder b;
    jinja_build(&b, r);
    jinja_put_part(&b, s, 0, keep);
    jinja_put_string(&b, end);
    return jinja_of_string(jinja_built(&b));
}

FILTER(wordcount)
{
    (void)a, (void)args;
    span text = jinja_to_string(r, v)->text;
    int64_t count = 0;
    bool inside = false;
    size_t used;
    jinja_charge(r, text.size / 4);
    for (size_t i = 0; i < text.size; i += used) {
        int32_t code = jinja_decode(text.data + i, text.size - i, &used);
        bool word = jinja_is_alpha(code) || jinja_is_numeric(code) || code == '_';
        count += word && !inside;
        inside = word;
    }
    return jinja_int(count);
}

/* Bytes that urllib.parse.quote leaves alone, and '/' outside query strings. */
static void put_quoted(jinja_builder *b, const jinja_string *s, bool query)
{
    char escape[8];
    for (size_t i = 0; i < s->text.size; i++) {
        unsigned char c = (unsigned char)s->text.data[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
                     c == '.' || c == '-' || c == '~' || (c == '/' && !query);
        bool trusted = jinja_trusted_at(s, i, NULL);
        if (plain || (query && c == ' ')) {
            jinja_put(b, plain ? (const char *)&c : "+", 1, trusted);
            continue;
        }
        snprintf(escape, sizeof escape, "%%%02X", c);
        jinja_put_text(b, escape, trusted);
    }
    jinja_charge(b->render, s->text.size / 8);
}

FILTER(urlencode)
{
    (void)a, (void)args;
    jinja_builder b;
    jinja_build(&b, r);
    bool pairs = v.type == V_DICT || v.type == V_LIST;
    if (!pairs) {
        put_quoted(&b, jinja_to_string(r, v), false);
        return jinja_of_string(jinja_built(&b));
    }
    jinja_value items = v;
    if (v.type == V_DICT) {
        jinja_args none = {0};
        jinja_method(r, v, span_from("items"), &items);
        items = jinja_call(r, items, &none);
    }
    jinja_list *list = jinja_iterate(r, items);
    for (size_t i = 0; i < list->count; i++) {
        jinja_list *pair = jinja_iterate(r, list->items[i]);
        if (pair->count != 2)
            jinja_fail(r, "urlencode wants pairs");
        if (i)
            jinja_put_text(&b, "&", true);
        put_quoted(&b, jinja_to_string(r, pair->items[0]), true);
        jinja_put_text(&b, "=", true);
        put_quoted(&b, jinja_to_string(r, pair->items[1]), true);
    }
    return jinja_of_string(jinja_built(&b));
}

/* ---- JSON ---- */

FILTER(tojson)
{
    (void)args;
    jinja_json_style style = {.ascii = jinja_arg_bool(r, a[0], false), .indent = -1};
    style.sort_keys = jinja_arg_bool(r, a[3], false);
    if (jinja_given(a[1]) && a[1].type != V_NONE) {
        style.indent = 1;
        if (a[1].type == V_STRING) {
            style.indent_text = a[1].string->text;
        } else {
            int64_t width = jinja_arg_int(r, a[1], 0, "indent");
            style.indent_text = jinja_repeat(r, jinja_string_copy(r, " "), width > 1000 ? 1000 : width)->text;
        }
    }
    style.item_separator = span_from(style.indent >= 0 ? "," : ", ");
    style.key_separator = span_from(": ");
    if (jinja_given(a[2]) && a[2].type != V_NONE) {
        jinja_list *pair = jinja_iterate(r, a[2]);
        if (pair->count != 2)
            jinja_fail(r, "separators must be a pair of texts");
        style.item_separator = jinja_arg_str(r, pair->items[0], "separator")->text;
        style.key_separator = jinja_arg_str(r, pair->items[1], "separator")->text;
    }
    return jinja_of_string(jinja_to_json(r, v, &style));
}

FILTER(pprint)
{
    (void)a, (void)args;
    jinja_builder b;
    jinja_build(&b, r);
    jinja_put_repr(&b, v, 0);
    return jinja_of_string(jinja_built(&b));
}

/* ---- numbers ---- */

FILTER(to_int)
{
    (void)args;
    int64_t i;
    double d;
    jinja_value otherwise = jinja_given(a[0]) ? a[0] : jinja_int(0);
    int64_t base = jinja_arg_int(r, a[1], 10, "base");
    if (v.type == V_STRING) {
        if (jinja_parse_int(v.string->text, (int)base, &i))
            return jinja_int(i);
        if (!jinja_parse_float(v.string->text, &d))
            return otherwise;
    } else if (jinja_integer(v, &i)) {
        return jinja_int(i);
    } else if (v.type == V_BIG) {
        return v;
    } else if (v.type == V_UNDEFINED) {
        jinja_undefined_error(r, v);
    } else if (!jinja_number(v, &d)) {
        return otherwise;
    }
    return fabs(d) < 9.2e18 ? jinja_int((int64_t)d) : otherwise;
}

FILTER(to_float)
{
    (void)args;
    double d;
    if (v.type == V_UNDEFINED)
        jinja_undefined_error(r, v);
    if (jinja_number(v, &d) || (v.type == V_STRING && jinja_parse_float(v.string->text, &d)))
        return jinja_float(d);
    return jinja_given(a[0]) ? a[0] : jinja_float(0.0);
}

FILTER(absolute)
{
    (void)a, (void)args;
    int64_t i;
    if (v.type == V_FLOAT)
        return jinja_float(fabs(v.real));
    if (v.type == V_UNDEFINED)
        jinja_undefined_error(r, v);
    if (!jinja_integer(v, &i) || i == INT64_MIN)
        jinja_fail(r, "bad operand type for abs(): '%s'", jinja_type_name(v));
    return jinja_int(i < 0 ? -i : i);
}

FILTER(round_number)
{
    (void)args;
    double d;
    int64_t precision = jinja_arg_int(r, a[0], 0, "precision");
    span how = jinja_given(a[1]) ? jinja_arg_str(r, a[1], "method")->text : span_from("common");
    if (v.type == V_UNDEFINED)
        jinja_undefined_error(r, v);
    if (!jinja_number(v, &d))
        jinja_fail(r, "type %s doesn't define __round__ method", jinja_type_name(v));
    if (precision > 300 || precision < -300)
        jinja_fail(r, "round: precision out of range");
    bool up = span_is(how, "ceil"), down = span_is(how, "floor");
    if (!up && !down && !span_is(how, "common"))
        jinja_fail(r, "method must be common, ceil or floor");
    if (up || down) {
        double scale = pow(10, (double)precision);
        return jinja_float((up ? ceil(d * scale) : floor(d * scale)) / scale);
    }
    if (v.type != V_FLOAT && precision >= 0)
        return v.type == V_BOOL ? jinja_int(v.boolean) : v;
    if (precision < 0) {
        double scale = pow(10, (double)-precision);
        double rounded = nearbyint(d / scale) * scale;
        return v.type == V_FLOAT ? jinja_float(rounded) : jinja_int((int64_t)rounded);
    }
    char text[700]; /* correctly rounded, as Python does it */
    snprintf(text, sizeof text, "%.*f", (int)precision, d);
    jinja_parse_float(span_from(text), &d);
    return jinja_float(d);
}

FILTER(filesizeformat)
{
    (void)args;
    static const char *const units[] = {"k", "M", "G", "T", "P", "E", "Z", "Y"};
    bool binary = jinja_arg_bool(r, a[0], false);
    double bytes, base = binary ? 1024 : 1000;
    if (!jinja_number(v, &bytes) && !(v.type == V_STRING && jinja_parse_float(v.string->text, &bytes)))
        jinja_fail(r, "filesizeformat wants a number, not '%s'", jinja_type_name(v));
    if (bytes == 1)
        return jinja_of_string(jinja_string_copy(r, "1 Byte"));
    if (bytes < base)
        return jinja_of_string(jinja_string_copy(r, jinja_text(r, "%.0f Bytes", trunc(bytes))));
    size_t unit = 0;
    for (bytes /= base; bytes >= base && unit < 7; unit++)
        bytes /= base;
    char name[8];
    snprintf(name, sizeof name, binary ? "%ciB" : "%cB", binary && unit == 0 ? 'K' : units[unit][0]);
    return jinja_of_string(jinja_string_copy(r, jinja_text(r, "%.1f %s", bytes, name)));
}

FILTER(attr)
{
    (void)args;
    const jinja_string *name = jinja_arg_str(r, a[0], "attribute name");
    jinja_value out;
    if (v.type == V_UNDEFINED)
        jinja_undefined_error(r, v);
    if (jinja_method(r, v, name->text, &out))
        return out;
    return jinja_undefined(r, "'%s object' has no attribute '%.*s'", jinja_type_name(v),
                           name->text.size > 80 ? 80 : (int)name->text.size, name->text.data);
}

const jinja_function jinja_text_filters[] = {
    {"tojson", tojson, "ensure_ascii,indent,separators,sort_keys", 0, {0}},
    {"trim", trim, "*", 0, {0}},
    {"string", string, "", 0, {0}},
    {"default", default_value, "default_value,boolean", 0, {0}},
    {"d", default_value, "default_value,boolean", 0, {0}},
    {"safe", safe, "", 0, {0}},
    {"upper", upper, "", 0, {0}},
    {"lower", lower, "", 0, {0}},
    {"title", title, "", 0, {0}},
    {"capitalize", capitalize, "", 0, {0}},
    {"center", center, "width", 0, {0}},
    {"replace", replace, "old,new,count", 2, {0}},
    {"indent", indent, "width,first,blank", 0, {0}},
    {"escape", escape, "", 0, {0}},
    {"e", escape, "", 0, {0}},
    {"forceescape", forceescape, "", 0, {0}},
    {"format", format, "*", 0, {0}},
    {"truncate", truncate, "length,killwords,end,leeway", 0, {0}},
    {"wordcount", wordcount, "", 0, {0}},
    {"urlencode", urlencode, "", 0, {0}},
    {"pprint", pprint, "", 0, {0}},
    {"int", to_int, "default,base", 0, {0}},
    {"float", to_float, "default", 0, {0}},
    {"abs", absolute, "", 0, {0}},
    {"round", round_number, "precision,method", 0, {0}},
    {"filesizeformat", filesizeformat, "binary", 0, {0}},
    {"attr", attr, "name", 1, {0}},
};
const size_t jinja_text_filter_count = sizeof jinja_text_filters / sizeof *jinja_text_filters;
