/* model/write/store.c: one encoder a type (formats.md 1 and 3.4). Scales of the microscaling types are the smallest
 * that clip nothing. */
#include "model/write/store.h"

#include <math.h>
#include <string.h>

#include "tensor/quant.h"

enum { MX_BLOCK = 32, AFFINE_GROUP = 64, E8M0_BIAS = 127 };
static const float F16_MAX = 65504.0f, BF16_MAX = 0x1.FEp127f, AFFINE_MAX = 0x1p125f;

static const store_info INFOS[] = {
    [STORE_F32] = {"f32", 1, 1, {{4, 4, "F32"}}},
    [STORE_F16] = {"f16", 1, 1, {{2, 2, "F16"}}},
    [STORE_BF16] = {"bf16", 1, 1, {{2, 2, "BF16"}}},
    [STORE_Q8_0] = {"q8_0", 32, 1, {{34, 1, "U8"}}},
    [STORE_Q4_0] = {"q4_0", 32, 1, {{18, 1, "U8"}}},
    [STORE_MXFP4] = {"mxfp4", 32, 1, {{17, 1, "U8"}}},
    [STORE_MLX_FP8] = {"mxfp8", MX_BLOCK, 2, {{32, 4, "U32"}, {1, 1, "U8"}}},
    [STORE_MLX_FP4] = {"mxfp4", MX_BLOCK, 2, {{16, 4, "U32"}, {1, 1, "U8"}}},
    [STORE_MLX_Q4] = {"affine4", AFFINE_GROUP, 3, {{32, 4, "U32"}, {2, 2, "BF16"}, {2, 2, "BF16"}}},
    [STORE_MLX_Q8] = {"affine8", AFFINE_GROUP, 3, {{64, 4, "U32"}, {2, 2, "BF16"}, {2, 2, "BF16"}}},
};

const store_info *store_of(store kind)
{
    return &INFOS[kind];
}

/* As fminf and fmaxf without their care for NaN, which costs a call. */
static inline float clamp(float x, float low, float high)
{
    return x < low ? low : x > high ? high : x;
}

static void put_u16(uint8_t *out, uint16_t value)
{
    out[0] = (uint8_t)value;
    out[1] = (uint8_t)(value >> 8);
}

/* Over the bits, which order like the magnitudes: integers may be compared in any order, so in vectors. */
static float largest(const float *x, size_t count)
{
    int32_t most = 0;
    for (size_t i = 0; i < count; i++) {
        int32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        bits &= 0x7fffffff;
        most = bits > most ? bits : most;
    }
    float out;
    memcpy(&out, &most, sizeof out);
    return out;
}

static void store_q8_0(const float *x, uint8_t *out)
{
    float scale = f16_to_f32(f32_to_f16(clamp(largest(x, 32) / 127, 0, F16_MAX)));
    float inverse = scale > 0 ? 1 / scale : 0;
    put_u16(out, f32_to_f16(scale));
    for (int i = 0; i < 32; i++)
        out[2 + i] = (uint8_t)(int8_t)lrintf(clamp(x[i] * inverse, -127, 127));
}

static uint8_t nibble_of(float scaled) /* -8 .. 7 as 0 .. 15 */
{
    return (uint8_t)(lrintf(clamp(scaled, -8, 7)) + 8);
}

/* The value of largest magnitude is -8 times the scale: its side has one code more. */
static void store_q4_0(const float *x, uint8_t *out)
{
    float most = largest(x, 32);
    int first = 0;
    while (first < 31 && fabsf(x[first]) != most)
        first++;
    most = x[first];
    float scale = f16_to_f32(f32_to_f16(clamp(most / -8, -F16_MAX, F16_MAX)));
    float inverse = scale != 0 ? 1 / scale : 0;
    put_u16(out, f32_to_f16(scale));
    for (int i = 0; i < 16; i++)
        out[2 + i] = (uint8_t)(nibble_of(x[i] * inverse) | nibble_of(x[i + 16] * inverse) << 4);
}

/* --- microscaling --- */

/* The smallest e with largest <= top * 2^e, as an E8M0 byte; 255 is no number. */
static uint8_t shared_exponent(float most, float top)
{
    if (!(most > 0))
        return 0;
    int exponent;
    float fraction = frexpf(most / top, &exponent); /* in [0.5, 1) */
    int e = fraction == 0.5f ? exponent - 1 : exponent;
    e += E8M0_BIAS;
    return (uint8_t)(e < 1 ? 1 : e > 254 ? 254 : e);
}

static float power_of_two(int exponent) /* -126 .. 127 */
{
    uint32_t bits = (uint32_t)(exponent + 127) << 23;
    float out;
    memcpy(&out, &bits, sizeof out);
    return out;
}

/* 2^-(byte - 127): the largest scale's inverse is the smallest normal float's half, so it is cut by one step. */
static float inverse_scale(uint8_t byte)
{
    return byte ? byte == 254 ? 0.5f * power_of_two(-126) : power_of_two(E8M0_BIAS - byte) : 0;
}

static uint8_t e2m1(float x) /* nearest, ties to the even code; |x| <= 6 */
{
    float a = fabsf(x);
    uint8_t code =
        (uint8_t)((a > 0.25f) + (a >= 0.75f) + (a > 1.25f) + (a >= 1.75f) + (a > 2.5f) + (a >= 3.5f) + (a > 5.0f));
    return (uint8_t)(code | (x < 0 && code ? 8 : 0));
}

static uint8_t e4m3(float x) /* nearest even; |x| <= 448 */
{
    float a = clamp(fabsf(x), 0, 448);
    uint8_t sign = x < 0 ? 0x80 : 0;
    if (a < 0x1p-6f) /* below the normal numbers, steps of 2^-9 */
        return (uint8_t)(sign | (uint8_t)lrintf(a * 512));
    uint32_t bits;
    memcpy(&bits, &a, sizeof bits);
    bits += 0x7ffff + ((bits >> 20) & 1);
    return (uint8_t)(sign | (uint8_t)((bits >> 20) - (120u << 3)));
}

static void codes_fp4(const float *x, uint8_t *scale, uint8_t codes[MX_BLOCK])
{
    *scale = shared_exponent(largest(x, MX_BLOCK), 6);
    float inverse = inverse_scale(*scale);
    for (int i = 0; i < MX_BLOCK; i++)
        codes[i] = e2m1(x[i] * inverse);
}

static void store_mxfp4(const float *x, uint8_t *out)
{
    uint8_t codes[MX_BLOCK];
    codes_fp4(x, out, codes);
    for (int i = 0; i < 16; i++)
        out[1 + i] = (uint8_t)(codes[i] | codes[i + 16] << 4);
}

static void store_mlx_fp4(const float *x, uint8_t *out, uint8_t *scale)
{
    uint8_t codes[MX_BLOCK];
    codes_fp4(x, scale, codes);
    for (int i = 0; i < 16; i++)
        out[i] = (uint8_t)(codes[2 * i] | codes[2 * i + 1] << 4);
}

static void store_mlx_fp8(const float *x, uint8_t *out, uint8_t *scale)
{
    *scale = shared_exponent(largest(x, MX_BLOCK), 448);
    float inverse = inverse_scale(*scale);
    for (int i = 0; i < MX_BLOCK; i++)
        out[i] = e4m3(x[i] * inverse);
}

/* --- affine: w = scale * code + bias --- */

/* The edge of larger magnitude is a code exactly, and so is 0 where the group has both signs. */
static void affine_range(const float *x, float steps, float *scale, float *bias)
{
    float low = x[0], high = x[0];
    for (int i = 1; i < AFFINE_GROUP; i++) {
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    low = clamp(low, -AFFINE_MAX, AFFINE_MAX); /* so that scale * code is finite too */
    high = clamp(high, -AFFINE_MAX, AFFINE_MAX);
    bool from_low = fabsf(low) > fabsf(high);
    float edge = from_low ? low : high, s = fmaxf(high / steps - low / steps, 1e-7f);
    s = from_low ? s : -s;
    float zero = rintf(edge / s); /* -zero is the code of 0; 0: the group is all zero, or nearly */
    *scale = bf16_to_f32(f32_to_bf16(zero != 0 ? edge / zero : s));
    *bias = bf16_to_f32(f32_to_bf16(zero != 0 ? edge : 0));
}

static void store_affine(const float *x, int bits, uint8_t *out, uint8_t *scale_out, uint8_t *bias_out)
{
    float steps = (float)((1 << bits) - 1), scale, bias;
    affine_range(x, steps, &scale, &bias);
    put_u16(scale_out, f32_to_bf16(scale));
    put_u16(bias_out, f32_to_bf16(bias));
    uint8_t codes[AFFINE_GROUP];
    for (int i = 0; i < AFFINE_GROUP; i++)
        codes[i] = (uint8_t)lrintf(clamp((x[i] - bias) / scale, 0, steps));
    if (bits == 8) {
        memcpy(out, codes, AFFINE_GROUP);
        return;
    }
    for (int i = 0; i < AFFINE_GROUP / 2; i++)
        out[i] = (uint8_t)(codes[2 * i] | codes[2 * i + 1] << 4);
}

/* --- rows --- */

static void store_floats(store kind, const float *src, size_t cols, uint8_t *out)
{
    if (kind == STORE_F32) {
        memcpy(out, src, cols * sizeof *src);
        return;
    }
    for (size_t i = 0; i < cols; i++)
        put_u16(out + 2 * i, kind == STORE_F16 ? f32_to_f16(clamp(src[i], -F16_MAX, F16_MAX))
                                               : f32_to_bf16(clamp(src[i], -BF16_MAX, BF16_MAX)));
}

void store_row(store kind, const float *src, size_t cols, uint8_t *const out[STORE_PIECES])
{
    const store_info *info = store_of(kind);
    if (info->block == 1) {
        store_floats(kind, src, cols, out[0]);
        return;
    }
    for (size_t b = 0; b < cols / info->block; b++) {
        const float *x = src + b * info->block;
        uint8_t *to = out[0] + b * info->piece[0].block_bytes;
        switch (kind) {
        case STORE_Q8_0:
            store_q8_0(x, to);
            break;
        case STORE_Q4_0:
            store_q4_0(x, to);
            break;
        case STORE_MXFP4:
            store_mxfp4(x, to);
            break;
        case STORE_MLX_FP8:
            store_mlx_fp8(x, to, out[1] + b);
            break;
        case STORE_MLX_FP4:
            store_mlx_fp4(x, to, out[1] + b);
            break;
        default:
            store_affine(x, kind == STORE_MLX_Q4 ? 4 : 8, to, out[1] + 2 * b, out[2] + 2 * b);
        }
    }
}
