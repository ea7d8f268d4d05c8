/* cli/synth_vocab.c: tokenizer.json and tokenizer.ggml.* of one vocabulary. */
#include "cli/synth_vocab.h"

#include <stdio.h>
#include <stdlib.h>

#include "cli/synth_pretok.h"
#include "text/tokenizer.h"

enum { JSON_BYTES_MAX = 512 << 20, PADDING_BYTES = 24, CONTROLS = 3, BYTES = 256 };

static const char CHATML[] = "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
                             "{{ message['content'] }}<|im_end|>\n{% endfor %}"
                             "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
static const char *const CONTROL_NAMES[CONTROLS] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};

static status no_memory(error *err)
{
    return error_set(err, ERR_MEMORY, "out of memory for the vocabulary");
}

void synth_vocab_free(synth_vocab *v)
{
    json_decref(v->json);
    json_decref(v->config);
    json_decref(v->eos);
    buf_free(&v->json_text);
    buf_free(&v->config_text);
    buf_free(&v->chat_template);
    gguf_keys_free(&v->keys);
    *v = (synth_vocab){0};
}

/* --- arrays of a GGUF --- */

typedef struct {
    span *tokens;
    int32_t *types;
    char (*padding)[PADDING_BYTES];
    uint32_t size;
} token_table;

static bool table_init(token_table *t, uint32_t size)
{
    t->tokens = calloc(size, sizeof *t->tokens);
    t->types = calloc(size, sizeof *t->types);
    t->padding = calloc(size, sizeof *t->padding);
    t->size = size;
    return t->tokens && t->types && t->padding;
}

static void table_free(token_table *t)
{
    free(t->tokens);
    free(t->types);
    free(t->padding);
}

/* Ids without a text get one that no text contains by chance, and the type "unused". */
static void table_pad(token_table *t)
{
    for (uint32_t i = 0; i < t->size; i++) {
        if (t->tokens[i].data)
            continue;
        int bytes = snprintf(t->padding[i], PADDING_BYTES, "[unused%u]", i);
        t->tokens[i] = span_of(t->padding[i], (size_t)bytes);
        t->types[i] = TOKEN_UNUSED;
    }
}

static void put_table(gguf_keys *keys, const token_table *t, const char *pre, const span *merges, uint64_t merge_count)
{
    gguf_put_text(keys, "tokenizer.ggml.model", span_from("gpt2"));
    gguf_put_text(keys, "tokenizer.ggml.pre", span_from(pre));
    gguf_put_texts(keys, "tokenizer.ggml.tokens", t->tokens, t->size);
    gguf_put_i32s(keys, "tokenizer.ggml.token_type", t->types, t->size);
    gguf_put_texts(keys, "tokenizer.ggml.merges", merges, merge_count);
}

static void put_ids(synth_vocab *v, bool add_bos)
{
    if (json_array_size(v->eos))
        gguf_put_u32(&v->keys, "tokenizer.ggml.eos_token_id", (uint32_t)json_integer_value(json_array_get(v->eos, 0)));
    if (v->bos >= 0)
        gguf_put_u32(&v->keys, "tokenizer.ggml.bos_token_id", (uint32_t)v->bos);
    if (v->pad >= 0)
        gguf_put_u32(&v->keys, "tokenizer.ggml.padding_token_id", (uint32_t)v->pad);
    gguf_put_bool(&v->keys, "tokenizer.ggml.add_bos_token", add_bos && v->bos >= 0);
    if (v->chat_template.size)
        gguf_put_text(&v->keys, "tokenizer.chat_template", buf_span(&v->chat_template));
}

/* --- bytes --- */

/* Byte-level vocabularies spell a byte as one character: printable Latin-1 as itself, the others from U+0100 on. */
static void spell_bytes(char texts[BYTES][4])
{
    unsigned next = 256;
    for (unsigned byte = 0; byte < BYTES; byte++) {
        bool itself = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
        unsigned code = itself ? byte : next++;
        memset(texts[byte], 0, 4);
        if (code < 0x80) {
            texts[byte][0] = (char)code;
        } else {
            texts[byte][0] = (char)(0xc0 | code >> 6);
            texts[byte][1] = (char)(0x80 | (code & 63));
        }
    }
}

static json_t *added_token(int64_t id, const char *text)
{
    return json_pack("{sI ss sb sb sb sb sb}", "id", (json_int_t)id, "content", text, "single_word", 0, "lstrip", 0,
                     "rstrip", 0, "normalized", 0, "special", 1);
}

static json_t *bytes_json(const token_table *t)
{
    json_t *vocab = json_object(), *added = json_array();
    for (uint32_t i = 0; i < t->size; i++)
        json_object_setn_new(vocab, t->tokens[i].data, t->tokens[i].size, json_integer(i));
    for (int i = 0; i < CONTROLS; i++)
        json_array_append_new(added, added_token(BYTES + i, CONTROL_NAMES[i]));
    return json_pack("{ss sn sn so sn s{ss sb sb sb} sn s{ss sb sb sb} s{ss sn sn sn sn sb sb sb so s[]}}", "version",
                     "1.0", "truncation", "padding", "added_tokens", added, "normalizer", "pre_tokenizer", "type",
                     "ByteLevel", "add_prefix_space", 0, "trim_offsets", 1, "use_regex", 1, "post_processor", "decoder",
                     "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", 1, "use_regex", 1, "model", "type",
                     "BPE", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", 0,
                     "byte_fallback", 0, "ignore_merges", 0, "vocab", vocab, "merges");
}

status synth_vocab_bytes(synth_vocab *out, uint32_t size, bool gguf, error *err)
{
    enum { END = BYTES, IM_END = BYTES + 2 };
    char texts[BYTES][4];
    token_table table = {0};
    *out = (synth_vocab){.bos = END, .pad = END, .token_count = BYTES + CONTROLS};
    if (size < BYTES + CONTROLS)
        return error_set(err, ERR_INVALID, "vocab_size: %u, expected at least %d for the vocabulary of bytes", size,
                         BYTES + CONTROLS);
    spell_bytes(texts);
    out->config = json_pack("{ss ss ss ss sb sb}", "tokenizer_class", "PreTrainedTokenizerFast", "bos_token",
                            CONTROL_NAMES[0], "eos_token", CONTROL_NAMES[2], "pad_token", CONTROL_NAMES[0],
                            "add_bos_token", 0, "clean_up_tokenization_spaces", 0);
    out->eos = json_pack("[ii]", IM_END, END);
    buf_text(&out->chat_template, CHATML);
    status st = out->config && out->eos && table_init(&table, size) ? OK : no_memory(err);
    for (uint32_t i = 0; !st && i < BYTES + CONTROLS; i++) {
        table.tokens[i] = span_from(i < BYTES ? texts[i] : CONTROL_NAMES[i - BYTES]);
        table.types[i] = i < BYTES ? TOKEN_NORMAL : TOKEN_CONTROL;
    }
    if (!st)
        table_pad(&table);
    if (!st && gguf) {
        put_table(&out->keys, &table, "gpt-2", NULL, 0);
        put_ids(out, false);
    } else if (!st && !(out->json = bytes_json(&table))) {
        st = no_memory(err);
    }
    table_free(&table);
    return st;
}

/* --- tokenizer.json --- */

static status read_text(const char *path, buf *out, error *err)
{
    FILE *file = fopen(path, "rbe");
    if (!file)
        return error_set(err, ERR_IO, "%s: cannot be opened", path);
    size_t got = 1;
    out->limit = JSON_BYTES_MAX;
    while (got > 0 && buf_reserve(out, 1 << 16)) {
        got = fread(out->data + out->size, 1, 1 << 16, file);
        out->size += got;
    }
    status st = ferror(file)  ? error_set(err, ERR_IO, "%s: cannot be read", path)
                : out->failed ? error_set(err, ERR_LIMIT, "%s: too large", path)
                              : OK;
    fclose(file);
    return st;
}

static status read_beside(const char *path, const char *name, buf *out, error *err)
{
    const char *slash = strrchr(path, '/');
    buf full = {0};
    buf_printf(&full, "%.*s%s", slash ? (int)(slash - path + 1) : 0, path, name);
    FILE *there = full.failed ? NULL : fopen(full.data, "rbe");
    status st = ERR_NOT_FOUND;
    if (there) {
        fclose(there);
        st = read_text(full.data, out, err);
    }
    buf_free(&full);
    return st;
}

static status parse_json(const char *path, const buf *text, size_t flags, json_t **out, error *err)
{
    json_error_t why;
    *out = json_loadb(text->data ? text->data : "", text->size, flags, &why);
    if (!*out)
        return error_set(err, ERR_INVALID, "%s: line %d: %s", path, why.line, why.text);
    return json_is_object(*out) ? OK : error_set(err, ERR_INVALID, "%s: expected a JSON object", path);
}

/* Names that end an answer in one family or another, the chat's end before the text's. */
static const char *const ENDS[] = {"<|im_end|>",    "<end_of_turn>", "<|eot_id|>",      "</s>",
                                   "<|endoftext|>", "<eos>",         "<|end_of_text|>", NULL};
static const char *const STARTS[] = {"<|begin_of_text|>", "<bos>", "<s>", NULL};

static int64_t id_named(const json_t *tokenizer, const char *name)
{
    const json_t *entry, *id = json_object_get(json_object_get(json_object_get(tokenizer, "model"), "vocab"), name);
    size_t i;
    json_array_foreach(json_object_get(tokenizer, "added_tokens"), i, entry)
    {
        const char *content = json_string_value(json_object_get(entry, "content"));
        if (content && strcmp(content, name) == 0)
            id = json_object_get(entry, "id");
    }
    return json_is_integer(id) ? json_integer_value(id) : -1;
}

static void find_ids(synth_vocab *v)
{
    v->eos = json_array();
    v->bos = v->pad = -1;
    for (size_t i = 0; ENDS[i]; i++) {
        int64_t id = id_named(v->json, ENDS[i]);
        if (id >= 0)
            json_array_append_new(v->eos, json_integer(id));
    }
    for (size_t i = 0; STARTS[i] && v->bos < 0; i++)
        v->bos = id_named(v->json, STARTS[i]);
}

static status read_side_files(synth_vocab *v, const char *path, error *err)
{
    status st = read_beside(path, "tokenizer_config.json", &v->config_text, err);
    if (!st) /* some hold an integer larger than any */
        st = parse_json("tokenizer_config.json", &v->config_text, JSON_DECODE_INT_AS_REAL, &v->config, err);
    if (st && st != ERR_NOT_FOUND)
        return st;
    st = read_beside(path, "chat_template.jinja", &v->chat_template, err);
    const char *inside = json_string_value(json_object_get(v->config, "chat_template"));
    if (st == ERR_NOT_FOUND && inside)
        buf_text(&v->chat_template, inside);
    return st == ERR_NOT_FOUND ? OK : st;
}

static status set_token(token_table *t, const json_t *id, const char *text, size_t bytes, int32_t type, error *err)
{
    json_int_t number = json_is_integer(id) ? json_integer_value(id) : -1;
    if (number < 0 || number >= (json_int_t)t->size)
        return error_set(err, ERR_INVALID, "the tokenizer has token id %lld, vocab_size of the config is %u",
                         (long long)number, t->size);
    t->tokens[number] = span_of(text, bytes);
    t->types[number] = type;
    return OK;
}

static status fill_table(token_table *t, const json_t *tokenizer, error *err)
{
    json_t *vocab = json_object_get(json_object_get(tokenizer, "model"), "vocab"), *id;
    const char *text;
    status st = OK;
    json_object_foreach(vocab, text, id)
    {
        if ((st = set_token(t, id, text, strlen(text), TOKEN_NORMAL, err)))
            return st;
    }
    const json_t *added;
    size_t i;
    json_array_foreach(json_object_get(tokenizer, "added_tokens"), i, added)
    {
        const json_t *content = json_object_get(added, "content");
        if (!json_is_string(content))
            return error_set(err, ERR_INVALID, "tokenizer.json: an added token has no content");
        int32_t type = json_is_true(json_object_get(added, "special")) ? TOKEN_CONTROL : TOKEN_USER;
        if ((st = set_token(t, json_object_get(added, "id"), json_string_value(content), json_string_length(content),
                            type, err)))
            return st;
    }
    return OK;
}

/* "a b", or ["a", "b"] in newer files. `joined` owns what had to be put together. */
static status read_merges(const json_t *list, span *merges, buf *joined, error *err)
{
    size_t i;
    const json_t *entry;
    for (int pass = 0; pass < 2; pass++) { /* sizes first: the text must not move afterwards */
        size_t at = 0;
        json_array_foreach(list, i, entry)
        {
            const char *left = json_string_value(json_array_get(entry, 0));
            const char *right = json_string_value(json_array_get(entry, 1));
            if (json_is_string(entry)) {
                merges[i] = span_of(json_string_value(entry), json_string_length(entry));
                continue;
            }
            if (!left || !right)
                return error_set(err, ERR_INVALID, "tokenizer.json: merge %zu is no pair of texts", i);
            size_t bytes = strlen(left) + 1 + strlen(right);
            if (pass == 0)
                buf_printf(joined, "%s %s", left, right);
            else
                merges[i] = span_of(joined->data + at, bytes);
            at += bytes;
        }
    }
    return joined->failed ? no_memory(err) : OK;
}

static status json_to_keys(synth_vocab *v, uint32_t size, const char *path, error *err)
{
    const json_t *model = json_object_get(v->json, "model"), *list = json_object_get(model, "merges");
    const char *pre = synth_pretok_name(v->json);
    if (!pre)
        return error_set(err, ERR_UNSUPPORTED,
                         "%s: a GGUF has no name for its pre_tokenizer here; give a GGUF with that vocabulary", path);
    token_table table = {0};
    buf joined = {0};
    size_t count = json_array_size(list);
    span *merges = calloc(count + 1, sizeof *merges);
    status st = merges && table_init(&table, size) ? fill_table(&table, v->json, err) : no_memory(err);
    if (!st)
        st = read_merges(list, merges, &joined, err);
    if (!st) {
        table_pad(&table);
        put_table(&v->keys, &table, pre, merges, count);
        put_ids(v, strcmp(pre, "llama-bpe") == 0);
    }
    free(merges);
    buf_free(&joined);
    table_free(&table);
    return st;
}

static status load_json(synth_vocab *v, const char *path, uint32_t size, bool gguf, error *err)
{
    tokenizer *checked = NULL;
    status st = read_text(path, &v->json_text, err);
    if (!st)
        st = parse_json(path, &v->json_text, 0, &v->json, err);
    if (!st && (st = tokenizer_create_json(&checked, buf_span(&v->json_text), span_of("", 0), err)))
        error_prefix(err, st, "%s", path);
    if (!st && tokenizer_vocab_size(checked) > size)
        st = error_set(err, ERR_INVALID, "%s: %u tokens, vocab_size of the config is %u", path,
                       tokenizer_vocab_size(checked), size);
    if (!st) {
        v->token_count = tokenizer_vocab_size(checked);
        find_ids(v);
        st = read_side_files(v, path, err);
    }
    if (!st && gguf)
        st = json_to_keys(v, size, path, err);
    tokenizer_destroy(checked);
    return st;
}

status synth_vocab_load(synth_vocab *out, const char *path, uint32_t size, bool gguf, error *err)
{
    *out = (synth_vocab){.bos = -1, .pad = -1};
    char magic[4] = {0};
    FILE *file = fopen(path, "rbe");
    if (!file)
        return error_set(err, ERR_IO, "%s: cannot be opened", path);
    bool is_gguf = fread(magic, 1, sizeof magic, file) == sizeof magic && memcmp(magic, "GGUF", 4) == 0;
    fclose(file);
    return is_gguf ? synth_vocab_from_gguf(out, path, size, gguf, err) : load_json(out, path, size, gguf, err);
}
