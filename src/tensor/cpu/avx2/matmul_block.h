/* tensor/cpu/avx2/matmul_block.h: half a panel (8 rows of weights in the lanes) of one block of 32 columns: codes and
 * scales. */
#ifndef HEADWAY_TENSOR_CPU_AVX2_MATMUL_BLOCK_H
#define HEADWAY_TENSOR_CPU_AVX2_MATMUL_BLOCK_H

#include "tensor/cpu/matmul_kernels.h"
#include "tensor/cpu/unroll.h"

#include <immintrin.h>
#include <string.h>

KERNEL_INLINE __m256i load_plane(const uint8_t *at)
{
    return _mm256_loadu_si256((const __m256i *)at);
}

/* v shifted left by n bits (right when negative); the caller masks. */
KERNEL_INLINE __m256i shift(__m256i v, int n)
{
    return n > 0 ? _mm256_slli_epi16(v, n) : n < 0 ? _mm256_srli_epi16(v, -n) : v;
}

KERNEL_INLINE void add_one_bit_plane(__m256i code[8], const uint8_t *plane, int to_bit)
{
    __m256i v = load_plane(plane), mask = _mm256_set1_epi8((char)(1 << to_bit));
    UNROLL
    for (int g = 0; g < 8; g++)
        code[g] = _mm256_or_si256(code[g], _mm256_and_si256(shift(v, to_bit - g), mask));
}

KERNEL_INLINE void add_two_bit_plane(__m256i code[8], const uint8_t *plane, int to_bit)
{
    __m256i mask = _mm256_set1_epi8((char)(3 << to_bit));
    UNROLL
    for (int g = 0; g < 8; g++) {
        __m256i v = load_plane(plane + 64 * (g / 4));
        code[g] = _mm256_or_si256(code[g], _mm256_and_si256(shift(v, to_bit - 2 * (g % 4)), mask));
    }
}

/* What each nibble stands for, as a signed number. */
static inline __m256i signed_values(const weight_format *f)
{
    __m128i values = _mm_loadu_si128((const __m128i *)f->values);
    return _mm256_broadcastsi128_si256(_mm_sub_epi8(values, _mm_set1_epi8((char)f->zero)));
}

/* `block` points at the half's first 32 bytes. Codes as stored, or code - zero, signed, for nibble tables and 8-bit
 * codes. */
KERNEL_INLINE void load_codes(code_kind kind, bool by_table, __m256i values, const uint8_t *block, __m256i code[8])
{
    UNROLL
    for (int j = 0; j < 4; j++) {
        if (kind < CODES_4 || kind > CODES_6)
            break;
        __m256i v = load_plane(block + 64 * j), low = _mm256_set1_epi8(15);
        code[j] = _mm256_and_si256(v, low);
        code[j + 4] = _mm256_and_si256(_mm256_srli_epi16(v, 4), low);
    }
    if (kind == CODES_5)
        add_one_bit_plane(code, block + 256, 4);
    if (kind == CODES_6)
        add_two_bit_plane(code, block + 256, 4);
    if (kind == CODES_2 || kind == CODES_3) {
        UNROLL
        for (int g = 0; g < 8; g++)
            code[g] = _mm256_setzero_si256();
        add_two_bit_plane(code, block, 0);
    }
    if (kind == CODES_3)
        add_one_bit_plane(code, block + 128, 2);
    UNROLL
    for (int g = 0; g < 8; g++) {
        if (kind == CODES_8)
            code[g] = _mm256_xor_si256(load_plane(block + 64 * g), _mm256_set1_epi8((char)128));
        else if (by_table)
            code[g] = _mm256_shuffle_epi8(values, code[g]);
    }
}

KERNEL_INLINE __m256 load_halves(const uint8_t *at)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)at));
}

KERNEL_INLINE __m256i load_bytes(const uint8_t *at)
{
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)at));
}

KERNEL_INLINE __m256 load_signed(const uint8_t *at)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)at)));
}

KERNEL_INLINE __m256 load_e8m0(const uint8_t *at)
{
    __m256i e = load_bytes(at);
    __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
    __m256i tiny = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
    __m256i small = _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e);
    return _mm256_castsi256_ps(_mm256_blendv_epi8(normal, tiny, small));
}

KERNEL_INLINE __m256 negated_product(__m256 a, __m256 b)
{
    return _mm256_xor_ps(_mm256_mul_ps(a, b), _mm256_set1_ps(-0.0f));
}

/* 8 E4M3 times 2^-8: a half with the exponent 8 too small and the sign one bit too far down. */
KERNEL_INLINE __m256 load_e4m3(const uint8_t *codes)
{
    __m128i wide = _mm_slli_epi16(_mm_cvtepi8_epi16(_mm_loadl_epi64((const __m128i *)codes)), 7);
    return _mm256_cvtph_ps(_mm_and_si128(wide, _mm_set1_epi16((int16_t)0xbfff)));
}

KERNEL_INLINE __m256 load_bf16(const uint8_t *at)
{
    __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)at));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}

/* The scale of 8 rows (half 0 or 1) of the panel for group h (0, or 1 for groups of 16) of block b; *min too where kind
 * has. */
KERNEL_INLINE __m256 load_scale(scale_kind kind, const uint8_t *scales, uint32_t b, int h, int half, __m256 *min)
{
    uint32_t super = b / SUPER_BLOCKS, i = b % SUPER_BLOCKS;
    const uint8_t *unit;
    __m256i both;
    switch (kind) {
    case SCALES_F16:
        return load_halves(scales + 32 * b + 16 * half);
    case SCALES_F16_MIN:
        *min = load_halves(scales + 64 * b + 32 + 16 * half);
        return load_halves(scales + 64 * b + 16 * half);
    case SCALES_E8M0:
        return load_e8m0(scales + 16 * b + 8 * half);
    case SCALES_F32_MIN:
        *min = _mm256_loadu_ps((const float *)(scales + 128 * b + 64 + 32 * half));
        return _mm256_loadu_ps((const float *)(scales + 128 * b + 32 * half));
    case SCALES_BF16_MIN_64:
        *min = load_bf16(scales + 64 * (b / 2) + 32 + 16 * half);
        return load_bf16(scales + 64 * (b / 2) + 16 * half);
    case SCALES_F16_MIN_64:
        *min = load_halves(scales + 64 * (b / 2) + 32 + 16 * half);
        return load_halves(scales + 64 * (b / 2) + 16 * half);
    case SCALES_E4M3_16:
        return _mm256_mul_ps(load_e4m3(scales + 32 * b + 16 * h + 8 * half), _mm256_set1_ps(128.0f));
    case SCALES_K32:
        unit = scales + 160 * super;
        return _mm256_mul_ps(load_halves(unit + 16 * half), load_signed(unit + 32 + 16 * i + 8 * half));
    case SCALES_K32_MIN:
        unit = scales + 320 * super;
        *min = negated_product(load_halves(unit + 32 + 16 * half),
                               _mm256_cvtepi32_ps(load_bytes(unit + 80 + 32 * i + 8 * half)));
        return _mm256_mul_ps(load_halves(unit + 16 * half),
                             _mm256_cvtepi32_ps(load_bytes(unit + 64 + 32 * i + 8 * half)));
    case SCALES_K16:
        unit = scales + 288 * super;
        return _mm256_mul_ps(load_halves(unit + 16 * half), load_signed(unit + 32 + 32 * i + 16 * h + 8 * half));
    default:
        unit = scales + 320 * super;
        both = load_bytes(unit + 64 + 32 * i + 16 * h + 8 * half);
        *min = negated_product(load_halves(unit + 32 + 16 * half), _mm256_cvtepi32_ps(_mm256_srli_epi32(both, 4)));
        return _mm256_mul_ps(load_halves(unit + 16 * half),
                             _mm256_cvtepi32_ps(_mm256_and_si256(both, _mm256_set1_epi32(15))));
    }
}

KERNEL_INLINE __m256 finish_half(__m256 acc, const float *bias, const float *old)
{
    if (bias)
        acc = _mm256_add_ps(acc, _mm256_loadu_ps(bias));
    return old ? _mm256_add_ps(acc, _mm256_loadu_ps(old)) : acc;
}

static inline void store_row(__m256 low, __m256 high, const panel_out *to, uint32_t r)
{
    float *out = to->out + r * to->stride, lanes[3][PANEL_ROWS] = {{0}}; /* result, bias, old, of a short panel */
    bool whole = to->lanes == PANEL_ROWS;
    const float *bias = to->bias, *old = to->add ? out : NULL;
    if (!whole && bias)
        bias = memcpy(lanes[1], bias, to->lanes * sizeof(float));
    if (!whole && old)
        old = memcpy(lanes[2], old, to->lanes * sizeof(float));
    float *result = whole ? out : lanes[0];
    _mm256_storeu_ps(result, finish_half(low, bias, old));
    _mm256_storeu_ps(result + 8, finish_half(high, bias ? bias + 8 : NULL, old ? old + 8 : NULL));
    if (!whole)
        memcpy(out, result, to->lanes * sizeof(float));
}

#endif
