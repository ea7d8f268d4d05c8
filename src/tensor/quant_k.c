/* tensor/quant_k.c: the types with 256 elements per block. Layouts are those of formats.md section 1; a "lane" is an
 * index in 0..31 inside a run of 32 elements. */
#include "tensor/quant_split.h"

enum { BLOCK = 256 };

/* Two bits per element, 64 bytes: byte 32g + lane holds the elements 128g + 32j + lane, j = 0..3, from bit 2j. */
static inline void unpack_twos(const uint8_t *packed, uint8_t *codes)
{
    for (int g = 0; g < 2; g++)
        for (int j = 0; j < 4; j++)
            for (int lane = 0; lane < 32; lane++)
                codes[128 * g + 32 * j + lane] = packed[32 * g + lane] >> (2 * j) & 3;
}

/* Four bits per element, 128 bytes: byte 32p + lane holds element 64p + lane (low) and 64p + 32 + lane (high). */
static inline void unpack_fours(const uint8_t *packed, uint8_t *codes)
{
    for (int p = 0; p < 4; p++)
        for (int lane = 0; lane < 32; lane++) {
            codes[64 * p + lane] = packed[32 * p + lane] & 15;
            codes[64 * p + 32 + lane] = packed[32 * p + lane] >> 4;
        }
}

/* The eight 6-bit scales and mins that Q4_K and Q5_K pack in 12 bytes, multiplied out. */
static inline void scales_of_12(const uint8_t *s, float d, float dmin, float *scales, float *mins)
{
    for (int i = 0; i < 4; i++) {
        scales[i] = d * (float)(s[i] & 63);
        mins[i] = -(dmin * (float)(s[i + 4] & 63));
        scales[i + 4] = d * (float)((s[i + 8] & 15) | (s[i] >> 6) << 4);
        mins[i + 4] = -(dmin * (float)(s[i + 8] >> 4 | (s[i + 4] >> 6) << 4));
    }
}

void split_q2_k(const uint8_t *src, size_t blocks, uint8_t *codes, float *scales, float *mins)
{
    for (size_t b = 0; b < blocks; b++, src += 84, codes += BLOCK, scales += 16, mins += 16) {
        float d = half_at(src + 80), dmin = half_at(src + 82);
        for (int i = 0; i < 16; i++) {
            scales[i] = d * (float)(src[i] & 15);
            mins[i] = -(dmin * (float)(src[i] >> 4));
        }
        unpack_twos(src + 16, codes);
    }
}

void split_q3_k(const uint8_t *src, size_t blocks, uint8_t *codes, float *scales, float *mins)
{
    (void)mins;
    for (size_t b = 0; b < blocks; b++, src += 110, codes += BLOCK, scales += 16) {
        float d = half_at(src + 108);
        const uint8_t *low = src + 96, *high = src + 104; /* of the 6-bit scales */
        for (int t = 0; t < 16; t++) {
            int scale = (low[t & 7] >> (4 * (t >> 3)) & 15) | (high[t & 3] >> (2 * (t >> 2)) & 3) << 4;
            scales[t] = d * (float)(scale - 32);
        }
        unpack_twos(src + 32, codes);
        for (int run = 0; run < 8; run++)
            for (int lane = 0; lane < 32; lane++)
                codes[32 * run + lane] |= (src[lane] >> run & 1) << 2;
    }
}

void split_q4_k(const uint8_t *src, size_t blocks, uint8_t *codes, float *scales, float *mins)
{
    for (size_t b = 0; b < blocks; b++, src += 144, codes += BLOCK, scales += 8, mins += 8) {
        scales_of_12(src + 4, half_at(src), half_at(src + 2), scales, mins);
        unpack_fours(src + 16, codes);
    }
}

void split_q5_k(const uint8_t *src, size_t blocks, uint8_t *codes, float *scales, float *mins)
{
    for (size_t b = 0; b < blocks; b++, src += 176, codes += BLOCK, scales += 8, mins += 8) {
        scales_of_12(src + 4, half_at(src), half_at(src + 2), scales, mins);
        unpack_fours(src + 48, codes);
        for (int run = 0; run < 8; run++)
            for (int lane = 0; lane < 32; lane++)
                codes[32 * run + lane] |= (src[16 + lane] >> run & 1) << 4;
    }
}

void split_q6_k(const uint8_t *src, size_t blocks, uint8_t *codes, float *scales, float *mins)
{
    (void)mins;
    for (size_t b = 0; b < blocks; b++, src += 210, codes += BLOCK, scales += 16) {
        float d = half_at(src + 208);
        for (int t = 0; t < 16; t++)
            scales[t] = d * (float)(int8_t)src[192 + t];
        for (int g = 0; g < 2; g++) {
            const uint8_t *low = src + 64 * g, *high = src + 128 + 32 * g;
            uint8_t *out = codes + 128 * g;
            for (int lane = 0; lane < 32; lane++) {
                out[lane] = (low[lane] & 15) | (high[lane] & 3) << 4;
                out[lane + 32] = (low[lane + 32] & 15) | (high[lane] >> 2 & 3) << 4;
                out[lane + 64] = low[lane] >> 4 | (high[lane] >> 4 & 3) << 4;
                out[lane + 96] = low[lane + 32] >> 4 | high[lane] >> 6 << 4;
            }
        }
    }
}

void split_iq4_xs(const uint8_t *src, size_t blocks, uint8_t *codes, float *scales, float *mins)
{
    (void)mins;
    for (size_t b = 0; b < blocks; b++, src += 136, codes += BLOCK, scales += 8) {
        float d = half_at(src);
        uint32_t high = src[2] | (uint32_t)src[3] << 8;
        for (int s = 0; s < 8; s++) {
            int scale = (src[4 + s / 2] >> (4 * (s & 1)) & 15) | (int)(high >> (2 * s) & 3) << 4;
            scales[s] = d * (float)(scale - 32);
            const uint8_t *packed = src + 8 + 16 * s;
            for (int i = 0; i < 16; i++) {
                codes[32 * s + i] = IQ4_CODES[packed[i] & 15];
                codes[32 * s + 16 + i] = IQ4_CODES[packed[i] >> 4];
            }
        }
    }
}
