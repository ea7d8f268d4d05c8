/* plan/model_shape.c: a shape's counts, checked; and what follows from them. The matrices are those of models in
 * Hugging Face's layout; docs/models-catalogue.md writes the sums out. */
#include "plan/model_shape.h"

#include <inttypes.h>
#include <string.h>

/* What any model has, by far: so that every product below fits 63 bits. */
enum {
    LAYERS_MAX = 1024,
    HIDDEN_MAX = 1 << 17,
    VOCAB_MAX = 1 << 24,
    CONTEXT_MAX = 1 << 30,
    HEADS_MAX = 1024,
    HEAD_DIM_MAX = 4096,
    LORA_MAX = 1 << 16,
    CONV_MAX = 64,
    FEED_FORWARD_MAX = 1 << 19,
    EXPERTS_MAX = 4096,
    NORMS_MAX = 16,
    STATE_ROUND = 16, /* floats: how Headway's CPU backend lays a layer's state out */
};
#define OTHER_MAX 10000000000000u /* parameters beside the text model */

typedef struct {
    const char *what;
    uint32_t value, low, high;
} bound;

static status check_bounds(const model_shape *s, const bound *bounds, size_t count, error *err)
{
    for (size_t i = 0; i < count; i++)
        if (bounds[i].value < bounds[i].low || bounds[i].value > bounds[i].high)
            return error_set(err, ERR_INVALID, "model %.63s: %s: %" PRIu32 ", expected %" PRIu32 " to %" PRIu32,
                             s->name, bounds[i].what, bounds[i].value, bounds[i].low, bounds[i].high);
    return OK;
}

static status check_attention(const model_shape *s, error *err)
{
    if (!s->attention_layers)
        return OK;
    const bound bounds[] = {
        {"attention heads", s->heads, 1, HEADS_MAX},
        {"heads of keys and values", s->kv_heads, 1, s->heads},
        {"channels of a head", s->head_dim, 1, HEAD_DIM_MAX},
        {"channels of a head's values", s->value_dim, 0, HEAD_DIM_MAX},
        {"layers with a window", s->window_layers, 0, s->attention_layers},
        {"rank of q", s->q_lora, 0, LORA_MAX},
        {"rank of keys and values", s->kv_lora, 0, LORA_MAX},
        {"channels that turn", s->rope_dim, 0, HEAD_DIM_MAX},
    };
    status st = check_bounds(s, bounds, sizeof bounds / sizeof *bounds, err);
    if (st)
        return st;
    if (s->heads % s->kv_heads)
        return error_set(err, ERR_INVALID,
                         "model %.63s: heads of keys and values: %" PRIu32 ", expected a divisor of the %" PRIu32
                         " attention heads",
                         s->name, s->kv_heads, s->heads);
    if (s->window_layers && (!s->window || s->window > CONTEXT_MAX))
        return error_set(err, ERR_INVALID,
                         "model %.63s: window: %" PRIu32 " tokens, expected 1 to %d where layers have one", s->name,
                         s->window, CONTEXT_MAX);
    if ((s->q_lora || s->rope_dim) && !s->kv_lora)
        return error_set(err, ERR_INVALID, "model %.63s: rank of keys and values: 0, expected more where q has a rank",
                         s->name);
    return OK;
}

static status check_linear(const model_shape *s, error *err)
{
    if (!s->linear_layers)
        return OK;
    const bound bounds[] = {
        {"key heads of linear attention", s->linear_key_heads, 1, HEADS_MAX},
        {"value heads of linear attention", s->linear_value_heads, 1, HEADS_MAX},
        {"key channels of linear attention", s->linear_key_dim, 1, HEAD_DIM_MAX},
        {"value channels of linear attention", s->linear_value_dim, 1, HEAD_DIM_MAX},
        {"width of the convolution", s->conv_width, 1, CONV_MAX},
    };
    status st = check_bounds(s, bounds, sizeof bounds / sizeof *bounds, err);
    if (st == OK && s->linear_value_heads % s->linear_key_heads)
        return error_set(err, ERR_INVALID,
                         "model %.63s: value heads of linear attention: %" PRIu32
                         ", expected a multiple of the %" PRIu32 " key heads",
                         s->name, s->linear_value_heads, s->linear_key_heads);
    return st;
}

static status check_feed_forward(const model_shape *s, error *err)
{
    const bound bounds[] = {
        {"layers with a dense feed forward", s->dense_layers, s->experts ? 0 : s->layers, s->layers},
        {"feed forward", s->feed_forward, s->dense_layers ? 1 : 0, FEED_FORWARD_MAX},
        {"experts", s->experts, 0, EXPERTS_MAX},
        {"experts used", s->experts_used, s->experts ? 1 : 0, s->experts},
        {"an expert's feed forward", s->expert_feed_forward, s->experts ? 1 : 0, FEED_FORWARD_MAX},
        {"the shared experts' feed forward", s->shared_feed_forward, 0, FEED_FORWARD_MAX},
    };
    return check_bounds(s, bounds, sizeof bounds / sizeof *bounds, err);
}

status model_shape_check(const model_shape *shape, error *err)
{
    const model_shape *s = shape;
    const bound bounds[] = {
        {"layers", s->layers, 1, LAYERS_MAX},
        {"hidden size", s->hidden, 1, HIDDEN_MAX},
        {"vocabulary", s->vocab, 1, VOCAB_MAX},
        {"context", s->context, 1, CONTEXT_MAX},
        {"layers with attention", s->attention_layers, 0, s->layers},
        {"norms of a layer", s->layer_norms, 0, NORMS_MAX},
    };
    status st = check_bounds(s, bounds, sizeof bounds / sizeof *bounds, err);
    if (st)
        return st;
    if (s->linear_layers != s->layers - s->attention_layers)
        return error_set(err, ERR_INVALID,
                         "model %.63s: %" PRIu32 " layers with attention and %" PRIu32
                         " with linear attention, expected %" PRIu32 " together",
                         s->name, s->attention_layers, s->linear_layers, s->layers);
    if (s->other_parameters > OTHER_MAX)
        return error_set(err, ERR_INVALID, "model %.63s: other parameters: %" PRIu64 ", expected at most %" PRIu64,
                         s->name, s->other_parameters, (uint64_t)OTHER_MAX);
    if ((st = check_attention(s, err)) || (st = check_linear(s, err)))
        return st;
    return check_feed_forward(s, err);
}

static uint64_t value_dim(const model_shape *s)
{
    return s->value_dim ? s->value_dim : s->head_dim;
}

/* --- parameters, of one layer each --- */

static uint64_t latent_attention(const model_shape *s)
{
    uint64_t hidden = s->hidden, heads = s->heads, q = heads * (s->head_dim + s->rope_dim);
    uint64_t from_q = s->q_lora ? hidden * s->q_lora + s->q_lora + s->q_lora * q : hidden * q;
    uint64_t down = hidden * (s->kv_lora + s->rope_dim) + s->kv_lora;
    uint64_t up = s->kv_lora * heads * (s->head_dim + value_dim(s));
    return from_q + down + up + heads * value_dim(s) * hidden;
}

static uint64_t plain_attention(const model_shape *s)
{
    uint64_t q = (uint64_t)s->heads * s->head_dim, gated = s->gated_attention ? 2 : 1;
    uint64_t k = (uint64_t)s->kv_heads * s->head_dim, v = s->kv_heads * value_dim(s);
    uint64_t sum = s->hidden * (q * gated + k + v + s->heads * value_dim(s));
    if (s->biases)
        sum += q * gated + k + v;
    if (s->qk_norm)
        sum += s->qk_norm_whole ? q + k : 2 * (uint64_t)s->head_dim;
    return sum;
}

static uint64_t attention(const model_shape *s)
{
    uint64_t sum = s->kv_lora ? latent_attention(s) : plain_attention(s);
    return sum + (s->output_bias ? s->hidden : 0) + (s->sinks ? s->heads : 0);
}

static uint64_t linear_channels(const model_shape *s) /* q, k and v of linear attention */
{
    return 2 * (uint64_t)s->linear_key_heads * s->linear_key_dim +
           (uint64_t)s->linear_value_heads * s->linear_value_dim;
}

static uint64_t linear_attention(const model_shape *s)
{
    uint64_t values = (uint64_t)s->linear_value_heads * s->linear_value_dim, heads = s->linear_value_heads;
    uint64_t in = s->hidden * (linear_channels(s) + values + 2 * heads); /* q, k, v; z; a, b */
    return in + linear_channels(s) * s->conv_width + 2 * heads + s->linear_value_dim + values * s->hidden;
}

static uint64_t feed_forward(const model_shape *s, uint64_t width)
{
    uint64_t matrices = s->plain_feed_forward ? 2 : 3;
    return matrices * s->hidden * width + (s->feed_forward_biases ? (matrices - 1) * width + s->hidden : 0);
}

static uint64_t routing(const model_shape *s) /* what a layer with experts has besides them */
{
    return (uint64_t)s->hidden * s->experts + (s->router_bias ? s->experts : 0) + (s->shared_gate ? s->hidden : 0) +
           (s->shared_feed_forward ? feed_forward(s, s->shared_feed_forward) : 0);
}

/* --- the sums --- */

static void count_cache(const model_shape *s, model_sums *out)
{
    double kept = s->kv_lora ? s->kv_lora + s->rope_dim : (double)s->kv_heads * (double)(s->head_dim + value_dim(s));
    double full = s->attention_layers - s->window_layers;
    double read = (double)s->heads * (double)(s->head_dim + s->rope_dim + value_dim(s));
    out->kv_values = full * kept;
    out->window_values = s->window_layers * kept;
    out->flops_depth = 2 * full * read;
    if (s->linear_layers) {
        double heads = (double)s->linear_value_heads * s->linear_key_dim * s->linear_value_dim;
        uint64_t history = (s->conv_width - 1) * linear_channels(s);
        history = (history + STATE_ROUND - 1) / STATE_ROUND * STATE_ROUND;
        out->state_bytes = sizeof(float) * s->linear_layers * (heads + (double)history);
    }
}

void model_shape_sums(const model_shape *shape, model_sums *out)
{
    const model_shape *s = shape;
    uint64_t norms = (uint64_t)(s->layer_norms ? s->layer_norms : 2) * s->hidden * s->layers + s->hidden;
    *out = (model_sums){.embedding = (uint64_t)s->vocab * s->hidden, .head = (uint64_t)s->vocab * s->hidden};
    out->expert_layers = s->experts ? s->layers - s->dense_layers : 0;
    out->expert = s->experts ? feed_forward(s, s->expert_feed_forward) : 0;
    out->always = out->head + norms + s->attention_layers * (s->attention_layers ? attention(s) : 0) +
                  s->linear_layers * (s->linear_layers ? linear_attention(s) : 0) +
                  s->dense_layers * feed_forward(s, s->feed_forward) + out->expert_layers * routing(s);
    out->active = out->always + out->expert_layers * (uint64_t)s->experts_used * out->expert;
    out->total = out->always + out->expert_layers * (uint64_t)s->experts * out->expert;
    out->total += s->tied ? 0 : out->embedding;
    out->flops_token = 2 * (double)(out->active - out->head);
    out->flops_head = 2 * (double)out->head;
    count_cache(s, out);
}
