/* sched/tails.c: see the header. A scan of a short table: once for each request. */
#include "sched/tails.h"

#include <stdlib.h>
#include <string.h>

status tails_open(tails *t, page_pool *pool, uint32_t page_tokens, error *err)
{
    *t = (tails){.pool = pool, .page_tokens = page_tokens};
    t->tokens = calloc((size_t)TAILS_MAX * page_tokens, sizeof *t->tokens);
    return t->tokens ? OK : error_set(err, ERR_MEMORY, "prefix cache: out of memory");
}

static int32_t *tokens_of(const tails *t, uint32_t index)
{
    return t->tokens + (size_t)index * t->page_tokens;
}

static void drop(tails *t, uint32_t index)
{
    page_pool_release(t->pool, t->tails[index].page);
    uint32_t last = --t->count;
    t->tails[index] = t->tails[last];
    memmove(tokens_of(t, index), tokens_of(t, last), t->page_tokens * sizeof *t->tokens);
}

void tails_close(tails *t)
{
    while (t->count > 0)
        drop(t, t->count - 1);
    free(t->tokens);
    t->tokens = NULL;
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

void tails_put(tails *t, prefix_key before, uint32_t owner, const int32_t *tokens, uint32_t count, page_id page,
               bool session, uint64_t now_us)
{
    for (uint32_t i = t->count; i > 0; i--) { /* what one of the two holds is needed once */
        tail *other = &t->tails[i - 1];
        uint32_t shorter = other->count < count ? other->count : count;
        if (!same_key(other->before, before) || common(tokens_of(t, i - 1), tokens, shorter) < shorter)
            continue;
        if (other->count >= count) {
            other->last_us = now_us;
            other->session |= session;
            return;
        }
        drop(t, i - 1);
    }
    if (t->count == TAILS_MAX)
        tails_drop_one(t);
    page_pool_share(t->pool, page);
    t->tails[t->count] = (tail){before, owner, count, page, now_us, session};
    memcpy(tokens_of(t, t->count++), tokens, count * sizeof *tokens);
}

uint32_t tails_find(tails *t, prefix_key before, const int32_t *tokens, uint32_t most, uint64_t now_us, page_id *out)
{
    uint32_t best = 0, found = 0;
    for (uint32_t i = 0; i < t->count; i++) {
        const tail *one = &t->tails[i];
        if (!same_key(one->before, before))
            continue;
        uint32_t n = common(tokens_of(t, i), tokens, one->count < most ? one->count : most);
        if (n > best) {
            best = n;
            found = i;
        }
    }
    if (best > 0) {
        t->tails[found].last_us = now_us;
        t->tails[found].session = true;
        *out = t->tails[found].page;
    }
    return best;
}

uint32_t tails_forget(tails *t, uint32_t first_owner, uint32_t owner_count)
{
    uint32_t before = t->count;
    for (uint32_t i = t->count; i > 0; i--)
        if (t->tails[i - 1].owner >= first_owner && t->tails[i - 1].owner - first_owner < owner_count)
            drop(t, i - 1);
    return before - t->count;
}

void tails_expire(tails *t, uint64_t before_us)
{
    for (uint32_t i = t->count; i > 0; i--)
        if (t->tails[i - 1].last_us < before_us)
            drop(t, i - 1);
}
