/* model/arch/arch.c: the registry of families, and reading their numbers and weights from a file with clear words when
 * they are off. */
#include "model/arch/arch.h"

#include <math.h>
#include <stdio.h>

static const arch_ops *const families[] = {&arch_llama,    &arch_qwen2,     &arch_qwen3,  &arch_gemma3,
                                           &arch_qwen3moe, &arch_qwen3next, &arch_qwen35, &arch_qwen35moe};

const char *arch_names(void)
{
    return "llama, qwen2, qwen3, gemma3, qwen3moe, qwen3next, qwen35, qwen35moe";
}

const arch_ops *arch_find(span name)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (span_is(name, families[i]->name))
            return families[i];
    return NULL;
}

void arch_key(const model *m, const char *name, char *out, size_t size)
{
    snprintf(out, size, "%s.%s", m->arch->name, name);
}

status arch_u32(const model *m, const model_file *file, const char *name, uint32_t fallback, uint32_t low,
                uint32_t high, uint32_t *out, error *err)
{
    char key[128];
    uint64_t value = fallback;
    arch_key(m, name, key, sizeof key);
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
    arch_key(m, name, key, sizeof key);
    status st = model_file_f64(file, key, &value, err);
    if (st && st != ERR_NOT_FOUND)
        return st;
    if (!isfinite(value))
        return error_set(err, ERR_INVALID, "%s: %s: not a finite number", model_file_path(file), key);
    *out = (float)value;
    return OK;
}

status bind_matrices(model *m, const model_file *file, uint32_t layer, const matrix_want *wants, size_t count,
                     error *err)
{
    for (size_t i = 0; i < count; i++) {
        status st = bind_weight(m, file, (int)layer, wants[i].name, wants[i].rows, wants[i].cols, wants[i].out, err);
        if (st)
            return st;
    }
    return OK;
}

status bind_vectors(model *m, const model_file *file, uint32_t layer, const vector_want *wants, size_t count,
                    error *err)
{
    for (size_t i = 0; i < count; i++) {
        status st = bind_vector(m, file, (int)layer, wants[i].name, wants[i].size, wants[i].flags, wants[i].out, err);
        if (st)
            return st;
    }
    return OK;
}

status bind_attention(model *m, const model_file *file, uint32_t layer, error *err)
{
    const model_config *c = &m->config;
    layer_weights *w = &m->layers[layer];
    uint32_t q = c->heads * c->head_dim, kv = c->kv_heads * c->head_dim;
    const matrix_want matrices[] = {
        {"attn_q.weight", q, c->hidden, &w->q},
        {"attn_k.weight", kv, c->hidden, &w->k},
        {"attn_v.weight", kv, c->hidden, &w->v},
        {"attn_output.weight", c->hidden, q, &w->o},
    };
    const vector_want vectors[] = {
        {"attn_norm.weight", c->hidden, 0, &w->attn_norm},
        {"attn_q_norm.weight", c->head_dim, BIND_OPTIONAL, &w->q_norm},
        {"attn_k_norm.weight", c->head_dim, BIND_OPTIONAL, &w->k_norm},
        {"attn_q.bias", q, BIND_OPTIONAL, &w->q_bias},
        {"attn_k.bias", kv, BIND_OPTIONAL, &w->k_bias},
        {"attn_v.bias", kv, BIND_OPTIONAL, &w->v_bias},
        {"attn_output.bias", c->hidden, BIND_OPTIONAL, &w->o_bias},
    };
    w->cache_layer = m->config.kv_layers++;
    status st = bind_vectors(m, file, layer, vectors, sizeof vectors / sizeof *vectors, err);
    return st ? st : bind_matrices(m, file, layer, matrices, sizeof matrices / sizeof *matrices, err);
}

status bind_ffn(model *m, const model_file *file, uint32_t layer, error *err)
{
    const model_config *c = &m->config;
    layer_weights *w = &m->layers[layer];
    const matrix_want matrices[] = {
        {"ffn_gate.weight", c->ffn, c->hidden, &w->gate},
        {"ffn_up.weight", c->ffn, c->hidden, &w->up},
        {"ffn_down.weight", c->hidden, c->ffn, &w->down},
    };
    if (!c->ffn)
        return error_set(err, ERR_INVALID, "%s: %s.feed_forward_length: missing", model_file_path(file), m->arch->name);
    return bind_matrices(m, file, layer, matrices, sizeof matrices / sizeof *matrices, err);
}

status bind_dense_layer(model *m, const model_file *file, uint32_t layer, error *err)
{
    status st = bind_attention(m, file, layer, err);
    if (!st)
        st = bind_vector(m, file, (int)layer, "ffn_norm.weight", m->config.hidden, 0, &m->layers[layer].ffn_norm, err);
    return st ? st : bind_ffn(m, file, layer, err);
}
