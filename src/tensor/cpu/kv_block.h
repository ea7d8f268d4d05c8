/* tensor/cpu/kv_block.h: how does one page hold the keys and values of one layer and one KV head?
 * A block is K, then V, then what turns their numbers back into floats. K lies so that a vector's lanes are keys, V so
 * that they are channels. Nothing is shared by two tokens, and no byte belongs to two, so a token can be written while
 * another thread writes its neighbour, and what is stored does not tell who came later. All stored values are finite;
 * so is memory of zeros. Pure; any thread.
 *
 *   f16, bf16  K [2][dim][16] tokens, V [32][dim]; then one exponent per token for K and one for V: |x| < 2^(e + 12)
 *              for all its channels, for kernels that attend in 16-bit fixed point. Kernels in f32 leave them alone.
 *   f32        K and V in the same order, nothing after them. Attended in f32 only.
 *   q8         K [2][dim / 4][16 tokens][4 channels] codes, V [8][dim][4 tokens] codes; then the scales, [chunks][32]
 *              each: of K, of V. A chunk is up to KV_SCALE_CHANNELS channels; a scale is the upper half of a float.
 *   q4         the same with two codes a byte, low bits first: of K channels c and c + 4 of eight, of V channels c and
 *              c + 16 of 32 (V is padded to a multiple of 32 channels). After the scales K's middles, in their form.
 *
 * A code's value is (2 code - kv_zero) scale, for q4's K more by its middle. K is turned by a fixed rotation (kv_turn)
 * before it becomes codes: that spreads a channel which is larger than the others over all. Queries are turned too.
 */
#ifndef HEADWAY_TENSOR_CPU_KV_BLOCK_H
#define HEADWAY_TENSOR_CPU_KV_BLOCK_H

#include "tensor/backend.h"

#include <string.h>

enum {
    KV_GROUP = 16,           /* tokens whose K channels lie side by side */
    KV_CHUNKS_MAX = 8,       /* of KV_SCALE_CHANNELS */
    KV_EXPONENT_LEAST = -36, /* of bf16: smaller values lose bits, so that exponents span less than weights do */
    KV_SCALE_LEAST = 0x0d80, /* 2^-100: its inverse is finite */
};
#define KV_HALF_MOST 65504.0f         /* f16 holds no more: what is larger, or no number, is stored as this */
#define KV_WIDE_MOST_BITS 0x4b800000u /* the same for the other types, 2^24 */

static inline bool kv_coded(kv_type type)
{
    return type == KV_Q8 || type == KV_Q4;
}
static inline uint32_t kv_chunks(uint32_t head_dim)
{
    return (head_dim + KV_SCALE_CHANNELS - 1) / KV_SCALE_CHANNELS;
}
/* Bytes of V's codes for one token. */
static inline size_t kv_v_width(kv_type type, uint32_t head_dim)
{
    if (type == KV_Q4)
        return (head_dim + 31) / 32 * 16;
    return type == KV_Q8 ? head_dim : (type == KV_F32 ? 4 : 2) * head_dim;
}
static inline size_t kv_block_v(kv_type type, uint32_t head_dim)
{
    size_t codes = (size_t)KV_PAGE_TOKENS * head_dim;
    return type == KV_Q4 ? codes / 2 : type == KV_Q8 ? codes : type == KV_F32 ? 4 * codes : 2 * codes;
}

/* Where a token's scales or exponents begin: K's, then V's. */
static inline size_t kv_block_tail(kv_type type, uint32_t head_dim)
{
    return kv_block_v(type, head_dim) + KV_PAGE_TOKENS * kv_v_width(type, head_dim);
}
static inline size_t kv_block_bytes(kv_type type, uint32_t head_dim)
{
    size_t tail = kv_coded(type)   ? (type == KV_Q4 ? 3 : 2) * sizeof(uint16_t) * kv_chunks(head_dim)
                  : type == KV_F32 ? 0
                                   : 2;
    return kv_block_tail(type, head_dim) + KV_PAGE_TOKENS * tail;
}

/* Twice the code of the value zero. */
static inline int32_t kv_zero(kv_type type)
{
    return type == KV_Q8 ? 256 : 15;
}
/* Index in bytes of the code of K channel c (V channel c) of a token; for q4 the half of the byte that holds it is
 * c / 4 % 2 (c / 16 % 2). */
static inline size_t kv_k_code(kv_type type, uint32_t head_dim, uint32_t slot, uint32_t c)
{
    uint32_t row = type == KV_Q4 ? 8 : 4; /* channels of 64 bytes */
    return ((size_t)slot / KV_GROUP * (head_dim / row) + c / row) * 64 + slot % KV_GROUP * 4 + c % 4;
}
static inline size_t kv_v_code(kv_type type, uint32_t head_dim, uint32_t slot, uint32_t c)
{
    uint32_t column = type == KV_Q4 ? c / 32 * 16 + c % 16 : c;
    return ((size_t)slot / 4 * kv_v_width(type, head_dim) + column) * 4 + slot % 4;
}
static inline const uint16_t *kv_k_scales(const uint8_t *block, kv_type type, uint32_t head_dim)
{
    return (const uint16_t *)(block + kv_block_tail(type, head_dim));
}
static inline const uint16_t *kv_v_scales(const uint8_t *block, kv_type type, uint32_t head_dim)
{
    return kv_k_scales(block, type, head_dim) + kv_chunks(head_dim) * KV_PAGE_TOKENS;
}
static inline const uint16_t *kv_k_middles(const uint8_t *block, uint32_t head_dim)
{
    return kv_k_scales(block, KV_Q4, head_dim) + 2 * kv_chunks(head_dim) * KV_PAGE_TOKENS;
}

static inline float wide_half(uint16_t bits) /* the float whose upper half it is */
{
    uint32_t all = (uint32_t)bits << 16;
    float f;
    memcpy(&f, &all, sizeof(f));
    return f;
}

#endif
