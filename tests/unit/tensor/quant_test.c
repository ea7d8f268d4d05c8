/* The stored types against llama.cpp's values (tests/numeric/vectors/quant.bin, made by
 * tests/numeric/quant_vectors.py), and the half floats against arithmetic. The path of the vectors: env
 * HEADWAY_VECTORS, default tests/numeric/vectors. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "tensor/quant.h"

typedef struct {
    uint32_t type, elems, bytes;
    const uint8_t *data;
    const uint8_t *values; /* f32, unaligned */
} vector_case;

enum { CASES_MAX = 32, ELEMS_MAX = 4096 };

typedef struct {
    uint8_t *file;
    uint32_t count;
    vector_case cases[CASES_MAX];
} vectors;

static void read_vectors(vectors *v)
{
    const char *folder = getenv("HEADWAY_VECTORS");
    char path[1024];
    snprintf(path, sizeof path, "%s/quant.bin", folder ? folder : "tests/numeric/vectors");
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    v->file = malloc(1 << 20);
    size_t size = fread(v->file, 1, 1 << 20, f);
    fclose(f);
    const uint8_t *p = v->file;
    memcpy(&v->count, p, 4);
    assert_in_range(v->count, 1, CASES_MAX);
    p += 4;
    for (uint32_t i = 0; i < v->count; i++) {
        vector_case *c = &v->cases[i];
        memcpy(&c->type, p, 4);
        memcpy(&c->elems, p + 4, 4);
        memcpy(&c->bytes, p + 8, 4);
        assert_in_range(c->elems, 1, ELEMS_MAX);
        c->data = p + 12;
        c->values = c->data + c->bytes;
        p = c->values + 4 * c->elems;
    }
    assert_int_equal(p - v->file, size);
}

static void dequantizes_every_type_as_llama_cpp_does(void **state)
{
    (void)state;
    vectors v;
    read_vectors(&v);
    for (uint32_t i = 0; i < v.count; i++) {
        const vector_case *c = &v.cases[i];
        float expected[ELEMS_MAX], found[ELEMS_MAX];
        memcpy(expected, c->values, 4 * c->elems);
        quant_dequantize_row((dtype)c->type, c->data, found, c->elems);
        for (uint32_t e = 0; e < c->elems; e++)
            if (expected[e] != found[e])
                fail_msg("%s element %u: %.9g, expected %.9g", dtype_get(c->type)->name, e, found[e], expected[e]);
    }
    free(v.file);
}

static void has_vectors_for_every_supported_type(void **state)
{
    (void)state;
    vectors v;
    read_vectors(&v);
    for (uint32_t id = 0; id < DT_OWN; id++) { /* the loaders' own: model/file/mlx_test.c */
        const dtype_info *info = dtype_get(id);
        bool seen = id == DT_F32;
        for (uint32_t i = 0; i < v.count; i++)
            seen |= v.cases[i].type == id;
        if (info && info->supported != seen)
            fail_msg("%s: supported %d, in the vectors %d", info->name, info->supported, seen);
    }
    free(v.file);
}

static void splits_into_codes_scales_and_mins_exactly(void **state)
{
    (void)state;
    vectors v;
    read_vectors(&v);
    for (uint32_t i = 0; i < v.count; i++) {
        const vector_case *c = &v.cases[i];
        if (c->type == DT_F16 || c->type == DT_BF16)
            continue;
        quant_shape shape = quant_shape_of((dtype)c->type);
        uint8_t codes[ELEMS_MAX];
        float scales[ELEMS_MAX / 16], mins[ELEMS_MAX / 16], expected[ELEMS_MAX];
        memset(mins, 0x7f, sizeof mins);
        memcpy(expected, c->values, 4 * c->elems);
        quant_split_row((dtype)c->type, c->data, c->elems, codes, scales, mins);
        for (uint32_t e = 0; e < c->elems; e++) {
            uint32_t g = e / shape.group;
            float value = scales[g] * (float)(codes[e] - shape.zero) + mins[g];
            if (value != expected[e])
                fail_msg("%s element %u: %.9g, expected %.9g", dtype_get(c->type)->name, e, value, expected[e]);
            assert_true(shape.has_min || mins[g] == 0);
        }
    }
    free(v.file);
}

static void reads_rows_at_odd_addresses_and_writes_no_further(void **state)
{
    (void)state;
    vectors v;
    read_vectors(&v);
    for (uint32_t i = 0; i < v.count; i++) {
        const vector_case *c = &v.cases[i];
        uint32_t elems = dtype_get(c->type)->block_elems;
        uint8_t *copy = malloc(dtype_get(c->type)->block_bytes + 1);
        float *found = malloc(elems * sizeof *found);
        memcpy(copy + 1, c->data, dtype_get(c->type)->block_bytes);
        quant_dequantize_row((dtype)c->type, copy + 1, found, elems);
        assert_memory_equal(found, c->values, elems * sizeof *found);
        free(copy);
        free(found);
    }
    free(v.file);
}

static float exact_half(uint32_t bits)
{
    int exponent = bits >> 10 & 31;
    double mantissa = bits & 0x3ff;
    double magnitude = exponent == 0    ? ldexp(mantissa, -24)
                       : exponent == 31 ? (mantissa == 0 ? INFINITY : NAN)
                                        : ldexp(1024 + mantissa, exponent - 25);
    return (float)(bits & 0x8000 ? -magnitude : magnitude);
}

static void converts_all_halves_exactly_and_back(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        float expected = exact_half(bits), found = f16_to_f32((uint16_t)bits);
        if (isnan(expected)) {
            assert_true(isnan(found));
            assert_int_equal(f32_to_f16(found), bits | 0x200);
            assert_int_equal(f32_to_bf16(bf16_to_f32((uint16_t)(bits | 0x7f80 | 1))) & 0x7f80, 0x7f80);
            continue;
        }
        assert_memory_equal(&expected, &found, sizeof found);
        assert_int_equal(f32_to_f16(found), bits);
    }
}

/* Nearest half by trying both neighbours; ties to the even one. */
static uint16_t nearest_half(float value)
{
    uint16_t low = 0, high = 0x7c00; /* magnitudes, ordered as their bits are */
    double x = fabs((double)value);
    while (high - low > 1) {
        uint16_t middle = (uint16_t)((low + high) / 2);
        *(exact_half(middle) <= x ? &low : &high) = middle;
    }
    double below = x - exact_half(low), above = (high == 0x7c00 ? 65536.0 : exact_half(high)) - x;
    uint16_t nearest = below < above || (below == above && low % 2 == 0) ? low : high;
    return (uint16_t)(nearest | (signbit(value) ? 0x8000 : 0));
}

static void rounds_floats_to_the_nearest_even_half(void **state)
{
    (void)state;
    rng r = {7};
    for (int i = 0; i < 100000; i++) {
        uint32_t bits = (uint32_t)rng_next(&r);
        if (i % 2) /* inside the range of halves, often exactly between two */
            bits = (bits & 0x80000000) | ((bits >> 8 & 0xff) % 36 + 100) << 23 | (bits & 0x7ff) << 12;
        float value;
        memcpy(&value, &bits, sizeof value);
        if (isnan(value))
            assert_int_equal(f32_to_f16(value) & 0x7e00, 0x7e00);
        else if (f32_to_f16(value) != nearest_half(value))
            fail_msg("%.9g: %04x, expected %04x", value, f32_to_f16(value), nearest_half(value));
    }
    assert_int_equal(f32_to_f16(65519.0f), 0x7bff);
    assert_int_equal(f32_to_f16(65520.0f), 0x7c00);
    assert_int_equal(f32_to_f16(-INFINITY), 0xfc00);
    assert_int_equal(f32_to_f16(0x1p-25f), 0);
    assert_int_equal(f32_to_f16(0x1.8p-25f), 1);
}

static void rounds_floats_to_the_nearest_even_bf16(void **state)
{
    (void)state;
    assert_int_equal(f32_to_bf16(1.0f), 0x3f80);
    assert_int_equal(f32_to_bf16(0x1.01p0f), 0x3f80); /* a tie goes to even */
    assert_int_equal(f32_to_bf16(0x1.03p0f), 0x3f82); /* a tie goes to even */
    assert_int_equal(f32_to_bf16(0x1.010002p0f), 0x3f81);
    assert_int_equal(f32_to_bf16(0x1.fffffep127f), 0x7f80); /* overflow to infinity */
    assert_int_equal(f32_to_bf16(NAN) & 0x7fc0, 0x7fc0);
    assert_true(bf16_to_f32(0xc040) == -3.0f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dequantizes_every_type_as_llama_cpp_does),
        cmocka_unit_test(has_vectors_for_every_supported_type),
        cmocka_unit_test(splits_into_codes_scales_and_mins_exactly),
        cmocka_unit_test(reads_rows_at_odd_addresses_and_writes_no_further),
        cmocka_unit_test(converts_all_halves_exactly_and_back),
        cmocka_unit_test(rounds_floats_to_the_nearest_even_half),
        cmocka_unit_test(rounds_floats_to_the_nearest_even_bf16),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
