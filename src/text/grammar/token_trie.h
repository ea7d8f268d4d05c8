/* text/grammar/token_trie.h: the bytes of a vocabulary's tokens as a tree, in depth-first order. Immutable. */
#ifndef HEADWAY_TEXT_GRAMMAR_TOKEN_TRIE_H
#define HEADWAY_TEXT_GRAMMAR_TOKEN_TRIE_H

#include "text/tokenizer.h"

enum {
    /* A longer token is never allowed (runs of blanks and dashes, as a rule): others spell the same text. So what a
     * token can see of a counted repetition is short, and most places in a bounded string are alike. */
    TOKEN_BYTES_MAX = 32
};

typedef struct {
    uint32_t skip;         /* the first node behind this one's subtree */
    uint32_t first, count; /* its tokens, in `tokens` */
    uint8_t byte;
} trie_node;

typedef struct {
    trie_node *nodes; /* children of the root and what is below; the root itself is not one */
    uint32_t node_count;
    uint32_t *tokens;  /* by bytes */
    uint32_t *offsets; /* (vocab + 1): of each token's bytes; none for those that add nothing to a text */
    char *bytes;
    uint32_t vocab, longest; /* longest: bytes of a token */
    bool drops_space;        /* a text's first token loses a blank at its start */
} token_trie;

status token_trie_init(token_trie *out, const tokenizer *t, uint32_t vocab, error *err);
void token_trie_free(token_trie *t);

static inline span token_trie_bytes(const token_trie *t, int32_t token)
{
    if (token < 0 || (uint32_t)token >= t->vocab)
        return (span){0};
    return span_of(t->bytes + t->offsets[token], t->offsets[token + 1] - t->offsets[token]);
}

#endif
