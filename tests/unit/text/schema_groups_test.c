/* Groups of the JSON-Schema-Test-Suite (draft 2020-12; tests/numeric/schema_check.py keeps them): most are accepted,
 * the rest refused with a keyword named, and what is invalid is never let through. And bounds on hostile grammars. */
#include "unit/text/grammar_fixture.h"

#include "base/clock.h"

static bool accepts_value(const grammar *g, const json_t *value, size_t flags)
{
    char *text = json_dumps(value, JSON_ENCODE_ANY | flags);
    bool accepted = text && grammar_accepts(g, span_from(text));
    free(text);
    return accepted;
}

static void check_tests(const grammar *g, const char *name, const json_t *tests, size_t *valid, size_t *taken)
{
    size_t i;
    json_t *test;
    json_array_foreach(tests, i, test)
    {
        const json_t *data = json_object_get(test, "data");
        bool accepted = accepts_value(g, data, JSON_COMPACT) || accepts_value(g, data, 0);
        bool is_valid = json_is_true(json_object_get(test, "valid"));
        if (accepted && !is_valid)
            fail_msg("%s: %s: invalid and accepted", name, json_string_value(json_object_get(test, "description")));
        *valid += is_valid;
        *taken += is_valid && accepted;
    }
}

static void test_groups_of_the_suite(void **state)
{
    (void)state;
    json_error_t where;
    json_t *groups = json_load_file("tests/numeric/vectors/schema_groups.json", JSON_ALLOW_NUL, &where), *group;
    size_t i, accepted = 0, valid = 0, taken = 0;
    if (!groups)
        fail_msg("tests/numeric/vectors/schema_groups.json: %s (run from the root of the tree)", where.text);
    json_array_foreach(groups, i, group)
    {
        grammar_builder *b;
        grammar *g = NULL;
        error err = {""};
        const char *name = json_string_value(json_object_get(group, "description"));
        assert_int_equal(grammar_builder_create(&b, &err), OK);
        grammar_rule root = grammar_json_schema(b, json_object_get(group, "schema"));
        if (grammar_finish(b, root, &g, &err) == OK) {
            accepted++;
            check_tests(g, name, json_object_get(group, "tests"), &valid, &taken);
        } else if (!strstr(err.text, "\"") && !strstr(err.text, "pattern") && !strstr(err.text, "no text satisfies")) {
            fail_msg("%s: \"%s\" names no keyword", name, err.text);
        }
        grammar_release(g);
        grammar_builder_destroy(b);
    }
    print_message("%zu of %zu groups accepted, %zu of %zu valid instances\n", accepted, json_array_size(groups), taken,
                  valid);
    assert_true(accepted * 100 >= json_array_size(groups) * 60);
    assert_true(taken * 100 >= valid * 85);
    json_decref(groups);
}

static void check_text(grammar_kind kind, const char *text, const char *const *good, const char *const *bad)
{
    grammar *g = make_grammar(kind, text);
    for (; *good; good++)
        if (!grammar_accepts(g, span_from(*good)))
            fail_msg("%s does not accept %s", text, *good);
    for (; *bad; bad++)
        if (grammar_accepts(g, span_from(*bad)))
            fail_msg("%s accepts %s", text, *bad);
    grammar_release(g);
}
#define GOOD(...)                                                                                                      \
    (const char *const[])                                                                                              \
    {                                                                                                                  \
        __VA_ARGS__, NULL                                                                                              \
    }
#define BAD(...)                                                                                                       \
    (const char *const[])                                                                                              \
    {                                                                                                                  \
        __VA_ARGS__, NULL                                                                                              \
    }

static void test_regular_expressions(void **state)
{
    (void)state;
    check_text(KIND_REGEX, "^(a|b)+c?$", GOOD("a", "abbac"), BAD("", "c", "abca"));
    check_text(KIND_REGEX, "\\d{2,3}-\\w", GOOD("12-x", "123-_"), BAD("1-x", "1234-x", "12-"));
    check_text(KIND_REGEX, "[^a-c\\n]é.", GOOD("déx", "déü"), BAD("aéx", "dé\n", "dé"));
    check_text(KIND_REGEX, "x{0,5000}y", GOOD("y", "xxy"), BAD("x", "yy"));
    check_text(KIND_REGEX, "\\u00e9\\x41",
               GOOD("\xC3\xA9"
                    "A"),
               BAD("eA"));
}

static void test_grammars_as_text(void **state)
{
    (void)state;
    check_text(KIND_EBNF, "root ::= \"a\" b+\nb ::= [0-9]{1,2} (\",\" | \";\")?\n", GOOD("a1", "a12,3;"),
               BAD("a", "a,"));
    check_text(KIND_EBNF, "root ::= root \"+\" t | t\nt ::= \"x\" | \"(\" root \")\"", GOOD("x", "x+(x+x)"),
               BAD("+x", "(x"));
    check_text(KIND_EBNF, "start: \"hi\"i _SEP NAME~2\n_SEP: \":\"\nNAME: /[a-z]/ // one\n", GOOD("Hi:ab", "HI:zz"),
               BAD("hi:a", "hi ab"));
    check_text(KIND_EBNF, "start: INT (\"+\" INT)*\n%import common.INT\n%import common.WS\n%ignore WS\n",
               GOOD("1+2", "1 + 22"), BAD("1 2", "+1"));
}

static void test_numbers(void **state)
{
    (void)state;
    check_text(KIND_SCHEMA, "{\"type\":\"integer\",\"minimum\":-12,\"maximum\":105,\"multipleOf\":3}",
               GOOD("-12", "0", "9", "105"), BAD("-15", "1", "106", "108", "03"));
    check_text(KIND_SCHEMA, "{\"type\":\"number\",\"exclusiveMinimum\":0.25,\"maximum\":10}",
               GOOD("0.26", "0.250001", "1", "9.999", "10", "10.0"), BAD("0.25", "0.2500", "0", "10.01", "11", "-1"));
    check_text(KIND_SCHEMA, "{\"type\":\"number\",\"minimum\":-3.5,\"exclusiveMaximum\":-1}",
               GOOD("-3.5", "-1.01", "-2"), BAD("-3.51", "-1", "-1.0", "0", "-4"));
}

static void refuse_in_time(grammar_kind kind, const char *text, const char *word)
{
    grammar *g = NULL;
    error err = {""};
    uint64_t start_us = clock_now_us();
    status st = try_grammar(kind, text, &g, &err);
    uint64_t us = clock_now_us() - start_us;
    if (!st || !strstr(err.text, word))
        fail_msg("%.80s: \"%s\", \"%s\" is expected in it", text, err.text, word);
    assert_true(us < 5000000); /* the bar is 1 s on a quiet machine, without sanitizers */
    grammar_release(g);
}

static void test_hostile_grammars_are_refused(void **state)
{
    (void)state;
    buf text = {0};
    for (int i = 0; i < 400; i++)
        buf_text(&text, "{\"properties\":{\"a\":");
    buf_text(&text, "true");
    for (int i = 0; i < 400; i++)
        buf_text(&text, "}}");
    refuse_in_time(KIND_SCHEMA, text.data, "deep");
    buf_clear(&text);
    buf_text(&text, "{\"enum\":[");
    for (int i = 0; i < 100000; i++)
        buf_printf(&text, "%s\"value number %d\"", i ? "," : "", i * 7919);
    buf_text(&text, "]}");
    refuse_in_time(KIND_SCHEMA, text.data, "too large");
    buf_free(&text);
    refuse_in_time(KIND_SCHEMA, "{\"$ref\":\"#\"}", "$ref");
    refuse_in_time(KIND_SCHEMA, "{\"type\":\"string\",\"pattern\":\"(.*a){20}.{100}b\",\"maxLength\":200}",
                   "too large");
    refuse_in_time(KIND_SCHEMA, "{\"uniqueItems\":true}", "uniqueItems");
    refuse_in_time(KIND_SCHEMA, "{\"type\":\"array\",\"contains\":{}}", "contains");
    refuse_in_time(KIND_SCHEMA, "{\"minimum\":2,\"maximum\":1,\"type\":\"integer\"}", "no text satisfies");
    refuse_in_time(KIND_REGEX, "(?=a)b", "looking ahead");
    refuse_in_time(KIND_REGEX, "(a", "not closed");
    refuse_in_time(KIND_EBNF, "root ::= a\na ::= b\nb ::= a \"x\" | \"q\"", "left-recursive");
    refuse_in_time(KIND_EBNF, "root ::= missing", "missing");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_groups_of_the_suite),
        cmocka_unit_test(test_regular_expressions),
        cmocka_unit_test(test_grammars_as_text),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_hostile_grammars_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
