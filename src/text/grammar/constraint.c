/* text/grammar/constraint.c: one text that keeps to a grammar. The engine thread moves it on token by token; where the
 * next mask is known it takes it at once, otherwise the worker makes it. */
#include "text/grammar/token_masks.h"

#include <stdlib.h>

enum { FRAMES_KEPT = 512 };

static bool is_ready(token_constraint *self)
{
    return atomic_load(&((constraint *)self)->ready);
}

static const uint32_t *mask_of(token_constraint *self)
{
    const constraint *c = (constraint *)self;
    if (c->waiting)
        return c->masks->other_bits;
    return c->state == CONSTRAINT_OPEN && c->mask ? c->mask->bits : c->masks->stop_bits;
}

/* Under the lock: takes the mask, or asks for it. */
static void look_up(constraint *c)
{
    token_masks *m = c->masks;
    uint64_t key[2];
    token_masks_key(c, key);
    c->mask = mask_cache_find(&m->cache, key);
    m->counts.asked++;
    m->counts.found += c->mask != NULL;
    if (c->mask)
        return;
    atomic_store(&c->ready, false);
    c->queued = true;
    c->next = NULL;
    *(m->last ? &m->last->next : &m->first) = c;
    m->last = c;
    pthread_cond_signal(&m->work);
}

static constraint_state advance(constraint *c, span bytes)
{
    if (c->untouched && c->masks->trie.drops_space && bytes.size && bytes.data[0] == ' ')
        bytes = span_of(bytes.data + 1, bytes.size - 1);
    if (!bytes.size)
        return CONSTRAINT_FAILED;
    c->untouched = false;
    for (size_t i = 0; i < bytes.size; i++) {
        way_list next = {c->now.ways == c->buffers[0] ? c->buffers[1] : c->buffers[0], 0, WAYS_MAX, false};
        machine_step(&c->machine, c->now.ways, c->now.count, (uint8_t)bytes.data[i], &next);
        c->now = next;
    }
    if (c->machine.failed || (!c->now.count && !c->now.ended))
        return CONSTRAINT_FAILED;
    if (c->machine.frame_count > FRAMES_KEPT)
        machine_compact(&c->machine, &c->now);
    return c->now.count ? CONSTRAINT_OPEN : CONSTRAINT_OVER;
}

/* Before the marker: true when it is complete, and *rest is what the token has behind it. `text` holds the bytes. */
static bool found_marker(constraint *c, int32_t token, buf *text, span *rest)
{
    detokenizer plain = {.started = true, .keep_specials = true};
    buf_append(text, c->tail, c->tail_size);
    detokenizer_push(&plain, c->masks->tokenizer, token, text);
    for (size_t i = 0; i + c->marker_size <= text->size; i++)
        if (memcmp(text->data + i, c->marker, c->marker_size) == 0) {
            *rest = span_of(text->data + i + c->marker_size, text->size - i - c->marker_size);
            return true;
        }
    c->tail_size = text->size < c->marker_size - 1 ? text->size : c->marker_size - 1;
    if (c->tail_size)
        memcpy(c->tail, text->data + text->size - c->tail_size, c->tail_size);
    return false;
}

static constraint_state look_for_marker(constraint *c, int32_t token)
{
    buf text = {0};
    span rest;
    if (found_marker(c, token, &text, &rest)) {
        c->waiting = false;
        while (rest.size && (rest.data[0] == ' ' || rest.data[0] == '\n'))
            rest = span_of(rest.data + 1, rest.size - 1);
        if (rest.size)
            c->state = advance(c, rest);
    }
    buf_free(&text);
    return c->state;
}

static constraint_state accept_token(token_constraint *self, int32_t token)
{
    constraint *c = (constraint *)self;
    token_masks *m = c->masks;
    if (c->state != CONSTRAINT_OPEN || token < 0 || (uint32_t)token >= m->trie.vocab) {
        c->state = c->state == CONSTRAINT_OVER ? CONSTRAINT_OVER : CONSTRAINT_FAILED;
        return c->state;
    }
    bool stop = m->stop_bits[token / 32] >> token % 32 & 1;
    if (c->waiting && !stop)
        c->state = look_for_marker(c, token);
    else if (stop)
        c->state = c->now.ended && !c->waiting ? CONSTRAINT_OVER : CONSTRAINT_FAILED;
    else
        c->state = advance(c, token_trie_bytes(&m->trie, token));
    pthread_mutex_lock(&m->lock);
    mask_cache_release(&m->cache, c->mask);
    c->mask = NULL;
    if (c->state == CONSTRAINT_OPEN && !c->waiting)
        look_up(c);
    constraint_state state = c->state;
    pthread_mutex_unlock(&m->lock);
    return state;
}

static void watch(token_constraint *self, void (*woken)(void *context), void *context)
{
    constraint *c = (constraint *)self;
    pthread_mutex_lock(&c->masks->lock);
    c->woken = woken;
    c->woken_context = context;
    pthread_mutex_unlock(&c->masks->lock);
}

void constraint_free(constraint *c)
{
    machine_free(&c->machine);
    grammar_release(c->g);
    free(c);
}

static void leave_queue(token_masks *m, constraint *c)
{
    constraint *before = NULL;
    for (constraint *at = m->first; at && at != c; at = at->next)
        before = at;
    *(before ? &before->next : &m->first) = c->next;
    if (m->last == c)
        m->last = before;
}

static void destroy(token_constraint *self)
{
    constraint *c = (constraint *)self;
    token_masks *m = c->masks;
    pthread_mutex_lock(&m->lock);
    if (c->queued)
        leave_queue(m, c);
    mask_cache_release(&m->cache, c->mask);
    c->mask = NULL;
    c->dead = true;
    bool busy = c->working; /* the worker frees it */
    pthread_mutex_unlock(&m->lock);
    if (!busy)
        constraint_free(c);
}

status grammar_constraint(token_constraint **out, grammar *g, token_masks *m, error *err)
{
    return grammar_constraint_after(out, g, m, (span){0}, err);
}

status grammar_constraint_after(token_constraint **out, grammar *g, token_masks *m, span marker, error *err)
{
    static const token_constraint_ops ops = {is_ready, mask_of, accept_token, watch, destroy};
    if (marker.size > MARKER_BYTES_MAX)
        return error_set(err, ERR_LIMIT, "grammar: a marker of over %d bytes", MARKER_BYTES_MAX);
    constraint *c = calloc(1, sizeof *c);
    if (!c || machine_init(&c->machine, g, m->trie.longest)) {
        free(c);
        return error_set(err, ERR_MEMORY, "grammar: out of memory");
    }
    grammar_hold(g);
    c->base.ops = &ops;
    c->g = g;
    c->masks = m;
    c->waiting = marker.size > 0;
    c->untouched = !c->waiting; /* a thought has lost the text's first blank */
    c->marker_size = marker.size;
    if (marker.size)
        memcpy(c->marker, marker.data, marker.size);
    c->now = (way_list){c->buffers[0], 0, WAYS_MAX, false};
    machine_start(&c->machine, &c->now);
    c->ready = true;
    if (!c->now.count && !c->waiting)
        c->state = CONSTRAINT_OVER; /* the empty text is the only one */
    pthread_mutex_lock(&m->lock);
    if (c->state == CONSTRAINT_OPEN && !c->waiting)
        look_up(c);
    pthread_mutex_unlock(&m->lock);
    *out = &c->base;
    return OK;
}
