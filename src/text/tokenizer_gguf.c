/* text/tokenizer_gguf.c: a tokenizer from what a GGUF holds.
 * A GGUF names its pre-tokenizer instead of spelling it; the table below holds the spellings. Which Unicode form comes
 * first is not in the file either: it follows from the name (the models' own tokenizer.json says so). */
#include <stdlib.h>

#include "text/tokenizer_parts.h"
#include "text/tokenizer_utf8.h"

#define GPT2_PATTERN "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)"
#define LLAMA3_HEAD "(?i:'s|'t|'re|'ve|'m|'ll|'d)|"
#define LLAMA3_TAIL "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

typedef struct {
    const char *names[5];
    const char *patterns[5]; /* applied one after the other */
    bool nfc, ignore_merges;
} gguf_pretok;

static const gguf_pretok known[] = {
    {{"gpt-2", "gpt2", "mpt", "olmo", "phi-2"}, {GPT2_PATTERN}, false, false},
    {{"smollm", "starcoder", "refact"}, {"\\p{N}", GPT2_PATTERN}, false, false},
    {{"command-r"}, {"\\p{N}", GPT2_PATTERN}, true, false},
    {{"llama-bpe", "llama3", "llama-v3"},
     {LLAMA3_HEAD "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}" LLAMA3_TAIL},
     false,
     true},
    {{"qwen2"}, {LLAMA3_HEAD "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" LLAMA3_TAIL}, true, false},
    {{"qwen35"},
     {LLAMA3_HEAD "[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}"
                  "| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
     true,
     false},
    {{"deepseek-v3"},
     {"\\p{N}{1,3}", "[\xE4\xB8\x80-\xE9\xBE\xA5\xE3\x81\x80-\xE3\x82\x9F\xE3\x82\xA0-\xE3\x83\xBF]+",
      "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|"
      " ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
     false,
     false},
    {{"default", ""}, {"[\\p{P}\\$\\+<=>\\^~\\|]+", GPT2_PATTERN, "\\p{N}+", "[0-9][0-9][0-9]"}, false, false},
};

static const gguf_pretok *find_pretok(span name)
{
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        for (size_t j = 0; j < 5 && known[i].names[j]; j++)
            if (span_is(name, known[i].names[j]))
                return &known[i];
    return NULL;
}

static int show(span s)
{
    return (int)(s.size > 64 ? 64 : s.size);
}

/* --- the vocabulary --- */

static bool all_visible_ascii(span text)
{
    for (size_t i = 0; i < text.size; i++)
        if (text.data[i] <= 0x20 || text.data[i] >= 0x7F)
            return false;
    return true;
}

/* May merges make it? Never what is control: text would turn into it. A user-defined text of a byte-level vocabulary is
 * plain text among texts in the byte-level alphabet, so only where the two read alike. */
static bool is_model_token(token_type type, span text, bool byte_level)
{
    if (type == TOKEN_CONTROL || type == TOKEN_UNKNOWN)
        return false;
    return type != TOKEN_USER || !byte_level || all_visible_ascii(text);
}

static status set_token(tokenizer *t, token_id id, span text, int32_t raw_type, bool byte_level, error *err)
{
    if (raw_type < TOKEN_UNDEFINED || raw_type > TOKEN_BYTE)
        return error_set(err, ERR_INVALID, "tokenizer.ggml.token_type: token %d has type %d, expected 0 to 6", id,
                         raw_type);
    token_type type = (token_type)raw_type;
    bool plain = false;
    if (tokenizer_eog_text(text, &plain) && !plain)
        type = TOKEN_CONTROL; /* some files forget to say so, and then text could end an answer */
    if (byte_level || !memchr(text.data ? text.data : "", ' ', text.size))
        return vocab_set(&t->vocab, id, text, type, is_model_token(type, text, byte_level), err);
    buf spaced = {0}; /* converters undo U+2581 in user-defined tokens */
    for (size_t i = 0; i < text.size; i++)
        if (text.data[i] == ' ')
            buf_text(&spaced, SPM_SPACE);
        else
            buf_byte(&spaced, text.data[i]);
    status st = spaced.failed
                    ? error_set(err, ERR_MEMORY, "out of memory for the vocabulary")
                    : vocab_set(&t->vocab, id, buf_span(&spaced), type, is_model_token(type, text, false), err);
    buf_free(&spaced);
    return st;
}

static status fill_vocab(tokenizer *t, const tokenizer_spec *spec, bool byte_level, error *err)
{
    status st = vocab_init(&t->vocab, spec->token_count, err);
    for (uint32_t i = 0; !st && i < spec->token_count; i++)
        st = set_token(t, (token_id)i, spec->tokens[i], spec->types ? spec->types[i] : TOKEN_NORMAL, byte_level, err);
    if (!st)
        st = vocab_index(&t->vocab, err);
    for (uint32_t i = 0; !st && i < spec->token_count; i++) {
        token_type type = vocab_type(&t->vocab, (token_id)i);
        if (type != TOKEN_CONTROL && type != TOKEN_UNKNOWN && type != TOKEN_USER)
            continue;
        added_token a = {.text = vocab_text(&t->vocab, (token_id)i), .id = (token_id)i, .special = type != TOKEN_USER};
        if (utf8_valid_prefix(a.text) < a.text.size)
            continue; /* no text can spell it */
        if (!added_set_add(&t->added, &a))
            st = error_set(err, ERR_MEMORY, "out of memory for the vocabulary");
    }
    added_set_seal(&t->added);
    return st;
}

static status fill_merges(tokenizer *t, const tokenizer_spec *spec, error *err)
{
    status st = bpe_model_reserve(&t->bpe, spec->merge_count, err);
    for (uint32_t i = 0; !st && i < spec->merge_count; i++) {
        span m = spec->merges[i];
        const char *space = m.size > 1 ? memchr(m.data + 1, ' ', m.size - 1) : NULL;
        if (!space)
            return error_set(err, ERR_INVALID,
                             "tokenizer.ggml.merges: merge %u \"%.*s\" has no space between two parts", i, show(m),
                             m.data);
        span left = span_of(m.data, (size_t)(space - m.data));
        span right = span_of(space + 1, m.size - left.size - 1);
        st = bpe_model_add(&t->bpe, left, right, i, err);
        if (st == ERR_INVALID && vocab_find(&t->vocab, left) >= 0 && vocab_find(&t->vocab, right) >= 0)
            st = OK; /* makes, or is made of, a control token: never done */
        if (st)
            return error_prefix(err, st, "tokenizer.ggml.merges");
    }
    return st;
}

/* --- the two kinds --- */

static status build_byte_level(tokenizer *t, const tokenizer_spec *spec, error *err)
{
    const gguf_pretok *pre = find_pretok(spec->pre);
    if (!pre)
        return error_set(err, ERR_UNSUPPORTED,
                         "tokenizer.ggml.pre: pre-tokenizer \"%.*s\" is not known here; its splits would be wrong",
                         show(spec->pre), spec->pre.data);
    status st = fill_vocab(t, spec, true, err);
    if (st)
        return st;
    bpe_model_init(&t->bpe, &t->vocab);
    t->bpe.ignore_merges = spec->ignore_merges || pre->ignore_merges;
    st = fill_merges(t, spec, err);
    if (!st && pre->nfc)
        st = normalizer_add(&t->normalizer, NORMALIZE_NFC, NULL, span_of("", 0), err);
    for (size_t i = 0; !st && i < 5 && pre->patterns[i]; i++)
        st = tokenizer_add_split(t, span_from(pre->patterns[i]), SPLIT_ISOLATED, err);
    if (!st)
        st = pretokenizer_add(&t->pretok, (pretok_step){.kind = PRETOK_BYTES}, err);
    t->decode = DECODE_BYTE_LEVEL;
    return st;
}

static status build_sentencepiece(tokenizer *t, const tokenizer_spec *spec, error *err)
{
    status st = fill_vocab(t, spec, false, err);
    if (st)
        return st;
    bpe_model_init(&t->bpe, &t->vocab);
    t->bpe.byte_fallback = t->bpe.fuse_unknown = true;
    t->bpe.unknown = spec->unknown;
    st = spm_model_order(&t->bpe, spec->scores, err);
    if (!st && spec->add_space_prefix)
        st = normalizer_add(&t->normalizer, NORMALIZE_PREPEND, NULL, span_from(SPM_SPACE), err);
    if (!st) {
        pretok_step spaces = {.kind = PRETOK_SUBSTITUTE};
        buf_text(&spaces.text, SPM_SPACE);
        st = pretokenizer_add(&t->pretok, spaces, err);
    }
    t->decode = DECODE_SPACES;
    t->drop_first_space = spec->add_space_prefix;
    return st;
}

static status check_id(const tokenizer_spec *spec, const char *name, token_id id, error *err)
{
    if (id < -1 || (id >= 0 && (uint32_t)id >= spec->token_count))
        return error_set(err, ERR_INVALID, "tokenizer.ggml.%s_token_id is %d, outside the vocabulary of %u", name, id,
                         spec->token_count);
    return OK;
}

static status check_spec(const tokenizer_spec *spec, error *err)
{
    const struct {
        const char *name;
        token_id id;
    } ids[] = {{"bos", spec->bos}, {"eos", spec->eos},         {"eot", spec->eot},
               {"eom", spec->eom}, {"unknown", spec->unknown}, {"padding", spec->pad}};
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        status st = check_id(spec, ids[i].name, ids[i].id, err);
        if (st)
            return st;
    }
    return OK;
}

static status build(tokenizer *t, const tokenizer_spec *spec, error *err)
{
    status st = check_spec(spec, err);
    if (st)
        return st;
    if (span_is(spec->model, "gpt2"))
        st = build_byte_level(t, spec, err);
    else if (span_is(spec->model, "llama"))
        st = build_sentencepiece(t, spec, err);
    else
        st = error_set(err, ERR_UNSUPPORTED,
                       "tokenizer.ggml.model: \"%.*s\" is not supported, only \"gpt2\" and \"llama\"",
                       show(spec->model), spec->model.data);
    if (st)
        return st;
    t->bos = spec->bos;
    t->eos = spec->eos;
    if ((spec->add_bos && t->bos >= 0 && !token_list_push(&t->prefix, t->bos)) ||
        (spec->add_eos && t->eos >= 0 && !token_list_push(&t->suffix, t->eos)))
        return error_set(err, ERR_MEMORY, "out of memory for a tokenizer");
    st = tokenizer_collect_eog(t, err);
    if (!st)
        st = tokenizer_add_eog(t, spec->eot, err);
    return st ? st : tokenizer_add_eog(t, spec->eom, err);
}

status tokenizer_create(tokenizer **out, const tokenizer_spec *spec, error *err)
{
    *out = NULL;
    tokenizer *t = tokenizer_new(err);
    if (!t)
        return ERR_MEMORY;
    status st = build(t, spec, err);
    if (st) {
        tokenizer_destroy(t);
        return st;
    }
    *out = t;
    return OK;
}
