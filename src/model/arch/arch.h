/* model/arch/arch.h: what the dense families share: reading numbers and weights from a file, attention and gated FFN on
 * a block of rows. Bind functions run at load on one thread; the block functions on the engine thread. */
#ifndef HEADWAY_MODEL_ARCH_ARCH_H
#define HEADWAY_MODEL_ARCH_ARCH_H

#include "model/model.h"

extern const arch_ops arch_llama, arch_qwen2, arch_qwen3, arch_gemma3;
extern const arch_ops arch_qwen3moe, arch_qwen3next, arch_qwen35, arch_qwen35moe;

/* A key "ARCH.name"; `fallback` when absent. ERR_INVALID: wrong type or outside [low, high]. */
status arch_u32(const model *m, const model_file *file, const char *name, uint32_t fallback, uint32_t low,
                uint32_t high, uint32_t *out, error *err);
void arch_key(const model *m, const char *name, char *out, size_t size); /* "ARCH.name" */
status arch_f32(const model *m, const model_file *file, const char *name, float fallback, float *out, error *err);

/* Tensor "blk.LAYER.name" (layer >= 0) or "name" as a packed weight of the given shape, or as a vector of floats. */
status bind_weight(model *m, const model_file *file, int layer, const char *name, uint32_t rows, uint32_t cols,
                   weight **out, error *err);
/* Row i of the wanted matrix is row i / run * period + offset + i % run of the file's, counted through all matrices of
 * a stack: two matrices whose rows lie in turns. run 0: as in the file. */
typedef struct {
    uint32_t run, period, offset;
} row_map;
status bind_mapped(model *m, const model_file *file, int layer, const char *name, uint32_t rows, uint32_t cols,
                   row_map map, weight **out, error *err);
/* `stack` matrices of one tensor, ne[2] counting them. */
status bind_stack(model *m, const model_file *file, int layer, const char *name, uint32_t stack, uint32_t rows,
                  uint32_t cols, row_map map, weight **out, error *err);
/* All values of a tensor whose ne is (cols, rows); malloc'ed. */
status read_floats(const model_file *file, int layer, const char *name, uint32_t rows, uint32_t cols, float **out,
                   error *err);
bool has_tensor(const model_file *file, uint32_t layer, const char *name); /* blk.LAYER.name */
enum { BIND_OPTIONAL = 1 };
status bind_vector(model *m, const model_file *file, int layer, const char *name, uint32_t size, unsigned flags,
                   buffer **out, error *err);

typedef struct {
    const char *name;
    uint32_t rows, cols;
    weight **out;
} matrix_want;
typedef struct {
    const char *name;
    uint32_t size;
    unsigned flags;
    buffer **out;
} vector_want;
status bind_matrices(model *m, const model_file *file, uint32_t layer, const matrix_want *wants, size_t count,
                     error *err);
status bind_vectors(model *m, const model_file *file, uint32_t layer, const vector_want *wants, size_t count,
                    error *err);

/* q, k, v, o and their norms and biases where present; counts the layer as one with keys and values. */
status bind_attention(model *m, const model_file *file, uint32_t layer, error *err);
status bind_ffn(model *m, const model_file *file, uint32_t layer, error *err); /* gate, up, down */
/* Both, and ffn_norm. */
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

/* What the hybrid and mixture families share (moe.c, hybrid.c). Numbers of the experts; router, stacks and shared
 * expert of a layer, or its dense FFN where it has no router. */
status configure_experts(model *m, const model_file *file, error *err);
status bind_experts(model *m, const model_file *file, uint32_t layer, error *err);
void run_router(const model *m, batch *b, uint32_t layer, uint32_t row_start, uint32_t row_count);
void run_experts(const model *m, batch *b, uint32_t layer, uint32_t row_start, uint32_t row_count);
uint64_t experts_weight_bytes(const model *m, uint32_t layer);
/* Numbers of the layers with a state. */
status configure_delta(model *m, const model_file *file, error *err);
/* A layer with a state, or an attention layer whose q rows hold a gate too; then its FFN, dense or with experts. */
status bind_hybrid_layer(model *m, const model_file *file, uint32_t layer, error *err);
void run_delta(const model *m, batch *b, uint32_t layer, uint32_t row_start, uint32_t row_count);
uint64_t delta_weight_bytes(const model *m, uint32_t layer);
/* Op 0 is attention or the delta rule, op 1 router and shared expert or the FFN, op 2 the routed experts if any. */
void run_hybrid_op(const model *m, batch *b, uint32_t layer, uint32_t op, uint32_t row_start, uint32_t row_count);
uint64_t hybrid_op_weight_bytes(const model *m, uint32_t layer, uint32_t op);

/* Pieces of an op (dense.c). A view of a work buffer; the norm of each of `groups` parts of each row; the batch's
 * segments cut to a block of rows, their count (fills slice, state_slice, positions); x += W in. */
view work_view(buffer *b, uint32_t width);
void norm_rows(const model *m, view x, view out, uint32_t rows, uint32_t groups, uint32_t dim, const buffer *weight);
uint32_t slice_segments(batch *b, uint32_t row_start, uint32_t row_count);
void project_residual(const model *m, view in, const weight *w, const buffer *bias, const buffer *post, view x,
                      uint32_t rows);

#endif
