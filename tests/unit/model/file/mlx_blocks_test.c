/* mlx_blocks_test.c: a 4-bit affine row has the same values, whether its 16-bit scales are kept or widened. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"
#include "model/file/hf.h"
#include "tensor/quant.h"

#include <string.h>

enum { ROWS = 3, COLS = 256, CODE_BYTES = COLS / 2 };

static void check(st_dtype kept, dtype type, uint32_t group)
{
    rng r = {type + group};
    uint8_t codes[ROWS * CODE_BYTES], narrow[ROWS * COLS], wide[ROWS * COLS];
    uint16_t scales[ROWS * COLS / 64], biases[ROWS * COLS / 64];
    float want[COLS], got[COLS];
    for (size_t i = 0; i < sizeof codes; i++)
        codes[i] = (uint8_t)rng_below(&r, 256);
    for (size_t i = 0; i < ROWS * COLS / 64; i++) {
        float x = (float)rng_unit(&r), y = (float)rng_unit(&r) - 0.5f;
        scales[i] = kept == ST_BF16 ? f32_to_bf16(x) : f32_to_f16(x);
        biases[i] = kept == ST_BF16 ? f32_to_bf16(y) : f32_to_f16(y);
    }
    hf_matrix m = {.form = MLX_AFFINE, .type = type, .cols = COLS, .group = group, .bits = 4, .scale_dtype = kept};
    m.weight = codes, m.weight_row = CODE_BYTES;
    m.scales = (const uint8_t *)scales, m.biases = (const uint8_t *)biases, m.scale_row = COLS / group * 2;
    for (uint64_t row = 0; row < ROWS; row++) {
        m.type = type;
        mlx_row_blocks(&m, row, narrow);
        m.type = DT_AFFINE4;
        mlx_row_blocks(&m, row, wide);
        quant_dequantize_row(type, narrow, got, COLS);
        quant_dequantize_row(DT_AFFINE4, wide, want, COLS);
        assert_memory_equal(got, want, sizeof got);
        assert_true(want[0] != want[1] || want[2] != want[3]);
    }
}

static void kept_scales_are_the_same_values(void **state)
{
    (void)state;
    check(ST_BF16, DT_AFFINE4_BF16, 64);
    check(ST_BF16, DT_AFFINE4_BF16, 128);
    check(ST_F16, DT_AFFINE4_F16, 64);
    check(ST_F16, DT_AFFINE4_F16, 128);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(kept_scales_are_the_same_values)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
