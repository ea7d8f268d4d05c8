/* text/jinja_ops.c: arithmetic, slices, attributes and items. */
#include <math.h>

#include "text/jinja_eval.h"
#include "text/jinja_lexer.h"
#include "text/jinja_unicode.h"

static const char *op_text(int op)
{
    static const char *const names[] = {"+", "-", "*", "/", "//", "%", "**"};
    return op >= TOK_ADD && op <= TOK_POW ? names[op - TOK_ADD] : "?";
}

static _Noreturn void fail_operands(jinja_render *r, int op, jinja_value a, jinja_value b)
{
    if (a.type == V_UNDEFINED || b.type == V_UNDEFINED)
        jinja_undefined_error(r, a.type == V_UNDEFINED ? a : b);
    if (op == TOK_ADD && a.type == V_STRING)
        jinja_fail(r, "can only concatenate str (not \"%s\") to str", jinja_type_name(b));
    jinja_fail(r, "unsupported operand type(s) for %s: '%s' and '%s'", op_text(op), jinja_type_name(a),
               jinja_type_name(b));
}

static int64_t floor_divide(int64_t a, int64_t b)
{
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static bool int_power(int64_t base, int64_t exponent, int64_t *out)
{
    int64_t result = 1;
    while (exponent > 0) {
        if ((exponent & 1) && __builtin_mul_overflow(result, base, &result))
            return false;
        exponent >>= 1;
        if (exponent && __builtin_mul_overflow(base, base, &base))
            return false;
    }
    *out = result;
    return true;
}

static jinja_value int_binary(jinja_render *r, int op, int64_t a, int64_t b)
{
    int64_t out = 0;
    bool fits = true;
    switch (op) {
    case TOK_ADD:
        fits = !__builtin_add_overflow(a, b, &out);
        break;
    case TOK_SUB:
        fits = !__builtin_sub_overflow(a, b, &out);
        break;
    case TOK_MUL:
        fits = !__builtin_mul_overflow(a, b, &out);
        break;
    case TOK_POW:
        fits = int_power(a, b, &out);
        break;
    default: /* // and % */
        if (!b)
            jinja_fail(r, "integer division or modulo by zero");
        fits = !(a == INT64_MIN && b == -1);
        if (fits)
            out = op == TOK_FLOORDIV ? floor_divide(a, b) : a - floor_divide(a, b) * b;
        break;
    }
    if (!fits)
        jinja_fail(r, "integer overflow in %s (64 bits)", op_text(op));
    return jinja_int(out);
}

static jinja_value float_binary(jinja_render *r, int op, double a, double b)
{
    double rest;
    switch (op) {
    case TOK_ADD:
        return jinja_float(a + b);
    case TOK_SUB:
        return jinja_float(a - b);
    case TOK_MUL:
        return jinja_float(a * b);
    case TOK_POW:
        if (a == 0 && b < 0)
            jinja_fail(r, "0.0 cannot be raised to a negative power");
        if (a < 0 && b != floor(b))
            jinja_fail(r, "complex numbers are not supported");
        return jinja_float(pow(a, b));
    default:
        if (b == 0)
            jinja_fail(r, "float division by zero");
        if (op == TOK_DIV)
            return jinja_float(a / b);
        rest = fmod(a, b);
        if (rest != 0 && (rest < 0) != (b < 0))
            rest += b;
        return jinja_float(op == TOK_MOD ? rest : floor((a - rest) / b + 0.5));
    }
}

static jinja_value add_strings(jinja_render *r, jinja_string *a, jinja_string *b)
{
    if (a->markup != b->markup) { /* one is Markup: the other is escaped */
        a = jinja_escape(r, jinja_of_string(a));
        b = jinja_escape(r, jinja_of_string(b));
    }
    return jinja_concat(r, a, b);
}

static jinja_value join_lists(jinja_render *r, const jinja_list *a, const jinja_list *b)
{
    jinja_list *out = jinja_list_new(r, a->kind, a->count + b->count);
    jinja_charge(r, a->count + b->count);
    for (size_t i = 0; i < a->count; i++)
        jinja_list_push(r, out, a->items[i]);
    for (size_t i = 0; i < b->count; i++)
        jinja_list_push(r, out, b->items[i]);
    return jinja_of_list(out);
}

static jinja_value repeat(jinja_render *r, jinja_value v, int64_t times)
{
    if (v.type == V_STRING)
        return jinja_of_string(jinja_repeat(r, v.string, times));
    jinja_list *out = jinja_list_new(r, v.list->kind, 0);
    for (int64_t i = 0; i < times && v.list->count; i++) {
        jinja_charge(r, v.list->count);
        for (size_t k = 0; k < v.list->count; k++)
            jinja_list_push(r, out, v.list->items[k]);
    }
    return jinja_of_list(out);
}

static bool is_sequence(jinja_value v)
{
    return v.type == V_STRING || (v.type == V_LIST && v.list->kind <= LIST_TUPLE);
}

jinja_value jinja_binary(jinja_render *r, int op, jinja_value a, jinja_value b)
{
    int64_t i, k;
    double x, y;
    if (op == TOK_ADD && a.type == V_STRING && b.type == V_STRING)
        return add_strings(r, a.string, b.string);
    if (op == TOK_ADD && a.type == V_LIST && b.type == V_LIST && a.list->kind == b.list->kind &&
        a.list->kind <= LIST_TUPLE)
        return join_lists(r, a.list, b.list);
    if (op == TOK_MOD && a.type == V_STRING)
        return jinja_of_string(jinja_percent(r, a.string, b));
    if (op == TOK_MUL && is_sequence(a) && jinja_integer(b, &i))
        return repeat(r, a, i);
    if (op == TOK_MUL && is_sequence(b) && jinja_integer(a, &i))
        return repeat(r, b, i);
    bool ints = jinja_integer(a, &i) && jinja_integer(b, &k);
    if (ints && op != TOK_DIV && !(op == TOK_POW && k < 0))
        return int_binary(r, op, i, k);
    if (a.type == V_BIG || b.type == V_BIG)
        jinja_fail(r, "no arithmetic on integers over 64 bits");
    if (jinja_number(a, &x) && jinja_number(b, &y))
        return float_binary(r, op, x, y);
    fail_operands(r, op, a, b);
}

jinja_value jinja_negate(jinja_render *r, jinja_value v, bool minus)
{
    int64_t i;
    if (v.type == V_FLOAT)
        return jinja_float(minus ? -v.real : v.real);
    if (jinja_integer(v, &i) && !(minus && i == INT64_MIN))
        return jinja_int(minus ? -i : i);
    if (v.type == V_UNDEFINED)
        jinja_undefined_error(r, v);
    jinja_fail(r, "bad operand type for unary %s: '%s'", minus ? "-" : "+", jinja_type_name(v));
}

/* ---- slices ---- */

static int64_t slice_bound(jinja_render *r, jinja_value v, int64_t otherwise, int64_t length, bool backward)
{
    int64_t i;
    if (v.type == V_NONE)
        return otherwise;
    if (!jinja_integer(v, &i))
        jinja_fail(r, "slice indices must be integers or None");
    if (i < 0)
        i = i < -length ? -1 : i + length;
    else if (i > length)
        i = length;
    if (i < 0)
        return backward ? -1 : 0;
    return backward && i >= length ? length - 1 : i;
}

jinja_value jinja_slice(jinja_render *r, jinja_value v, const jinja_value part[3])
{
    int64_t step = 1;
    bool sliceable = v.type == V_STRING || (v.type == V_LIST && v.list->kind <= LIST_RANGE);
    if (v.type == V_UNDEFINED)
        jinja_undefined_error(r, v);
    if (!sliceable)
        jinja_fail(r, "'%s' object is not subscriptable with a slice", jinja_type_name(v));
    if (part[2].type != V_NONE && !jinja_integer(part[2], &step))
        jinja_fail(r, "slice indices must be integers or None");
    if (step == 0)
        jinja_fail(r, "slice step cannot be zero");
    int64_t length = jinja_length(r, v);
    bool backward = step < 0;
    int64_t from = slice_bound(r, part[0], backward ? length - 1 : 0, length, backward);
    int64_t to = slice_bound(r, part[1], backward ? -1 : length, length, backward);
    if (v.type == V_STRING && step == 1) {
        size_t start = jinja_string_offset(v.string, (size_t)from);
        size_t end = to > from ? jinja_string_offset(v.string, (size_t)to) : start;
        if (v.string->chars != v.string->text.size)
            jinja_charge(r, end / 4);
        return jinja_of_string(jinja_string_sub(&r->arena, v.string, start, end - start));
    }
    jinja_list *items = jinja_iterate(r, v);
    jinja_list *out = jinja_list_new(r, v.type == V_LIST && v.list->kind == LIST_TUPLE ? LIST_TUPLE : LIST_LIST, 0);
    for (int64_t i = from; backward ? i > to : i < to;) {
        jinja_charge(r, 1);
        jinja_list_push(r, out, items->items[i]);
        if (__builtin_add_overflow(i, step, &i))
            break;
    }
    if (v.type == V_LIST)
        return jinja_of_list(out);
    jinja_string empty = {.text = {"", 0}, .run_count = 0};
    jinja_string *joined = jinja_join(r, &empty, out, true);
    return jinja_of_string(v.string->markup ? jinja_as_markup(r, joined) : joined);
}

/* ---- items and attributes ---- */

static const char *object_name(jinja_render *r, jinja_value v)
{
    return v.type == V_NONE ? "None" : jinja_text(r, "'%s object'", jinja_type_name(v));
}

static jinja_value missing_item(jinja_render *r, jinja_value v, jinja_value key)
{
    if (key.type == V_STRING)
        return jinja_undefined(r, "%s has no attribute '%.*s'", object_name(r, v),
                               key.string->text.size > 100 ? 100 : (int)key.string->text.size, key.string->text.data);
    if (key.type == V_INT)
        return jinja_undefined(r, "%s has no element %lld", object_name(r, v), (long long)key.integer);
    return jinja_undefined(r, "%s has no such element", object_name(r, v));
}

static bool index_item(jinja_render *r, jinja_value v, int64_t i, jinja_value *out)
{
    bool indexable = v.type == V_STRING || (v.type == V_LIST && v.list->kind <= LIST_RANGE);
    if (!indexable)
        return false;
    int64_t length = jinja_length(r, v);
    if (i < 0)
        i += length;
    if (i < 0 || i >= length)
        return false;
    if (v.type == V_LIST) {
        *out = v.list->items[i];
        return true;
    }
    size_t start = jinja_string_offset(v.string, (size_t)i), used;
    if (v.string->chars != v.string->text.size)
        jinja_charge(r, start / 4); /* characters of several bytes are counted from the front */
    jinja_decode(v.string->text.data + start, v.string->text.size - start, &used);
    *out = jinja_of_string(jinja_string_sub(&r->arena, v.string, start, used));
    return true;
}

static bool hashable(jinja_value v)
{
    if (v.type == V_DICT)
        return false;
    return v.type != V_LIST || (v.list->kind != LIST_LIST && v.list->kind < LIST_KEYS);
}

jinja_value jinja_get_item(jinja_render *r, jinja_value v, jinja_value key)
{
    int64_t i;
    jinja_value out;
    if (v.type == V_UNDEFINED)
        jinja_undefined_error(r, v);
    if (v.type == V_DICT && hashable(key)) {
        jinja_value *found = jinja_dict_get(r, v.dict, key);
        if (found)
            return *found;
    } else if (jinja_integer(key, &i) && index_item(r, v, i, &out)) {
        return out;
    }
    if (key.type == V_STRING && jinja_method(r, v, key.string->text, &out))
        return out;
    return missing_item(r, v, key);
}

jinja_value jinja_get_attr(jinja_render *r, jinja_value v, const jinja_name *name)
{
    jinja_value out;
    if (v.type == V_UNDEFINED)
        jinja_undefined_error(r, v);
    if (jinja_method(r, v, name->text, &out))
        return out;
    if (v.type == V_DICT) {
        jinja_value *found = jinja_dict_find(r, v.dict, name->text);
        if (found)
            return *found;
    }
    return jinja_undefined(r, "%s has no attribute '%s'", object_name(r, v), name->text.data);
}

jinja_value jinja_get_path(jinja_render *r, jinja_value v, jinja_value path)
{
    if (path.type != V_STRING)
        return jinja_get_item(r, v, path);
    span rest = path.string->text;
    for (;;) {
        const char *dot = rest.size ? memchr(rest.data, '.', rest.size) : NULL;
        span part = span_of(rest.data, dot ? (size_t)(dot - rest.data) : rest.size);
        int64_t number;
        bool digits = part.size > 0;
        for (size_t i = 0; i < part.size; i++)
            digits = digits && part.data[i] >= '0' && part.data[i] <= '9';
        if (digits && jinja_parse_int(part, 10, &number))
            v = jinja_get_item(r, v, jinja_int(number));
        else
            v = jinja_get_item(r, v, jinja_of_string(jinja_string_borrow(&r->arena, part, false)));
        if (!dot)
            return v;
        rest = span_of(dot + 1, rest.size - part.size - 1);
    }
}
