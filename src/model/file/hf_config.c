/* model/file/hf_config.c: config.json, generation_config.json, tokenizer_config.json and chat_template.jinja as GGUF's
 * keys (models.md A.1, B.1, C; 1.1 for rope). A number that is not there takes the family's default or is refused by
 * its name in config.json. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "model/file/hf.h"
#include "tensor/quant.h"

enum { KEY_BYTES = 96, TEMPLATE_BYTES_MAX = 4 << 20, EOS_MAX = 64, LAYERS_MAX = 1024 };

/* --- GGUF's encoding --- */

static void put_key(hf_dir *dir, const char *key, uint32_t type)
{
    uint64_t size = strlen(key);
    buf_append(&dir->metadata, &size, sizeof size);
    buf_append(&dir->metadata, key, size);
    buf_append(&dir->metadata, &type, sizeof type);
    dir->key_count++;
}

void hf_key_u64(hf_dir *dir, const char *key, uint64_t value)
{
    put_key(dir, key, MV_U64);
    buf_append(&dir->metadata, &value, sizeof value);
}

void hf_key_f64(hf_dir *dir, const char *key, double value)
{
    put_key(dir, key, MV_F64);
    buf_append(&dir->metadata, &value, sizeof value);
}

void hf_key_bool(hf_dir *dir, const char *key, bool value)
{
    put_key(dir, key, MV_BOOL);
    buf_byte(&dir->metadata, (char)value);
}

void hf_key_text(hf_dir *dir, const char *key, span value)
{
    uint64_t size = value.size;
    put_key(dir, key, MV_STRING);
    buf_append(&dir->metadata, &size, sizeof size);
    buf_append(&dir->metadata, value.data, value.size);
}

void hf_key_u64s(hf_dir *dir, const char *key, const uint64_t *values, size_t count)
{
    uint32_t element = MV_U64;
    uint64_t size = count;
    put_key(dir, key, MV_ARRAY);
    buf_append(&dir->metadata, &element, sizeof element);
    buf_append(&dir->metadata, &size, sizeof size);
    buf_append(&dir->metadata, values, count * sizeof *values);
}

static const char *arch_key(const hf_dir *dir, const char *name, char key[KEY_BYTES])
{
    snprintf(key, KEY_BYTES, "%s.%s", dir->arch, name);
    return key;
}

static void arch_u64(hf_dir *dir, const char *name, uint64_t value)
{
    char key[KEY_BYTES];
    hf_key_u64(dir, arch_key(dir, name, key), value);
}

static void arch_f64(hf_dir *dir, const char *name, double value)
{
    char key[KEY_BYTES];
    hf_key_f64(dir, arch_key(dir, name, key), value);
}

/* --- reading --- */

static status wrong(const hf_dir *dir, const char *key, const char *expected, error *err)
{
    return error_set(err, ERR_INVALID, "%s: %s: expected %s", dir->config_path, key, expected);
}

/* `fallback` where the key is absent or null; NEEDED: refused then. */
static const int64_t NEEDED = -1;

static status read_u64(const hf_dir *dir, const char *key, int64_t fallback, uint64_t max, uint64_t *out, error *err)
{
    const json_t *value = json_object_get(dir->text, key);
    bool absent = !value || json_is_null(value);
    if (absent && fallback == NEEDED)
        return error_set(err, ERR_INVALID, "%s: %s: is missing", dir->config_path, key);
    if (!absent && !json_is_integer(value))
        return wrong(dir, key, "an integer", err);
    json_int_t number = absent ? fallback : json_integer_value(value);
    if (number < 0 || (uint64_t)number > max)
        return error_set(err, ERR_INVALID, "%s: %s: %" JSON_INTEGER_FORMAT ", expected 0 to %" PRIu64, dir->config_path,
                         key, number, max);
    *out = (uint64_t)number;
    return OK;
}

/* False and `out` untouched: absent, null, or no number. */
static bool number_at(const json_t *object, const char *key, double *out)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value) || !isfinite(json_number_value(value)))
        return false;
    *out = json_number_value(value);
    return true;
}

static const struct {
    const char *model_type, *arch;
    hf_family family;
} FAMILIES[] = {
    {"llama", "llama", HF_LLAMA},
    {"qwen2", "qwen2", HF_QWEN2},
    {"qwen3", "qwen3", HF_QWEN3},
    {"qwen3_moe", "qwen3moe", HF_QWEN3MOE},
    {"qwen3_next", "qwen3next", HF_QWEN3NEXT},
    {"qwen3_5", "qwen35", HF_QWEN35},
    {"qwen3_5_text", "qwen35", HF_QWEN35},
    {"qwen3_5_moe", "qwen35moe", HF_QWEN35MOE},
    {"qwen3_5_moe_text", "qwen35moe", HF_QWEN35MOE},
    {"gemma3", "gemma3", HF_GEMMA3},
    {"gemma3_text", "gemma3", HF_GEMMA3},
};

static status read_family(hf_dir *dir, error *err)
{
    const json_t *text = json_object_get(dir->config, "text_config");
    dir->text = json_is_object(text) ? text : dir->config;
    const char *type = json_string_value(json_object_get(dir->config, "model_type"));
    if (!type)
        return wrong(dir, "model_type", "the name of a family", err);
    for (size_t i = 0; i < sizeof FAMILIES / sizeof *FAMILIES; i++) {
        if (strcmp(type, FAMILIES[i].model_type) == 0) {
            dir->arch = FAMILIES[i].arch;
            dir->family = FAMILIES[i].family;
            return OK;
        }
    }
    return error_set(err, ERR_UNSUPPORTED,
                     "%s: model_type \"%.64s\" is not supported (llama, qwen2, qwen3, qwen3_moe, qwen3_next, qwen3_5, "
                     "qwen3_5_moe, gemma3 are)",
                     dir->config_path, type);
}

static status read_quantization(hf_dir *dir, error *err)
{
    static const char *const HOLDERS[] = {"quantization", "quantization_config"};
    for (size_t i = 0; i < 2 && !dir->quantization; i++) {
        const json_t *q = json_object_get(dir->config, HOLDERS[i]);
        dir->quantization = json_is_object(q) ? q : NULL;
    }
    if (!dir->quantization)
        return OK;
    const char *method = json_string_value(json_object_get(dir->quantization, "quant_method"));
    if (!method) {
        dir->mlx = true;
        return OK;
    }
    if (strcmp(method, "fp8") == 0)
        return OK;
    return error_set(err, ERR_UNSUPPORTED, "%s: quantization_config.quant_method \"%.32s\", expected fp8 or MLX's",
                     dir->config_path, method);
}

/* --- rope --- */

static status llama3_factors(hf_dir *dir, const json_t *rope, error *err)
{
    double factor, low, high, original;
    if (!number_at(rope, "factor", &factor) || !number_at(rope, "low_freq_factor", &low) ||
        !number_at(rope, "high_freq_factor", &high) ||
        !number_at(rope, "original_max_position_embeddings", &original) || factor <= 0 || low <= 0 || high <= low ||
        original <= 0)
        return wrong(dir, "rope_scaling", "factor, low_freq_factor, high_freq_factor, original_max_position_embeddings",
                     err);
    size_t half = dir->rotary / 2;
    float *factors = hf_alloc(dir, half * sizeof *factors);
    dir->tensors = malloc(sizeof *dir->tensors);
    if (!factors || !dir->tensors)
        return error_set(err, ERR_MEMORY, "%s: out of memory", dir->path);
    for (size_t i = 0; i < half; i++) {
        double turns = original / (2 * M_PI / pow(dir->rope_base, -2.0 * (double)i / (double)dir->rotary));
        double smooth = (turns - low) / (high - low);
        factors[i] = (float)(turns > high ? 1 : turns < low ? factor : 1 / ((1 - smooth) / factor + smooth));
    }
    dir->tensor_capacity = dir->tensor_count = 1;
    dir->tensors[0] = (model_tensor){.name = span_from("rope_freqs.weight"),
                                     .type = DT_F32,
                                     .dims = 1,
                                     .ne = {half, 1, 1, 1},
                                     .data = factors,
                                     .bytes = half * sizeof *factors};
    return OK;
}

static status read_scaling(hf_dir *dir, const json_t *rope, error *err)
{
    char key[KEY_BYTES];
    const char *type = json_string_value(json_object_get(rope, "rope_type"));
    double factor = 1, value;
    if (!type)
        type = json_string_value(json_object_get(rope, "type"));
    if (!type || strcmp(type, "default") == 0 || strcmp(type, "mrope") == 0)
        return OK;
    if (strcmp(type, "llama3") == 0)
        return llama3_factors(dir, rope, err);
    bool yarn = strcmp(type, "yarn") == 0;
    if (!yarn && strcmp(type, "linear") != 0)
        return error_set(err, ERR_UNSUPPORTED, "%s: rope type \"%.32s\", expected default, linear, llama3 or yarn",
                         dir->config_path, type);
    if (!number_at(rope, "factor", &factor) || factor <= 0)
        return wrong(dir, "rope_scaling.factor", "a number above 0", err);
    hf_key_text(dir, arch_key(dir, "rope.scaling.type", key), span_from(type));
    arch_f64(dir, "rope.scaling.factor", factor);
    if (!yarn)
        return OK;
    if (number_at(rope, "original_max_position_embeddings", &value) && value >= 1 && value <= 1e9)
        arch_u64(dir, "rope.scaling.original_context_length", (uint64_t)value);
    if (number_at(rope, "attention_factor", &value)) /* of the whole; the key multiplies the default */
        arch_f64(dir, "rope.scaling.attn_factor", value / (0.1 * log(factor) + 1));
    if (number_at(rope, "beta_fast", &value))
        arch_f64(dir, "rope.scaling.yarn_beta_fast", value);
    if (number_at(rope, "beta_slow", &value))
        arch_f64(dir, "rope.scaling.yarn_beta_slow", value);
    return OK;
}

static void read_sections(hf_dir *dir, const json_t *rope)
{
    char key[KEY_BYTES];
    const json_t *sections = json_object_get(rope, "mrope_section");
    uint64_t values[4] = {0};
    size_t count = json_array_size(sections);
    if (count == 0 || count > 4)
        return;
    for (size_t i = 0; i < count; i++)
        values[i] = (uint64_t)json_integer_value(json_array_get(sections, i));
    hf_key_u64s(dir, arch_key(dir, "rope.dimension_sections", key), values, 4);
}

/* New configs have rope_parameters (gemma3: one per kind of layer), old ones rope_theta and rope_scaling. */
static status read_rope(hf_dir *dir, error *err)
{
    const json_t *rope = json_object_get(dir->text, "rope_parameters");
    const json_t *full = json_object_get(rope, "full_attention"), *local = json_object_get(rope, "sliding_attention");
    const json_t *scaling = json_object_get(dir->text, "rope_scaling");
    double partial = 1, base = dir->family == HF_GEMMA3 ? 1e6 : 10000, local_base = 10000;
    if (json_is_object(full))
        rope = full;
    number_at(dir->text, "partial_rotary_factor", &partial);
    number_at(rope, "partial_rotary_factor", &partial);
    number_at(dir->text, "rope_theta", &base);
    number_at(rope, "rope_theta", &base);
    number_at(dir->text, "rope_local_base_freq", &local_base);
    number_at(local, "rope_theta", &local_base);
    if (!(partial > 0 && partial <= 1) || !(base > 1))
        return wrong(dir, "rope_parameters", "rope_theta above 1, partial_rotary_factor up to 1", err);
    dir->rotary = (uint64_t)((double)dir->head_dim * partial) / 2 * 2;
    dir->rope_base = base;
    arch_u64(dir, "rope.dimension_count", dir->rotary);
    arch_f64(dir, "rope.freq_base", base);
    if (dir->family == HF_GEMMA3)
        arch_f64(dir, "rope.freq_base_swa", local_base);
    read_sections(dir, rope);
    return read_scaling(dir, json_is_object(scaling) ? scaling : rope, err);
}

/* --- layers of two kinds --- */

/* Every n-th layer is full: from layer_types, or as the key says; anything that is no such rhythm is refused. */
static status read_rhythm(hf_dir *dir, const char *const *keys, const char *gguf, int64_t fallback, error *err)
{
    const json_t *types = json_object_get(dir->text, "layer_types");
    uint64_t pattern = 0, count = json_array_size(types);
    for (; *keys && !pattern; keys++) {
        status code = read_u64(dir, *keys, 0, LAYERS_MAX, &pattern, err);
        if (code != OK)
            return code;
    }
    if (count) {
        if (count != dir->layers)
            return wrong(dir, "layer_types", "one entry for each layer", err);
        for (pattern = 1; pattern <= count; pattern++) {
            const char *type = json_string_value(json_array_get(types, pattern - 1));
            if (type && strcmp(type, "full_attention") == 0)
                break;
        }
        for (uint64_t i = 0; i < count; i++) {
            const char *type = json_string_value(json_array_get(types, i));
            if (!type || (strcmp(type, "full_attention") == 0) != ((i + 1) % pattern == 0))
                return error_set(err, ERR_UNSUPPORTED,
                                 "%s: layer_types: expected every n-th layer to be full_attention", dir->config_path);
        }
    }
    arch_u64(dir, gguf, pattern ? pattern : (uint64_t)fallback);
    return OK;
}

static status read_gemma(hf_dir *dir, error *err)
{
    static const char *const KEYS[] = {"sliding_window_pattern", "_sliding_window_pattern", NULL};
    uint64_t window;
    double scalar = 256, cap;
    status code = read_u64(dir, "sliding_window", 4096, 1u << 30, &window, err);
    if (code != OK)
        return code;
    arch_u64(dir, "attention.sliding_window", window);
    number_at(dir->text, "query_pre_attn_scalar", &scalar);
    if (!(scalar > 0))
        return wrong(dir, "query_pre_attn_scalar", "a number above 0", err);
    arch_f64(dir, "attention.scale", 1 / sqrt(scalar));
    if (number_at(dir->text, "final_logit_softcapping", &cap))
        arch_f64(dir, "final_logit_softcapping", cap);
    if (number_at(dir->text, "attn_logit_softcapping", &cap))
        arch_f64(dir, "attn_logit_softcapping", cap);
    return read_rhythm(dir, KEYS, "attention.sliding_window_pattern", 6, err);
}

static status read_linear(hf_dir *dir, error *err)
{
    static const char *const KEYS[] = {"full_attention_interval", NULL};
    uint64_t kernel;
    status code;
    if ((code = read_u64(dir, "linear_num_key_heads", NEEDED, 4096, &dir->key_heads, err)) ||
        (code = read_u64(dir, "linear_num_value_heads", NEEDED, 4096, &dir->value_heads, err)) ||
        (code = read_u64(dir, "linear_key_head_dim", NEEDED, 4096, &dir->key_dim, err)) ||
        (code = read_u64(dir, "linear_value_head_dim", NEEDED, 4096, &dir->value_dim, err)) ||
        (code = read_u64(dir, "linear_conv_kernel_dim", 4, 64, &kernel, err)) ||
        (code = read_rhythm(dir, KEYS, "full_attention_interval", 4, err)))
        return code;
    if (!dir->key_heads || !dir->value_heads || dir->value_heads % dir->key_heads || !dir->key_dim || !dir->value_dim)
        return wrong(dir, "linear_num_value_heads", "a multiple of linear_num_key_heads, and head sizes above 0", err);
    arch_u64(dir, "ssm.conv_kernel", kernel);
    arch_u64(dir, "ssm.state_size", dir->key_dim);
    arch_u64(dir, "ssm.group_count", dir->key_heads);
    arch_u64(dir, "ssm.time_step_rank", dir->value_heads);
    arch_u64(dir, "ssm.inner_size", dir->value_heads * dir->value_dim);
    hf_key_bool(dir, "headway.value_heads_grouped", true);
    return OK;
}

static status read_experts(hf_dir *dir, error *err)
{
    char key[KEY_BYTES];
    const char *count_key = json_object_get(dir->text, "num_experts") ? "num_experts" : "num_local_experts";
    uint64_t used, width, shared;
    status code;
    if ((code = read_u64(dir, count_key, NEEDED, 4096, &dir->experts, err)) ||
        (code = read_u64(dir, "num_experts_per_tok", NEEDED, 4096, &used, err)) ||
        (code = read_u64(dir, "moe_intermediate_size", NEEDED, 1u << 24, &width, err)) ||
        (code = read_u64(dir, "shared_expert_intermediate_size", 0, 1u << 24, &shared, err)))
        return code;
    arch_u64(dir, "expert_count", dir->experts);
    arch_u64(dir, "expert_used_count", used);
    arch_u64(dir, "expert_feed_forward_length", width);
    if (shared)
        arch_u64(dir, "expert_shared_feed_forward_length", shared);
    const json_t *norm = json_object_get(dir->text, "norm_topk_prob");
    bool renormalised = norm ? json_is_true(norm) : dir->family != HF_QWEN3MOE;
    hf_key_bool(dir, arch_key(dir, "expert_weights_norm", key), dir->family == HF_QWEN35MOE || renormalised);
    return OK;
}

static status read_numbers(hf_dir *dir, error *err)
{
    bool gemma = dir->family == HF_GEMMA3;
    uint64_t hidden, ffn, context;
    double eps = 1e-6;
    status code;
    if ((code = read_u64(dir, "num_hidden_layers", NEEDED, LAYERS_MAX, &dir->layers, err)) ||
        (code = read_u64(dir, "hidden_size", NEEDED, 1u << 20, &hidden, err)) ||
        (code = read_u64(dir, "intermediate_size", dir->family == HF_QWEN35MOE ? 0 : NEEDED, 1u << 24, &ffn, err)) ||
        (code = read_u64(dir, "num_attention_heads", gemma ? 8 : NEEDED, 4096, &dir->heads, err)) ||
        (code = read_u64(dir, "num_key_value_heads", gemma ? 4 : (int64_t)dir->heads, 4096, &dir->kv_heads, err)))
        return code;
    if (!dir->heads || !dir->kv_heads || !dir->layers)
        return wrong(dir, "num_attention_heads", "layers, heads and kv heads above 0", err);
    if ((code = read_u64(dir, "head_dim", gemma ? 256 : (int64_t)(hidden / dir->heads), 65536, &dir->head_dim, err)) ||
        (code = read_u64(dir, "max_position_embeddings", gemma ? 131072 : 2048, 1u << 30, &context, err)))
        return code;
    if (dir->head_dim == 0 || dir->head_dim % 2)
        return wrong(dir, "head_dim", "an even number above 0", err);
    number_at(dir->text, "rms_norm_eps", &eps);
    arch_u64(dir, "block_count", dir->layers);
    arch_u64(dir, "context_length", context);
    arch_u64(dir, "embedding_length", hidden);
    if (ffn)
        arch_u64(dir, "feed_forward_length", ffn);
    arch_u64(dir, "attention.head_count", dir->heads);
    arch_u64(dir, "attention.head_count_kv", dir->kv_heads);
    arch_u64(dir, "attention.key_length", dir->head_dim);
    arch_u64(dir, "attention.value_length", dir->head_dim);
    arch_f64(dir, "attention.layer_norm_rms_epsilon", eps);
    if (json_is_true(json_object_get(dir->text, "use_sliding_window")))
        return error_set(err, ERR_UNSUPPORTED, "%s: use_sliding_window is not supported", dir->config_path);
    return read_rope(dir, err);
}

/* --- the companions --- */

/* An id or a list of ids, those of `holder` after what is there already. */
static void collect_ids(const json_t *holder, const char *key, uint64_t *ids, size_t *count)
{
    const json_t *value = json_object_get(holder, key);
    size_t given = json_is_array(value) ? json_array_size(value) : 1;
    for (size_t i = 0; i < given && *count < EOS_MAX; i++) {
        const json_t *id = json_is_array(value) ? json_array_get(value, i) : value;
        if (json_is_integer(id) && json_integer_value(id) >= 0)
            ids[(*count)++] = (uint64_t)json_integer_value(id);
    }
}

static status read_generation(hf_dir *dir, error *err)
{
    static const struct {
        const char *file, *gguf;
    } SAMPLING[] = {{"temperature", "general.sampling.temp"},
                    {"top_k", "general.sampling.top_k"},
                    {"top_p", "general.sampling.top_p"},
                    {"min_p", "general.sampling.min_p"},
                    {"repetition_penalty", "general.sampling.penalty_repeat"}};
    uint64_t ids[EOS_MAX];
    size_t count = 0;
    json_t *generation = NULL;
    status code = hf_read_json(dir, "generation_config.json", &generation, err);
    if (code != OK && code != ERR_NOT_FOUND)
        return code;
    double value;
    for (size_t i = 0; i < sizeof SAMPLING / sizeof *SAMPLING; i++)
        if (number_at(generation, SAMPLING[i].file, &value))
            hf_key_f64(dir, SAMPLING[i].gguf, value);
    collect_ids(generation, "eos_token_id", ids, &count);
    collect_ids(dir->config, "eos_token_id", ids, &count);
    if (dir->text != dir->config)
        collect_ids(dir->text, "eos_token_id", ids, &count);
    if (count)
        hf_key_u64s(dir, "headway.eos_token_ids", ids, count);
    json_decref(generation);
    return OK;
}

/* A template is a text, or a list of named ones of which "default" counts. */
static span template_of(const json_t *config)
{
    const json_t *value = json_object_get(config, "chat_template");
    if (json_is_array(value)) {
        size_t i;
        const json_t *entry, *list = value;
        value = NULL;
        json_array_foreach(list, i, entry)
        {
            const char *name = json_string_value(json_object_get(entry, "name"));
            if (name && strcmp(name, "default") == 0)
                value = json_object_get(entry, "template");
        }
    }
    return json_is_string(value) ? span_of(json_string_value(value), json_string_length(value)) : (span){0};
}

static status read_template(hf_dir *dir, error *err)
{
    static const char KEY[] = "tokenizer.chat_template";
    buf text = {0};
    status code = hf_read_text(dir, "chat_template.jinja", TEMPLATE_BYTES_MAX, &text, err);
    if (code == OK)
        hf_key_text(dir, KEY, buf_span(&text));
    buf_free(&text);
    if (code != ERR_NOT_FOUND)
        return code;
    json_t *config = NULL;
    code = hf_read_json(dir, "tokenizer_config.json", &config, err);
    span found = template_of(config);
    if (found.size)
        hf_key_text(dir, KEY, found);
    json_decref(config);
    return code == ERR_NOT_FOUND ? OK : code;
}

static void read_name(hf_dir *dir)
{
    const char *slash = strrchr(dir->path, '/');
    hf_key_text(dir, "general.architecture", span_from(dir->arch));
    hf_key_text(dir, "general.name", span_from(slash && slash[1] ? slash + 1 : dir->path));
}

/* What `headway synth` wrote says so; the seed is a text, JSON's integers end too early. */
static void read_synthetic(hf_dir *dir)
{
    const json_t *mark = json_object_get(dir->config, "headway_synthetic");
    const char *seed = json_string_value(json_object_get(mark, "seed"));
    if (!json_is_true(json_object_get(mark, "synthetic")))
        return;
    hf_key_bool(dir, "headway.synthetic", true);
    if (seed)
        hf_key_u64(dir, "headway.synthetic_seed", strtoull(seed, NULL, 10));
}

status hf_read_config(hf_dir *dir, error *err)
{
    status code = read_family(dir, err);
    if (code != OK || (code = read_quantization(dir, err)) != OK)
        return code;
    read_name(dir);
    read_synthetic(dir);
    bool moe = dir->family == HF_QWEN3MOE || dir->family == HF_QWEN3NEXT || dir->family == HF_QWEN35MOE;
    bool linear = dir->family == HF_QWEN3NEXT || dir->family == HF_QWEN35 || dir->family == HF_QWEN35MOE;
    if ((code = read_numbers(dir, err)) != OK || (moe && (code = read_experts(dir, err)) != OK) ||
        (linear && (code = read_linear(dir, err)) != OK) ||
        (dir->family == HF_GEMMA3 && (code = read_gemma(dir, err)) != OK))
        return code;
    code = read_generation(dir, err);
    return code == OK ? read_template(dir, err) : code;
}

status hf_finish_metadata(hf_dir *dir, error *err)
{
    struct {
        char magic[4];
        uint32_t version;
        uint64_t tensors, keys;
    } header = {{'G', 'G', 'U', 'F'}, 3, 0, 0};
    if (dir->has_mtp)
        hf_key_bool(dir, "headway.has_mtp", true);
    if (dir->has_vision)
        hf_key_bool(dir, "headway.has_vision", true);
    header.keys = dir->key_count;
    buf whole = {0};
    buf_append(&whole, &header, sizeof header);
    buf_append(&whole, dir->metadata.data, dir->metadata.size);
    bool failed = whole.failed || dir->metadata.failed;
    buf_free(&dir->metadata);
    dir->metadata = whole;
    return failed ? error_set(err, ERR_MEMORY, "%s: out of memory", dir->path) : OK;
}
