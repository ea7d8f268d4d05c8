/* tensor/cpu/avx512/matmul_block.h: one block of 32 columns, 16 rows of weights in the lanes. Codes are shifted so that
 * the zero of every type without a min is CODE_ZERO: then -CODE_ZERO sum(q) starts the integer dot, and one kernel
 * serves all. */
#ifndef HEADWAY_TENSOR_CPU_AVX512_MATMUL_BLOCK_H
#define HEADWAY_TENSOR_CPU_AVX512_MATMUL_BLOCK_H

#include "tensor/cpu/matmul_kernels.h"
#include "tensor/cpu/unroll.h"

#include <immintrin.h>
#include <string.h>

enum {
    CODE_ZERO = 128,
    /* How far ahead of its use a line is asked for: about what a core reads from memory in 300 ns. It runs over the
     * panel's end into the next one, which is what is read next. */
    PREFETCH_BYTES = 8192,
};

/* Asks for one block's share of the panel, its codes and at most 64 bytes of scales, into L2: the few requests that L1
 * keeps open would be the limit. */
KERNEL_INLINE void prefetch_block(const uint8_t *ahead, size_t block_bytes)
{
    UNROLL
    for (size_t line = 0; line < 9; line++)
        if (64 * line < block_bytes + 64)
            _mm_prefetch((const char *)ahead + 64 * line, _MM_HINT_T1);
}

KERNEL_INLINE __m512i broadcast_i32(const uint8_t *at)
{
    int32_t x;
    memcpy(&x, at, 4);
    return _mm512_set1_epi32(x);
}

/* Four bytes anywhere, as an operand that the instruction itself broadcasts. */
typedef struct {
    int32_t value;
} __attribute__((packed, may_alias)) four_bytes;

/* acc += codes times four bytes of x. Written out, because GCC makes two instructions of it, and fetching those is then
 * what limits. */
KERNEL_INLINE __m512i dot_four(__m512i acc, __m512i codes, const uint8_t *x)
{
    __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(acc) : "v"(codes), "m"(*(const four_bytes *)x));
    return acc;
}

KERNEL_INLINE __m512 broadcast_f32(const uint8_t *at)
{
    float x;
    memcpy(&x, at, 4);
    return _mm512_set1_ps(x);
}

/* v shifted left by n bits (right when negative) inside bytes; the caller masks. */
KERNEL_INLINE __m512i shift(__m512i v, int n)
{
    return n > 0 ? _mm512_slli_epi16(v, (unsigned)n) : n < 0 ? _mm512_srli_epi16(v, (unsigned)-n) : v;
}

KERNEL_INLINE __m512i or_masked(__m512i a, __m512i b, __m512i mask)
{
    return _mm512_ternarylogic_epi32(a, b, mask, 0xF8); /* a | (b & mask) */
}

KERNEL_INLINE void add_one_bit_plane(__m512i code[8], const uint8_t *plane, int to_bit)
{
    __m512i v = _mm512_loadu_si512(plane), mask = _mm512_set1_epi8((char)(1 << to_bit));
    UNROLL
    for (int g = 0; g < 8; g++)
        code[g] = or_masked(code[g], shift(v, to_bit - g), mask);
}

KERNEL_INLINE void add_two_bit_plane(__m512i code[8], const uint8_t *plane, int to_bit)
{
    __m512i mask = _mm512_set1_epi8((char)(3 << to_bit));
    UNROLL
    for (int g = 0; g < 8; g++)
        code[g] = or_masked(code[g], shift(_mm512_loadu_si512(plane + 64 * (g / 4)), to_bit - 2 * (g % 4)), mask);
}

/* What turns stored codes into shifted ones: a table for nibbles, or a number to add. */
typedef struct {
    __m512i values, offset;
    bool by_table;
} code_map;

static inline code_map code_map_of(const weight_format *f)
{
    char offset = (char)(f->has_min ? 0 : CODE_ZERO - f->zero);
    code_map map = {.offset = _mm512_set1_epi8(offset), .by_table = f->values != NULL};
    if (f->values) {
        __m128i values = _mm_loadu_si128((const __m128i *)f->values);
        map.values = _mm512_add_epi8(_mm512_broadcast_i32x4(values), map.offset);
    }
    return map;
}

KERNEL_INLINE void load_codes(code_kind kind, bool by_table, bool has_min, code_map map, const uint8_t *block,
                              __m512i code[8])
{
    __m512i low = _mm512_set1_epi8(15);
    UNROLL
    for (int j = 0; j < 4; j++) {
        if (kind < CODES_4 || kind > CODES_6)
            break;
        __m512i v = _mm512_loadu_si512(block + 64 * j);
        code[j] = _mm512_and_si512(v, low);
        code[j + 4] = _mm512_and_si512(_mm512_srli_epi16(v, 4), low);
    }
    if (kind == CODES_5)
        add_one_bit_plane(code, block + 256, 4);
    if (kind == CODES_6)
        add_two_bit_plane(code, block + 256, 4);
    if (kind == CODES_2 || kind == CODES_3) {
        UNROLL
        for (int g = 0; g < 8; g++)
            code[g] = _mm512_setzero_si512();
        add_two_bit_plane(code, block, 0);
    }
    if (kind == CODES_3)
        add_one_bit_plane(code, block + 128, 2);
    UNROLL
    for (int g = 0; g < 8; g++) {
        if (kind == CODES_8)
            code[g] = _mm512_loadu_si512(block + 64 * g);
        else if (by_table)
            code[g] = _mm512_shuffle_epi8(map.values, code[g]);
        else if (!has_min)
            code[g] = _mm512_add_epi8(code[g], map.offset);
    }
}

KERNEL_INLINE __m512 load_halves(const uint8_t *at)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)at));
}

KERNEL_INLINE __m512 load_bf16(const uint8_t *at)
{
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)at));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

KERNEL_INLINE __m512 load_signed(const uint8_t *at)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)at)));
}

KERNEL_INLINE __m512 load_unsigned(const uint8_t *at)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)at)));
}

KERNEL_INLINE __m512 load_e8m0(const uint8_t *at)
{
    __m512i e = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)at));
    __m512i normal = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
    __m512i tiny = _mm512_sllv_epi32(_mm512_set1_epi32(0x00200000), e);
    __mmask16 small = _mm512_cmplt_epi32_mask(e, _mm512_set1_epi32(2));
    return _mm512_castsi512_ps(_mm512_mask_blend_epi32(small, normal, tiny));
}

/* 16 E4M3 times 2^-8: a half with the exponent 8 too small and the sign one bit too far down. */
KERNEL_INLINE __m512 load_e4m3(const uint8_t *codes)
{
    __m256i wide = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)codes));
    return _mm512_cvtph_ps(_mm256_and_si256(_mm256_slli_epi16(wide, 7), _mm256_set1_epi16((int16_t)0xbfff)));
}

KERNEL_INLINE __m512 negated_product(__m512 a, __m512 b)
{
    return _mm512_xor_ps(_mm512_mul_ps(a, b), _mm512_set1_ps(-0.0f));
}

/* Scales (and mins) of block b: one of each, or two for groups of 16. */
KERNEL_INLINE void load_scales(scale_kind kind, const uint8_t *scales, uint32_t b, __m512 s[2], __m512 m[2])
{
    uint32_t super = b / SUPER_BLOCKS, i = b % SUPER_BLOCKS;
    if (kind == SCALES_F16) {
        s[0] = load_halves(scales + 32 * b);
    } else if (kind == SCALES_F16_MIN) {
        s[0] = load_halves(scales + 64 * b);
        m[0] = load_halves(scales + 64 * b + 32);
    } else if (kind == SCALES_E8M0) {
        s[0] = load_e8m0(scales + 16 * b);
    } else if (kind == SCALES_F32_MIN) {
        s[0] = _mm512_loadu_ps(scales + 128 * b);
        m[0] = _mm512_loadu_ps(scales + 128 * b + 64);
    } else if (kind == SCALES_BF16_MIN_64) {
        s[0] = load_bf16(scales + 64 * (b / 2));
        m[0] = load_bf16(scales + 64 * (b / 2) + 32);
    } else if (kind == SCALES_F16_MIN_64) {
        s[0] = load_halves(scales + 64 * (b / 2));
        m[0] = load_halves(scales + 64 * (b / 2) + 32);
    } else if (kind == SCALES_E4M3_16) {
        UNROLL
        for (int h = 0; h < 2; h++)
            s[h] = _mm512_mul_ps(load_e4m3(scales + 32 * b + 16 * h), _mm512_set1_ps(128.0f));
    } else if (kind == SCALES_K32) {
        const uint8_t *unit = scales + 160 * super;
        s[0] = _mm512_mul_ps(load_halves(unit), load_signed(unit + 32 + 16 * i));
    } else if (kind == SCALES_K32_MIN) {
        const uint8_t *unit = scales + 320 * super;
        s[0] = _mm512_mul_ps(load_halves(unit), load_unsigned(unit + 64 + 32 * i));
        m[0] = negated_product(load_halves(unit + 32), load_unsigned(unit + 80 + 32 * i));
    } else if (kind == SCALES_K16) {
        const uint8_t *unit = scales + 288 * super;
        UNROLL
        for (int h = 0; h < 2; h++)
            s[h] = _mm512_mul_ps(load_halves(unit), load_signed(unit + 32 + 32 * i + 16 * h));
    } else {
        const uint8_t *unit = scales + 320 * super;
        UNROLL
        for (int h = 0; h < 2; h++) {
            __m512i both = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(unit + 64 + 32 * i + 16 * h)));
            __m512i low = _mm512_and_si512(both, _mm512_set1_epi32(15)), high = _mm512_srli_epi32(both, 4);
            s[h] = _mm512_mul_ps(load_halves(unit), _mm512_cvtepi32_ps(low));
            m[h] = negated_product(load_halves(unit + 32), _mm512_cvtepi32_ps(high));
        }
    }
}

KERNEL_INLINE __m512i dot_start(const uint8_t *x, bool has_min, int half, int r)
{
    return has_min ? _mm512_setzero_si512() : broadcast_i32(x + ACT_SUMS + ACT_SUM_STRIDE * half + 4 * r);
}

KERNEL_INLINE __m512 add_group(__m512 acc, __m512i dot, const uint8_t *x, bool has_min, __m512 s, __m512 m, int half,
                               int r)
{
    __m512 scale = _mm512_mul_ps(s, broadcast_f32(x + ACT_SCALES + 4 * r));
    acc = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), scale, acc);
    if (has_min)
        acc = _mm512_fmadd_ps(m, broadcast_f32(x + ACT_SUMS + ACT_SUM_STRIDE * half + 4 * r), acc);
    return acc;
}

KERNEL_INLINE void store_row(__m512 acc, const panel_out *to, uint32_t r)
{
    __mmask16 lanes = (__mmask16)((1u << to->lanes) - 1);
    float *out = to->out + r * to->stride;
    if (to->bias)
        acc = _mm512_add_ps(acc, _mm512_maskz_loadu_ps(lanes, to->bias));
    if (to->add)
        acc = _mm512_add_ps(acc, _mm512_maskz_loadu_ps(lanes, out));
    _mm512_mask_storeu_ps(out, lanes, acc);
}

/* Defined in matmul_packed.c and matmul_wide.c. */
enum { FUSED_ROWS = 4, WIDE_ROWS = 32 };
void matmul_dot_wide_avx512(const weight *w, uint32_t index, const tile_run *run, const panel_out *to);
void matmul_dot_packed_avx512(const weight *w, uint32_t index, const uint8_t *tile, uint32_t rows, const panel_out *to);

#endif
