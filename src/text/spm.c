/* text/spm.c: SentencePiece's ranking as an order of merges.
 * A piece's score ranks the merges that make it, best first. User-defined pieces have no useful score: SentencePiece
 * takes the longest of them wherever one fits, so the merges that make them come before all others, longest first.
 * Where one token can be made of two different pairs, the pair with the longer left part wins (bpe.c), as in the
 * converted merge lists. */
#include "text/bpe.h"

#include <stdlib.h>

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
    for (uint32_t id = 0; id < v->count; id++) {
        m->order[id] = UINT32_MAX;
        const vocab_entry *e = &v->entries[id];
        if (!mergeable(e))
            continue;
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
