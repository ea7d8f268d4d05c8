/* tensor/cpu/avx512/matmul_packed.c: few rows (decode) straight from the packed form, one function per type and row
 * count. Each stored byte is read once and unpacked in registers; the memory is what it waits for. */
#include "tensor/cpu/avx512/matmul_block.h"

/* One row: the integer dot in two chains, which is the same number, sooner. */
KERNEL_INLINE __m512i dot_group(const __m512i *code, const uint8_t *x, bool has_min, int half, int groups, int r)
{
    __m512i even = dot_start(x, has_min, half, r), odd = _mm512_setzero_si512();
    UNROLL
    for (int g = 0; g < groups; g += 2) {
        const uint8_t *at = x + 32 * r + 4 * (groups * half + g);
        even = dot_four(even, code[groups * half + g], at);
        odd = dot_four(odd, code[groups * half + g + 1], at + 4);
    }
    return _mm512_add_epi32(even, odd);
}

KERNEL_INLINE void dot_panel(code_kind code_of, scale_kind scale_of, bool by_table, int rows, const weight *w,
                             uint32_t index, const uint8_t *x, const panel_out *to)
{
    bool split = scale_of >= SCALES_K16, has_min = scales_have_min(scale_of);
    int halves = split ? 2 : 1, groups = 8 / halves;
    size_t block_bytes = code_block_bytes(code_of), step = act_block_bytes((act_form){split, has_min});
    const uint8_t *scales = weight_scales(w, index), *block = weight_codes(w, index);
    size_t ahead_step = w->panel_bytes / (w->cols / BLOCK_COLS);
    const uint8_t *ahead = scales + PREFETCH_BYTES;
    code_map map = code_map_of(w->format);
    __m512 acc[FUSED_ROWS];
    UNROLL
    for (int r = 0; r < rows; r++)
        acc[r] = _mm512_setzero_ps();
    for (uint32_t b = 0; b < w->cols / BLOCK_COLS; b++, block += block_bytes, x += step) {
        __m512i code[8];
        __m512 s[2] = {acc[0], acc[0]}, m[2] = {acc[0], acc[0]};
        load_codes(code_of, by_table, has_min, map, block, code);
        load_scales(scale_of, scales, b, s, m);
        prefetch_block(ahead, block_bytes);
        ahead += ahead_step;
        UNROLL
        for (int r = 0; r < rows; r++) {
            UNROLL
            for (int h = 0; h < halves; h++)
                acc[r] = add_group(acc[r], dot_group(code, x, has_min, h, groups, r), x, has_min, s[h], m[h], h, r);
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++)
        store_row(acc[r], to, (uint32_t)r);
}

typedef void (*packed_fn)(const weight *w, uint32_t index, const uint8_t *x, const panel_out *to);
#define PACKED_FN(type, code, scale, by_table, rows)                                                                   \
    static void type##_##rows(const weight *w, uint32_t index, const uint8_t *x, const panel_out *to)                  \
    {                                                                                                                  \
        dot_panel(code, scale, by_table, rows, w, index, x, to);                                                       \
    }
#define PACKED_FNS(type, code, scale, by_table)                                                                        \
    PACKED_FN(type, code, scale, by_table, 1)                                                                          \
    PACKED_FN(type, code, scale, by_table, 2)                                                                          \
    PACKED_FN(type, code, scale, by_table, 3)                                                                          \
    PACKED_FN(type, code, scale, by_table, 4)
PACKED_FNS(q4_0, CODES_4, SCALES_F16, false)
PACKED_FNS(q4_1, CODES_4, SCALES_F16_MIN, false)
PACKED_FNS(q5_0, CODES_5, SCALES_F16, false)
PACKED_FNS(q5_1, CODES_5, SCALES_F16_MIN, false)
PACKED_FNS(q8_0, CODES_8, SCALES_F16, false)
PACKED_FNS(q2_k, CODES_2, SCALES_K16_MIN, false)
PACKED_FNS(q3_k, CODES_3, SCALES_K16, false)
PACKED_FNS(q4_k, CODES_4, SCALES_K32_MIN, false)
PACKED_FNS(q5_k, CODES_5, SCALES_K32_MIN, false)
PACKED_FNS(q6_k, CODES_6, SCALES_K16, false)
PACKED_FNS(iq4_nl, CODES_4, SCALES_F16, true)
PACKED_FNS(iq4_xs, CODES_4, SCALES_K32, true)
PACKED_FNS(mxfp4, CODES_4, SCALES_E8M0, true)
PACKED_FNS(nvfp4, CODES_4, SCALES_E4M3_16, true)
PACKED_FNS(affine2, CODES_2, SCALES_F32_MIN, false)
PACKED_FNS(affine3, CODES_3, SCALES_F32_MIN, false)
PACKED_FNS(affine4, CODES_4, SCALES_F32_MIN, false)
PACKED_FNS(affine5, CODES_5, SCALES_F32_MIN, false)
PACKED_FNS(affine6, CODES_6, SCALES_F32_MIN, false)
PACKED_FNS(affine4_bf16, CODES_4, SCALES_BF16_MIN_64, false)
PACKED_FNS(affine4_f16, CODES_4, SCALES_F16_MIN_64, false)
#define PACKED_ROW(type)                                                                                               \
    {                                                                                                                  \
        type##_1, type##_2, type##_3, type##_4                                                                         \
    }

void matmul_dot_packed_avx512(const weight *w, uint32_t index, const uint8_t *tile, uint32_t rows, const panel_out *to)
{
    static const packed_fn TYPES[DT_COUNT][FUSED_ROWS] = {
        [DT_Q4_0] = PACKED_ROW(q4_0),
        [DT_Q4_1] = PACKED_ROW(q4_1),
        [DT_Q5_0] = PACKED_ROW(q5_0),
        [DT_Q5_1] = PACKED_ROW(q5_1),
        [DT_Q8_0] = PACKED_ROW(q8_0),
        [DT_Q2_K] = PACKED_ROW(q2_k),
        [DT_Q3_K] = PACKED_ROW(q3_k),
        [DT_Q4_K] = PACKED_ROW(q4_k),
        [DT_Q5_K] = PACKED_ROW(q5_k),
        [DT_Q6_K] = PACKED_ROW(q6_k),
        [DT_IQ4_NL] = PACKED_ROW(iq4_nl),
        [DT_IQ4_XS] = PACKED_ROW(iq4_xs),
        [DT_MXFP4] = PACKED_ROW(mxfp4),
        [DT_NVFP4] = PACKED_ROW(nvfp4),
        [DT_AFFINE2] = PACKED_ROW(affine2),
        [DT_AFFINE3] = PACKED_ROW(affine3),
        [DT_AFFINE4] = PACKED_ROW(affine4),
        [DT_AFFINE5] = PACKED_ROW(affine5),
        [DT_AFFINE6] = PACKED_ROW(affine6),
        [DT_AFFINE4_BF16] = PACKED_ROW(affine4_bf16),
        [DT_AFFINE4_F16] = PACKED_ROW(affine4_f16),
    };
    TYPES[w->type][rows - 1](w, index, tile, to);
}
