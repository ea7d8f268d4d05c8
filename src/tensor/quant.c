/* tensor/quant.c: half floats, and the table that leads from a type to its splitter. Dequantizing is splitting, then
 * scale * (code - zero) + min: in that order of operations, which is the closed form's own. */
#include "tensor/quant.h"

#include <assert.h>

#include "tensor/quant_split.h"

static float float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t bits_of_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* All ones where `test` holds: masks in place of branches let a loop of conversions become vector code. */
static uint32_t mask_of(bool test)
{
    return 0u - (uint32_t)test;
}

float f16_to_f32(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t magnitude = half & 0x7fff;
    uint32_t normal = (magnitude << 13) + (112u << 23);
    normal += mask_of(magnitude >= 0x7c00) & 112u << 23;                 /* infinity, NaN */
    normal |= mask_of(magnitude > 0x7c00) & 0x400000;                    /* NaNs become quiet */
    uint32_t tiny = bits_of_float((float)(int32_t)magnitude * 0x1p-24f); /* exact */
    uint32_t is_tiny = mask_of(magnitude < 0x400);
    return float_of_bits(sign | (normal & ~is_tiny) | (tiny & is_tiny));
}

uint16_t f32_to_f16(float value)
{
    uint32_t bits = bits_of_float(value);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    bits &= 0x7fffffff;
    if (bits > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (bits >> 13 & 0x3ff));
    if (bits >= 0x477ff000) /* 65520, halfway between the largest half and the next power of two */
        return sign | 0x7c00;
    if (bits < 0x38800000) /* below 2^-14: adding 0.5 rounds to a multiple of 2^-24 */
        return (uint16_t)(sign | (bits_of_float(float_of_bits(bits) + 0.5f) - 0x3f000000));
    return (uint16_t)(sign | ((bits - (112u << 23) + 0xfff + (bits >> 13 & 1)) >> 13));
}

float bf16_to_f32(uint16_t half)
{
    return float_of_bits((uint32_t)half << 16);
}

uint16_t f32_to_bf16(float value)
{
    uint32_t bits = bits_of_float(value);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static const struct {
    split_fn *split;
    quant_shape shape;
} QUANTS[DT_COUNT] = {
    [DT_Q4_0] = {split_q4_0, {32, 8, false}},
    [DT_Q4_1] = {split_q4_1, {32, 0, true}},
    [DT_Q5_0] = {split_q5_0, {32, 16, false}},
    [DT_Q5_1] = {split_q5_1, {32, 0, true}},
    [DT_Q8_0] = {split_q8_0, {32, 128, false}},
    [DT_Q2_K] = {split_q2_k, {16, 0, true}},
    [DT_Q3_K] = {split_q3_k, {16, 4, false}},
    [DT_Q4_K] = {split_q4_k, {32, 0, true}},
    [DT_Q5_K] = {split_q5_k, {32, 0, true}},
    [DT_Q6_K] = {split_q6_k, {16, 32, false}},
    [DT_IQ4_NL] = {split_iq4_nl, {32, 128, false}},
    [DT_IQ4_XS] = {split_iq4_xs, {32, 128, false}},
    [DT_MXFP4] = {split_mxfp4, {32, 12, false}},
    [DT_NVFP4] = {split_nvfp4, {16, 12, false}},
    [DT_AFFINE2] = {split_affine2, {32, 0, true}},
    [DT_AFFINE3] = {split_affine3, {32, 0, true}},
    [DT_AFFINE4] = {split_affine4, {32, 0, true}},
    [DT_AFFINE5] = {split_affine5, {32, 0, true}},
    [DT_AFFINE6] = {split_affine6, {32, 0, true}},
    [DT_AFFINE8] = {split_affine8, {32, 0, true}},
    [DT_AFFINE4_BF16] = {split_affine4_bf16, {32, 0, true}},
    [DT_AFFINE4_F16] = {split_affine4_f16, {32, 0, true}},
};

quant_shape quant_shape_of(dtype type)
{
    assert((unsigned)type < DT_COUNT && QUANTS[type].split);
    return QUANTS[type].shape;
}

void quant_split_row(dtype type, const void *src, size_t elems, uint8_t *codes, float *scales, float *mins)
{
    quant_shape shape = quant_shape_of(type);
    QUANTS[type].split(src, elems / dtype_get(type)->block_elems, codes, scales, mins);
    if (!shape.has_min)
        memset(mins, 0, elems / shape.group * sizeof *mins);
}

static void join_groups(quant_shape shape, const uint8_t *codes, const float *scales, const float *mins, float *dst,
                        size_t groups)
{
    for (size_t g = 0; g < groups; g++, codes += shape.group, dst += shape.group) {
        float scale = scales[g], min = shape.has_min ? mins[g] : -0.0f; /* x + -0 is x, the sign of zero included */
        for (uint32_t i = 0; i < shape.group; i++)
            dst[i] = scale * (float)((int32_t)codes[i] - shape.zero) + min;
    }
}

static void dequantize_blocks(dtype type, const uint8_t *src, float *dst, size_t elems)
{
    enum { CHUNK = 256 }; /* a multiple of every block */
    quant_shape shape = quant_shape_of(type);
    const dtype_info *info = dtype_get(type);
    uint8_t codes[CHUNK];
    float scales[CHUNK / 16], mins[CHUNK / 16];
    for (size_t done = 0; done < elems; done += CHUNK) {
        size_t count = elems - done < CHUNK ? elems - done : CHUNK;
        QUANTS[type].split(src + dtype_row_bytes(info, done), count / info->block_elems, codes, scales, mins);
        join_groups(shape, codes, scales, mins, dst + done, count / shape.group);
    }
}

float e8m0_to_f32(uint8_t exponent)
{
    return float_of_bits(exponent ? (uint32_t)exponent << 23 : 0x00400000u);
}

float e4m3_to_f32(uint8_t code)
{
    return f16_to_f32((uint16_t)((code & 127) << 7 | (code & 128) << 8)) * 256.0f;
}

static void dequantize_mxfp8(const uint8_t *src, float *dst, size_t elems)
{
    for (size_t i = 0; i < elems; i++)
        dst[i] = e4m3_to_f32(src[i / 32 * 33 + 1 + i % 32]) * e8m0_to_f32(src[i / 32 * 33]);
}

void quant_dequantize_row(dtype type, const void *src, float *dst, size_t elems)
{
    const uint8_t *bytes = src;
    switch (type) {
    case DT_F32:
        memcpy(dst, src, elems * sizeof *dst);
        return;
    case DT_F16:
        for (size_t i = 0; i < elems; i++)
            dst[i] = half_at(bytes + 2 * i);
        return;
    case DT_BF16:
        for (size_t i = 0; i < elems; i++) {
            uint16_t half;
            memcpy(&half, bytes + 2 * i, sizeof half);
            dst[i] = bf16_to_f32(half);
        }
        return;
    case DT_MXFP8:
        dequantize_mxfp8(bytes, dst, elems);
        return;
    default:
        dequantize_blocks(type, bytes, dst, elems);
    }
}
