/* Encoders against the decoders of tensor/quant and of formats.md 3.4, with bounds on every value. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "base/rng.h"
#include "model/write/store.h"
#include "tensor/quant.h"

enum { COLS = 192, ROW_BYTES = COLS * 4 };

static const store STORES[] = {STORE_F32,   STORE_F16,     STORE_BF16,    STORE_Q8_0,   STORE_Q4_0,
                               STORE_MXFP4, STORE_MLX_FP8, STORE_MLX_FP4, STORE_MLX_Q4, STORE_MLX_Q8};
enum { STORE_COUNT = sizeof STORES / sizeof *STORES };

typedef struct {
    uint8_t bytes[3][ROW_BYTES];
} encoded;

static encoded encode(store kind, const float *x)
{
    encoded e;
    memset(&e, 0xAA, sizeof e);
    uint8_t *const out[STORE_PIECES] = {e.bytes[0], e.bytes[1], e.bytes[2]};
    store_row(kind, x, COLS, out);
    return e;
}

static float e4m3(uint8_t b)
{
    float m = (float)(b & 7) / 8;
    int e = (b >> 3) & 15;
    float v = e ? ldexpf(1 + m, e - 7) : ldexpf(m, -6);
    return b & 0x80 ? -v : v;
}

static float e2m1(uint8_t b)
{
    static const float VALUES[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    return b & 8 ? -VALUES[b & 7] : VALUES[b & 7];
}

static float bf16_at(const uint8_t *p, int i)
{
    return bf16_to_f32((uint16_t)(p[2 * i] | p[2 * i + 1] << 8));
}

static uint8_t nibble(const uint8_t *p, int i)
{
    return i & 1 ? p[i / 2] >> 4 : p[i / 2] & 15;
}

static void decode(store kind, const encoded *e, float *out)
{
    static const dtype TYPES[] = {[STORE_F32] = DT_F32,   [STORE_F16] = DT_F16,   [STORE_BF16] = DT_BF16,
                                  [STORE_Q8_0] = DT_Q8_0, [STORE_Q4_0] = DT_Q4_0, [STORE_MXFP4] = DT_MXFP4};
    if (kind <= STORE_MXFP4) {
        quant_dequantize_row(TYPES[kind], e->bytes[0], out, COLS);
        return;
    }
    for (int i = 0; i < COLS; i++) {
        const uint8_t *w = e->bytes[0];
        if (kind == STORE_MLX_FP8)
            out[i] = ldexpf(e4m3(w[i]), e->bytes[1][i / 32] - 127);
        else if (kind == STORE_MLX_FP4)
            out[i] = ldexpf(e2m1(nibble(w, i)), e->bytes[1][i / 32] - 127);
        else
            out[i] = bf16_at(e->bytes[1], i / 64) * (float)(kind == STORE_MLX_Q4 ? nibble(w, i) : w[i]) +
                     bf16_at(e->bytes[2], i / 64);
    }
}

/* How far a value may be off, in a group of largest magnitude `most` and width `range`. */
static float allowed(store kind, float x, float most, float range)
{
    switch (kind) {
    case STORE_F32:
        return 0;
    case STORE_F16:
        return fabsf(x) / 2048 + 0x1p-25f;
    case STORE_BF16:
        return fabsf(x) / 256;
    case STORE_Q8_0:
        return most * (0.501f / 127 + 0x1p-11f) + 0x1p-24f * 127;
    case STORE_Q4_0: /* the far edge is a code short */
        return most / 8 * 1.01f + 0x1p-24f * 8;
    case STORE_MXFP4:
    case STORE_MLX_FP4:
        return most / 5 * 1.0001f; /* 5, between 4 and 6 */
    case STORE_MLX_FP8:
        return fabsf(x) / 16 + most / 224 * 0x1p-10f;
    case STORE_MLX_Q4:
        return 1.6f * range / 15 + most / 100;
    default:
        return 1.6f * range / 255 + most / 100;
    }
}

static void check_bounds(store kind, const float *x)
{
    float back[COLS];
    encoded e = encode(kind, x);
    decode(kind, &e, back);
    int block = (int)store_of(kind)->block;
    for (int i = 0; i < COLS; i++) {
        const float *group = x + i / block * block;
        float low = group[0], high = group[0];
        for (int k = 1; k < block; k++) {
            low = fminf(low, group[k]);
            high = fmaxf(high, group[k]);
        }
        float most = fmaxf(fabsf(low), fabsf(high));
        if (!(fabsf(back[i] - x[i]) <= allowed(kind, x[i], most, high - low)))
            fail_msg("%s: value %d: %.9g came back as %.9g", store_of(kind)->name, i, (double)x[i], (double)back[i]);
    }
}

static void every_type_comes_back_within_its_bound(void **state)
{
    (void)state;
    rng r = {7};
    for (int round = 0; round < 400; round++) {
        float x[COLS], scale = ldexpf(1, (int)rng_below(&r, 24) - 16);
        for (int i = 0; i < COLS; i++) {
            float normal = 0;
            for (int k = 0; k < 4; k++)
                normal += (float)rng_unit(&r) - 0.5f;
            x[i] = normal * scale + (round % 3 == 1 ? scale : 0); /* one third without a change of sign */
        }
        for (int s = 0; s < STORE_COUNT; s++)
            check_bounds(STORES[s], x);
    }
}

static void zeros_come_back_as_zeros(void **state)
{
    (void)state;
    float x[COLS] = {0}, back[COLS];
    x[5] = -0.0f;
    for (int s = 0; s < STORE_COUNT; s++) {
        encoded e = encode(STORES[s], x);
        decode(STORES[s], &e, back);
        for (int i = 0; i < COLS; i++)
            assert_true(back[i] == 0);
    }
}

static void the_largest_and_the_smallest_stay_finite(void **state)
{
    (void)state;
    static const float SIZES[] = {0x1p127f, 1e30f, 7e4f, 1e-30f, 1e-38f, 1e-45f};
    for (size_t k = 0; k < sizeof SIZES / sizeof *SIZES; k++) {
        float x[COLS], back[COLS];
        for (int i = 0; i < COLS; i++)
            x[i] = SIZES[k] * ((float)(i % 7 - 3) / 3);
        for (int s = 0; s < STORE_COUNT; s++) {
            encoded e = encode(STORES[s], x);
            decode(STORES[s], &e, back);
            for (int i = 0; i < COLS; i++) {
                assert_true(isfinite(back[i]));
                if (SIZES[k] < 1e5f && !(fabsf(back[i]) <= SIZES[k] * 1.25f + 1e-5f)) /* but for the smallest scale */
                    fail_msg("%s: %g became %g", store_of(STORES[s])->name, (double)x[i], (double)back[i]);
            }
        }
    }
}

static void microscaling_clips_nothing(void **state)
{
    (void)state;
    rng r = {3};
    for (int round = 0; round < 1000; round++) {
        float x[COLS] = {0}, back[COLS];
        x[0] = ldexpf(1 + (float)rng_unit(&r), (int)rng_below(&r, 40) - 20);
        encoded e = encode(STORE_MXFP4, x);
        decode(STORE_MXFP4, &e, back);
        assert_true(fabsf(back[0] - x[0]) <= x[0] / 5);
        e = encode(STORE_MLX_FP8, x);
        decode(STORE_MLX_FP8, &e, back);
        assert_true(fabsf(back[0] - x[0]) <= x[0] / 16);
    }
}

static void values_a_type_has_come_back_exactly(void **state)
{
    (void)state;
    float x[COLS], back[COLS];
    static const store EXACT[] = {STORE_MXFP4, STORE_MLX_FP4};
    for (int i = 0; i < COLS; i++)
        x[i] = ldexpf(e2m1((uint8_t)(i % 16)), i / 32 - 3); /* all codes, so 6 is the largest */
    for (int s = 0; s < 2; s++) {
        encoded e = encode(EXACT[s], x);
        decode(EXACT[s], &e, back);
        assert_memory_equal(back + 1, x + 1, 7 * sizeof *x);
        for (int i = 0; i < COLS; i++)
            assert_true(back[i] == x[i]);
    }
    for (int i = 0; i < COLS; i++)
        x[i] = i % 32 == 31 ? 448 : e4m3((uint8_t)(i % 32 * 4 + i / 32));
    encoded e = encode(STORE_MLX_FP8, x);
    decode(STORE_MLX_FP8, &e, back);
    for (int i = 0; i < COLS; i++)
        assert_true(back[i] == x[i]);
}

static void blocks_have_the_bytes_of_the_format(void **state)
{
    (void)state;
    float x[COLS] = {0};
    for (int i = 0; i < 32; i++)
        x[i] = (float)(i - 16) / 16; /* -1 .. 0.9375 */
    encoded e = encode(STORE_Q4_0, x);
    static const uint8_t Q4[3] = {0x00, 0x30, 0x80}; /* 0.125; -1 below, 0 above */
    for (int i = 0; i < 3; i++)
        assert_int_equal(e.bytes[0][i], Q4[i]);
    e = encode(STORE_MXFP4, x);
    assert_int_equal(e.bytes[0][0], 125);     /* 1 <= 6 * 2^-2 */
    assert_int_equal(e.bytes[0][1] & 15, 14); /* -1 = -4 * 2^-2 */
    assert_int_equal(e.bytes[0][1] >> 4, 0);  /* the second half starts with 0 */
    e = encode(STORE_MLX_FP4, x);
    assert_int_equal(e.bytes[1][0], 125);
    assert_int_equal(e.bytes[0][8] & 15, 0); /* column 16 is the low half of byte 8 */
    e = encode(STORE_Q8_0, x);
    assert_int_equal((int8_t)e.bytes[0][2], -127);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_comes_back_within_its_bound),
        cmocka_unit_test(zeros_come_back_as_zeros),
        cmocka_unit_test(the_largest_and_the_smallest_stay_finite),
        cmocka_unit_test(microscaling_clips_nothing),
        cmocka_unit_test(values_a_type_has_come_back_exactly),
        cmocka_unit_test(blocks_have_the_bytes_of_the_format),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
