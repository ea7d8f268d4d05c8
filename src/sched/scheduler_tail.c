/* sched/scheduler_tail.c: the partly filled page behind the whole ones: found in memory or in a tier, copied or
 * restored when a sequence starts, left behind when one ends. A model with a recurrent state needs the state at that
 * very token: a tail brings it along, in memory and in the tiers. There it is a page like others, under a key over
 * fewer tokens. */
#include "sched/scheduler_state.h"

#include <assert.h>
#include <stdlib.h>

static prefix_key key_before(const scheduler *s, const sequence *seq, uint32_t depth)
{
    scheduler_keys(s, seq, depth);
    return depth ? s->keys[depth - 1] : prefix_key_root(seq->cache.space);
}

static uint32_t most_behind(const scheduler *s, const sequence *seq, uint32_t depth) /* one is always computed */
{
    uint32_t left = sequence_history(seq) - 1 - depth * s->page_tokens;
    return left < s->page_tokens ? left : s->page_tokens - 1;
}

static const int32_t *tokens_behind(const scheduler *s, const sequence *seq, uint32_t depth)
{
    return seq->request->prompt + (size_t)depth * s->page_tokens;
}

/* ---- the look ---- */

uint32_t scheduler_tail_in_memory(const scheduler *s, const sequence *seq)
{
    uint32_t depth = seq->cache.match.pages;
    if (s->tails.count == 0)
        return 0;
    return tails_peek(&s->tails, key_before(s, seq, depth), tokens_behind(s, seq, depth), most_behind(s, seq, depth));
}

static tier_ask *ask_for(const scheduler *s, const sequence *seq, uint32_t depth, uint32_t most)
{
    prefix_key *wanted = malloc(2 * (size_t)most * sizeof *wanted), before = key_before(s, seq, depth);
    if (!wanted)
        return NULL;
    for (uint32_t i = 0; i < most; i++) { /* the pages, then the states */
        wanted[i] = prefix_key_next(before, tokens_behind(s, seq, depth), i + 1);
        wanted[most + i] = prefix_key_state(wanted[i], 0);
    }
    tier_ask *ask = tiering_ask(s->tiers, wanted, s->state_pages ? 2 * most : most);
    free(wanted);
    return ask;
}

static void take_answer(const scheduler *s, sequence_cache *c, uint32_t most)
{
    for (uint32_t count = most; count > 0 && c->tier_tail == 0; count--) {
        uint32_t page = tiering_holder(c->tail_ask, count - 1);
        uint32_t state = s->state_pages ? tiering_holder(c->tail_ask, most + count - 1) : page;
        if (page == 0 || state == 0)
            continue;
        c->tier_tail = count;
        c->tail_holder = page;
        c->tail_state_holder = state;
    }
}

bool scheduler_tail_in_tiers(scheduler *s, sequence *seq)
{
    sequence_cache *c = &seq->cache;
    uint32_t depth = c->match.pages, most;
    while (depth < (sequence_history(seq) - 1) / s->page_tokens && tiering_holder(c->ask, depth - c->match.pages) > 0)
        depth++;
    most = most_behind(s, seq, depth);
    if (c->tier_tail > 0)
        c->tier_pages = depth;
    if (c->tail_known || !tails_is_open(&s->tails) || depth == 0 || most == 0 ||
        (c->memory_tail > 0 && depth == c->match.pages))
        return true;
    if (!c->tail_ask)
        c->tail_ask = ask_for(s, seq, depth, most);
    if (c->tail_ask && !tiering_answered(c->tail_ask))
        return false;
    if (c->tail_ask) {
        take_answer(s, c, most);
        tiering_ask_end(s->tiers, c->tail_ask);
        c->tail_ask = NULL;
    }
    c->tail_known = true;
    if (c->tier_tail > 0)
        c->tier_pages = depth;
    return true;
}

/* ---- the start ---- */

/* Nothing takes it away until the sequence has pages of its own. */
void scheduler_tail_hold(scheduler *s, sequence *seq)
{
    sequence_cache *c = &seq->cache;
    uint32_t depth = c->match.pages;
    found_tail found;
    c->tail_tokens = tails_find(&s->tails, key_before(s, seq, depth), tokens_behind(s, seq, depth),
                                most_behind(s, seq, depth), s->now_us, &found);
    if (c->tail_tokens == 0)
        return;
    c->tail_page = found.page;
    c->tail_serial = found.serial;
    c->tail_held = true;
    page_pool_share(s->pool, found.page);
    page_id *state = scheduler_state_table(s, seq, CAPTURES_MAX);
    for (uint32_t i = 0; i < s->state_pages; i++) {
        page_pool_share(s->pool, found.state[i]);
        state[i] = found.state[i];
    }
    c->state_held = s->state_pages > 0;
}

void scheduler_tail_let_go(scheduler *s, sequence *seq)
{
    if (seq->cache.tail_held)
        page_pool_release(s->pool, seq->cache.tail_page);
    seq->cache.tail_held = false;
}

void scheduler_tail_start(scheduler *s, sequence *seq)
{
    sequence_cache *c = &seq->cache;
    if (!c->tail_held)
        return;
    s->runner->ops->page_copy(s->runner, seq->pages[c->memory_pages], c->tail_page);
    seq->kv_count += c->tail_tokens;
    scheduler_tail_let_go(s, seq);
}

prefix_key scheduler_tail_key(const scheduler *s, const sequence *seq, uint32_t depth, uint32_t count)
{
    return prefix_key_next(key_before(s, seq, depth), tokens_behind(s, seq, depth), count);
}

/* ---- the end ---- */

static bool worth_a_tail(const scheduler *s, const sequence *seq)
{
    return tails_is_open(&s->tails) && seq->cache.open && seq->kv_count % s->page_tokens > 0 &&
           scheduler_worth_keeping(s, seq);
}

/* Room that no other session would miss: theirs is worth more than up to a page of tokens. Of its own it gives a
 * checkpoint that it has left behind. */
static bool take_state_pages(scheduler *s, const sequence *seq, page_id *out)
{
    uint32_t owner = scheduler_owner(seq), count = s->state_pages;
    uint32_t spare = count + 2 * (scheduler_running(s) - 1); /* for the others to grow; its own pages go */
    if (1 + count > s->tails.config.pages_max)
        return false;
    if (prefix_cache_spare(s->prefixes, owner) + tails_pages(&s->tails) >= spare)
        while (prefix_cache_spare(s->prefixes, owner) < spare && tails_drop_one(&s->tails)) {}
    else if (!prefix_cache_give_passed(s->prefixes, &seq->cache.cursor))
        return false;
    return scheduler_take_pages(s, seq, count, out);
}

void scheduler_tail_save(scheduler *s, sequence *seq)
{
    sequence_cache *c = &seq->cache;
    c->tail_saved = false;
    if (s->state_pages == 0 || seq->phase != PHASE_DECODE || seq->broken || c->restore || !worth_a_tail(s, seq) ||
        c->cursor.depth != seq->kv_count / s->page_tokens)
        return;
    page_id *state = scheduler_state_table(s, seq, 0); /* there is no chunk, so nothing else is in it */
    assert(c->capture_count == 0);
    tails_drop(&s->tails, c->tail_serial); /* the turn that it began is over */
    if (!take_state_pages(s, seq, state))
        return;
    status st = s->runner->ops->state_save(s->runner, seq->slot, state);
    assert(st == OK);
    (void)st;
    c->tail_saved = true;
}

static void store(scheduler *s, const sequence *seq, uint32_t depth, uint32_t count, const page_id *state)
{
    const int32_t *tokens = tokens_behind(s, seq, depth);
    prefix_key key = scheduler_tail_key(s, seq, depth, count);
    s->tier_pages[0] = (tier_page){key, seq->cache.group, tokens, count, seq->pages[depth]};
    for (uint32_t i = 0; i < s->state_pages; i++)
        s->tier_pages[1 + i] = (tier_page){prefix_key_state(key, i), seq->cache.group, tokens, count, state[i]};
    tiering_store(s->tiers, s->tier_pages, 1 + s->state_pages);
}

void scheduler_tail_put(scheduler *s, sequence *seq)
{
    sequence_cache *c = &seq->cache;
    uint32_t count = seq->kv_count % s->page_tokens, depth = seq->kv_count / s->page_tokens;
    page_id *state = s->state_pages ? scheduler_state_table(s, seq, 0) : NULL;
    if (worth_a_tail(s, seq) && c->cursor.depth == depth && (!state || c->tail_saved)) {
        new_tail made = {.before = key_before(s, seq, depth),
                         .owner = scheduler_owner(seq),
                         .count = count,
                         .tokens = tokens_behind(s, seq, depth),
                         .page = seq->pages[depth],
                         .state = state,
                         .session = c->cursor.continues};
        tails_put(&s->tails, &made, s->now_us);
        if (s->tiers && depth > 0) /* nobody asks the tiers for less than a page */
            store(s, seq, depth, count, state);
    }
    if (c->tail_saved)
        scheduler_release_pages(s, state, s->state_pages);
    c->tail_saved = false;
}
