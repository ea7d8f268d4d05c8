/* model/file/gguf_check.c: keys and tensors that every consumer indexes with, checked against each other once, so that
 * no consumer meets a token id past the vocabulary or a layer count that no model has. Absent keys are the consumer's
 * matter. */
#include <inttypes.h>
#include <stdio.h>

#include "model/file/gguf.h"

enum { NAME_BYTES = 128 };

static status not_within(const model_file *file, const char *key, int64_t found, uint64_t min, uint64_t max, error *err)
{
    return error_set(err, ERR_INVALID, "%s: key %s: found %" PRId64 ", expected %" PRIu64 " to %" PRIu64,
                     file->shards[0].path, gguf_printable(span_from(key)).text, found, min, max);
}

/* Every number in a scalar or array key lies in [min, max]. Other types are refused. */
static status check_range(const model_file *file, const char *key, uint64_t min, uint64_t max, error *err)
{
    const gguf_key *entry = gguf_find(&file->shards[0], key);
    if (!entry)
        return OK;
    if (entry->type != MV_ARRAY) {
        uint64_t value;
        status code = gguf_u64(&file->shards[0], key, &value, err);
        if (code == OK && (value < min || value > max))
            code = not_within(file, key, value > INT64_MAX ? INT64_MAX : (int64_t)value, min, max, err);
        return code;
    }
    if (entry->element == MV_STRING || entry->element == MV_F32 || entry->element == MV_F64)
        return error_set(err, ERR_INVALID, "%s: key %s: found an array of %s, expected integers", file->shards[0].path,
                         gguf_printable(span_from(key)).text, gguf_type_name(entry->element));
    model_array array = {.element = entry->element, .count = entry->count, .raw = entry->value};
    for (uint64_t i = 0; i < array.count; i++) {
        int64_t value = model_array_i64(&array, i);
        if (value < (int64_t)min || value > (int64_t)max)
            return not_within(file, key, value, min, max, err);
    }
    return OK;
}

static status check_architecture(const model_file *file, error *err)
{
    static const struct {
        const char *suffix;
        uint64_t min, max;
    } RANGES[] = {
        {"block_count", 1, 1024},
        {"context_length", 1, 1u << 30},
        {"embedding_length", 1, 1u << 20},
        {"feed_forward_length", 0, 1u << 24},
        {"attention.head_count", 0, 4096},
        {"attention.head_count_kv", 0, 4096},
        {"attention.key_length", 1, 1u << 16},
        {"attention.value_length", 1, 1u << 16},
        {"attention.sliding_window", 0, 1u << 30},
        {"rope.dimension_count", 0, 1u << 16},
        {"vocab_size", 1, 1u << 24},
        {"expert_count", 0, 4096},
        {"expert_used_count", 0, 4096},
    };
    span arch;
    status code = model_file_string(file, "general.architecture", &arch, err);
    if (code != OK)
        return code == ERR_NOT_FOUND ? OK : code;
    if (arch.size == 0 || arch.size > 64 || memchr(arch.data, 0, arch.size))
        return error_set(err, ERR_INVALID,
                         "%s: key general.architecture: found \"%s\", expected a name of 1 to 64 bytes",
                         file->shards[0].path, gguf_printable(arch).text);
    for (size_t i = 0; i < sizeof RANGES / sizeof *RANGES; i++) {
        char key[NAME_BYTES];
        snprintf(key, sizeof key, "%.*s.%s", (int)arch.size, arch.data, RANGES[i].suffix);
        if ((code = check_range(file, key, RANGES[i].min, RANGES[i].max, err)) != OK)
            return code;
    }
    return OK;
}

/* An array beside the tokens: of that element type and at least as long. */
static status check_parallel(const model_file *file, const char *key, model_value_type element, uint64_t tokens,
                             error *err)
{
    model_array array;
    status code = model_file_array(file, key, &array, err);
    if (code != OK)
        return code == ERR_NOT_FOUND ? OK : code;
    if (array.element != element || array.count < tokens)
        return error_set(err, ERR_INVALID, "%s: key %s: found %" PRIu64 " elements of %s, expected %" PRIu64 " of %s",
                         file->shards[0].path, key, array.count, gguf_type_name(array.element), tokens,
                         gguf_type_name(element));
    return OK;
}

static status check_special_ids(const model_file *file, uint64_t tokens, error *err)
{
    static const char *const NAMES[] = {"bos",     "eos",     "eot",     "eom",     "unknown", "fim_pre", "fim_suf",
                                        "fim_mid", "fim_pad", "fim_rep", "fim_sep", "prefix",  "suffix",  "middle"};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        char key[NAME_BYTES];
        uint64_t id;
        snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", NAMES[i]);
        status code = gguf_u64(&file->shards[0], key, &id, err);
        if (code == OK && id >= tokens && id != UINT32_MAX) /* converters write -1 for "none" */
            return error_set(err, ERR_INVALID,
                             "%s: key %s: found %" PRIu64 ", expected less than the %" PRIu64 " tokens",
                             file->shards[0].path, key, id, tokens);
        if (code != OK && code != ERR_NOT_FOUND)
            return code;
    }
    return OK;
}

static status check_tokenizer(const model_file *file, error *err)
{
    static const char TOKENS[] = "tokenizer.ggml.tokens";
    model_array tokens;
    status code = model_file_array(file, TOKENS, &tokens, err);
    if (code != OK)
        return code == ERR_NOT_FOUND ? OK : code;
    if (tokens.element != MV_STRING || tokens.count == 0)
        return error_set(err, ERR_INVALID, "%s: key %s: found %" PRIu64 " elements of %s, expected strings",
                         file->shards[0].path, TOKENS, tokens.count, gguf_type_name(tokens.element));
    const model_tensor *embedding = model_file_tensor(file, "token_embd.weight");
    if (embedding && embedding->ne[1] != tokens.count)
        return error_set(err, ERR_INVALID,
                         "%s: tensor token_embd.weight: found %" PRIu64 " rows, expected one for each of "
                         "the %" PRIu64 " tokens",
                         file->path, embedding->ne[1], tokens.count);
    if ((code = check_parallel(file, "tokenizer.ggml.scores", MV_F32, tokens.count, err)) != OK ||
        (code = check_parallel(file, "tokenizer.ggml.token_type", MV_I32, tokens.count, err)) != OK ||
        (code = check_parallel(file, "tokenizer.ggml.merges", MV_STRING, 0, err)) != OK)
        return code;
    return check_special_ids(file, tokens.count, err);
}

status gguf_check_model(const model_file *file, error *err)
{
    status code = check_architecture(file, err);
    return code == OK ? check_tokenizer(file, err) : code;
}
