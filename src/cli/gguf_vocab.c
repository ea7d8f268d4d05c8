/* cli/gguf_vocab.c: tokenizer.ggml.* to a tokenizer_spec. */
#include "cli/gguf_vocab.h"

#include "text/tokenizer_parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS_MAX = 1 << 24, MERGES_MAX = 1 << 24, JSON_BYTES_MAX = 512 << 20 };

#define KEY(name) "tokenizer.ggml." name

typedef struct {
    span *tokens, *merges;
    float *scores;
    int32_t *types;
} spec_memory;

static void spec_memory_free(spec_memory *m)
{
    free(m->tokens);
    free(m->merges);
    free(m->scores);
    free(m->types);
}

static status wrong(const model_file *file, error *err, const char *key, const char *expected)
{
    return error_set(err, ERR_INVALID, "%s: %s: expected %s", model_file_path(file), key, expected);
}

/* An array of at least `least` elements; ERR_NOT_FOUND leaves *out alone. */
static status read_array(const model_file *file, const char *key, bool strings, uint64_t least, model_array *out,
                         error *err)
{
    model_array array;
    status st = model_file_array(file, key, &array, err);
    if (st)
        return st;
    if ((array.element == MV_STRING) != strings)
        return wrong(file, err, key, strings ? "an array of strings" : "an array of numbers");
    if (array.count < least)
        return error_set(err, ERR_INVALID, "%s: %s has %llu elements, expected %llu, one for each token",
                         model_file_path(file), key, (unsigned long long)array.count, (unsigned long long)least);
    *out = array;
    return OK;
}

static status read_strings(const model_file *file, const char *key, uint64_t most, span **out, uint32_t *count,
                           error *err)
{
    model_array array;
    status st = read_array(file, key, true, 0, &array, err);
    if (st)
        return st;
    if (array.count > most)
        return error_set(err, ERR_INVALID, "%s: %s has %llu elements, at most %llu are supported",
                         model_file_path(file), key, (unsigned long long)array.count, (unsigned long long)most);
    *out = malloc((array.count ? array.count : 1) * sizeof **out);
    if (!*out)
        return error_set(err, ERR_MEMORY, "out of memory for %s", key);
    for (uint64_t i = 0; i < array.count; i++)
        (*out)[i] = model_array_string(&array, i);
    *count = (uint32_t)array.count;
    return OK;
}

static status read_scores(const model_file *file, tokenizer_spec *spec, spec_memory *memory, error *err)
{
    model_array array;
    status st = read_array(file, KEY("scores"), false, spec->token_count, &array, err);
    if (st)
        return st == ERR_NOT_FOUND ? OK : st;
    memory->scores = malloc((spec->token_count + 1) * sizeof *memory->scores);
    if (!memory->scores)
        return error_set(err, ERR_MEMORY, "out of memory for %u scores", spec->token_count);
    for (uint32_t i = 0; i < spec->token_count; i++)
        memory->scores[i] = (float)model_array_f64(&array, i);
    spec->scores = memory->scores;
    return OK;
}

static status read_types(const model_file *file, tokenizer_spec *spec, spec_memory *memory, error *err)
{
    model_array array;
    status st = read_array(file, KEY("token_type"), false, spec->token_count, &array, err);
    if (st)
        return st == ERR_NOT_FOUND ? OK : st;
    if (array.element == MV_F32 || array.element == MV_F64)
        return wrong(file, err, KEY("token_type"), "an array of integers");
    memory->types = malloc((spec->token_count + 1) * sizeof *memory->types);
    if (!memory->types)
        return error_set(err, ERR_MEMORY, "out of memory for %u token types", spec->token_count);
    for (uint32_t i = 0; i < spec->token_count; i++) {
        int64_t type = model_array_i64(&array, i);
        memory->types[i] = type < 0 || type > TOKEN_BYTE ? -1 : (int32_t)type;
    }
    spec->types = memory->types;
    return OK;
}

static status read_ids(const model_file *file, tokenizer_spec *spec, error *err)
{
    const struct {
        const char *key;
        token_id *id;
    } ids[] = {{KEY("bos_token_id"), &spec->bos},         {KEY("eos_token_id"), &spec->eos},
               {KEY("eot_token_id"), &spec->eot},         {KEY("eom_token_id"), &spec->eom},
               {KEY("unknown_token_id"), &spec->unknown}, {KEY("padding_token_id"), &spec->pad}};
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        uint64_t value;
        *ids[i].id = -1;
        status st = model_file_u64(file, ids[i].key, &value, err);
        if (st == ERR_NOT_FOUND)
            continue;
        if (st)
            return st;
        if (value == UINT32_MAX) /* converters write -1 for "none" */
            continue;
        if (value >= spec->token_count)
            return error_set(err, ERR_INVALID, "%s: %s is %llu, expected less than the %u tokens",
                             model_file_path(file), ids[i].key, (unsigned long long)value, spec->token_count);
        *ids[i].id = (token_id)value;
    }
    return OK;
}

static status read_flags(const model_file *file, tokenizer_spec *spec, error *err)
{
    bool sentencepiece = span_is(spec->model, "llama");
    bool llama3 = span_is(spec->pre, "llama-bpe") || span_is(spec->pre, "llama3") || span_is(spec->pre, "llama-v3");
    spec->add_bos = sentencepiece || llama3; /* what a file means that does not say */
    spec->add_space_prefix = sentencepiece;
    const struct {
        const char *key;
        bool *flag;
    } flags[] = {{KEY("add_bos_token"), &spec->add_bos},
                 {KEY("add_eos_token"), &spec->add_eos},
                 {KEY("add_space_prefix"), &spec->add_space_prefix}};
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        status st = model_file_bool(file, flags[i].key, flags[i].flag, err);
        if (st && st != ERR_NOT_FOUND)
            return st;
    }
    return OK;
}

static status read_spec(const model_file *file, tokenizer_spec *spec, spec_memory *memory, error *err)
{
    status st = model_file_string(file, KEY("model"), &spec->model, err);
    if (st)
        return st == ERR_NOT_FOUND ? wrong(file, err, KEY("model"), "the kind of tokenizer, but the key is missing")
                                   : st;
    st = model_file_string(file, KEY("pre"), &spec->pre, err);
    if (st == ERR_NOT_FOUND)
        st = OK;
    if (!st)
        st = read_strings(file, KEY("tokens"), TOKENS_MAX, &memory->tokens, &spec->token_count, err);
    if (st)
        return st == ERR_NOT_FOUND ? wrong(file, err, KEY("tokens"), "the vocabulary, but the key is missing") : st;
    st = read_strings(file, KEY("merges"), MERGES_MAX, &memory->merges, &spec->merge_count, err);
    if (st == ERR_NOT_FOUND)
        st = OK;
    spec->tokens = memory->tokens;
    spec->merges = memory->merges;
    if (!st)
        st = read_scores(file, spec, memory, err);
    if (!st)
        st = read_types(file, spec, memory, err);
    if (!st)
        st = read_ids(file, spec, err);
    return st ? st : read_flags(file, spec, err);
}

status tokenizer_spec_from_gguf(tokenizer **out, const model_file *file, error *err)
{
    *out = NULL;
    tokenizer_spec spec = {0};
    spec_memory memory = {0};
    status st = read_spec(file, &spec, &memory, err);
    if (!st) {
        st = tokenizer_create(out, &spec, err);
        if (st)
            error_prefix(err, st, "%s", model_file_path(file));
    }
    spec_memory_free(&memory);
    return st;
}

status chat_template_from_gguf(span *out, const model_file *file, error *err)
{
    return model_file_string(file, "tokenizer.chat_template", out, err);
}

/* --- a path: GGUF or tokenizer.json --- */

static status read_file(const char *path, buf *out, error *err)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return error_set(err, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, "%s: %s", path, strerror(errno));
    out->limit = JSON_BYTES_MAX;
    char block[65536];
    size_t got;
    while ((got = fread(block, 1, sizeof block, file)) > 0)
        buf_append(out, block, got);
    bool bad = ferror(file);
    fclose(file);
    if (bad)
        return error_set(err, ERR_IO, "%s: reading failed", path);
    if (out->failed)
        return error_set(err, ERR_LIMIT, "%s: over %d MB, or out of memory", path, JSON_BYTES_MAX >> 20);
    return OK;
}

static bool ends_with(const char *text, const char *end)
{
    size_t size = strlen(text), tail = strlen(end);
    return size >= tail && strcmp(text + size - tail, end) == 0;
}

static status tokenizer_from_json_path(tokenizer **out, const char *path, error *err)
{
    buf json = {0}, config = {0}, config_path = {0};
    status st = read_file(path, &json, err);
    if (!st && ends_with(path, "tokenizer.json")) {
        buf_append(&config_path, path, strlen(path) - strlen(".json"));
        buf_text(&config_path, "_config.json");
        st = config_path.failed ? error_set(err, ERR_MEMORY, "out of memory")
                                : read_file(config_path.data, &config, err);
        if (st == ERR_NOT_FOUND)
            st = OK;
    }
    if (!st) {
        st = tokenizer_create_json(out, buf_span(&json), buf_span(&config), err);
        if (st)
            error_prefix(err, st, "%s", path);
    }
    buf_free(&json);
    buf_free(&config);
    buf_free(&config_path);
    return st;
}

/* generation_config.json and config.json may name more ids that end a generation than the tokenizer's files do. */
static status add_eos_ids(tokenizer *t, const model_file *file, error *err)
{
    model_array ids;
    status st = model_file_array(file, "headway.eos_token_ids", &ids, err);
    if (st)
        return st == ERR_NOT_FOUND ? OK : st;
    for (uint64_t i = 0; i < ids.count && !st; i++) {
        int64_t id = model_array_i64(&ids, i);
        if (id < 0 || id >= (int64_t)tokenizer_vocab_size(t))
            return error_set(err, ERR_INVALID, "%s: eos_token_id %lld, expected less than the %u tokens",
                             model_file_path(file), (long long)id, tokenizer_vocab_size(t));
        st = tokenizer_add_eog(t, (token_id)id, err);
    }
    return st;
}

status tokenizer_from_model(tokenizer **out, const model_file *file, error *err)
{
    *out = NULL;
    if (!model_file_is_directory(file))
        return tokenizer_spec_from_gguf(out, file, err);
    buf path = {0};
    buf_printf(&path, "%s/tokenizer.json", model_file_path(file));
    status st = path.failed ? error_set(err, ERR_MEMORY, "out of memory") : OK;
    if (!st)
        st = tokenizer_from_json_path(out, path.data, err);
    if (!st)
        st = add_eos_ids(*out, file, err);
    buf_free(&path);
    return st == ERR_NOT_FOUND ? ERR_INVALID : st; /* the words name the file */
}

status tokenizer_from_path(tokenizer **out, const char *path, error *err)
{
    *out = NULL;
    if (ends_with(path, ".json"))
        return tokenizer_from_json_path(out, path, err);
    model_file *file = NULL;
    status st = model_file_open(&file, path, err);
    if (!st)
        st = tokenizer_from_model(out, file, err);
    model_file_close(file);
    return st;
}
