/* sched/scheduler_keep.c: what a sequence leaves in the prefix cache. Pages enter the tree as soon as they are full, so
 * that others share them while it still runs. Of the recurrent state there are checkpoints at page borders: shortly
 * before the end of the prompt (what follows in the next turn may be written otherwise), where the shared part and the
 * last turns end,
 * where the KV of others goes on and their state does not, on a coarse grid inside long prompts, and where the sequence
 * ends: for that one it saves its state after each chunk, and at each border that it decodes over, into pages of its
 * own. */
#include "sched/scheduler_state.h"

#include <assert.h>

enum { PROMPT_END_TOKENS = 8 }; /* the end of a prompt that the next turn is likely to change */

/* ---- checkpoints ---- */

typedef struct {
    uint32_t positions[CAPTURES_MAX], count;
} wanted_captures;

/* Rising, no position twice, those that come first when there are too many. */
static void want(const scheduler *s, const sequence *seq, wanted_captures *w, uint32_t position)
{
    const prefill_chunk *chunk = &seq->chunk;
    position -= position % s->page_tokens;
    if (position <= chunk->position || position > chunk->position + chunk->token_count || w->count == CAPTURES_MAX)
        return;
    uint32_t at = 0;
    while (at < w->count && w->positions[at] < position)
        at++;
    if (at < w->count && w->positions[at] == position)
        return;
    for (uint32_t i = w->count++; i > at; i--)
        w->positions[i] = w->positions[i - 1];
    w->positions[at] = position;
}

static wanted_captures captures_of(const scheduler *s, const sequence *seq)
{
    wanted_captures w = {.count = 0};
    uint32_t prompt = seq->request->prompt_count, grid = s->grid_pages * s->page_tokens;
    if (prompt > PROMPT_END_TOKENS)
        want(s, seq, &w, prompt - PROMPT_END_TOKENS);
    want(s, seq, &w, seq->request->shared_tokens);
    want(s, seq, &w, seq->cache.match.pages * s->page_tokens);
    for (uint32_t i = seq->request->turn_mark_count; i > 0; i--)
        want(s, seq, &w, seq->request->turn_marks[i - 1]);
    uint32_t end = seq->chunk.position + seq->chunk.token_count;
    for (uint32_t at = end - end % grid; at > seq->chunk.position; at -= grid)
        want(s, seq, &w, at);
    return w;
}

void scheduler_cache_captures(scheduler *s, sequence *seq)
{
    sequence_cache *c = &seq->cache;
    seq->chunk.parts_ready = c->restore ? tiering_parts(c->restore) : NULL;
    c->capture_count = 0;
    if (!c->open || s->state_pages == 0)
        return;
    wanted_captures w = captures_of(s, seq);
    uint32_t spare = scheduler_running(s) + scheduler_pages_for(s, sequence_history(seq) + 1) - seq->page_count;
    for (uint32_t i = 0; i < w.count; i++) {
        page_id *pages = scheduler_state_table(s, seq, c->capture_count);
        if (scheduler_room(s, seq) < s->state_pages + spare || !scheduler_take_pages(s, seq, s->state_pages, pages))
            break;
        c->captures[c->capture_count++] = (state_capture){w.positions[i], pages};
    }
    seq->chunk.captures = c->captures;
    seq->chunk.capture_count = c->capture_count;
}

static void drop_captures(scheduler *s, sequence *seq)
{
    for (uint32_t i = 0; i < seq->cache.capture_count; i++)
        scheduler_release_pages(s, seq->cache.captures[i].pages, s->state_pages);
    seq->cache.capture_count = 0;
    seq->chunk.capture_count = 0;
}

/* ---- tiers ---- */

/* A batch prompt that nobody has sent before is probably never sent again. */
bool scheduler_worth_keeping(const scheduler *s, const sequence *seq)
{
    return seq->admitted_us >= s->forgotten_us[seq->tenant] &&
           (!seq->batch || seq->cache.cursor.continues || seq->request->keep);
}

static void store_state(scheduler *s, const sequence *seq, const page_id *pages)
{
    const sequence_cache *c = &seq->cache;
    uint32_t depth = c->cursor.depth;
    if (!s->tiers || !scheduler_worth_keeping(s, seq) || depth == 0)
        return;
    scheduler_keys(s, seq, depth);
    const int32_t *tokens = seq->request->prompt + (size_t)(depth - 1) * s->page_tokens;
    for (uint32_t i = 0; i < s->state_pages; i++)
        s->tier_pages[i] =
            (tier_page){prefix_key_state(s->keys[depth - 1], i), c->group, tokens, s->page_tokens, pages[i]};
    tiering_store(s->tiers, s->tier_pages, s->state_pages);
}

static void store_pages(scheduler *s, sequence *seq)
{
    sequence_cache *c = &seq->cache;
    uint32_t end = c->cursor.depth, first = c->own_from;
    if (!s->tiers || !scheduler_worth_keeping(s, seq) || end <= first)
        return;
    scheduler_keys(s, seq, end);
    for (uint32_t i = first; i < end; i++)
        s->tier_pages[i - first] = (tier_page){s->keys[i], c->group, seq->request->prompt + (size_t)i * s->page_tokens,
                                               s->page_tokens, seq->pages[i]};
    if (tiering_store(s->tiers, s->tier_pages, end - first))
        c->own_from = end;
}

/* ---- growing ---- */

static void put_state(scheduler *s, sequence *seq, const page_id *pages)
{
    prefix_cache_put_state(s->prefixes, &seq->cache.cursor, pages, s->now_us);
    store_state(s, seq, pages);
}

static void grow(scheduler *s, sequence *seq)
{
    sequence_cache *c = &seq->cache;
    if (!c->open)
        return;
    uint32_t full = seq->kv_count / s->page_tokens, next = 0;
    while (c->cursor.depth < full) {
        uint32_t at = c->cursor.depth;
        const int32_t *tokens = seq->request->prompt + (size_t)at * s->page_tokens;
        if (!prefix_cache_extend(s->prefixes, &c->cursor, tokens, seq->pages[at], s->now_us))
            return;
        uint32_t position = c->cursor.depth * s->page_tokens;
        while (next < c->capture_count && c->captures[next].position < position)
            next++;
        if (next < c->capture_count && c->captures[next].position == position)
            put_state(s, seq, c->captures[next].pages);
    }
}

/* Into the pages that it keeps for this, which it gets when there is room to spare. */
static void save_rolling(scheduler *s, sequence *seq)
{
    sequence_cache *c = &seq->cache;
    page_id *pages = scheduler_state_table(s, seq, CAPTURES_MAX);
    uint32_t spare = 2 * scheduler_running(s);
    if (c->rolling == 0 &&
        (scheduler_room(s, seq) < s->state_pages + spare || !scheduler_take_pages(s, seq, s->state_pages, pages)))
        return;
    status st = s->runner->ops->state_save(s->runner, seq->slot, pages);
    assert(st == OK);
    (void)st;
    c->rolling = seq->kv_count;
}

void scheduler_cache_read(scheduler *s, sequence *seq)
{
    if (!seq->cache.open)
        return;
    grow(s, seq);
    drop_captures(s, seq);
    if (s->state_pages && seq->kv_count % s->page_tokens == 0)
        save_rolling(s, seq);
}

void scheduler_cache_decoded(scheduler *s, sequence *seq)
{
    if (!seq->cache.open || seq->kv_count % s->page_tokens != 0)
        return;
    grow(s, seq);
    if (s->state_pages && !seq->batch)
        save_rolling(s, seq);
}

void scheduler_cache_restored(scheduler *s, sequence *seq)
{
    sequence_cache *c = &seq->cache;
    uint32_t end = c->memory_pages + c->restored_pages;
    while (c->cursor.depth < end) {
        uint32_t at = c->cursor.depth;
        const int32_t *tokens = seq->request->prompt + (size_t)at * s->page_tokens;
        if (!prefix_cache_extend(s->prefixes, &c->cursor, tokens, seq->pages[at], s->now_us))
            break;
    }
    if (c->state_held && c->cursor.depth == end && !c->tail_restored) /* that one is the state of a later token */
        prefix_cache_put_state(s->prefixes, &c->cursor, scheduler_state_table(s, seq, CAPTURES_MAX), s->now_us);
    scheduler_release_state(s, seq);
    c->own_from = end;
    if (seq->chunk_open) /* its chunk looks at the restore's parts */
        return;
    tiering_restore_end(s->tiers, c->restore);
    c->restore = NULL;
}

/* ---- the end ---- */

static void put_rolling(scheduler *s, sequence *seq)
{
    sequence_cache *c = &seq->cache;
    page_id *pages = scheduler_state_table(s, seq, CAPTURES_MAX);
    if (c->cursor.depth * s->page_tokens == c->rolling) {
        prefix_cache_put_state(s->prefixes, &c->cursor, pages, s->now_us);
        if (!c->tail_saved) /* else the tiers get the one that the next turn needs */
            store_state(s, seq, pages);
    }
    scheduler_release_pages(s, pages, s->state_pages);
    c->rolling = 0;
}

void scheduler_cache_leave(scheduler *s, sequence *seq, bool ended)
{
    sequence_cache *c = &seq->cache;
    scheduler_tail_let_go(s, seq);
    if (!c->open)
        return;
    if (c->restore) { /* what a tier has not brought whole is not taken into the tree */
        restore_progress now = tiering_progress(c->restore);
        uint32_t whole = now.ended ? now.whole : 0,
                 good = c->memory_pages + (whole < c->restored_pages ? whole : c->restored_pages);
        bool all = now.ended && now.whole == c->restored_pages + c->tail_restored;
        if (seq->kv_count > good * s->page_tokens && !all)
            seq->kv_count = good * s->page_tokens;
        tiering_restore_end(s->tiers, c->restore);
        c->restore = NULL;
        c->own_from = good;
    }
    grow(s, seq);
    drop_captures(s, seq);
    if (c->rolling)
        put_rolling(s, seq);
    scheduler_release_state(s, seq);
    store_pages(s, seq);
    scheduler_tail_put(s, seq);
    prefix_cache_close(s->prefixes, &c->cursor, ended, s->now_us);
    c->open = false;
}
