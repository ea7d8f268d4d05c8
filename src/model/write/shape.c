/* model/write/shape.c: keys of config.json to numbers, with the defaults that the families have (models.md A.1, B.1,
 * C).
 */
#include "model/write/shape.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct {
    const json_t *top, *text; /* the same object unless composite */
    const char *path;
    error *err;
} reader;

static const struct {
    const char *model_type, *text_type, *arch;
} FAMILIES[] = {
    [SHAPE_LLAMA] = {"llama", "llama", "llama"},
    [SHAPE_QWEN2] = {"qwen2", "qwen2", "qwen2"},
    [SHAPE_QWEN3] = {"qwen3", "qwen3", "qwen3"},
    [SHAPE_GEMMA3] = {"gemma3", "gemma3_text", "gemma3"},
    [SHAPE_QWEN3_MOE] = {"qwen3_moe", "qwen3_moe", "qwen3moe"},
    [SHAPE_QWEN3_NEXT] = {"qwen3_next", "qwen3_next", "qwen3next"},
    [SHAPE_QWEN3_5] = {"qwen3_5", "qwen3_5_text", "qwen35"},
    [SHAPE_QWEN3_5_MOE] = {"qwen3_5_moe", "qwen3_5_moe_text", "qwen35moe"},
};
enum { FAMILY_COUNT = sizeof FAMILIES / sizeof *FAMILIES };

const char *shape_model_type(shape_family family)
{
    return FAMILIES[family].model_type;
}

const char *shape_arch(shape_family family)
{
    return FAMILIES[family].arch;
}

bool shape_zero_centred(shape_family family)
{
    return family == SHAPE_GEMMA3 || family == SHAPE_QWEN3_NEXT || family == SHAPE_QWEN3_5 ||
           family == SHAPE_QWEN3_5_MOE;
}

static status wrong(const reader *r, const char *key, const char *expected)
{
    return error_set(r->err, ERR_INVALID, "%s: %s: expected %s", r->path, key, expected);
}

/* An integer in [low, high]; `fallback` when absent or null, < 0: it must be there. */
static status read_u32(const reader *r, const char *key, int64_t fallback, uint32_t low, uint32_t high, uint32_t *out)
{
    const json_t *value = json_object_get(r->text, key);
    if ((!value || json_is_null(value)) && fallback < 0)
        return error_set(r->err, ERR_INVALID, "%s: %s is missing", r->path, key);
    int64_t number = fallback;
    if (value && !json_is_null(value)) {
        if (!json_is_integer(value))
            return wrong(r, key, "an integer");
        number = json_integer_value(value);
    }
    if (number < (int64_t)low || number > (int64_t)high)
        return error_set(r->err, ERR_INVALID, "%s: %s: %" PRId64 ", expected %" PRIu32 " to %" PRIu32, r->path, key,
                         number, low, high);
    *out = (uint32_t)number;
    return OK;
}

/* A number in (0, high] of `object`; *out is left alone when absent or null. */
static status read_positive(const reader *r, const json_t *object, const char *key, double high, double *out)
{
    const json_t *value = json_object_get(object, key);
    if (!value || json_is_null(value))
        return OK;
    double number = json_number_value(value);
    if (!json_is_number(value) || !(number > 0) || number > high)
        return error_set(r->err, ERR_INVALID, "%s: %s: expected a number above 0, at most %g", r->path, key, high);
    *out = number;
    return OK;
}

static bool flag_at(const json_t *object, const char *key, bool fallback)
{
    const json_t *value = json_object_get(object, key);
    return json_is_boolean(value) ? json_is_true(value) : fallback;
}

static status find_family(reader *r, model_shape *s)
{
    const json_t *type = json_object_get(r->top, "model_type"), *text = json_object_get(r->top, "text_config");
    if (!json_is_string(type))
        return wrong(r, "model_type", "the name of a family, as \"qwen3\"");
    if (json_is_object(text)) {
        r->text = text;
        s->composite = true;
    }
    const char *name = json_string_value(type);
    for (int i = 0; i < FAMILY_COUNT; i++) {
        if (strcmp(name, FAMILIES[i].model_type) != 0 && strcmp(name, FAMILIES[i].text_type) != 0)
            continue;
        s->family = (shape_family)i;
        return OK;
    }
    return error_set(r->err, ERR_UNSUPPORTED,
                     "%s: model_type: \"%.64s\" is not known (llama, qwen2, qwen3, gemma3, qwen3_moe, qwen3_next, "
                     "qwen3_5 and qwen3_5_moe are)",
                     r->path, name);
}

static status read_attention(const reader *r, model_shape *s)
{
    bool gemma = s->family == SHAPE_GEMMA3;
    status st;
    if ((st = read_u32(r, "num_hidden_layers", -1, 1, SHAPE_LAYERS_MAX, &s->layers)) ||
        (st = read_u32(r, "hidden_size", -1, 2, SHAPE_WIDTH_MAX, &s->hidden)) ||
        (st = read_u32(r, "vocab_size", gemma ? 262208 : -1, 1, SHAPE_VOCAB_MAX, &s->vocab)) ||
        (st = read_u32(r, "max_position_embeddings", gemma ? 131072 : 2048, 1, 1u << 30, &s->context)) ||
        (st = read_u32(r, "num_attention_heads", gemma ? 8 : -1, 1, SHAPE_HEADS_MAX, &s->heads)) ||
        (st = read_u32(r, "num_key_value_heads", gemma ? 4 : (int64_t)s->heads, 1, SHAPE_HEADS_MAX, &s->kv_heads)) ||
        (st = read_u32(r, "head_dim", gemma ? 256 : (int64_t)(s->hidden / s->heads), 2, SHAPE_HEAD_DIM_MAX,
                       &s->head_dim)))
        return st;
    if (s->heads % s->kv_heads)
        return error_set(r->err, ERR_INVALID, "%s: num_key_value_heads: %u, expected a divisor of the %u heads",
                         r->path, s->kv_heads, s->heads);
    if (s->head_dim % 2)
        return wrong(r, "head_dim", "an even number");
    s->rms_eps = s->family == SHAPE_LLAMA ? 1e-5 : 1e-6;
    s->query_scalar = s->head_dim;
    if ((st = read_positive(r, r->text, "rms_norm_eps", 1, &s->rms_eps)))
        return st;
    bool bias = flag_at(r->text, "attention_bias", false);
    s->qkv_bias = bias || s->family == SHAPE_QWEN2;
    s->o_bias = bias;
    if (bias && s->family != SHAPE_LLAMA && s->family != SHAPE_QWEN2)
        return error_set(r->err, ERR_UNSUPPORTED, "%s: attention_bias: true is written for llama and qwen2 only",
                         r->path);
    if (flag_at(r->text, "use_sliding_window", false))
        return error_set(r->err, ERR_UNSUPPORTED, "%s: use_sliding_window: true is not supported", r->path);
    s->tied = flag_at(r->top, "tie_word_embeddings", flag_at(r->text, "tie_word_embeddings", gemma));
    return OK;
}

/* layer_types, where it is given, must repeat: `interval` - 1 others and then one full_attention. */
static status read_rhythm(const reader *r, const char *const *keys, uint32_t fallback, model_shape *s)
{
    s->interval = fallback;
    for (; *keys; keys++) {
        status st = read_u32(r, *keys, s->interval, 1, SHAPE_LAYERS_MAX, &s->interval);
        if (st)
            return st;
    }
    const json_t *types = json_object_get(r->text, "layer_types");
    if (!types || json_is_null(types))
        return OK;
    if (json_array_size(types) != s->layers)
        return wrong(r, "layer_types", "one entry for each layer");
    uint32_t first = 0;
    while (first < s->layers) {
        const char *type = json_string_value(json_array_get(types, first));
        if (type && !strcmp(type, "full_attention"))
            break;
        first++;
    }
    s->interval = first + 1; /* no full layer at all: one more than there are layers */
    for (uint32_t i = 0; i < s->layers; i++) {
        const char *type = json_string_value(json_array_get(types, i));
        if (!type || (strcmp(type, "full_attention") == 0) != ((i + 1) % s->interval == 0))
            return wrong(r, "layer_types", "every n-th layer to be \"full_attention\"");
    }
    return OK;
}

static status read_linear(const reader *r, model_shape *s)
{
    static const char *const KEYS[] = {"full_attention_interval", NULL};
    status st;
    if ((st = read_u32(r, "linear_num_key_heads", -1, 1, SHAPE_HEADS_MAX, &s->key_heads)) ||
        (st = read_u32(r, "linear_num_value_heads", -1, 1, SHAPE_HEADS_MAX, &s->value_heads)) ||
        (st = read_u32(r, "linear_key_head_dim", -1, 1, SHAPE_HEAD_DIM_MAX, &s->key_dim)) ||
        (st = read_u32(r, "linear_value_head_dim", -1, 1, SHAPE_HEAD_DIM_MAX, &s->value_dim)) ||
        (st = read_u32(r, "linear_conv_kernel_dim", 4, 2, 64, &s->conv)) || (st = read_rhythm(r, KEYS, 4, s)))
        return st;
    if (s->value_heads % s->key_heads)
        return error_set(r->err, ERR_INVALID,
                         "%s: linear_num_value_heads: %u, expected a multiple of linear_num_key_heads, %u", r->path,
                         s->value_heads, s->key_heads);
    return OK;
}

static status read_experts(const reader *r, model_shape *s)
{
    status st;
    uint32_t step = 1;
    if ((st = read_u32(r, "num_experts", -1, 1, SHAPE_EXPERTS_MAX, &s->experts)) ||
        (st = read_u32(r, "num_experts_per_tok", -1, 1, s->experts, &s->experts_used)) ||
        (st = read_u32(r, "moe_intermediate_size", -1, 1, SHAPE_WIDTH_MAX, &s->expert_ffn)) ||
        (st = read_u32(r, "decoder_sparse_step", 1, 1, SHAPE_LAYERS_MAX, &step)))
        return st;
    bool shared = s->family == SHAPE_QWEN3_NEXT || s->family == SHAPE_QWEN3_5_MOE;
    if (shared && (st = read_u32(r, "shared_expert_intermediate_size", -1, 1, SHAPE_WIDTH_MAX, &s->shared_ffn)))
        return st;
    s->renormalise =
        s->family == SHAPE_QWEN3_5_MOE || flag_at(r->text, "norm_topk_prob", s->family == SHAPE_QWEN3_NEXT);
    const json_t *dense = json_object_get(r->text, "mlp_only_layers"), *entry;
    size_t i;
    bool any = step > 1;
    for (uint32_t layer = 0; layer < s->layers; layer++)
        s->dense_layer[layer] = (layer + 1) % step != 0;
    json_array_foreach(dense, i, entry)
    {
        json_int_t layer = json_is_integer(entry) ? json_integer_value(entry) : -1;
        if (layer < 0 || layer >= (json_int_t)s->layers)
            return wrong(r, "mlp_only_layers", "numbers of layers");
        s->dense_layer[layer] = any = true;
    }
    s->ffn = 0;
    return any ? read_u32(r, "intermediate_size", -1, 1, SHAPE_WIDTH_MAX, &s->ffn) : OK;
}

static status read_gemma(const reader *r, model_shape *s)
{
    static const char *const KEYS[] = {"sliding_window_pattern", "_sliding_window_pattern", NULL};
    s->query_scalar = 256;
    status st;
    if ((st = read_u32(r, "sliding_window", 4096, 1, 1u << 30, &s->window)) || (st = read_rhythm(r, KEYS, 6, s)) ||
        (st = read_positive(r, r->text, "query_pre_attn_scalar", 1e9, &s->query_scalar)) ||
        (st = read_positive(r, r->text, "final_logit_softcapping", 1e9, &s->final_softcap)) ||
        (st = read_positive(r, r->text, "attn_logit_softcapping", 1e9, &s->attention_softcap)))
        return st;
    return OK;
}

static status read_scaling(const reader *r, const json_t *rope, shape_rope *out)
{
    const char *type = json_string_value(json_object_get(rope, "rope_type"));
    if (!type)
        type = json_string_value(json_object_get(rope, "type"));
    if (!type || !strcmp(type, "default") || !strcmp(type, "mrope"))
        return OK;
    static const char *const NAMES[] = {[ROPE_LINEAR] = "linear", [ROPE_LLAMA3] = "llama3", [ROPE_YARN] = "yarn"};
    for (out->kind = ROPE_LINEAR; out->kind <= ROPE_YARN && strcmp(type, NAMES[out->kind]) != 0;)
        out->kind++;
    if (out->kind > ROPE_YARN)
        return error_set(r->err, ERR_UNSUPPORTED,
                         "%s: rope_scaling: type \"%.32s\", expected default, linear, llama3 or yarn", r->path, type);
    double original = 0;
    status st;
    if ((st = read_positive(r, rope, "factor", 1e6, &out->factor)) ||
        (st = read_positive(r, rope, "low_freq_factor", 1e6, &out->low)) ||
        (st = read_positive(r, rope, "high_freq_factor", 1e6, &out->high)) ||
        (st = read_positive(r, rope, "beta_fast", 1e6, &out->beta_fast)) ||
        (st = read_positive(r, rope, "beta_slow", 1e6, &out->beta_slow)) ||
        (st = read_positive(r, rope, "attention_factor", 1e3, &out->attention_factor)) ||
        (st = read_positive(r, rope, "original_max_position_embeddings", 1e9, &original)))
        return st;
    out->original = (uint32_t)original;
    if (!(out->factor > 0))
        return wrong(r, "rope_scaling.factor", "a number above 0");
    if (out->kind == ROPE_LLAMA3 && !(out->original && out->low > 0 && out->high > out->low))
        return wrong(r, "rope_scaling", "original_max_position_embeddings and low_freq_factor below high_freq_factor");
    return OK;
}

static status read_sections(const reader *r, const json_t *rope, uint32_t rotary, shape_rope *out)
{
    const json_t *sections = json_object_get(rope, "mrope_section");
    if (!sections || json_is_null(sections))
        return OK;
    uint32_t sum = 0;
    for (size_t i = 0; i < 3; i++) {
        const json_t *value = json_array_get(sections, i);
        json_int_t number = json_is_integer(value) ? json_integer_value(value) : -1;
        if (number < 0 || number > SHAPE_HEAD_DIM_MAX)
            return wrong(r, "mrope_section", "three counts of frequencies");
        out->sections[i] = (uint32_t)number;
        sum += out->sections[i];
    }
    return sum == rotary / 2 ? OK
                             : error_set(r->err, ERR_INVALID,
                                         "%s: mrope_section: sum %u, expected %u, half of the "
                                         "channels that turn",
                                         r->path, sum, rotary / 2);
}

/* rope_parameters (new) or keys of the config itself and rope_scaling (old). */
static status read_rope(const reader *r, model_shape *s)
{
    bool gemma = s->family == SHAPE_GEMMA3;
    const json_t *rope = json_object_get(r->text, "rope_parameters");
    const json_t *full = json_object_get(rope, "full_attention"), *local = json_object_get(rope, "sliding_attention");
    const json_t *scaling = json_object_get(r->text, "rope_scaling");
    if (json_is_object(full))
        rope = full;
    shape_rope *out = &s->rope;
    *out = (shape_rope){.theta = gemma ? 1e6 : 1e4, .local_theta = 1e4, .partial = s->value_heads ? 0.25 : 1};
    status st;
    if ((st = read_positive(r, r->text, "rope_theta", 1e12, &out->theta)) ||
        (st = read_positive(r, rope, "rope_theta", 1e12, &out->theta)) ||
        (st = read_positive(r, r->text, "rope_local_base_freq", 1e12, &out->local_theta)) ||
        (st = read_positive(r, local, "rope_theta", 1e12, &out->local_theta)) ||
        (st = read_positive(r, r->text, "partial_rotary_factor", 1, &out->partial)) ||
        (st = read_positive(r, rope, "partial_rotary_factor", 1, &out->partial)))
        return st;
    double rotary = s->head_dim * out->partial;
    if (rotary < 2 || fmod(rotary, 2) != 0)
        return error_set(r->err, ERR_INVALID,
                         "%s: partial_rotary_factor: %g channels of each head of %u would turn, "
                         "expected an even number",
                         r->path, rotary, s->head_dim);
    if (!s->value_heads && out->partial != 1)
        return wrong(r, "partial_rotary_factor", "1 for this family");
    bool hybrid = s->family == SHAPE_QWEN3_5 || s->family == SHAPE_QWEN3_5_MOE;
    if (hybrid) { /* what the family has that does not say: near equal shares, time first */
        uint32_t half = (uint32_t)rotary / 2, third = half / 3;
        out->sections[0] = half - 2 * third - (half % 3 == 2);
        out->sections[1] = third + (half % 3 == 2);
        out->sections[2] = third;
    }
    if ((st = read_scaling(r, json_is_object(scaling) ? scaling : rope, out)))
        return st;
    return hybrid ? read_sections(r, rope, (uint32_t)rotary, out) : OK;
}

status shape_read(model_shape *out, const json_t *config, const char *path, error *err)
{
    *out = (model_shape){.interval = 1};
    reader r = {.top = config, .text = config, .path = path, .err = err};
    if (!json_is_object(config))
        return error_set(err, ERR_INVALID, "%s: expected a JSON object", path);
    status st;
    if ((st = find_family(&r, out)) || (st = read_attention(&r, out)))
        return st;
    bool linear = out->family >= SHAPE_QWEN3_NEXT;
    bool experts =
        out->family == SHAPE_QWEN3_MOE || out->family == SHAPE_QWEN3_NEXT || out->family == SHAPE_QWEN3_5_MOE;
    if (!experts && (st = read_u32(&r, "intermediate_size", -1, 1, SHAPE_WIDTH_MAX, &out->ffn)))
        return st;
    if (out->family == SHAPE_GEMMA3 && (st = read_gemma(&r, out)))
        return st;
    if (linear && (st = read_linear(&r, out)))
        return st;
    if (experts && (st = read_experts(&r, out)))
        return st;
    return read_rope(&r, out);
}
