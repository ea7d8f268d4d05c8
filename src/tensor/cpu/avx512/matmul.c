/* tensor/cpu/avx512/matmul.c: the matmul family with AVX-512 VNNI. An unpacked panel is [block][8 groups][16 rows][4
 * columns] shifted codes, and its scales in f32; a group of four columns of 16 rows is one register and one vpdpbusd
 * per row of x. */
#include "tensor/cpu/avx512/matmul_block.h"

/* --- activations --- */

#define AMAX_MIN 1e-34f

KERNEL_INLINE int32_t sum_i32(__m128i v)
{
    v = _mm_add_epi32(v, _mm_shuffle_epi32(v, 0x4E));
    v = _mm_add_epi32(v, _mm_shuffle_epi32(v, 0xB1));
    return _mm_cvtsi128_si32(v);
}

KERNEL_INLINE void put_sum(uint8_t *at, int32_t sum, float scale, bool has_min)
{
    float weighted = scale * (float)sum;
    int32_t negative = -CODE_ZERO * sum;
    if (has_min)
        memcpy(at, &weighted, 4);
    else
        memcpy(at, &negative, 4);
}

KERNEL_INLINE void quantize_block(const float *x, uint32_t row, act_form form, uint8_t *block)
{
    __m512 a = _mm512_loadu_ps(x), b = _mm512_loadu_ps(x + 16);
    float amax = _mm512_reduce_max_ps(_mm512_max_ps(_mm512_abs_ps(a), _mm512_abs_ps(b)));
    float inverse = amax > AMAX_MIN ? 127.0f / amax : 0.0f;
    float scale = amax > AMAX_MIN ? amax / 127.0f : 0.0f;
    __m512 factor = _mm512_set1_ps(inverse);
    __m128i low = _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(_mm512_mul_ps(a, factor)));
    __m128i high = _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(_mm512_mul_ps(b, factor)));
    uint8_t *q = block + ACT_CODES + BLOCK_COLS * row, *sums = block + ACT_SUMS + 4 * row;
    _mm_storeu_si128((__m128i *)q, low);
    _mm_storeu_si128((__m128i *)(q + 16), high);
    memcpy(block + ACT_SCALES + 4 * row, &scale, 4);
    __m128i ones = _mm_set1_epi8(1), zero = _mm_setzero_si128();
    __m128i first = _mm_dpbusd_epi32(zero, ones, low);
    if (form.split) {
        put_sum(sums, sum_i32(first), scale, form.has_min);
        put_sum(sums + ACT_SUM_STRIDE, sum_i32(_mm_dpbusd_epi32(zero, ones, high)), scale, form.has_min);
    } else {
        put_sum(sums, sum_i32(_mm_dpbusd_epi32(first, ones, high)), scale, form.has_min);
    }
}

/* The largest lane of each of four vectors. */
KERNEL_INLINE __m128 max_of_four(__m512 a, __m512 b, __m512 c, __m512 d)
{
    __m512 ab = _mm512_max_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b)); /* a b a b in each 128 bits */
    __m512 cd = _mm512_max_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
    __m512d low = _mm512_unpacklo_pd(_mm512_castps_pd(ab), _mm512_castps_pd(cd));
    __m512d high = _mm512_unpackhi_pd(_mm512_castps_pd(ab), _mm512_castps_pd(cd));
    __m512 all = _mm512_max_ps(_mm512_castpd_ps(low), _mm512_castpd_ps(high)); /* a b c d in each */
    __m256 half = _mm256_max_ps(_mm512_castps512_ps256(all), _mm512_extractf32x8_ps(all, 1));
    return _mm_max_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
}

/* The sum of all lanes of each of four vectors. */
KERNEL_INLINE __m128i sum_of_four(const __m128i v[4])
{
    __m128i ab = _mm_add_epi32(_mm_unpacklo_epi32(v[0], v[1]), _mm_unpackhi_epi32(v[0], v[1]));
    __m128i cd = _mm_add_epi32(_mm_unpacklo_epi32(v[2], v[3]), _mm_unpackhi_epi32(v[2], v[3]));
    return _mm_add_epi32(_mm_unpacklo_epi64(ab, cd), _mm_unpackhi_epi64(ab, cd));
}

/* One float or integer of v into each of four blocks. */
KERNEL_INLINE void scatter_four(uint8_t *at, size_t step, __m128i v)
{
    int32_t lanes[4];
    _mm_storeu_si128((__m128i *)lanes, v);
    UNROLL
    for (int i = 0; i < 4; i++)
        memcpy(at + step * (size_t)i, &lanes[i], 4);
}

/* Four neighbouring blocks of a row at once: quantize_block's numbers, with the reductions shared. */
KERNEL_INLINE void quantize_four(const float *x, uint32_t row, act_form form, uint8_t *block, size_t step)
{
    __m512 v[8], most[4];
    UNROLL
    for (int i = 0; i < 4; i++) {
        v[2 * i] = _mm512_loadu_ps(x + 32 * i);
        v[2 * i + 1] = _mm512_loadu_ps(x + 32 * i + 16);
        most[i] = _mm512_max_ps(_mm512_abs_ps(v[2 * i]), _mm512_abs_ps(v[2 * i + 1]));
    }
    __m128 amax = max_of_four(most[0], most[1], most[2], most[3]);
    __mmask8 used = _mm_cmp_ps_mask(amax, _mm_set1_ps(AMAX_MIN), _CMP_GT_OQ);
    __m128 inverse = _mm_maskz_div_ps(used, _mm_set1_ps(127.0f), amax);
    __m128 scale = _mm_maskz_div_ps(used, amax, _mm_set1_ps(127.0f));
    __m128i ones = _mm_set1_epi8(1), zero = _mm_setzero_si128(), part[2][4];
    float factors[4];
    _mm_storeu_ps(factors, inverse);
    UNROLL
    for (int i = 0; i < 4; i++) {
        __m512 factor = _mm512_set1_ps(factors[i]);
        uint8_t *q = block + step * (size_t)i + ACT_CODES + BLOCK_COLS * row;
        __m128i low = _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(_mm512_mul_ps(v[2 * i], factor)));
        __m128i high = _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(_mm512_mul_ps(v[2 * i + 1], factor)));
        _mm_storeu_si128((__m128i *)q, low);
        _mm_storeu_si128((__m128i *)(q + 16), high);
        part[0][i] = _mm_dpbusd_epi32(zero, ones, low);
        part[1][i] = _mm_dpbusd_epi32(form.split ? zero : part[0][i], ones, high);
    }
    scatter_four(block + ACT_SCALES + 4 * row, step, _mm_castps_si128(scale));
    for (int h = 0; h < (form.split ? 2 : 1); h++) {
        __m128i sum = sum_of_four(part[form.split ? h : 1]);
        __m128i weighted = _mm_castps_si128(_mm_mul_ps(scale, _mm_cvtepi32_ps(sum)));
        scatter_four(block + ACT_SUMS + ACT_SUM_STRIDE * h + 4 * row, step,
                     form.has_min ? weighted : _mm_mullo_epi32(sum, _mm_set1_epi32(-CODE_ZERO)));
    }
}

static void quantize(const float *const *x, uint32_t rows, uint32_t cols, act_form form, uint8_t *tile)
{
    size_t step = act_block_bytes(form);
    uint32_t blocks = cols / BLOCK_COLS, b = 0;
    for (; b + 4 <= blocks; b += 4) /* rows inside: their codes and scales share lines */
        for (uint32_t r = 0; r < rows; r++)
            quantize_four(x[r] + b * BLOCK_COLS, r, form, tile + b * step, step);
    for (; b < blocks; b++)
        for (uint32_t r = 0; r < rows; r++)
            quantize_block(x[r] + b * BLOCK_COLS, r, form, tile + b * step);
}

/* --- unpacked panels --- */

KERNEL_INLINE void unpack_codes(code_kind kind, bool by_table, const weight *w, const uint8_t *from, uint8_t *to)
{
    code_map map = code_map_of(w->format);
    size_t step = code_block_bytes(kind);
    bool has_min = w->format->has_min;
    for (uint32_t b = 0; b < w->cols / BLOCK_COLS; b++, from += step, to += 512) {
        __m512i code[8];
        if (has_min)
            load_codes(kind, by_table, true, map, from, code);
        else
            load_codes(kind, by_table, false, map, from, code);
        UNROLL
        for (int g = 0; g < 8; g++)
            _mm512_store_si512(to + 64 * g, code[g]);
    }
}

KERNEL_INLINE void unpack_scales(scale_kind kind, const weight *w, const uint8_t *from, const panel *to)
{
    bool split = kind >= SCALES_K16, has_min = w->format->has_min;
    float *scales = to->scales, *mins = to->mins;
    for (uint32_t b = 0; b < w->cols / BLOCK_COLS; b++) {
        __m512 s[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()}, m[2] = {s[0], s[0]};
        load_scales(kind, from, b, s, m);
        for (int h = 0; h < (split ? 2 : 1); h++, scales += 16, mins += 16) {
            _mm512_store_ps(scales, s[h]);
            if (has_min)
                _mm512_store_ps(mins, m[h]);
        }
    }
}

static void unpack_all_scales(const weight *w, const uint8_t *from, const panel *to)
{
    switch (w->format->scale) {
    case SCALES_F16:
        unpack_scales(SCALES_F16, w, from, to);
        break;
    case SCALES_F16_MIN:
        unpack_scales(SCALES_F16_MIN, w, from, to);
        break;
    case SCALES_E8M0:
        unpack_scales(SCALES_E8M0, w, from, to);
        break;
    case SCALES_F32_MIN:
        unpack_scales(SCALES_F32_MIN, w, from, to);
        break;
    case SCALES_BF16_MIN_64:
        unpack_scales(SCALES_BF16_MIN_64, w, from, to);
        break;
    case SCALES_F16_MIN_64:
        unpack_scales(SCALES_F16_MIN_64, w, from, to);
        break;
    case SCALES_E4M3_16:
        unpack_scales(SCALES_E4M3_16, w, from, to);
        break;
    case SCALES_K32:
        unpack_scales(SCALES_K32, w, from, to);
        break;
    case SCALES_K32_MIN:
        unpack_scales(SCALES_K32_MIN, w, from, to);
        break;
    case SCALES_K16:
        unpack_scales(SCALES_K16, w, from, to);
        break;
    case SCALES_K16_MIN:
        unpack_scales(SCALES_K16_MIN, w, from, to);
    }
}

static void unpack(const weight *w, uint32_t index, const panel *to)
{
    const uint8_t *codes = weight_codes(w, index);
    unpack_all_scales(w, weight_scales(w, index), to);
    switch (w->format->code) {
    case CODES_2:
        unpack_codes(CODES_2, false, w, codes, to->codes);
        break;
    case CODES_3:
        unpack_codes(CODES_3, false, w, codes, to->codes);
        break;
    case CODES_4:
        if (w->format->values)
            unpack_codes(CODES_4, true, w, codes, to->codes);
        else
            unpack_codes(CODES_4, false, w, codes, to->codes);
        break;
    case CODES_5:
        unpack_codes(CODES_5, false, w, codes, to->codes);
        break;
    case CODES_6:
        unpack_codes(CODES_6, false, w, codes, to->codes);
        break;
    default:
        unpack_codes(CODES_8, false, w, codes, to->codes);
    }
}

KERNEL_INLINE void dot_tile(bool split, bool has_min, int rows, uint32_t blocks, const panel *p, const uint8_t *x,
                            const panel_out *to)
{
    enum { HALVES = 2 };
    int halves = split ? HALVES : 1, groups = 8 / halves;
    size_t step = act_block_bytes((act_form){split, has_min});
    const uint8_t *codes = p->codes;
    const float *scales = p->scales, *mins = p->mins;
    const uint8_t *ahead = p->ahead, *ahead_end = p->ahead;
    size_t ahead_step = p->ahead_bytes / blocks;
    __m512 acc[TILE_ROWS];
    UNROLL
    for (int r = 0; r < rows; r++)
        acc[r] = _mm512_setzero_ps();
    for (uint32_t b = 0; b < blocks; b++, x += step) {
        for (ahead_end += ahead_step; ahead < ahead_end; ahead += 64)
            _mm_prefetch((const char *)ahead, _MM_HINT_T0);
        UNROLL
        for (int h = 0; h < halves; h++, codes += 64 * groups, scales += 16, mins += 16) {
            __m512i dot[TILE_ROWS];
            UNROLL
            for (int r = 0; r < rows; r++)
                dot[r] = dot_start(x, has_min, h, r);
            UNROLL
            for (int g = 0; g < groups; g++) {
                __m512i code = _mm512_load_si512(codes + 64 * g);
                UNROLL
                for (int r = 0; r < rows; r++)
                    dot[r] = dot_four(dot[r], code, x + 32 * r + 4 * (groups * h + g));
            }
            __m512 s = _mm512_load_ps(scales), m = has_min ? _mm512_load_ps(mins) : s;
            UNROLL
            for (int r = 0; r < rows; r++)
                acc[r] = add_group(acc[r], dot[r], x, has_min, s, m, h, r);
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++)
        store_row(acc[r], to, (uint32_t)r);
}

typedef void (*tile_fn)(uint32_t blocks, const panel *p, const uint8_t *x, const panel_out *to);
#define TILE_FN(name, split, has_min, rows)                                                                            \
    static void name##rows(uint32_t blocks, const panel *p, const uint8_t *x, const panel_out *to)                     \
    {                                                                                                                  \
        dot_tile(split, has_min, rows, blocks, p, x, to);                                                              \
    }
#define TILE_FNS(name, split, has_min)                                                                                 \
    TILE_FN(name, split, has_min, 1)                                                                                   \
    TILE_FN(name, split, has_min, 2)                                                                                   \
    TILE_FN(name, split, has_min, 3)                                                                                   \
    TILE_FN(name, split, has_min, 4)                                                                                   \
    TILE_FN(name, split, has_min, 5)                                                                                   \
    TILE_FN(name, split, has_min, 6)                                                                                   \
    TILE_FN(name, split, has_min, 7)                                                                                   \
    TILE_FN(name, split, has_min, 8)                                                                                   \
    TILE_FN(name, split, has_min, 9)                                                                                   \
    TILE_FN(name, split, has_min, 10)                                                                                  \
    TILE_FN(name, split, has_min, 11)                                                                                  \
    TILE_FN(name, split, has_min, 12)
TILE_FNS(whole_, false, false)
TILE_FNS(whole_min_, false, true)
TILE_FNS(split_, true, false)
TILE_FNS(split_min_, true, true)
#define TILE_ROW(name)                                                                                                 \
    {                                                                                                                  \
        name##1, name##2, name##3, name##4, name##5, name##6, name##7, name##8, name##9, name##10, name##11, name##12  \
    }

static void dot(const weight *w, const panel *p, const uint8_t *tile, uint32_t rows, const panel_out *to)
{
    static const tile_fn TILES[2][2][TILE_ROWS] = {{TILE_ROW(whole_), TILE_ROW(whole_min_)},
                                                   {TILE_ROW(split_), TILE_ROW(split_min_)}};
    TILES[w->format->group == 16][w->format->has_min][rows - 1](w->cols / BLOCK_COLS, p, tile, to);
}

/* --- float weights --- */

KERNEL_INLINE __m512 load_float_column(dtype type, const uint8_t *panel, uint32_t k)
{
    if (type == DT_F32)
        return _mm512_loadu_ps(panel + 64 * (size_t)k);
    __m256i halves = _mm256_loadu_si256((const __m256i *)(panel + 32 * (size_t)k));
    if (type == DT_F16)
        return _mm512_cvtph_ps(halves);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

KERNEL_INLINE void float_tile(dtype type, int rows, uint32_t cols, const uint8_t *panel, const float *x,
                              const panel_out *to)
{
    __m512 acc[TILE_ROWS];
    UNROLL
    for (int r = 0; r < rows; r++)
        acc[r] = _mm512_setzero_ps();
    for (uint32_t k = 0; k < cols; k++, x += rows) {
        __m512 column = load_float_column(type, panel, k);
        if (rows <= FUSED_ROWS)
            _mm_prefetch((const char *)panel + PREFETCH_BYTES + (type == DT_F32 ? 64 : 32) * (size_t)k, _MM_HINT_T0);
        UNROLL
        for (int r = 0; r < rows; r++)
            acc[r] = _mm512_fmadd_ps(column, _mm512_set1_ps(x[r]), acc[r]);
    }
    UNROLL
    for (int r = 0; r < rows; r++)
        store_row(acc[r], to, (uint32_t)r);
}

KERNEL_INLINE __m512 load_bytes(const uint8_t *codes)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)codes)));
}

/* Two neighbouring columns of E4M3, times 2^-8 each. */
KERNEL_INLINE void load_two_e4m3(const uint8_t *codes, __m512 *first, __m512 *second)
{
    __m512i wide = _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)codes));
    wide = _mm512_and_si512(_mm512_slli_epi16(wide, 7), _mm512_set1_epi16((int16_t)0xbfff));
    *first = _mm512_cvtph_ps(_mm512_castsi512_si256(wide));
    *second = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(wide, 1));
}

/* Per block, the even and the odd columns' sums, then acc += their sum times the scale: which is exact, and shorter
 * than one chain of all columns. */
KERNEL_INLINE void mxfp8_tile(int rows, uint32_t cols, const uint8_t *panel, const float *x, const panel_out *to)
{
    __m512 acc[TILE_ROWS];
    UNROLL
    for (int r = 0; r < rows; r++)
        acc[r] = _mm512_setzero_ps();
    for (uint32_t b = 0; b < cols / BLOCK_COLS; b++, panel += MXFP8_BLOCK_BYTES) {
        const uint8_t *codes = panel + MXFP8_SCALE_BYTES;
        __m512 even[TILE_ROWS], odd[TILE_ROWS];
        UNROLL
        for (int r = 0; r < rows; r++)
            even[r] = odd[r] = _mm512_setzero_ps();
        for (uint32_t k = 0; k < BLOCK_COLS; k += 2, codes += 2 * PANEL_ROWS, x += 2 * rows) {
            __m512 first, second;
            load_two_e4m3(codes, &first, &second);
            if (rows <= FUSED_ROWS && k % 4 == 0)
                _mm_prefetch((const char *)codes + PREFETCH_BYTES, _MM_HINT_T0);
            UNROLL
            for (int r = 0; r < rows; r++) {
                even[r] = _mm512_fmadd_ps(first, _mm512_set1_ps(x[r]), even[r]);
                odd[r] = _mm512_fmadd_ps(second, _mm512_set1_ps(x[rows + r]), odd[r]);
            }
        }
        __m512i e = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)panel));
        __m512 scale = _mm512_cvtepi32_ps(_mm512_sub_epi32(e, _mm512_set1_epi32(127 - 8)));
        UNROLL
        for (int r = 0; r < rows; r++)
            acc[r] = _mm512_add_ps(acc[r], _mm512_scalef_ps(_mm512_add_ps(even[r], odd[r]), scale));
    }
    UNROLL
    for (int r = 0; r < rows; r++)
        store_row(acc[r], to, (uint32_t)r);
}

KERNEL_INLINE void affine8_tile(int rows, uint32_t cols, const uint8_t *panel, const float *x, const panel_out *to)
{
    __m512 acc[TILE_ROWS];
    UNROLL
    for (int r = 0; r < rows; r++)
        acc[r] = _mm512_setzero_ps();
    for (uint32_t b = 0; b < cols / BLOCK_COLS; b++, panel += AFFINE8_BLOCK_BYTES) {
        const uint8_t *codes = panel + AFFINE8_SCALE_BYTES;
        __m512 scale = _mm512_loadu_ps(panel), min = _mm512_loadu_ps(panel + 64);
        for (uint32_t k = 0; k < BLOCK_COLS; k++, codes += PANEL_ROWS, x += rows) {
            __m512 column = _mm512_add_ps(_mm512_mul_ps(load_bytes(codes), scale), min);
            if (rows <= FUSED_ROWS && k % 4 == 0)
                _mm_prefetch((const char *)codes + PREFETCH_BYTES, _MM_HINT_T0);
            UNROLL
            for (int r = 0; r < rows; r++)
                acc[r] = _mm512_fmadd_ps(column, _mm512_set1_ps(x[r]), acc[r]);
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++)
        store_row(acc[r], to, (uint32_t)r);
}

typedef void (*float_fn)(uint32_t cols, const uint8_t *panel, const float *x, const panel_out *to);
#define FLOAT_FN(type, rows)                                                                                           \
    static void type##_##rows(uint32_t cols, const uint8_t *panel, const float *x, const panel_out *to)                \
    {                                                                                                                  \
        if (type == DT_MXFP8)                                                                                          \
            mxfp8_tile(rows, cols, panel, x, to);                                                                      \
        else if (type == DT_AFFINE8)                                                                                   \
            affine8_tile(rows, cols, panel, x, to);                                                                    \
        else                                                                                                           \
            float_tile(type, rows, cols, panel, x, to);                                                                \
    }
#define FLOAT_FNS(type)                                                                                                \
    FLOAT_FN(type, 1)                                                                                                  \
    FLOAT_FN(type, 2)                                                                                                  \
    FLOAT_FN(type, 3)                                                                                                  \
    FLOAT_FN(type, 4)                                                                                                  \
    FLOAT_FN(type, 5)                                                                                                  \
    FLOAT_FN(type, 6)                                                                                                  \
    FLOAT_FN(type, 7)                                                                                                  \
    FLOAT_FN(type, 8)                                                                                                  \
    FLOAT_FN(type, 9)                                                                                                  \
    FLOAT_FN(type, 10)                                                                                                 \
    FLOAT_FN(type, 11)                                                                                                 \
    FLOAT_FN(type, 12)
FLOAT_FNS(DT_F32)
FLOAT_FNS(DT_F16)
FLOAT_FNS(DT_BF16)
FLOAT_FNS(DT_MXFP8)
FLOAT_FNS(DT_AFFINE8)

static void dot_float(const weight *w, uint32_t index, const float *tile, uint32_t rows, const panel_out *to)
{
    static const float_fn TYPES[DT_COUNT][TILE_ROWS] = {
        [DT_F32] = TILE_ROW(DT_F32_),     [DT_F16] = TILE_ROW(DT_F16_),         [DT_BF16] = TILE_ROW(DT_BF16_),
        [DT_MXFP8] = TILE_ROW(DT_MXFP8_), [DT_AFFINE8] = TILE_ROW(DT_AFFINE8_),
    };
    TYPES[w->type][rows - 1](w->cols, w->data + index * w->panel_bytes, tile, to);
}

static uint64_t read_bytes(const void *from, size_t bytes)
{
    const uint8_t *at = from;
    __m512i sum[4] = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512()};
    for (size_t i = 0; i + 256 <= bytes; i += 256) {
        UNROLL
        for (int j = 0; j < 4; j++)
            sum[j] = _mm512_xor_si512(sum[j], _mm512_loadu_si512(at + i + 64 * j));
    }
    __m512i all = _mm512_xor_si512(_mm512_xor_si512(sum[0], sum[1]), _mm512_xor_si512(sum[2], sum[3]));
    return (uint64_t)_mm512_reduce_add_epi64(all);
}

const matmul_kernels matmul_kernels_avx512 = {
    .quantize = quantize,
    .unpack = unpack,
    .dot = dot,
    .dot_packed = matmul_dot_packed_avx512,
    .fused_rows = FUSED_ROWS,
    .dot_wide = matmul_dot_wide_avx512,
    .wide_rows = WIDE_ROWS,
    .dot_float = dot_float,
    .read_bytes = read_bytes,
};
