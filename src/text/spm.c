/* text/spm.c: SentencePiece's ranking as an order of merges.
 * A piece's score ranks the merges that make it, best first. User-defined pieces have no useful score: SentencePiece
 * takes the longest of them wherever one fits, so the merges that make them come before all others, longest first.
 * Where one token can be made of two different pairs, the pair with the longer left part wins (bpe.c), as in the
 * converted merge lists. */
#include "text/bpe.h"

#include <stdlib.h>

#include "text/tokenizer_utf8.h"

typedef struct {
    token_id id;
    uint32_t size;
    float score;
    bool user;
} ranked;

static int by_rank(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->user != y->user)
        return x->user ? -1 : 1;
    if (x->user && x->size != y->size)
        return x->size > y->size ? -1 : 1;
    if (!x->user && x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

static bool mergeable(const vocab_entry *e)
{
    return e->present && e->model && (e->type == TOKEN_NORMAL || e->type == TOKEN_USER || e->type == TOKEN_UNDEFINED);
}

/* --- cutting at the ends of words: a long text is one piece, and a heap of all its pairs would not fit a cache --- */

static bool is_space(const char *text)
{
    return memcmp(text, SPM_SPACE, 3) == 0;
}

/* The code point before `at`, which is not the start. */
static uint32_t code_before(span text, size_t at)
{
    do
        at--;
    while (at && ((unsigned char)text.data[at] & 0xC0) == 0x80);
    return utf8_code(text.data + at);
}

static bool is_joiner(const bpe_model *m, uint32_t code)
{
    for (uint32_t i = 0; i < m->joiner_count; i++)
        if (m->joiners[i] == code)
            return true;
    return false;
}

/* The first space at or after `from` that follows something else than a space; its predecessor in *code. */
static size_t word_end(span text, size_t from, uint32_t *code)
{
    for (size_t at = from ? from : 1; at + 3 <= text.size; at++) {
        if (!is_space(text.data + at))
            continue;
        *code = code_before(text, at);
        if (*code != 0x2581)
            return at;
    }
    return text.size;
}

/* Notes what the token holds before an inner space; false: too many kinds, or not text. */
static bool note_joiners(bpe_model *m, span text)
{
    uint32_t code;
    if (text.size < 4)
        return true;
    if (utf8_valid_prefix(text) < text.size)
        return false;
    for (size_t at = word_end(text, 1, &code); at < text.size; at = word_end(text, at + 3, &code)) {
        if (is_joiner(m, code))
            continue;
        if (m->joiner_count == SPM_JOINERS_MAX)
            return false;
        m->joiners[m->joiner_count++] = code;
    }
    return true;
}

size_t spm_cut(const bpe_model *m, span piece)
{
    uint32_t code;
    size_t at = word_end(piece, 1, &code);
    while (at < piece.size && is_joiner(m, code))
        at = word_end(piece, at + 3, &code);
    return at;
}

status spm_model_order(bpe_model *m, const float *scores, error *err)
{
    const vocab *v = m->vocab;
    ranked *list = malloc(v->count * sizeof *list);
    m->order = malloc(v->count * sizeof *m->order);
    if (!list || !m->order) {
        free(list);
        return error_set(err, ERR_MEMORY, "out of memory for %u token scores", v->count);
    }
    uint32_t count = 0;
    m->cuts = vocab_find_model(v, span_from(SPM_SPACE)) >= 0; /* else runs of unknown characters would be cut */
    for (uint32_t id = 0; id < v->count; id++) {
        m->order[id] = UINT32_MAX;
        const vocab_entry *e = &v->entries[id];
        if (!mergeable(e))
            continue;
        m->cuts = m->cuts && note_joiners(m, vocab_text(v, (token_id)id));
        float score = scores ? scores[id] : -(float)id;
        if (score != score)
            score = -3.0e38f; /* NaN would make the order undefined */
        list[count++] = (ranked){(token_id)id, e->size, score, e->type == TOKEN_USER};
    }
    qsort(list, count, sizeof *list, by_rank);
    for (uint32_t i = 0; i < count; i++)
        m->order[list[i].id] = i;
    free(list);
    return OK;
}
