/* text/grammar/token_masks.c: the worker that makes masks, and how it makes one.
 *
 * Most tokens that may follow inside a string or a number end inside it too, whatever stands around it. So the mask of
 * a lexical procedure's state is made once, for all grammars that have an equal procedure, together with the nodes of
 * the tree where the procedure may have ended and the token goes on: only those are looked at for each place in a text.
 */
#include "text/grammar/token_masks.h"

#include "base/clock.h"

#include <stdlib.h>

enum { CACHE_BYTES_MAX = 96 << 20 };

/* ---- keys ---- */

void token_masks_key(const constraint *c, uint64_t key[2])
{
    const machine *m = &c->machine;
    for (int i = 0; i < 2; i++) {
        uint64_t h = machine_mix(m->seeds[i], c->g->id);
        h = machine_mix(h, (uint64_t)c->now.ended << 1 | (uint64_t)(c->untouched && c->masks->trie.drops_space));
        for (uint32_t k = 0; k < c->now.count; k++) {
            way w = c->now.ways[k];
            h = machine_mix(machine_mix(h, w.state), w.stack ? m->frames[w.stack].key[i] : 0);
        }
        key[i] = h;
    }
}

static bool is_lexical(const grammar *g, uint32_t frame)
{
    uint32_t number = frame & FRAME_LOOP ? frame & ~(uint32_t)FRAME_LOOP : g->all.states[frame].procedure;
    return g->procedures[number].lexical;
}

/* The stack below the frames that belong to the lexical procedure that `w` is in. */
static uint32_t lexical_floor(const machine *m, way w)
{
    uint32_t stack = w.stack;
    while (stack && is_lexical(m->g, m->frames[stack].frame))
        stack = m->frames[stack].below;
    return stack;
}

static uint64_t place_in(const grammar *g, uint64_t h, uint32_t state)
{
    const procedure *p = &g->procedures[g->all.states[state].procedure];
    return machine_mix(machine_mix(h, p->shape), state - p->first_state);
}

static void lexical_key(const machine *m, way w, uint32_t floor, uint64_t key[2])
{
    for (int i = 0; i < 2; i++) {
        uint64_t h = place_in(m->g, machine_mix(m->seeds[i], 0x1EC5), w.state);
        for (uint32_t at = w.stack; at != floor; at = m->frames[at].below) {
            const stack_frame *f = &m->frames[at];
            if (f->frame & FRAME_LOOP) {
                const procedure *loop = &m->g->procedures[f->frame & ~(uint32_t)FRAME_LOOP];
                h = machine_mix(machine_mix(h, loop->shape ^ 0x700D), machine_loop_view(m, loop, f->count));
            } else {
                h = place_in(m->g, h, f->frame);
            }
        }
        key[i] = h;
    }
}

/* ---- making ---- */

static mask_entry *new_entry(const token_masks *m, const uint64_t key[2])
{
    mask_entry *e = calloc(1, sizeof *e);
    if (!e || !(e->bits = calloc(m->words, sizeof *e->bits))) {
        mask_entry_free(e);
        return NULL;
    }
    e->key[0] = key[0];
    e->key[1] = key[1];
    e->bytes = sizeof *e + m->words * sizeof *e->bits;
    return e;
}

static mask_entry *find(token_masks *m, const uint64_t key[2])
{
    pthread_mutex_lock(&m->lock);
    mask_entry *e = mask_cache_find(&m->cache, key);
    pthread_mutex_unlock(&m->lock);
    return e;
}

static void put(token_masks *m, mask_entry *e)
{
    pthread_mutex_lock(&m->lock);
    mask_cache_put(&m->cache, e);
    pthread_mutex_unlock(&m->lock);
}

static void release(token_masks *m, mask_entry *e)
{
    pthread_mutex_lock(&m->lock);
    mask_cache_release(&m->cache, e);
    pthread_mutex_unlock(&m->lock);
}

/* The frames of `w` above `floor`, in a machine of their own. */
static uint32_t copy_frames(const machine *from, uint32_t stack, uint32_t floor, machine *to)
{
    uint32_t chain[64], count = 0, copy = 0;
    for (; stack != floor && count < 64; stack = from->frames[stack].below)
        chain[count++] = stack;
    while (count-- > 0)
        copy = machine_push(to, from->frames[chain[count]].frame, from->frames[chain[count]].count, copy);
    return copy;
}

static mask_entry *make_lexical(token_masks *m, const machine *at, way w, uint32_t floor, const uint64_t key[2])
{
    machine alone;
    mask_entry *e = new_entry(m, key);
    if (!e || machine_init(&alone, at->g, at->window)) {
        mask_entry_free(e);
        return NULL;
    }
    way start = {w.state, copy_frames(at, w.stack, floor, &alone)};
    m->walk.bits = e->bits;
    m->walk.exit_count = 0;
    m->walk.want_exits = true;
    mask_walk_nodes(&m->walk, &alone, &start, 1, 0, m->trie.node_count);
    m->walk.want_exits = false;
    machine_free(&alone);
    if (m->walk.exit_count) {
        e->exits = malloc(m->walk.exit_count * sizeof *e->exits);
        if (!e->exits) {
            mask_entry_free(e);
            return NULL;
        }
        memcpy(e->exits, m->walk.exits, m->walk.exit_count * sizeof *e->exits);
        e->exit_count = m->walk.exit_count;
        e->bytes += e->exit_count * sizeof *e->exits;
    }
    put(m, e);
    return e;
}

static bool add_lexical(token_masks *m, machine *at, way w, uint32_t *bits)
{
    uint64_t key[2];
    uint32_t floor = lexical_floor(at, w);
    lexical_key(at, w, floor, key);
    mask_entry *e = find(m, key);
    if (!e && !(e = make_lexical(m, at, w, floor, key)))
        return false;
    for (uint32_t i = 0; i < m->words; i++)
        bits[i] |= e->bits[i];
    m->walk.bits = bits;
    if (e->exit_count) {
        uint32_t frames = at->frame_count;
        way ways[WAYS_MAX];
        way_list next = {ways, 0, WAYS_MAX, false};
        machine_return(at, floor, &next);
        for (uint32_t i = 0; i < e->exit_count && next.count; i++)
            mask_walk_nodes(&m->walk, at, ways, next.count, e->exits[i] + 1, m->trie.nodes[e->exits[i]].skip);
        machine_forget(at, frames);
    }
    release(m, e);
    return true;
}

/* The first token of a text loses its blank: what is below the blank's node starts where the text does. */
static void walk_first(token_masks *m, machine *at, const way_list *now)
{
    const token_trie *t = &m->trie;
    for (uint32_t i = 0; i < t->node_count; i = t->nodes[i].skip) {
        bool blank = t->nodes[i].byte == ' ';
        mask_walk_nodes(&m->walk, at, now->ways, now->count, blank ? i + 1 : i, t->nodes[i].skip);
    }
}

static bool walk_all(token_masks *m, machine *at, const way_list *now, uint32_t *bits)
{
    way others[WAYS_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < now->count; i++) {
        const procedure *p = &at->g->procedures[at->g->all.states[now->ways[i].state].procedure];
        if (!p->lexical)
            others[count++] = now->ways[i];
        else if (!add_lexical(m, at, now->ways[i], bits))
            return false;
    }
    m->walk.bits = bits;
    if (count)
        mask_walk_nodes(&m->walk, at, others, count, 0, m->trie.node_count);
    return true;
}

mask_entry *token_masks_make(token_masks *m, constraint *c)
{
    uint64_t key[2];
    token_masks_key(c, key);
    mask_entry *e = new_entry(m, key);
    if (!e)
        return NULL;
    machine *at = &c->machine;
    at->steps = 0;
    m->walk.bits = e->bits;
    m->walk.cut = false;
    bool ok = true;
    if (c->untouched && m->trie.drops_space)
        walk_first(m, at, &c->now);
    else
        ok = walk_all(m, at, &c->now, e->bits);
    if (m->walk.cut)
        mask_walk_roots(&m->walk, at, c->now.ways, c->now.count);
    if (!ok || at->failed) {
        mask_entry_free(e);
        return NULL;
    }
    if (c->now.ended)
        for (uint32_t i = 0; i < m->words; i++)
            e->bits[i] |= m->stop_bits[i];
    return e;
}

/* ---- the worker ---- */

static void serve(token_masks *m, constraint *c) /* under the lock */
{
    uint64_t key[2];
    c->queued = false;
    token_masks_key(c, key);
    mask_entry *e = mask_cache_find(&m->cache, key);
    if (!e) {
        c->working = true;
        pthread_mutex_unlock(&m->lock);
        uint64_t start_us = clock_now_us();
        e = token_masks_make(m, c);
        uint64_t us = clock_now_us() - start_us;
        pthread_mutex_lock(&m->lock);
        c->working = false;
        m->counts.made++;
        m->counts.made_us += us;
        m->counts.slowest_us = us > m->counts.slowest_us ? us : m->counts.slowest_us;
        if (e)
            mask_cache_put(&m->cache, e);
    }
    if (c->dead) {
        mask_cache_release(&m->cache, e);
        constraint_free(c);
        return;
    }
    c->mask = e;
    if (!e)
        c->state = CONSTRAINT_FAILED;
    atomic_store(&c->ready, true);
    if (c->woken)
        c->woken(c->woken_context);
}

static void *run_worker(void *argument)
{
    token_masks *m = argument;
    pthread_mutex_lock(&m->lock);
    while (!m->stopping) {
        constraint *c = m->first;
        if (!c) {
            pthread_cond_wait(&m->work, &m->lock);
            continue;
        }
        m->first = c->next;
        if (!m->first)
            m->last = NULL;
        serve(m, c);
    }
    pthread_mutex_unlock(&m->lock);
    return NULL;
}

mask_counts token_masks_counts(token_masks *m)
{
    pthread_mutex_lock(&m->lock);
    mask_counts counts = m->counts;
    pthread_mutex_unlock(&m->lock);
    return counts;
}

/* ---- life ---- */

status token_masks_create(token_masks **out, const tokenizer *t, uint32_t vocab, const int32_t *stop_tokens,
                          uint32_t stop_count, error *err)
{
    token_masks *m = calloc(1, sizeof *m);
    if (!m)
        return error_set(err, ERR_MEMORY, "token masks: out of memory");
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->work, NULL);
    m->words = (vocab + 31) / 32;
    m->stop_bits = calloc(m->words + 1, sizeof *m->stop_bits);
    m->other_bits = calloc(m->words + 1, sizeof *m->other_bits);
    m->tokenizer = t;
    status st = token_trie_init(&m->trie, t, vocab, err);
    if (st || !m->stop_bits || !m->other_bits || !mask_walk_init(&m->walk, &m->trie) ||
        !mask_cache_init(&m->cache, CACHE_BYTES_MAX)) {
        token_masks_destroy(m);
        return st ? st : error_set(err, ERR_MEMORY, "token masks: out of memory");
    }
    for (uint32_t i = 0; i < stop_count; i++)
        if (stop_tokens[i] >= 0 && (uint32_t)stop_tokens[i] < vocab)
            m->stop_bits[stop_tokens[i] / 32] |= 1u << stop_tokens[i] % 32;
    for (uint32_t i = 0; i < vocab; i++)
        m->other_bits[i / 32] |= ~m->stop_bits[i / 32] & 1u << i % 32;
    m->started = pthread_create(&m->thread, NULL, run_worker, m) == 0;
    if (!m->started) {
        token_masks_destroy(m);
        return error_set(err, ERR_IO, "token masks: the thread could not start");
    }
    *out = m;
    return OK;
}

void token_masks_destroy(token_masks *m)
{
    if (!m)
        return;
    pthread_mutex_lock(&m->lock);
    m->stopping = true;
    pthread_cond_signal(&m->work);
    pthread_mutex_unlock(&m->lock);
    if (m->started)
        pthread_join(m->thread, NULL);
    mask_cache_free(&m->cache);
    mask_walk_free(&m->walk);
    token_trie_free(&m->trie);
    pthread_mutex_destroy(&m->lock);
    pthread_cond_destroy(&m->work);
    free(m->stop_bits);
    free(m->other_bits);
    free(m);
}
