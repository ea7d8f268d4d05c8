/* tensor/cpu/ops_body.h: norm, rope and activations for every instruction set with vectors. The including file has
 * included its vec.h; all functions are static. The last, partial vector of a row goes through a zeroed copy, so that
 * each element's arithmetic depends on its place in the row alone. Pure. */
#ifndef HEADWAY_TENSOR_CPU_OPS_BODY_H
#define HEADWAY_TENSOR_CPU_OPS_BODY_H

#include "tensor/cpu/float_kernels.h"

#include <math.h>
#include <string.h>

static inline vec vec_load_part(const float *p, uint32_t n)
{
    float part[VEC_WIDTH] = {0};
    memcpy(part, p, n * sizeof(float));
    return vec_load(part);
}

static inline void vec_store_part(float *p, vec x, uint32_t n)
{
    float part[VEC_WIDTH];
    vec_store(part, x);
    memcpy(p, part, n * sizeof(float));
}

/* 2^x within 1e-7 of itself; 0 below the normal numbers, at most 2^127. */
static inline vec vec_exp2(vec x)
{
    x = vec_max(vec_min(x, vec_all(127.0f)), vec_all(-127.0f));
    vec n = vec_round(x), f = x - n;
    vec p = vec_all(0.00015353362f);
    p = vec_fma(p, f, vec_all(0.00133988739f));
    p = vec_fma(p, f, vec_all(0.00961843692f));
    p = vec_fma(p, f, vec_all(0.0555033237f));
    p = vec_fma(p, f, vec_all(0.240226477f));
    p = vec_fma(p, f, vec_all(0.693147182f));
    p = vec_fma(p, f, vec_all(1.0f));
    return vec_scale2(p, n);
}

/* x / (1 + e^-(slope * x)) */
static inline vec vec_gate(vec x, vec slope)
{
    return x / (vec_all(1.0f) + vec_exp2(slope * x * vec_all(-1.44269504f)));
}

static inline vec vec_activate(vec g, activation act)
{
    if (act == ACT_SILU)
        return vec_gate(g, vec_all(1.0f));
    /* g/2 (1 + tanh y) = g / (1 + e^-2y), y = sqrt(2 / pi) (g + 0.044715 g^3) */
    vec slope = vec_fma(vec_all(0.0713548163f) * g, g, vec_all(1.59576912f));
    return vec_gate(g, slope);
}

static inline void act_mul(float *out, const float *gate, const float *up, uint32_t n, activation act)
{
    uint32_t i = 0;
    for (; i + VEC_WIDTH <= n; i += VEC_WIDTH)
        vec_store(out + i, vec_activate(vec_load(gate + i), act) * vec_load(up + i));
    if (i < n)
        vec_store_part(out + i, vec_activate(vec_load_part(gate + i, n - i), act) * vec_load_part(up + i, n - i),
                       n - i);
}

static inline void add(float *out, const float *x, uint32_t n)
{
    uint32_t i = 0;
    for (; i + VEC_WIDTH <= n; i += VEC_WIDTH)
        vec_store(out + i, vec_load(out + i) + vec_load(x + i));
    for (; i < n; i++)
        out[i] += x[i];
}

static inline void rms_norm(float *out, const float *x, const float *weight, uint32_t n, float eps)
{
    vec sum[4] = {vec_all(0), vec_all(0), vec_all(0), vec_all(0)};
    uint32_t i = 0;
    for (; i + 4 * VEC_WIDTH <= n; i += 4 * VEC_WIDTH)
        for (uint32_t s = 0; s < 4; s++) {
            vec v = vec_load(x + i + s * VEC_WIDTH);
            sum[s] = vec_fma(v, v, sum[s]);
        }
    for (; i < n; i += VEC_WIDTH) {
        vec v = i + VEC_WIDTH <= n ? vec_load(x + i) : vec_load_part(x + i, n - i);
        sum[0] = vec_fma(v, v, sum[0]);
    }
    float inverse = 1.0f / sqrtf(vec_sum((sum[0] + sum[2]) + (sum[1] + sum[3])) / (float)n + eps);
    vec factor = vec_all(inverse);
    for (i = 0; i + VEC_WIDTH <= n; i += VEC_WIDTH)
        vec_store(out + i, vec_load(x + i) * factor * vec_load(weight + i));
    for (; i < n; i++)
        out[i] = x[i] * inverse * weight[i];
}

/* The angle is position * frequency in two floats, less n quarter turns in two floats: within 1e-7 up to a position of
 * 2^24. What is left, r in [-pi/4, pi/4], goes through polynomials; n & 3 says which is which. */
static inline void vec_sin_cos(vec position, vec frequency, vec *sine, vec *cosine)
{
    vec high = position * frequency, low = vec_fma(position, frequency, -high);
    vec n = vec_round(high * vec_all(0.636619772f));
    vec r = vec_fma(n, vec_all(-0x1.921fb6p+0f), high);
    r = vec_fma(n, vec_all(0x1.777a5cp-25f), r) + low;
    vec z = r * r;
    vec s = vec_fma(vec_fma(vec_all(-0.000195160115f), z, vec_all(0.00833216868f)), z, vec_all(-0.166666552f));
    vec c = vec_fma(vec_fma(vec_all(2.44370076e-05f), z, vec_all(-0.00138873549f)), z, vec_all(0.0416666456f));
    s = vec_fma(s, z * r, r);
    c = vec_fma(c, z * z, vec_fma(z, vec_all(-0.5f), vec_all(1.0f)));
    veci turn = vec_to_int(n), odd = -(turn & 1);
    *sine = (vec)((((veci)c & odd) | ((veci)s & ~odd)) ^ (turn & 2) << 30);
    *cosine = (vec)((((veci)s & odd) | ((veci)c & ~odd)) ^ ((turn + 1) & 2) << 30);
}

static inline void rope_angles(float *cosines, float *sines, const float *inv_freq, uint32_t n, uint32_t position,
                               float factor)
{
    vec at = vec_all((float)position), by = vec_all(factor), s, c;
    for (uint32_t i = 0; i < n; i += VEC_WIDTH) {
        bool whole = i + VEC_WIDTH <= n;
        vec_sin_cos(at, whole ? vec_load(inv_freq + i) : vec_load_part(inv_freq + i, n - i), &s, &c);
        if (whole) {
            vec_store(cosines + i, c * by);
            vec_store(sines + i, s * by);
        } else {
            vec_store_part(cosines + i, c * by, n - i);
            vec_store_part(sines + i, s * by, n - i);
        }
    }
}

static inline void turn_halves(float *x, const float *cosines, const float *sines, uint32_t n)
{
    uint32_t i = 0;
    for (; i + VEC_WIDTH <= n; i += VEC_WIDTH) {
        vec a = vec_load(x + i), b = vec_load(x + n + i), c = vec_load(cosines + i), s = vec_load(sines + i);
        vec_store(x + i, a * c - b * s);
        vec_store(x + n + i, b * c + a * s);
    }
    for (; i < n; i++) {
        float a = x[i], b = x[n + i];
        x[i] = a * cosines[i] - b * sines[i];
        x[n + i] = b * cosines[i] + a * sines[i];
    }
}

static inline void turn_pairs(float *x, const float *cosines, const float *sines, uint32_t n)
{
    uint32_t i = 0;
    for (; i + VEC_WIDTH <= n; i += VEC_WIDTH) {
        vec low = vec_load(x + 2 * i), high = vec_load(x + 2 * i + VEC_WIDTH);
        vec a = VEC_EVEN(low, high), b = VEC_ODD(low, high), c = vec_load(cosines + i), s = vec_load(sines + i);
        vec turned_a = a * c - b * s, turned_b = b * c + a * s;
        vec_store(x + 2 * i, VEC_LOW(turned_a, turned_b));
        vec_store(x + 2 * i + VEC_WIDTH, VEC_HIGH(turned_a, turned_b));
    }
    for (; i < n; i++) {
        float a = x[2 * i], b = x[2 * i + 1];
        x[2 * i] = a * cosines[i] - b * sines[i];
        x[2 * i + 1] = b * cosines[i] + a * sines[i];
    }
}

static inline void rope_turn(float *x, const float *cosines, const float *sines, uint32_t n, bool interleaved)
{
    if (interleaved)
        turn_pairs(x, cosines, sines, n);
    else
        turn_halves(x, cosines, sines, n);
}

#endif
