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

static void add_scaled(float *out, const float *x, float scale, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        out[i] += scale * x[i];
}

static void sigmoid_mul(float *x, const float *gate, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        x[i] /= 1.0f + expf(-gate[i]);
}

/* From the last row up: what a row needs lies above it. */
static void conv(const conv_args *a)
{
    uint32_t before = a->count - 1;
    for (uint32_t i = 0; i < a->n; i++) {
        float late[CONV_TAPS_MAX]; /* the history to come */
        for (uint32_t j = 0; j < before; j++)
            late[j] = a->rows + j >= before ? a->x[(a->rows + j - before) * a->stride + i]
                                            : a->history[(a->rows + j) * a->history_stride + i];
        for (uint32_t t = a->rows; t-- > 0;) {
            float sum = 0;
            for (uint32_t j = 0; j < a->count; j++)
                sum += a->taps[j * a->tap_stride + i] * (t + j >= before ? a->x[(t + j - before) * a->stride + i]
                                                                         : a->history[(t + j) * a->history_stride + i]);
            a->x[t * a->stride + i] = sum / (1.0f + expf(-sum));
        }
        for (uint32_t j = 0; j < before; j++)
            a->history[j * a->history_stride + i] = late[j];
    }
}

static void delta(const delta_block *a)
{
    for (uint32_t t = 0; t < a->rows; t++) {
        const float *q = a->q + t * a->stride, *k = a->k + t * a->stride, *v = a->v + t * a->stride;
        for (uint32_t c = 0; c < a->cols; c++) {
            float m = 0, o = 0;
            for (uint32_t i = 0; i < a->key_dim; i++) {
                m += a->state[i * a->cols + c] * k[i];
                o += a->state[i * a->cols + c] * q[i];
            }
            float d = a->beta[t] * (v[c] - a->alpha[t] * m);
            a->out[t * a->out_stride + c] = a->alpha[t] * o + d * a->kq[t];
            for (uint32_t i = 0; i < a->key_dim; i++)
                a->state[i * a->cols + c] = a->alpha[t] * a->state[i * a->cols + c] + k[i] * d;
        }
    }
}

const float_kernels float_kernels_generic = {
    .rms_norm = rms_norm,
    .rope_angles = rope_angles,
    .rope_turn = rope_turn,
    .act_mul = act_mul,
    .add = add,
    .add_scaled = add_scaled,
    .sigmoid_mul = sigmoid_mul,
    .conv = conv,
    .delta = delta,
    FLOAT_KERNELS_ATTEND(generic),
};
