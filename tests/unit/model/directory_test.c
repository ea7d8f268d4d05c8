/* tests/unit/model/directory_test.c: models given as directories: our logits against those of the library that wrote
 * them (tests/numeric/hf_vectors.py, mlx_vectors.py). */
#include "fixture.h"

#include <math.h>

#define HF_VECTORS "tests/numeric/vectors/hf/"

enum { PAGES = 8 };

/* max |d| over the range of the wanted logits; the prompt in two chunks, the second of one token at a time. */
static double difference_of(const char *name, uint32_t prefill)
{
    char path[256];
    uint32_t shape[2], pages[PAGES];
    snprintf(path, sizeof path, HF_VECTORS "%s.bin", name);
    FILE *in = fopen(path, "rb");
    assert_non_null(in);
    assert_int_equal(fread(shape, 4, 2, in), 2);
    size_t count = (size_t)shape[0] * shape[1];
    int32_t *tokens = malloc(shape[0] * sizeof *tokens);
    float *want = malloc(count * sizeof *want), *got = malloc(count * sizeof *got);
    assert_int_equal(fread(tokens, 4, shape[0], in) + fread(want, 4, count, in), shape[0] + count);
    fclose(in);

    fixture f;
    batch *b;
    error err;
    snprintf(path, sizeof path, HF_VECTORS "%s", name);
    fixture_open(&f, path, 2, PAGES);
    assert_int_equal(f.model->config.vocab, shape[1]);
    assert_int_equal(batch_create(&b, f.model, shape[0], 1, &err), OK);
    for (uint32_t i = 0; i < PAGES; i++)
        pages[i] = PAGES - 1 - i;
    for (uint32_t at = 0, n; at < shape[0]; at += n) {
        n = at < prefill ? prefill : 1;
        batch_start(b, f.cache, f.states);
        batch_add(b, 1, pages, at, tokens + at, n);
        while (!batch_advance(f.model, b))
            ;
        fixture_logits(&f, b, got + (size_t)at * shape[1]);
    }
    float low = want[0], high = low;
    double worst = 0;
    for (size_t i = 0; i < count; i++) {
        low = fminf(low, want[i]);
        high = fmaxf(high, want[i]);
        worst = fmax(worst, fabs((double)got[i] - (double)want[i]));
    }
    batch_destroy(f.model, b);
    fixture_close(&f);
    free(tokens);
    free(want);
    free(got);
    worst /= (double)high - (double)low;
    printf("%-16s max |d| of range: %.1e\n", name, worst);
    return worst;
}

#define CASE(name, tolerance)                                                                                          \
    static void name##_agrees(void **state)                                                                            \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        assert_true(difference_of(#name, 25) <= (tolerance));                                                          \
    }
CASE(llama_f32, 1e-4)
CASE(qwen2_f16, 1e-4)
CASE(qwen3_sharded, 1e-4)
CASE(qwen3_fp8, 1e-4)
CASE(gemma3_bf16, 1e-4)
CASE(qwen3moe, 1e-4)
CASE(qwen3next, 1e-4)
CASE(qwen35moe, 1e-4)
/* Made by mlx-lm. Integer kernels round activations to 8 bits; byte types (mxfp8, affine 8) do not. */
CASE(mlx_affine, 6e-3)
CASE(mlx_floats, 4e-3)
CASE(mlx_qwen35moe, 2e-4)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama_f32_agrees),     cmocka_unit_test(qwen2_f16_agrees),
        cmocka_unit_test(qwen3_sharded_agrees), cmocka_unit_test(qwen3_fp8_agrees),
        cmocka_unit_test(gemma3_bf16_agrees),   cmocka_unit_test(qwen3moe_agrees),
        cmocka_unit_test(qwen3next_agrees),     cmocka_unit_test(qwen35moe_agrees),
        cmocka_unit_test(mlx_affine_agrees),    cmocka_unit_test(mlx_floats_agrees),
        cmocka_unit_test(mlx_qwen35moe_agrees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
