/* tensor/cpu/delta_body.h: what experts and gated delta layers need, for every instruction set with vectors. The
 * including file has included its vec.h and ops_body.h; all functions are static. Rows of state are multiples of 16
 * floats, so only the elementwise functions meet a last, partial vector. Pure. */
#ifndef HEADWAY_TENSOR_CPU_DELTA_BODY_H
#define HEADWAY_TENSOR_CPU_DELTA_BODY_H

#include "tensor/cpu/float_kernels.h"
#include "tensor/cpu/unroll.h"

static inline void add_scaled(float *out, const float *x, float scale, uint32_t n)
{
    uint32_t i = 0;
    vec by = vec_all(scale);
    for (; i + VEC_WIDTH <= n; i += VEC_WIDTH)
        vec_store(out + i, vec_fma(vec_load(x + i), by, vec_load(out + i)));
    if (i < n)
        vec_store_part(out + i, vec_fma(vec_load_part(x + i, n - i), by, vec_load_part(out + i, n - i)), n - i);
}

static inline vec vec_sigmoid(vec x)
{
    return vec_all(1.0f) / (vec_all(1.0f) + vec_exp2(x * vec_all(-1.44269504f)));
}

static inline void sigmoid_mul(float *x, const float *gate, uint32_t n)
{
    uint32_t i = 0;
    for (; i + VEC_WIDTH <= n; i += VEC_WIDTH)
        vec_store(x + i, vec_load(x + i) * vec_sigmoid(vec_load(gate + i)));
    if (i < n)
        vec_store_part(x + i, vec_load_part(x + i, n - i) * vec_sigmoid(vec_load_part(gate + i, n - i)), n - i);
}

/* Row t of the sequence, counted from the oldest row of the history. */
static inline const float *conv_row(const conv_args *a, uint32_t t)
{
    uint32_t before = a->count - 1;
    return t < before ? a->history + t * a->history_stride : a->x + (t - before) * a->stride;
}

/* From the last row up: what a row needs lies above it. n is a multiple of 16. */
static inline void conv(const conv_args *a)
{
    uint32_t before = a->count - 1;
    for (uint32_t i = 0; i < a->n; i += VEC_WIDTH) {
        vec late[CONV_TAPS_MAX], taps[CONV_TAPS_MAX]; /* the history to come; this vector's taps */
        for (uint32_t j = 0; j < before; j++)
            late[j] = vec_load(conv_row(a, a->rows + j) + i);
        for (uint32_t j = 0; j < a->count; j++)
            taps[j] = vec_load(a->taps + j * a->tap_stride + i);
        for (uint32_t t = a->rows; t-- > 0;) {
            vec sum = vec_all(0);
            for (uint32_t j = 0; j < a->count; j++)
                sum = vec_fma(taps[j], vec_load(conv_row(a, t + j) + i), sum);
            vec_store(a->x + t * a->stride + i, vec_gate(sum, vec_all(1.0f)));
        }
        for (uint32_t j = 0; j < before; j++)
            vec_store(a->history + j * a->history_stride + i, late[j]);
    }
}

/* One pass over the block a token: the update of the token before, and the two sums of this one. Once more after the
 * last. An element's arithmetic is the same wherever a run of tokens ends. */
KERNEL_INLINE void delta_cols(const delta_block *a, int vecs)
{
    enum { VECS_MAX = DELTA_COLS / VEC_WIDTH };
    vec d[VECS_MAX], m[VECS_MAX], o[VECS_MAX];
    uint32_t cols = a->cols, dim = a->key_dim;
    float *state = a->state;
    UNROLL
    for (int j = 0; j < vecs; j++)
        m[j] = o[j] = vec_all(0);
    for (uint32_t i = 0; i < dim; i++) {
        vec ki = vec_all(a->k[i]), qi = vec_all(a->q[i]);
        UNROLL
        for (int j = 0; j < vecs; j++) {
            vec s = vec_load(state + (size_t)i * cols + j * VEC_WIDTH);
            m[j] = vec_fma(s, ki, m[j]);
            o[j] = vec_fma(s, qi, o[j]);
        }
    }
    for (uint32_t t = 0;; t++) {
        const float *k = a->k + t * a->stride, *v = a->v + t * a->stride;
        float *out = a->out + t * a->out_stride;
        vec alpha = vec_all(a->alpha[t]), beta = vec_all(a->beta[t]), kq = vec_all(a->kq[t]);
        UNROLL
        for (int j = 0; j < vecs; j++) {
            d[j] = beta * (vec_load(v + j * VEC_WIDTH) - alpha * m[j]);
            vec_store(out + j * VEC_WIDTH, vec_fma(d[j], kq, alpha * o[j]));
            m[j] = o[j] = vec_all(0);
        }
        bool last = t + 1 == a->rows;
        const float *next_k = last ? k : k + a->stride, *next_q = a->q + (last ? t : t + 1) * a->stride;
        for (uint32_t i = 0; i < dim; i++) {
            vec ki = vec_all(k[i]), next_ki = vec_all(next_k[i]), next_qi = vec_all(next_q[i]);
            UNROLL
            for (int j = 0; j < vecs; j++) {
                float *at = state + (size_t)i * cols + j * VEC_WIDTH;
                vec s = vec_fma(ki, d[j], alpha * vec_load(at));
                vec_store(at, s);
                m[j] = vec_fma(s, next_ki, m[j]);
                o[j] = vec_fma(s, next_qi, o[j]);
            }
        }
        if (last)
            return;
    }
}

static inline void delta(const delta_block *a)
{
    if (a->cols == DELTA_COLS)
        delta_cols(a, DELTA_COLS / VEC_WIDTH);
    else
        delta_cols(a, 16 / VEC_WIDTH);
}

#endif
