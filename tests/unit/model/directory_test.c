/* tests/unit/model/directory_test.c: models given as directories: our logits against those of the library that wrote
 * them (tests/numeric/hf_vectors.py, mlx_vectors.py). */
#include "fixture.h"

#include <math.h>

#define HF_VECTORS "tests/numeric/vectors/hf/"

enum { PAGES = 8 };

typedef struct {
    double worst, mean; /* of |d|, over the range of the wanted logits */
    bool halves;        /* this machine's kernels round what meets mxfp8 to bf16 */
} difference;

/* The prompt in two chunks, the second of one token at a time. */
static difference difference_of(const char *name, uint32_t prefill)
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
    difference d = {.halves = !strcmp(f.device->kernels, "avx512bf16")};
    for (size_t i = 0; i < count; i++) {
        low = fminf(low, want[i]);
        high = fmaxf(high, want[i]);
        double off = fabs((double)got[i] - (double)want[i]);
        d.worst = fmax(d.worst, off);
        d.mean += off / (double)count;
    }
    batch_destroy(f.model, b);
    fixture_close(&f);
    free(tokens);
    free(want);
    free(got);
    d.worst /= (double)high - (double)low;
    d.mean /= (double)high - (double)low;
    printf("%-16s |d| of range: max %.1e, mean %.1e\n", name, d.worst, d.mean);
    return d;
}

#define CASE(name, tolerance)                                                                                          \
    static void name##_agrees(void **state)                                                                            \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        assert_true(difference_of(#name, 25).worst <= (tolerance));                                                    \
    }
CASE(llama_f32, 1e-4)
CASE(qwen2_f16, 1e-4)
CASE(qwen3_sharded, 1e-4)
CASE(qwen3_fp8, 1e-4)
CASE(gemma3_bf16, 1e-4)
CASE(qwen3moe, 1e-4)
CASE(qwen3next, 1e-4)
CASE(qwen35moe, 1e-4)
/* Made by mlx-lm. Integer kernels round activations to 8 bits; byte types (mxfp8, affine 8) do not, or to bf16. */
CASE(mlx_affine, 6e-3)
CASE(mlx_floats, 4e-3)

/* All mxfp8. Rounding to bf16 is 1e-3 of a product; where a small row is normalized, more of the logits. */
static void mlx_qwen35moe_agrees(void **state)
{
    (void)state;
    difference d = difference_of("mlx_qwen35moe", 25);
    assert_true(d.mean <= (d.halves ? 1e-3 : 4e-5) && d.worst <= (d.halves ? 1.5e-2 : 2e-4));
    if (!d.halves)
        return;
    setenv("HEADWAY_CPU", "avx512", 1);
    d = difference_of("mlx_qwen35moe", 25);
    assert_true(!d.halves && d.worst <= 2e-4);
    unsetenv("HEADWAY_CPU");
}

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
