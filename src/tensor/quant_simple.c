/* tensor/quant_simple.c: the types with 32 elements per block. "Halves": byte i of the 16 packed ones holds element i
 * in its low nibble and element i + 16 in its high one. */
#include "tensor/quant_split.h"

enum { BLOCK = 32 };

const uint8_t IQ4_CODES[16] = {1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241};

/* Twice the E2M1 values, plus 12: 0 .5 1 1.5 2 3 4 6 and their negatives. */
const uint8_t E2M1_CODES[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

static inline void unpack_halves(const uint8_t *packed, uint8_t *codes)
{
    for (int i = 0; i < 16; i++) {
        codes[i] = packed[i] & 15;
        codes[i + 16] = packed[i] >> 4;
    }
}

static inline void unpack_table(const uint8_t *packed, const uint8_t table[16], uint8_t *codes)
{
    for (int i = 0; i < 16; i++) {
        codes[i] = table[packed[i] & 15];
        codes[i + 16] = table[packed[i] >> 4];
    }
}

/* Adds 16 to code i where bit i of the four bytes is set; eight codes at a time. */
static inline void add_fifth_bits(const uint8_t *bits, uint8_t *codes)
{
    for (int i = 0; i < 4; i++) {
        uint64_t picked = bits[i] * UINT64_C(0x0101010101010101) & UINT64_C(0x8040201008040201);
        uint64_t ones = (picked + UINT64_C(0x7f7f7f7f7f7f7f7f)) >> 7 & UINT64_C(0x0101010101010101);
        uint64_t eight = u64_at(codes + 8 * i) | ones << 4;
        memcpy(codes + 8 * i, &eight, sizeof eight);
    }
}

void split_q4_0(const uint8_t *src, size_t blocks, uint8_t *codes, float *scales, float *mins)
{
    (void)mins;
    for (size_t b = 0; b < blocks; b++, src += 18, codes += BLOCK) {
        scales[b] = half_at(src);
        unpack_halves(src + 2, codes);
    }
}

void split_q4_1(const uint8_t *src, size_t blocks, uint8_t *codes, float *scales, float *mins)
{
    for (size_t b = 0; b < blocks; b++, src += 20, codes += BLOCK) {
        scales[b] = half_at(src);
        mins[b] = half_at(src + 2);
        unpack_halves(src + 4, codes);
    }
}

void split_q5_0(const uint8_t *src, size_t blocks, uint8_t *codes, float *scales, float *mins)
{
    (void)mins;
    for (size_t b = 0; b < blocks; b++, src += 22, codes += BLOCK) {
        scales[b] = half_at(src);
        unpack_halves(src + 6, codes);
        add_fifth_bits(src + 2, codes);
    }
}

void split_q5_1(const uint8_t *src, size_t blocks, uint8_t *codes, float *scales, float *mins)
{
    for (size_t b = 0; b < blocks; b++, src += 24, codes += BLOCK) {
        scales[b] = half_at(src);
        mins[b] = half_at(src + 2);
        unpack_halves(src + 8, codes);
        add_fifth_bits(src + 4, codes);
    }
}

void split_q8_0(const uint8_t *src, size_t blocks, uint8_t *codes, float *scales, float *mins)
{
    (void)mins;
    for (size_t b = 0; b < blocks; b++, src += 34, codes += BLOCK) {
        scales[b] = half_at(src);
        for (int i = 0; i < BLOCK; i++)
            codes[i] = src[2 + i] ^ 0x80; /* int8 + 128 */
    }
}

void split_iq4_nl(const uint8_t *src, size_t blocks, uint8_t *codes, float *scales, float *mins)
{
    (void)mins;
    for (size_t b = 0; b < blocks; b++, src += 18, codes += BLOCK) {
        scales[b] = half_at(src);
        unpack_table(src + 2, IQ4_CODES, codes);
    }
}

void split_mxfp4(const uint8_t *src, size_t blocks, uint8_t *codes, float *scales, float *mins)
{
    (void)mins;
    for (size_t b = 0; b < blocks; b++, src += 17, codes += BLOCK) {
        uint32_t exponent = src[0];
        uint32_t bits = exponent < 2 ? 0x00200000u << exponent : (exponent - 1) << 23; /* 2^(exponent - 128) */
        memcpy(&scales[b], &bits, sizeof bits);
        unpack_table(src + 1, E2M1_CODES, codes);
    }
}
