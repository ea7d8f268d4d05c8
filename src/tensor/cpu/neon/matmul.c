/* tensor/cpu/neon/matmul.c: the matmul family with NEON and its dot product. Every type's code - zero fits a signed
 * byte, so an unpacked panel is [block][8 groups][16 rows][4 columns] of those, and one sdot does a group of four rows
 * exactly. */
#include "tensor/cpu/matmul_kernels.h"
#include "tensor/cpu/unroll.h"

#include <arm_neon.h>
#include <string.h>

enum { QUADS = PANEL_ROWS / 4, ROWS = 3, FLOAT_ROWS = 4 };

/* --- activations --- */

#define AMAX_MIN 1e-34f

KERNEL_INLINE void put_sum(uint8_t *at, int32_t sum, float scale, bool has_min)
{
    float weighted = scale * (float)sum;
    int32_t negative = -sum;
    if (has_min)
        memcpy(at, &weighted, 4);
    else
        memcpy(at, &negative, 4);
}

/* 16 columns, rounded to nearest even. */
KERNEL_INLINE int8x16_t quantize_half(const float *x, float inverse)
{
    int16x4_t part[4];
    UNROLL
    for (int i = 0; i < 4; i++)
        part[i] = vqmovn_s32(vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + 4 * i), inverse)));
    return vcombine_s8(vqmovn_s16(vcombine_s16(part[0], part[1])), vqmovn_s16(vcombine_s16(part[2], part[3])));
}

KERNEL_INLINE void quantize_block(const float *x, uint32_t row, act_form form, uint8_t *block)
{
    float32x4_t most = vdupq_n_f32(0);
    UNROLL
    for (int i = 0; i < 8; i++)
        most = vmaxnmq_f32(most, vabsq_f32(vld1q_f32(x + 4 * i)));
    float amax = vmaxnmvq_f32(most);
    float inverse = amax > AMAX_MIN ? 127.0f / amax : 0.0f;
    float scale = amax > AMAX_MIN ? amax / 127.0f : 0.0f;
    int8x16_t low = quantize_half(x, inverse), high = quantize_half(x + 16, inverse);
    int8_t *q = (int8_t *)block + ACT_CODES + BLOCK_COLS * row;
    uint8_t *sums = block + ACT_SUMS + 4 * row;
    vst1q_s8(q, low);
    vst1q_s8(q + 16, high);
    memcpy(block + ACT_SCALES + 4 * row, &scale, 4);
    int32_t first = vaddlvq_s8(low), second = vaddlvq_s8(high);
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

static void unpack(const weight *w, uint32_t index, const panel *to)
{
    const weight_format *f = w->format;
    const uint8_t *scales = weight_scales(w, index), *block = weight_codes(w, index);
    size_t step = code_block_bytes(f->code), group_floats = (size_t)(BLOCK_COLS / f->group) * PANEL_ROWS;
    uint8_t *out = to->codes;
    for (uint32_t b = 0; b < w->cols / BLOCK_COLS; b++, block += step) {
        float s[2][PANEL_ROWS], m[2][PANEL_ROWS];
        weight_block_scales(w, scales, b, s, m);
        memcpy(to->scales + b * group_floats, s, group_floats * sizeof(float));
        if (f->has_min)
            memcpy(to->mins + b * group_floats, m, group_floats * sizeof(float));
        for (uint32_t g = 0; g < BLOCK_COLS / 4; g++, out += 64) {
            weight_group_codes(f, block, g, out);
            for (uint32_t i = 0; i < 64; i++)
                out[i] = (uint8_t)(out[i] - f->zero);
        }
    }
}

/* --- products --- */

static void store_row(const float32x4_t acc[QUADS], const panel_out *to, uint32_t r)
{
    float *out = to->out + r * to->stride, result[PANEL_ROWS];
    for (int i = 0; i < QUADS; i++)
        vst1q_f32(result + 4 * i, acc[i]);
    for (uint32_t i = 0; i < to->lanes; i++) {
        float value = result[i];
        if (to->bias)
            value += to->bias[i];
        if (to->add)
            value += out[i];
        out[i] = value;
    }
}

KERNEL_INLINE float f32_at(const uint8_t *at)
{
    float value;
    memcpy(&value, at, 4);
    return value;
}

/* One group of four columns, the `lane`th of the 16 in x. */
#define DOT_LANE(lane)                                                                                                 \
    UNROLL                                                                                                             \
    for (int i = 0; i < QUADS; i++) {                                                                                  \
        int8x16_t code = vld1q_s8(codes + 64 * (lane) + 16 * i);                                                       \
        UNROLL                                                                                                         \
        for (int r = 0; r < rows; r++)                                                                                 \
            dot[r][i] = vdotq_laneq_s32(dot[r][i], code, x[r], lane);                                                  \
    }

/* 16 columns. */
KERNEL_INLINE void dot_half(int rows, const int8_t *codes, const int8x16_t x[ROWS], int32x4_t dot[ROWS][QUADS])
{
    DOT_LANE(0)
    DOT_LANE(1)
    DOT_LANE(2)
    DOT_LANE(3)
}

/* Block of a tile moved on to a row: codes by 32 bytes a row, scales and sums by 4. */
typedef struct {
    const uint8_t *codes, *floats;
} act_rows;

KERNEL_INLINE void add_part(bool split, bool has_min, int rows, int part, const int8_t *codes, const float *scales,
                            const float *mins, act_rows x, float32x4_t acc[ROWS][QUADS])
{
    int halves = split ? 1 : 2;
    int32x4_t dot[ROWS][QUADS];
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int i = 0; i < QUADS; i++)
            dot[r][i] = vdupq_n_s32(0);
    }
    UNROLL
    for (int half = 0; half < halves; half++) {
        int8x16_t q[ROWS];
        UNROLL
        for (int r = 0; r < rows; r++)
            q[r] = vld1q_s8((const int8_t *)x.codes + BLOCK_COLS * r + 16 * (part + half));
        dot_half(rows, codes + 256 * (part + half), q, dot);
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        float scale = f32_at(x.floats + ACT_SCALES + 4 * r);
        float weighted = f32_at(x.floats + ACT_SUMS + ACT_SUM_STRIDE * part + 4 * r);
        UNROLL
        for (int i = 0; i < QUADS; i++) {
            float32x4_t factor = vmulq_n_f32(vld1q_f32(scales + 4 * i), scale);
            acc[r][i] = vfmaq_f32(acc[r][i], vcvtq_f32_s32(dot[r][i]), factor);
            if (has_min)
                acc[r][i] = vfmaq_n_f32(acc[r][i], vld1q_f32(mins + 4 * i), weighted);
        }
    }
}

KERNEL_INLINE void dot_rows(bool split, bool has_min, int rows, const weight *w, const panel *p, act_rows x,
                            const panel_out *to, uint32_t row)
{
    int parts = split ? 2 : 1;
    size_t step = act_block_bytes((act_form){split, has_min});
    const int8_t *codes = (const int8_t *)p->codes;
    const float *scales = p->scales, *mins = p->mins;
    float32x4_t acc[ROWS][QUADS];
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int i = 0; i < QUADS; i++)
            acc[r][i] = vdupq_n_f32(0);
    }
    for (uint32_t b = 0; b < w->cols / BLOCK_COLS; b++, x.codes += step, x.floats += step, codes += 512) {
        UNROLL
        for (int part = 0; part < parts; part++, scales += PANEL_ROWS, mins += PANEL_ROWS)
            add_part(split, has_min, rows, part, codes, scales, mins, x, acc);
    }
    UNROLL
    for (int r = 0; r < rows; r++)
        store_row(acc[r], to, row + (uint32_t)r);
}

KERNEL_INLINE void dot_tile(bool split, bool has_min, const weight *w, const panel *p, const uint8_t *tile,
                            uint32_t rows, const panel_out *to)
{
    for (uint32_t r = 0; r < rows; r += ROWS) {
        act_rows x = {tile + ACT_CODES + BLOCK_COLS * r, tile + 4 * r};
        if (rows - r >= 3)
            dot_rows(split, has_min, 3, w, p, x, to, r);
        else if (rows - r == 2)
            dot_rows(split, has_min, 2, w, p, x, to, r);
        else
            dot_rows(split, has_min, 1, w, p, x, to, r);
    }
}

static void dot(const weight *w, const panel *p, const uint8_t *tile, uint32_t rows, const panel_out *to)
{
    bool split = w->format->group == 16;
    if (split && w->format->has_min)
        dot_tile(true, true, w, p, tile, rows, to);
    else if (split)
        dot_tile(true, false, w, p, tile, rows, to);
    else if (w->format->has_min)
        dot_tile(false, true, w, p, tile, rows, to);
    else
        dot_tile(false, false, w, p, tile, rows, to);
}

/* --- float weights --- */

KERNEL_INLINE uint32x4_t load_bytes(const uint8_t *at)
{
    uint32_t four;
    memcpy(&four, at, 4);
    return vmovl_u16(vget_low_u16(vmovl_u8(vcreate_u8(four))));
}

KERNEL_INLINE float32x4_t load_byte_quad(dtype type, const uint8_t *panel, uint32_t k, int quad)
{
    uint32_t at = k % BLOCK_COLS * PANEL_ROWS + 4 * (uint32_t)quad;
    if (type == DT_MXFP8) { /* E4M3 is a half with the exponent 8 too small and the sign one bit too far down */
        const uint8_t *block = panel + k / BLOCK_COLS * MXFP8_BLOCK_BYTES;
        uint32x4_t e = load_bytes(block + 4 * quad), code = load_bytes(block + MXFP8_SCALE_BYTES + at);
        uint32x4_t bits = vorrq_u32(vshlq_n_u32(e, 23), vandq_u32(vceqq_u32(e, vdupq_n_u32(0)), vdupq_n_u32(1 << 22)));
        uint32x4_t sign = vshlq_n_u32(vandq_u32(code, vdupq_n_u32(128)), 8);
        uint32x4_t half = vorrq_u32(vshlq_n_u32(vandq_u32(code, vdupq_n_u32(127)), 7), sign);
        float32x4_t wide = vmulq_n_f32(vcvt_f32_f16(vreinterpret_f16_u16(vmovn_u32(half))), 256.0f);
        return vmulq_f32(wide, vreinterpretq_f32_u32(bits));
    }
    const uint8_t *block = panel + k / BLOCK_COLS * AFFINE8_BLOCK_BYTES;
    float32x4_t scale = vld1q_f32((const float *)block + 4 * quad);
    float32x4_t min = vld1q_f32((const float *)(block + 64) + 4 * quad);
    float32x4_t codes = vcvtq_f32_u32(load_bytes(block + AFFINE8_SCALE_BYTES + at));
    return vaddq_f32(vmulq_f32(codes, scale), min);
}

KERNEL_INLINE float32x4_t load_float_quad(dtype type, const uint8_t *panel, uint32_t k, int quad)
{
    if (is_byte_type(type))
        return load_byte_quad(type, panel, k, quad);
    if (type == DT_F32)
        return vld1q_f32((const float *)panel + (size_t)k * PANEL_ROWS + 4 * quad);
    const uint16_t *at = (const uint16_t *)panel + (size_t)k * PANEL_ROWS + 4 * quad;
    if (type == DT_F16)
        return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(at)));
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(at), 16));
}

KERNEL_INLINE void float_rows(dtype type, int rows, const weight *w, const uint8_t *panel, const float *x,
                              const panel_out *to, uint32_t row, uint32_t width)
{
    float32x4_t acc[FLOAT_ROWS][QUADS];
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int i = 0; i < QUADS; i++)
            acc[r][i] = vdupq_n_f32(0);
    }
    for (uint32_t k = 0; k < w->cols; k++, x += width) {
        UNROLL
        for (int i = 0; i < QUADS; i++) {
            float32x4_t column = load_float_quad(type, panel, k, i);
            UNROLL
            for (int r = 0; r < rows; r++)
                acc[r][i] = vfmaq_n_f32(acc[r][i], column, x[r]);
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++)
        store_row(acc[r], to, row + (uint32_t)r);
}

KERNEL_INLINE void float_tile(dtype type, const weight *w, const uint8_t *panel, const float *tile, uint32_t rows,
                              const panel_out *to)
{
    uint32_t r = 0;
    for (; rows - r >= FLOAT_ROWS; r += FLOAT_ROWS)
        float_rows(type, FLOAT_ROWS, w, panel, tile + r, to, r, rows);
    for (; r < rows; r++)
        float_rows(type, 1, w, panel, tile + r, to, r, rows);
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
    uint8x16_t sum[4] = {vdupq_n_u8(0), vdupq_n_u8(0), vdupq_n_u8(0), vdupq_n_u8(0)};
    for (size_t i = 0; i + 64 <= bytes; i += 64) {
        UNROLL
        for (int j = 0; j < 4; j++)
            sum[j] = veorq_u8(sum[j], vld1q_u8(at + i + 16 * j));
    }
    uint64x2_t all = vreinterpretq_u64_u8(veorq_u8(veorq_u8(sum[0], sum[1]), veorq_u8(sum[2], sum[3])));
    return vgetq_lane_u64(all, 0) ^ vgetq_lane_u64(all, 1);
}

const matmul_kernels matmul_kernels_neon = {
    .quantize = quantize,
    .unpack = unpack,
    .dot = dot,
    .dot_float = dot_float,
    .read_bytes = read_bytes,
};
