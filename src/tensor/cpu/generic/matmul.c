/* tensor/cpu/generic/matmul.c: the matmul family in plain C, the definition of correct. Its unpacked panel holds code -
 * zero as int16 [cols][16], so that the inner loops run over 16 neighbouring rows and any compiler vectorizes them. */
#include "tensor/cpu/matmul_kernels.h"

#include "tensor/quant.h"

#include <math.h>
#include <string.h>

/* Below this a block is zero: 127 / amax would overflow. */
#define AMAX_MIN 1e-34f
/* Adding 3 * 2^22 leaves the value rounded to nearest even in the low bits. */
#define ROUND_MAGIC 12582912.0f

static int8_t round_to_i8(float x)
{
    float shifted = x + ROUND_MAGIC;
    int32_t bits, magic;
    float zero = ROUND_MAGIC;
    memcpy(&bits, &shifted, 4);
    memcpy(&magic, &zero, 4);
    return (int8_t)(uint8_t)(uint32_t)(bits - magic);
}

static void quantize_block(const float *x, uint32_t row, act_form form, uint8_t *block)
{
    float amax = 0;
    for (uint32_t k = 0; k < BLOCK_COLS; k++)
        amax = fabsf(x[k]) > amax ? fabsf(x[k]) : amax;
    float inverse = amax > AMAX_MIN ? 127.0f / amax : 0.0f;
    float scale = amax > AMAX_MIN ? amax / 127.0f : 0.0f;
    int8_t *q = (int8_t *)block + ACT_CODES + BLOCK_COLS * row;
    int32_t sum[2] = {0, 0};
    for (uint32_t k = 0; k < BLOCK_COLS; k++) {
        q[k] = round_to_i8(x[k] * inverse);
        sum[form.split ? k / 16 : 0] += q[k];
    }
    memcpy(block + ACT_SCALES + 4 * row, &scale, 4);
    for (uint32_t h = 0; h < (form.split ? 2u : 1u); h++) {
        float weighted = scale * (float)sum[h];
        int32_t negative = -sum[h];
        memcpy(block + ACT_SUMS + ACT_SUM_STRIDE * h + 4 * row, form.has_min ? (void *)&weighted : (void *)&negative,
               4);
    }
}

static void quantize(const float *const *x, uint32_t rows, uint32_t cols, act_form form, uint8_t *tile)
{
    for (uint32_t b = 0; b < cols / BLOCK_COLS; b++)
        for (uint32_t r = 0; r < rows; r++)
            quantize_block(x[r] + b * BLOCK_COLS, r, form, tile + b * act_block_bytes(form));
}

/* Four columns, out of [16][4] into [4][16]. */
static void unpack_group(const weight_format *f, const uint8_t *block, uint32_t g, int16_t *out)
{
    uint8_t codes[64];
    weight_group_codes(f, block, g, codes);
    for (uint32_t k = 0; k < 4; k++)
        for (uint32_t i = 0; i < PANEL_ROWS; i++)
            out[k * PANEL_ROWS + i] = (int16_t)(codes[4 * i + k] - f->zero);
}

static void unpack(const weight *w, uint32_t index, const panel *to)
{
    const uint8_t *scales = weight_scales(w, index), *codes = weight_codes(w, index);
    size_t block_bytes = code_block_bytes(w->format->code);
    uint32_t groups = BLOCK_COLS / w->format->group;
    int16_t *out = (int16_t *)to->codes;
    for (uint32_t b = 0; b < w->cols / BLOCK_COLS; b++, out += BLOCK_COLS * PANEL_ROWS) {
        float s[2][PANEL_ROWS], m[2][PANEL_ROWS];
        weight_block_scales(w, scales, b, s, m);
        memcpy(to->scales + (size_t)b * groups * PANEL_ROWS, s, groups * sizeof(s[0]));
        if (w->format->has_min)
            memcpy(to->mins + (size_t)b * groups * PANEL_ROWS, m, groups * sizeof(m[0]));
        for (uint32_t g = 0; g < BLOCK_COLS / 4; g++)
            unpack_group(w->format, codes + b * block_bytes, g, out + 4 * g * PANEL_ROWS);
    }
}

static void finish_row(const float acc[PANEL_ROWS], const panel_out *to, uint32_t r)
{
    float *out = to->out + r * to->stride;
    for (uint32_t i = 0; i < to->lanes; i++) {
        float value = acc[i];
        if (to->bias)
            value += to->bias[i];
        if (to->add)
            value += out[i];
        out[i] = value;
    }
}

/* Two columns at a time: their products' sum fits 32 bits, and a compiler sees 16-bit multiply-adds. */
static void dot_group(const int16_t *restrict codes, const int8_t *restrict q, uint32_t group, int32_t *restrict sum)
{
    int32_t total[PANEL_ROWS] = {0};
    for (uint32_t k = 0; k < group; k += 2) {
        int16_t first = q[k], second = q[k + 1];
        const int16_t *a = codes + k * PANEL_ROWS, *b = a + PANEL_ROWS;
        for (uint32_t i = 0; i < PANEL_ROWS; i++)
            total[i] += a[i] * first + b[i] * second;
    }
    memcpy(sum, total, sizeof(total));
}

static void dot(const weight *w, const panel *p, const uint8_t *tile, uint32_t rows, const panel_out *to)
{
    const weight_format *f = w->format;
    act_form form = {f->group == 16, f->has_min};
    uint32_t groups = BLOCK_COLS / f->group;
    for (uint32_t r = 0; r < rows; r++) {
        float acc[PANEL_ROWS] = {0};
        for (uint32_t g = 0; g < w->cols / f->group; g++) {
            const uint8_t *block = tile + g / groups * act_block_bytes(form);
            uint32_t h = g % groups;
            const float *scales = p->scales + (size_t)g * PANEL_ROWS;
            int32_t sum[PANEL_ROWS];
            float scale, weighted;
            memcpy(&scale, block + ACT_SCALES + 4 * r, 4);
            memcpy(&weighted, block + ACT_SUMS + ACT_SUM_STRIDE * h + 4 * r, 4);
            dot_group((const int16_t *)p->codes + (size_t)g * f->group * PANEL_ROWS,
                      (const int8_t *)block + ACT_CODES + BLOCK_COLS * r + f->group * h, f->group, sum);
            for (uint32_t i = 0; i < PANEL_ROWS; i++)
                acc[i] += (float)sum[i] * (scales[i] * scale);
            for (uint32_t i = 0; f->has_min && i < PANEL_ROWS; i++)
                acc[i] += p->mins[(size_t)g * PANEL_ROWS + i] * weighted;
        }
        finish_row(acc, to, r);
    }
}

static void load_float_lanes(const weight *w, const uint8_t *column, float values[PANEL_ROWS])
{
    uint16_t halves[PANEL_ROWS];
    if (w->type == DT_F32) {
        memcpy(values, column, PANEL_ROWS * sizeof(float));
        return;
    }
    memcpy(halves, column, sizeof(halves));
    for (uint32_t i = 0; i < PANEL_ROWS; i++)
        values[i] = w->type == DT_F16 ? f16_to_f32(halves[i]) : bf16_to_f32(halves[i]);
}

/* A column of a byte type: one code per lane, after the block's scales. */
static void load_byte_lanes(const weight *w, const uint8_t *panel, uint32_t k, float values[PANEL_ROWS])
{
    bool mx = w->type == DT_MXFP8;
    const uint8_t *block = panel + k / BLOCK_COLS * (mx ? MXFP8_BLOCK_BYTES : AFFINE8_BLOCK_BYTES);
    const uint8_t *codes = block + (mx ? MXFP8_SCALE_BYTES : AFFINE8_SCALE_BYTES) + k % BLOCK_COLS * PANEL_ROWS;
    if (mx) {
        for (uint32_t i = 0; i < PANEL_ROWS; i++)
            values[i] = e4m3_to_f32(codes[i]) * e8m0_to_f32(block[i]);
        return;
    }
    float d[PANEL_ROWS], m[PANEL_ROWS];
    memcpy(d, block, sizeof(d));
    memcpy(m, block + 64, sizeof(m));
    for (uint32_t i = 0; i < PANEL_ROWS; i++)
        values[i] = d[i] * (float)codes[i] + m[i];
}

static void dot_float(const weight *w, uint32_t index, const float *tile, uint32_t rows, const panel_out *to)
{
    const uint8_t *column = w->data + index * w->panel_bytes;
    size_t column_bytes = PANEL_ROWS * (w->type == DT_F32 ? 4 : 2);
    float acc[TILE_ROWS][PANEL_ROWS] = {{0}};
    for (uint32_t k = 0; k < w->cols; k++, column += column_bytes) {
        float values[PANEL_ROWS];
        if (is_byte_type(w->type))
            load_byte_lanes(w, w->data + index * w->panel_bytes, k, values);
        else
            load_float_lanes(w, column, values);
        for (uint32_t r = 0; r < rows; r++)
            for (uint32_t i = 0; i < PANEL_ROWS; i++)
                acc[r][i] += values[i] * tile[(size_t)k * rows + r];
    }
    for (uint32_t r = 0; r < rows; r++)
        finish_row(acc[r], to, r);
}

static uint64_t read_bytes(const void *from, size_t bytes)
{
    const char *at = from;
    uint64_t sum[4] = {0, 0, 0, 0};
    for (size_t i = 0; i + 32 <= bytes; i += 32) {
        uint64_t words[4];
        memcpy(words, at + i, 32);
        for (uint32_t j = 0; j < 4; j++)
            sum[j] += words[j];
    }
    return sum[0] + sum[1] + sum[2] + sum[3];
}

const matmul_kernels matmul_kernels_generic = {
    .quantize = quantize,
    .unpack = unpack,
    .dot = dot,
    .dot_float = dot_float,
    .read_bytes = read_bytes,
};
