/* cli/synth_vocab.h: the text side of a synthetic model: a vocabulary of bytes, or a real one. Owner: the caller;
 * synth_vocab_free. One thread. */
#ifndef HEADWAY_CLI_SYNTH_VOCAB_H
#define HEADWAY_CLI_SYNTH_VOCAB_H

#include <jansson.h>

#include "model/write/gguf_keys.h"

typedef struct {
    buf json_text, config_text; /* both as they were given; empty: made from the objects */
    json_t *json;               /* tokenizer.json */
    json_t *config;             /* tokenizer_config.json */
    buf chat_template;          /* Jinja; empty: none */
    json_t *eos;                /* ids that end an answer, the usual one first */
    int64_t bos, pad;           /* -1: none */
    gguf_keys keys;             /* tokenizer.* of a GGUF */
    uint32_t token_count;       /* without padding */
} synth_vocab;

/* 256 bytes and three control tokens of ChatML; the rest of `size` ids is marked unused. `gguf`: made for a GGUF file,
 * else for a directory. */
status synth_vocab_bytes(synth_vocab *out, uint32_t size, bool gguf, error *err);
/* From a tokenizer.json (with the tokenizer_config.json and chat_template.jinja beside it) or a GGUF; `gguf`: made for
 * a GGUF file, else for a directory. `size`: rows of the embedding; the tokens must fit. */
status synth_vocab_load(synth_vocab *out, const char *path, uint32_t size, bool gguf, error *err);
void synth_vocab_free(synth_vocab *v);

#endif
