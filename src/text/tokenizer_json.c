/* text/tokenizer_json.c: a tokenizer from a tokenizer.json.
 * The file spells out a pipeline: normalizer, pre_tokenizer, model, post_processor, decoder. Each part is translated to
 * the steps that tokenizer.c runs, or refused by name: a part left out would give other ids without a word. */
#include <jansson.h>
#include <stdlib.h>

#include "text/tokenizer_parts.h"
#include "text/tokenizer_utf8.h"

#define GPT2_REGEX "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

enum { NESTING_MAX = 8, HOLES_MAX = 65536 }; /* ids without a text: more would be a lie that costs memory */

/* --- reading JSON --- */

static span string_of(const json_t *value)
{
    return json_is_string(value) ? span_of(json_string_value(value), json_string_length(value)) : span_of("", 0);
}

static span string_at(const json_t *object, const char *key)
{
    return string_of(json_object_get(object, key));
}

static bool flag_at(const json_t *object, const char *key, bool absent)
{
    const json_t *value = json_object_get(object, key);
    return json_is_boolean(value) ? json_is_true(value) : absent;
}

static int show(span s)
{
    return (int)(s.size > 64 ? 64 : s.size);
}

static status unsupported(error *err, const char *part, const json_t *value)
{
    span type = string_at(value, "type");
    return error_set(err, ERR_UNSUPPORTED, "tokenizer.json: %s of type \"%.*s\" is not supported", part, show(type),
                     type.data);
}

static status no_memory(error *err)
{
    return error_set(err, ERR_MEMORY, "out of memory for tokenizer.json");
}

/* A pattern object, {"String": …} or {"Regex": …}. */
static status pattern_of(const json_t *pattern, regex **out, error *err)
{
    const json_t *text = json_object_get(pattern, "String"), *expression = json_object_get(pattern, "Regex");
    if (json_is_string(text) && json_string_length(text))
        return regex_compile_literal(out, string_of(text), err);
    if (json_is_string(expression))
        return regex_compile(out, string_of(expression), err);
    return error_set(err, ERR_INVALID, "tokenizer.json: a pattern has neither \"String\" nor \"Regex\"");
}

/* --- normalizer --- */

static status read_normalizer(tokenizer *t, const json_t *n, int depth, error *err)
{
    static const struct {
        const char *name;
        normalize_kind kind;
    } forms[] = {{"NFC", NORMALIZE_NFC}, {"NFD", NORMALIZE_NFD}, {"NFKC", NORMALIZE_NFKC}, {"NFKD", NORMALIZE_NFKD}};
    if (!n || json_is_null(n))
        return OK;
    span type = string_at(n, "type");
    for (size_t i = 0; i < 4; i++)
        if (span_is(type, forms[i].name))
            return normalizer_add(&t->normalizer, forms[i].kind, NULL, span_of("", 0), err);
    if (span_is(type, "Prepend"))
        return normalizer_add(&t->normalizer, NORMALIZE_PREPEND, NULL, string_at(n, "prepend"), err);
    if (span_is(type, "Replace")) {
        regex *pattern = NULL;
        status st = pattern_of(json_object_get(n, "pattern"), &pattern, err);
        return st ? st : normalizer_add(&t->normalizer, NORMALIZE_REPLACE, pattern, string_at(n, "content"), err);
    }
    if (!span_is(type, "Sequence") || depth == NESTING_MAX)
        return unsupported(err, "normalizer", n);
    size_t i;
    json_t *step;
    json_array_foreach(json_object_get(n, "normalizers"), i, step)
    {
        status st = read_normalizer(t, step, depth + 1, err);
        if (st)
            return st;
    }
    return OK;
}

/* --- pre_tokenizer --- */

static status add_rewrite(tokenizer *t, pretok_kind kind, span text, bool first_only, error *err)
{
    pretok_step step = {.kind = kind, .first_only = first_only};
    buf_append(&step.text, text.data, text.size);
    return pretokenizer_add(&t->pretok, step, err);
}

static status read_behavior(const json_t *p, split_behavior *out, error *err)
{
    static const struct {
        const char *name;
        split_behavior behavior;
    } behaviors[] = {{"Removed", SPLIT_REMOVED},
                     {"Isolated", SPLIT_ISOLATED},
                     {"MergedWithPrevious", SPLIT_WITH_PREVIOUS},
                     {"MergedWithNext", SPLIT_WITH_NEXT},
                     {"Contiguous", SPLIT_CONTIGUOUS}};
    span name = string_at(p, "behavior");
    for (size_t i = 0; i < 5; i++) {
        if (span_is(name, behaviors[i].name)) {
            *out = behaviors[i].behavior;
            return OK;
        }
    }
    return error_set(err, ERR_UNSUPPORTED, "tokenizer.json: pre_tokenizer behavior \"%.*s\" is not supported",
                     show(name), name.data);
}

static status read_split(tokenizer *t, const json_t *p, error *err)
{
    pretok_step step = {.kind = PRETOK_SPLIT, .invert = flag_at(p, "invert", false)};
    status st = read_behavior(p, &step.behavior, err);
    if (!st)
        st = pattern_of(json_object_get(p, "pattern"), &step.pattern, err);
    return st ? st : pretokenizer_add(&t->pretok, step, err);
}

static status read_byte_level(tokenizer *t, const json_t *p, error *err)
{
    status st = OK;
    if (flag_at(p, "add_prefix_space", true))
        st = add_rewrite(t, PRETOK_PREFIX, span_from(" "), false, err);
    if (!st && flag_at(p, "use_regex", true))
        st = tokenizer_add_split(t, span_from(GPT2_REGEX), SPLIT_ISOLATED, err);
    return st ? st : pretokenizer_add(&t->pretok, (pretok_step){.kind = PRETOK_BYTES}, err);
}

static status read_metaspace(tokenizer *t, const json_t *p, error *err)
{
    span mark = string_at(p, "replacement"), scheme = string_at(p, "prepend_scheme");
    if (mark.size == 0)
        mark = span_from(SPM_SPACE);
    if (scheme.size == 0)
        scheme = span_from(flag_at(p, "add_prefix_space", true) ? "always" : "never");
    status st = add_rewrite(t, PRETOK_SUBSTITUTE, mark, false, err);
    if (!st && !span_is(scheme, "never"))
        st = add_rewrite(t, PRETOK_PREFIX, mark, span_is(scheme, "first"), err);
    if (st || !flag_at(p, "split", true))
        return st;
    pretok_step step = {.kind = PRETOK_SPLIT, .behavior = SPLIT_WITH_NEXT};
    st = regex_compile_literal(&step.pattern, mark, err);
    return st ? st : pretokenizer_add(&t->pretok, step, err);
}

static status read_words(tokenizer *t, error *err)
{
    pretok_step step = {.kind = PRETOK_SPLIT, .behavior = SPLIT_REMOVED, .invert = true};
    status st = regex_compile(&step.pattern, span_from("\\w+|[^\\w\\s]+"), err);
    return st ? st : pretokenizer_add(&t->pretok, step, err);
}

static status read_pretokenizer(tokenizer *t, const json_t *p, int depth, error *err)
{
    if (!p || json_is_null(p))
        return OK;
    span type = string_at(p, "type");
    if (span_is(type, "Split"))
        return read_split(t, p, err);
    if (span_is(type, "ByteLevel"))
        return read_byte_level(t, p, err);
    if (span_is(type, "Metaspace"))
        return read_metaspace(t, p, err);
    if (span_is(type, "Digits"))
        return tokenizer_add_split(t, span_from("\\p{N}"),
                                   flag_at(p, "individual_digits", false) ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS, err);
    if (span_is(type, "WhitespaceSplit"))
        return tokenizer_add_split(t, span_from("\\s"), SPLIT_REMOVED, err);
    if (span_is(type, "Whitespace"))
        return read_words(t, err);
    if (!span_is(type, "Sequence") || depth == NESTING_MAX)
        return unsupported(err, "pre_tokenizer", p);
    size_t i;
    json_t *step;
    json_array_foreach(json_object_get(p, "pretokenizers"), i, step)
    {
        status st = read_pretokenizer(t, step, depth + 1, err);
        if (st)
            return st;
    }
    return OK;
}

/* --- model: vocabulary, added tokens, merges --- */

static status id_of(const json_t *value, token_id *out, error *err)
{
    json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;
    if (id < 0 || id >= VOCAB_MAX)
        return error_set(err, ERR_INVALID, "tokenizer.json: a token id is no integer from 0 to %d", VOCAB_MAX - 1);
    *out = (token_id)id;
    return OK;
}

/* The id of an added token: the model's, if the model has that text. */
static status added_id(const json_t *vocab, const json_t *added, token_id *out, error *err)
{
    span content = string_at(added, "content");
    const json_t *known = content.size ? json_object_getn(vocab, content.data, content.size) : NULL;
    return id_of(known ? known : json_object_get(added, "id"), out, err);
}

static status size_vocab(tokenizer *t, json_t *vocab, const json_t *added, error *err)
{
    const char *key;
    json_t *value;
    size_t i;
    token_id id, last = -1;
    json_object_foreach(vocab, key, value)
    {
        status st = id_of(value, &id, err);
        if (st)
            return st;
        last = id > last ? id : last;
    }
    json_array_foreach(added, i, value)
    {
        status st = added_id(vocab, value, &id, err);
        if (st)
            return st;
        last = id > last ? id : last;
    }
    size_t listed = json_object_size(vocab) + json_array_size(added);
    if (last >= 0 && (size_t)last >= 2 * listed + HOLES_MAX)
        return error_set(err, ERR_INVALID, "tokenizer.json: token id %d, but only %zu tokens are listed", last, listed);
    return vocab_init(&t->vocab, (uint32_t)(last + 1), err);
}

static bool is_byte_text(span text)
{
    return text.size == 6 && memcmp(text.data, "<0x", 3) == 0 && text.data[5] == '>';
}

static status fill_vocab(tokenizer *t, const json_t *model, const json_t *added, error *err)
{
    json_t *vocab = json_object_get(model, "vocab"), *value;
    status st = size_vocab(t, vocab, added, err);
    if (st)
        return st;
    bool bytes = flag_at(model, "byte_fallback", false);
    for (void *at = json_object_iter(vocab); at; at = json_object_iter_next(vocab, at)) {
        span text = span_of(json_object_iter_key(at), json_object_iter_key_len(at));
        token_type type = bytes && is_byte_text(text) ? TOKEN_BYTE : TOKEN_NORMAL;
        st = vocab_set(&t->vocab, (token_id)json_integer_value(json_object_iter_value(at)), text, type, true, err);
        if (st)
            return st;
    }
    size_t i;
    json_array_foreach(added, i, value)
    {
        token_id id = -1;
        bool special = flag_at(value, "special", false);
        st = added_id(vocab, value, &id, err);
        if (!st)
            st =
                vocab_set(&t->vocab, id, string_at(value, "content"), special ? TOKEN_CONTROL : TOKEN_USER, false, err);
        if (st)
            return st;
        if (special)
            t->vocab.entries[id].model = false; /* no merge makes a control token */
    }
    return vocab_index(&t->vocab, err);
}

static status add_one(tokenizer *t, const json_t *vocab, const json_t *value, regex_scratch *s, buf work[2], error *err)
{
    added_token a = {.text = string_at(value, "content"),
                     .special = flag_at(value, "special", false),
                     .lstrip = flag_at(value, "lstrip", false),
                     .rstrip = flag_at(value, "rstrip", false),
                     .single_word = flag_at(value, "single_word", false)};
    bool normalized = flag_at(value, "normalized", false);
    status st = added_id(vocab, value, &a.id, err);
    if (!st && normalized)
        st = normalizer_apply(&t->normalizer, s, a.text, work, &a.text, err);
    if (!st && !added_set_add(normalized ? &t->added_normalized : &t->added, &a))
        st = no_memory(err);
    return st;
}

/* Two rounds: special tokens come first where two have one text. */
static status fill_added(tokenizer *t, const json_t *model, const json_t *added, error *err)
{
    regex_scratch *s = regex_scratch_create();
    buf work[2] = {{0}, {0}};
    status st = s ? OK : no_memory(err);
    for (int round = 0; !st && round < 2; round++) {
        size_t i;
        json_t *value;
        json_array_foreach(added, i, value)
        {
            if (!st && flag_at(value, "special", false) == (round == 0))
                st = add_one(t, json_object_get(model, "vocab"), value, s, work, err);
        }
    }
    added_set_seal(&t->added);
    added_set_seal(&t->added_normalized);
    buf_free(&work[0]);
    buf_free(&work[1]);
    regex_scratch_free(s);
    return st;
}

/* A merge is "left right" or ["left", "right"]. */
static status merge_parts(const json_t *merge, uint32_t rank, span *left, span *right, error *err)
{
    span whole = string_of(merge);
    const char *space = whole.size ? memchr(whole.data, ' ', whole.size) : NULL;
    if (json_is_array(merge) && json_array_size(merge) == 2) {
        *left = string_of(json_array_get(merge, 0));
        *right = string_of(json_array_get(merge, 1));
    } else if (space) {
        *left = span_of(whole.data, (size_t)(space - whole.data));
        *right = span_of(space + 1, whole.size - left->size - 1);
    } else {
        return error_set(err, ERR_INVALID, "tokenizer.json: merge %u is no pair", rank);
    }
    return OK;
}

static status fill_merges(tokenizer *t, const json_t *model, error *err)
{
    const json_t *merges = json_object_get(model, "merges");
    status st = bpe_model_reserve(&t->bpe, json_array_size(merges), err);
    size_t i;
    json_t *merge;
    json_array_foreach(merges, i, merge)
    {
        span left, right;
        if (!st)
            st = merge_parts(merge, (uint32_t)i, &left, &right, err);
        if (st)
            return st;
        st = bpe_model_add(&t->bpe, left, right, (uint32_t)i, err);
        if (st == ERR_INVALID && vocab_find(&t->vocab, left) >= 0 && vocab_find(&t->vocab, right) >= 0)
            st = OK; /* makes, or is made of, a control token: never done */
        if (st)
            return error_prefix(err, st, "tokenizer.json");
    }
    return st;
}

static status check_model(const json_t *model, error *err)
{
    span type = string_at(model, "type");
    if (type.size && !span_is(type, "BPE"))
        return unsupported(err, "a model", model);
    if (!json_is_object(json_object_get(model, "vocab")) || !json_is_array(json_object_get(model, "merges")))
        return error_set(err, ERR_INVALID, "tokenizer.json: model has no \"vocab\" object or no \"merges\" array");
    if (json_number_value(json_object_get(model, "dropout")) > 0)
        return error_set(err, ERR_UNSUPPORTED, "tokenizer.json: model.dropout is not supported");
    if (string_at(model, "continuing_subword_prefix").size || string_at(model, "end_of_word_suffix").size)
        return error_set(err, ERR_UNSUPPORTED,
                         "tokenizer.json: model.continuing_subword_prefix and end_of_word_suffix are not supported");
    return OK;
}

static status build_model(tokenizer *t, const json_t *model, const json_t *added, error *err)
{
    status st = check_model(model, err);
    if (!st)
        st = fill_vocab(t, model, added, err);
    if (st)
        return st;
    bpe_model_init(&t->bpe, &t->vocab);
    t->bpe.ignore_merges = flag_at(model, "ignore_merges", false);
    t->bpe.byte_fallback = flag_at(model, "byte_fallback", false);
    t->bpe.fuse_unknown = flag_at(model, "fuse_unk", false);
    span unknown = string_at(model, "unk_token");
    if (unknown.size) {
        t->bpe.unknown = vocab_find(&t->vocab, unknown);
        if (t->bpe.unknown < 0)
            return error_set(err, ERR_INVALID, "tokenizer.json: unk_token \"%.*s\" is not in the vocabulary",
                             show(unknown), unknown.data);
    }
    st = fill_merges(t, model, err);
    return st ? st : fill_added(t, model, added, err);
}

/* --- post_processor, decoder, config --- */

static status read_template(tokenizer *t, const json_t *p, bool *templated, error *err)
{
    token_list *to = &t->prefix;
    size_t i, j;
    json_t *item, *id;
    *templated = true;
    json_array_foreach(json_object_get(p, "single"), i, item)
    {
        if (json_object_get(item, "Sequence")) {
            to = &t->suffix;
            continue;
        }
        span name = string_at(json_object_get(item, "SpecialToken"), "id");
        const json_t *special = json_object_get(p, "special_tokens");
        const json_t *known = name.size ? json_object_getn(special, name.data, name.size) : NULL;
        json_array_foreach(json_object_get(known, "ids"), j, id)
        {
            token_id value = -1;
            status st = id_of(id, &value, err);
            if (st)
                return st;
            if ((uint32_t)value >= t->vocab.count)
                return error_set(err, ERR_INVALID, "tokenizer.json: post_processor token %d is outside the vocabulary",
                                 value);
            if (!token_list_push(to, value))
                return no_memory(err);
        }
    }
    return OK;
}

static status read_post_processor(tokenizer *t, const json_t *p, int depth, bool *templated, error *err)
{
    if (!p || json_is_null(p))
        return OK;
    span type = string_at(p, "type");
    if (span_is(type, "ByteLevel"))
        return OK; /* moves offsets, not ids */
    if (span_is(type, "TemplateProcessing"))
        return read_template(t, p, templated, err);
    if (!span_is(type, "Sequence") || depth == NESTING_MAX)
        return unsupported(err, "post_processor", p);
    size_t i;
    json_t *step;
    json_array_foreach(json_object_get(p, "processors"), i, step)
    {
        status st = read_post_processor(t, step, depth + 1, templated, err);
        if (st)
            return st;
    }
    return OK;
}

static status read_decoder(tokenizer *t, const json_t *d, int depth, error *err)
{
    if (!d || json_is_null(d))
        return OK;
    span type = string_at(d, "type");
    if (span_is(type, "ByteLevel")) {
        t->decode = DECODE_BYTE_LEVEL;
    } else if (span_is(type, "Metaspace")) {
        t->decode = DECODE_SPACES;
        t->drop_first_space = !span_is(string_at(d, "prepend_scheme"), "never") && flag_at(d, "add_prefix_space", true);
    } else if (span_is(type, "ByteFallback") ||
               (span_is(type, "Replace") && span_is(string_at(json_object_get(d, "pattern"), "String"), SPM_SPACE) &&
                span_is(string_at(d, "content"), " "))) {
        t->decode = DECODE_SPACES;
    } else if (span_is(type, "Strip") && span_is(string_at(d, "content"), " ") &&
               json_integer_value(json_object_get(d, "stop")) == 0) {
        t->drop_first_space = json_integer_value(json_object_get(d, "start")) > 0;
    } else if (span_is(type, "Sequence") && depth < NESTING_MAX) {
        size_t i;
        json_t *step;
        json_array_foreach(json_object_get(d, "decoders"), i, step)
        {
            status st = read_decoder(t, step, depth + 1, err);
            if (st)
                return st;
        }
    } else if (!span_is(type, "Fuse")) {
        return unsupported(err, "decoder", d);
    }
    return OK;
}

/* A special token of tokenizer_config.json: "text" or {"content": "text"}. */
static token_id config_token(const tokenizer *t, const json_t *config, const char *key)
{
    const json_t *value = json_object_get(config, key);
    return vocab_find(&t->vocab, json_is_object(value) ? string_at(value, "content") : string_of(value));
}

static status read_config(tokenizer *t, const json_t *config, bool templated, error *err)
{
    t->bos = config_token(t, config, "bos_token");
    t->eos = config_token(t, config, "eos_token");
    if (!config && t->prefix.count)
        t->bos = t->prefix.ids[0];
    if (!templated && flag_at(config, "add_bos_token", false) && t->bos >= 0 && !token_list_push(&t->prefix, t->bos))
        return no_memory(err);
    if (!templated && flag_at(config, "add_eos_token", false) && t->eos >= 0 && !token_list_push(&t->suffix, t->eos))
        return no_memory(err);
    return tokenizer_collect_eog(t, err);
}

static status build(tokenizer *t, const json_t *root, const json_t *config, error *err)
{
    bool templated = false;
    status st = read_normalizer(t, json_object_get(root, "normalizer"), 0, err);
    if (!st)
        st = read_pretokenizer(t, json_object_get(root, "pre_tokenizer"), 0, err);
    if (!st)
        st = build_model(t, json_object_get(root, "model"), json_object_get(root, "added_tokens"), err);
    if (!st)
        st = read_post_processor(t, json_object_get(root, "post_processor"), 0, &templated, err);
    if (!st)
        st = read_decoder(t, json_object_get(root, "decoder"), 0, err);
    return st ? st : read_config(t, config, templated, err);
}

/* The config says things like model_max_length 10^30, which is no integer to jansson: JSON_DECODE_INT_AS_REAL. */
static json_t *parse(span text, const char *name, size_t flags, error *err)
{
    json_error_t where;
    json_t *root = json_loadb(text.data ? text.data : "", text.size, JSON_ALLOW_NUL | flags, &where);
    if (root && json_is_object(root))
        return root;
    if (root)
        error_set(err, ERR_INVALID, "%s: the text is no JSON object", name);
    else
        error_set(err, ERR_INVALID, "%s: line %d: %s", name, where.line, where.text);
    json_decref(root);
    return NULL;
}

status tokenizer_create_json(tokenizer **out, span json, span config, error *err)
{
    *out = NULL;
    json_t *root = parse(json, "tokenizer.json", 0, err), *settings = NULL;
    if (!root)
        return ERR_INVALID;
    if (config.size && !(settings = parse(config, "tokenizer_config.json", JSON_DECODE_INT_AS_REAL, err))) {
        json_decref(root);
        return ERR_INVALID;
    }
    tokenizer *t = tokenizer_new(err);
    status st = t ? build(t, root, settings, err) : ERR_MEMORY;
    json_decref(root);
    json_decref(settings);
    if (st) {
        tokenizer_destroy(t);
        return st;
    }
    *out = t;
    return OK;
}
