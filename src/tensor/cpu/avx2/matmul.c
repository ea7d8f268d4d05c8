/* tensor/cpu/avx2/matmul.c: the matmul family with AVX2. An unpacked panel is [block][8 groups][16 rows][4 columns]
 * codes and f32 scales; a group is two registers. vpmaddubsw saturates at 16 bits, so how many of its results may be
 * added before they are widened depends on the codes' bits: that number (SUMS) names the kernels. 8-bit codes are kept
 * signed, and the sign moves to x. All of it is exact, as matmul_kernels.h wants. */
#include "tensor/cpu/avx2/matmul_block.h"

/* --- activations --- */

#define AMAX_MIN 1e-34f

KERNEL_INLINE float max_of_8(__m256 v)
{
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_shuffle_ps(m, m, 1)));
}

KERNEL_INLINE int32_t sum_of_16(__m128i q)
{
    __m128i ones = _mm_set1_epi8(1);
    __m128i v = _mm_madd_epi16(_mm_maddubs_epi16(ones, q), _mm_set1_epi16(1));
    v = _mm_add_epi32(v, _mm_shuffle_epi32(v, 0x4E));
    return _mm_cvtsi128_si32(_mm_add_epi32(v, _mm_shuffle_epi32(v, 0xB1)));
}

KERNEL_INLINE void put_sum(uint8_t *at, int32_t sum, float scale, bool has_min)
{
    float weighted = scale * (float)sum;
    int32_t negative = -sum;
    if (has_min)
        memcpy(at, &weighted, 4);
    else
        memcpy(at, &negative, 4);
}

KERNEL_INLINE void quantize_block(const float *x, uint32_t row, act_form form, uint8_t *block)
{
    __m256 v[4], magnitude = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff)), most = _mm256_setzero_ps();
    UNROLL
    for (int i = 0; i < 4; i++) {
        v[i] = _mm256_loadu_ps(x + 8 * i);
        most = _mm256_max_ps(most, _mm256_and_ps(v[i], magnitude));
    }
    float amax = max_of_8(most);
    float inverse = amax > AMAX_MIN ? 127.0f / amax : 0.0f;
    float scale = amax > AMAX_MIN ? amax / 127.0f : 0.0f;
    __m256i i[4];
    UNROLL
    for (int j = 0; j < 4; j++)
        i[j] = _mm256_cvtps_epi32(_mm256_mul_ps(v[j], _mm256_set1_ps(inverse)));
    __m256i low = _mm256_packs_epi32(i[0], i[1]), high = _mm256_packs_epi32(i[2], i[3]); /* 0 2 | 1 3 in fours */
    __m256i all = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    uint8_t *sums = block + ACT_SUMS + 4 * row;
    _mm256_storeu_si256((__m256i *)(block + ACT_CODES + BLOCK_COLS * row), all);
    memcpy(block + ACT_SCALES + 4 * row, &scale, 4);
    int32_t first = sum_of_16(_mm256_castsi256_si128(all)), second = sum_of_16(_mm256_extracti128_si256(all, 1));
    if (form.split) {
        put_sum(sums, first, scale, form.has_min);
        put_sum(sums + ACT_SUM_STRIDE, second, scale, form.has_min);
    } else {
        put_sum(sums, first + second, scale, form.has_min);
    }
}

static void quantize(const float *const *x, uint32_t rows, uint32_t cols, act_form form, uint8_t *tile)
{
    size_t step = act_block_bytes(form);
    for (uint32_t b = 0; b < cols / BLOCK_COLS; b++)
        for (uint32_t r = 0; r < rows; r++)
            quantize_block(x[r] + b * BLOCK_COLS, r, form, tile + b * step);
}

/* --- panels --- */

KERNEL_INLINE void unpack_codes(code_kind kind, bool by_table, const weight *w, const uint8_t *from, uint8_t *to)
{
    enum { AHEAD = 4096 };
    __m256i values = by_table ? signed_values(w->format) : _mm256_setzero_si256();
    size_t step = code_block_bytes(kind);
    for (uint32_t b = 0; b < w->cols / BLOCK_COLS; b++, from += step, to += 512) {
        for (size_t line = 0; line < step + 64; line += 64)
            _mm_prefetch((const char *)from + AHEAD + line, _MM_HINT_T0);
        UNROLL
        for (int h = 0; h < 2; h++) {
            __m256i code[8];
            load_codes(kind, by_table, values, from + 32 * h, code);
            UNROLL
            for (int g = 0; g < 8; g++)
                _mm256_store_si256((__m256i *)(to + 64 * g + 32 * h), code[g]);
        }
    }
}

KERNEL_INLINE void unpack_scales(scale_kind kind, const weight *w, const uint8_t *from, const panel *to)
{
    bool split = kind >= SCALES_K16, has_min = w->format->has_min;
    float *scales = to->scales, *mins = to->mins;
    for (uint32_t b = 0; b < w->cols / BLOCK_COLS; b++)
        for (int h = 0; h < (split ? 2 : 1); h++, scales += 16, mins += 16)
            for (int half = 0; half < 2; half++) {
                __m256 m = _mm256_setzero_ps(), s = load_scale(kind, from, b, h, half, &m);
                _mm256_store_ps(scales + 8 * half, s);
                if (has_min)
                    _mm256_store_ps(mins + 8 * half, m);
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

/* --- products --- */

/* What a kernel is made for. */
typedef struct {
    int sums; /* 16-bit results added before widening; 0: signed codes */
    bool split, has_min;
} tile_kind;

/* The first of up to three rows of x in one block of a tile. */
typedef struct {
    const uint8_t *codes;  /* a row each 32 bytes */
    const uint8_t *floats; /* the block moved on by the row: scales and sums are a row each 4 bytes */
} act_rows;

enum { ROWS = 3 };

KERNEL_INLINE int32_t i32_at(const uint8_t *at)
{
    int32_t value;
    memcpy(&value, at, 4);
    return value;
}

KERNEL_INLINE float f32_at(const uint8_t *at)
{
    float value;
    memcpy(&value, at, 4);
    return value;
}

/* Groups first..first + count of one block, for both halves of the panel. */
KERNEL_INLINE void dot_groups(tile_kind kind, int rows, int first, int count, const uint8_t *codes, act_rows x,
                              __m256i dot[ROWS][2])
{
    int sums = kind.sums == 0 ? 1 : kind.sums < count ? kind.sums : count;
    __m256i ones = _mm256_set1_epi16(1), part[ROWS][2];
    UNROLL
    for (int g = 0; g < count; g++) {
        UNROLL
        for (int r = 0; r < rows; r++) {
            __m256i q = _mm256_set1_epi32(i32_at(x.codes + 32 * r + 4 * (first + g)));
            UNROLL
            for (int h = 0; h < 2; h++) {
                __m256i code = _mm256_load_si256((const __m256i *)(codes + 64 * (first + g) + 32 * h)), product;
                if (kind.sums == 0)
                    product = _mm256_maddubs_epi16(_mm256_abs_epi8(code), _mm256_sign_epi8(q, code));
                else
                    product = _mm256_maddubs_epi16(code, q);
                part[r][h] = g % sums == 0 ? product : _mm256_add_epi16(part[r][h], product);
                if (g % sums == sums - 1)
                    dot[r][h] = _mm256_add_epi32(dot[r][h], _mm256_madd_epi16(part[r][h], ones));
            }
        }
    }
}

KERNEL_INLINE __m256i dot_start(tile_kind kind, __m128i zero_shift, act_rows x, int part, int r)
{
    if (kind.has_min || kind.sums == 0)
        return _mm256_setzero_si256();
    int32_t negative = i32_at(x.floats + ACT_SUMS + ACT_SUM_STRIDE * part + 4 * r);
    return _mm256_sll_epi32(_mm256_set1_epi32(negative), zero_shift);
}

/* One group of a block (part 0 or 1 of two, or all of it), into acc. */
KERNEL_INLINE void add_part(tile_kind kind, int rows, __m128i zero_shift, int part, const uint8_t *codes,
                            const float *scales, const float *mins, act_rows x, __m256 acc[ROWS][2])
{
    int count = kind.split ? 4 : 8;
    __m256i dot[ROWS][2];
    UNROLL
    for (int r = 0; r < rows; r++)
        dot[r][0] = dot[r][1] = dot_start(kind, zero_shift, x, part, r);
    dot_groups(kind, rows, count * part, count, codes, x, dot);
    UNROLL
    for (int r = 0; r < rows; r++) {
        __m256 scale = _mm256_set1_ps(f32_at(x.floats + ACT_SCALES + 4 * r));
        UNROLL
        for (int h = 0; h < 2; h++)
            acc[r][h] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot[r][h]),
                                        _mm256_mul_ps(_mm256_load_ps(scales + 8 * h), scale), acc[r][h]);
        if (!kind.has_min)
            continue;
        __m256 weighted = _mm256_set1_ps(f32_at(x.floats + ACT_SUMS + ACT_SUM_STRIDE * part + 4 * r));
        UNROLL
        for (int h = 0; h < 2; h++)
            acc[r][h] = _mm256_fmadd_ps(_mm256_load_ps(mins + 8 * h), weighted, acc[r][h]);
    }
}

KERNEL_INLINE void dot_rows(tile_kind kind, int rows, const weight *w, const panel *p, act_rows x, const panel_out *to,
                            uint32_t row)
{
    int parts = kind.split ? 2 : 1;
    size_t step = act_block_bytes((act_form){kind.split, kind.has_min});
    __m128i zero_shift = _mm_cvtsi32_si128(w->format->zero ? __builtin_ctz(w->format->zero) : 0);
    const uint8_t *codes = p->codes;
    const float *scales = p->scales, *mins = p->mins;
    __m256 acc[ROWS][2];
    UNROLL
    for (int r = 0; r < rows; r++)
        acc[r][0] = acc[r][1] = _mm256_setzero_ps();
    for (uint32_t b = 0; b < w->cols / BLOCK_COLS; b++, x.codes += step, x.floats += step, codes += 512) {
        UNROLL
        for (int part = 0; part < parts; part++, scales += 16, mins += 16)
            add_part(kind, rows, zero_shift, part, codes, scales, mins, x, acc);
    }
    UNROLL
    for (int r = 0; r < rows; r++)
        store_row(acc[r][0], acc[r][1], to, row + (uint32_t)r);
}

KERNEL_INLINE void dot_tile(tile_kind kind, const weight *w, const panel *p, const uint8_t *tile, uint32_t rows,
                            const panel_out *to)
{
    for (uint32_t r = 0; r < rows; r += ROWS) {
        act_rows x = {tile + ACT_CODES + BLOCK_COLS * r, tile + 4 * r};
        if (rows - r >= 3)
            dot_rows(kind, 3, w, p, x, to, r);
        else if (rows - r == 2)
            dot_rows(kind, 2, w, p, x, to, r);
        else
            dot_rows(kind, 1, w, p, x, to, r);
    }
}

static void dot(const weight *w, const panel *p, const uint8_t *tile, uint32_t rows, const panel_out *to)
{
    const weight_format *f = w->format;
    bool is_signed = f->values || f->code == CODES_8;
    if (is_signed && f->group == 16) /* none of the signed ones has a min */
        dot_tile((tile_kind){0, true, false}, w, p, tile, rows, to);
    else if (is_signed)
        dot_tile((tile_kind){0, false, false}, w, p, tile, rows, to);
    else if (f->group == 32 && f->has_min && f->code == CODES_4)
        dot_tile((tile_kind){8, false, true}, w, p, tile, rows, to);
    else if (f->group == 32 && f->has_min && f->code == CODES_6)
        dot_tile((tile_kind){2, false, true}, w, p, tile, rows, to);
    else if (f->group == 32 && f->has_min)
        dot_tile((tile_kind){4, false, true}, w, p, tile, rows, to);
    else if (f->group == 32 && f->code == CODES_4)
        dot_tile((tile_kind){8, false, false}, w, p, tile, rows, to);
    else if (f->group == 32)
        dot_tile((tile_kind){4, false, false}, w, p, tile, rows, to);
    else if (f->has_min)
        dot_tile((tile_kind){4, true, true}, w, p, tile, rows, to);
    else if (f->code == CODES_6)
        dot_tile((tile_kind){2, true, false}, w, p, tile, rows, to);
    else
        dot_tile((tile_kind){4, true, false}, w, p, tile, rows, to);
}

/* --- float weights --- */

enum { FLOAT_ROWS = 6 };

KERNEL_INLINE __m256 load_byte_column(dtype type, const uint8_t *panel, uint32_t k, int half)
{
    uint32_t at = k % BLOCK_COLS * PANEL_ROWS + 8 * (uint32_t)half;
    if (type == DT_MXFP8) {
        const uint8_t *block = panel + k / BLOCK_COLS * MXFP8_BLOCK_BYTES;
        __m256i e = load_bytes(block + 8 * half); /* 2^(e - 127), a subnormal for 0 */
        __m256i zero = _mm256_cmpeq_epi32(e, _mm256_setzero_si256());
        __m256i bits = _mm256_or_si256(_mm256_slli_epi32(e, 23), _mm256_and_si256(zero, _mm256_set1_epi32(1 << 22)));
        __m256 wide = _mm256_mul_ps(load_e4m3(block + MXFP8_SCALE_BYTES + at), _mm256_set1_ps(256.0f));
        return _mm256_mul_ps(wide, _mm256_castsi256_ps(bits));
    }
    const uint8_t *block = panel + k / BLOCK_COLS * AFFINE8_BLOCK_BYTES;
    __m256 scale = _mm256_loadu_ps((const float *)(block + 32 * half));
    __m256 min = _mm256_loadu_ps((const float *)(block + 64 + 32 * half));
    __m256 codes = _mm256_cvtepi32_ps(load_bytes(block + AFFINE8_SCALE_BYTES + at));
    return _mm256_add_ps(_mm256_mul_ps(codes, scale), min);
}

KERNEL_INLINE __m256 load_float_column(dtype type, const uint8_t *panel, uint32_t k, int half)
{
    if (is_byte_type(type))
        return load_byte_column(type, panel, k, half);
    if (type == DT_F32)
        return _mm256_loadu_ps((const float *)(panel + 64 * (size_t)k + 32 * half));
    const uint8_t *at = panel + 32 * (size_t)k + 16 * half;
    if (type == DT_F16)
        return load_halves(at);
    __m256i bits = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)at));
    return _mm256_castsi256_ps(_mm256_slli_epi32(bits, 16));
}

KERNEL_INLINE void float_rows(dtype type, int rows, const weight *w, const uint8_t *panel, const float *x,
                              const panel_out *to, uint32_t row, uint32_t width)
{
    __m256 acc[FLOAT_ROWS][2];
    UNROLL
    for (int r = 0; r < rows; r++)
        acc[r][0] = acc[r][1] = _mm256_setzero_ps();
    for (uint32_t k = 0; k < w->cols; k++, x += width) {
        __m256 low = load_float_column(type, panel, k, 0), high = load_float_column(type, panel, k, 1);
        UNROLL
        for (int r = 0; r < rows; r++) {
            __m256 value = _mm256_set1_ps(x[r]);
            acc[r][0] = _mm256_fmadd_ps(low, value, acc[r][0]);
            acc[r][1] = _mm256_fmadd_ps(high, value, acc[r][1]);
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++)
        store_row(acc[r][0], acc[r][1], to, row + (uint32_t)r);
}

KERNEL_INLINE void float_tile(dtype type, const weight *w, const uint8_t *panel, const float *tile, uint32_t rows,
                              const panel_out *to)
{
    for (uint32_t r = 0; r < rows;) {
        const float *x = tile + r;
        if (rows - r >= 6) {
            float_rows(type, 6, w, panel, x, to, r, rows);
            r += 6;
        } else if (rows - r >= 3) {
            float_rows(type, 3, w, panel, x, to, r, rows);
            r += 3;
        } else {
            float_rows(type, 1, w, panel, x, to, r, rows);
            r++;
        }
    }
}

static void dot_float(const weight *w, uint32_t index, const float *tile, uint32_t rows, const panel_out *to)
{
    const uint8_t *panel = w->data + index * w->panel_bytes;
    if (w->type == DT_F32)
        float_tile(DT_F32, w, panel, tile, rows, to);
    else if (w->type == DT_F16)
        float_tile(DT_F16, w, panel, tile, rows, to);
    else if (w->type == DT_MXFP8)
        float_tile(DT_MXFP8, w, panel, tile, rows, to);
    else if (w->type == DT_AFFINE8)
        float_tile(DT_AFFINE8, w, panel, tile, rows, to);
    else
        float_tile(DT_BF16, w, panel, tile, rows, to);
}

static uint64_t read_bytes(const void *from, size_t bytes)
{
    const uint8_t *at = from;
    __m256i sum[4] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256()};
    for (size_t i = 0; i + 128 <= bytes; i += 128) {
        UNROLL
        for (int j = 0; j < 4; j++)
            sum[j] = _mm256_xor_si256(sum[j], load_plane(at + i + 32 * j));
    }
    uint64_t words[4];
    __m256i all = _mm256_xor_si256(_mm256_xor_si256(sum[0], sum[1]), _mm256_xor_si256(sum[2], sum[3]));
    memcpy(words, &all, 32);
    return words[0] ^ words[1] ^ words[2] ^ words[3];
}

const matmul_kernels matmul_kernels_avx2 = {
    .quantize = quantize,
    .unpack = unpack,
    .dot = dot,
    .dot_float = dot_float,
    .read_bytes = read_bytes,
};
