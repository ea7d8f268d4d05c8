/* text/jinja_format.c: values as text: Python's str() and repr(), and json.dumps(). */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "text/jinja_eval.h"
#include "text/jinja_unicode.h"

/* The shortest digits that read back as the same number, in the form of Python's repr(float). */
size_t jinja_float_text(double d, char out[40])
{
    if (isnan(d) || isinf(d))
        return (size_t)snprintf(out, 40, "%s", isnan(d) ? "nan" : d < 0 ? "-inf" : "inf");
    char digits[40];
    for (int precision = 0; precision < 17; precision++) {
        snprintf(digits, sizeof digits, "%.*e", precision, d);
        if (strtod(digits, NULL) == d)
            break;
    }
    char *exponent_text = strchr(digits, 'e');
    int exponent = (int)strtol(exponent_text + 1, NULL, 10);
    if (exponent < -4 || exponent >= 16) {
        *exponent_text = 0;
        return (size_t)snprintf(out, 40, "%se%c%02d", digits, exponent < 0 ? '-' : '+', abs(exponent));
    }
    int decimals = (int)(exponent_text - digits) - (digits[0] == '-') - 2; /* digits behind the point */
    decimals = decimals < 0 ? 0 : decimals;
    decimals -= exponent;
    return (size_t)snprintf(out, 40, "%.*f", decimals < 1 ? 1 : decimals, d);
}

static void put_repr_string(jinja_builder *b, const jinja_string *s)
{
    jinja_charge(b->render, s->text.size / 4);
    bool single = memchr(s->text.data ? s->text.data : "", '\'', s->text.size) != NULL;
    bool twice = memchr(s->text.data ? s->text.data : "", '"', s->text.size) != NULL;
    char quote = single && !twice ? '"' : '\'', escape[16];
    if (s->markup)
        jinja_put_text(b, "Markup(", false);
    jinja_put(b, &quote, 1, false);
    size_t used;
    for (size_t i = 0; i < s->text.size; i += used) {
        int32_t code = jinja_decode(s->text.data + i, s->text.size - i, &used);
        if (code == quote || code == '\\')
            snprintf(escape, sizeof escape, "\\%c", (char)code);
        else if (code == '\n' || code == '\r' || code == '\t')
            snprintf(escape, sizeof escape, "\\%c", code == '\n' ? 'n' : code == '\r' ? 'r' : 't');
        else if (jinja_is_printable(code)) {
            jinja_put(b, s->text.data + i, used, false);
            continue;
        } else
            snprintf(escape, sizeof escape,
                     code < 0x100     ? "\\x%02x"
                     : code < 0x10000 ? "\\u%04x"
                                      : "\\U%08x",
                     (unsigned)code);
        jinja_put_text(b, escape, false);
    }
    jinja_put(b, &quote, 1, false);
    if (s->markup)
        jinja_put_text(b, ")", false);
}

static void put_items(jinja_builder *b, const jinja_list *l, const char *open, const char *close, int depth)
{
    jinja_put_text(b, open, false);
    for (size_t i = 0; i < l->count; i++) {
        if (i)
            jinja_put_text(b, ", ", false);
        jinja_put_repr(b, l->items[i], depth + 1);
    }
    if (l->kind == LIST_TUPLE && l->count == 1)
        jinja_put_text(b, ",", false);
    jinja_put_text(b, close, false);
}

static void put_list(jinja_builder *b, const jinja_list *l, int depth)
{
    static const char *const open[] = {"[", "(", "", "", "dict_keys([", "dict_values([", "dict_items(["};
    static const char *const close[] = {"]", ")", "", "", "])", "])", "])"};
    if (l->kind == LIST_GENERATOR)
        jinja_put_text(b, "<generator object>", false);
    else if (l->kind != LIST_RANGE)
        put_items(b, l, open[l->kind], close[l->kind], depth);
    else
        jinja_put_text(b,
                       l->step == 1 ? jinja_text(b->render, "range(%" PRId64 ", %" PRId64 ")", l->start, l->stop)
                                    : jinja_text(b->render, "range(%" PRId64 ", %" PRId64 ", %" PRId64 ")", l->start,
                                                 l->stop, l->step),
                       false);
}

static void put_dict(jinja_builder *b, const jinja_dict *d, int depth)
{
    bool first = true;
    jinja_put_text(b, "{", false);
    for (size_t i = 0; i < d->count; i++) {
        if (d->entries[i].gone)
            continue;
        if (!first)
            jinja_put_text(b, ", ", false);
        first = false;
        jinja_put_repr(b, d->entries[i].key, depth + 1);
        jinja_put_text(b, ": ", false);
        jinja_put_repr(b, d->entries[i].value, depth + 1);
    }
    jinja_put_text(b, "}", false);
}

static void put_scalar(jinja_builder *b, jinja_value v)
{
    char text[64];
    switch (v.type) {
    case V_NONE:
        jinja_put_text(b, "None", false);
        break;
    case V_BOOL:
        jinja_put_text(b, v.boolean ? "True" : "False", false);
        break;
    case V_INT:
        snprintf(text, sizeof text, "%" PRId64, v.integer);
        jinja_put_text(b, text, false);
        break;
    case V_BIG:
        jinja_put(b, v.string->text.data, v.string->text.size, false);
        break;
    case V_FLOAT:
        jinja_put(b, text, jinja_float_text(v.real, text), false);
        break;
    case V_UNDEFINED:
        jinja_put_text(b, "Undefined", false);
        break;
    case V_MACRO:
        jinja_put_text(
            b, v.macro->name ? jinja_text(b->render, "<Macro '%s'>", v.macro->name->text.data) : "<Macro anonymous>",
            false);
        break;
    case V_FUNCTION:
        jinja_put_text(b, jinja_text(b->render, "<function %s>", v.function->name), false);
        break;
    case V_LOOP:
        snprintf(text, sizeof text, "<LoopContext %zu/%zu>", v.loop->index + 1, v.loop->list->count);
        jinja_put_text(b, text, false);
        break;
    default:
        jinja_put_text(b, "<object>", false);
        break;
    }
}

void jinja_put_repr(jinja_builder *b, jinja_value v, int depth)
{
    jinja_charge(b->render, 1);
    jinja_enter_value(b->render);
    if (v.type == V_STRING) {
        put_repr_string(b, v.string);
    } else if (v.type == V_LIST) {
        put_list(b, v.list, depth);
    } else if (v.type == V_DICT) {
        put_dict(b, v.dict, depth);
    } else if (v.type == V_NAMESPACE) {
        jinja_put_text(b, "<Namespace ", false);
        put_dict(b, v.dict, depth);
        jinja_put_text(b, ">", false);
    } else {
        put_scalar(b, v);
    }
    jinja_leave_value(b->render);
}

void jinja_put_value(jinja_builder *b, jinja_value v)
{
    if (v.type == V_STRING)
        jinja_put_string(b, v.string);
    else if (v.type != V_UNDEFINED)
        jinja_put_repr(b, v, 0);
}

jinja_string *jinja_to_string(jinja_render *r, jinja_value v)
{
    if (v.type == V_STRING)
        return v.string;
    jinja_builder b;
    jinja_build(&b, r);
    jinja_put_value(&b, v);
    return jinja_built(&b);
}

/* ---- JSON ---- */

typedef struct {
    jinja_builder out;
    const jinja_json_style *style;
} json_writer;

static void json_text(json_writer *w, span text)
{
    static const char letters[] = "\"\\\n\r\t\b\f", names[] = "\"\\nrtbf";
    char escape[16];
    size_t used, plain = 0;
    jinja_charge(w->out.render, text.size / 16);
    jinja_put_text(&w->out, "\"", false);
    for (size_t i = 0; i < text.size; i += used) {
        int32_t code = jinja_decode(text.data + i, text.size - i, &used);
        const char *letter = code && code < 0x80 ? strchr(letters, code) : NULL;
        if (!letter && code >= 0x20 && (code < 0x7f || !w->style->ascii))
            continue;
        jinja_put(&w->out, text.data + plain, i - plain, false);
        plain = i + used;
        if (letter)
            snprintf(escape, sizeof escape, "\\%c", names[letter - letters]);
        else if (code < 0x10000)
            snprintf(escape, sizeof escape, "\\u%04x", (unsigned)code);
        else
            snprintf(escape, sizeof escape, "\\u%04x\\u%04x", 0xd800 + ((unsigned)(code - 0x10000) >> 10),
                     0xdc00 + ((unsigned)(code - 0x10000) & 0x3ff));
        jinja_put_text(&w->out, escape, false);
    }
    jinja_put(&w->out, text.data + plain, text.size - plain, false);
    jinja_put_text(&w->out, "\"", false);
}

static void json_newline(json_writer *w, int depth)
{
    if (w->style->indent < 0)
        return;
    jinja_put_text(&w->out, "\n", false);
    for (int i = 0; i < depth; i++)
        jinja_put(&w->out, w->style->indent_text.data, w->style->indent_text.size, false);
}

static void json_scalar(json_writer *w, jinja_value v)
{
    if (v.type == V_NONE)
        jinja_put_text(&w->out, "null", false);
    else if (v.type == V_BOOL)
        jinja_put_text(&w->out, v.boolean ? "true" : "false", false);
    else if (v.type == V_FLOAT && (isnan(v.real) || isinf(v.real)))
        jinja_put_text(&w->out, isnan(v.real) ? "NaN" : v.real < 0 ? "-Infinity" : "Infinity", false);
    else if (v.type == V_INT || v.type == V_BIG || v.type == V_FLOAT)
        put_scalar(&w->out, v);
    else
        jinja_fail(w->out.render, "Object of type %s is not JSON serializable", jinja_type_name(v));
}

static void json_value(json_writer *w, jinja_value v, int depth);

static void json_list(json_writer *w, const jinja_list *l, int depth)
{
    if (l->kind > LIST_TUPLE)
        jinja_fail(w->out.render, "Object of type %s is not JSON serializable",
                   jinja_type_name(jinja_of_list((jinja_list *)l)));
    jinja_put_text(&w->out, "[", false);
    for (size_t i = 0; i < l->count; i++) {
        if (i)
            jinja_put(&w->out, w->style->item_separator.data, w->style->item_separator.size, false);
        json_newline(w, depth + 1);
        json_value(w, l->items[i], depth + 1);
    }
    if (l->count)
        json_newline(w, depth);
    jinja_put_text(&w->out, "]", false);
}

static void json_key(json_writer *w, jinja_value key)
{
    if (key.type == V_STRING) {
        json_text(w, key.string->text);
        return;
    }
    if (key.type > V_FLOAT || key.type == V_UNDEFINED)
        jinja_fail(w->out.render, "keys must be str, int, float, bool or None, not %s", jinja_type_name(key));
    jinja_put_text(&w->out, "\"", false);
    json_scalar(w, key);
    jinja_put_text(&w->out, "\"", false);
}

static int compare_entries(jinja_render *r, const jinja_entry *a, const jinja_entry *b)
{
    return jinja_order(r, a->key, b->key, "<");
}

/* Insertion into a sorted copy by halves; dicts of tools are small. */
static jinja_entry *sorted_entries(jinja_render *r, const jinja_dict *d, size_t *count)
{
    jinja_entry *out = jinja_alloc(&r->arena, (d->live + 1) * sizeof *out);
    *count = 0;
    for (size_t i = 0; i < d->count; i++) {
        if (d->entries[i].gone)
            continue;
        size_t low = 0, high = *count;
        while (low < high) {
            size_t middle = (low + high) / 2;
            if (compare_entries(r, &d->entries[i], &out[middle]) < 0)
                high = middle;
            else
                low = middle + 1;
        }
        jinja_charge(r, (*count - low) / 8);
        memmove(out + low + 1, out + low, (*count - low) * sizeof *out);
        out[low] = d->entries[i];
        ++*count;
    }
    return out;
}

static void json_dict(json_writer *w, const jinja_dict *d, int depth)
{
    const jinja_entry *entries = d->entries;
    size_t count = d->count;
    bool first = true;
    if (w->style->sort_keys)
        entries = sorted_entries(w->out.render, d, &count);
    jinja_put_text(&w->out, "{", false);
    for (size_t i = 0; i < count; i++) {
        if (entries[i].gone)
            continue;
        if (!first)
            jinja_put(&w->out, w->style->item_separator.data, w->style->item_separator.size, false);
        first = false;
        json_newline(w, depth + 1);
        json_key(w, entries[i].key);
        jinja_put(&w->out, w->style->key_separator.data, w->style->key_separator.size, false);
        json_value(w, entries[i].value, depth + 1);
    }
    if (!first)
        json_newline(w, depth);
    jinja_put_text(&w->out, "}", false);
}

static void json_value(json_writer *w, jinja_value v, int depth)
{
    jinja_charge(w->out.render, 1);
    jinja_enter_value(w->out.render);
    if (v.type == V_STRING)
        json_text(w, v.string->text);
    else if (v.type == V_LIST)
        json_list(w, v.list, depth);
    else if (v.type == V_DICT)
        json_dict(w, v.dict, depth);
    else
        json_scalar(w, v);
    jinja_leave_value(w->out.render);
}

jinja_string *jinja_to_json(jinja_render *r, jinja_value v, const jinja_json_style *style)
{
    json_writer w = {.style = style};
    jinja_build(&w.out, r);
    json_value(&w, v, 0);
    return jinja_built(&w.out);
}
