/* Writes small GGUF files in memory, honest or lying: every count, offset and type can be said by hand. Owner: the
 * test. */
#ifndef HEADWAY_TESTS_GGUF_BUILDER_H
#define HEADWAY_TESTS_GGUF_BUILDER_H

#include "base/buf.h"
#include "base/rng.h"
#include "model/file/gguf.h"

typedef struct {
    uint32_t version;
    uint32_t alignment; /* of the data section and each tensor; add_u32 "general.alignment" says it in the file */
    uint64_t key_count, tensor_count;
    buf keys, tensors, data;
} gguf_builder;

static inline gguf_builder builder(void)
{
    return (gguf_builder){.version = 3, .alignment = 32};
}

static inline void put_u8(buf *b, uint8_t v)
{
    buf_append(b, &v, sizeof v);
}

static inline void put_u32(buf *b, uint32_t v)
{
    buf_append(b, &v, sizeof v);
}

static inline void put_u64(buf *b, uint64_t v)
{
    buf_append(b, &v, sizeof v);
}

static inline void put_f32(buf *b, float v)
{
    buf_append(b, &v, sizeof v);
}

static inline void put_string(buf *b, const char *text)
{
    put_u64(b, strlen(text));
    buf_text(b, text);
}

static inline void pad(buf *b, uint32_t alignment)
{
    while (b->size % alignment)
        put_u8(b, 0);
}

/* Key and type; the value follows with put_*. */
static inline buf *add_key(gguf_builder *g, const char *key, uint32_t type)
{
    g->key_count++;
    put_string(&g->keys, key);
    put_u32(&g->keys, type);
    return &g->keys;
}

static inline buf *add_array(gguf_builder *g, const char *key, uint32_t element, uint64_t count)
{
    buf *b = add_key(g, key, MV_ARRAY);
    put_u32(b, element);
    put_u64(b, count);
    return b;
}

static inline void add_u32(gguf_builder *g, const char *key, uint32_t value)
{
    put_u32(add_key(g, key, MV_U32), value);
}

static inline void add_u16(gguf_builder *g, const char *key, uint16_t value)
{
    buf_append(add_key(g, key, MV_U16), &value, sizeof value);
}

static inline void add_string(gguf_builder *g, const char *key, const char *value)
{
    put_string(add_key(g, key, MV_STRING), value);
}

static inline void say_tensor(gguf_builder *g, const char *name, uint32_t type, uint32_t dims, const uint64_t *ne,
                              uint64_t offset)
{
    g->tensor_count++;
    put_string(&g->tensors, name);
    put_u32(&g->tensors, dims);
    for (uint32_t d = 0; d < dims; d++)
        put_u64(&g->tensors, ne[d]);
    put_u32(&g->tensors, type);
    put_u64(&g->tensors, offset);
}

/* A matrix with its data: bytes that count up. */
static inline void add_tensor(gguf_builder *g, const char *name, uint32_t type, uint64_t cols, uint64_t rows)
{
    uint64_t ne[2] = {cols, rows};
    size_t bytes = dtype_row_bytes(dtype_get(type), cols) * rows;
    pad(&g->data, g->alignment);
    say_tensor(g, name, type, 2, ne, g->data.size);
    for (size_t i = 0; i < bytes; i++)
        put_u8(&g->data, (uint8_t)(i + g->tensor_count));
}

/* The whole file, appended to `out`; the builder is empty afterwards. */
static inline void build(gguf_builder *g, buf *out)
{
    buf_text(out, "GGUF");
    put_u32(out, g->version);
    put_u64(out, g->tensor_count);
    put_u64(out, g->key_count);
    buf_append(out, g->keys.data, g->keys.size);
    buf_append(out, g->tensors.data, g->tensors.size);
    if (g->tensor_count > 0)
        pad(out, g->alignment);
    buf_append(out, g->data.data, g->data.size);
    buf_free(&g->keys);
    buf_free(&g->tensors);
    buf_free(&g->data);
}

/* Metadata of a small llama with four tokens. */
static inline void add_llama_keys(gguf_builder *g)
{
    static const char *const TOKENS[] = {"<unk>", "<s>", "</s>", "a"};
    add_string(g, "general.architecture", "llama");
    add_string(g, "general.name", "tiny");
    add_u32(g, "llama.block_count", 1);
    add_u32(g, "llama.context_length", 64);
    add_u32(g, "llama.embedding_length", 32);
    add_u32(g, "llama.attention.head_count", 2);
    put_f32(add_key(g, "llama.attention.layer_norm_rms_epsilon", MV_F32), 1e-5f);
    put_u8(add_key(g, "tokenizer.ggml.add_bos_token", MV_BOOL), 1);
    add_string(g, "tokenizer.ggml.model", "llama");
    buf *b = add_array(g, "tokenizer.ggml.tokens", MV_STRING, 4);
    for (int i = 0; i < 4; i++)
        put_string(b, TOKENS[i]);
    b = add_array(g, "tokenizer.ggml.scores", MV_F32, 4);
    for (int i = 0; i < 4; i++)
        put_f32(b, (float)-i);
    b = add_array(g, "tokenizer.ggml.token_type", MV_I32, 4);
    for (uint32_t i = 0; i < 4; i++)
        put_u32(b, i);
    add_u32(g, "tokenizer.ggml.bos_token_id", 1);
    add_u32(g, "tokenizer.ggml.eos_token_id", 2);
}

static inline void add_llama_tensors(gguf_builder *g)
{
    add_tensor(g, "token_embd.weight", DT_Q8_0, 32, 4);
    add_tensor(g, "blk.0.attn_norm.weight", DT_F32, 32, 1);
    add_tensor(g, "blk.0.attn_q.weight", DT_Q4_1, 32, 32);
    add_tensor(g, "output_norm.weight", DT_F16, 32, 1);
}

#endif
