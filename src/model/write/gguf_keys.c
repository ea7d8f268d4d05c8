/* model/write/gguf_keys.c: GGUF v3, little-endian (formats.md 1); which keys a family has: models.md 1.2, B.2. */
#include "model/write/gguf_keys.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "tensor/dtype.h"

enum { VERSION = 3, ALIGNMENT = 32, KEY_BYTES = 96 };
enum { T_U32 = 4, T_I32 = 5, T_F32 = 6, T_BOOL = 7, T_STRING = 8, T_ARRAY = 9, T_U64 = 10 };

static void put_number(buf *out, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        buf_byte(out, (char)(value >> (8 * i)));
}

static void put_float(buf *out, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_number(out, bits, 4);
}

static void put_string(buf *out, span text)
{
    put_number(out, text.size, 8);
    buf_append(out, text.data ? text.data : "", text.size);
}

static void put_key(gguf_keys *keys, const char *key, int type)
{
    put_string(&keys->text, span_from(key));
    put_number(&keys->text, (uint64_t)type, 4);
    keys->count++;
}

static void put_array(gguf_keys *keys, const char *key, int element, uint64_t count)
{
    put_key(keys, key, T_ARRAY);
    put_number(&keys->text, (uint64_t)element, 4);
    put_number(&keys->text, count, 8);
}

void gguf_put_u32(gguf_keys *keys, const char *key, uint32_t value)
{
    put_key(keys, key, T_U32);
    put_number(&keys->text, value, 4);
}

void gguf_put_u64(gguf_keys *keys, const char *key, uint64_t value)
{
    put_key(keys, key, T_U64);
    put_number(&keys->text, value, 8);
}

void gguf_put_f32(gguf_keys *keys, const char *key, double value)
{
    put_key(keys, key, T_F32);
    put_float(&keys->text, (float)value);
}

void gguf_put_bool(gguf_keys *keys, const char *key, bool value)
{
    put_key(keys, key, T_BOOL);
    buf_byte(&keys->text, value);
}

void gguf_put_text(gguf_keys *keys, const char *key, span value)
{
    put_key(keys, key, T_STRING);
    put_string(&keys->text, value);
}

void gguf_put_i32s(gguf_keys *keys, const char *key, const int32_t *values, uint64_t count)
{
    put_array(keys, key, T_I32, count);
    for (uint64_t i = 0; i < count; i++)
        put_number(&keys->text, (uint32_t)values[i], 4);
}

void gguf_put_f32s(gguf_keys *keys, const char *key, const float *values, uint64_t count)
{
    put_array(keys, key, T_F32, count);
    for (uint64_t i = 0; i < count; i++)
        put_float(&keys->text, values[i]);
}

void gguf_put_texts(gguf_keys *keys, const char *key, const span *values, uint64_t count)
{
    put_array(keys, key, T_STRING, count);
    for (uint64_t i = 0; i < count; i++)
        put_string(&keys->text, values[i]);
}

void gguf_keys_free(gguf_keys *keys)
{
    buf_free(&keys->text);
    keys->count = 0;
}

/* --- a plan's keys --- */

typedef struct {
    gguf_keys *keys;
    const char *arch;
    char key[KEY_BYTES];
} arch_writer;

static const char *arch_key(arch_writer *w, const char *name)
{
    snprintf(w->key, sizeof w->key, "%s.%s", w->arch, name);
    return w->key;
}

static void arch_u32(arch_writer *w, const char *name, uint32_t value)
{
    gguf_put_u32(w->keys, arch_key(w, name), value);
}

static void arch_f32(arch_writer *w, const char *name, double value)
{
    gguf_put_f32(w->keys, arch_key(w, name), value);
}

static void put_rope(arch_writer *w, const model_shape *s)
{
    static const char *const NAMES[] = {[ROPE_LINEAR] = "linear", [ROPE_YARN] = "yarn"};
    const shape_rope *r = &s->rope;
    arch_u32(w, "rope.dimension_count", (uint32_t)(s->head_dim * r->partial));
    arch_f32(w, "rope.freq_base", r->theta);
    if (s->family == SHAPE_GEMMA3)
        arch_f32(w, "rope.freq_base_swa", r->local_theta);
    if (r->sections[0] + r->sections[1] + r->sections[2]) {
        int32_t sections[4] = {(int32_t)r->sections[0], (int32_t)r->sections[1], (int32_t)r->sections[2], 0};
        gguf_put_i32s(w->keys, arch_key(w, "rope.dimension_sections"), sections, 4);
    }
    if (r->kind == ROPE_PLAIN || r->kind == ROPE_LLAMA3) /* llama3's is a tensor */
        return;
    gguf_put_text(w->keys, arch_key(w, "rope.scaling.type"), span_from(NAMES[r->kind]));
    arch_f32(w, "rope.scaling.factor", r->factor);
    if (r->original)
        arch_u32(w, "rope.scaling.original_context_length", r->original);
    if (r->attention_factor > 0) /* of the whole; the key multiplies the default */
        arch_f32(w, "rope.scaling.attn_factor", r->attention_factor / (0.1 * log(r->factor) + 1));
    if (r->beta_fast > 0)
        arch_f32(w, "rope.scaling.yarn_beta_fast", r->beta_fast);
    if (r->beta_slow > 0)
        arch_f32(w, "rope.scaling.yarn_beta_slow", r->beta_slow);
}

static void put_family(arch_writer *w, const model_shape *s)
{
    if (s->experts) {
        arch_u32(w, "expert_count", s->experts);
        arch_u32(w, "expert_used_count", s->experts_used);
        arch_u32(w, "expert_feed_forward_length", s->expert_ffn);
        gguf_put_bool(w->keys, arch_key(w, "expert_weights_norm"), s->renormalise);
    }
    if (s->shared_ffn)
        arch_u32(w, "expert_shared_feed_forward_length", s->shared_ffn);
    if (s->value_heads) {
        arch_u32(w, "ssm.conv_kernel", s->conv);
        arch_u32(w, "ssm.state_size", s->key_dim);
        arch_u32(w, "ssm.group_count", s->key_heads);
        arch_u32(w, "ssm.time_step_rank", s->value_heads);
        arch_u32(w, "ssm.inner_size", s->value_heads * s->value_dim);
        arch_u32(w, "full_attention_interval", s->interval);
    }
    if (s->family == SHAPE_GEMMA3) {
        arch_u32(w, "attention.sliding_window", s->window);
        arch_u32(w, "attention.sliding_window_pattern", s->interval);
        arch_f32(w, "attention.scale", 1 / sqrt(s->query_scalar));
        if (s->final_softcap > 0)
            arch_f32(w, "final_logit_softcapping", s->final_softcap);
        if (s->attention_softcap > 0)
            arch_f32(w, "attn_logit_softcapping", s->attention_softcap);
    }
}

static uint32_t file_type(weight_type type) /* general.file_type: what most of the tensors are */
{
    static const uint32_t TYPES[] = {
        [TYPE_F32] = 0, [TYPE_F16] = 1, [TYPE_BF16] = 32, [TYPE_Q8_0] = 7, [TYPE_Q4_0] = 2, [TYPE_MXFP4] = 38};
    return TYPES[type];
}

void gguf_put_plan(gguf_keys *keys, const model_plan *plan, const char *name)
{
    const model_shape *s = &plan->shape;
    arch_writer w = {.keys = keys, .arch = shape_arch(s->family)};
    gguf_put_text(keys, "general.architecture", span_from(w.arch));
    gguf_put_text(keys, "general.type", span_from("model"));
    gguf_put_text(keys, "general.name", span_from(name));
    gguf_put_text(keys, "general.description", span_from("synthetic: random weights, nothing was learnt"));
    gguf_put_u32(keys, "general.file_type", file_type(plan->type));
    gguf_put_u32(keys, "general.quantization_version", 2);
    gguf_put_bool(keys, "headway.synthetic", true);
    gguf_put_u64(keys, "headway.synthetic_seed", plan->seed);
    arch_u32(&w, "block_count", s->layers);
    arch_u32(&w, "context_length", s->context);
    arch_u32(&w, "embedding_length", s->hidden);
    arch_u32(&w, "vocab_size", s->vocab);
    if (s->ffn)
        arch_u32(&w, "feed_forward_length", s->ffn);
    arch_u32(&w, "attention.head_count", s->heads);
    arch_u32(&w, "attention.head_count_kv", s->kv_heads);
    arch_u32(&w, "attention.key_length", s->head_dim);
    arch_u32(&w, "attention.value_length", s->head_dim);
    arch_f32(&w, "attention.layer_norm_rms_epsilon", s->rms_eps);
    put_rope(&w, s);
    put_family(&w, s);
}

/* --- the header --- */

static uint32_t type_id(store kind)
{
    switch (kind) {
    case STORE_F32:
        return DT_F32;
    case STORE_F16:
        return DT_F16;
    case STORE_BF16:
        return DT_BF16;
    case STORE_Q8_0:
        return DT_Q8_0;
    case STORE_Q4_0:
        return DT_Q4_0;
    default:
        return DT_MXFP4;
    }
}

void gguf_header(const model_plan *plan, const gguf_keys *keys, buf *out)
{
    buf_append(out, "GGUF", 4);
    put_number(out, VERSION, 4);
    put_number(out, plan->count, 8);
    put_number(out, keys->count, 8);
    buf_append(out, keys->text.data ? keys->text.data : "", keys->text.size);
    for (size_t i = 0; i < plan->count; i++) {
        const plan_tensor *t = &plan->tensors[i];
        put_string(out, span_from(plan_name(plan, t)));
        put_number(out, t->dims, 4);
        for (uint32_t d = t->dims; d-- > 0;)
            put_number(out, t->shape[d], 8);
        put_number(out, type_id(t->store), 4);
        put_number(out, t->at[0], 8);
    }
    while (out->size % ALIGNMENT && !out->failed)
        buf_byte(out, 0);
    out->failed |= keys->text.failed;
}
