/* tests/unit/plan/model_shape_test.c: sums against counts that were published, and shapes that cannot be. */
#include "plan/model_shape.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static model_sums sums_of(const char *name)
{
    const model_shape *shape;
    model_sums sums;
    error err = {0};
    if (catalogue_find(&shape, NULL, name, &err) != OK || model_shape_check(shape, &err) != OK)
        fail_msg("%s", err.text);
    model_shape_sums(shape, &sums);
    return sums;
}

static void test_hybrid_with_experts(void **unused)
{
    (void)unused;
    model_sums s = sums_of("qwen3.6-35b-a3b");
    assert_int_equal(s.total, 34660610688);
    assert_int_equal(s.active, 2946429568);
    assert_int_equal(s.embedding, 508559360);
    assert_int_equal(s.head, 508559360);
    assert_int_equal(s.expert, 3145728);
    assert_int_equal(s.expert_layers, 40);
    assert_int_equal(s.always, 2946429568 - 1006632960);
    assert_true(s.kv_values * 2 == 20480); /* bytes in f16 */
    assert_true(s.window_values == 0);
    assert_true(s.state_bytes == 62914560 + 2949120); /* 60 MiB of heads, the rest of the convolution, f32 */
    assert_true(s.flops_token == 2.0 * 2437870208);
    assert_true(s.flops_head == 2.0 * 508559360);
    assert_true(s.flops_depth == 2.0 * 10 * 16 * 512);
    const weight_type *type;
    assert_int_equal(weight_type_find(&type, "mxfp8", NULL), OK);
    assert_true(fabs((double)s.active * type->bits / 8 - 3.0385e9) < 1e6); /* 3.04 GB a step */
}

static void test_dense_and_experts(void **unused)
{
    (void)unused;
    model_sums small = sums_of("smollm2-135m"), routed = sums_of("qwen3-30b-a3b");
    assert_int_equal(small.total, 134515008);
    assert_int_equal(small.always, small.total);
    assert_int_equal(small.active, small.total);
    assert_true(small.kv_values * 2 == 23040);
    assert_true(small.state_bytes == 0);
    assert_int_equal(routed.total, 30532122624);
    assert_true(routed.kv_values * 2 == 98304);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hybrid_with_experts),
        cmocka_unit_test(test_dense_and_experts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
