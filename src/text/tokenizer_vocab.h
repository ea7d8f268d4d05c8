/* text/tokenizer_vocab.h: which id has this text, and which text has this id?
 * Owns copies of all texts. Built once (init, reserve, add…, index), then read-only: any thread. Ids may have holes. */
#ifndef HEADWAY_TEXT_TOKENIZER_VOCAB_H
#define HEADWAY_TEXT_TOKENIZER_VOCAB_H

#include "base/buf.h"
#include "base/error.h"
#include "text/tokenizer.h"

enum { VOCAB_MAX = 1 << 24, TOKEN_TEXT_MAX = 1 << 16 }; /* ids; bytes of one text */

typedef struct {
    uint32_t offset;
    uint32_t size : 20;
    uint32_t type : 3;  /* token_type */
    uint32_t model : 1; /* merges may produce it: it is in the BPE vocabulary proper */
    uint32_t present : 1;
} vocab_entry;

typedef struct {
    buf texts;
    vocab_entry *entries; /* count */
    uint32_t count;
    uint32_t *all_slots, *model_slots; /* open addressing: id + 1; 0 free */
    uint32_t slot_mask;
    uint32_t longest; /* bytes of the longest model text */
} vocab;

status vocab_init(vocab *v, uint32_t count, error *err);
/* Sets the text of `id`. A second text for one id is refused when it differs. */
status vocab_set(vocab *v, token_id id, span text, token_type type, bool model, error *err);
status vocab_index(vocab *v, error *err); /* builds both tables; the lowest id wins where two have one text */
void vocab_free(vocab *v);

token_id vocab_find(const vocab *v, span text);       /* any token; -1: none */
token_id vocab_find_model(const vocab *v, span text); /* of the BPE vocabulary; -1: none */

static inline span vocab_text(const vocab *v, token_id id)
{
    if (id < 0 || (uint32_t)id >= v->count)
        return span_of(NULL, 0);
    return span_of(v->texts.data + v->entries[id].offset, v->entries[id].size);
}

static inline token_type vocab_type(const vocab *v, token_id id)
{
    return id < 0 || (uint32_t)id >= v->count ? TOKEN_UNDEFINED : (token_type)v->entries[id].type;
}

#endif
