/* Norm, rope, activations in plain C: the definition of correct for the other instruction sets. */
#include "tensor/cpu/float_kernels.h"

#include <math.h>

static void rms_norm(float *out, const float *x, const float *weight, uint32_t n, float eps)
{
    float sum[8] = {0};
    for (uint32_t i = 0; i < n; i++)
        sum[i & 7] += x[i] * x[i];
    float total = ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]));
    float inverse = 1.0f / sqrtf(total / (float)n + eps);
    for (uint32_t i = 0; i < n; i++)
        out[i] = x[i] * inverse * weight[i];
}

static void rope_angles(float *cosines, float *sines, const float *inv_freq, uint32_t n, uint32_t position,
                        float factor)
{
    for (uint32_t i = 0; i < n; i++) {
        double angle = (double)position * (double)inv_freq[i];
        cosines[i] = (float)cos(angle) * factor;
        sines[i] = (float)sin(angle) * factor;
    }
}

static void rope_turn(float *x, const float *cosines, const float *sines, uint32_t n, bool interleaved)
{
    uint32_t step = interleaved ? 2 : 1, other = interleaved ? 1 : n;
    for (uint32_t i = 0; i < n; i++) {
        float a = x[i * step], b = x[i * step + other];
        x[i * step] = a * cosines[i] - b * sines[i];
        x[i * step + other] = b * cosines[i] + a * sines[i];
    }
}

static void act_mul(float *out, const float *gate, const float *up, uint32_t n, activation act)
{
    const float c = 0.7978845608f; /* sqrt(2 / pi) */
    for (uint32_t i = 0; i < n; i++) {
        float g = gate[i];
        float a = act == ACT_SILU ? g / (1.0f + expf(-g)) : 0.5f * g * (1.0f + tanhf(c * (g + 0.044715f * g * g * g)));
        out[i] = a * up[i];
    }
}

static void add(float *out, const float *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        out[i] += x[i];
}

const float_kernels float_kernels_generic = {
    .rms_norm = rms_norm,
    .rope_angles = rope_angles,
    .rope_turn = rope_turn,
    .act_mul = act_mul,
    .add = add,
    FLOAT_KERNELS_ATTEND(generic),
};
