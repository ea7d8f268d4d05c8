/* tests/unit/plan/model_shape_test.c: sums against counts that were published, and shapes that cannot be. */
#include "plan/model_shape.h"

#include "tensor/backend.h"

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

/* What the CPU backend allocates for a sequence; odd shapes are rounded up as it does. */
static void test_states_are_those_that_are_kept(void **unused)
{
    (void)unused;
    static const struct {
        uint32_t layers, key_heads, value_heads, key_dim, value_dim, taps;
    } SHAPES[] = {{30, 16, 32, 128, 128, 4},
                  {18, 16, 16, 128, 128, 4},
                  {6, 2, 6, 16, 32, 4},
                  {3, 1, 1, 16, 16, 2},
                  {5, 3, 3, 48, 16, 4}};
    backend *cpu = NULL;
    assert_int_equal(cpu_backend_open(&cpu, &(backend_config){.threads = 1}, NULL), OK);
    for (size_t i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++) {
        model_shape shape = {.layers = SHAPES[i].layers,
                             .linear_layers = SHAPES[i].layers,
                             .hidden = 64,
                             .vocab = 100,
                             .context = 100,
                             .dense_layers = SHAPES[i].layers,
                             .feed_forward = 64,
                             .linear_key_heads = SHAPES[i].key_heads,
                             .linear_value_heads = SHAPES[i].value_heads,
                             .linear_key_dim = SHAPES[i].key_dim,
                             .linear_value_dim = SHAPES[i].value_dim,
                             .conv_width = SHAPES[i].taps};
        const state_config kept = {.layers = SHAPES[i].layers,
                                   .slots = 1,
                                   .key_heads = SHAPES[i].key_heads,
                                   .value_heads = SHAPES[i].value_heads,
                                   .key_dim = SHAPES[i].key_dim,
                                   .value_dim = SHAPES[i].value_dim,
                                   .taps = SHAPES[i].taps};
        model_sums sums;
        error err = {0};
        if (model_shape_check(&shape, &err) != OK)
            fail_msg("%s", err.text);
        model_shape_sums(&shape, &sums);
        assert_true(sums.state_bytes == (double)cpu->ops->state_bytes(&kept));
        assert_true(sums.kv_values == 0);
    }
    cpu->ops->close(cpu);
}

static void test_windows_and_latent_attention(void **unused)
{
    (void)unused;
    model_sums gemma = sums_of("gemma-3-270m"), latent = sums_of("deepseek-v3"), oss = sums_of("gpt-oss-120b");
    assert_true(gemma.kv_values * 2 == 3072); /* 3 of 18 layers see everything */
    assert_true((gemma.kv_values + gemma.window_values) * 2 == 18432);
    assert_true(latent.kv_values == 61 * (512 + 64));          /* 70,272 bytes in 16 bits */
    assert_true(fabs((double)latent.active - 36.6e9) < 0.1e9); /* 37B with the table */
    assert_true(oss.kv_values == 18 * 2 * 8 * 64);
    assert_true(oss.window_values == oss.kv_values);
    assert_true(fabs((double)oss.active - 5.13e9) < 0.005e9); /* as their model card says */
}

static void expect_wrong(model_shape shape, const char *says)
{
    error err = {0};
    status st = model_shape_check(&shape, &err);
    if (st != ERR_INVALID || !strstr(err.text, says))
        fail_msg("status %d, \"%s\", expected \"%s\"", st, err.text, says);
}

static void test_shapes_that_cannot_be(void **unused)
{
    (void)unused;
    const model_shape *found;
    assert_int_equal(catalogue_find(&found, NULL, "qwen3.6-35b-a3b", NULL), OK);
#define WITH(field, value, says)                                                                                       \
    do {                                                                                                               \
        model_shape shape = *found;                                                                                    \
        shape.field = value;                                                                                           \
        expect_wrong(shape, says);                                                                                     \
    } while (0)
    WITH(layers, 0, "layers: 0");
    WITH(layers, 100000, "layers: 100000");
    WITH(layers, 41, "10 layers with attention and 30 with linear attention, expected 41");
    WITH(hidden, 0, "hidden size: 0");
    WITH(hidden, UINT32_MAX, "hidden size");
    WITH(vocab, 0, "vocabulary: 0");
    WITH(context, 0, "context: 0");
    WITH(heads, 0, "attention heads: 0");
    WITH(kv_heads, 3, "expected a divisor");
    WITH(kv_heads, 32, "heads of keys and values: 32");
    WITH(head_dim, 0, "channels of a head: 0");
    WITH(window_layers, 4, "window: 0 tokens");
    WITH(window_layers, 11, "layers with a window: 11");
    WITH(q_lora, 5, "rank of keys and values: 0");
    WITH(linear_value_heads, 31, "expected a multiple");
    WITH(conv_width, 0, "width of the convolution: 0");
    WITH(experts, 0, "layers with a dense feed forward: 0");
    WITH(experts_used, 257, "experts used: 257");
    WITH(experts_used, 0, "experts used: 0");
    WITH(expert_feed_forward, 0, "an expert's feed forward: 0");
    WITH(dense_layers, 41, "layers with a dense feed forward: 41");
    WITH(dense_layers, 1, "feed forward: 0");
    WITH(layer_norms, 99, "norms of a layer: 99");
    WITH(other_parameters, UINT64_MAX, "other parameters");
#undef WITH
}

/* The largest shape that passes: no sum wraps. */
static void test_the_largest_shape_does_not_overflow(void **unused)
{
    (void)unused;
    model_shape shape = {.layers = 1024,
                         .attention_layers = 1024,
                         .hidden = 1 << 17,
                         .vocab = 1 << 24,
                         .context = 1 << 30,
                         .heads = 1024,
                         .kv_heads = 1024,
                         .head_dim = 4096,
                         .value_dim = 4096,
                         .gated_attention = true,
                         .qk_norm = true,
                         .biases = true,
                         .experts = 4096,
                         .experts_used = 4096,
                         .expert_feed_forward = 1 << 19,
                         .shared_feed_forward = 1 << 19,
                         .shared_gate = true,
                         .router_bias = true,
                         .feed_forward_biases = true,
                         .other_parameters = 10000000000000};
    model_sums sums;
    error err = {0};
    if (model_shape_check(&shape, &err) != OK)
        fail_msg("%s", err.text);
    model_shape_sums(&shape, &sums);
    double experts = 1024.0 * 4096 * 3 * (1 << 17) * (1 << 19);
    assert_true((double)sums.total > experts && (double)sums.total < 1.1 * experts);
    assert_int_equal(sums.total, sums.active + sums.embedding);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hybrid_with_experts),
        cmocka_unit_test(test_dense_and_experts),
        cmocka_unit_test(test_states_are_those_that_are_kept),
        cmocka_unit_test(test_windows_and_latent_attention),
        cmocka_unit_test(test_shapes_that_cannot_be),
        cmocka_unit_test(test_the_largest_shape_does_not_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
