/* text/jinja_tests.c: the tests behind `is`. */
#include <math.h>

#include "text/jinja_eval.h"
#include "text/jinja_lexer.h"

#define TEST(name) static jinja_value is_##name(jinja_render *r, jinja_value v, jinja_value *a, const jinja_args *args)
#define PLAIN_TEST(name, condition)                                                                                    \
    TEST(name)                                                                                                         \
    {                                                                                                                  \
        (void)r, (void)a, (void)args;                                                                                  \
        return jinja_bool(condition);                                                                                  \
    }
#define ORDER_TEST(name, op, condition)                                                                                \
    TEST(name)                                                                                                         \
    {                                                                                                                  \
        (void)args;                                                                                                    \
        int order = jinja_order(r, v, a[0], op);                                                                       \
        return jinja_bool(order != 2 && (condition));                                                                  \
    }

PLAIN_TEST(defined, v.type != V_UNDEFINED)
PLAIN_TEST(undefined, v.type == V_UNDEFINED)
PLAIN_TEST(none, v.type == V_NONE)
PLAIN_TEST(boolean, v.type == V_BOOL)
PLAIN_TEST(exactly_true, v.type == V_BOOL && v.boolean)
PLAIN_TEST(exactly_false, v.type == V_BOOL && !v.boolean)
PLAIN_TEST(integer, v.type == V_INT || v.type == V_BIG)
PLAIN_TEST(float, v.type == V_FLOAT)
PLAIN_TEST(number, v.type >= V_BOOL && v.type <= V_FLOAT)
PLAIN_TEST(string, v.type == V_STRING)
PLAIN_TEST(mapping, v.type == V_DICT)
PLAIN_TEST(iterable, jinja_iterable(v))
PLAIN_TEST(sequence, v.type == V_UNDEFINED || v.type == V_STRING || v.type == V_DICT ||
                         (v.type == V_LIST && v.list->kind <= LIST_RANGE))
PLAIN_TEST(callable, v.type == V_MACRO || v.type == V_FUNCTION || v.type == V_LOOP || v.type == V_UNDEFINED ||
                         (v.type == V_OBJECT && v.object->is_joiner))
PLAIN_TEST(escaped, v.type == V_STRING && v.string->markup)
PLAIN_TEST(filter, v.type == V_STRING && jinja_find_filter(v.string->text))
PLAIN_TEST(test, v.type == V_STRING && jinja_find_test(v.string->text))
PLAIN_TEST(eq, jinja_equal(r, v, a[0]))
PLAIN_TEST(ne, !jinja_equal(r, v, a[0]))
PLAIN_TEST(in, jinja_contains(r, a[0], v))
ORDER_TEST(lt, "<", order < 0)
ORDER_TEST(le, "<=", order <= 0)
ORDER_TEST(gt, ">", order > 0)
ORDER_TEST(ge, ">=", order >= 0)

TEST(sameas)
{
    (void)r, (void)args;
    if (v.type != a[0].type)
        return jinja_bool(false);
    if (v.type == V_NONE || v.type == V_BOOL || v.type == V_INT || v.type == V_FLOAT)
        return jinja_bool(jinja_equal(r, v, a[0]));
    return jinja_bool(v.string == a[0].string);
}

/* v % by, of any numbers. */
static double remainder_of(jinja_render *r, jinja_value v, jinja_value by)
{
    double out;
    jinja_value rest = jinja_binary(r, TOK_MOD, v, by);
    return jinja_number(rest, &out) ? out : NAN; /* text % x is text, which is no remainder */
}

TEST(even)
{
    (void)a, (void)args;
    return jinja_bool(remainder_of(r, v, jinja_int(2)) == 0);
}

TEST(odd)
{
    (void)a, (void)args;
    return jinja_bool(remainder_of(r, v, jinja_int(2)) == 1);
}

TEST(divisibleby)
{
    (void)args;
    return jinja_bool(remainder_of(r, v, a[0]) == 0);
}

static jinja_value ask(jinja_render *r, jinja_value v, const char *method)
{
    jinja_args none = {0};
    jinja_value text = jinja_of_string(jinja_to_string(r, v));
    return jinja_native_call(r, jinja_find_in(jinja_string_methods, jinja_string_method_count, span_from(method)), text,
                             &none);
}

TEST(lower)
{
    (void)a, (void)args;
    return ask(r, v, "islower");
}

TEST(upper)
{
    (void)a, (void)args;
    return ask(r, v, "isupper");
}

static const jinja_function tests[] = {
    {"defined", is_defined, "", 0, {0}},
    {"undefined", is_undefined, "", 0, {0}},
    {"none", is_none, "", 0, {0}},
    {"string", is_string, "", 0, {0}},
    {"mapping", is_mapping, "", 0, {0}},
    {"iterable", is_iterable, "", 0, {0}},
    {"sequence", is_sequence, "", 0, {0}},
    {"true", is_exactly_true, "", 0, {0}},
    {"false", is_exactly_false, "", 0, {0}},
    {"boolean", is_boolean, "", 0, {0}},
    {"integer", is_integer, "", 0, {0}},
    {"float", is_float, "", 0, {0}},
    {"number", is_number, "", 0, {0}},
    {"callable", is_callable, "", 0, {0}},
    {"escaped", is_escaped, "", 0, {0}},
    {"filter", is_filter, "", 0, {0}},
    {"test", is_test, "", 0, {0}},
    {"even", is_even, "", 0, {0}},
    {"odd", is_odd, "", 0, {0}},
    {"divisibleby", is_divisibleby, "num", 1, {0}},
    {"lower", is_lower, "", 0, {0}},
    {"upper", is_upper, "", 0, {0}},
    {"sameas", is_sameas, "other", 1, {0}},
    {"in", is_in, "seq", 1, {0}},
    {"eq", is_eq, "other", 1, {0}},
    {"equalto", is_eq, "other", 1, {0}},
    {"==", is_eq, "other", 1, {0}},
    {"ne", is_ne, "other", 1, {0}},
    {"!=", is_ne, "other", 1, {0}},
    {"lt", is_lt, "other", 1, {0}},
    {"lessthan", is_lt, "other", 1, {0}},
    {"<", is_lt, "other", 1, {0}},
    {"le", is_le, "other", 1, {0}},
    {"<=", is_le, "other", 1, {0}},
    {"gt", is_gt, "other", 1, {0}},
    {"greaterthan", is_gt, "other", 1, {0}},
    {">", is_gt, "other", 1, {0}},
    {"ge", is_ge, "other", 1, {0}},
    {">=", is_ge, "other", 1, {0}},
};

const jinja_function *jinja_find_test(span name)
{
    return jinja_find_in(tests, sizeof tests / sizeof *tests, name);
}
