/* tests/unit/plan/catalogue_test.c: every row against the count that its makers published; finding rows by name. */
#include "plan/model_shape.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void test_rows_come_to_what_was_published(void **unused)
{
    (void)unused;
    size_t exact = 0;
    for (size_t i = 0; i < catalogue_count(); i++) {
        const model_shape *shape = catalogue_at(i);
        const weight_type *type;
        model_sums sums;
        error err = {0};
        if (model_shape_check(shape, &err) != OK || weight_type_find(&type, catalogue_type(i), &err) != OK)
            fail_msg("%s: %s", shape->name, err.text);
        model_shape_sums(shape, &sums);
        double whole = (double)(sums.total + shape->other_parameters), published = catalogue_published(i);
        double allowed = catalogue_rounded(i) ? 0.02 : 0.001;
        if (published > 0 && fabs(whole - published) > allowed * published)
            fail_msg("%s: %.0f parameters, published %.0f (%+.3f%%)", shape->name, whole, published,
                     100 * (whole / published - 1));
        exact += whole == published;
        if (published > 0 && whole != published) /* only where scales are in the count, or it is a round number */
            assert_true(catalogue_rounded(i) || strcmp(catalogue_type(i), "fp8") == 0);
        assert_true(sums.active <= sums.total);
        assert_true(sums.always <= sums.active);
        assert_true(strlen(catalogue_source(i)) > 10);
        assert_true(strlen(shape->title) > 3);
    }
    assert_true(catalogue_count() >= 40);
    assert_true(exact >= 55);
    assert_null(catalogue_at(catalogue_count()));
    assert_null(catalogue_type(catalogue_count()));
    assert_null(catalogue_source(catalogue_count()));
    assert_true(catalogue_published(catalogue_count()) == 0);
}

static void test_names_are_unique_and_found(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < catalogue_count(); i++) {
        const model_shape *found = NULL;
        size_t index = SIZE_MAX;
        assert_int_equal(catalogue_find(&found, &index, catalogue_at(i)->name, NULL), OK);
        assert_int_equal(index, i);
        assert_ptr_equal(found, catalogue_at(i));
    }
}

static void test_names_are_found_however_they_are_written(void **unused)
{
    (void)unused;
    static const char *const NAMES[][2] = {
        {"Qwen3.6-35B-A3B", "qwen3.6-35b-a3b"},
        {"qwen36_35b_a3b", "qwen3.6-35b-a3b"},
        {"Qwen/Qwen3.6-35B-A3B", "qwen3.6-35b-a3b"},
        {"llama3.1 8B", "llama-3.1-8b"},
        {"meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"},
        {"Llama318B", "llama-3.1-8b"},
        {"Qwen3-Coder-30B-A3B-Instruct", "qwen3-coder-30b-a3b"},
        {"Qwen3-30B-A3B-Instruct-2507", "qwen3-30b-a3b"},
        {"gemma-3-27b-it", "gemma-3-27b"},
        {"Mistral-Small-24B-Instruct-2501", "mistral-small-24b"},
        {"Mixtral-8x7B-v0.1", "mixtral-8x7b"},
        {"gptoss120b", "gpt-oss-120b"},
    };
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        const model_shape *found = NULL;
        error err = {0};
        if (catalogue_find(&found, NULL, NAMES[i][0], &err) != OK)
            fail_msg("%s", err.text);
        assert_string_equal(found->name, NAMES[i][1]);
    }
}

static void test_unknown_names_say_the_nearest(void **unused)
{
    (void)unused;
    static const char *const NAMES[][2] = {
        {"qwen3.6-35b-a3", "qwen3.6-35b-a3b"},
        {"lama-3.1-8b", "llama-3.1-8b"},
        {"gemma", "gemma-3-"},
        {"gpt-os-20b", "gpt-oss-20b"},
        {"", "catalogue"},
        {"%s%n", "catalogue"},
    };
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        const model_shape *found = NULL;
        error err = {0};
        assert_int_equal(catalogue_find(&found, NULL, NAMES[i][0], &err), ERR_NOT_FOUND);
        assert_null(found);
        if (!strstr(err.text, NAMES[i][1]))
            fail_msg("%s", err.text);
    }
    char long_name[5000];
    memset(long_name, 'q', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = 0;
    const model_shape *found;
    assert_int_equal(catalogue_find(&found, NULL, long_name, NULL), ERR_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_come_to_what_was_published),
        cmocka_unit_test(test_names_are_unique_and_found),
        cmocka_unit_test(test_names_are_found_however_they_are_written),
        cmocka_unit_test(test_unknown_names_say_the_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
