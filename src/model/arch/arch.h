/* model/arch/arch.h: what the dense families share: reading numbers and weights from a file, attention and gated FFN on
 * a block of rows. Bind functions run at load on one thread; the block functions on the engine thread. */
#ifndef HEADWAY_MODEL_ARCH_ARCH_H
#define HEADWAY_MODEL_ARCH_ARCH_H

#include "model/model.h"

extern const arch_ops arch_llama, arch_qwen2, arch_qwen3, arch_gemma3;

/* A key "ARCH.name"; `fallback` when absent. ERR_INVALID: wrong type or outside [low, high]. */
status arch_u32(const model *m, const model_file *file, const char *name, uint32_t fallback, uint32_t low,
                uint32_t high, uint32_t *out, error *err);
status arch_f32(const model *m, const model_file *file, const char *name, float fallback, float *out, error *err);

/* Tensor "blk.LAYER.name" (layer >= 0) or "name" as a packed weight of the given shape, or as a vector of floats. */
status bind_weight(model *m, const model_file *file, int layer, const char *name, uint32_t rows, uint32_t cols,
                   weight **out, error *err);
enum { BIND_OPTIONAL = 1 };
status bind_vector(model *m, const model_file *file, int layer, const char *name, uint32_t size, unsigned flags,
                   buffer **out, error *err);

/* q, k, v, o and their norms and biases where present; gate, up, down. */
status bind_dense_layer(model *m, const model_file *file, uint32_t layer, error *err);
/* Rope table from base and the file's scaling keys (models.md 1.1) or without scaling. */
status build_rope(const model *m, const model_file *file, float base, bool scaled, rope_table *out, error *err);

/* x += Wo attend(norm x); with attn_post_norm: x += post(Wo ...). */
void run_attention(const model *m, batch *b, uint32_t layer, uint32_t row_start, uint32_t row_count);
/* x += Wd (act(Wg n) * (Wu n)), n = norm x; with ffn_post_norm: x += post(...). */
void run_ffn(const model *m, batch *b, uint32_t layer, uint32_t row_start, uint32_t row_count);
/* op 0 is attention, op 1 the FFN. */
void run_dense_op(const model *m, batch *b, uint32_t layer, uint32_t op, uint32_t row_start, uint32_t row_count);
uint64_t dense_op_weight_bytes(const model *m, uint32_t layer, uint32_t op);

#endif
