/* model/write/plan.h: which tensors does a model have in a format, where does each row come from, and where in which
 * file does it go? Names and shapes: models.md A.2, B.2, C. The plan owns its memory; built by one thread, read-only
 * afterwards. Values are those of Hugging Face's layout ("canonical" rows); other formats permute and shift them. */
#ifndef HEADWAY_MODEL_WRITE_PLAN_H
#define HEADWAY_MODEL_WRITE_PLAN_H

#include "base/buf.h"
#include "model/write/fill.h"
#include "model/write/shape.h"
#include "model/write/store.h"

typedef enum { FORMAT_GGUF, FORMAT_HF, FORMAT_MLX } model_format;
typedef enum { TYPE_F32, TYPE_F16, TYPE_BF16, TYPE_Q8_0, TYPE_Q4_0, TYPE_MXFP8, TYPE_MXFP4, TYPE_AFFINE4 } weight_type;
enum { FORMAT_COUNT = FORMAT_MLX + 1, TYPE_COUNT = TYPE_AFFINE4 + 1 };

const char *format_name(model_format format); /* "gguf" */
const char *type_name(weight_type type);      /* "q8_0" */

/* Index in the stored order to canonical index. Past `offset` runs of `unit` belong to heads. */
typedef struct {
    enum {
        ORDER_SAME,
        ORDER_PAIRS, /* in heads of `unit`, halves interleaved: llama's q and k in GGUF */
        ORDER_TILED, /* value head j * outer + g comes from g * inner + j: qwen35 in GGUF */
    } kind;
    uint32_t offset, unit, outer, inner;
} plan_order;

uint64_t plan_order_source(const plan_order *order, uint64_t index);

/* A canonical tensor. */
typedef struct {
    uint64_t key;
    fill_kind fill;
    float scale;
} plan_part;

typedef enum { VALUE_AS_IS, VALUE_PLUS_ONE, VALUE_NEG_EXP, VALUE_ROPE_FREQS } plan_value;

/* Rows start + k * stride ... of a part, `rows` of them, in the k-th round of the turns. */
typedef struct {
    uint32_t part, rows, start, stride;
} plan_turn;

typedef struct {
    size_t name; /* offset in plan.names */
    store store;
    uint32_t dims;
    uint64_t shape[3]; /* outermost first, as Hugging Face writes it; experts are three-dimensional */
    uint64_t rows, cols;
    uint64_t first_row; /* canonical row of row 0: an expert of its own */
    plan_part parts[2];
    plan_turn turns[4];
    uint32_t turn_count; /* 0: part 0, row by row */
    plan_order row_order, col_order;
    plan_value value;
    bool exact;
    bool head; /* its rows are tokens' logits: those out of [said_first, said_end) are zero */
    uint32_t file;
    uint64_t at[STORE_PIECES]; /* offsets in the file's data section */
} plan_tensor;

typedef struct {
    model_shape shape;
    model_format format;
    weight_type type;
    uint64_t seed;
    uint32_t said_first, said_end; /* tokens that greedy decoding may choose, by the caller; [0, 0): all. A model whose
                                      embeddings are its head says anything */
    plan_tensor *tensors;
    size_t count, capacity;
    buf names; /* NUL-terminated, one after the other */
    uint32_t file_count;
    uint64_t *file_bytes; /* of each file's data section */
    uint64_t bytes;       /* of all data sections */
    uint64_t parameters;
} model_plan;

/* ERR_INVALID: a row is no whole number of blocks; ERR_UNSUPPORTED: the format does not have the type. */
status model_plan_build(model_plan *out, const model_shape *shape, model_format format, weight_type type, uint64_t seed,
                        error *err);
void model_plan_free(model_plan *plan);

static inline const char *plan_name(const model_plan *plan, const plan_tensor *t)
{
    return plan->names.data + t->name;
}

/* The values of stored row `row`; scratch: t->cols floats too. */
void plan_row(const model_plan *plan, const plan_tensor *t, uint64_t row, float *out, float *scratch);

#endif
