/* tensor/cpu/avx512bf16/matmul.c: MXFP8 by dot products of bf16, which holds every E4M3 exactly. A block's codes become
 * 16 registers of [16 rows][2 columns] once and meet a tile's rows, each with one chain of sums in a register; the sums
 * over blocks wait in L1. */
#include "tensor/cpu/avx512/matmul_block.h"

enum {
    PAIRS = BLOCK_COLS / 2,
    RUN_ROWS = 48, /* that meet a block while its codes are in registers */
    ROW_BYTES = 2 * BLOCK_COLS,
};

static void pack(const float *const *x, uint32_t rows, uint32_t cols, uint8_t *tile)
{
    for (uint32_t r = 0; r < rows; r++, tile += ROW_BYTES) {
        uint8_t *to = tile;
        for (uint32_t k = 0; k < cols; k += BLOCK_COLS, to += BF16_BLOCK_BYTES) {
            __m512bh both = _mm512_cvtne2ps_pbh(_mm512_loadu_ps(x[r] + k + 16), _mm512_loadu_ps(x[r] + k));
            memcpy(to, &both, sizeof(both));
        }
    }
}

/* bf16 of the 128 magnitudes of E4M3, by byte; NaN comes out as 480, as quant.h has it. A magnitude of 8 or more is
 * 2^(e - 7) (1 + m / 8), a smaller one m 2^-9. */
#define MAGNITUDE(c)                                                                                                   \
    ((c) >= 8   ? (((c) >> 3) + 120) << 7 | ((c)&7) << 4                                                               \
     : (c) >= 4 ? 120 << 7 | ((c)&3) << 5                                                                              \
     : (c) >= 2 ? 119 << 7 | ((c)&1) << 6                                                                              \
     : (c) == 1 ? 118 << 7                                                                                             \
                : 0)
#define LOW(c) (MAGNITUDE(c) & 255)
#define HIGH(c) (MAGNITUDE(c) >> 8)
#define EIGHT(part, c)                                                                                                 \
    part(c), part((c) + 1), part((c) + 2), part((c) + 3), part((c) + 4), part((c) + 5), part((c) + 6), part((c) + 7)
#define ALL(part)                                                                                                      \
    {                                                                                                                  \
        EIGHT(part, 0), EIGHT(part, 8), EIGHT(part, 16), EIGHT(part, 24), EIGHT(part, 32), EIGHT(part, 40),            \
            EIGHT(part, 48), EIGHT(part, 56), EIGHT(part, 64), EIGHT(part, 72), EIGHT(part, 80), EIGHT(part, 88),      \
            EIGHT(part, 96), EIGHT(part, 104), EIGHT(part, 112), EIGHT(part, 120)                                      \
    }
static const uint8_t LOW_BYTES[128] = ALL(LOW), HIGH_BYTES[128] = ALL(HIGH);

/* Four columns of 16 rows, one behind the other, to two columns of each row side by side, in the order in which
 * unpacking bytes leaves 16 rows in the lanes. */
#define SOURCE(row, column) (16 * (column) + (row))
#define FOUR_ROWS(row, column)                                                                                         \
    SOURCE(row, column), SOURCE(row, (column) + 1), SOURCE((row) + 1, column), SOURCE((row) + 1, (column) + 1),        \
        SOURCE((row) + 2, column), SOURCE((row) + 2, (column) + 1), SOURCE((row) + 3, column),                         \
        SOURCE((row) + 3, (column) + 1)
static const uint8_t ORDER[64] = {FOUR_ROWS(0, 0), FOUR_ROWS(0, 2), FOUR_ROWS(4, 0),  FOUR_ROWS(4, 2),
                                  FOUR_ROWS(8, 0), FOUR_ROWS(8, 2), FOUR_ROWS(12, 0), FOUR_ROWS(12, 2)};

KERNEL_INLINE void load_block(const uint8_t *codes, __m512i pairs[PAIRS])
{
    __m512i order = _mm512_loadu_si512(ORDER), sign = _mm512_set1_epi8((char)0x80);
    __m512i low[2] = {_mm512_loadu_si512(LOW_BYTES), _mm512_loadu_si512(LOW_BYTES + 64)};
    __m512i high[2] = {_mm512_loadu_si512(HIGH_BYTES), _mm512_loadu_si512(HIGH_BYTES + 64)};
    UNROLL
    for (int i = 0; i < PAIRS; i += 2, codes += 64) {
        __m512i code = _mm512_permutexvar_epi8(order, _mm512_loadu_si512(codes));
        __m512i l = _mm512_permutex2var_epi8(low[0], code, low[1]);
        __m512i h = or_masked(_mm512_permutex2var_epi8(high[0], code, high[1]), code, sign);
        pairs[i] = _mm512_unpacklo_epi8(l, h);
        pairs[i + 1] = _mm512_unpackhi_epi8(l, h);
    }
}

/* acc += a row's pairs of columns times two bf16 of x; dot_four says why in this way. */
KERNEL_INLINE __m512 dot_pair(__m512 acc, __m512i pairs, const uint8_t *x)
{
    __asm__("vdpbf16ps %2%{1to16%}, %1, %0" : "+v"(acc) : "v"(pairs), "m"(*(const four_bytes *)x));
    return acc;
}

KERNEL_INLINE void add_rows(int rows, const __m512i pairs[PAIRS], __m512 scale, const uint8_t *x, float *sums)
{
    __m512 dot[TILE_ROWS];
    UNROLL
    for (int r = 0; r < rows; r++)
        dot[r] = _mm512_setzero_ps();
    UNROLL
    for (int i = 0; i < PAIRS; i++) {
        UNROLL
        for (int r = 0; r < rows; r++)
            dot[r] = dot_pair(dot[r], pairs[i], x + ROW_BYTES * r + 4 * i);
    }
    UNROLL
    for (int r = 0; r < rows; r++)
        _mm512_store_ps(sums + PANEL_ROWS * r, _mm512_fmadd_ps(dot[r], scale, _mm512_load_ps(sums + PANEL_ROWS * r)));
}

#define CASE(rows)                                                                                                     \
    case rows:                                                                                                         \
        add_rows(rows, pairs, scale, x, sums);                                                                         \
        break

/* One block of one tile. */
KERNEL_INLINE void add_tile(uint32_t rows, const __m512i pairs[PAIRS], __m512 scale, const uint8_t *x, float *sums)
{
    switch (rows) {
        CASE(1);
        CASE(2);
        CASE(3);
        CASE(4);
        CASE(5);
        CASE(6);
        CASE(7);
        CASE(8);
        CASE(9);
        CASE(10);
        CASE(11);
    default:
        add_rows(TILE_ROWS, pairs, scale, x, sums);
    }
}

/* 2^(e - 127); 255 is infinity. */
KERNEL_INLINE __m512 load_block_scale(const uint8_t *at)
{
    __m512i e = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)at));
    __mmask16 tiny = _mm512_testn_epi32_mask(e, e);
    return _mm512_castsi512_ps(_mm512_mask_mov_epi32(_mm512_slli_epi32(e, 23), tiny, _mm512_set1_epi32(0x00400000)));
}

static void dot_run(const weight *w, uint32_t index, const tile_run *run, float *sums)
{
    const uint8_t *block = w->data + index * w->panel_bytes, *x = run->tiles;
    for (uint32_t b = 0; b < w->cols / BLOCK_COLS; b++, block += MXFP8_BLOCK_BYTES, x += BF16_BLOCK_BYTES) {
        __m512i pairs[PAIRS];
        const uint8_t *tile = x;
        float *at = sums;
        load_block(block + MXFP8_SCALE_BYTES, pairs);
        __m512 scale = load_block_scale(block);
        prefetch_block(block + PREFETCH_BYTES, MXFP8_BLOCK_BYTES - MXFP8_SCALE_BYTES);
        for (uint32_t left = run->rows; left; tile += run->tile_bytes) {
            uint32_t rows = left < run->tile_rows ? left : run->tile_rows;
            add_tile(rows, pairs, scale, tile, at);
            at += rows * PANEL_ROWS;
            left -= rows;
        }
    }
}

static void dot(const weight *w, uint32_t index, const tile_run *run, const panel_out *to)
{
    _Alignas(64) float sums[RUN_ROWS * PANEL_ROWS];
    uint32_t most = RUN_ROWS / run->tile_rows * run->tile_rows;
    tile_run part = *run;
    for (uint32_t done = 0; done < run->rows; done += part.rows) {
        part.rows = run->rows - done < most ? run->rows - done : most;
        part.tiles = run->tiles + done / run->tile_rows * run->tile_bytes;
        memset(sums, 0, part.rows * PANEL_ROWS * sizeof(float));
        dot_run(w, index, &part, sums);
        for (uint32_t r = 0; r < part.rows; r++)
            store_row(_mm512_load_ps(sums + PANEL_ROWS * r), to, done + r);
    }
}

const bf16_kernels bf16_kernels_avx512 = {.pack = pack, .dot = dot};
