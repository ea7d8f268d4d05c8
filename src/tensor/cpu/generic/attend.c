/* Attention and the KV cache in plain C, f32 arithmetic. A tile's K and V are widened once and serve every row. Keys
 * that a row does not see have weight zero, and all values are finite, so they change no bit of its state. */
#include "tensor/cpu/codes.h"
#include "tensor/cpu/generic/half.h"

#include <math.h>
#include <string.h>

typedef struct {
    float *k; /* [head_dim][ATTEND_TILE] */
    float *v; /* [ATTEND_TILE][head_dim] */
    float *q; /* [ATTEND_ROWS][head_dim], turned */
} tile;

static tile tile_of(const attend_work *w)
{
    size_t floats = (size_t)ATTEND_TILE * w->head_dim;
    return (tile){.k = w->scratch, .v = (float *)w->scratch + floats, .q = (float *)w->scratch + 2 * floats};
}

static void write_f16(uint8_t *block, uint32_t slot, uint32_t head_dim, const float *k, const float *v)
{
    uint16_t *k_out = (uint16_t *)block + slot / KV_GROUP * KV_GROUP * head_dim + slot % KV_GROUP;
    uint16_t *v_out = (uint16_t *)(block + kv_block_v(KV_F16, head_dim)) + (size_t)slot * head_dim;
    for (uint32_t c = 0; c < head_dim; c++) {
        k_out[c * KV_GROUP] = half_from_float(k[c]);
        v_out[c] = half_from_float(v[c]);
    }
}

void kv_write_generic(uint8_t *block, kv_type type, uint32_t slot, uint32_t head_dim, const float *k, const float *v)
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

size_t attend_scratch_bytes_generic(uint32_t head_dim)
{
    return sizeof(float) * (2 * ATTEND_TILE + ATTEND_ROWS) * head_dim;
}

void attend_load_generic(attend_work *w)
{
    if (!kv_coded(w->type))
        return;
    for (uint32_t r = 0; r < w->rows; r++) {
        float *turned = tile_of(w).q + (size_t)r * w->head_dim;
        kv_turn(turned, w->q[r], w->head_dim);
        w->q[r] = turned;
    }
}

static float decode(kv_type type, uint8_t byte, bool high, uint16_t scale)
{
    int32_t code = type == KV_Q8 ? byte : high ? byte >> 4 : byte & 15;
    return (float)(2 * code - kv_zero(type)) * wide_half(scale);
}

static float stored_k(const uint8_t *block, kv_type type, uint32_t dim, uint32_t slot, uint32_t c)
{
    uint32_t at = c / KV_SCALE_CHANNELS * KV_PAGE_TOKENS + slot;
    if (kv_coded(type))
        return decode(type, block[kv_k_code(type, dim, slot, c)], c / 4 % 2, kv_k_scales(block, type, dim)[at]) +
               (type == KV_Q4 ? wide_half(kv_k_middles(block, dim)[at]) : 0);
    size_t index = (slot / KV_GROUP * dim + c) * KV_GROUP + slot % KV_GROUP;
    if (type == KV_F32)
        return ((const float *)block)[index];
    uint16_t half = ((const uint16_t *)block)[index];
    return type == KV_F16 ? half_to_float(half) : wide_half(half);
}

static float stored_v(const uint8_t *block, kv_type type, uint32_t dim, uint32_t slot, uint32_t c)
{
    const uint8_t *v = block + kv_block_v(type, dim);
    if (kv_coded(type))
        return decode(type, v[kv_v_code(type, dim, slot, c)], c / 16 % 2,
                      kv_v_scales(block, type, dim)[c / KV_SCALE_CHANNELS * KV_PAGE_TOKENS + slot]);
    if (type == KV_F32)
        return ((const float *)v)[slot * dim + c];
    uint16_t half = ((const uint16_t *)v)[slot * dim + c];
    return type == KV_F16 ? half_to_float(half) : wide_half(half);
}

/* Positions from `seen` on are zero: their pages may not exist. */
static void widen_tile(const attend_work *w, tile t, uint32_t base, uint32_t seen)
{
    uint32_t dim = w->head_dim;
    memset(t.k, 0, 2 * sizeof(float) * ATTEND_TILE * dim);
    for (uint32_t j = 0; j < ATTEND_TILE && base + j < seen; j++) {
        uint32_t position = base + j, slot = position % KV_PAGE_TOKENS;
        const uint8_t *block = w->blocks + (size_t)w->pages[position / KV_PAGE_TOKENS] * w->page_bytes;
        for (uint32_t c = 0; c < dim; c++) {
            t.k[c * ATTEND_TILE + j] = stored_k(block, w->type, dim, slot, c);
            t.v[j * dim + c] = stored_v(block, w->type, dim, slot, c);
        }
    }
}

static void score_tile(const attend_work *w, const float *q, const float *k, float score[ATTEND_TILE])
{
    const float log2e = 1.44269504f;
    for (uint32_t j = 0; j < ATTEND_TILE; j++)
        score[j] = 0;
    for (uint32_t c = 0; c < w->head_dim; c++)
        for (uint32_t j = 0; j < ATTEND_TILE; j++)
            score[j] += q[c] * k[c * ATTEND_TILE + j];
    for (uint32_t j = 0; j < ATTEND_TILE; j++) {
        float s = score[j] * w->scale;
        score[j] = (w->softcap > 0 ? w->softcap * tanhf(s / w->softcap) : s) * log2e;
    }
}

static void attend_row(attend_work *w, uint32_t row, tile t, uint32_t base)
{
    uint32_t first, last, dim = w->head_dim;
    attend_visible(w->position[row], w->window, base, &first, &last);
    if (first >= last)
        return;
    float score[ATTEND_TILE], *acc = w->part.acc + (size_t)row * dim;
    score_tile(w, w->q[row], t.k, score);
    float m = w->part.m[row];
    for (uint32_t j = first; j < last; j++)
        m = score[j] > m ? score[j] : m;
    float keep = exp2f(w->part.m[row] - m), sum = 0;
    for (uint32_t c = 0; c < dim; c++)
        acc[c] *= keep;
    for (uint32_t j = first; j < last; j++) {
        float p = exp2f(score[j] - m);
        sum += p;
        for (uint32_t c = 0; c < dim; c++)
            acc[c] += p * t.v[j * dim + c];
    }
    w->part.m[row] = m;
    w->part.l[row] = w->part.l[row] * keep + sum;
}

static void attend_head(attend_work *w, uint32_t split)
{
    uint32_t dim = w->head_dim, start = split * ATTEND_SPLIT, seen = w->position[w->rows - 1] + 1, first, last;
    tile t = tile_of(w);
    for (uint32_t r = 0; r < w->rows; r++) {
        w->part.m[r] = ATTEND_MASKED;
        w->part.l[r] = 0;
    }
    memset(w->part.acc, 0, sizeof(float) * w->rows * dim);
    for (uint32_t base = start; base < start + ATTEND_SPLIT && base < seen; base += ATTEND_TILE) {
        attend_visible(w->position[0], w->window, base, &first, &last);
        if (first >= ATTEND_TILE)
            continue; /* before the first row's window, hence before every row's */
        widen_tile(w, t, base, seen);
        for (uint32_t r = 0; r < w->rows; r++)
            attend_row(w, r, t, base);
    }
}

void attend_split_generic(attend_work *const *works, uint32_t count, uint32_t split)
{
    for (uint32_t i = 0; i < count; i++)
        attend_head(works[i], split);
}

void attend_merge_generic(attend_state into, uint32_t into_row, attend_state from, uint32_t from_row, uint32_t head_dim)
{
    float m_into = into.m[into_row], m_from = from.m[from_row], m = m_into > m_from ? m_into : m_from;
    float keep = exp2f(m_into - m), take = exp2f(m_from - m);
    float *acc = into.acc + (size_t)into_row * head_dim;
    const float *part = from.acc + (size_t)from_row * head_dim;
    for (uint32_t c = 0; c < head_dim; c++)
        acc[c] = acc[c] * keep + part[c] * take;
    into.m[into_row] = m;
    into.l[into_row] = into.l[into_row] * keep + from.l[from_row] * take;
}

void attend_finish_generic(float *out, const float *acc, float l, uint32_t head_dim)
{
    float inverse = 1.0f / l;
    for (uint32_t c = 0; c < head_dim; c++)
        out[c] = acc[c] * inverse + 0.0f; /* no negative zero: its sign would depend on unseen keys */
}
