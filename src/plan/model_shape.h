/* plan/model_shape.h: what is this model made of? Exact counts of parameters by what a step does with them, KV and
 * state bytes, multiplications. From the built-in catalogue, a config.json or, by cli/, a model file. Shapes are plain
 * values; any thread. Formulas: docs/planning.md. */
#ifndef HEADWAY_PLAN_MODEL_SHAPE_H
#define HEADWAY_PLAN_MODEL_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/span.h"

typedef struct {   /* 0 where the model has none */
    char name[64]; /* of the catalogue: "qwen3.6-35b-a3b"; else from the file */
    char title[96];
    uint32_t layers, hidden, vocab, context;
    bool tied; /* the head is the embedding table */
    /* attention, in attention_layers of the layers (all, for a plain model) */
    uint32_t attention_layers, heads, kv_heads, head_dim, value_dim; /* value_dim 0: head_dim */
    bool gated_attention;                                            /* q has a gate of its own size (qwen3_5) */
    bool qk_norm, biases;                                            /* biases of q, k, v */
    uint32_t window_layers, window;     /* of them, that see the last `window` tokens only */
    uint32_t q_lora, kv_lora, rope_dim; /* multi-head latent attention: kv_lora > 0; head_dim: without rope_dim */
    /* linear attention (gated delta rule), in the other layers */
    uint32_t linear_layers, linear_key_heads, linear_value_heads, linear_key_dim, linear_value_dim, conv_width;
    /* feed forward */
    uint32_t feed_forward, dense_layers; /* width; how many layers have a dense one (all, for a dense model) */
    bool plain_feed_forward;             /* two matrices instead of three */
    uint32_t experts, experts_used, expert_feed_forward, shared_feed_forward; /* in layers - dense_layers of them */
    bool shared_gate;
    /* small parts that few families have */
    uint32_t layer_norms;      /* norms of the hidden size in each layer; 0: two */
    bool qk_norm_whole;        /* over the channels of all heads at once: as many weights as q and k have channels */
    bool output_bias, sinks;   /* of attention: of its last matrix; one number a head */
    bool feed_forward_biases;  /* of every matrix, experts' included */
    bool router_bias;          /* a number for each expert, added to the router's */
    uint64_t other_parameters; /* counted in the total, read by no step of text: vision tower, draft layers */
} model_shape;

typedef struct {        /* weights in parameters; all of it follows from the shape */
    uint64_t total;     /* of the text model: other_parameters are not in it */
    uint64_t embedding; /* the table, once */
    uint64_t head;      /* read by each step: the table again where tied */
    uint64_t always;    /* read by each step, the head included, whatever the experts */
    uint64_t expert;    /* one routed expert of one layer */
    uint32_t expert_layers;
    uint64_t active;      /* always + experts_used experts in each of their layers: of one token */
    double flops_token;   /* 2 x (active - head): of a prompt's token; the head is computed for the last one only */
    double flops_head;    /* 2 x head */
    double flops_depth;   /* of attention, for a token and each position that it sees (full layers only) */
    double kv_values;     /* numbers kept a token in the layers that see everything */
    double window_values; /* the same, in windowed layers, for each of at most `window` tokens */
    double state_bytes;   /* recurrent state of a sequence: f32, as it is kept */
} model_sums;

/* ERR_INVALID names the count that cannot be (no layers, heads that do not divide, more used than experts, ...). */
status model_shape_check(const model_shape *shape, error *err);
void model_shape_sums(const model_shape *shape, model_sums *out); /* of a checked shape */

/* A config.json (also one with a text_config): `text` its bytes, `name` for messages. ERR_INVALID names the missing or
 * absurd key; ERR_UNSUPPORTED (or its like) a model_type whose shape is not known, listing those that are.
 * other_parameters counts the towers and draft layers of the families that docs/models-catalogue.md lists. */
status model_shape_read(model_shape *out, span text, const char *name, error *err);
/* The same, and how the weights are stored as far as it says: MLX's `quantization`, `quantization_config`, else its
 * dtype; "": it does not say, or by a scheme that no weight_type stands for. */
status model_shape_read_type(model_shape *out, char type[16], span text, const char *name, error *err);

size_t catalogue_count(void);
const model_shape *catalogue_at(size_t index);
const char *catalogue_type(size_t index);   /* the type it is usually run in: "q4_k_m" */
const char *catalogue_source(size_t index); /* of the shape, and the published count that it was held against */
double catalogue_published(size_t index);   /* parameters by its makers, all in all; 0: not said */
bool catalogue_rounded(size_t index);       /* published is no exact count: "70.6B" */
status catalogue_find(const model_shape **out, size_t *index, const char *name, error *err); /* names the nearest */

/* ---- how weights and KV are stored ---- */
typedef struct {
    const char *name; /* "q4_0", "mxfp8", "f16", ... as headway synth and GGUF name them, lower case */
    double bits;      /* of a weight, scales included; a mixture's (q4_k_m) is its mean */
    const char
        *compute; /* "f32", "f16", "fp8", "int8": which rate of the hardware its matmuls use (rate_kind's names) */
    double always_bits; /* of a weight that is no routed expert's, in a model that has experts; 0: as the others */
} weight_type;
status weight_type_find(const weight_type **out, const char *name, error *err); /* lists them */
size_t weight_type_count(void);
const weight_type *weight_type_at(size_t index);
status kv_bits_find(double *bits, const char *name, error *err); /* f16, bf16: 16; q8: 8.25 + ...; as kv/ stores them */

/* "llama-3.1-8b:q4_0" into name and type; no colon: *type = "". ERR_INVALID: too long. */
status model_name_split(const char *text, char name[64], char type[16], error *err);

#endif
