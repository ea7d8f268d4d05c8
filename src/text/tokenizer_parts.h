/* text/tokenizer_parts.h: what a tokenizer is made of; for the files that build one (tokenizer_gguf.c,
 * tokenizer_json.c) and that use one (tokenizer.c, detokenizer.c). Nobody else includes it. Immutable once sealed. */
#ifndef HEADWAY_TEXT_TOKENIZER_PARTS_H
#define HEADWAY_TEXT_TOKENIZER_PARTS_H

#include "text/bpe.h"
#include "text/tokenizer.h"
#include "text/tokenizer_added.h"
#include "text/tokenizer_normalize.h"
#include "text/tokenizer_pretok.h"
#include "text/tokenizer_vocab.h"

typedef enum {
    DECODE_RAW,        /* texts as they are */
    DECODE_BYTE_LEVEL, /* the byte-level alphabet, back to bytes */
    DECODE_SPACES,     /* U+2581 is a space, <0xXX> a byte */
} decode_kind;

struct tokenizer {
    vocab vocab;
    bpe_model bpe;
    normalizer normalizer;
    pretokenizer pretok;
    added_set added;            /* searched in the text as it came */
    added_set added_normalized; /* searched after normalization */
    decode_kind decode;
    bool drop_first_space; /* when decoding */
    token_id bos, eos;
    token_list prefix, suffix; /* what TOKENIZE_BOS_EOS adds */
    token_list eog;
};

/* Adds an id to the end-of-generation set, once; -1 is ignored. */
status tokenizer_add_eog(tokenizer *t, token_id id, error *err);
/* Whether a token of this text ends a generation by its text alone; such a token is a control token. `plain`: the text
 * is also seen in documents (like </s>), so it counts only if the vocabulary says that it is a control token. */
bool tokenizer_eog_text(span text, bool *plain);
/* Adds eos, eot, eom and what ends a generation by text. */
status tokenizer_collect_eog(tokenizer *t, error *err);
tokenizer *tokenizer_new(error *err); /* NULL: out of memory */

/* Appends a pre-tokenizer step that splits at `pattern`. */
status tokenizer_add_split(tokenizer *t, span pattern, split_behavior behavior, error *err);

#endif
