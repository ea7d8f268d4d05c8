/* tensor/cpu/float_kernels.h: what does one instruction set do to f32 rows and to the KV cache?
 * One const table per instruction set; cpu_ops.c, cpu_kv.c and cpu_attend.c cut an op into rows and call these. Every
 * function is pure arithmetic on the rows it is given, in an order that depends on the row's length and position alone.
 * Any thread; two threads never share an output or an attend_work. */
#ifndef HEADWAY_TENSOR_CPU_FLOAT_KERNELS_H
#define HEADWAY_TENSOR_CPU_FLOAT_KERNELS_H

#include "tensor/cpu/kv_block.h"

enum {
    ATTEND_TILE = 64,     /* keys that are scored together: positions [64t, 64t + 64) */
    ATTEND_ROWS = 192,    /* most query rows of one attend_work */
    ATTEND_DIM_MAX = 512, /* largest head_dim; a multiple of ATTEND_DIM_STEP */
    ATTEND_DIM_STEP = 16,
};
#define ATTEND_MASKED (-1e30f) /* log2 weight of a key that a row does not see; also the maximum of no keys at all */

/* Softmax in progress: the weight of key j is 2^(score_j - m[r]); l is the sum of weights, acc that of weighted values.
 */
typedef struct {
    float *m, *l, *acc; /* [rows], [rows], [rows][head_dim] */
} attend_state;

/* Rows of one sequence and one KV head, in ascending position. */
typedef struct {
    const uint8_t *blocks; /* the layer's and head's block in page 0 */
    size_t page_bytes;     /* to the same block of the next page */
    const uint32_t *pages; /* of the sequence */
    kv_type type;
    uint32_t head_dim, rows;
    uint32_t window; /* 0: all */
    float scale, softcap;
    /* Blocks that this thread will probably read next, or NULL: worth asking the memory for where no page of this
     * sequence follows. */
    const uint8_t *ahead[ATTEND_TILE / KV_PAGE_TOKENS];
    const float *q[ATTEND_ROWS]; /* attend_load may put others in their place */
    uint32_t position[ATTEND_ROWS];
    attend_state part; /* what attend_split writes */
    void *scratch;     /* attend_scratch_bytes, 64-byte aligned */
} attend_work;

enum { DELTA_COLS = 32 /* value channels of a state block, or 16 where value_dim is no multiple of it */ };

/* Rows of one sequence through `n` neighbouring channels: x_t = silu(sum_j taps[j] * x_(t - count + 1 + j)), in place,
 * j ascending. Rows before the first come from `history`, which ends up holding the last count - 1 rows. */
typedef struct {
    float *x; /* (rows, stride) */
    size_t stride;
    uint32_t rows, n, count; /* count: of taps, 2..CONV_TAPS_MAX */
    const float *taps;       /* (count, tap_stride) */
    size_t tap_stride;
    float *history; /* (count - 1, history_stride) */
    size_t history_stride;
} conv_args;

/* The delta rule over `rows` tokens on `cols` value channels of one head: with m = S' k and the old S,
 * d = beta (v - alpha m), o = alpha S' q + d (k q), S = alpha S + k d'. Sums over key_dim ascend. */
typedef struct {
    float *state; /* [key_dim][cols] */
    uint32_t rows, key_dim, cols;
    const float *q, *k, *v; /* (rows, stride) */
    size_t stride;
    float *out; /* (rows, out_stride) */
    size_t out_stride;
    const float *alpha, *beta, *kq; /* rows each */
} delta_block;

typedef struct float_kernels {
    void (*rms_norm)(float *out, const float *x, const float *weight, uint32_t n, float eps);
    /* cos and sin of position * inv_freq[i], times factor. */
    void (*rope_angles)(float *cosines, float *sines, const float *inv_freq, uint32_t n, uint32_t position,
                        float factor);
    /* Turns one head's first 2n channels. */
    void (*rope_turn)(float *x, const float *cosines, const float *sines, uint32_t n, bool interleaved);
    void (*act_mul)(float *out, const float *gate, const float *up, uint32_t n, activation act);
    void (*add)(float *out, const float *x, uint32_t n);
    void (*add_scaled)(float *out, const float *x, float scale, uint32_t n); /* out += scale * x */
    void (*sigmoid_mul)(float *x, const float *gate, uint32_t n);            /* x *= 1 / (1 + e^-gate) */
    void (*conv)(const conv_args *a);
    void (*delta)(const delta_block *a);
    /* One token's K and V into `slot` of a block; values outside the type's range are clamped, so that no stored value
     * is inf. */
    void (*kv_write)(uint8_t *block, kv_type type, uint32_t slot, uint32_t head_dim, const float *k, const float *v);
    void (*attend_load)(attend_work *w); /* q into the kernel's own form, once */
    /* part = attention over positions [512 split, 512 split + 512), of `count` heads with the same rows: a page's heads
     * lie side by side, so they are read together. */
    void (*attend_split)(attend_work *const *works, uint32_t count, uint32_t split);
    /* Row `into_row` of `into` takes in row `from_row` of `from`. */
    void (*attend_merge)(attend_state into, uint32_t into_row, attend_state from, uint32_t from_row, uint32_t head_dim);
    void (*attend_finish)(float *out, const float *acc, float l, uint32_t head_dim);
    size_t (*attend_scratch_bytes)(uint32_t head_dim);
    const struct float_kernels *exact; /* whose attention is in f32; NULL: this one's is */
} float_kernels;

extern const float_kernels float_kernels_generic, float_kernels_avx2, float_kernels_avx512, float_kernels_neon;

/* The halves of each table, one file each: FLOAT_TABLE(isa) in the isa's ops.c joins them. */
#define FLOAT_KERNELS_DECLARE_ATTEND(isa)                                                                              \
    void kv_write_##isa(uint8_t *block, kv_type type, uint32_t slot, uint32_t head_dim, const float *k,                \
                        const float *v);                                                                               \
    void attend_load_##isa(attend_work *w);                                                                            \
    void attend_split_##isa(attend_work *const *works, uint32_t count, uint32_t split);                                \
    void attend_merge_##isa(attend_state into, uint32_t into_row, attend_state from, uint32_t from_row, uint32_t dim); \
    void attend_finish_##isa(float *out, const float *acc, float l, uint32_t head_dim);                                \
    size_t attend_scratch_bytes_##isa(uint32_t head_dim)

#define FLOAT_KERNELS_ATTEND(isa)                                                                                      \
    .kv_write = kv_write_##isa, .attend_load = attend_load_##isa, .attend_split = attend_split_##isa,                  \
    .attend_merge = attend_merge_##isa, .attend_finish = attend_finish_##isa,                                          \
    .attend_scratch_bytes = attend_scratch_bytes_##isa

FLOAT_KERNELS_DECLARE_ATTEND(generic);
FLOAT_KERNELS_DECLARE_ATTEND(avx2);
FLOAT_KERNELS_DECLARE_ATTEND(avx512);
FLOAT_KERNELS_DECLARE_ATTEND(neon);

/* First and past-the-last key of tile [base, base + ATTEND_TILE) that the row at `position` sees, relative to base;
 * first >= last when it sees none. */
static inline void attend_visible(uint32_t position, uint32_t window, uint32_t base, uint32_t *first, uint32_t *last)
{
    uint32_t start = window && position >= window ? position - window + 1 : 0;
    *first = start <= base ? 0 : start - base < ATTEND_TILE ? start - base : ATTEND_TILE;
    *last = position < base ? 0 : position - base < ATTEND_TILE ? position - base + 1 : ATTEND_TILE;
}

#endif
