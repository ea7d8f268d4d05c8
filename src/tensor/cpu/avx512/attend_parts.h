/* tensor/cpu/avx512/attend_parts.h: what attention in 16-bit fixed point and attention on codes share. Pure. */
#ifndef HEADWAY_TENSOR_CPU_AVX512_ATTEND_PARTS_H
#define HEADWAY_TENSOR_CPU_AVX512_ATTEND_PARTS_H

#include "tensor/cpu/avx512/vec.h"
#include "tensor/cpu/float_kernels.h"

enum {
    BLOCK_ROWS = 16, /* rows whose maxima share a vector */
    UNIT_ROWS = 4,   /* rows of one pass over a tile */
    TILE_VECS = ATTEND_TILE / VEC_WIDTH,
    ROUND_MAGIC_BITS = 0x4b400000,
};
#define ROUND_MAGIC 12582912.0f /* 1.5 * 2^23: x + magic holds round(x) in its low 16 bits */
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 4")
#endif
#define INLINE static inline __attribute__((always_inline))

/* 2^f within 3e-6 of itself for f in [-0.5, 0.5], exact at 0. */
INLINE vec weight_polynomial(vec f)
{
    vec p = vec_fma(vec_all(0.00958285294f), f, vec_all(0.0559064262f));
    p = vec_fma(p, f, vec_all(0.240240991f));
    p = vec_fma(p, f, vec_all(0.693124175f));
    return vec_fma(p, f, vec_all(1.0f));
}

/* 2^x for a whole x <= 0. */
INLINE vec whole_exp2(vec x)
{
    return _mm512_scalef_ps(vec_all(1.0f), x);
}

/* 2^x for x <= 0 within 2e-7 of itself. The polynomial spans [0, 1): scalef takes the floor itself. */
INLINE vec fine_exp2(vec x)
{
    vec f = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
    vec p = vec_fma(vec_all(0.00186713005f), f, vec_all(0.00901703071f));
    p = vec_fma(p, f, vec_all(0.0557999127f));
    p = vec_fma(p, f, vec_all(0.240164444f));
    p = vec_fma(p, f, vec_all(0.693151295f));
    p = vec_fma(p, f, vec_all(1.0f));
    return _mm512_scalef_ps(p, x);
}

/* cap * tanh(t / cap) with t and the result in units of log2 e. */
INLINE vec soft_cap(vec t, float cap)
{
    vec limit = vec_all(cap * 1.44269504f), x = t / vec_all(cap) * vec_all(2.0f); /* log2 of e^(2 s / cap) */
    vec e = fine_exp2(-_mm512_abs_ps(x));
    vec tanh = (vec_all(1.0f) - e) / (vec_all(1.0f) + e);
    return _mm512_mask_sub_ps(tanh, _mm512_cmp_ps_mask(x, vec_all(0), _CMP_LT_OQ), vec_all(0), tanh) * limit;
}

/* Lanes of the tile that a row sees, one bit each. */
INLINE uint64_t visible_lanes(const attend_work *w, uint32_t row, uint32_t base)
{
    uint32_t first, last;
    attend_visible(w->position[row], w->window, base, &first, &last);
    return first < last ? ~0ull >> (64 - (last - first)) << first : 0;
}

/* Lane r of the result: the largest of row r's sixteen lanes. */
INLINE vec rows_most(const float *most)
{
    vec a[8], b[4], c[2];
    for (int i = 0; i < 8; i++) {
        vec x = vec_load(most + i * VEC_WIDTH), y = vec_load(most + (i + 8) * VEC_WIDTH);
        a[i] = vec_max(_mm512_shuffle_f32x4(x, y, 0x44), _mm512_shuffle_f32x4(x, y, 0xee));
    }
    for (int i = 0; i < 4; i++)
        b[i] = vec_max(_mm512_shuffle_f32x4(a[i], a[i + 4], 0x88), _mm512_shuffle_f32x4(a[i], a[i + 4], 0xdd));
    for (int i = 0; i < 2; i++)
        c[i] = vec_max(_mm512_unpacklo_ps(b[i], b[i + 2]), _mm512_unpackhi_ps(b[i], b[i + 2]));
    vec all = vec_max(_mm512_unpacklo_ps(c[0], c[1]), _mm512_unpackhi_ps(c[0], c[1]));
    return _mm512_shuffle_f32x4(all, all, 0xd8);
}

INLINE vec round_up_to_whole(vec x)
{
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC);
}

#define FOR_UNITS(body)                                                                                                \
    for (uint32_t r = 0; r < rows; r += UNIT_ROWS)                                                                     \
        switch (rows - r) {                                                                                            \
        case 1:                                                                                                        \
            body(1);                                                                                                   \
            break;                                                                                                     \
        case 2:                                                                                                        \
            body(2);                                                                                                   \
            break;                                                                                                     \
        case 3:                                                                                                        \
            body(3);                                                                                                   \
            break;                                                                                                     \
        default:                                                                                                       \
            body(4);                                                                                                   \
        }

#endif
