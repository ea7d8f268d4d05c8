/* text/tokenizer_added.h: which added tokens (control, user-defined) does the text spell?
 * Leftmost, and longest of those that start there. Immutable once sealed: any thread. A search costs at most the
 * longest token's length for each byte of text. */
#ifndef HEADWAY_TEXT_TOKENIZER_ADDED_H
#define HEADWAY_TEXT_TOKENIZER_ADDED_H

#include "base/error.h"
#include "base/span.h"
#include "text/tokenizer.h"

typedef struct {
    span text; /* owned by the set */
    token_id id;
    bool special; /* a control token: parsed in trusted text only */
    bool lstrip, rstrip, single_word;
} added_token;

typedef struct {
    added_token *tokens; /* sorted by text once sealed */
    uint32_t count, capacity;
    uint32_t first[257]; /* tokens starting with byte b: [first[b], first[b + 1]) */
} added_set;             /* zero-initialise; added_set_free */

bool added_set_add(added_set *set, const added_token *token); /* copies the text; false: out of memory */
void added_set_seal(added_set *set);                          /* sorts; of two with one text the first added stays */
void added_set_free(added_set *set);

/* The first position at or after `at` where a token could start, or text.size. */
size_t added_set_candidate(const added_set *set, span text, size_t at);
/* The longest token that starts at text[at] and ends at or before `end`; NULL: none. */
const added_token *added_set_longest(const added_set *set, span text, size_t at, size_t end);

bool added_is_space(uint32_t code); /* Unicode White_Space */
/* A letter, mark, digit or connector stands right before (after) `at`. */
bool added_word_before(span text, size_t at);
bool added_word_after(span text, size_t at);

#endif
