/* tensor/cpu/codes.h: floats into the stored form of bf16, q8 and q4, in plain C that compilers turn into vectors.
 * Sums of two floats and products are rounded one by one, so every instruction set stores the same bits. Pure. */
#ifndef HEADWAY_TENSOR_CPU_CODES_H
#define HEADWAY_TENSOR_CPU_CODES_H

#include "tensor/cpu/float_kernels.h"

static inline uint32_t float_bits(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof(bits));
    return bits;
}
static inline float float_of_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof(f));
    return f;
}

/* Hadamard's rotation of each run of 64 channels (of what is left over: of 32 or 16), its own inverse: a channel that
 * stands out is shared out evenly. `out` may be `x`. */
static inline void kv_turn(float *out, const float *x, uint32_t head_dim)
{
    if (out != x)
        memcpy(out, x, head_dim * sizeof(float));
    for (uint32_t at = 0, n; at < head_dim; at += n) {
        uint32_t left = head_dim - at;
        n = left >= 64 ? 64 : left >= 32 ? 32 : 16;
        float scale = n == 64 ? 0.125f : n == 32 ? 0.176776695f : 0.25f, *y = out + at;
        for (uint32_t half = 1; half < n; half *= 2)
            for (uint32_t i = 0; i < n; i += 2 * half)
                for (uint32_t j = i; j < i + half; j++) {
                    float a = y[j], b = y[j + half];
                    y[j] = a + b;
                    y[j + half] = a - b;
                }
        for (uint32_t i = 0; i < n; i++)
            y[i] *= scale;
    }
}

/* What is larger than KV_WIDE_MOST, or no number, becomes KV_WIDE_MOST with its sign. */
static inline void kv_clamp(float *out, const float *x, uint32_t n)
{
    for (uint32_t c = 0; c < n; c++) {
        uint32_t bits = float_bits(x[c]), magnitude = bits & 0x7fffffffu;
        out[c] = float_of_bits((magnitude < KV_WIDE_MOST_BITS ? magnitude : KV_WIDE_MOST_BITS) | (bits & 0x80000000u));
    }
}

/* Order of whole numbers as of floats. */
static inline int32_t float_order(float f)
{
    int32_t bits = (int32_t)float_bits(f);
    return bits ^ (bits >> 31 & INT32_MAX);
}

static inline uint16_t kv_middle_between(int32_t least, int32_t most) /* in float_order */
{
    float low = float_of_bits((uint32_t)(least ^ (least >> 31 & INT32_MAX))),
          high = float_of_bits((uint32_t)(most ^ (most >> 31 & INT32_MAX)));
    return (uint16_t)((float_bits((low + high) * 0.5f) + 0x8000u) >> 16);
}

/* Where q4's K codes of a chunk lie around: halfway between its least and its largest value. */
static inline uint16_t kv_middle(const float *x, uint32_t n)
{
    int32_t least = INT32_MAX, most = INT32_MIN;
    for (uint32_t c = 0; c < n; c++) {
        int32_t order = float_order(x[c]);
        least = order < least ? order : least;
        most = order > most ? order : most;
    }
    return kv_middle_between(least, most);
}

/* The scale for values whose largest magnitude has these bits. It is rounded up to what 16 bits hold, so that no code
 * is out of range, and never so small that its inverse is not finite. */
static inline uint16_t kv_scale_for(kv_type type, uint32_t most)
{
    float steps = type == KV_Q8 ? 1.0f / 254 : 1.0f / 15;
    uint32_t scale = (float_bits(float_of_bits(most) * steps) + 0xffffu) >> 16;
    return (uint16_t)(scale > KV_SCALE_LEAST ? scale : KV_SCALE_LEAST);
}

/* Codes of one chunk, its scale returned. */
static inline uint16_t kv_encode_chunk(kv_type type, uint8_t *code, const float *x, float middle, uint32_t n)
{
    uint32_t most = 0;
    for (uint32_t c = 0; c < n; c++) {
        uint32_t magnitude = float_bits(x[c] - middle) & 0x7fffffffu;
        most = magnitude > most ? magnitude : most;
    }
    uint16_t scale = kv_scale_for(type, most);
    float inverse = 0.5f / wide_half(scale), zero = 0.5f * (float)kv_zero(type);
    for (uint32_t c = 0; c < n; c++) /* 1.5 * 2^23 leaves the whole number in the low bits */
        code[c] = (uint8_t)float_bits((x[c] - middle) * inverse + zero + 12582912.0f);
    return scale;
}

static inline void kv_place_q8(uint8_t *block, uint32_t slot, uint32_t head_dim, const uint8_t *k, const uint8_t *v)
{
    uint8_t *k_out = block + kv_k_code(KV_Q8, head_dim, slot, 0);
    uint8_t *v_out = block + kv_block_v(KV_Q8, head_dim) + kv_v_code(KV_Q8, head_dim, slot, 0);
    for (uint32_t c = 0; c < head_dim; c += 4)
        memcpy(k_out + c * KV_GROUP, k + c, 4);
    for (uint32_t c = 0; c < head_dim; c++)
        v_out[c * 4] = v[c];
}

static inline void kv_place_q4(uint8_t *block, uint32_t slot, uint32_t head_dim, const uint8_t *k, const uint8_t *v)
{
    uint8_t *k_out = block + kv_k_code(KV_Q4, head_dim, slot, 0);
    uint8_t *v_out = block + kv_block_v(KV_Q4, head_dim) + kv_v_code(KV_Q4, head_dim, slot, 0);
    for (uint32_t c = 0; c < head_dim; c += 8)
        for (uint32_t i = 0; i < 4; i++)
            k_out[c / 8 * 64 + i] = (uint8_t)(k[c + i] | k[c + 4 + i] << 4);
    for (uint32_t c = 0; c < head_dim; c += 32)
        for (uint32_t i = 0; i < 16; i++) /* the padding's codes are 0 */
            v_out[(c / 2 + i) * 4] = (uint8_t)(v[c + i] | v[c + 16 + i] << 4);
}

/* v has room for 16 codes more. */
static inline void kv_place(uint8_t *block, kv_type type, uint32_t slot, uint32_t head_dim, const uint8_t *k,
                            uint8_t *v)
{
    memset(v + head_dim, 0, 16);
    if (type == KV_Q8)
        kv_place_q8(block, slot, head_dim, k, v);
    else
        kv_place_q4(block, slot, head_dim, k, v);
}

static inline void kv_write_codes(uint8_t *block, kv_type type, uint32_t slot, uint32_t head_dim, const float *k,
                                  const float *v)
{
    uint8_t k_code[ATTEND_DIM_MAX], v_code[ATTEND_DIM_MAX + 16];
    float key[ATTEND_DIM_MAX], value[ATTEND_DIM_MAX];
    kv_clamp(key, k, head_dim);
    kv_turn(key, key, head_dim);
    kv_clamp(value, v, head_dim);
    uint16_t *scale = (uint16_t *)(block + kv_block_tail(type, head_dim)) + slot;
    size_t kind = (size_t)kv_chunks(head_dim) * KV_PAGE_TOKENS; /* from K's scales to V's, from there to K's middles */
    for (uint32_t at = 0; at < head_dim; at += KV_SCALE_CHANNELS, scale += KV_PAGE_TOKENS) {
        uint32_t n = head_dim - at < KV_SCALE_CHANNELS ? head_dim - at : KV_SCALE_CHANNELS;
        uint16_t middle = 0;
        if (type == KV_Q4)
            scale[2 * kind] = middle = kv_middle(key + at, n);
        scale[0] = kv_encode_chunk(type, k_code + at, key + at, wide_half(middle), n);
        scale[kind] = kv_encode_chunk(type, v_code + at, value + at, 0, n);
    }
    kv_place(block, type, slot, head_dim, k_code, v_code);
}

static inline void kv_write_f32(uint8_t *block, uint32_t slot, uint32_t head_dim, const float *k, const float *v)
{
    float *k_out = (float *)block + slot / KV_GROUP * KV_GROUP * head_dim + slot % KV_GROUP;
    float *v_out = (float *)(block + kv_block_v(KV_F32, head_dim)) + (size_t)slot * head_dim;
    float key[ATTEND_DIM_MAX];
    kv_clamp(key, k, head_dim);
    for (uint32_t c = 0; c < head_dim; c++)
        k_out[c * KV_GROUP] = key[c];
    kv_clamp(v_out, v, head_dim);
}

/* To nearest, ties to even. */
static inline void kv_write_bf16(uint8_t *block, uint32_t slot, uint32_t head_dim, const float *k, const float *v)
{
    uint16_t *k_out = (uint16_t *)block + slot / KV_GROUP * KV_GROUP * head_dim + slot % KV_GROUP;
    uint16_t *v_out = (uint16_t *)(block + kv_block_v(KV_BF16, head_dim)) + (size_t)slot * head_dim;
    float clamped[2][ATTEND_DIM_MAX];
    kv_clamp(clamped[0], k, head_dim);
    kv_clamp(clamped[1], v, head_dim);
    for (uint32_t c = 0; c < head_dim; c++) {
        uint32_t k_bits = float_bits(clamped[0][c]), v_bits = float_bits(clamped[1][c]);
        k_out[c * KV_GROUP] = (uint16_t)((k_bits + 0x7fffu + (k_bits >> 16 & 1u)) >> 16);
        v_out[c] = (uint16_t)((v_bits + 0x7fffu + (v_bits >> 16 & 1u)) >> 16);
    }
}

#endif
