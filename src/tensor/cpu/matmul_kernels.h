/* tensor/cpu/matmul_kernels.h: what does one instruction set do to packed weights and packed activations?
 *
 * A weight is cut into panels of PANEL_ROWS output rows, the lanes of every kernel. Activations are cut into tiles of
 * up to TILE_ROWS rows, quantized to int8 per row and block of 32 (scale amax / 127), or kept in f32 for float weights.
 *
 * One output element is, for every number of rows and every path through a table, this sequence and no other:
 *     acc = 0;  for each block of 32, ascending:  for each group of it (one of 32 or two of 16), ascending:
 *         dot = sum (code - zero) * q                      (exact integer)
 *         acc = acc + (float)dot * (scale_w * scale_x)     (fused or not, as the instruction set has it)
 *         acc = acc + min_w * (scale_x * (float)sum q)     (only types with a min)
 *     out = acc;  out = out + bias;  out = out + old       (the last two only when asked for)
 * and for float weights acc = acc + w[k] * x[k], k ascending (MXFP8 may be summed per block before its scale, and with
 * bf16_kernels x is rounded to bf16). So a row's result never depends on its neighbours. Any thread; two threads never
 * share an output or a panel. */
#ifndef HEADWAY_TENSOR_CPU_MATMUL_KERNELS_H
#define HEADWAY_TENSOR_CPU_MATMUL_KERNELS_H

#include "tensor/cpu/cpu_weight.h"

enum { TILE_ROWS = 12 };

/* What a quantized tile carries besides codes depends on what the weight's kernel needs. */
typedef struct {
    bool split;   /* groups of 16: two sums per block */
    bool has_min; /* the sums are f32, scale * sum, else i32, -sum (times what the table likes) */
} act_form;

/* Block b of a quantized tile is at b * act_block_bytes(form); row r of it: int8 q[32] at ACT_CODES + 32 r, f32 scale
 * at ACT_SCALES + 4 r, then its sums, i32 or f32, at ACT_SUMS + 48 h + 4 r for half h. Unused rows hold anything. A
 * float tile is [cols][rows] f32, as wide as its rows. Block b of a bf16 tile is at b * BF16_BLOCK_BYTES,
 * [TILE_ROWS][32] bf16. */
enum {
    ACT_CODES = 0,
    ACT_SCALES = 32 * TILE_ROWS,
    ACT_SUMS = ACT_SCALES + 4 * TILE_ROWS,
    ACT_SUM_STRIDE = 4 * TILE_ROWS,
    BF16_BLOCK_BYTES = 2 * BLOCK_COLS * TILE_ROWS
};
static inline size_t act_block_bytes(act_form form)
{
    return ACT_SUMS + (form.split ? 2 : 1) * (size_t)ACT_SUM_STRIDE;
}

/* A panel unpacked into a worker's scratch, in a layout that only the table's own `dot` reads. */
typedef struct {
    uint8_t *codes;       /* 32 bytes per column */
    float *scales;        /* 16 per group */
    float *mins;          /* 16 per group; unset where the type has none */
    const uint8_t *ahead; /* packed bytes that will be wanted soon: dot may ask the memory for them */
    size_t ahead_bytes;
} panel;

/* Where a panel's results go: row r at out + r * stride, `lanes` floats of it (PANEL_ROWS but for a matrix's last). */
typedef struct {
    float *out;
    size_t stride;
    const float *bias; /* `lanes` floats or NULL */
    uint32_t lanes;
    bool add;
} panel_out;

/* Rows of several tiles, one behind the other: row r is row r % tile_rows of tile r / tile_rows. */
typedef struct {
    const uint8_t *tiles;
    size_t tile_bytes;
    uint32_t tile_rows, rows;
} tile_run;
enum { TILE_ROWS_STEP = 4 }; /* dot_wide likes tiles of a multiple of it */

typedef struct matmul_kernels {
    /* Packs `rows` (1..TILE_ROWS) rows into a tile. cols is a multiple of 32. */
    void (*quantize)(const float *const *x, uint32_t rows, uint32_t cols, act_form form, uint8_t *tile);
    void (*unpack)(const weight *w, uint32_t index, const panel *to);
    /* Tile times unpacked panel. */
    void (*dot)(const weight *w, const panel *p, const uint8_t *tile, uint32_t rows, const panel_out *to);
    /* Tile times packed panel, rows 1..fused_rows: same bits as unpack + dot, each packed byte read once. */
    void (*dot_packed)(const weight *w, uint32_t index, const uint8_t *tile, uint32_t rows, const panel_out *to);
    uint32_t fused_rows; /* 0: dot_packed is NULL */
    /* The same for a decode batch, up to wide_rows rows in any number of tiles. */
    void (*dot_wide)(const weight *w, uint32_t index, const tile_run *run, const panel_out *to);
    uint32_t wide_rows; /* 0: dot_wide is NULL */
    /* The same for F32, F16 and BF16 weights; `tile` is a float tile. */
    void (*dot_float)(const weight *w, uint32_t index, const float *tile, uint32_t rows, const panel_out *to);
    /* Reads every byte with the widest loads there are (a bandwidth measurement); the result is a checksum. */
    uint64_t (*read_bytes)(const void *from, size_t bytes);
} matmul_kernels;

/* MXFP8 by dot products of bf16, for machines that have them. */
typedef struct bf16_kernels {
    void (*pack)(const float *const *x, uint32_t rows, uint32_t cols, uint8_t *tile);
    /* Any number of rows times a packed panel. */
    void (*dot)(const weight *w, uint32_t index, const tile_run *run, const panel_out *to);
} bf16_kernels;
extern const bf16_kernels bf16_kernels_avx512;

extern const matmul_kernels matmul_kernels_generic, matmul_kernels_avx2, matmul_kernels_avx512, matmul_kernels_neon;

#endif
