/* tensor/cpu/avx512/matmul_wide.c: a decode batch (5 to WIDE_ROWS rows) straight from the packed form. A block's codes
 * are unpacked into registers once and meet all rows, four at a time: four integer chains keep the dot product's unit
 * busy, and the sums of the other rows wait in L1. */
#include "tensor/cpu/avx512/matmul_block.h"

enum { STEP_ROWS = TILE_ROWS_STEP };

/* One block of `rows` neighbouring rows; `codes` and `x` are the block's, moved on to the first row. */
KERNEL_INLINE void add_rows(bool split, bool has_min, int rows, const __m512i code[8], const __m512 s[2],
                            const __m512 m[2], const uint8_t *codes, const uint8_t *x, float *sums)
{
    int halves = split ? 2 : 1, groups = 8 / halves;
    __m512 acc[STEP_ROWS];
    UNROLL
    for (int r = 0; r < rows; r++)
        acc[r] = _mm512_load_ps(sums + PANEL_ROWS * r);
    UNROLL
    for (int h = 0; h < halves; h++) {
        __m512i dot[STEP_ROWS];
        UNROLL
        for (int r = 0; r < rows; r++)
            dot[r] = dot_start(x, has_min, h, r);
        UNROLL
        for (int g = 0; g < groups; g++) {
            UNROLL
            for (int r = 0; r < rows; r++)
                dot[r] = dot_four(dot[r], code[groups * h + g], codes + BLOCK_COLS * r + 4 * (groups * h + g));
        }
        UNROLL
        for (int r = 0; r < rows; r++)
            acc[r] = add_group(acc[r], dot[r], x, has_min, s[h], m[h], h, r);
    }
    UNROLL
    for (int r = 0; r < rows; r++)
        _mm512_store_ps(sums + PANEL_ROWS * r, acc[r]);
}

KERNEL_INLINE void dot_panel(code_kind code_of, scale_kind scale_of, bool by_table, const weight *w, uint32_t index,
                             const tile_run *run, float *sums)
{
    bool split = scale_of >= SCALES_K16, has_min = scales_have_min(scale_of);
    size_t block_bytes = code_block_bytes(code_of), step = act_block_bytes((act_form){split, has_min});
    const uint8_t *scales = weight_scales(w, index), *block = weight_codes(w, index), *x = run->tiles;
    size_t ahead_step = w->panel_bytes / (w->cols / BLOCK_COLS);
    const uint8_t *ahead = scales + PREFETCH_BYTES;
    code_map map = code_map_of(w->format);
    for (uint32_t b = 0; b < w->cols / BLOCK_COLS; b++, block += block_bytes, x += step, ahead += ahead_step) {
        __m512i code[8];
        __m512 s[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()}, m[2] = {s[0], s[0]};
        load_codes(code_of, by_table, has_min, map, block, code);
        load_scales(scale_of, scales, b, s, m);
        prefetch_block(ahead, block_bytes);
        const uint8_t *tile = x;
        float *acc = sums;
        for (uint32_t left = run->rows; left; tile += run->tile_bytes) {
            uint32_t rows = left < run->tile_rows ? left : run->tile_rows, r = 0;
            const uint8_t *codes = tile + ACT_CODES, *row = tile;
            for (; r + STEP_ROWS <= rows; r += STEP_ROWS, acc += STEP_ROWS * PANEL_ROWS) {
                add_rows(split, has_min, STEP_ROWS, code, s, m, codes, row, acc);
                codes += BLOCK_COLS * STEP_ROWS, row += 4 * STEP_ROWS;
            }
            if (rows - r == 1)
                add_rows(split, has_min, 1, code, s, m, codes, row, acc);
            else if (rows - r == 2)
                add_rows(split, has_min, 2, code, s, m, codes, row, acc);
            else if (rows - r == 3)
                add_rows(split, has_min, 3, code, s, m, codes, row, acc);
            acc += (rows - r) * PANEL_ROWS;
            left -= rows;
        }
    }
}

typedef void (*wide_fn)(const weight *w, uint32_t index, const tile_run *run, float *sums);
#define WIDE_FN(type, code, scale, by_table)                                                                           \
    static void type##_wide(const weight *w, uint32_t index, const tile_run *run, float *sums)                         \
    {                                                                                                                  \
        dot_panel(code, scale, by_table, w, index, run, sums);                                                         \
    }
WIDE_FN(q4_0, CODES_4, SCALES_F16, false)
WIDE_FN(q4_1, CODES_4, SCALES_F16_MIN, false)
WIDE_FN(q5_0, CODES_5, SCALES_F16, false)
WIDE_FN(q5_1, CODES_5, SCALES_F16_MIN, false)
WIDE_FN(q8_0, CODES_8, SCALES_F16, false)
WIDE_FN(q2_k, CODES_2, SCALES_K16_MIN, false)
WIDE_FN(q3_k, CODES_3, SCALES_K16, false)
WIDE_FN(q4_k, CODES_4, SCALES_K32_MIN, false)
WIDE_FN(q5_k, CODES_5, SCALES_K32_MIN, false)
WIDE_FN(q6_k, CODES_6, SCALES_K16, false)
WIDE_FN(iq4_nl, CODES_4, SCALES_F16, true)
WIDE_FN(iq4_xs, CODES_4, SCALES_K32, true)
WIDE_FN(mxfp4, CODES_4, SCALES_E8M0, true)
WIDE_FN(nvfp4, CODES_4, SCALES_E4M3_16, true)
WIDE_FN(affine2, CODES_2, SCALES_F32_MIN, false)
WIDE_FN(affine3, CODES_3, SCALES_F32_MIN, false)
WIDE_FN(affine4, CODES_4, SCALES_F32_MIN, false)
WIDE_FN(affine5, CODES_5, SCALES_F32_MIN, false)
WIDE_FN(affine6, CODES_6, SCALES_F32_MIN, false)
WIDE_FN(affine4_bf16, CODES_4, SCALES_BF16_MIN_64, false)
WIDE_FN(affine4_f16, CODES_4, SCALES_F16_MIN_64, false)

void matmul_dot_wide_avx512(const weight *w, uint32_t index, const tile_run *run, const panel_out *to)
{
    static const wide_fn TYPES[DT_COUNT] = {
        [DT_Q4_0] = q4_0_wide,
        [DT_Q4_1] = q4_1_wide,
        [DT_Q5_0] = q5_0_wide,
        [DT_Q5_1] = q5_1_wide,
        [DT_Q8_0] = q8_0_wide,
        [DT_Q2_K] = q2_k_wide,
        [DT_Q3_K] = q3_k_wide,
        [DT_Q4_K] = q4_k_wide,
        [DT_Q5_K] = q5_k_wide,
        [DT_Q6_K] = q6_k_wide,
        [DT_IQ4_NL] = iq4_nl_wide,
        [DT_IQ4_XS] = iq4_xs_wide,
        [DT_MXFP4] = mxfp4_wide,
        [DT_NVFP4] = nvfp4_wide,
        [DT_AFFINE2] = affine2_wide,
        [DT_AFFINE3] = affine3_wide,
        [DT_AFFINE4] = affine4_wide,
        [DT_AFFINE5] = affine5_wide,
        [DT_AFFINE6] = affine6_wide,
        [DT_AFFINE4_BF16] = affine4_bf16_wide,
        [DT_AFFINE4_F16] = affine4_f16_wide,
    };
    _Alignas(64) float sums[WIDE_ROWS * PANEL_ROWS];
    memset(sums, 0, run->rows * PANEL_ROWS * sizeof(float));
    TYPES[w->type](w, index, run, sums);
    for (uint32_t r = 0; r < run->rows; r++)
        store_row(_mm512_load_ps(sums + PANEL_ROWS * r), to, r);
}
