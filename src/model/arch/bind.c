/* model/arch/bind.c: tensors of the file to packed weights and vectors, with clear words when one is missing or off. A
 * matrix goes over in bands, so that little of it is in memory twice; its rows may come from the file as they lie, or
 * through the loader, or gathered from a tensor that holds two matrices. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/arch/arch.h"
#include "tensor/quant.h"

enum { BAND_BYTES = 2 << 20 };                 /* of the file that are in memory beside what they became */
static const size_t release_bytes = 32u << 20; /* the same where the loader reads the rows */
enum { AHEAD_BYTES = 32 << 20 };               /* of a tensor that the disk is asked for before they are packed */

static void tensor_name(char *out, size_t size, int layer, const char *name)
{
    if (layer < 0)
        snprintf(out, size, "%s", name);
    else
        snprintf(out, size, "blk.%d.%s", layer, name);
}

bool has_tensor(const model_file *file, uint32_t layer, const char *name)
{
    char full[96];
    tensor_name(full, sizeof full, (int)layer, name);
    return model_file_tensor(file, full) != NULL;
}

static status find(const model_file *file, int layer, const char *name, const model_tensor **out, error *err)
{
    char full[96];
    tensor_name(full, sizeof full, layer, name);
    const model_tensor *t = model_file_tensor(file, full);
    if (!t)
        return error_set(err, ERR_INVALID, "%s: tensor %s: missing", model_file_path(file), full);
    const dtype_info *type = dtype_get(t->type);
    if (!type || !type->supported)
        return error_set(err, ERR_UNSUPPORTED, "%s: tensor %s: type %s is not supported", model_file_path(file), full,
                         type ? type->name : "unknown");
    *out = t;
    return OK;
}

/* --- matrices --- */

typedef struct {
    uint32_t stack, rows, cols;
    row_map map;
} matrix_shape;

static uint64_t source_row(row_map map, uint64_t row)
{
    return map.run ? row / map.run * map.period + map.offset + row % map.run : row;
}

static const uint8_t *read_band(const model_tensor *t, const matrix_shape *s, uint64_t first, uint32_t count,
                                size_t row_bytes, uint8_t *band)
{
    if (t->data && !s->map.run)
        return (const uint8_t *)t->data + first * row_bytes;
    for (uint32_t i = 0, run; i < count; i += run) {
        uint64_t row = first + i, from = source_row(s->map, row);
        uint32_t left = s->map.run ? s->map.run - (uint32_t)(row % s->map.run) : count;
        run = count - i < left ? count - i : left;
        if (t->data)
            memcpy(band + i * row_bytes, (const uint8_t *)t->data + from * row_bytes, run * row_bytes);
        else
            t->read_rows(t, from, run, band + i * row_bytes);
    }
    return band;
}

static void release_band(const model_file *file, const model_tensor *t, const matrix_shape *s, uint64_t first,
                         uint32_t count, size_t row_bytes)
{
    if (!t->data) { /* which pages these rows came from, only the loader knows: all of the tensor, now and then */
        if (first * row_bytes / release_bytes != (first + count) * row_bytes / release_bytes)
            model_file_release_pages(file, t);
        return;
    }
    uint64_t from = source_row(s->map, first), end = source_row(s->map, first + count - 1) + 1;
    model_file_release_range(file, (const uint8_t *)t->data + from * row_bytes, (end - from) * row_bytes);
}

/* Rows that are packed while the disk brings the next ones: mapped pages alone come a few at a time. */
static void expect_rows(const model_tensor *t, uint64_t from, uint64_t count, size_t row_bytes)
{
    uint64_t at = from * row_bytes, end = at + count * row_bytes;
    bool first = at == 0, crossed = at / (AHEAD_BYTES / 2) != end / (AHEAD_BYTES / 2);
    uint64_t start = first ? 0 : end / (AHEAD_BYTES / 2) * (AHEAD_BYTES / 2) + AHEAD_BYTES / 2;
    if (!t->data || !(first || crossed) || start >= t->bytes)
        return;
    uint64_t most = first ? AHEAD_BYTES : AHEAD_BYTES / 2, left = t->bytes - start;
    model_file_expect((const uint8_t *)t->data + start, most < left ? most : left);
}

static status fill_weight(model *m, const model_file *file, const model_tensor *t, const matrix_shape *s, weight *w)
{
    if (!m->device->ops->weight_fill) /* a device that only checks */
        return OK;
    size_t row_bytes = dtype_row_bytes(dtype_get(t->type), s->cols), bands = BAND_BYTES / row_bytes / WEIGHT_BAND_ROWS;
    uint32_t band = bands ? (uint32_t)bands * WEIGHT_BAND_ROWS : WEIGHT_BAND_ROWS;
    uint8_t *copy = t->data && !s->map.run ? NULL : malloc((band < s->rows ? band : s->rows) * row_bytes);
    if (!copy && !(t->data && !s->map.run))
        return ERR_MEMORY;
    for (uint32_t matrix = 0; matrix < s->stack; matrix++)
        for (uint32_t row = 0; row < s->rows; row += band) {
            uint64_t first = (uint64_t)matrix * s->rows + row;
            uint32_t count = s->rows - row < band ? s->rows - row : band;
            expect_rows(t, source_row(s->map, first), count, row_bytes);
            const uint8_t *raw = read_band(t, s, first, count, row_bytes, copy);
            m->device->ops->weight_fill(m->device, w, (uint32_t)first, count, raw);
            release_band(file, t, s, first, count, row_bytes);
        }
    free(copy);
    model_file_release_pages(file, t);
    return OK;
}

static status bind_matrix(model *m, const model_file *file, int layer, const char *name, const matrix_shape *s,
                          bool stacked, weight **out, error *err)
{
    const model_tensor *t;
    const backend_ops *ops = m->device->ops;
    status st = find(file, layer, name, &t, err);
    if (st)
        return st;
    uint64_t rows = s->map.run ? (uint64_t)s->rows / s->map.run * s->map.period : s->rows;
    if (t->ne[0] != s->cols || t->ne[1] != rows || t->ne[2] != s->stack || t->ne[3] != 1)
        return error_set(err, ERR_INVALID, "%s: tensor %.*s: shape [%llu, %llu, %llu], want [%u, %llu, %u]",
                         model_file_path(file), (int)t->name.size, t->name.data, (unsigned long long)t->ne[0],
                         (unsigned long long)t->ne[1], (unsigned long long)t->ne[2], s->cols, (unsigned long long)rows,
                         s->stack);
    if (layer >= 0 && t->type != DT_F32 && t->type != DT_F16 && t->type != DT_BF16)
        m->config.quantized = true;
    if (layer >= 0 && t->type != DT_F32)
        m->config.halved = true;
    error why = {0};
    st = stacked ? ops->stack_create(m->device, (dtype)t->type, s->stack, s->rows, s->cols, out, &why)
                 : ops->weight_create(m->device, (dtype)t->type, s->rows, s->cols, NULL, out, &why);
    if (!st && (st = fill_weight(m, file, t, s, *out)))
        error_set(&why, st, "out of memory");
    return st ? error_set(err, st, "%s: tensor %.*s: %s", model_file_path(file), (int)t->name.size, t->name.data,
                          why.text)
              : OK;
}

status bind_weight(model *m, const model_file *file, int layer, const char *name, uint32_t rows, uint32_t cols,
                   weight **out, error *err)
{
    return bind_matrix(m, file, layer, name, &(matrix_shape){1, rows, cols, {0}}, false, out, err);
}

status bind_mapped(model *m, const model_file *file, int layer, const char *name, uint32_t rows, uint32_t cols,
                   row_map map, weight **out, error *err)
{
    return bind_matrix(m, file, layer, name, &(matrix_shape){1, rows, cols, map}, false, out, err);
}

status bind_stack(model *m, const model_file *file, int layer, const char *name, uint32_t stack, uint32_t rows,
                  uint32_t cols, row_map map, weight **out, error *err)
{
    return bind_matrix(m, file, layer, name, &(matrix_shape){stack, rows, cols, map}, true, out, err);
}

/* --- vectors --- */

static status floats_of(const model_tensor *t, uint64_t count, float **out, error *err)
{
    const dtype_info *type = dtype_get(t->type);
    uint64_t rows = t->ne[1] * t->ne[2] * t->ne[3];
    size_t row_bytes = dtype_row_bytes(type, t->ne[0]);
    float *values = malloc(count * sizeof *values);
    uint8_t *row = malloc(row_bytes);
    for (uint64_t r = 0; values && row && r < rows; r++) {
        const void *raw = t->data ? (const uint8_t *)t->data + r * row_bytes : row;
        if (!t->data)
            t->read_rows(t, r, 1, row);
        quant_dequantize_row((dtype)t->type, raw, values + r * t->ne[0], t->ne[0]);
    }
    if (!values || !row) {
        free(values);
        free(row);
        return error_set(err, ERR_MEMORY, "tensor %.*s: out of memory", (int)t->name.size, t->name.data);
    }
    free(row);
    *out = values;
    return OK;
}

status read_floats(const model_file *file, int layer, const char *name, uint32_t rows, uint32_t cols, float **out,
                   error *err)
{
    const model_tensor *t;
    status st = find(file, layer, name, &t, err);
    if (st)
        return st;
    if (t->ne[0] != cols || t->ne[1] * t->ne[2] * t->ne[3] != rows)
        return error_set(err, ERR_INVALID, "%s: tensor %.*s: want [%u, %u]", model_file_path(file), (int)t->name.size,
                         t->name.data, cols, rows);
    return floats_of(t, (uint64_t)rows * cols, out, err);
}

status bind_vector(model *m, const model_file *file, int layer, const char *name, uint32_t size, unsigned flags,
                   buffer **out, error *err)
{
    const model_tensor *t;
    float *values = NULL;
    if ((flags & BIND_OPTIONAL) &&
        (layer < 0 ? !model_file_tensor(file, name) : !has_tensor(file, (uint32_t)layer, name)))
        return OK;
    status st = find(file, layer, name, &t, err);
    if (st)
        return st;
    if (t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3] != size)
        return error_set(err, ERR_INVALID, "%s: tensor %.*s: want a vector of %u", model_file_path(file),
                         (int)t->name.size, t->name.data, size);
    if ((st = floats_of(t, size, &values, err)))
        return st;
    st = m->device->ops->buffer_create(m->device, size, out);
    if (!st)
        m->device->ops->upload(m->device, *out, 0, values, size);
    free(values);
    return st ? error_set(err, st, "tensor %.*s: out of memory", (int)t->name.size, t->name.data) : OK;
}
