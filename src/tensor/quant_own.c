/* tensor/quant_own.c: the loaders' own types, with codes in the order of their bitstream: column i of a block in bits
 * [i * b, i * b + b), LSB first (formats.md 3.3, 3.4). */
#include "tensor/quant_split.h"

enum { BLOCK = 32 };

void split_nvfp4(const uint8_t *src, size_t blocks, uint8_t *codes, float *scales, float *mins)
{
    (void)mins;
    for (size_t b = 0; b < blocks; b++, src += 18, codes += BLOCK) {
        for (int half = 0; half < 2; half++)
            scales[2 * b + half] = e4m3_to_f32(src[half]) * 0.5f; /* the codes are twice E2M1 */
        for (int i = 0; i < 16; i++) {
            codes[2 * i] = E2M1_CODES[src[2 + i] & 15];
            codes[2 * i + 1] = E2M1_CODES[src[2 + i] >> 4];
        }
    }
}

/* Eight columns are `bits` whole bytes. */
static inline void unpack_stream(const uint8_t *stream, uint32_t bits, uint8_t *codes)
{
    for (uint32_t octet = 0; octet < 4; octet++, stream += bits) {
        uint64_t word = 0;
        memcpy(&word, stream, bits);
        for (uint32_t i = 0; i < 8; i++)
            codes[8 * octet + i] = (uint8_t)(word >> (i * bits) & ((1u << bits) - 1));
    }
}

static inline void split_affine(const uint8_t *src, size_t blocks, uint32_t bits, uint8_t *codes, float *scales,
                                float *mins)
{
    for (size_t b = 0; b < blocks; b++, src += 8 + 4 * bits, codes += BLOCK) {
        memcpy(&scales[b], src, sizeof *scales);
        memcpy(&mins[b], src + 4, sizeof *mins);
        unpack_stream(src + 8, bits, codes);
    }
}

#define AFFINE(bits)                                                                                                   \
    void split_affine##bits(const uint8_t *src, size_t blocks, uint8_t *codes, float *scales, float *mins)             \
    {                                                                                                                  \
        split_affine(src, blocks, bits, codes, scales, mins);                                                          \
    }
AFFINE(2)
AFFINE(3)
AFFINE(4)
AFFINE(5)
AFFINE(6)
AFFINE(8)

/* Blocks of 64 with a scale and a bias of 16 bits: two groups of 32 that share them. */
static inline void split_affine4_halves(const uint8_t *src, size_t blocks, float (*widen)(uint16_t), uint8_t *codes,
                                        float *scales, float *mins)
{
    for (size_t b = 0; b < 2 * blocks; b++, codes += BLOCK) {
        const uint8_t *block = src + b / 2 * 36;
        uint16_t pair[2];
        memcpy(pair, block, sizeof pair);
        scales[b] = widen(pair[0]);
        mins[b] = widen(pair[1]);
        unpack_stream(block + sizeof pair + b % 2 * 16, 4, codes);
    }
}

void split_affine4_bf16(const uint8_t *src, size_t blocks, uint8_t *codes, float *scales, float *mins)
{
    split_affine4_halves(src, blocks, bf16_to_f32, codes, scales, mins);
}

void split_affine4_f16(const uint8_t *src, size_t blocks, uint8_t *codes, float *scales, float *mins)
{
    split_affine4_halves(src, blocks, f16_to_f32, codes, scales, mins);
}
