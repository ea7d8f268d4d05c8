/* plan/model_config.c: a config.json's keys as a shape. What a family always has (a norm of q and k, biases, experts
 * that share) is in the table; what differs within it is read. Names of keys: models on the hub,
 * docs/models-catalogue.md.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "plan/model_config.h"

enum {
    CONFIG_BYTES_MAX = 16 << 20,
    COUNT_MAX = 1 << 30, /* model_shape_check knows better; this keeps sums of a few in 32 bits */
    LAYERS_MAX = 1024,
    SHARED_MAX = 64,
};
enum { NEEDED = CONFIG_NEEDED };

enum { /* what a family is made of */
       QKV_BIAS = 1,
       QK_NORM = 2,
       WHOLE_NORM = 4, /* q and k are normed over all heads at once */
       TIED = 8,       /* unless the file says otherwise */
       FOUR_NORMS = 16,
       HYBRID = 32, /* linear attention with a gated full layer every few */
       GATED = HYBRID,
       LATENT = 64, /* multi-head latent attention */
       GEMMA = 128,
       GPT_OSS = 256,
       LLAMA4 = 512,
       ONE_WINDOW = 1024,  /* sliding_window, where given, holds for all layers */
       TWO_WINDOWS = 2048, /* every other layer has one */
       NO_ROUTER_BIAS = 4096,
       ROUTER_BIAS = 8192,
};

typedef enum { NO_EXPERTS, QWEN_EXPERTS, SHARED_QWEN_EXPERTS, LOCAL_EXPERTS, ROUTED_EXPERTS } expert_keys;

static const struct family {
    const char *model_type;
    unsigned traits;
    expert_keys experts;
} FAMILIES[] = {
    {"llama", 0, NO_EXPERTS},
    {"mistral", ONE_WINDOW, NO_EXPERTS},
    {"mixtral", ONE_WINDOW, LOCAL_EXPERTS},
    {"qwen2", QKV_BIAS, NO_EXPERTS},
    {"qwen2_moe", QKV_BIAS, SHARED_QWEN_EXPERTS},
    {"qwen3", QK_NORM, NO_EXPERTS},
    {"qwen3_moe", QK_NORM, QWEN_EXPERTS},
    {"qwen3_next", QK_NORM | HYBRID, SHARED_QWEN_EXPERTS},
    {"qwen3_5", QK_NORM | HYBRID, NO_EXPERTS},
    {"qwen3_5_moe", QK_NORM | HYBRID, SHARED_QWEN_EXPERTS},
    {"gemma2", TIED | FOUR_NORMS | GEMMA | TWO_WINDOWS, NO_EXPERTS},
    {"gemma3", QK_NORM | TIED | FOUR_NORMS | GEMMA, NO_EXPERTS},
    {"phi3", ONE_WINDOW, NO_EXPERTS},
    {"smollm3", TIED, NO_EXPERTS},
    {"granite", 0, NO_EXPERTS},
    {"olmo2", QK_NORM | WHOLE_NORM, NO_EXPERTS},
    {"olmo3", QK_NORM | WHOLE_NORM, NO_EXPERTS},
    {"gpt_oss", QKV_BIAS | GPT_OSS | TWO_WINDOWS, LOCAL_EXPERTS},
    {"minimax_m2", QK_NORM | WHOLE_NORM | ROUTER_BIAS, LOCAL_EXPERTS},
    {"llama4", LLAMA4, LOCAL_EXPERTS},
    {"deepseek_v2", LATENT | NO_ROUTER_BIAS, ROUTED_EXPERTS},
    {"deepseek_v3", LATENT, ROUTED_EXPERTS},
    {"kimi_k2", LATENT, ROUTED_EXPERTS},
    {"glm4_moe", 0, ROUTED_EXPERTS},
};
enum { FAMILY_COUNT = sizeof FAMILIES / sizeof *FAMILIES };

typedef struct {
    const json_t *top;
    config_part text; /* of `top` itself, unless the numbers are in text_config */
    const struct family *family;
    const char *name;
    error *err;
} reader;

static status wrong(const reader *r, const char *key, const char *expected)
{
    return config_wrong(&r->text, key, expected);
}

static const json_t *at(const reader *r, const char *key) /* NULL: absent, or null */
{
    return config_at(&r->text, key);
}

static status count_at(const reader *r, const char *key, int64_t fallback, uint32_t low, uint32_t *out)
{
    return config_count(&r->text, key, fallback, low, COUNT_MAX, out);
}

static status flag_at(const reader *r, const char *key, bool fallback, bool *out)
{
    return config_flag(&r->text, key, fallback, out);
}

/* Newer files call any family's experts num_local_experts. */
static status experts_at(const reader *r, const char *key, uint32_t *out)
{
    return count_at(r, at(r, key) ? key : at(r, "num_local_experts") ? "num_local_experts" : key, NEEDED, 1, out);
}

static bool has(const reader *r, unsigned trait)
{
    return (r->family->traits & trait) != 0;
}

/* --- the family --- */

static status unknown_family(const reader *r, const char *type)
{
    char list[300] = "";
    size_t used = 0;
    for (size_t i = 0; i < FAMILY_COUNT && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", FAMILIES[i].model_type);
    return error_set(r->err, ERR_UNSUPPORTED, "%s: model_type \"%.40s\" is not known (%s are)", r->name, type, list);
}

/* "gemma3_text" is of the family "gemma3". */
static bool names_family(const char *type, const char *family)
{
    size_t size = strlen(family);
    return strncmp(type, family, size) == 0 && (!type[size] || strcmp(type + size, "_text") == 0);
}

static status find_family(reader *r)
{
    const json_t *text = json_object_get(r->top, "text_config");
    const json_t *type = json_object_get(r->top, "model_type");
    r->text = (config_part){json_is_object(text) ? text : r->top, "", r->name, r->err};
    if (!json_is_string(type))
        return wrong(r, "model_type", "the name of a family, as \"qwen3\"");
    const json_t *inner = json_object_get(r->text.object, "model_type");
    const char *names[] = {json_string_value(type), json_string_value(inner)};
    for (size_t n = 0; n < 2; n++)
        for (size_t i = 0; names[n] && i < FAMILY_COUNT; i++)
            if (names_family(names[n], FAMILIES[i].model_type)) {
                r->family = &FAMILIES[i];
                return OK;
            }
    return unknown_family(r, names[0]);
}

/* --- layers --- */

typedef struct {
    uint32_t full, windowed, linear;
} layer_kinds;

static status count_kinds(const reader *r, const model_shape *s, layer_kinds *out)
{
    const json_t *types = at(r, "layer_types"), *entry;
    size_t i;
    if (!json_is_array(types) || json_array_size(types) != s->layers)
        return wrong(r, "layer_types", "one entry for each layer");
    json_array_foreach(types, i, entry)
    {
        const char *type = json_is_string(entry) ? json_string_value(entry) : "";
        if (strcmp(type, "full_attention") == 0)
            out->full++;
        else if (strcmp(type, "sliding_attention") == 0 || strcmp(type, "chunked_attention") == 0)
            out->windowed++;
        else if (strcmp(type, "linear_attention") == 0)
            out->linear++;
        else
            return wrong(r, "layer_types",
                         "full_attention, sliding_attention, chunked_attention or linear_attention in each entry");
    }
    return OK;
}

/* What the family does where the file lists no layers: every n-th layer is full. */
static status kinds_by_rhythm(const reader *r, const model_shape *s, layer_kinds *out)
{
    uint32_t n = 1, window = 0, old = 0;
    status st = OK;
    if (has(r, HYBRID))
        st = count_at(r, "full_attention_interval", 4, 1, &n);
    else if (has(r, TWO_WINDOWS))
        n = 2;
    else if (has(r, GEMMA)) {
        st = count_at(r, "_sliding_window_pattern", 6, 1, &old);
        st = st ? st : count_at(r, "sliding_window_pattern", old, 1, &n);
    } else if (has(r, LLAMA4))
        n = 4;
    else if (has(r, ONE_WINDOW) && !(st = count_at(r, "sliding_window", 0, 0, &window)) && window)
        n = s->layers + 1;
    out->full = s->layers / n;
    *(has(r, HYBRID) ? &out->linear : &out->windowed) = s->layers - out->full;
    return st;
}

static status read_layers(const reader *r, model_shape *s)
{
    layer_kinds kinds = {0};
    status st;
    if ((st = count_at(r, "num_hidden_layers", NEEDED, 1, &s->layers)))
        return st;
    if (s->layers > LAYERS_MAX)
        return error_set(r->err, ERR_INVALID, "%s: num_hidden_layers: %" PRIu32 ", expected 1 to %d", r->name,
                         s->layers, LAYERS_MAX);
    if ((st = at(r, "layer_types") ? count_kinds(r, s, &kinds) : kinds_by_rhythm(r, s, &kinds)))
        return st;
    if (kinds.linear && !has(r, HYBRID))
        return wrong(r, "layer_types", "no linear_attention in this family");
    s->attention_layers = kinds.full + kinds.windowed;
    s->window_layers = kinds.windowed;
    s->linear_layers = kinds.linear;
    const char *window = has(r, LLAMA4) ? "attention_chunk_size" : "sliding_window";
    return kinds.windowed ? count_at(r, window, has(r, GEMMA) ? 4096 : NEEDED, 1, &s->window) : OK;
}

/* --- attention --- */

static status read_latent(const reader *r, model_shape *s)
{
    status st;
    if ((st = count_at(r, "q_lora_rank", 0, 0, &s->q_lora)) ||
        (st = count_at(r, "kv_lora_rank", NEEDED, 1, &s->kv_lora)))
        return st;
    if ((st = count_at(r, "qk_nope_head_dim", NEEDED, 1, &s->head_dim)) ||
        (st = count_at(r, "qk_rope_head_dim", NEEDED, 1, &s->rope_dim)))
        return st;
    return count_at(r, "v_head_dim", NEEDED, 1, &s->value_dim);
}

static status read_attention(const reader *r, model_shape *s)
{
    bool gemma = has(r, GEMMA), bias = false;
    status st;
    if ((st = count_at(r, "num_attention_heads", gemma ? 8 : NEEDED, 1, &s->heads)) ||
        (st = count_at(r, "num_key_value_heads", gemma ? 4 : s->heads, 1, &s->kv_heads)))
        return st;
    if (s->heads % s->kv_heads)
        return error_set(r->err, ERR_INVALID,
                         "%s: num_key_value_heads: %" PRIu32 ", expected a divisor of num_attention_heads, %" PRIu32,
                         r->name, s->kv_heads, s->heads);
    if (has(r, LATENT))
        return read_latent(r, s);
    if (!at(r, "head_dim") && !gemma && s->hidden % s->heads)
        return error_set(r->err, ERR_INVALID,
                         "%s: num_attention_heads: %" PRIu32 ", expected a divisor of hidden_size, %" PRIu32
                         " (there is no head_dim)",
                         r->name, s->heads, s->hidden);
    if ((st = count_at(r, "head_dim", gemma ? 256 : s->hidden / s->heads, 1, &s->head_dim)) ||
        (st = flag_at(r, "attention_bias", has(r, QKV_BIAS), &bias)))
        return st;
    s->biases = bias || has(r, QKV_BIAS);
    bool qwen2 = has(r, QKV_BIAS) && !has(r, GPT_OSS);
    s->output_bias = bias && !qwen2 && r->family->experts != ROUTED_EXPERTS;
    s->qk_norm = has(r, QK_NORM);
    s->qk_norm_whole = has(r, WHOLE_NORM);
    s->gated_attention = has(r, GATED);
    s->sinks = has(r, GPT_OSS);
    return r->family->experts == ROUTED_EXPERTS ? flag_at(r, "use_qk_norm", false, &s->qk_norm) : OK;
}

static status read_linear(const reader *r, model_shape *s)
{
    status st;
    if ((st = count_at(r, "linear_num_key_heads", NEEDED, 1, &s->linear_key_heads)) ||
        (st = count_at(r, "linear_num_value_heads", NEEDED, 1, &s->linear_value_heads)) ||
        (st = count_at(r, "linear_key_head_dim", NEEDED, 1, &s->linear_key_dim)) ||
        (st = count_at(r, "linear_value_head_dim", NEEDED, 1, &s->linear_value_dim)) ||
        (st = count_at(r, "linear_conv_kernel_dim", 4, 1, &s->conv_width)))
        return st;
    if (s->linear_value_heads % s->linear_key_heads)
        return error_set(r->err, ERR_INVALID,
                         "%s: linear_num_value_heads: %" PRIu32
                         ", expected a multiple of linear_num_key_heads, %" PRIu32,
                         r->name, s->linear_value_heads, s->linear_key_heads);
    return OK;
}

/* --- feed forward and experts --- */

static status read_qwen_experts(const reader *r, model_shape *s)
{
    const json_t *only = at(r, "mlp_only_layers"), *entry;
    bool dense[LAYERS_MAX] = {false};
    uint32_t step = 1;
    size_t i;
    status st;
    if ((st = experts_at(r, "num_experts", &s->experts)) ||
        (st = count_at(r, "moe_intermediate_size", NEEDED, 1, &s->expert_feed_forward)) ||
        (st = count_at(r, "decoder_sparse_step", 1, 1, &step)))
        return st;
    if (only && !json_is_array(only))
        return wrong(r, "mlp_only_layers", "a list of layers");
    for (uint32_t layer = 0; layer < s->layers; layer++)
        dense[layer] = (layer + 1) % step != 0;
    json_array_foreach(only, i, entry)
    {
        json_int_t layer = json_is_integer(entry) ? json_integer_value(entry) : -1;
        if (layer < 0 || layer >= (json_int_t)s->layers)
            return wrong(r, "mlp_only_layers", "numbers of layers");
        dense[layer] = true;
    }
    for (uint32_t layer = 0; layer < s->layers; layer++)
        s->dense_layers += dense[layer];
    if (r->family->experts == QWEN_EXPERTS)
        return OK;
    s->shared_gate = true;
    return count_at(r, "shared_expert_intermediate_size", NEEDED, 1, &s->shared_feed_forward);
}

/* DeepSeek's and GLM's: the first layers are dense, some experts are always used. */
static status read_routed_experts(const reader *r, model_shape *s)
{
    uint32_t shared = 0;
    status st;
    if ((st = experts_at(r, "n_routed_experts", &s->experts)) ||
        (st = count_at(r, "moe_intermediate_size", NEEDED, 1, &s->expert_feed_forward)) ||
        (st = count_at(r, "n_shared_experts", 0, 0, &shared)) ||
        (st = count_at(r, "first_k_dense_replace", 0, 0, &s->dense_layers)))
        return st;
    if (s->dense_layers > s->layers)
        return error_set(r->err, ERR_INVALID,
                         "%s: first_k_dense_replace: %" PRIu32 ", expected at most %" PRIu32 " layers", r->name,
                         s->dense_layers, s->layers);
    if (shared > SHARED_MAX || s->expert_feed_forward > COUNT_MAX / SHARED_MAX)
        return wrong(r, "n_shared_experts", "at most 64, of a feed forward that there can be");
    s->shared_feed_forward = shared * s->expert_feed_forward;
    s->router_bias = !has(r, NO_ROUTER_BIAS);
    return OK;
}

/* Mixtral's, gpt-oss's and Llama 4's. */
static status read_local_experts(const reader *r, model_shape *s)
{
    uint32_t step = 1;
    status st;
    if ((st = experts_at(r, "num_local_experts", &s->experts)) ||
        (st = count_at(r, "intermediate_size", NEEDED, 1, &s->expert_feed_forward)))
        return st;
    s->feed_forward_biases = has(r, GPT_OSS);
    s->router_bias = has(r, GPT_OSS) || has(r, ROUTER_BIAS);
    if (!has(r, LLAMA4))
        return OK;
    s->shared_feed_forward = s->expert_feed_forward;
    if ((st = count_at(r, "interleave_moe_layer_step", 1, 1, &step)))
        return st;
    s->dense_layers = s->layers - s->layers / step;
    return OK;
}

/* Newer files list the layers that are dense; the list counts more than the keys above. */
static status read_listed(const reader *r, model_shape *s)
{
    const json_t *types = at(r, "mlp_layer_types"), *entry;
    size_t i;
    if (!types || !s->experts)
        return OK;
    if (!json_is_array(types) || json_array_size(types) != s->layers)
        return wrong(r, "mlp_layer_types", "one entry for each layer");
    s->dense_layers = 0;
    json_array_foreach(types, i, entry)
    {
        const char *type = json_is_string(entry) ? json_string_value(entry) : "";
        if (strcmp(type, "dense") != 0 && strcmp(type, "sparse") != 0)
            return wrong(r, "mlp_layer_types", "dense or sparse in each entry");
        s->dense_layers += type[0] == 'd';
    }
    return OK;
}

static status read_feed_forward(const reader *r, model_shape *s)
{
    status st = OK;
    switch (r->family->experts) {
    case NO_EXPERTS:
        s->dense_layers = s->layers;
        st = flag_at(r, "mlp_bias", false, &s->feed_forward_biases);
        break;
    case QWEN_EXPERTS:
    case SHARED_QWEN_EXPERTS:
        st = read_qwen_experts(r, s);
        break;
    case LOCAL_EXPERTS:
        st = read_local_experts(r, s);
        break;
    case ROUTED_EXPERTS:
        st = read_routed_experts(r, s);
        break;
    }
    if (st || (st = read_listed(r, s)) ||
        (s->experts && (st = count_at(r, "num_experts_per_tok", NEEDED, 1, &s->experts_used))))
        return st;
    if (s->experts_used > s->experts)
        return error_set(r->err, ERR_INVALID,
                         "%s: num_experts_per_tok: %" PRIu32 ", expected at most the %" PRIu32 " experts", r->name,
                         s->experts_used, s->experts);
    const char *key = has(r, LLAMA4) ? "intermediate_size_mlp" : "intermediate_size";
    return s->dense_layers ? count_at(r, key, NEEDED, 1, &s->feed_forward) : OK;
}

/* --- all of it --- */

static status read_sizes(const reader *r, model_shape *s)
{
    bool gemma = has(r, GEMMA);
    status st;
    if ((st = count_at(r, "hidden_size", NEEDED, 1, &s->hidden)) ||
        (st = count_at(r, "vocab_size", gemma && !has(r, TWO_WINDOWS) ? 262208 : NEEDED, 1, &s->vocab)) ||
        (st = count_at(r, "max_position_embeddings", gemma ? 131072 : 2048, 1, &s->context)))
        return st;
    const config_part top = {r->top, "", r->name, r->err};
    s->layer_norms = has(r, FOUR_NORMS) ? 4 : 0;
    if ((st = flag_at(r, "tie_word_embeddings", has(r, TIED), &s->tied)))
        return st;
    return config_flag(&top, "tie_word_embeddings", s->tied, &s->tied); /* goes before that of text_config */
}

/* The name of the model, as far as the file has one: of its folder on the hub. */
static void read_name(const reader *r, model_shape *s)
{
    const char *path = json_string_value(json_object_get(r->top, "_name_or_path"));
    const char *slash = path ? strrchr(path, '/') : NULL;
    const char *name = slash ? slash + 1 : path;
    if (!name || !*name)
        name = r->family->model_type;
    size_t size = 0;
    for (; name[size] && size < sizeof s->name - 1; size++) {
        char c = name[size];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_';
        s->name[size] = s->title[size] = plain ? c : '-';
    }
}

/* A vision tower and draft layers: they take memory, no step of text reads them. */
static status read_other(const reader *r, model_shape *s)
{
    const config_part vision = {json_object_get(r->top, "vision_config"), "vision_config.", r->name, r->err};
    uint32_t drafts = 0, copies = r->family->experts == ROUTED_EXPERTS ? 2 : 0;
    uint64_t tower = 0;
    status st = OK;
    if (json_is_object(vision.object) && has(r, GEMMA))
        st = config_gemma_tower(&vision, s->hidden, &tower);
    else if (json_is_object(vision.object) && has(r, LLAMA4))
        st = config_llama_tower(&vision, s->hidden, &tower);
    else if (json_is_object(vision.object) && has(r, HYBRID))
        st = config_qwen_tower(&vision, &tower);
    const char *key = copies ? "num_nextn_predict_layers" : "mtp_num_hidden_layers";
    if (st || (st = config_count(&r->text, key, 0, 0, CONFIG_DRAFTS_MAX, &drafts)))
        return st;
    s->other_parameters = tower + (drafts ? drafts * config_draft_layer(s, copies) : 0);
    return OK;
}

static status read_shape(const reader *r, model_shape *s)
{
    status st;
    read_name(r, s);
    if ((st = read_sizes(r, s)) || (st = read_layers(r, s)) || (st = read_attention(r, s)) ||
        (s->linear_layers && (st = read_linear(r, s))) || (st = read_feed_forward(r, s)))
        return st;
    if ((st = model_shape_check(s, r->err)))
        return error_prefix(r->err, st, "%s", r->name);
    if ((st = read_other(r, s)))
        return st;
    st = model_shape_check(s, r->err); /* the tower too */
    return st ? error_prefix(r->err, st, "%s", r->name) : OK;
}

status model_shape_read_type(model_shape *out, char type[16], span text, const char *name, error *err)
{
    json_error_t why;
    reader r = {.name = name, .err = err, .text = {NULL, "", name, err}};
    *out = (model_shape){0};
    type[0] = 0;
    if (text.size > CONFIG_BYTES_MAX)
        return error_set(err, ERR_LIMIT, "%s: %zu bytes, expected a config.json of at most %d", name, text.size,
                         CONFIG_BYTES_MAX);
    json_t *root = json_loadb(text.data ? text.data : "", text.size, JSON_REJECT_DUPLICATES, &why);
    if (!root)
        return error_set(err, ERR_INVALID, "%s: line %d: %s", name, why.line, why.text);
    r.top = root;
    status st =
        json_is_object(root) ? find_family(&r) : error_set(err, ERR_INVALID, "%s: expected a JSON object", name);
    if (st == OK)
        st = read_shape(&r, out);
    if (st == OK)
        config_weight_type(root, r.text.object, type);
    json_decref(root);
    return st;
}

status model_shape_read(model_shape *out, span text, const char *name, error *err)
{
    char type[16];
    return model_shape_read_type(out, type, text, name, err);
}
