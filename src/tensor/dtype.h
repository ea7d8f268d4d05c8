/* tensor/dtype.h: how are elements stored? Ids are those of GGUF (formats.md: "Type ids"). Pure data; any thread. */
#ifndef HEADWAY_TENSOR_DTYPE_H
#define HEADWAY_TENSOR_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    DT_F32 = 0,
    DT_F16 = 1,
    DT_Q4_0 = 2,
    DT_Q4_1 = 3,
    DT_Q5_0 = 6,
    DT_Q5_1 = 7,
    DT_Q8_0 = 8,
    DT_Q2_K = 10,
    DT_Q3_K = 11,
    DT_Q4_K = 12,
    DT_Q5_K = 13,
    DT_Q6_K = 14,
    DT_IQ4_NL = 20,
    DT_IQ4_XS = 23,
    DT_BF16 = 30,
    DT_MXFP4 = 39,
    /* The loaders' own, never in a GGUF file. Blocks of 32 columns, but for the last two; formats.md 3.4 says what they
     * stand for. */
    DT_OWN = 64,
    DT_MXFP8 = 64,   /* u8 scale (E8M0), 32 x E4M3: 33 bytes */
    DT_NVFP4,        /* 2 x E4M3 scale (of 16 columns each), 16 bytes of nibbles (column 2i low): 18 bytes */
    DT_AFFINE2,      /* f32 scale, f32 bias, 32 codes of 2 bits, LSB first: 16 bytes; w = scale * code + bias */
    DT_AFFINE3,      /* 20 bytes */
    DT_AFFINE4,      /* 24 */
    DT_AFFINE5,      /* 28 */
    DT_AFFINE6,      /* 32 */
    DT_AFFINE8,      /* 40 */
    DT_AFFINE4_BF16, /* bf16 scale, bf16 bias, 64 codes of 4 bits: 36 */
    DT_AFFINE4_F16,  /* the same with f16 */
    DT_COUNT = 80    /* bound of every id */
} dtype;

typedef struct {
    const char *name;     /* "Q4_1" */
    uint32_t block_elems; /* elements in one block */
    uint32_t block_bytes;
    bool supported; /* false: named for messages only (IQ2_XXS …) */
} dtype_info;

/* NULL for an id nobody knows. */
const dtype_info *dtype_get(uint32_t id);

/* Bytes of a row of `elems` elements; elems must be a multiple of block_elems. */
static inline size_t dtype_row_bytes(const dtype_info *t, size_t elems)
{
    return elems / t->block_elems * t->block_bytes;
}

#endif
