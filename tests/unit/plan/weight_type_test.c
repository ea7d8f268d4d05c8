/* tests/unit/plan/weight_type_test.c: bits of types against the blocks that Headway stores them in, and names. */
#include "plan/model_shape.h"

#include "tensor/cpu/kv_block.h"
#include "tensor/dtype.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static double bits_of(const char *name)
{
    const weight_type *type;
    error err = {0};
    if (weight_type_find(&type, name, &err) != OK)
        fail_msg("%s", err.text);
    return type->bits;
}

static void test_bits_are_those_of_the_blocks(void **unused)
{
    (void)unused;
    static const struct {
        const char *name;
        uint32_t id;
    } STORED[] = {
        {"f32", DT_F32},       {"f16", DT_F16},     {"bf16", DT_BF16},
        {"q8_0", DT_Q8_0},     {"q6_k", DT_Q6_K},   {"q5_1", DT_Q5_1},
        {"q5_0", DT_Q5_0},     {"q4_1", DT_Q4_1},   {"q4_0", DT_Q4_0},
        {"iq4_nl", DT_IQ4_NL}, {"mxfp8", DT_MXFP8}, {"iq4_xs", DT_IQ4_XS},
        {"mxfp4", DT_MXFP4},   {"nvfp4", DT_NVFP4}, {"affine4", DT_AFFINE4_BF16},
    };
    for (size_t i = 0; i < sizeof STORED / sizeof *STORED; i++) {
        const dtype_info *info = dtype_get(STORED[i].id);
        assert_true(bits_of(STORED[i].name) == 8.0 * info->block_bytes / info->block_elems);
    }
    /* Mixtures lie between their parts. */
    assert_true(bits_of("q4_k_m") > 4.5 && bits_of("q4_k_m") < 6.5625);
    assert_true(bits_of("q4_k_s") > 4.5 && bits_of("q4_k_s") < bits_of("q4_k_m"));
    assert_true(bits_of("q5_k_m") > 5.5 && bits_of("q5_k_m") < 6.5625);
    assert_true(bits_of("q3_k_m") > 3.4375 && bits_of("q2_k") > 2.625);
    assert_true(bits_of("affine8") == 8.5 && bits_of("affine6") == 6.5 && bits_of("affine3") == 3.5);
}

static void test_each_type_is_found_in_any_case(void **unused)
{
    (void)unused;
    static const char *const RATES[] = {"f32", "f16", "fp8", "int8", "fp4"};
    for (size_t i = 0; i < weight_type_count(); i++) {
        const weight_type *type = weight_type_at(i), *found = NULL;
        char upper[16];
        bool rate = false;
        size_t size = strlen(type->name);
        assert_true(size > 0 && size < sizeof upper);
        for (size_t k = 0; k <= size; k++)
            upper[k] = type->name[k] >= 'a' && type->name[k] <= 'z' ? (char)(type->name[k] - 32) : type->name[k];
        assert_int_equal(weight_type_find(&found, upper, NULL), OK);
        assert_ptr_equal(found, type);
        assert_true(type->bits > 1 && type->bits <= 32);
        for (size_t k = 0; k < sizeof RATES / sizeof *RATES; k++)
            rate |= strcmp(type->compute, RATES[k]) == 0;
        assert_true(rate);
    }
    assert_null(weight_type_at(weight_type_count()));
    static const char *const WRONG[] = {"",   "q4",    "q4_0 ",
                                        "%s", "float", "q4_k_m_and_a_very_long_tail_of_a_name_indeed"};
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
        const weight_type *found = NULL;
        error err = {0};
        assert_int_equal(weight_type_find(&found, WRONG[i], &err), ERR_INVALID);
        assert_null(found);
        assert_non_null(strstr(err.text, "mxfp8")); /* the list is whole */
        assert_non_null(strstr(err.text, "affine2"));
    }
}

/* A page's bytes, without the exponents that f16's have beside the numbers. */
static void test_kv_bits_are_those_of_the_pages(void **unused)
{
    (void)unused;
    static const struct {
        const char *name;
        kv_type type;
    } STORED[] = {{"q8", KV_Q8}, {"q4", KV_Q4}};
    double bits;
    for (size_t i = 0; i < sizeof STORED / sizeof *STORED; i++)
        for (uint32_t dim = 64; dim <= 256; dim += 64) {
            double numbers = 2.0 * KV_PAGE_TOKENS * dim;
            assert_int_equal(kv_bits_find(&bits, STORED[i].name, NULL), OK);
            assert_true(bits == 8.0 * (double)kv_block_bytes(STORED[i].type, dim) / numbers);
        }
    assert_int_equal(kv_bits_find(&bits, "f16", NULL), OK);
    assert_true(bits == 16);
    assert_int_equal(kv_bits_find(&bits, "BF16", NULL), OK);
    assert_true(bits == 16);
    assert_int_equal(kv_bits_find(&bits, "f32", NULL), OK);
    assert_true(bits == 32);
    error err = {0};
    assert_int_equal(kv_bits_find(&bits, "q5", &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "q8"));
}

static void test_names_split_at_the_last_colon(void **unused)
{
    (void)unused;
    char name[64], type[16], text[200];
    assert_int_equal(model_name_split("llama-3.1-8b:q4_0", name, type, NULL), OK);
    assert_string_equal(name, "llama-3.1-8b");
    assert_string_equal(type, "q4_0");
    assert_int_equal(model_name_split("llama-3.1-8b", name, type, NULL), OK);
    assert_string_equal(name, "llama-3.1-8b");
    assert_string_equal(type, "");
    memset(text, 'x', sizeof text);
    text[63] = 0;
    assert_int_equal(model_name_split(text, name, type, NULL), OK);
    text[63] = 'x', text[64] = 0;
    assert_int_equal(model_name_split(text, name, type, NULL), ERR_INVALID);
    static const char *const WRONG[] = {"", ":", ":q4_0", "llama:", "llama:a-type-that-is-far-too-long"};
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
        error err = {0};
        assert_int_equal(model_name_split(WRONG[i], name, type, &err), ERR_INVALID);
        assert_non_null(strstr(err.text, "model name"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits_are_those_of_the_blocks),
        cmocka_unit_test(test_each_type_is_found_in_any_case),
        cmocka_unit_test(test_kv_bits_are_those_of_the_pages),
        cmocka_unit_test(test_names_split_at_the_last_colon),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
