/* cli/synth_dir.c: config.json and its neighbours (formats.md 3.1). */
#include "cli/synth_dir.h"

#include <stdio.h>

enum { FILES_MAX = 5 };

typedef struct {
    write_file files[FILES_MAX];
    buf texts[FILES_MAX];
    size_t count;
    bool failed;
} file_list;

static int append(const char *bytes, size_t size, void *out)
{
    buf_append(out, bytes, size);
    return 0;
}

static void add_json(file_list *list, const char *name, const json_t *value)
{
    buf *text = &list->texts[list->count];
    if (!value || json_dump_callback(value, append, text, JSON_INDENT(2)))
        list->failed = true;
    buf_byte(text, '\n');
    list->failed |= text->failed;
    list->files[list->count++] = (write_file){name, buf_span(text)};
}

/* The text that was given, else the object that was made. */
static void add_either(file_list *list, const char *name, const buf *text, const json_t *value)
{
    if (text->size)
        list->files[list->count++] = (write_file){name, buf_span(text)};
    else if (value)
        add_json(list, name, value);
}

/* --- config.json --- */

static void override(json_t *quantization, const model_plan *plan, const plan_tensor *t)
{
    char module[160];
    const char *name = plan_name(plan, t);
    size_t size = strlen(name), tail = strlen(".weight");
    bool router = strstr(name, ".mlp.gate.weight") || strstr(name, ".mlp.shared_expert_gate.weight");
    if (!router || size <= tail)
        return;
    snprintf(module, sizeof module, "%.*s", (int)(size - tail), name);
    json_object_set_new(quantization, module,
                        t->store == STORE_MLX_Q8 ? json_pack("{si si}", "group_size", 64, "bits", 8) : json_false());
}

static void set_quantization(json_t *config, const model_plan *plan)
{
    json_object_del(config, "quantization");
    json_object_del(config, "quantization_config");
    if (plan->format != FORMAT_MLX || plan->type <= TYPE_BF16)
        return;
    bool affine = plan->type == TYPE_AFFINE4;
    json_t *quantization =
        json_pack("{si si ss}", "group_size", affine ? 64 : 32, "bits", plan->type == TYPE_MXFP8 ? 8 : 4, "mode",
                  affine ? "affine" : type_name(plan->type));
    for (size_t i = 0; i < plan->count; i++)
        override(quantization, plan, &plan->tensors[i]);
    json_object_set(config, "quantization", quantization);
    json_object_set_new(config, "quantization_config", quantization);
}

/* What the vocabulary and the type change, in the config and in its text_config. */
static void set_common(json_t *config, const model_plan *plan, const synth_vocab *vocab)
{
    static const char *const DTYPES[] = {[TYPE_F32] = "float32", [TYPE_F16] = "float16"};
    json_t *dtype = json_string(plan->type <= TYPE_F16 ? DTYPES[plan->type] : "bfloat16");
    json_object_del(config, "torch_dtype");
    json_object_set_new(config, "dtype", dtype);
    json_object_set_new(config, "tie_word_embeddings", json_boolean(plan->shape.tied));
    if (json_object_get(config, "mtp_num_hidden_layers"))
        json_object_set_new(config, "mtp_num_hidden_layers", json_integer(0)); /* not written */
    if (json_array_size(vocab->eos))
        json_object_set(config, "eos_token_id", vocab->eos);
    json_object_set_new(config, "bos_token_id", vocab->bos >= 0 ? json_integer(vocab->bos) : json_null());
    json_object_set_new(config, "pad_token_id", vocab->pad >= 0 ? json_integer(vocab->pad) : json_null());
}

static json_t *make_config(const model_plan *plan, const json_t *given, const synth_vocab *vocab)
{
    json_t *config = json_deep_copy(given), *text = json_object_get(config, "text_config");
    if (!config)
        return NULL;
    set_common(config, plan, vocab);
    if (json_is_object(text))
        set_common(text, plan, vocab);
    set_quantization(config, plan);
    json_object_set_new(config, "headway_synthetic",
                        json_pack("{sb ss ss ss}", "synthetic", 1, "note", "random weights, nothing was learnt", "type",
                                  type_name(plan->type), "format", format_name(plan->format)));
    char seed[24]; /* JSON's integers end before ours */
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)plan->seed);
    json_object_set_new(json_object_get(config, "headway_synthetic"), "seed", json_string(seed));
    return config;
}

static json_t *make_generation(const synth_vocab *vocab)
{
    json_t *generation = json_object();
    if (json_array_size(vocab->eos))
        json_object_set(generation, "eos_token_id", vocab->eos);
    if (vocab->bos >= 0)
        json_object_set_new(generation, "bos_token_id", json_integer(vocab->bos));
    if (vocab->pad >= 0)
        json_object_set_new(generation, "pad_token_id", json_integer(vocab->pad));
    return generation;
}

status synth_write_directory(const model_plan *plan, const json_t *config, const synth_vocab *vocab, const char *path,
                             const write_options *options, error *err)
{
    file_list list = {0};
    json_t *made = make_config(plan, config, vocab), *generation = make_generation(vocab);
    add_json(&list, "config.json", made);
    add_json(&list, "generation_config.json", generation);
    add_either(&list, "tokenizer.json", &vocab->json_text, vocab->json);
    add_either(&list, "tokenizer_config.json", &vocab->config_text, vocab->config);
    if (vocab->chat_template.size)
        list.files[list.count++] = (write_file){"chat_template.jinja", buf_span(&vocab->chat_template)};
    status st = list.failed ? error_set(err, ERR_MEMORY, "out of memory for config.json")
                            : model_write_directory(plan, list.files, list.count, path, options, err);
    for (size_t i = 0; i < FILES_MAX; i++)
        buf_free(&list.texts[i]);
    json_decref(made);
    json_decref(generation);
    return st;
}
