/* tensor/cpu/avx512/vec.h: the vector that ops_body.h is written in, 16 floats wide. Operators come from the compiler's
 * vector types; the rest is here. Pure. */
#ifndef HEADWAY_TENSOR_CPU_AVX512_VEC_H
#define HEADWAY_TENSOR_CPU_AVX512_VEC_H

#include <immintrin.h>
#include <stdint.h>

enum { VEC_WIDTH = 16 };
typedef __m512 vec;
typedef int32_t veci __attribute__((vector_size(64)));

static inline vec vec_load(const float *p)
{
    return _mm512_loadu_ps(p);
}
static inline void vec_store(float *p, vec x)
{
    _mm512_storeu_ps(p, x);
}
static inline vec vec_all(float x)
{
    return _mm512_set1_ps(x);
}
/* a * b + c, rounded once */
static inline vec vec_fma(vec a, vec b, vec c)
{
    return _mm512_fmadd_ps(a, b, c);
}
static inline vec vec_max(vec a, vec b)
{
    return _mm512_max_ps(a, b);
}
static inline vec vec_min(vec a, vec b)
{
    return _mm512_min_ps(a, b);
}
static inline vec vec_round(vec x)
{
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
static inline veci vec_to_int(vec x)
{
    return (veci)_mm512_cvtps_epi32(x);
}
/* x * 2^n, n integral */
static inline vec vec_scale2(vec x, vec n)
{
    return _mm512_scalef_ps(x, n);
}
static inline float vec_sum(vec x)
{
    return _mm512_reduce_add_ps(x);
}

/* Of the 2 * VEC_WIDTH floats a, b: those at even and odd places; and back. */
#define VEC_EVEN(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
#define VEC_ODD(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)
#define VEC_LOW(a, b) __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define VEC_HIGH(a, b) __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)

#endif
