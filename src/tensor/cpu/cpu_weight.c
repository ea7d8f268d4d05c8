/* tensor/cpu/cpu_weight.c: from file order to panels, and one row back. The split into codes is quant.h's; only scales
 * are read from the file's blocks here, because a K-quant's scale is kept as its two factors. */
#include "tensor/cpu/cpu_weight.h"

#include "tensor/quant.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* code = value + zero, in the order of nibbles; the values are those of formats.md section 1. */
static const uint8_t IQ4_VALUES[16] = {128 - 127, 128 - 104, 128 - 83, 128 - 65, 128 - 49, 128 - 35,
                                       128 - 22,  128 - 10,  128 + 1,  128 + 13, 128 + 25, 128 + 38,
                                       128 + 53,  128 + 69,  128 + 89, 128 + 113};
static const uint8_t MXFP4_VALUES[16] = {12,     12 + 1, 12 + 2, 12 + 3, 12 + 4, 12 + 6, 12 + 8, 12 + 12,
                                         12 - 0, 12 - 1, 12 - 2, 12 - 3, 12 - 4, 12 - 6, 12 - 8, 12 - 12};

static const weight_format FORMATS[DT_COUNT] = {
    [DT_Q4_0] = {CODES_4, SCALES_F16, 32, 8, false, NULL},
    [DT_Q4_1] = {CODES_4, SCALES_F16_MIN, 32, 0, true, NULL},
    [DT_Q5_0] = {CODES_5, SCALES_F16, 32, 16, false, NULL},
    [DT_Q5_1] = {CODES_5, SCALES_F16_MIN, 32, 0, true, NULL},
    [DT_Q8_0] = {CODES_8, SCALES_F16, 32, 128, false, NULL},
    [DT_Q2_K] = {CODES_2, SCALES_K16_MIN, 16, 0, true, NULL},
    [DT_Q3_K] = {CODES_3, SCALES_K16, 16, 4, false, NULL},
    [DT_Q4_K] = {CODES_4, SCALES_K32_MIN, 32, 0, true, NULL},
    [DT_Q5_K] = {CODES_5, SCALES_K32_MIN, 32, 0, true, NULL},
    [DT_Q6_K] = {CODES_6, SCALES_K16, 16, 32, false, NULL},
    [DT_IQ4_NL] = {CODES_4, SCALES_F16, 32, 128, false, IQ4_VALUES},
    [DT_IQ4_XS] = {CODES_4, SCALES_K32, 32, 128, false, IQ4_VALUES},
    [DT_MXFP4] = {CODES_4, SCALES_E8M0, 32, 12, false, MXFP4_VALUES},
    [DT_NVFP4] = {CODES_4, SCALES_E4M3_16, 16, 12, false, MXFP4_VALUES},
    [DT_AFFINE2] = {CODES_2, SCALES_F32_MIN, 32, 0, true, NULL},
    [DT_AFFINE3] = {CODES_3, SCALES_F32_MIN, 32, 0, true, NULL},
    [DT_AFFINE4] = {CODES_4, SCALES_F32_MIN, 32, 0, true, NULL},
    [DT_AFFINE5] = {CODES_5, SCALES_F32_MIN, 32, 0, true, NULL},
    [DT_AFFINE6] = {CODES_6, SCALES_F32_MIN, 32, 0, true, NULL},
    [DT_AFFINE4_BF16] = {CODES_4, SCALES_BF16_MIN_64, 32, 0, true, NULL},
    [DT_AFFINE4_F16] = {CODES_4, SCALES_F16_MIN_64, 32, 0, true, NULL},
};

/* Where the file's block keeps what scale_kind wants, in bytes. */
typedef struct {
    uint8_t d, m; /* f16 scale and f16 min (or dmin) */
} block_fields;
static const block_fields FIELDS[DT_COUNT] = {
    [DT_Q4_1] = {0, 2}, [DT_Q5_1] = {0, 2},   [DT_Q2_K] = {80, 82},       [DT_Q3_K] = {108, 0},      [DT_Q4_K] = {0, 2},
    [DT_Q5_K] = {0, 2}, [DT_Q6_K] = {208, 0}, [DT_AFFINE4_BF16] = {0, 2}, [DT_AFFINE4_F16] = {0, 2},
};

const weight_format *weight_format_of(dtype type)
{
    return (uint32_t)type < DT_COUNT && FORMATS[type].group ? &FORMATS[type] : NULL;
}

/* Of unit_blocks blocks. */
static size_t scale_unit_bytes(scale_kind kind)
{
    switch (kind) {
    case SCALES_F16:
        return 32;
    case SCALES_F16_MIN:
    case SCALES_BF16_MIN_64:
    case SCALES_F16_MIN_64:
        return 64;
    case SCALES_E8M0:
        return 16;
    case SCALES_F32_MIN:
        return 128;
    case SCALES_E4M3_16:
        return 32;
    case SCALES_K32:
        return 32 + 8 * 16;
    case SCALES_K32_MIN:
        return 64 + 8 * 32;
    case SCALES_K16:
        return 32 + 16 * 16;
    case SCALES_K16_MIN:
        return 64 + 16 * 16;
    }
    return 0;
}

static bool is_super(scale_kind kind)
{
    return kind >= SCALES_K32 && kind != SCALES_E4M3_16;
}

static uint32_t unit_blocks(scale_kind kind)
{
    return is_super(kind) ? SUPER_BLOCKS : kind == SCALES_BF16_MIN_64 || kind == SCALES_F16_MIN_64 ? 2 : 1;
}

/* --- packing --- */

static void put_codes_4(uint8_t *block, uint32_t lane, const uint32_t codes[8])
{
    for (uint32_t j = 0; j < 4; j++) {
        uint32_t both = (codes[j] & 0x0f0f0f0f) | (codes[j + 4] & 0x0f0f0f0f) << 4;
        memcpy(block + 64 * j + 4 * lane, &both, 4);
    }
}

static void put_codes_2(uint8_t *plane, uint32_t lane, const uint32_t codes[8], uint32_t shift)
{
    for (uint32_t j = 0; j < 2; j++) {
        uint32_t all = 0;
        for (uint32_t m = 0; m < 4; m++)
            all |= (codes[4 * j + m] >> shift & 0x03030303) << (2 * m);
        memcpy(plane + 64 * j + 4 * lane, &all, 4);
    }
}

static void put_codes_1(uint8_t *plane, uint32_t lane, const uint32_t codes[8], uint32_t shift)
{
    uint32_t all = 0;
    for (uint32_t g = 0; g < 8; g++)
        all |= (codes[g] >> shift & 0x01010101) << g;
    memcpy(plane + 4 * lane, &all, 4);
}

static void put_codes(code_kind kind, uint8_t *block, uint32_t lane, const uint32_t codes[8])
{
    switch (kind) {
    case CODES_2:
        put_codes_2(block, lane, codes, 0);
        break;
    case CODES_3:
        put_codes_2(block, lane, codes, 0);
        put_codes_1(block + 128, lane, codes, 2);
        break;
    case CODES_4:
        put_codes_4(block, lane, codes);
        break;
    case CODES_5:
        put_codes_4(block, lane, codes);
        put_codes_1(block + 256, lane, codes, 4);
        break;
    case CODES_6:
        put_codes_4(block, lane, codes);
        put_codes_2(block + 256, lane, codes, 4);
        break;
    default:
        for (uint32_t g = 0; g < 8; g++)
            memcpy(block + 64 * g + 4 * lane, &codes[g], 4);
    }
}

/* The scale and min of sub-block s of a Q4_K or Q5_K block. */
static void k4_scale(const uint8_t *S, uint32_t s, uint8_t *scale, uint8_t *min)
{
    if (s < 4) {
        *scale = S[s] & 63;
        *min = S[s + 4] & 63;
    } else {
        *scale = (uint8_t)((S[s + 4] & 15) | (S[s - 4] >> 6) << 4);
        *min = (uint8_t)((S[s + 4] >> 4) | (S[s] >> 6) << 4);
    }
}

static uint8_t iq4_xs_scale(const uint8_t *b, uint32_t s)
{
    uint32_t high = (uint32_t)b[2] | (uint32_t)b[3] << 8;
    uint32_t scale = (b[4 + s / 2] >> (4 * (s & 1)) & 15) | (high >> (2 * s) & 3) << 4;
    return (uint8_t)((int)scale - 32);
}

static uint8_t q3_k_scale(const uint8_t *b, uint32_t t)
{
    uint32_t scale = (b[96 + (t & 7)] >> (4 * (t >> 3)) & 15) | (b[104 + (t & 3)] >> (2 * (t >> 2)) & 3) << 4;
    return (uint8_t)((int)scale - 32);
}

/* The bytes after d and dmin of a super-block's unit. */
static void put_sub_scales(dtype type, uint8_t *sub, uint32_t lane, const uint8_t *b)
{
    uint8_t scale, min;
    switch (type) {
    case DT_Q4_K:
    case DT_Q5_K:
        for (uint32_t s = 0; s < 8; s++) {
            k4_scale(b + 4, s, &scale, &min);
            sub[32 * s + lane] = scale;
            sub[32 * s + 16 + lane] = min;
        }
        break;
    case DT_IQ4_XS:
        for (uint32_t s = 0; s < 8; s++)
            sub[16 * s + lane] = iq4_xs_scale(b, s);
        break;
    case DT_Q3_K:
        for (uint32_t t = 0; t < 16; t++)
            sub[16 * t + lane] = q3_k_scale(b, t);
        break;
    case DT_Q6_K:
        for (uint32_t t = 0; t < 16; t++)
            sub[16 * t + lane] = b[192 + t];
        break;
    default: /* Q2_K */
        for (uint32_t t = 0; t < 16; t++)
            sub[16 * t + lane] = b[t];
    }
}

static void put_scales(const weight *w, uint8_t *scales, uint32_t lane, const uint8_t *row)
{
    const dtype_info *info = dtype_get(w->type);
    const weight_format *f = w->format;
    size_t unit = scale_unit_bytes(f->scale);
    block_fields fields = FIELDS[w->type];
    for (uint32_t i = 0; i < w->cols / info->block_elems; i++, row += info->block_bytes, scales += unit) {
        if (f->scale == SCALES_E8M0) {
            scales[lane] = row[0];
            continue;
        }
        if (f->scale == SCALES_F32_MIN) {
            memcpy(scales + 4 * lane, row, 4);
            memcpy(scales + 64 + 4 * lane, row + 4, 4);
            continue;
        }
        if (f->scale == SCALES_E4M3_16) {
            scales[lane] = row[0];
            scales[16 + lane] = row[1];
            continue;
        }
        memcpy(scales + 2 * lane, row + fields.d, 2);
        if (f->has_min)
            memcpy(scales + 32 + 2 * lane, row + fields.m, 2);
        if (is_super(f->scale))
            put_sub_scales(w->type, scales + (f->has_min ? 64 : 32), lane, row);
    }
}

typedef struct {
    weight *w;
    const uint8_t *raw;
    size_t row_bytes;
    uint32_t rows, first_panel; /* that `raw` holds */
    uint8_t nibble_of[256];     /* for formats with `values` */
    pool *pool;
} pack_job;

static void pack_float_panel(const pack_job *job, uint32_t index)
{
    const weight *w = job->w;
    uint8_t *panel = w->data + index * w->panel_bytes;
    size_t size = job->row_bytes / w->cols;
    uint32_t start = (index - job->first_panel) * PANEL_ROWS;
    for (uint32_t lane = 0; lane < PANEL_ROWS && start + lane < job->rows; lane++) {
        const uint8_t *row = job->raw + (size_t)(start + lane) * job->row_bytes;
        if (size == 4)
            for (uint32_t k = 0; k < w->cols; k++)
                memcpy(panel + ((size_t)k * PANEL_ROWS + lane) * 4, row + (size_t)k * 4, 4);
        else
            for (uint32_t k = 0; k < w->cols; k++)
                memcpy(panel + ((size_t)k * PANEL_ROWS + lane) * 2, row + (size_t)k * 2, 2);
    }
}

static void pack_byte_panel(const pack_job *job, uint32_t index)
{
    const weight *w = job->w;
    bool mx = w->type == DT_MXFP8;
    size_t scale_bytes = mx ? MXFP8_SCALE_BYTES : AFFINE8_SCALE_BYTES;
    uint8_t *block = w->data + index * w->panel_bytes;
    uint32_t start = (index - job->first_panel) * PANEL_ROWS, row_scale = mx ? 1 : 8;
    for (uint32_t b = 0; b < w->cols / BLOCK_COLS; b++, block += scale_bytes + PANEL_ROWS * BLOCK_COLS) {
        for (uint32_t lane = 0; lane < PANEL_ROWS && start + lane < job->rows; lane++) {
            const uint8_t *from = job->raw + (size_t)(start + lane) * job->row_bytes + b * (row_scale + BLOCK_COLS);
            if (mx) {
                block[lane] = from[0];
            } else {
                memcpy(block + 4 * lane, from, 4);
                memcpy(block + 64 + 4 * lane, from + 4, 4);
            }
            for (uint32_t k = 0; k < BLOCK_COLS; k++)
                block[scale_bytes + k * PANEL_ROWS + lane] = from[row_scale + k];
        }
    }
}

static void pack_quant_panel(const pack_job *job, uint32_t index, uint8_t *scratch)
{
    const weight *w = job->w;
    const weight_format *f = w->format;
    size_t block_bytes = code_block_bytes(f->code);
    uint8_t *scales = w->data + index * w->panel_bytes, *codes = scales + w->scale_bytes;
    float *unused = (float *)scratch; /* scales and mins as quant.h gives them */
    uint8_t *split = scratch + 8 * (size_t)w->cols;
    uint32_t start = (index - job->first_panel) * PANEL_ROWS;
    for (uint32_t lane = 0; lane < PANEL_ROWS && start + lane < job->rows; lane++) {
        const uint8_t *row = job->raw + (size_t)(start + lane) * job->row_bytes;
        quant_split_row(w->type, row, w->cols, split, unused, unused + w->cols);
        for (uint32_t k = 0; f->values && k < w->cols; k++)
            split[k] = job->nibble_of[split[k]];
        for (uint32_t b = 0; b < w->cols / BLOCK_COLS; b++) {
            uint32_t block[8];
            memcpy(block, split + b * BLOCK_COLS, sizeof(block));
            put_codes(f->code, codes + b * block_bytes, lane, block);
        }
        put_scales(w, scales, lane, row);
    }
}

static void pack_tile(void *ctx, uint32_t index, uint32_t worker)
{
    const pack_job *job = ctx;
    uint32_t panel = job->first_panel + index;
    if (job->w->format)
        pack_quant_panel(job, panel, pool_scratch(job->pool, worker));
    else if (is_byte_type(job->w->type))
        pack_byte_panel(job, panel);
    else
        pack_float_panel(job, panel);
}

static status weight_layout(weight *w, size_t row_bytes, error *err)
{
    size_t size = 0;
    if (w->format) {
        scale_kind kind = w->format->scale;
        size_t scales = w->cols / (unit_blocks(kind) * BLOCK_COLS) * scale_unit_bytes(kind);
        w->scale_bytes = (scales + 63) & ~(size_t)63;
        size = w->scale_bytes + w->cols / BLOCK_COLS * code_block_bytes(w->format->code);
    } else {
        size = row_bytes * PANEL_ROWS;
    }
    w->panel_bytes = (size + 63) & ~(size_t)63;
    if (w->panels && w->panel_bytes > SIZE_MAX / 2 / w->panels / w->stack)
        return error_set(err, ERR_LIMIT, "matrix of %u x %u: too large for memory", w->rows, w->cols);
    if ((uint64_t)w->panels * w->stack > UINT32_MAX / PANEL_ROWS)
        return error_set(err, ERR_LIMIT, "%u matrices of %u rows: too many", w->stack, w->rows);
    w->bytes = w->panel_bytes * w->panels * w->stack;
    return OK;
}

status cpu_weight_create(weight_place place, weight_shape shape, const void *raw, weight **out, error *err)
{
    const dtype_info *info = dtype_get(shape.type);
    uint32_t rows = shape.rows, cols = shape.cols;
    bool is_float = shape.type == DT_F32 || shape.type == DT_F16 || shape.type == DT_BF16 || is_byte_type(shape.type);
    if (!info || (!is_float && !weight_format_of(shape.type)))
        return error_set(err, ERR_UNSUPPORTED, "matrix of type %s: no kernel for it", info ? info->name : "unknown");
    if (rows == 0 || cols == 0 || shape.stack == 0 || cols % info->block_elems != 0)
        return error_set(err, ERR_INVALID, "matrix of %u x %u %s: expected rows, and columns in multiples of %u", rows,
                         cols, info->name, info->block_elems);
    weight *w = calloc(1, sizeof(*w));
    if (!w)
        return error_set(err, ERR_MEMORY, "matrix of %u x %u %s: out of memory", rows, cols, info->name);
    *w = (weight){.type = shape.type, .format = weight_format_of(shape.type), .rows = rows, .cols = cols};
    w->stack = shape.stack;
    w->panels = (rows - 1) / PANEL_ROWS + 1;
    status s = weight_layout(w, dtype_row_bytes(info, cols), err);
    /* Unpacked codes, scales and mins of a panel (matmul_kernels.h: panel), or a row split for packing. */
    if (s == OK && pool_reserve(place.pool, 40 * (size_t)cols + 4096) == OK)
        w->memory = arena_take(place.arena, w->bytes);
    if (s == OK && !w->memory.data)
        s = error_set(err, ERR_MEMORY, "matrix of %u x %u %s: out of memory", rows, cols, info->name);
    if (s != OK) {
        free(w);
        return s;
    }
    w->data = w->memory.data;
    if (raw)
        cpu_weight_fill(place.pool, w, 0, rows, raw);
    *out = w;
    return OK;
}

void cpu_weight_fill(pool *pool, weight *w, uint32_t first, uint32_t rows, const void *raw)
{
    uint32_t matrix = first / w->rows, row = first % w->rows;
    assert(row % PANEL_ROWS == 0 && matrix < w->stack && rows <= w->rows - row);
    pack_job job = {.w = w, .raw = raw, .rows = rows, .pool = pool};
    job.first_panel = matrix * w->panels + row / PANEL_ROWS;
    job.row_bytes = dtype_row_bytes(dtype_get(w->type), w->cols);
    for (uint32_t i = 0; w->format && w->format->values && i < 16; i++)
        job.nibble_of[w->format->values[i]] = (uint8_t)i;
    pool_run(pool, pack_tile, &job, (rows + PANEL_ROWS - 1) / PANEL_ROWS);
}

void cpu_weight_destroy(cpu_arena *arena, weight *w)
{
    if (!w)
        return;
    arena_release(arena, w->memory);
    free(w);
}

/* --- reading back --- */

static float half_at(scale_kind kind, const uint8_t *p, uint32_t lane)
{
    uint16_t h;
    memcpy(&h, p + 2 * lane, 2);
    return kind == SCALES_BF16_MIN_64 ? bf16_to_f32(h) : f16_to_f32(h);
}

static float e8m0_scale(uint8_t e)
{
    uint32_t bits = e > 1 ? (uint32_t)(e - 1) << 23 : 0x00200000u << e; /* below 2: denormal */
    float scale;
    memcpy(&scale, &bits, 4);
    return scale;
}

static uint8_t code_at(const weight_format *f, const uint8_t *block, uint32_t lane, uint32_t k)
{
    uint32_t g = k / 4, at = 4 * lane + k % 4;
    uint32_t nibble = block[64 * (g % 4) + at] >> (g < 4 ? 0 : 4) & 15;
    switch (f->code) {
    case CODES_2:
        return block[64 * (g / 4) + at] >> (2 * (g % 4)) & 3;
    case CODES_3:
        return (block[64 * (g / 4) + at] >> (2 * (g % 4)) & 3) | (block[128 + at] >> g & 1) << 2;
    case CODES_4:
        return f->values ? f->values[nibble] : (uint8_t)nibble;
    case CODES_5:
        return (uint8_t)(nibble | (block[256 + at] >> g & 1u) << 4);
    case CODES_6:
        return (uint8_t)(nibble | (block[256 + 64 * (g / 4) + at] >> (2 * (g % 4)) & 3u) << 4);
    default:
        return block[64 * g + at];
    }
}

void weight_group_codes(const weight_format *f, const uint8_t *block, uint32_t g, uint8_t codes[64])
{
    const uint8_t *twos = block + (f->code == CODES_6 ? 256 : 0) + 64 * (g / 4);
    const uint8_t *ones = block + (f->code == CODES_5 ? 256 : 128);
    uint32_t two_shift = 2 * (g % 4);
    if (f->code == CODES_8) {
        memcpy(codes, block + 64 * g, 64);
        return;
    }
    for (uint32_t i = 0; i < 64 && f->code >= CODES_4; i++)
        codes[i] = block[64 * (g % 4) + i] >> (g / 4 * 4) & 15;
    for (uint32_t i = 0; i < 64 && f->code < CODES_4; i++)
        codes[i] = twos[i] >> two_shift & 3;
    for (uint32_t i = 0; i < 64 && f->code == CODES_6; i++)
        codes[i] |= (uint8_t)((twos[i] >> two_shift & 3) << 4);
    for (uint32_t i = 0; i < 64 && f->code == CODES_5; i++)
        codes[i] |= (uint8_t)((ones[i] >> g & 1) << 4);
    for (uint32_t i = 0; i < 64 && f->code == CODES_3; i++)
        codes[i] |= (uint8_t)((ones[i] >> g & 1) << 2);
    for (uint32_t i = 0; i < 64 && f->values; i++)
        codes[i] = f->values[codes[i]];
}

void weight_block_scales(const weight *w, const uint8_t *panel_scales, uint32_t block, float scales[2][PANEL_ROWS],
                         float mins[2][PANEL_ROWS])
{
    scale_kind kind = w->format->scale;
    const uint8_t *unit = panel_scales + block / unit_blocks(kind) * scale_unit_bytes(kind);
    uint32_t s = block % SUPER_BLOCKS;
    for (uint32_t i = 0; i < PANEL_ROWS && kind == SCALES_F32_MIN; i++) {
        memcpy(&scales[0][i], unit + 4 * i, 4);
        memcpy(&mins[0][i], unit + 64 + 4 * i, 4);
    }
    for (uint32_t i = 0; i < PANEL_ROWS && kind != SCALES_F32_MIN; i++) {
        float d = kind == SCALES_E8M0 ? e8m0_scale(unit[i]) : half_at(kind, unit, i);
        float m = w->format->has_min ? half_at(kind, unit + 32, i) : 0;
        switch (kind) {
        case SCALES_F16:
        case SCALES_E8M0:
        case SCALES_F16_MIN:
        case SCALES_BF16_MIN_64:
        case SCALES_F16_MIN_64:
            scales[0][i] = d;
            mins[0][i] = m;
            break;
        case SCALES_E4M3_16:
            for (uint32_t h = 0; h < 2; h++)
                scales[h][i] = e4m3_to_f32(unit[16 * h + i]) * 0.5f;
            break;
        case SCALES_F32_MIN: /* above */
            break;
        case SCALES_K32:
            scales[0][i] = d * (float)(int8_t)unit[32 + 16 * s + i];
            break;
        case SCALES_K32_MIN:
            scales[0][i] = d * (float)unit[64 + 32 * s + i];
            mins[0][i] = -(m * (float)unit[64 + 32 * s + 16 + i]);
            break;
        case SCALES_K16:
            for (uint32_t h = 0; h < 2; h++)
                scales[h][i] = d * (float)(int8_t)unit[32 + 16 * (2 * s + h) + i];
            break;
        case SCALES_K16_MIN:
            for (uint32_t h = 0; h < 2; h++) {
                uint8_t both = unit[64 + 16 * (2 * s + h) + i];
                scales[h][i] = d * (float)(both & 15);
                mins[h][i] = -(m * (float)(both >> 4));
            }
            break;
        }
    }
}

static void read_float_row(const weight *w, uint32_t row, float *dst)
{
    const uint8_t *panel = w->data + row / PANEL_ROWS * w->panel_bytes;
    uint32_t lane = row % PANEL_ROWS;
    for (uint32_t k = 0; k < w->cols; k++) {
        size_t at = (size_t)k * PANEL_ROWS + lane;
        uint16_t half;
        if (w->type == DT_F32) {
            memcpy(dst + k, panel + 4 * at, 4);
            continue;
        }
        memcpy(&half, panel + 2 * at, 2);
        dst[k] = w->type == DT_F16 ? f16_to_f32(half) : bf16_to_f32(half);
    }
}

static void read_byte_row(const weight *w, uint32_t row, float *dst)
{
    bool mx = w->type == DT_MXFP8;
    size_t scale_bytes = mx ? MXFP8_SCALE_BYTES : AFFINE8_SCALE_BYTES;
    const uint8_t *block = w->data + row / PANEL_ROWS * w->panel_bytes;
    uint32_t lane = row % PANEL_ROWS;
    for (uint32_t k = 0; k < w->cols; k++) {
        uint8_t code = block[scale_bytes + k % BLOCK_COLS * PANEL_ROWS + lane];
        float scale, min;
        memcpy(&scale, block + (mx ? 0 : 4 * lane), 4);
        memcpy(&min, block + (mx ? 0 : 64 + 4 * lane), 4);
        dst[k] = mx ? e4m3_to_f32(code) * e8m0_to_f32(block[lane]) : scale * (float)code + min;
        if (k % BLOCK_COLS == BLOCK_COLS - 1)
            block += scale_bytes + PANEL_ROWS * BLOCK_COLS;
    }
}

void cpu_weight_read_row(const weight *w, uint32_t row, float *dst)
{
    assert(row < w->rows);
    if (is_byte_type(w->type)) {
        read_byte_row(w, row, dst);
        return;
    }
    if (!w->format) {
        read_float_row(w, row, dst);
        return;
    }
    const weight_format *f = w->format;
    uint32_t index = row / PANEL_ROWS, lane = row % PANEL_ROWS;
    size_t block_bytes = code_block_bytes(f->code);
    for (uint32_t b = 0; b < w->cols / BLOCK_COLS; b++) {
        uint8_t codes[BLOCK_COLS];
        float scales[2][PANEL_ROWS], mins[2][PANEL_ROWS];
        for (uint32_t k = 0; k < BLOCK_COLS; k++)
            codes[k] = code_at(f, weight_codes(w, index) + b * block_bytes, lane, k);
        weight_block_scales(w, weight_scales(w, index), b, scales, mins);
        for (uint32_t k = 0; k < BLOCK_COLS; k++) {
            uint32_t h = k / f->group;
            float value = scales[h][lane] * (float)((int)codes[k] - f->zero);
            dst[b * BLOCK_COLS + k] = f->has_min ? value + mins[h][lane] : value;
        }
    }
}
