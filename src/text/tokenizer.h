/* text/tokenizer.h: text to token ids and back, equal to the Hugging Face `tokenizers` package id for id.
 * Byte-level BPE and SentencePiece-style BPE, from a vocabulary (GGUF arrays) or from tokenizer.json. Immutable after
 * creation: any thread may encode and decode at once. Linear time in the text. */
#ifndef HEADWAY_TEXT_TOKENIZER_H
#define HEADWAY_TEXT_TOKENIZER_H

#include "base/error.h"
#include "base/buf.h"
#include "base/span.h"

typedef int32_t token_id;
typedef struct tokenizer tokenizer;

typedef enum {
    TOKEN_UNDEFINED,
    TOKEN_NORMAL,
    TOKEN_UNKNOWN,
    TOKEN_CONTROL,
    TOKEN_USER,
    TOKEN_UNUSED,
    TOKEN_BYTE
} token_type;

typedef struct { /* what a GGUF holds; all spans are copied by tokenizer_create */
    span model;  /* "gpt2" or "llama" */
    span pre;    /* pre-tokenizer name, "" when absent */
    const span *tokens;
    const float *scores;  /* NULL allowed */
    const int32_t *types; /* token_type; NULL: all normal */
    uint32_t token_count;
    const span *merges; /* "a b" */
    uint32_t merge_count;
    token_id bos, eos, eot, eom, unknown, pad; /* -1: none */
    bool add_bos, add_eos, add_space_prefix, ignore_merges;
} tokenizer_spec;

status tokenizer_create(tokenizer **out, const tokenizer_spec *spec, error *err);
/* `json`: the text of a tokenizer.json (Hugging Face format), `config`: of tokenizer_config.json, may be empty. */
status tokenizer_create_json(tokenizer **out, span json, span config, error *err);
void tokenizer_destroy(tokenizer *t); /* NULL is allowed */

typedef struct {
    token_id *ids;
    size_t count, capacity;
} token_list;                                        /* zero-initialise; token_list_free */
bool token_list_push(token_list *list, token_id id); /* false: out of memory */
void token_list_free(token_list *list);

enum {
    TOKENIZE_SPECIALS = 1, /* control tokens spelled in the text become their ids */
    TOKENIZE_BOS_EOS = 2   /* add bos/eos as the model wants */
};
/* Appends the ids of `text` (invalid UTF-8 allowed). */
status tokenizer_encode(const tokenizer *t, span text, unsigned flags, token_list *out, error *err);

/* A rendered prompt with provenance: in pieces with `trusted` (written by the template) control tokens are parsed; in
 * others (message text) what spells a control token stays text. Pieces are joined as one text: merges never see the
 * borders, except where a control token stands. */
typedef struct {
    span text;
    bool trusted;
} text_piece;
status tokenizer_encode_pieces(const tokenizer *t, const text_piece *pieces, size_t count, unsigned flags,
                               token_list *out, error *err);

uint32_t tokenizer_vocab_size(const tokenizer *t);
token_id tokenizer_bos(const tokenizer *t);
token_id tokenizer_eos(const tokenizer *t);
span tokenizer_token_text(const tokenizer *t, token_id id); /* as stored in the vocabulary; empty if out of range */
/* Appends the bytes that a token adds to a text, not necessarily whole characters; nothing for control tokens. */
void tokenizer_token_bytes(const tokenizer *t, token_id id, buf *out);
bool tokenizer_drops_first_space(const tokenizer *t);   /* a text's first token does not add the blank it begins with */
token_id tokenizer_find(const tokenizer *t, span text); /* exact stored text -> id, or -1 */
bool tokenizer_is_control(const tokenizer *t, token_id id);
bool tokenizer_is_eog(const tokenizer *t, token_id id); /* ends a generation: eos, eot, eom and by text (formats.md) */
/* All ids that end a generation; the array lives as long as the tokenizer. */
const token_id *tokenizer_eog(const tokenizer *t, size_t *count);

/* Streaming decode. push appends the bytes that are now certain to `out`: never half a character; an invalid byte
 * becomes U+FFFD exactly as the whole-text decode would; finish flushes what is held back. */
typedef struct {
    char held[16];
    uint32_t held_size;
    bool started;       /* SentencePiece: the first piece drops its space prefix */
    bool keep_specials; /* print control tokens */
} detokenizer;          /* zero-initialise */
void detokenizer_push(detokenizer *d, const tokenizer *t, token_id id, buf *out);
void detokenizer_finish(detokenizer *d, buf *out);
void tokenizer_decode(const tokenizer *t, const token_id *ids, size_t count, bool keep_specials, buf *out);

#endif
