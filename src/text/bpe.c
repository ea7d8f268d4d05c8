/* text/bpe.c: symbols in a linked list, candidate merges in a binary heap. An entry whose pair has changed since it was
 * queued is dropped when it surfaces: it is stale unless the pair now there still makes the same token. That test, on
 * the token and not on the pair, is what the reference does, and a few ids depend on it. */
#include "text/bpe.h"

#include <assert.h>
#include <stdlib.h>

#include "text/tokenizer_utf8.h"

#define NONE UINT32_MAX

static bool grow(void **array, size_t *capacity, size_t need, size_t item)
{
    if (need <= *capacity)
        return true;
    size_t wanted = need + need / 2 + 64;
    void *grown = realloc(*array, wanted * item);
    if (!grown)
        return false;
    *array = grown;
    *capacity = wanted;
    return true;
}

void bpe_scratch_free(bpe_scratch *s)
{
    free(s->symbols);
    free(s->heap);
    *s = (bpe_scratch){0};
}

/* --- the heap: lowest rank first, then leftmost --- */

static bool before(const bpe_candidate *a, const bpe_candidate *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static void sift_down(bpe_candidate *heap, size_t count, size_t at)
{
    bpe_candidate moving = heap[at];
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= count)
            break;
        if (child + 1 < count && before(&heap[child + 1], &heap[child]))
            child++;
        if (!before(&heap[child], &moving))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moving;
}

static bool heap_push(bpe_scratch *s, bpe_candidate c)
{
    if (!grow((void **)&s->heap, &s->heap_capacity, s->heap_count + 1, sizeof *s->heap))
        return false;
    size_t at = s->heap_count++;
    while (at && before(&c, &s->heap[(at - 1) / 2])) {
        s->heap[at] = s->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    s->heap[at] = c;
    return true;
}

static bpe_candidate heap_pop(bpe_scratch *s)
{
    bpe_candidate top = s->heap[0];
    s->heap[0] = s->heap[--s->heap_count];
    if (s->heap_count)
        sift_down(s->heap, s->heap_count, 0);
    return top;
}

/* --- which pair makes which token --- */

static uint32_t pair_hash(token_id left, token_id right)
{
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    return (uint32_t)(key * 0x9E3779B97F4A7C15u >> 32);
}

static uint32_t *pair_slot(const bpe_model *m, token_id left, token_id right)
{
    uint32_t at = pair_hash(left, right) & m->pair_mask;
    while (m->pair_slots[at]) {
        const bpe_pair *p = &m->pairs[m->pair_slots[at] - 1];
        if (p->left == left && p->right == right)
            break;
        at = (at + 1) & m->pair_mask;
    }
    return &m->pair_slots[at];
}

/* The merge of symbols `at` and its next, or false. */
static bool pair_at(const bpe_model *m, span piece, const bpe_symbol *symbols, uint32_t at, bpe_candidate *out)
{
    const bpe_symbol *l = &symbols[at], *r = &symbols[l->next];
    if (m->order) {
        if (l->fixed || r->fixed)
            return false;
        token_id id = vocab_find_model(m->vocab, span_of(piece.data + l->start, l->size + r->size));
        if (id < 0 || m->order[id] == UINT32_MAX)
            return false;
        *out = (bpe_candidate){(uint64_t)m->order[id] << 20 | (TOKEN_TEXT_MAX - l->size), at, id};
        return true;
    }
    uint32_t slot = *pair_slot(m, l->id, r->id);
    if (!slot)
        return false;
    *out = (bpe_candidate){slot - 1, at, m->pairs[slot - 1].id};
    return true;
}

/* --- building --- */

void bpe_model_init(bpe_model *m, const vocab *v)
{
    *m = (bpe_model){.vocab = v, .unknown = -1};
    static const char digits[] = "0123456789ABCDEF";
    for (unsigned b = 0; b < 256; b++) {
        char name[6] = {'<', '0', 'x', digits[b >> 4], digits[b & 15], '>'};
        m->byte_ids[b] = vocab_find_model(v, span_of(name, 6));
    }
    for (uint32_t code = 0; code < BPE_QUICK_CODES; code++) {
        char text[4];
        m->quick_ids[code] = vocab_find_model(v, span_of(text, utf8_put(text, code)));
    }
}

void bpe_model_free(bpe_model *m)
{
    free(m->pairs);
    free(m->pair_slots);
    free(m->order);
    m->pairs = NULL;
    m->pair_slots = NULL;
    m->order = NULL;
}

status bpe_model_reserve(bpe_model *m, size_t merge_count, error *err)
{
    if (merge_count > BPE_MERGES_MAX)
        return error_set(err, ERR_INVALID, "%zu merges: at most %d are supported", merge_count, BPE_MERGES_MAX);
    uint32_t slots = 16;
    while ((uint64_t)slots * 3 < (uint64_t)merge_count * 4)
        slots *= 2;
    m->pairs = malloc((merge_count ? merge_count : 1) * sizeof *m->pairs);
    m->pair_slots = calloc(slots, sizeof *m->pair_slots);
    if (!m->pairs || !m->pair_slots)
        return error_set(err, ERR_MEMORY, "out of memory for %zu merges", merge_count);
    m->pair_mask = slots - 1;
    m->pair_capacity = (uint32_t)merge_count;
    return OK;
}

status bpe_model_add(bpe_model *m, span left, span right, uint32_t rank, error *err)
{
    token_id l = vocab_find_model(m->vocab, left), r = vocab_find_model(m->vocab, right), made = -1;
    char joined[256];
    size_t size = left.size + right.size;
    if (size <= sizeof joined) {
        memcpy(joined, left.data, left.size);
        memcpy(joined + left.size, right.data, right.size);
        made = vocab_find_model(m->vocab, span_of(joined, size));
    } else if (size <= TOKEN_TEXT_MAX) {
        buf b = {0};
        buf_append(&b, left.data, left.size);
        buf_append(&b, right.data, right.size);
        made = vocab_find_model(m->vocab, buf_span(&b));
        buf_free(&b);
    }
    if (l < 0 || r < 0 || made < 0)
        return error_set(err, ERR_INVALID, "merge %u, \"%.*s\" + \"%.*s\": %s is not in the vocabulary", rank,
                         (int)(left.size > 64 ? 64 : left.size), left.data, (int)(right.size > 64 ? 64 : right.size),
                         right.data,
                         l < 0   ? "the left part"
                         : r < 0 ? "the right part"
                                 : "the result");
    assert(rank < m->pair_capacity);
    uint32_t *slot = pair_slot(m, l, r);
    m->pairs[rank] = (bpe_pair){l, r, made};
    *slot = rank + 1;
    return OK;
}

/* --- encoding --- */

static void symbol_push(bpe_scratch *s, token_id id, size_t start, size_t size, bool fixed)
{
    uint32_t at = (uint32_t)s->symbol_count++;
    s->symbols[at] = (bpe_symbol){id, (uint32_t)start, (uint32_t)size, at ? at - 1 : NONE, at + 1, fixed};
}

static bool has_bytes(const bpe_model *m, const char *text, uint32_t size)
{
    for (uint32_t i = 0; i < size; i++)
        if (m->byte_ids[(unsigned char)text[i]] < 0)
            return false;
    return true;
}

/* One symbol for each character; what has no token becomes bytes, or the unknown token, or nothing. */
static bool split_symbols(const bpe_model *m, span piece, bpe_scratch *s)
{
    size_t most = piece.size; /* one symbol for each byte, or for each character */
    for (size_t at = 0; at < piece.size && !m->byte_fallback; at++)
        most -= ((unsigned char)piece.data[at] & 0xC0) == 0x80;
    s->symbol_count = 0;
    if (!grow((void **)&s->symbols, &s->symbol_capacity, most, sizeof *s->symbols))
        return false;
    size_t unknown_start = 0, unknown_size = 0;
    for (size_t at = 0; at < piece.size;) {
        const char *text = piece.data + at;
        uint32_t size = utf8_size((unsigned char)*text), code = utf8_code(text);
        token_id id = code < BPE_QUICK_CODES ? m->quick_ids[code] : vocab_find_model(m->vocab, span_of(text, size));
        if (id >= 0) {
            if (unknown_size)
                symbol_push(s, m->unknown, unknown_start, unknown_size, true);
            unknown_size = 0;
            symbol_push(s, id, at, size, false);
        } else if (m->byte_fallback && has_bytes(m, text, size)) {
            for (uint32_t i = 0; i < size; i++)
                symbol_push(s, m->byte_ids[(unsigned char)text[i]], at + i, 1, true);
        } else if (m->unknown >= 0) {
            if (unknown_size && !m->fuse_unknown) {
                symbol_push(s, m->unknown, unknown_start, unknown_size, true);
                unknown_size = 0;
            }
            if (!unknown_size)
                unknown_start = at;
            unknown_size += size;
        }
        at += size;
    }
    if (unknown_size)
        symbol_push(s, m->unknown, unknown_start, unknown_size, true);
    if (s->symbol_count)
        s->symbols[s->symbol_count - 1].next = NONE;
    return true;
}

static bool queue_all(const bpe_model *m, span piece, bpe_scratch *s)
{
    s->heap_count = 0;
    if (!grow((void **)&s->heap, &s->heap_capacity, s->symbol_count, sizeof *s->heap))
        return false;
    for (uint32_t at = 0; at + 1 < s->symbol_count; at++)
        if (pair_at(m, piece, s->symbols, at, &s->heap[s->heap_count]))
            s->heap_count++;
    for (size_t at = s->heap_count / 2; at-- > 0;)
        sift_down(s->heap, s->heap_count, at);
    return true;
}

static bool merge_all(const bpe_model *m, span piece, bpe_scratch *s)
{
    bpe_symbol *symbols = s->symbols;
    while (s->heap_count) {
        bpe_candidate top = heap_pop(s), now;
        bpe_symbol *left = &symbols[top.at];
        if (left->id < 0 || left->next == NONE || !pair_at(m, piece, symbols, top.at, &now) || now.id != top.id)
            continue;
        bpe_symbol *right = &symbols[left->next];
        left->id = top.id;
        left->size += right->size;
        left->next = right->next;
        right->id = -1; /* gone */
        if (left->next != NONE)
            symbols[left->next].prev = top.at;
        if (left->prev != NONE && pair_at(m, piece, symbols, left->prev, &now) && !heap_push(s, now))
            return false;
        if (left->next != NONE && pair_at(m, piece, symbols, top.at, &now) && !heap_push(s, now))
            return false;
    }
    return true;
}

static bool encode_part(const bpe_model *m, span piece, bpe_scratch *s, token_list *out)
{
    if (!split_symbols(m, piece, s) || !queue_all(m, piece, s) || !merge_all(m, piece, s))
        return false;
    for (size_t at = 0; at < s->symbol_count; at++)
        if (s->symbols[at].id >= 0 && !token_list_push(out, s->symbols[at].id))
            return false;
    return true;
}

bool bpe_encode(const bpe_model *m, span piece, bpe_scratch *s, token_list *out)
{
    token_id whole = m->ignore_merges ? vocab_find_model(m->vocab, piece) : -1;
    if (whole >= 0)
        return token_list_push(out, whole);
    while (piece.size) {
        size_t size = m->cuts ? spm_cut(m, piece) : piece.size;
        if (!encode_part(m, span_of(piece.data, size), s, out))
            return false;
        piece = span_of(piece.data + size, piece.size - size);
    }
    return true;
}
