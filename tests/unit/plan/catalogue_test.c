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

/* What a sum of parameters does not hold: how many experts a token uses, and what it leaves in the cache. */
static void test_tokens_cost_what_was_published(void **unused)
{
    (void)unused;
    static const struct {
        const char *name;
        double active,
            kv_bytes; /* 1e9 parameters by the model's card; of 16 bits, DeepSeek's ISCA 2025 paper; 0: none */
    } ROWS[] = {
        {"mixtral-8x7b", 12.9, 0},        {"mixtral-8x22b", 39, 0},
        {"gpt-oss-20b", 3.61, 0},         {"gpt-oss-120b", 5.13, 0},
        {"llama-4-scout", 17, 0},         {"llama-4-maverick", 17, 0},
        {"deepseek-v3", 37, 70272},       {"kimi-k2", 32, 0},
        {"glm-4.5-air", 12, 0},           {"glm-4.5", 32, 0},
        {"qwen3-30b-a3b", 3.3, 0},        {"qwen3-235b-a22b", 22, 0},
        {"qwen3-coder-480b-a35b", 35, 0}, {"qwen3.6-35b-a3b", 3, 20480},
        {"qwen3.5-397b-a17b", 17, 0},     {"llama-3.1-405b", 405, 516096},
        {"qwen2.5-72b", 72.7, 327680},
    };
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        const model_shape *shape = NULL;
        model_sums sums;
        assert_int_equal(catalogue_find(&shape, NULL, ROWS[i].name, NULL), OK);
        model_shape_sums(shape, &sums);
        /* some makers count the table of embeddings, some do not; cards round */
        double least = (double)sums.active / 1e9, most = least + (double)sums.embedding / 1e9;
        if (ROWS[i].active < 0.93 * least || ROWS[i].active > 1.02 * most)
            fail_msg("%s: %.3f to %.3f active, published %.2f", ROWS[i].name, least, most, ROWS[i].active);
        if (ROWS[i].kv_bytes > 0)
            assert_true(2 * sums.kv_values == ROWS[i].kv_bytes);
    }
}

static void test_later_editions_differ_where_they_do(void **unused)
{
    (void)unused;
    static const char *const PAIRS[][2] = {{"Qwen3-4B", "Qwen3-4B-Instruct-2507"},
                                           {"Qwen3-30B-A3B", "Qwen3-30B-A3B-Thinking-2507"},
                                           {"Qwen3-235B-A22B", "Qwen3-235B-A22B-Instruct-2507"}};
    for (size_t i = 0; i < sizeof PAIRS / sizeof *PAIRS; i++) {
        const model_shape *first = NULL, *later = NULL;
        assert_int_equal(catalogue_find(&first, NULL, PAIRS[i][0], NULL), OK);
        assert_int_equal(catalogue_find(&later, NULL, PAIRS[i][1], NULL), OK);
        assert_int_equal(first->context, 40960);
        assert_int_equal(later->context, 262144);
    }
    const model_shape *windowed = NULL, *plain = NULL;
    assert_int_equal(catalogue_find(&windowed, NULL, "Mistral-7B-Instruct-v0.1", NULL), OK);
    assert_int_equal(catalogue_find(&plain, NULL, "Mistral-7B-Instruct-v0.3", NULL), OK);
    assert_int_equal(windowed->window, 4096);
    assert_int_equal(windowed->window_layers, windowed->layers);
    assert_int_equal(plain->window_layers, 0);
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
        {"Qwen3-30B-A3B-Instruct-2507", "qwen3-30b-a3b-2507"},
        {"Qwen3-30B-A3B-Base", "qwen3-30b-a3b"},
        {"Qwen/Qwen3-4B-Thinking-2507", "qwen3-4b-2507"},
        {"qwen3-235b-a22b-2507", "qwen3-235b-a22b-2507"},
        {"gemma-3-27b-it", "gemma-3-27b"},
        {"Mistral-Small-24B-Instruct-2501", "mistral-small-24b"},
        {"Mixtral-8x7B-v0.1", "mixtral-8x7b"},
        {"Mixtral-8x7B-Instruct-v0.1", "mixtral-8x7b"},
        {"Mistral-7B-Instruct-v0.1", "mistral-7b-v0.1"},
        {"Mistral-7B-Instruct-v0.3", "mistral-7b"},
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

/* 1,234,567 */
static void grouped(uint64_t number, char out[32])
{
    char digits[24];
    int count = snprintf(digits, sizeof digits, "%llu", (unsigned long long)number);
    for (int i = 0; i < count; i++) {
        *out++ = digits[i];
        if (i + 1 < count && (count - i - 1) % 3 == 0)
            *out++ = ',';
    }
    *out = 0;
}

static void test_the_page_says_what_the_tables_say(void **unused)
{
    (void)unused;
    FILE *file = fopen("docs/models-catalogue.md", "rb");
    char *page = calloc(1, 1 << 17);
    assert_non_null(file);
    assert_true(fread(page, 1, (1 << 17) - 1, file) > 1000);
    fclose(file);
    for (size_t i = 0; i < catalogue_count(); i++) {
        const model_shape *shape = catalogue_at(i);
        model_sums sums;
        char total[32], active[32], other[32], kv[32], window[32], state[32] = "", line[400];
        model_shape_sums(shape, &sums);
        grouped(sums.total, total);
        grouped(sums.active, active);
        grouped(shape->other_parameters, other);
        grouped((uint64_t)(2 * sums.kv_values), kv);
        grouped((uint64_t)(2 * sums.window_values), window);
        snprintf(state, sizeof state, "%.1f ", sums.state_bytes / (1 << 20));
        snprintf(line, sizeof line, "| `%s` | %s | %s | %s%s| %s | %s%s| %s| %s |\n", shape->name, total, active,
                 shape->other_parameters ? other : "", shape->other_parameters ? " " : "", kv,
                 sums.window_values > 0 ? window : "", sums.window_values > 0 ? " " : "",
                 sums.state_bytes > 0 ? state : "", catalogue_type(i));
        if (!strstr(page, line))
            fail_msg("docs/models-catalogue.md lacks: %s", line);
    }
    for (size_t i = 0; i < weight_type_count(); i++) {
        char name[32];
        snprintf(name, sizeof name, "`%s`", weight_type_at(i)->name);
        if (!strstr(page, name))
            fail_msg("docs/models-catalogue.md lacks the type %s", name);
    }
    free(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_come_to_what_was_published),
        cmocka_unit_test(test_tokens_cost_what_was_published),
        cmocka_unit_test(test_later_editions_differ_where_they_do),
        cmocka_unit_test(test_names_are_unique_and_found),
        cmocka_unit_test(test_names_are_found_however_they_are_written),
        cmocka_unit_test(test_unknown_names_say_the_nearest),
        cmocka_unit_test(test_the_page_says_what_the_tables_say),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
