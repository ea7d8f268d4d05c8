/* server/api/reasoning_limit.c: see reasoning_limit.h. The end of a thought is recognised by its text, forced by its
 * tokens. A model that ends its turn inside a thought may, unless something must still be answered. */
#include "server/api/reasoning_limit.h"

#include <stdlib.h>

enum { TAIL_MAX = 64, PATIENCE = 4 /* tokens that a character may still take */ };

typedef enum { BEFORE, THINKING, ENDING, AFTER } place;

typedef struct {
    token_constraint base;
    reasoning_limit_config config;
    place place;
    uint32_t count, forced; /* tokens of thought; of the end */
    token_list end;
    token_id open;
    size_t words;
    uint32_t *bits; /* the mask that is shown, when it is not the inner one's */
    detokenizer decode;
    char tail[TAIL_MAX]; /* of the thought */
    size_t tail_size;
} reasoning_limit;

static void set_bit(reasoning_limit *l, token_id id)
{
    if (id >= 0 && (uint32_t)id < l->config.vocab_size)
        l->bits[id / 32] |= 1u << (id % 32);
}

static bool is_ready(token_constraint *self)
{
    reasoning_limit *l = (reasoning_limit *)self;
    token_constraint *inner = l->config.inner;
    return l->place == THINKING || l->place == ENDING || !inner || inner->ops->ready(inner);
}

/* Anything but an end of the turn. */
static const uint32_t *all_but_stops(reasoning_limit *l)
{
    size_t count = 0;
    const token_id *stops = tokenizer_eog(l->config.tokenizer, &count);
    memset(l->bits, 0xff, l->words * sizeof *l->bits);
    for (size_t i = 0; i < count; i++)
        if (stops[i] >= 0 && (uint32_t)stops[i] < l->config.vocab_size)
            l->bits[stops[i] / 32] &= ~(1u << (stops[i] % 32));
    return l->bits;
}

static const uint32_t *mask(token_constraint *self)
{
    reasoning_limit *l = (reasoning_limit *)self;
    token_constraint *inner = l->config.inner;
    const uint32_t *own = NULL;
    if (l->place == THINKING)
        return inner ? all_but_stops(l) : NULL;
    if (l->place != ENDING)
        own = inner ? inner->ops->mask(inner) : NULL;
    if (l->place == AFTER || (l->place == BEFORE && !own))
        return own;
    if (own)
        memcpy(l->bits, own, l->words * sizeof *l->bits);
    else
        memset(l->bits, 0, l->words * sizeof *l->bits);
    set_bit(l, l->place == ENDING ? l->end.ids[l->forced] : l->open);
    return l->bits;
}

static constraint_state pass_on(reasoning_limit *l, int32_t token)
{
    token_constraint *inner = l->config.inner;
    return inner ? inner->ops->accept(inner, token) : CONSTRAINT_OPEN;
}

/* More of the thought; has it been ended? */
static bool ended_by(reasoning_limit *l, int32_t token)
{
    const char *close = l->config.marks->close;
    size_t size = strlen(close);
    buf text = {0};
    detokenizer_push(&l->decode, l->config.tokenizer, token, &text);
    bool ended = false;
    for (size_t i = 0; i < text.size && !ended; i++) {
        if (l->tail_size == TAIL_MAX) {
            memmove(l->tail, l->tail + 1, TAIL_MAX - 1);
            l->tail_size--;
        }
        l->tail[l->tail_size++] = text.data[i];
        ended = l->tail_size >= size && memcmp(l->tail + l->tail_size - size, close, size) == 0;
    }
    buf_free(&text);
    return ended;
}

static void begin_thought(reasoning_limit *l)
{
    l->place = l->config.budget ? THINKING : ENDING;
    l->count = l->forced = 0;
}

static constraint_state accept(token_constraint *self, int32_t token)
{
    reasoning_limit *l = (reasoning_limit *)self;
    switch (l->place) {
    case BEFORE:
        if (token == l->open) {
            begin_thought(l);
            return CONSTRAINT_OPEN;
        }
        l->place = AFTER;
        return pass_on(l, token);
    case THINKING:
        l->count++;
        if (ended_by(l, token))
            l->place = AFTER;
        else if (l->count >= l->config.budget && (!l->decode.held_size || l->count - l->config.budget >= PATIENCE))
            l->place = ENDING;
        return CONSTRAINT_OPEN;
    case ENDING:
        if (++l->forced == l->end.count)
            l->place = AFTER;
        return CONSTRAINT_OPEN;
    default:
        return pass_on(l, token);
    }
}

static void watch(token_constraint *self, void (*woken)(void *context), void *context)
{
    token_constraint *inner = ((reasoning_limit *)self)->config.inner;
    if (inner)
        inner->ops->watch(inner, woken, context);
}

static void destroy(token_constraint *self)
{
    reasoning_limit *l = (reasoning_limit *)self;
    if (l->config.inner)
        l->config.inner->ops->destroy(l->config.inner);
    token_list_free(&l->end);
    free(l->bits);
    free(l);
}

static const token_constraint_ops ops = {is_ready, mask, accept, watch, destroy};

/* The opening mark, if it is one token; -1. */
static token_id single_token(const tokenizer *t, const char *text)
{
    token_list ids = {0};
    token_id found = -1;
    if (tokenizer_encode(t, span_from(text), TOKENIZE_SPECIALS, &ids, NULL) == OK && ids.count == 1)
        found = ids.ids[0];
    token_list_free(&ids);
    return found;
}

status reasoning_limit_create(token_constraint **out, const reasoning_limit_config *config, error *err)
{
    reasoning_limit *l = calloc(1, sizeof *l);
    size_t words = (config->vocab_size + 31) / 32;
    if (!l || !(l->bits = calloc(words, sizeof *l->bits))) {
        free(l);
        return error_set(err, ERR_MEMORY, "thinking budget: out of memory");
    }
    l->base.ops = &ops;
    l->config = *config;
    l->config.inner = NULL; /* not ours before all is well */
    l->words = words;
    l->decode.keep_specials = l->decode.started = true;
    l->open = single_token(config->tokenizer, config->marks->open);
    status st = tokenizer_encode(config->tokenizer, span_from(config->marks->end), TOKENIZE_SPECIALS, &l->end, err);
    if (st || !l->end.count) {
        destroy(&l->base);
        return st ? st : error_set(err, ERR_INVALID, "thinking budget: the end of a thought has no tokens");
    }
    l->config.inner = config->inner;
    l->place = config->may_open && l->open >= 0 ? BEFORE : AFTER;
    if (config->open)
        begin_thought(l);
    *out = &l->base;
    return OK;
}
