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
    DT_COUNT = 64 /* bound of every id */
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
