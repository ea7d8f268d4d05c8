/* model/write/shape.h: what model does a Hugging Face config.json describe? Its numbers, checked: every field is within
 * the limits below when shape_read returns OK, so products of a few of them fit 64 bits. Pure data; any thread. */
#ifndef HEADWAY_MODEL_WRITE_SHAPE_H
#define HEADWAY_MODEL_WRITE_SHAPE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum {
    SHAPE_LAYERS_MAX = 1024,
    SHAPE_HEADS_MAX = 1024,
    SHAPE_HEAD_DIM_MAX = 4096,
    SHAPE_WIDTH_MAX = 1 << 18, /* hidden and feed-forward */
    SHAPE_VOCAB_MAX = 1 << 22,
    SHAPE_EXPERTS_MAX = 4096,
};

typedef enum {
    SHAPE_LLAMA,
    SHAPE_QWEN2,
    SHAPE_QWEN3,
    SHAPE_GEMMA3,
    SHAPE_QWEN3_MOE,
    SHAPE_QWEN3_NEXT,
    SHAPE_QWEN3_5,
    SHAPE_QWEN3_5_MOE,
} shape_family;

typedef enum { ROPE_PLAIN, ROPE_LINEAR, ROPE_LLAMA3, ROPE_YARN } rope_kind;

typedef struct {
    rope_kind kind;
    double theta, local_theta;                                        /* local: sliding layers of gemma3 */
    double partial;                                                   /* share of a head's channels that turn */
    double factor, low, high, beta_fast, beta_slow, attention_factor; /* attention_factor 0: the default */
    uint32_t original;                                                /* context before scaling; 0: not said */
    uint32_t sections[3];                                             /* of mrope; all 0: none */
} shape_rope;

typedef struct {
    shape_family family;
    bool composite; /* the numbers stood in text_config */
    bool tied;
    bool qkv_bias, o_bias;
    uint32_t layers, hidden, heads, kv_heads, head_dim, vocab, context;
    uint32_t ffn;                                           /* of dense layers; 0: there are none */
    uint32_t experts, experts_used, expert_ffn, shared_ffn; /* experts 0: all layers are dense */
    bool renormalise;                                       /* the router's top k */
    bool dense_layer[SHAPE_LAYERS_MAX];                     /* of a model with experts */
    uint32_t interval; /* every n-th layer is full attention (linear or sliding between); 1: all are */
    uint32_t window;   /* of sliding layers */
    uint32_t key_heads, value_heads, key_dim, value_dim, conv;      /* linear attention; 0 where the family has none */
    double rms_eps, query_scalar, final_softcap, attention_softcap; /* query_scalar: scale = 1/sqrt; caps 0: none */
    shape_rope rope;
} model_shape;

/* `config`: the object of config.json; `path` for messages: "PATH: KEY: what was found, what was expected". */
status shape_read(model_shape *out, const json_t *config, const char *path, error *err);

const char *shape_model_type(shape_family family); /* "qwen3_5_moe" */
const char *shape_arch(shape_family family);       /* GGUF's general.architecture: "qwen35moe" */
bool shape_zero_centred(shape_family family);      /* norms are stored as w and used as 1 + w */

static inline bool shape_is_linear(const model_shape *s, uint32_t layer) /* a Gated DeltaNet layer */
{
    return s->value_heads && (layer + 1) % s->interval != 0;
}

static inline bool shape_has_experts(const model_shape *s, uint32_t layer)
{
    return s->experts && !s->dense_layer[layer];
}

#endif
