/* cli/inspect_facts.c: see the header. */
#include "cli/inspect_facts.h"

#include <stdio.h>
#include <string.h>

#include "cli/gguf_vocab.h"
#include "model/model.h"

enum { KEY_BYTES = 128 };

/* The scalar under "ARCH.suffix", or the largest number of an array (some families say such things per layer). */
static uint64_t number_of(const model_file *file, span arch, const char *suffix, uint64_t fallback)
{
    char key[KEY_BYTES];
    uint64_t value;
    model_array array;
    snprintf(key, sizeof key, "%.*s.%s", (int)arch.size, arch.data, suffix);
    if (model_file_u64(file, key, &value, NULL) == OK)
        return value;
    if (model_file_array(file, key, &array, NULL) != OK || array.count == 0)
        return fallback;
    value = 0;
    for (uint64_t i = 0; i < array.count; i++)
        if ((uint64_t)model_array_i64(&array, i) > value)
            value = (uint64_t)model_array_i64(&array, i);
    return value;
}

/* kv heads summed over the layers: an array may say a number for each. */
static uint64_t kv_heads_of_all_layers(const inspect_facts *f, const model_file *file)
{
    char key[KEY_BYTES];
    model_array array;
    snprintf(key, sizeof key, "%.*s.attention.head_count_kv", (int)f->architecture.size, f->architecture.data);
    if (model_file_array(file, key, &array, NULL) != OK)
        return (f->layers - f->recurrent_layers) * f->kv_heads;
    uint64_t sum = 0;
    for (uint64_t i = 0; i < array.count && i < f->layers; i++)
        sum += (uint64_t)model_array_i64(&array, i);
    return sum;
}

static bool begins(span name, const char *with)
{
    return name.size >= strlen(with) && !memcmp(name.data, with, strlen(with));
}

/* Which layers keep a state (they have an ssm_a), and what is in the file beside the text model. */
static void gather_parts(inspect_facts *f, const model_file *file)
{
    static const char *const vision[] = {"v.", "mm.", "model.visual.", "vision_tower."};
    for (size_t i = 0; i < model_file_tensor_count(file); i++) {
        span name = model_file_tensor_at(file, i)->name;
        char text[96];
        unsigned layer;
        snprintf(text, sizeof text, "%.*s", (int)(name.size < 95 ? name.size : 95), name.data);
        bool block = sscanf(text, "blk.%u.", &layer) == 1;
        f->draft_tensors += begins(name, "mtp.") || (block && f->draft_layers && layer >= f->layers);
        f->recurrent_layers += block && layer < f->layers && strstr(text, ".ssm_a") && !strstr(text, ".ssm_alpha");
        for (size_t v = 0; v < sizeof vision / sizeof *vision; v++)
            f->vision_tensors += begins(name, vision[v]);
    }
}

static void gather_state(inspect_facts *f, const model_file *file)
{
    span arch = f->architecture;
    uint64_t key = number_of(file, arch, "ssm.state_size", 0) % 65536;
    uint64_t inner = number_of(file, arch, "ssm.inner_size", 0) % (1u << 24);
    uint64_t channels = 2 * key * (number_of(file, arch, "ssm.group_count", 0) % 65536) + inner;
    uint64_t taps = number_of(file, arch, "ssm.conv_kernel", 0) % 64;
    f->state_bytes = f->recurrent_layers * ((taps ? taps - 1 : 0) * channels + inner * key) * sizeof(float);
}

static void gather_numbers(inspect_facts *f, const model_file *file)
{
    span arch = f->architecture;
    if (arch.size == 0)
        return;
    f->layers = number_of(file, arch, "block_count", 0);
    f->draft_layers = number_of(file, arch, "nextn_predict_layers", 0);
    f->layers -= f->draft_layers < f->layers ? f->draft_layers : 0;
    gather_parts(f, file);
    f->hidden = number_of(file, arch, "embedding_length", 0);
    f->heads = number_of(file, arch, "attention.head_count", 0);
    f->kv_heads = number_of(file, arch, "attention.head_count_kv", f->heads);
    f->head_dim = number_of(file, arch, "attention.key_length", f->heads ? f->hidden / f->heads : 0);
    f->feed_forward = number_of(file, arch, "feed_forward_length", 0);
    f->context = number_of(file, arch, "context_length", 0);
    f->window = number_of(file, arch, "attention.sliding_window", 0);
    f->experts = number_of(file, arch, "expert_count", 0);
    f->experts_used = number_of(file, arch, "expert_used_count", 0);
    uint64_t value_dim = number_of(file, arch, "attention.value_length", f->head_dim);
    gather_state(f, file);
    f->kv_bytes_per_token = kv_heads_of_all_layers(f, file) * (f->head_dim + value_dim) * sizeof(uint16_t);
}

static void gather_tensors(inspect_facts *f, const model_file *file)
{
    for (size_t i = 0; i < model_file_tensor_count(file); i++) {
        const model_tensor *t = model_file_tensor_at(file, i);
        f->types[t->type].tensors++;
        f->types[t->type].bytes += t->bytes;
        f->weight_bytes += t->bytes;
        f->parameters += t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3];
    }
}

static const char *file_type_name(uint64_t id)
{
    static const char *const NAMES[] = {
        [0] = "F32",     [1] = "F16",     [2] = "Q4_0",     [3] = "Q4_1",    [7] = "Q8_0",     [8] = "Q5_0",
        [9] = "Q5_1",    [10] = "Q2_K",   [11] = "Q3_K_S",  [12] = "Q3_K_M", [13] = "Q3_K_L",  [14] = "Q4_K_S",
        [15] = "Q4_K_M", [16] = "Q5_K_S", [17] = "Q5_K_M",  [18] = "Q6_K",   [19] = "IQ2_XXS", [20] = "IQ2_XS",
        [21] = "Q2_K_S", [22] = "IQ3_XS", [23] = "IQ3_XXS", [24] = "IQ1_S",  [25] = "IQ4_NL",  [26] = "IQ3_S",
        [27] = "IQ3_M",  [28] = "IQ2_S",  [29] = "IQ2_M",   [30] = "IQ4_XS", [31] = "IQ1_M",   [32] = "BF16",
        [36] = "TQ1_0",  [37] = "TQ2_0",  [38] = "MXFP4",
    };
    return id < sizeof NAMES / sizeof *NAMES ? NAMES[id] : NULL;
}

static void gather_words(inspect_facts *f, const model_file *file)
{
    uint64_t file_type;
    model_array tokens;
    span template;
    model_file_string(file, "general.architecture", &f->architecture, NULL);
    model_file_string(file, "general.name", &f->name, NULL);
    model_file_string(file, "tokenizer.ggml.model", &f->tokenizer_model, NULL);
    model_file_string(file, "tokenizer.ggml.pre", &f->tokenizer_pre, NULL);
    f->chat_template = model_file_string(file, "tokenizer.chat_template", &template, NULL) == OK && template.size > 0;
    if (model_file_u64(file, "general.file_type", &file_type, NULL) == OK)
        f->file_type = file_type_name(file_type);
    if (model_file_array(file, "tokenizer.ggml.tokens", &tokens, NULL) == OK)
        f->vocabulary = tokens.count;
}

/* A backend that takes everything and keeps nothing: model_load then checks every key, name, shape and type, and no
 * more. */

static char nothing;

static status no_buffer(backend *self, size_t floats, buffer **out)
{
    (void)self, (void)floats;
    *out = (buffer *)(void *)&nothing;
    return OK;
}

static void no_buffer_destroy(backend *self, buffer *b)
{
    (void)self, (void)b;
}

static void no_upload(backend *self, buffer *b, size_t offset, const float *src, size_t floats)
{
    (void)self, (void)b, (void)offset, (void)src, (void)floats;
}

static status no_weight(backend *self, dtype type, uint32_t rows, uint32_t cols, const void *raw, weight **out,
                        error *err)
{
    (void)self, (void)type, (void)rows, (void)cols, (void)raw, (void)err;
    *out = (weight *)(void *)&nothing;
    return OK;
}

static void no_weight_destroy(backend *self, weight *w)
{
    (void)self, (void)w;
}

static status no_stack(backend *self, dtype type, uint32_t stack, uint32_t rows, uint32_t cols, weight **out,
                       error *err)
{
    (void)stack;
    return no_weight(self, type, rows, cols, NULL, out, err);
}

static size_t no_weight_bytes(const weight *w)
{
    (void)w;
    return 0;
}

static status load_dry(const model_file *file, error *err)
{
    static const backend_ops OPS = {
        .name = "none",
        .buffer_create = no_buffer,
        .buffer_destroy = no_buffer_destroy,
        .upload = no_upload,
        .weight_create = no_weight,
        .stack_create = no_stack,
        .weight_destroy = no_weight_destroy,
        .weight_bytes = no_weight_bytes,
    };
    backend device = {.ops = &OPS, .kernels = "none", .threads = 1};
    model *m = NULL;
    status code = model_load(&m, file, &device, NULL, err);
    if (code == OK)
        model_free(m);
    return code;
}

static error *next_reason(inspect_facts *f)
{
    static error overflow;
    return f->reason_count < REASONS_MAX ? &f->reasons[f->reason_count++] : &overflow;
}

/* One reason per type that has no kernels, with the first tensor that it stops. */
static void check_types(inspect_facts *f, const model_file *file)
{
    bool named[DT_COUNT] = {false};
    for (size_t i = 0; i < model_file_tensor_count(file); i++) {
        const model_tensor *t = model_file_tensor_at(file, i);
        const dtype_info *info = dtype_get(t->type);
        if (info->supported || named[t->type])
            continue;
        named[t->type] = true;
        error_set(next_reason(f), ERR_UNSUPPORTED,
                  "tensor %.*s (and %llu more) is stored as %s, which Headway does not read", (int)t->name.size,
                  t->name.data, (unsigned long long)f->types[t->type].tensors - 1, info->name);
    }
}

static void check_tokenizer(inspect_facts *f, const model_file *file)
{
    error why = {0};
    tokenizer *t = NULL;
    if (f->vocabulary == 0 && !model_file_is_directory(file))
        error_set(next_reason(f), ERR_UNSUPPORTED, "no vocabulary (key tokenizer.ggml.tokens)");
    else if (tokenizer_from_model(&t, file, &why) != OK)
        *next_reason(f) = why;
    else if (model_file_is_directory(file)) {
        f->vocabulary = tokenizer_vocab_size(t);
        f->tokenizer_model = span_from("tokenizer.json");
    }
    tokenizer_destroy(t);
}

static void find_reasons(inspect_facts *f, const model_file *file)
{
    if (!arch_find(f->architecture))
        error_set(next_reason(f), ERR_UNSUPPORTED, "architecture \"%.*s\" is not one of %s",
                  (int)(f->architecture.size < 64 ? f->architecture.size : 64), f->architecture.data, arch_names());
    check_types(f, file);
    check_tokenizer(f, file);
    error why = {0};
    bool loadable = f->reason_count == 0;
    if (loadable && load_dry(file, &why) != OK)
        *next_reason(f) = why;
}

void inspect_gather(inspect_facts *out, const model_file *file)
{
    *out = (inspect_facts){0};
    gather_words(out, file);
    gather_numbers(out, file);
    gather_tensors(out, file);
    find_reasons(out, file);
}

uint64_t inspect_memory(const inspect_facts *facts, uint64_t tokens)
{
    uint64_t kv, total;
    if (__builtin_mul_overflow(facts->kv_bytes_per_token, tokens, &kv) ||
        __builtin_add_overflow(kv, facts->weight_bytes, &total) ||
        __builtin_add_overflow(total, facts->state_bytes, &total))
        return UINT64_MAX;
    return total;
}
