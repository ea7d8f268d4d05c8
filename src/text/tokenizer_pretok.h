/* text/tokenizer_pretok.h: where may no merge cross?
 * The pre-tokenizer: a chain of steps, each cutting or rewriting the pieces of the one before; what leaves the last
 * step goes to BPE. Immutable once built: any thread; a pretok_run belongs to one call. */
#ifndef HEADWAY_TEXT_TOKENIZER_PRETOK_H
#define HEADWAY_TEXT_TOKENIZER_PRETOK_H

#include "text/tokenizer_regex.h"

typedef enum { SPLIT_REMOVED, SPLIT_ISOLATED, SPLIT_WITH_PREVIOUS, SPLIT_WITH_NEXT, SPLIT_CONTIGUOUS } split_behavior;

typedef enum {
    PRETOK_SPLIT,      /* at the matches of a pattern */
    PRETOK_PREFIX,     /* put `text` before a piece that does not start with it */
    PRETOK_SUBSTITUTE, /* `text` for each space */
    PRETOK_BYTES,      /* each byte becomes its character of the byte-level alphabet */
} pretok_kind;

typedef struct {
    pretok_kind kind;
    regex *pattern; /* SPLIT; owned */
    split_behavior behavior;
    bool invert;     /* SPLIT: cut at what does not match */
    bool first_only; /* PREFIX: only where the whole text starts */
    buf text;        /* PREFIX, SUBSTITUTE */
} pretok_step;

enum { PRETOK_STEPS_MAX = 16 };
typedef struct {
    pretok_step steps[PRETOK_STEPS_MAX];
    size_t count;
} pretokenizer;

/* Copies `step` and takes ownership of what it holds (also on failure). */
status pretokenizer_add(pretokenizer *p, pretok_step step, error *err);
void pretokenizer_free(pretokenizer *p);

typedef struct {
    const pretokenizer *pretok;
    regex_scratch *regex;
    status (*emit)(void *user, span piece, error *err);
    void *user;
    buf work[PRETOK_STEPS_MAX]; /* zero-initialise; pretok_run_free */
} pretok_run;

/* `first`: the piece stands at the start of the whole text. */
status pretok_run_piece(pretok_run *run, span piece, bool first, error *err);
void pretok_run_free(pretok_run *run);

/* The byte-level alphabet: the code point that stands for a byte, and back (-1: not of the alphabet). */
uint32_t byte_level_code(unsigned char byte);
int byte_level_byte(uint32_t code);

#endif
