/* tensor/quant_split.h: private to quant*.c. One function per quantized type: `blocks` whole blocks become codes,
 * scales and (only where the type has them) mins, as quant_split_row promises. src may be unaligned; mins may be NULL
 * for types without. */
#ifndef HEADWAY_TENSOR_QUANT_SPLIT_H
#define HEADWAY_TENSOR_QUANT_SPLIT_H

#include <string.h>

#include "tensor/quant.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "model files are little-endian and are read in place");

typedef void split_fn(const uint8_t *src, size_t blocks, uint8_t *codes, float *scales, float *mins);
split_fn split_q4_0, split_q4_1, split_q5_0, split_q5_1, split_q8_0, split_iq4_nl, split_mxfp4; /* quant_simple.c */
split_fn split_q2_k, split_q3_k, split_q4_k, split_q5_k, split_q6_k, split_iq4_xs;              /* quant_k.c */

split_fn split_nvfp4, split_affine2, split_affine3, split_affine4, split_affine5, split_affine6, split_affine8,
    split_affine4_bf16, split_affine4_f16; /* quant_own.c */

/* Twice the E2M1 values, plus 12. */
extern const uint8_t E2M1_CODES[16];

/* The 16 values of IQ4_NL and IQ4_XS, plus 128. */
extern const uint8_t IQ4_CODES[16];

static inline float half_at(const uint8_t *bytes)
{
    uint16_t h;
    memcpy(&h, bytes, sizeof h);
    return f16_to_f32(h);
}

static inline uint64_t u64_at(const uint8_t *bytes)
{
    uint64_t v;
    memcpy(&v, bytes, sizeof v);
    return v;
}

#endif
