/* tests/unit/cli/help_test.c: flags from a table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/help.h"

static const flag_spec flags[] = {
    {"--port", "N", "a port", "8080"},
    {"--memory", "SIZE", "a size", NULL},
    {"--json", NULL, "a switch", NULL},
    {NULL, NULL, NULL, NULL},
};
static const command_spec spec = {
    .name = "try", .operands = "FILE", .summary = "For tests.", .flags = flags, .operand_min = 1, .operand_max = 1};

static int parse(command_flags *out, int argc, const char *const *argv)
{
    return command_parse(&spec, argc, (char **)argv, out);
}
#define PARSE(out, ...)                                                                                                \
    parse(out, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *), (const char *const[]){__VA_ARGS__})

static void takes_values_apart_and_after_an_equals_sign(void **state)
{
    (void)state;
    command_flags f;
    error err = {0};
    uint64_t value = 0;
    assert_int_equal(PARSE(&f, "try", "--port", "1", "a.gguf", "--json"), COMMAND_RUN);
    assert_string_equal(flag_text(&f, "--port"), "1");
    assert_true(flag_given(&f, "--json"));
    assert_string_equal(f.operands[0], "a.gguf");
    assert_int_equal(PARSE(&f, "try", "--memory=1.5G", "--", "--port"), COMMAND_RUN);
    assert_int_equal(flag_bytes(&f, "--memory", &value, &err), OK);
    assert_true(value == 3ull << 29);
    assert_string_equal(f.operands[0], "--port");
    assert_int_equal(flag_number(&f, "--port", 1, 65535, &value, &err), OK);
    assert_int_equal(value, 8080);
}

static void refuses_what_is_not_in_the_table(void **state)
{
    (void)state;
    command_flags f;
    assert_int_equal(PARSE(&f, "try", "--prot", "1", "a"), 2);
    assert_int_equal(PARSE(&f, "try", "--json=1", "a"), 2);
    assert_int_equal(PARSE(&f, "try", "a", "--port"), 2);
    assert_int_equal(PARSE(&f, "try", "a", "b"), 2);
    assert_int_equal(PARSE(&f, "try"), 2);
}

static void names_the_flag_and_the_range_of_a_wrong_number(void **state)
{
    (void)state;
    static const char *const wrong[] = {"", "x", "1x", "-1", "+1", " 1", "0", "65536", "99999999999999999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        command_flags f;
        error err = {0};
        uint64_t value = 7;
        assert_int_equal(PARSE(&f, "try", "--port", wrong[i], "a"), COMMAND_RUN);
        assert_int_equal(flag_number(&f, "--port", 1, 65535, &value, &err), ERR_INVALID);
        assert_non_null(strstr(err.text, "--port"));
        assert_non_null(strstr(err.text, "1 to 65535"));
        assert_int_equal(value, 7);
    }
}

static void reads_sizes_with_units(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
        status st;
    } sizes[] = {
        {"512M", 512ull << 20, OK}, {"1g", 1ull << 30, OK},         {"2KB", 2048, OK},      {"123", 123, OK},
        {"M", 0, ERR_INVALID},      {"1X", 0, ERR_INVALID},         {"-1", 0, ERR_INVALID}, {"1MM", 0, ERR_INVALID},
        {"nan", 0, ERR_INVALID},    {"9999999999T", 0, ERR_INVALID}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        command_flags f;
        error err = {0};
        uint64_t value = 0;
        assert_int_equal(PARSE(&f, "try", "--memory", sizes[i].text, "a"), COMMAND_RUN);
        assert_int_equal(flag_bytes(&f, "--memory", &value, &err), sizes[i].st);
        assert_true(value == sizes[i].bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_values_apart_and_after_an_equals_sign),
        cmocka_unit_test(refuses_what_is_not_in_the_table),
        cmocka_unit_test(names_the_flag_and_the_range_of_a_wrong_number),
        cmocka_unit_test(reads_sizes_with_units),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
