/* tensor/cpu/cpu_weight.h: how does a matrix lie in memory?
 *
 * In panels of PANEL_ROWS rows, padded with zero rows at the end. A float panel is [cols][16] of the stored type; of a
 * byte type (MXFP8, AFFINE8, which meet activations in f32 too), per block of 32 columns, its scales side by side (u8
 * e[16]; f32 d[16], f32 m[16]), then [32][16] codes. A
 * quantized panel is its scales, then its codes, each on a 64-byte border and no wider than in the file.
 *
 * Codes lie in planes per block of 32 columns. A "group" is 4 neighbouring columns of all 16 rows, in the order [16
 * rows][4 columns]:
 *
 *   nibble plane   4 x 64 bytes   byte j holds group j (low nibble) and group j + 4 (high)
 *   two-bit plane  2 x 64 bytes   byte j holds groups 4j to 4j + 3, from bit 0
 *   one-bit plane  64 bytes       bit g is group g
 *   byte plane     8 x 64 bytes
 *
 * Scales: see scale_kind; always 16 rows side by side. Immutable once made; any thread. */
#ifndef HEADWAY_TENSOR_CPU_CPU_WEIGHT_H
#define HEADWAY_TENSOR_CPU_CPU_WEIGHT_H

#include "base/error.h"
#include "tensor/backend.h"
#include "tensor/cpu/cpu_arena.h"
#include "tensor/cpu/pool.h"

enum { PANEL_ROWS = 16, BLOCK_COLS = 32, SUPER_BLOCKS = 8 /* blocks per K-quant super-block */ };

typedef enum {
    CODES_2, /* two-bit plane */
    CODES_3, /* two-bit plane, one-bit plane (bit 2) */
    CODES_4, /* nibble plane */
    CODES_5, /* nibble plane, one-bit plane (bit 4) */
    CODES_6, /* nibble plane, two-bit plane (bits 4, 5) */
    CODES_8, /* byte plane */
    CODE_KINDS,
} code_kind;

typedef enum {
    SCALES_F16,         /* per block f16 d[16] */
    SCALES_F16_MIN,     /* per block f16 d[16], f16 m[16] */
    SCALES_E8M0,        /* per block u8 e[16], scale 2^(e - 128) */
    SCALES_F32_MIN,     /* per block f32 d[16], f32 m[16] */
    SCALES_BF16_MIN_64, /* per two blocks bf16 d[16], bf16 m[16] */
    SCALES_F16_MIN_64,  /* per two blocks f16 d[16], f16 m[16] */
    SCALES_K32,         /* per super-block f16 d[16], then per block i8 s[16]: scale d * s */
    SCALES_K32_MIN, /* per super-block f16 d[16], f16 dmin[16], then per block u8 s[16], u8 m[16]: min -(dmin * m) */
    SCALES_K16,     /* as K32 with two s[16] per block, one per 16 columns */
    SCALES_K16_MIN, /* as K32_MIN with, per 16 columns, u8 sm[16]: s low nibble, m high nibble */
    SCALES_E4M3_16, /* per block u8 e4m3 d[16] of its first 16 columns, u8 d[16] of the others; scale d / 2 */
} scale_kind;

static inline bool scales_have_min(scale_kind kind)
{
    return kind == SCALES_F16_MIN || kind == SCALES_F32_MIN || kind == SCALES_BF16_MIN_64 ||
           kind == SCALES_F16_MIN_64 || kind == SCALES_K32_MIN || kind == SCALES_K16_MIN;
}

typedef struct {
    code_kind code;
    scale_kind scale;
    uint8_t group; /* 16 or 32 columns per scale */
    uint8_t zero;
    bool has_min;
    const uint8_t *values; /* 16 codes that a nibble stands for, or NULL: the nibble is the code */
} weight_format;

struct weight {
    dtype type;
    const weight_format *format;     /* NULL for F32, F16, BF16 and the byte types */
    uint32_t rows, cols, panels;     /* of one matrix */
    uint32_t stack;                  /* matrices: panel p of matrix e is panel e * panels + p */
    size_t scale_bytes, panel_bytes; /* of one panel: its scales; scales and codes */
    size_t bytes;                    /* of all panels */
    uint8_t *data;
    arena_piece memory;
};

enum {
    MXFP8_SCALE_BYTES = 16,
    MXFP8_BLOCK_BYTES = 16 + 512,
    AFFINE8_SCALE_BYTES = 128,
    AFFINE8_BLOCK_BYTES = 128 + 512
};
static inline bool is_byte_type(dtype type)
{
    return type == DT_MXFP8 || type == DT_AFFINE8;
}

/* NULL for float types and for types that are not supported. */
const weight_format *weight_format_of(dtype type);
static inline size_t code_block_bytes(code_kind kind) /* of one block of one panel */
{
    return kind == CODES_8 ? 512 : 64 * ((size_t)kind + 2);
}

/* `raw` holds rows * row bytes in file order, or is NULL: cpu_weight_fill brings them. Packs over the pool, into the
 * arena. */
typedef struct {
    pool *pool;
    cpu_arena *arena;
} weight_place;
typedef struct {
    dtype type;
    uint32_t stack, rows, cols;
} weight_shape;
status cpu_weight_create(weight_place place, weight_shape shape, const void *raw, weight **out, error *err);
/* Rows [first, first + rows), of which `raw` holds the bytes; both multiples of PANEL_ROWS but for the last rows of
 * a matrix; of a stack they are numbered through. */
void cpu_weight_fill(pool *pool, weight *w, uint32_t first, uint32_t rows, const void *raw);
void cpu_weight_destroy(cpu_arena *arena, weight *w); /* NULL allowed */
/* Exactly what quant_dequantize_row gives for that row of the file. */
void cpu_weight_read_row(const weight *w, uint32_t row, float *dst);

static inline const uint8_t *weight_scales(const weight *w, uint32_t index)
{
    return w->data + index * w->panel_bytes;
}
static inline const uint8_t *weight_codes(const weight *w, uint32_t index)
{
    return w->data + index * w->panel_bytes + w->scale_bytes;
}

/* In plain C, for the generic table: group g (0..7) of one block as codes [16 rows][4 columns], and the scales and mins
 * of one block of a panel ([groups][16]). */
void weight_group_codes(const weight_format *f, const uint8_t *block, uint32_t g, uint8_t codes[64]);
void weight_block_scales(const weight *w, const uint8_t *panel_scales, uint32_t block, float scales[2][PANEL_ROWS],
                         float mins[2][PANEL_ROWS]);

#endif
