/* text/bpe.h: which tokens make up this piece of text?
 * Byte-pair encoding as the `tokenizers` package does it: one symbol for each character, then the best-ranked adjacent
 * pair is merged until none is left, ties leftmost. What may merge is a table of pairs (byte-level BPE), or any pair
 * whose joined text is a token, ranked by the token's score (SentencePiece, spm.c). A model is immutable once built:
 * any thread; the scratch belongs to one call. O(n log n) in the piece. */
#ifndef HEADWAY_TEXT_BPE_H
#define HEADWAY_TEXT_BPE_H

#include "text/tokenizer_vocab.h"

enum { BPE_QUICK_CODES = 0x400, BPE_MERGES_MAX = 1 << 24, SPM_JOINERS_MAX = 16 };

typedef struct {
    token_id left, right, id; /* lies at the index of its rank */
} bpe_pair;

typedef struct {
    const vocab *vocab;   /* borrowed */
    bpe_pair *pairs;      /* by rank; NULL for SentencePiece */
    uint32_t *pair_slots; /* open addressing: rank + 1; 0: free */
    uint32_t pair_mask, pair_capacity;
    uint32_t *order;    /* SentencePiece: by id, which merged token comes first; UINT32_MAX: never made by a merge */
    bool ignore_merges; /* a piece that is a token is that token */
    bool byte_fallback, fuse_unknown;
    bool cuts; /* SentencePiece: no token goes on over a word's end, joiners aside, so words are merged one by one */
    uint32_t joiners[SPM_JOINERS_MAX]; /* characters that some token holds right before a space */
    uint32_t joiner_count;
    token_id unknown; /* -1: characters without a token vanish */
    token_id byte_ids[256];
    token_id quick_ids[BPE_QUICK_CODES]; /* by code point */
} bpe_model;

/* `vocab` is indexed already. Fills byte_ids from the texts <0x00>…<0xFF> and quick_ids. */
void bpe_model_init(bpe_model *m, const vocab *v);
void bpe_model_free(bpe_model *m);

/* Each rank below merge_count at most once; a later duplicate of a pair replaces an earlier one. ERR_INVALID: a part or
 * the result is not in the vocabulary. */
status bpe_model_reserve(bpe_model *m, size_t merge_count, error *err);
status bpe_model_add(bpe_model *m, span left, span right, uint32_t rank, error *err);

/* SentencePiece: ranks by score (NULL: by id); user-defined texts come first, longest first. */
status spm_model_order(bpe_model *m, const float *scores, error *err);

/* Where the piece may be cut first: no merge crosses that point. piece.size: nowhere. */
size_t spm_cut(const bpe_model *m, span piece);

typedef struct {
    token_id id;
    uint32_t start, size; /* bytes in the piece */
    uint32_t prev, next;
    bool fixed; /* a byte or the unknown token: its id does not spell the text, never merges by text */
} bpe_symbol;

typedef struct {
    uint64_t rank;
    uint32_t at; /* index of the left symbol */
    token_id id; /* what the merge makes */
} bpe_candidate;

typedef struct {
    bpe_symbol *symbols;
    bpe_candidate *heap;
    size_t symbol_count, symbol_capacity, heap_count, heap_capacity;
} bpe_scratch; /* zero-initialise; bpe_scratch_free */
void bpe_scratch_free(bpe_scratch *s);

#define SPM_SPACE "\xE2\x96\x81" /* U+2581, which stands for a space */

enum { BPE_PIECE_MAX = 1 << 30 };
/* `piece`: valid UTF-8. false: out of memory. */
bool bpe_encode(const bpe_model *m, span piece, bpe_scratch *s, token_list *out);

#endif
