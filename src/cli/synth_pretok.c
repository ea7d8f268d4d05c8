/* cli/synth_pretok.c: the table of names, and what is read out of a GGUF. */
#include "cli/synth_pretok.h"

#include <stdio.h>
#include <stdlib.h>

#include "cli/gguf_vocab.h"

#define HEAD "(?i:'s|'t|'re|'ve|'m|'ll|'d)|"
#define TAIL "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define MARKS "| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const struct {
    const char *name, *pattern; /* NULL: the one of ByteLevel itself */
    bool digits, nfc;           /* digits: each alone, before the rest */
} KNOWN[] = {
    {"gpt-2", NULL, false, false},
    {"smollm", NULL, true, false},
    {"llama-bpe", HEAD "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}" TAIL, false, false},
    {"qwen2", HEAD "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" TAIL, false, true},
    {"qwen35", HEAD "[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}" MARKS, false, true},
};
enum { KNOWN_COUNT = sizeof KNOWN / sizeof *KNOWN };

static bool type_is(const json_t *step, const char *type)
{
    const char *found = json_string_value(json_object_get(step, "type"));
    return found && strcmp(found, type) == 0;
}

/* One step: ByteLevel alone. Two: digits or a pattern, then ByteLevel. */
const char *synth_pretok_name(const json_t *tokenizer)
{
    const json_t *pre = json_object_get(tokenizer, "pre_tokenizer"), *steps = json_object_get(pre, "pretokenizers");
    if (type_is(pre, "ByteLevel"))
        return KNOWN[0].name;
    const json_t *first = json_array_get(steps, 0), *last = json_array_get(steps, 1);
    if (json_array_size(steps) != 2 || !type_is(last, "ByteLevel"))
        return NULL;
    if (type_is(first, "Digits"))
        return json_is_true(json_object_get(first, "individual_digits")) ? KNOWN[1].name : NULL;
    const char *pattern = json_string_value(json_object_get(json_object_get(first, "pattern"), "Regex"));
    for (int i = 2; pattern && type_is(first, "Split") && i < KNOWN_COUNT; i++)
        if (strcmp(pattern, KNOWN[i].pattern) == 0)
            return KNOWN[i].name;
    return NULL;
}

json_t *synth_pretok_json(span name, bool *nfc)
{
    int i = 0;
    while (i < KNOWN_COUNT && !span_is(name, KNOWN[i].name))
        i++;
    if (i == KNOWN_COUNT)
        return NULL;
    *nfc = KNOWN[i].nfc;
    json_t *bytes = json_pack("{ss sb sb sb}", "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", 1,
                              "use_regex", !KNOWN[i].pattern);
    if (!KNOWN[i].pattern && !KNOWN[i].digits)
        return bytes;
    json_t *first = KNOWN[i].digits ? json_pack("{ss sb}", "type", "Digits", "individual_digits", 1)
                                    : json_pack("{ss s{ss} ss sb}", "type", "Split", "pattern", "Regex",
                                                KNOWN[i].pattern, "behavior", "Isolated", "invert", 0);
    return json_pack("{ss s[oo]}", "type", "Sequence", "pretokenizers", first, bytes);
}

/* --- out of a GGUF --- */

typedef struct {
    const model_file *file;
    model_array tokens, types;
    bool typed;
    uint32_t size;
} source;

static int64_t id_of(const model_file *file, const char *key)
{
    uint64_t id;
    return model_file_u64(file, key, &id, NULL) == OK && id < UINT32_MAX ? (int64_t)id : -1;
}

static void find_ids(synth_vocab *v, const model_file *file)
{
    static const char *const ENDS[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"};
    v->bos = id_of(file, "tokenizer.ggml.bos_token_id");
    v->pad = id_of(file, "tokenizer.ggml.padding_token_id");
    v->eos = json_array();
    for (size_t i = 0; i < 2; i++)
        if (id_of(file, ENDS[i]) >= 0)
            json_array_append_new(v->eos, json_integer(id_of(file, ENDS[i])));
}

/* A numbers' array, `size` long: `fill` after the end. */
static status copy_numbers(gguf_keys *keys, const char *key, const model_array *array, uint32_t size, error *err)
{
    bool real = array->element == MV_F32 || array->element == MV_F64;
    float *floats = calloc(size, sizeof *floats);
    int32_t *integers = calloc(size, sizeof *integers);
    status st = floats && integers ? OK : error_set(err, ERR_MEMORY, "out of memory for %s", key);
    for (uint32_t i = 0; !st && i < size; i++) {
        bool inside = i < array->count;
        floats[i] = inside ? (float)model_array_f64(array, i) : -1e9f;
        integers[i] = !real && inside ? (int32_t)model_array_i64(array, i) : TOKEN_UNUSED;
    }
    if (!st && real)
        gguf_put_f32s(keys, key, floats, size);
    else if (!st)
        gguf_put_i32s(keys, key, integers, size);
    free(floats);
    free(integers);
    return st;
}

static status copy_texts(gguf_keys *keys, const char *key, const model_array *array, uint64_t size, error *err)
{
    enum { PADDING_BYTES = 24 };
    span *texts = calloc(size + 1, sizeof *texts);
    char(*padding)[PADDING_BYTES] = calloc(size + 1, sizeof *padding);
    status st = texts && padding ? OK : error_set(err, ERR_MEMORY, "out of memory for %s", key);
    for (uint64_t i = 0; !st && i < size; i++) {
        texts[i] = span_of(padding[i], 0);
        if (i < array->count)
            texts[i] = model_array_string(array, i);
        else
            texts[i].size = (size_t)snprintf(padding[i], PADDING_BYTES, "[unused%u]", (unsigned)i);
    }
    if (!st)
        gguf_put_texts(keys, key, texts, size);
    free(texts);
    free(padding);
    return st;
}

static bool is_token_array(const char *key)
{
    return !strcmp(key, "tokenizer.ggml.tokens") || !strcmp(key, "tokenizer.ggml.token_type") ||
           !strcmp(key, "tokenizer.ggml.scores");
}

static status copy_key(gguf_keys *keys, const source *s, const char *key, model_value_type type, error *err)
{
    span text;
    uint64_t number;
    double real;
    bool flag;
    model_array array;
    if (type == MV_STRING && model_file_string(s->file, key, &text, NULL) == OK)
        gguf_put_text(keys, key, text);
    else if (type == MV_BOOL && model_file_bool(s->file, key, &flag, NULL) == OK)
        gguf_put_bool(keys, key, flag);
    else if ((type == MV_F32 || type == MV_F64) && model_file_f64(s->file, key, &real, NULL) == OK)
        gguf_put_f32(keys, key, real);
    else if (type == MV_ARRAY && model_file_array(s->file, key, &array, NULL) == OK) {
        uint64_t size = is_token_array(key) ? s->size : array.count;
        if (size > UINT32_MAX)
            return error_set(err, ERR_LIMIT, "%s: too long", key);
        return array.element == MV_STRING ? copy_texts(keys, key, &array, size, err)
                                          : copy_numbers(keys, key, &array, (uint32_t)size, err);
    } else if (model_file_u64(s->file, key, &number, NULL) == OK && number <= UINT32_MAX)
        gguf_put_u32(keys, key, (uint32_t)number);
    return OK;
}

static status copy_keys(synth_vocab *v, const source *s, error *err)
{
    static const char PREFIX[] = "tokenizer.";
    span key;
    model_value_type type;
    status st = OK;
    for (size_t i = 0; !st && model_file_key_at(s->file, i, &key, &type); i++) {
        char name[128];
        if (key.size < sizeof PREFIX || key.size >= sizeof name || memcmp(key.data, PREFIX, sizeof PREFIX - 1) != 0)
            continue;
        memcpy(name, key.data, key.size);
        name[key.size] = 0;
        st = copy_key(&v->keys, s, name, type, err);
    }
    return st;
}

/* --- a GGUF's vocabulary as tokenizer.json --- */

static status vocab_objects(const source *s, json_t *vocab, json_t *added, error *err)
{
    for (uint64_t i = 0; i < s->tokens.count; i++) {
        span text = model_array_string(&s->tokens, i);
        int64_t type = s->typed && i < s->types.count ? model_array_i64(&s->types, i) : TOKEN_NORMAL;
        bool special = type == TOKEN_CONTROL || type == TOKEN_UNKNOWN;
        int failed = 0;
        if (type == TOKEN_UNUSED)
            continue;
        if (special || type == TOKEN_USER)
            failed = json_array_append_new(added, json_pack("{sI ss% sb sb sb sb sb}", "id", (json_int_t)i, "content",
                                                            text.data, text.size, "single_word", 0, "lstrip", 0,
                                                            "rstrip", 0, "normalized", 0, "special", special));
        failed |= json_object_setn_new(vocab, text.data, text.size, json_integer((json_int_t)i)); /* added ones too */
        if (failed)
            return error_set(err, ERR_INVALID, "%s: token %llu is no UTF-8", model_file_path(s->file),
                             (unsigned long long)i);
    }
    return OK;
}

static status make_json(synth_vocab *v, const source *s, error *err)
{
    span model = span_of("", 0), pre = span_of("", 0);
    bool nfc = false;
    model_file_string(s->file, "tokenizer.ggml.model", &model, NULL);
    model_file_string(s->file, "tokenizer.ggml.pre", &pre, NULL);
    json_t *pretokenizer = span_is(model, "gpt2") ? synth_pretok_json(pre, &nfc) : NULL;
    if (!pretokenizer)
        return error_set(err, ERR_UNSUPPORTED,
                         "%s: tokenizer %.*s / %.*s cannot be written as a tokenizer.json; give the model's own",
                         model_file_path(s->file), (int)model.size, model.data, (int)pre.size, pre.data);
    json_t *vocab = json_object(), *added = json_array(), *merges = json_array();
    status st = vocab_objects(s, vocab, added, err);
    model_array list;
    if (model_file_array(s->file, "tokenizer.ggml.merges", &list, NULL) == OK && list.element == MV_STRING)
        for (uint64_t i = 0; i < list.count; i++) {
            span text = model_array_string(&list, i);
            json_array_append_new(merges, json_stringn(text.data, text.size));
        }
    v->json =
        json_pack("{ss sn sn so so? so sn s{ss sb sb sb} s{ss sn sn sn sn sb sb sb so so}}", "version", "1.0",
                  "truncation", "padding", "added_tokens", added, "normalizer",
                  nfc ? json_pack("{ss}", "type", "NFC") : NULL, "pre_tokenizer", pretokenizer, "post_processor",
                  "decoder", "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", 1, "use_regex", 1, "model",
                  "type", "BPE", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
                  0, "byte_fallback", 0, "ignore_merges", span_is(pre, "llama-bpe"), "vocab", vocab, "merges", merges);
    if (!st && !v->json)
        st = error_set(err, ERR_MEMORY, "out of memory for the vocabulary");
    return st;
}

static status read_source(source *s, uint32_t size, error *err)
{
    s->size = size;
    status st = model_file_array(s->file, "tokenizer.ggml.tokens", &s->tokens, err);
    if (st == ERR_NOT_FOUND || (!st && s->tokens.element != MV_STRING))
        return error_set(err, ERR_INVALID, "%s: holds no vocabulary (tokenizer.ggml.tokens)", model_file_path(s->file));
    if (!st && s->tokens.count > size)
        return error_set(err, ERR_INVALID, "%s: %llu tokens, vocab_size of the config is %u", model_file_path(s->file),
                         (unsigned long long)s->tokens.count, size);
    s->typed = model_file_array(s->file, "tokenizer.ggml.token_type", &s->types, NULL) == OK &&
               s->types.element != MV_STRING && s->types.element != MV_F32 && s->types.element != MV_F64;
    return st;
}

status synth_vocab_from_gguf(synth_vocab *out, const char *path, uint32_t size, bool gguf, error *err)
{
    model_file *file = NULL;
    tokenizer *checked = NULL;
    status st = model_file_open(&file, path, err);
    if (st)
        return st;
    source s = {.file = file};
    span text;
    st = read_source(&s, size, err);
    if (!st)
        st = tokenizer_spec_from_gguf(&checked, file, err);
    if (!st) {
        out->token_count = (uint32_t)s.tokens.count;
        find_ids(out, file);
        if (chat_template_from_gguf(&text, file, NULL) == OK)
            buf_append(&out->chat_template, text.data, text.size);
        st = gguf ? copy_keys(out, &s, err) : make_json(out, &s, err);
    }
    tokenizer_destroy(checked);
    model_file_close(file);
    return st;
}
