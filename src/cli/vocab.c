/* cli/vocab.c: model metadata to tokenizer_spec. */
#include "cli/vocab.h"

#include <stdio.h>
#include <stdlib.h>

#include "sim/byte_vocab.h"

#define KEY(name) "tokenizer.ggml." name

typedef struct {
    tokenizer_spec spec;
    span *tokens, *merges;
    float *scores;
    int32_t *types;
} vocab_arrays;

static void free_arrays(vocab_arrays *a)
{
    free(a->tokens);
    free(a->merges);
    free(a->scores);
    free(a->types);
}

static status read_strings(const model_file *file, const char *key, span **out, uint32_t *count, error *err)
{
    model_array array;
    status st = model_file_array(file, key, &array, err);
    if (st)
        return st;
    if (array.element != MV_STRING || array.count > 1u << 24)
        return error_set(err, ERR_INVALID, "%s: %s: want an array of strings", model_file_path(file), key);
    *out = malloc((array.count + 1) * sizeof **out);
    if (!*out)
        return error_set(err, ERR_MEMORY, "out of memory for %s", key);
    for (uint64_t i = 0; i < array.count; i++)
        (*out)[i] = model_array_string(&array, i);
    *count = (uint32_t)array.count;
    return OK;
}

/* Scores and types: optional, as long as the tokens. */
static status read_token_numbers(const model_file *file, vocab_arrays *a, error *err)
{
    model_array scores, types;
    status st = model_file_array(file, KEY("scores"), &scores, err);
    if (st == OK && scores.element != MV_STRING && scores.count == a->spec.token_count) {
        a->scores = malloc((scores.count + 1) * sizeof *a->scores);
        for (uint64_t i = 0; a->scores && i < scores.count; i++)
            a->scores[i] = (float)model_array_f64(&scores, i);
    } else if (st != ERR_NOT_FOUND) {
        return st ? st
                  : error_set(err, ERR_INVALID, "%s: %s: want one number for each token", model_file_path(file),
                              KEY("scores"));
    }
    st = model_file_array(file, KEY("token_type"), &types, err);
    if (st == OK && types.element != MV_STRING && types.element != MV_F32 && types.element != MV_F64 &&
        types.count == a->spec.token_count) {
        a->types = malloc((types.count + 1) * sizeof *a->types);
        for (uint64_t i = 0; a->types && i < types.count; i++)
            a->types[i] = (int32_t)model_array_i64(&types, i);
    } else if (st != ERR_NOT_FOUND) {
        return st ? st
                  : error_set(err, ERR_INVALID, "%s: %s: want one integer for each token", model_file_path(file),
                              KEY("token_type"));
    }
    a->spec.scores = a->scores;
    a->spec.types = a->types;
    return OK;
}

static token_id read_id(const model_file *file, const char *key, uint32_t count)
{
    uint64_t id = 0;
    return model_file_u64(file, key, &id, NULL) == OK && id < count ? (token_id)id : -1;
}

static bool read_flag(const model_file *file, const char *key, bool fallback)
{
    model_file_bool(file, key, &fallback, NULL);
    return fallback;
}

static status read_vocab(const model_file *file, vocab_arrays *a, error *err)
{
    tokenizer_spec *spec = &a->spec;
    status st = model_file_string(file, KEY("model"), &spec->model, err);
    if (st)
        return st;
    st = read_strings(file, KEY("tokens"), &a->tokens, &spec->token_count, err);
    if (st)
        return st;
    spec->tokens = a->tokens;
    if ((st = model_file_string(file, KEY("pre"), &spec->pre, err)) && st != ERR_NOT_FOUND)
        return st;
    if ((st = read_strings(file, KEY("merges"), &a->merges, &spec->merge_count, err)) && st != ERR_NOT_FOUND)
        return st;
    spec->merges = a->merges;
    if ((st = read_token_numbers(file, a, err)))
        return st;
    bool spm = span_is(spec->model, "llama");
    spec->bos = read_id(file, KEY("bos_token_id"), spec->token_count);
    spec->eos = read_id(file, KEY("eos_token_id"), spec->token_count);
    spec->eot = read_id(file, KEY("eot_token_id"), spec->token_count);
    spec->eom = read_id(file, KEY("eom_token_id"), spec->token_count);
    spec->unknown = read_id(file, KEY("unknown_token_id"), spec->token_count);
    spec->pad = read_id(file, KEY("padding_token_id"), spec->token_count);
    spec->add_bos = read_flag(file, KEY("add_bos_token"), spm);
    spec->add_eos = read_flag(file, KEY("add_eos_token"), false);
    spec->add_space_prefix = read_flag(file, KEY("add_space_prefix"), spm);
    spec->ignore_merges = read_flag(file, KEY("ignore_merges"), false);
    return OK;
}

status vocab_from_model(tokenizer **out, const model_file *file, error *err)
{
    vocab_arrays arrays = {0};
    status st = read_vocab(file, &arrays, err);
    if (st == OK)
        st = tokenizer_create(out, &arrays.spec, err);
    else if (st == ERR_NOT_FOUND)
        st = error_set(err, ERR_INVALID, "%s: holds no vocabulary (%s)", model_file_path(file), KEY("tokens"));
    free_arrays(&arrays);
    return st;
}

/* Byte-level vocabularies spell a byte as one character: printable Latin-1 as itself, the others from U+0100 on. */
static size_t spell_byte(unsigned byte, unsigned *next, char out[3])
{
    bool itself = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    unsigned code = itself ? byte : (*next)++;
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    out[0] = (char)(0xc0 | code >> 6);
    out[1] = (char)(0x80 | (code & 63));
    return 2;
}

status vocab_of_bytes(tokenizer **out, error *err)
{
    char texts[256][3];
    span tokens[BYTE_VOCAB_SIZE];
    int32_t types[BYTE_VOCAB_SIZE];
    unsigned next = 256;
    for (unsigned i = 0; i < 256; i++) {
        tokens[i] = span_of(texts[i], spell_byte(i, &next, texts[i]));
        types[i] = TOKEN_NORMAL;
    }
    static const char *const controls[] = {BYTE_VOCAB_END_OF_TEXT_NAME, BYTE_VOCAB_IM_START_NAME,
                                           BYTE_VOCAB_IM_END_NAME};
    for (unsigned i = 256; i < BYTE_VOCAB_SIZE; i++) {
        tokens[i] = span_from(controls[i - 256]);
        types[i] = TOKEN_CONTROL;
    }
    tokenizer_spec spec = {.model = span_from("gpt2"),
                           .pre = span_from("gpt-2"),
                           .tokens = tokens,
                           .types = types,
                           .token_count = BYTE_VOCAB_SIZE,
                           .bos = BYTE_VOCAB_END_OF_TEXT,
                           .eos = BYTE_VOCAB_IM_END,
                           .eot = BYTE_VOCAB_END_OF_TEXT,
                           .eom = -1,
                           .unknown = -1,
                           .pad = BYTE_VOCAB_END_OF_TEXT};
    return tokenizer_create(out, &spec, err);
}
