/* tensor/cpu/neon/vec.h: the vector that ops_body.h and attend_body.h are written in, 4 floats wide. Pure. */
#ifndef HEADWAY_TENSOR_CPU_NEON_VEC_H
#define HEADWAY_TENSOR_CPU_NEON_VEC_H

#include <arm_neon.h>
#include <stdint.h>

enum {
    VEC_WIDTH = 4,
    UNIT_ROWS = 6, /* rows times vectors that a product keeps in registers */
    UNIT_VECS = 4,
};
typedef float32x4_t vec;
typedef int32_t veci __attribute__((vector_size(16)));

static inline vec vec_load(const float *p)
{
    return vld1q_f32(p);
}
static inline void vec_store(float *p, vec x)
{
    vst1q_f32(p, x);
}
static inline vec vec_all(float x)
{
    return vdupq_n_f32(x);
}
/* a * b + c, rounded once */
static inline vec vec_fma(vec a, vec b, vec c)
{
    return vfmaq_f32(c, a, b);
}
/* Of a NaN and a number, the number. */
static inline vec vec_max(vec a, vec b)
{
    return vmaxnmq_f32(a, b);
}
static inline vec vec_min(vec a, vec b)
{
    return vminnmq_f32(a, b);
}
static inline vec vec_round(vec x)
{
    return vrndnq_f32(x);
}
static inline veci vec_to_int(vec x)
{
    return (veci)vcvtnq_s32_f32(x);
}
/* x * 2^n, n integral in [-127, 127]; -127 gives 0 */
static inline vec vec_scale2(vec x, vec n)
{
    return x * (vec)((vec_to_int(n) + 127) << 23);
}
static inline float vec_sum(vec x)
{
    return vaddvq_f32(x);
}
static inline vec vec_widen(const uint16_t *half)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(half)));
}
static inline void vec_halve(uint16_t *half, vec x)
{
    vst1_u16(half, vreinterpret_u16_f16(vcvt_f16_f32(x)));
}

/* Of the 2 * VEC_WIDTH floats a, b: those at even and odd places; and back. */
#define VEC_EVEN(a, b) vuzp1q_f32(a, b)
#define VEC_ODD(a, b) vuzp2q_f32(a, b)
#define VEC_LOW(a, b) vzip1q_f32(a, b)
#define VEC_HIGH(a, b) vzip2q_f32(a, b)

#endif
