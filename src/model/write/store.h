/* model/write/store.h: floats to the bytes of a stored row: GGUF blocks, MLX groups with scales apart, plain floats.
 * Deterministic: the same floats give the same bytes on every machine. Input beyond 2^127 is the caller's mistake;
 * magnitudes beyond what a type's scale can say are cut to the largest it can. Any thread. */
#ifndef HEADWAY_MODEL_WRITE_STORE_H
#define HEADWAY_MODEL_WRITE_STORE_H

#include <stddef.h>
#include <stdint.h>

typedef enum {
    STORE_F32,
    STORE_F16,
    STORE_BF16,
    STORE_Q8_0,    /* GGUF: f16 scale, 32 codes */
    STORE_Q4_0,    /* GGUF: f16 scale, 32 nibbles, split halves */
    STORE_MXFP4,   /* GGUF: E8M0 scale, 32 nibbles, split halves */
    STORE_MLX_FP8, /* mxfp8: 32 x E4M3; scales u8 apart */
    STORE_MLX_FP4, /* mxfp4: 32 nibbles, even column low; scales u8 apart */
    STORE_MLX_Q4,  /* affine, 64 columns, 4 bits; scales and biases bf16 apart */
    STORE_MLX_Q8,  /* the same with 8 bits */
} store;

enum { STORE_PIECES = 3 }; /* weight, scales, biases */

typedef struct {
    const char *name;
    uint32_t block;  /* columns; a row is a whole number of blocks */
    uint32_t pieces; /* 1 to STORE_PIECES */
    struct {
        uint32_t block_bytes; /* of one block */
        uint32_t unit_bytes;  /* of one element of `dtype` */
        const char *dtype;    /* safetensors' name of the element */
    } piece[STORE_PIECES];
} store_info;

const store_info *store_of(store kind);

static inline size_t store_row_bytes(const store_info *info, uint32_t piece, uint64_t cols)
{
    return (size_t)(cols / info->block) * info->piece[piece].block_bytes;
}

/* Encodes `cols` floats (a whole number of blocks); out[i] takes store_row_bytes(…, i, cols) bytes, may be unaligned.
 */
void store_row(store kind, const float *src, size_t cols, uint8_t *const out[STORE_PIECES]);

#endif
