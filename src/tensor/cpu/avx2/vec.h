/* tensor/cpu/avx2/vec.h: the vector that ops_body.h and attend_body.h are written in, 8 floats wide. Pure. */
#ifndef HEADWAY_TENSOR_CPU_AVX2_VEC_H
#define HEADWAY_TENSOR_CPU_AVX2_VEC_H

#include <immintrin.h>
#include <stdint.h>

enum {
    VEC_WIDTH = 8,
    UNIT_ROWS = 6, /* rows times vectors that a product keeps in registers */
    UNIT_VECS = 2,
};
typedef __m256 vec;
typedef int32_t veci __attribute__((vector_size(32)));

static inline vec vec_load(const float *p)
{
    return _mm256_loadu_ps(p);
}
static inline void vec_store(float *p, vec x)
{
    _mm256_storeu_ps(p, x);
}
static inline vec vec_all(float x)
{
    return _mm256_set1_ps(x);
}
/* a * b + c, rounded once */
static inline vec vec_fma(vec a, vec b, vec c)
{
    return _mm256_fmadd_ps(a, b, c);
}
static inline vec vec_max(vec a, vec b)
{
    return _mm256_max_ps(a, b);
}
static inline vec vec_min(vec a, vec b)
{
    return _mm256_min_ps(a, b);
}
static inline vec vec_round(vec x)
{
    return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
static inline veci vec_to_int(vec x)
{
    return (veci)_mm256_cvtps_epi32(x);
}
/* x * 2^n, n integral in [-127, 127]; -127 gives 0 */
static inline vec vec_scale2(vec x, vec n)
{
    return x * (vec)((vec_to_int(n) + 127) << 23);
}
static inline float vec_sum(vec x)
{
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
static inline vec vec_widen(const uint16_t *half)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)half));
}
static inline void vec_halve(uint16_t *half, vec x)
{
    _mm_storeu_si128((__m128i *)half, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}

/* Of the 2 * VEC_WIDTH floats a, b: those at even and odd places; and back. */
#define VEC_EVEN(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14)
#define VEC_ODD(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15)
#define VEC_LOW(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define VEC_HIGH(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)

#endif
