/* tensor/cpu/attend_body.h: attention in f32 for instruction sets with vectors. The including file has included its
 * vec.h and ops_body.h and defines ATTEND(name), which puts its instruction set's name behind `name`. A tile's K and V
 * are widened once; each sum runs over channels, then over keys, in ascending order, whatever the number of rows beside
 * it. Keys that a row does not see weigh exactly nothing, and stored values are finite. Pure. */
#ifndef HEADWAY_TENSOR_CPU_ATTEND_BODY_H
#define HEADWAY_TENSOR_CPU_ATTEND_BODY_H

#include "tensor/cpu/codes.h"
#include "tensor/cpu/ops_body.h"

#define INLINE static inline __attribute__((always_inline))
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

enum { PANEL = UNIT_VECS * VEC_WIDTH }; /* columns of one product; divides ATTEND_TILE and every head_dim */

typedef struct {
    float *k;      /* [head_dim][ATTEND_TILE] */
    float *v;      /* [ATTEND_TILE][head_dim] */
    float *weight; /* [UNIT_ROWS][ATTEND_TILE]: scores, then weights */
    float *sum;    /* [ATTEND_ROWS][VEC_WIDTH] l per lane */
    float *q;      /* [ATTEND_ROWS][head_dim], turned */
} room;

INLINE room room_of(const attend_work *w)
{
    room m;
    m.k = w->scratch;
    m.v = m.k + ATTEND_TILE * w->head_dim;
    m.weight = m.v + ATTEND_TILE * w->head_dim;
    m.sum = m.weight + UNIT_ROWS * ATTEND_TILE;
    m.q = m.sum + ATTEND_ROWS * VEC_WIDTH;
    return m;
}

size_t ATTEND(attend_scratch_bytes)(uint32_t head_dim)
{
    return sizeof(float) *
           (2 * ATTEND_TILE * head_dim + UNIT_ROWS * ATTEND_TILE + ATTEND_ROWS * (VEC_WIDTH + head_dim));
}

void ATTEND(attend_load)(attend_work *w)
{
    if (!kv_coded(w->type))
        return;
    for (uint32_t r = 0; r < w->rows; r++) {
        float *turned = room_of(w).q + (size_t)r * w->head_dim;
        kv_turn(turned, w->q[r], w->head_dim);
        w->q[r] = turned;
    }
}

static void write_f16(uint8_t *block, uint32_t slot, uint32_t head_dim, const float *k, const float *v)
{
    uint16_t *k_out = (uint16_t *)block + slot / KV_GROUP * KV_GROUP * head_dim + slot % KV_GROUP;
    uint16_t *v_out = (uint16_t *)(block + kv_block_v(KV_F16, head_dim)) + (size_t)slot * head_dim;
    vec most = vec_all(KV_HALF_MOST), least = vec_all(-KV_HALF_MOST);
    uint16_t row[ATTEND_DIM_MAX];
    for (uint32_t c = 0; c < head_dim; c += VEC_WIDTH) {
        vec_halve(row + c, vec_max(vec_min(vec_load(k + c), most), least)); /* NaN becomes `most` */
        vec_halve(v_out + c, vec_max(vec_min(vec_load(v + c), most), least));
    }
    for (uint32_t c = 0; c < head_dim; c++)
        k_out[c * KV_GROUP] = row[c];
}

void ATTEND(kv_write)(uint8_t *block, kv_type type, uint32_t slot, uint32_t head_dim, const float *k, const float *v)
{
    if (type == KV_F16)
        write_f16(block, slot, head_dim, k, v);
    else if (type == KV_BF16)
        kv_write_bf16(block, slot, head_dim, k, v);
    else if (type == KV_F32)
        kv_write_f32(block, slot, head_dim, k, v);
    else
        kv_write_codes(block, type, slot, head_dim, k, v);
}

/* Sixteen tokens of a block, from `slot` on, into columns `start` of k and rows `start` of v. */
static void widen_halves(const attend_work *w, room m, const uint8_t *block, uint32_t slot, uint32_t start)
{
    uint32_t dim = w->head_dim;
    const uint16_t *k = (const uint16_t *)block + slot * dim;
    const uint16_t *v = (const uint16_t *)(block + kv_block_v(w->type, dim)) + slot * dim;
    float *k_out = m.k + start, *v_out = m.v + start * dim;
    if (w->type == KV_F16) {
        for (uint32_t c = 0; c < dim; c++)
            for (uint32_t j = 0; j < KV_GROUP; j += VEC_WIDTH)
                vec_store(k_out + c * ATTEND_TILE + j, vec_widen(k + c * KV_GROUP + j));
        for (uint32_t i = 0; i < KV_GROUP * dim; i += VEC_WIDTH)
            vec_store(v_out + i, vec_widen(v + i));
        return;
    }
    for (uint32_t c = 0; c < dim; c++)
        for (uint32_t j = 0; j < KV_GROUP; j++)
            k_out[c * ATTEND_TILE + j] = wide_half(k[c * KV_GROUP + j]);
    for (uint32_t i = 0; i < KV_GROUP * dim; i++)
        v_out[i] = wide_half(v[i]);
}

/* The same of floats. */
static void copy_floats(const attend_work *w, room m, const uint8_t *block, uint32_t slot, uint32_t start)
{
    uint32_t dim = w->head_dim;
    const float *k = (const float *)block + slot * dim;
    const float *v = (const float *)(block + kv_block_v(KV_F32, dim)) + slot * dim;
    for (uint32_t c = 0; c < dim; c++)
        memcpy(m.k + c * ATTEND_TILE + start, k + c * KV_GROUP, KV_GROUP * sizeof(float));
    memcpy(m.v + start * dim, v, KV_GROUP * dim * sizeof(float));
}

INLINE float widen_code(kv_type type, uint32_t byte, uint32_t high, float scale)
{
    uint32_t code = type == KV_Q8 ? byte : high ? byte >> 4 : byte & 15;
    return (float)(2 * (int32_t)code - kv_zero(type)) * scale;
}

/* The same of codes, for the channels [at, end) of one chunk. */
INLINE void widen_chunk(kv_type type, const attend_work *w, room m, const uint8_t *block, uint32_t slot, uint32_t start,
                        uint32_t at, uint32_t end)
{
    uint32_t dim = w->head_dim, scales = at / KV_SCALE_CHANNELS * KV_PAGE_TOKENS + slot;
    float k_scale[KV_GROUP], k_middle[KV_GROUP] = {0};
    for (uint32_t j = 0; j < KV_GROUP; j++)
        k_scale[j] = wide_half(kv_k_scales(block, type, dim)[scales + j]);
    for (uint32_t j = 0; type == KV_Q4 && j < KV_GROUP; j++)
        k_middle[j] = wide_half(kv_k_middles(block, dim)[scales + j]);
    for (uint32_t c = at; c < end; c++) {
        const uint8_t *k = block + kv_k_code(type, dim, slot, c);
        for (uint32_t j = 0; j < KV_GROUP; j++)
            m.k[c * ATTEND_TILE + start + j] = widen_code(type, k[4 * j], c / 4 % 2, k_scale[j]) + k_middle[j];
    }
    for (uint32_t j = 0; j < KV_GROUP; j++) {
        const uint8_t *v = block + kv_block_v(type, dim) + kv_v_code(type, dim, slot + j, 0);
        float scale = wide_half(kv_v_scales(block, type, dim)[scales + j]), *out = m.v + (start + j) * dim;
        for (uint32_t c = at; c < end; c++)
            out[c] = widen_code(type, v[4 * (type == KV_Q4 ? c / 32 * 16 + c % 16 : c)], c / 16 % 2, scale);
    }
}

INLINE void widen_codes(kv_type type, const attend_work *w, room m, const uint8_t *block, uint32_t slot, uint32_t start)
{
    for (uint32_t at = 0, dim = w->head_dim; at < dim; at += KV_SCALE_CHANNELS)
        widen_chunk(type, w, m, block, slot, start, at, dim - at < KV_SCALE_CHANNELS ? dim : at + KV_SCALE_CHANNELS);
}

/* Pages that begin at `seen` or later may not exist: zeros. */
static void widen_tile(const attend_work *w, room m, uint32_t base, uint32_t seen)
{
    uint32_t dim = w->head_dim;
    for (uint32_t start = 0; start < ATTEND_TILE; start += KV_GROUP) {
        uint32_t slot = start % KV_PAGE_TOKENS;
        if (base + start >= seen) {
            for (uint32_t c = 0; c < dim; c++)
                memset(m.k + c * ATTEND_TILE + start, 0, KV_GROUP * sizeof(float));
            memset(m.v + start * dim, 0, KV_GROUP * dim * sizeof(float));
            continue;
        }
        const uint8_t *block = w->blocks + (size_t)w->pages[(base + start) / KV_PAGE_TOKENS] * w->page_bytes;
        if (w->type == KV_Q8)
            widen_codes(KV_Q8, w, m, block, slot, start);
        else if (w->type == KV_Q4)
            widen_codes(KV_Q4, w, m, block, slot, start);
        else if (w->type == KV_F32)
            copy_floats(w, m, block, slot, start);
        else
            widen_halves(w, m, block, slot, start);
    }
}

/* sum[r] = sum over i ascending of a[r][i] * b[i], PANEL columns of b, whose rows are b_stride apart. */
INLINE void multiply(uint32_t rows, const float *const a[UNIT_ROWS], const float *b, size_t b_stride, uint32_t n,
                     vec sum[UNIT_ROWS][UNIT_VECS])
{
    UNROLL for (uint32_t r = 0; r < rows; r++) UNROLL for (uint32_t v = 0; v < UNIT_VECS; v++) sum[r][v] = vec_all(0);
    for (uint32_t i = 0; i < n; i++) {
        vec lane[UNIT_VECS];
        UNROLL for (uint32_t v = 0; v < UNIT_VECS; v++) lane[v] = vec_load(b + i * b_stride + v * VEC_WIDTH);
        UNROLL for (uint32_t r = 0; r < rows; r++)
        {
            vec x = vec_all(a[r][i]);
            UNROLL for (uint32_t v = 0; v < UNIT_VECS; v++) sum[r][v] = vec_fma(x, lane[v], sum[r][v]);
        }
    }
}

INLINE void score_rows(uint32_t rows, const attend_work *w, room m, uint32_t row)
{
    const float *q[UNIT_ROWS];
    for (uint32_t r = 0; r < rows; r++)
        q[r] = w->q[row + r];
    for (uint32_t j = 0; j < ATTEND_TILE; j += PANEL) {
        vec sum[UNIT_ROWS][UNIT_VECS];
        multiply(rows, q, m.k + j, ATTEND_TILE, w->head_dim, sum);
        UNROLL for (uint32_t r = 0; r < rows; r++) UNROLL for (uint32_t v = 0; v < UNIT_VECS; v++)
            vec_store(m.weight + r * ATTEND_TILE + j + v * VEC_WIDTH, sum[r][v]);
    }
}

/* cap * tanh(s / cap) */
static vec soft_cap(vec s, float cap)
{
    vec x = s / vec_all(cap);
    veci sign = (veci)x & INT32_MIN;
    vec e = vec_exp2((vec)((veci)x & INT32_MAX) * vec_all(-2.88539008f)); /* e^(-2 |x|) */
    vec tanh = (vec_all(1.0f) - e) / (vec_all(1.0f) + e);
    return vec_all(cap) * (vec)((veci)tanh | sign);
}

/* Row `row`'s scores become weights; m and l move on. Returns what its acc so far is multiplied by. */
static float weigh_row(const attend_work *w, room m, uint32_t row, uint32_t at, uint32_t base)
{
    float *score = m.weight + at * ATTEND_TILE, lanes[VEC_WIDTH], top = w->part.m[row];
    vec most = vec_all(ATTEND_MASKED);
    for (uint32_t j = 0; j < ATTEND_TILE; j += VEC_WIDTH) {
        vec s = vec_load(score + j) * vec_all(w->scale);
        vec_store(score + j, (w->softcap > 0 ? soft_cap(s, w->softcap) : s) * vec_all(1.44269504f));
    }
    uint32_t first, last;
    attend_visible(w->position[row], w->window, base, &first, &last);
    for (uint32_t j = 0; j < ATTEND_TILE; j++)
        if (j < first || j >= last)
            score[j] = ATTEND_MASKED;
    for (uint32_t j = 0; j < ATTEND_TILE; j += VEC_WIDTH)
        most = vec_max(most, vec_load(score + j));
    vec_store(lanes, most);
    for (uint32_t i = 0; i < VEC_WIDTH; i++)
        top = lanes[i] > top ? lanes[i] : top;
    vec keep = vec_exp2(vec_all(w->part.m[row]) - vec_all(top)), sum = vec_all(0);
    for (uint32_t j = 0; j < ATTEND_TILE; j += VEC_WIDTH) {
        vec s = vec_load(score + j), p = vec_exp2(s - vec_all(top));
        p = (vec)((veci)p & (veci)(s > vec_all(ATTEND_MASKED / 2)));
        sum += p;
        vec_store(score + j, p);
    }
    float *l = m.sum + row * VEC_WIDTH;
    vec_store(l, vec_fma(vec_load(l), keep, sum));
    w->part.m[row] = top;
    vec_store(lanes, keep);
    return lanes[0];
}

INLINE void attend_rows(uint32_t rows, const attend_work *w, room m, uint32_t row, uint32_t base)
{
    float keep[UNIT_ROWS];
    const float *weight[UNIT_ROWS];
    score_rows(rows, w, m, row);
    for (uint32_t r = 0; r < rows; r++) {
        keep[r] = weigh_row(w, m, row + r, r, base);
        weight[r] = m.weight + r * ATTEND_TILE;
    }
    for (uint32_t c = 0; c < w->head_dim; c += PANEL) {
        vec sum[UNIT_ROWS][UNIT_VECS];
        multiply(rows, weight, m.v + c, w->head_dim, ATTEND_TILE, sum);
        UNROLL for (uint32_t r = 0; r < rows; r++) UNROLL for (uint32_t v = 0; v < UNIT_VECS; v++)
        {
            float *acc = w->part.acc + (size_t)(row + r) * w->head_dim + c + v * VEC_WIDTH;
            vec_store(acc, vec_fma(vec_load(acc), vec_all(keep[r]), sum[r][v]));
        }
    }
}

static void attend_tile(const attend_work *w, room m, uint32_t base)
{
    for (uint32_t r = 0; r < w->rows; r += UNIT_ROWS)
        switch (w->rows - r) {
        case 1:
            attend_rows(1, w, m, r, base);
            break;
        case 2:
            attend_rows(2, w, m, r, base);
            break;
        case 3:
            attend_rows(3, w, m, r, base);
            break;
        case 4:
            attend_rows(4, w, m, r, base);
            break;
        case 5:
            attend_rows(5, w, m, r, base);
            break;
        default:
            attend_rows(6, w, m, r, base);
        }
}

static void attend_head(attend_work *w, uint32_t split)
{
    room m = room_of(w);
    uint32_t start = split * ATTEND_SPLIT, seen = w->position[w->rows - 1] + 1, first, last;
    for (uint32_t r = 0; r < w->rows; r++)
        w->part.m[r] = ATTEND_MASKED;
    memset(m.sum, 0, sizeof(float) * VEC_WIDTH * w->rows);
    memset(w->part.acc, 0, sizeof(float) * w->rows * w->head_dim);
    for (uint32_t base = start; base < start + ATTEND_SPLIT && base < seen; base += ATTEND_TILE) {
        attend_visible(w->position[0], w->window, base, &first, &last);
        if (first == ATTEND_TILE)
            continue; /* before the first row's window, hence before every row's */
        widen_tile(w, m, base, seen);
        attend_tile(w, m, base);
    }
    for (uint32_t r = 0; r < w->rows; r++)
        w->part.l[r] = vec_sum(vec_load(m.sum + r * VEC_WIDTH));
}

void ATTEND(attend_split)(attend_work *const *works, uint32_t count, uint32_t split)
{
    for (uint32_t i = 0; i < count; i++)
        attend_head(works[i], split);
}

void ATTEND(attend_merge)(attend_state into, uint32_t into_row, attend_state from, uint32_t from_row, uint32_t head_dim)
{
    vec m_into = vec_all(into.m[into_row]), m_from = vec_all(from.m[from_row]), top = vec_max(m_into, m_from);
    vec keep = vec_exp2(m_into - top), take = vec_exp2(m_from - top);
    float *acc = into.acc + (size_t)into_row * head_dim, lanes[3][VEC_WIDTH];
    const float *part = from.acc + (size_t)from_row * head_dim;
    for (uint32_t c = 0; c < head_dim; c += VEC_WIDTH)
        vec_store(acc + c, vec_fma(vec_load(part + c), take, vec_load(acc + c) * keep));
    vec_store(lanes[0], top);
    vec_store(lanes[1], keep);
    vec_store(lanes[2], take);
    into.m[into_row] = lanes[0][0];
    into.l[into_row] = into.l[into_row] * lanes[1][0] + from.l[from_row] * lanes[2][0];
}

void ATTEND(attend_finish)(float *out, const float *acc, float l, uint32_t head_dim)
{
    vec inverse = vec_all(1.0f / l);
    for (uint32_t c = 0; c < head_dim; c += VEC_WIDTH) /* no negative zero: its sign would depend on unseen keys */
        vec_store(out + c, vec_load(acc + c) * inverse + vec_all(0));
}

#endif
