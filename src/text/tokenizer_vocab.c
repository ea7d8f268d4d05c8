/* text/tokenizer_vocab.c: two open-addressing tables over one array of texts. */
#include "text/tokenizer_vocab.h"

#include <stdlib.h>
#include <xxhash.h>

status vocab_init(vocab *v, uint32_t count, error *err)
{
    *v = (vocab){0};
    if (count == 0 || count > VOCAB_MAX)
        return error_set(err, ERR_INVALID, "vocabulary of %u tokens: 1 to %d are supported", count, VOCAB_MAX);
    v->entries = calloc(count, sizeof *v->entries);
    if (!v->entries)
        return error_set(err, ERR_MEMORY, "out of memory for a vocabulary of %u tokens", count);
    v->count = count;
    return OK;
}

status vocab_set(vocab *v, token_id id, span text, token_type type, bool model, error *err)
{
    if (id < 0 || (uint32_t)id >= v->count)
        return error_set(err, ERR_INVALID, "token id %d is outside the vocabulary of %u", id, v->count);
    if (text.size > TOKEN_TEXT_MAX)
        return error_set(err, ERR_INVALID, "token %d has %zu bytes of text: at most %d are supported", id, text.size,
                         TOKEN_TEXT_MAX);
    vocab_entry *e = &v->entries[id];
    if (e->present) {
        if (!span_equal(vocab_text(v, id), text))
            return error_set(err, ERR_INVALID, "token id %d has two texts, \"%.*s\" and \"%.*s\"", id,
                             e->size > 64 ? 64 : (int)e->size, v->texts.data + e->offset,
                             (int)(text.size > 64 ? 64 : text.size), text.data);
        e->type = type;
        e->model |= model;
        return OK;
    }
    if (v->texts.size > UINT32_MAX - TOKEN_TEXT_MAX)
        return error_set(err, ERR_LIMIT, "the texts of the vocabulary have over 4 GB");
    *e = (vocab_entry){(uint32_t)v->texts.size, (uint32_t)text.size, type, model, true};
    buf_append(&v->texts, text.data, text.size);
    return v->texts.failed ? error_set(err, ERR_MEMORY, "out of memory for the vocabulary") : OK;
}

static uint32_t slot_of(const vocab *v, const uint32_t *slots, span text)
{
    uint32_t at = (uint32_t)XXH3_64bits(text.data, text.size) & v->slot_mask;
    while (slots[at] && !span_equal(vocab_text(v, (token_id)slots[at] - 1), text))
        at = (at + 1) & v->slot_mask;
    return at;
}

status vocab_index(vocab *v, error *err)
{
    uint32_t slots = 16;
    while ((uint64_t)slots * 3 < (uint64_t)v->count * 4)
        slots *= 2;
    v->slot_mask = slots - 1;
    v->all_slots = calloc(slots, sizeof *v->all_slots);
    v->model_slots = calloc(slots, sizeof *v->model_slots);
    if (!v->all_slots || !v->model_slots)
        return error_set(err, ERR_MEMORY, "out of memory for a vocabulary of %u tokens", v->count);
    for (uint32_t id = 0; id < v->count; id++) {
        const vocab_entry *e = &v->entries[id];
        if (!e->present || e->size == 0)
            continue;
        span text = vocab_text(v, (token_id)id);
        uint32_t at = slot_of(v, v->all_slots, text);
        if (!v->all_slots[at])
            v->all_slots[at] = id + 1;
        if (!e->model)
            continue;
        if (e->size > v->longest)
            v->longest = e->size;
        at = slot_of(v, v->model_slots, text);
        if (!v->model_slots[at])
            v->model_slots[at] = id + 1;
    }
    return OK;
}

void vocab_free(vocab *v)
{
    buf_free(&v->texts);
    free(v->entries);
    free(v->all_slots);
    free(v->model_slots);
    *v = (vocab){0};
}

token_id vocab_find(const vocab *v, span text)
{
    return text.size ? (token_id)v->all_slots[slot_of(v, v->all_slots, text)] - 1 : -1;
}

token_id vocab_find_model(const vocab *v, span text)
{
    if (text.size == 0 || text.size > v->longest)
        return -1;
    return (token_id)v->model_slots[slot_of(v, v->model_slots, text)] - 1;
}
