/* model/arch/arch.c: the registry of families, and reading their numbers and weights from a file with clear words when
 * they are off. */
#include "model/arch/arch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tensor/quant.h"

static const arch_ops *const families[] = {&arch_llama, &arch_qwen2, &arch_qwen3, &arch_gemma3};

const arch_ops *arch_find(span name)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (span_is(name, families[i]->name))
            return families[i];
    return NULL;
}

status arch_u32(const model *m, const model_file *file, const char *name, uint32_t fallback, uint32_t low,
                uint32_t high, uint32_t *out, error *err)
{
    char key[128];
    uint64_t value = fallback;
    snprintf(key, sizeof key, "%s.%s", m->arch->name, name);
    status st = model_file_u64(file, key, &value, err);
    if (st && st != ERR_NOT_FOUND)
        return st;
    if (value < low || value > high)
        return error_set(err, ERR_INVALID, "%s: %s: %llu, want %u to %u%s", model_file_path(file), key,
                         (unsigned long long)value, low, high, st ? " (the key is missing)" : "");
    *out = (uint32_t)value;
    return OK;
}

status arch_f32(const model *m, const model_file *file, const char *name, float fallback, float *out, error *err)
{
    char key[128];
    double value = (double)fallback;
    snprintf(key, sizeof key, "%s.%s", m->arch->name, name);
    status st = model_file_f64(file, key, &value, err);
    if (st && st != ERR_NOT_FOUND)
        return st;
    if (!isfinite(value))
        return error_set(err, ERR_INVALID, "%s: %s: not a finite number", model_file_path(file), key);
    *out = (float)value;
    return OK;
}

static void tensor_name(char *out, size_t size, int layer, const char *name)
{
    if (layer < 0)
        snprintf(out, size, "%s", name);
    else
        snprintf(out, size, "blk.%d.%s", layer, name);
}

enum { BAND_BYTES = 2 << 20 }; /* of the file that are in memory beside what they became */

static void fill_weight(model *m, const model_file *file, const model_tensor *t, uint32_t rows, uint32_t cols,
                        weight *w)
{
    size_t row_bytes = dtype_row_bytes(dtype_get(t->type), cols);
    size_t bands = BAND_BYTES / row_bytes / WEIGHT_BAND_ROWS;
    uint32_t band = bands ? (uint32_t)bands * WEIGHT_BAND_ROWS : WEIGHT_BAND_ROWS;
    for (uint32_t first = 0; first < rows; first += band) {
        uint32_t count = rows - first < band ? rows - first : band;
        const uint8_t *raw = (const uint8_t *)t->data + first * row_bytes;
        m->device->ops->weight_fill(m->device, w, first, count, raw);
        model_file_release_range(file, raw, count * row_bytes);
    }
    model_file_release_pages(file, t);
}

status bind_weight(model *m, const model_file *file, int layer, const char *name, uint32_t rows, uint32_t cols,
                   weight **out, error *err)
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
    if (t->ne[0] != cols || t->ne[1] != rows || t->ne[2] != 1 || t->ne[3] != 1)
        return error_set(err, ERR_INVALID, "%s: tensor %s: shape [%llu, %llu], want [%u, %u]", model_file_path(file),
                         full, (unsigned long long)t->ne[0], (unsigned long long)t->ne[1], cols, rows);
    if (layer >= 0 && t->type != DT_F32 && t->type != DT_F16 && t->type != DT_BF16)
        m->config.quantized = true;
    error why = {0};
    status st = m->device->ops->weight_create(m->device, (dtype)t->type, rows, cols, NULL, out, &why);
    if (st)
        return error_set(err, st, "%s: tensor %s: %s", model_file_path(file), full, why.text);
    fill_weight(m, file, t, rows, cols, *out);
    return OK;
}

status bind_vector(model *m, const model_file *file, int layer, const char *name, uint32_t size, unsigned flags,
                   buffer **out, error *err)
{
    char full[96];
    tensor_name(full, sizeof full, layer, name);
    const model_tensor *t = model_file_tensor(file, full);
    if (!t && (flags & BIND_OPTIONAL))
        return OK;
    if (!t)
        return error_set(err, ERR_INVALID, "%s: tensor %s: missing", model_file_path(file), full);
    const dtype_info *type = dtype_get(t->type);
    if (!type || !type->supported || t->ne[0] != size || t->bytes != dtype_row_bytes(type, size))
        return error_set(err, ERR_INVALID, "%s: tensor %s: want a vector of %u", model_file_path(file), full, size);
    float *values = malloc(size * sizeof *values);
    if (!values)
        return error_set(err, ERR_MEMORY, "tensor %s: out of memory", full);
    quant_dequantize_row((dtype)t->type, t->data, values, size);
    status st = m->device->ops->buffer_create(m->device, size, out);
    if (!st)
        m->device->ops->upload(m->device, *out, 0, values, size);
    free(values);
    return st ? error_set(err, st, "tensor %s: out of memory", full) : OK;
}

status bind_dense_layer(model *m, const model_file *file, uint32_t layer, error *err)
{
    const model_config *c = &m->config;
    layer_weights *w = &m->layers[layer];
    uint32_t q = c->heads * c->head_dim, kv = c->kv_heads * c->head_dim;
    const struct {
        const char *name;
        uint32_t rows, cols;
        weight **out;
    } matrices[] = {
        {"attn_q.weight", q, c->hidden, &w->q},           {"attn_k.weight", kv, c->hidden, &w->k},
        {"attn_v.weight", kv, c->hidden, &w->v},          {"attn_output.weight", c->hidden, q, &w->o},
        {"ffn_gate.weight", c->ffn, c->hidden, &w->gate}, {"ffn_up.weight", c->ffn, c->hidden, &w->up},
        {"ffn_down.weight", c->hidden, c->ffn, &w->down},
    };
    const struct {
        const char *name;
        uint32_t size;
        unsigned flags;
        buffer **out;
    } vectors[] = {
        {"attn_norm.weight", c->hidden, 0, &w->attn_norm},
        {"ffn_norm.weight", c->hidden, 0, &w->ffn_norm},
        {"attn_q_norm.weight", c->head_dim, BIND_OPTIONAL, &w->q_norm},
        {"attn_k_norm.weight", c->head_dim, BIND_OPTIONAL, &w->k_norm},
        {"attn_q.bias", q, BIND_OPTIONAL, &w->q_bias},
        {"attn_k.bias", kv, BIND_OPTIONAL, &w->k_bias},
        {"attn_v.bias", kv, BIND_OPTIONAL, &w->v_bias},
        {"attn_output.bias", c->hidden, BIND_OPTIONAL, &w->o_bias},
    };
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        status st =
            bind_vector(m, file, (int)layer, vectors[i].name, vectors[i].size, vectors[i].flags, vectors[i].out, err);
        if (st)
            return st;
    }
    for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++) {
        status st = bind_weight(m, file, (int)layer, matrices[i].name, matrices[i].rows, matrices[i].cols,
                                matrices[i].out, err);
        if (st)
            return st;
    }
    return OK;
}
