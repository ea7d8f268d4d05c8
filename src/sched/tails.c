/* sched/tails.c: see the header. A scan of a short table: once or twice for each request. */
#include "sched/tails.h"

#include <stdlib.h>
#include <string.h>

status tails_open(tails *t, page_pool *pool, const tails_config *config, error *err)
{
    *t = (tails){.pool = pool, .config = *config};
    t->tokens = calloc((size_t)TAILS_MAX * config->page_tokens, sizeof *t->tokens);
    t->states = calloc((size_t)TAILS_MAX * config->state_pages + 1, sizeof *t->states);
    if (t->tokens && t->states)
        return OK;
    tails_close(t);
    return error_set(err, ERR_MEMORY, "prefix cache: out of memory");
}

bool tails_is_open(const tails *t)
{
    return t->tokens != NULL;
}

static int32_t *tokens_of(const tails *t, uint32_t index)
{
    return t->tokens + (size_t)index * t->config.page_tokens;
}

static page_id *state_of(const tails *t, uint32_t index)
{
    return t->states + (size_t)index * t->config.state_pages;
}

static void drop(tails *t, uint32_t index)
{
    const tails_config *config = &t->config;
    page_pool_release(t->pool, t->tails[index].page);
    for (uint32_t i = 0; i < config->state_pages; i++)
        page_pool_release(t->pool, state_of(t, index)[i]);
    uint32_t last = --t->count;
    if (index == last)
        return;
    t->tails[index] = t->tails[last];
    memcpy(tokens_of(t, index), tokens_of(t, last), config->page_tokens * sizeof *t->tokens);
    memcpy(state_of(t, index), state_of(t, last), config->state_pages * sizeof *t->states);
}

void tails_close(tails *t)
{
    while (t->count > 0)
        drop(t, t->count - 1);
    free(t->tokens);
    free(t->states);
    t->tokens = NULL;
    t->states = NULL;
}

static bool same_key(prefix_key a, prefix_key b)
{
    return a.low == b.low && a.high == b.high;
}

static uint32_t common(const int32_t *a, const int32_t *b, uint32_t most)
{
    uint32_t n = 0;
    while (n < most && a[n] == b[n])
        n++;
    return n;
}

static bool goes_before(const tail *a, const tail *b)
{
    return a->session != b->session ? b->session : a->last_us < b->last_us;
}

bool tails_drop_one(tails *t)
{
    uint32_t first = 0;
    for (uint32_t i = 1; i < t->count; i++)
        if (goes_before(&t->tails[i], &t->tails[first]))
            first = i;
    if (t->count == 0)
        return false;
    drop(t, first);
    return true;
}

void tails_drop(tails *t, uint64_t serial)
{
    for (uint32_t i = 0; i < t->count; i++)
        if (t->tails[i].serial == serial) {
            drop(t, i);
            return;
        }
}

/* What one of two holds is needed once: true where an older one holds all of it. With states a shorter one is another
 * place to begin at. */
static bool is_held(tails *t, const new_tail *made, uint64_t now_us)
{
    for (uint32_t i = t->count; i > 0; i--) {
        tail *other = &t->tails[i - 1];
        uint32_t shorter = other->count < made->count ? other->count : made->count;
        if (!same_key(other->before, made->before) || common(tokens_of(t, i - 1), made->tokens, shorter) < shorter ||
            (t->config.state_pages && other->count != made->count))
            continue;
        if (other->count >= made->count) {
            other->last_us = now_us;
            other->session |= made->session;
            return true;
        }
        drop(t, i - 1);
    }
    return false;
}

void tails_put(tails *t, const new_tail *made, uint64_t now_us)
{
    uint32_t each = 1 + t->config.state_pages;
    if (each > t->config.pages_max || is_held(t, made, now_us))
        return;
    while (t->count == TAILS_MAX || (uint64_t)(t->count + 1) * each > t->config.pages_max)
        tails_drop_one(t);
    uint32_t at = t->count++;
    page_pool_share(t->pool, made->page);
    for (uint32_t i = 0; i < t->config.state_pages; i++) {
        page_pool_share(t->pool, made->state[i]);
        state_of(t, at)[i] = made->state[i];
    }
    t->tails[at] = (tail){.before = made->before,
                          .owner = made->owner,
                          .count = made->count,
                          .page = made->page,
                          .last_us = now_us,
                          .serial = ++t->serials,
                          .session = made->session};
    memcpy(tokens_of(t, at), made->tokens, made->count * sizeof *made->tokens);
}

static uint32_t search(const tails *t, prefix_key before, const int32_t *tokens, uint32_t most, uint32_t *at)
{
    uint32_t best = 0;
    for (uint32_t i = 0; i < t->count; i++) {
        const tail *one = &t->tails[i];
        if (!same_key(one->before, before))
            continue;
        uint32_t n = common(tokens_of(t, i), tokens, one->count < most ? one->count : most);
        if (n > best && (!t->config.state_pages || n == one->count)) {
            best = n;
            *at = i;
        }
    }
    return best;
}

uint32_t tails_peek(const tails *t, prefix_key before, const int32_t *tokens, uint32_t most)
{
    uint32_t at = 0;
    return search(t, before, tokens, most, &at);
}

uint32_t tails_find(tails *t, prefix_key before, const int32_t *tokens, uint32_t most, uint64_t now_us, found_tail *out)
{
    uint32_t at = 0, count = search(t, before, tokens, most, &at);
    if (count > 0) {
        t->tails[at].last_us = now_us;
        t->tails[at].session = true;
        *out = (found_tail){t->tails[at].page, state_of(t, at), t->tails[at].serial};
    }
    return count;
}

uint32_t tails_forget(tails *t, uint32_t first_owner, uint32_t owner_count)
{
    uint32_t before = t->count;
    for (uint32_t i = t->count; i > 0; i--)
        if (t->tails[i - 1].owner >= first_owner && t->tails[i - 1].owner - first_owner < owner_count)
            drop(t, i - 1);
    return (before - t->count) * (1 + t->config.state_pages);
}

void tails_expire(tails *t, uint64_t before_us)
{
    for (uint32_t i = t->count; i > 0; i--)
        if (t->tails[i - 1].last_us < before_us)
            drop(t, i - 1);
}

/* One that a tier still writes is not counted: its pages come back later. */
uint32_t tails_pages(const tails *t)
{
    uint32_t pages = 0;
    for (uint32_t i = 0; i < t->count; i++) {
        uint32_t held = page_pool_holders(t->pool, t->tails[i].page) > 1;
        for (uint32_t k = 0; k < t->config.state_pages && !held; k++)
            held = page_pool_holders(t->pool, state_of(t, i)[k]) > 1;
        pages += held ? 0 : 1 + t->config.state_pages;
    }
    return pages;
}
