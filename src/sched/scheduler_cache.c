/* sched/scheduler_cache.c: what of a prompt is there already, and how it gets into a sequence that starts.
 * A look finds the leading pages in memory and asks the tiers for those after them. At admission the sequence shares
 * the former; the latter are restored into pages of its own if that is predicted to be faster than computing them. Its
 * first chunk may begin as soon as the recurrent state and the first part of the layers have come. */
#include "sched/scheduler_state.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { REUSE_KEYS = 16384, GRID_TOKENS_MIN = 2048, TAILS_PART = 4 /* of the idle pages, at most */ };

/* ---- life ---- */

static status allocate(scheduler *s, error *err)
{
    const runner_info *info = &s->runner->info;
    uint32_t most = s->pages_per_sequence + s->state_pages;
    s->state_tables = calloc((size_t)info->max_sequences * (CAPTURES_MAX + 1) * s->state_pages + 1, sizeof(page_id));
    s->captures = calloc((size_t)info->max_sequences * CAPTURES_MAX, sizeof *s->captures);
    s->keys = calloc(s->pages_per_sequence + 1, sizeof *s->keys);
    s->tier_pages = calloc(most, sizeof *s->tier_pages);
    s->holders = calloc(most, sizeof *s->holders);
    if (!s->state_tables || !s->captures || !s->keys || !s->tier_pages || !s->holders)
        return error_set(err, ERR_MEMORY, "prefix cache: out of memory");
    return reuse_create(&s->reuse, REUSE_KEYS, err);
}

static uint32_t idle_pages(const runner_info *info, uint64_t bytes)
{
    uint64_t pages = bytes && info->page_bytes ? bytes / info->page_bytes : info->page_count;
    return pages < info->page_count ? (uint32_t)pages : info->page_count;
}

/* A checkpoint costs about as much memory as the KV between two of them, and at most one in GRID_TOKENS_MIN tokens. */
static uint32_t grid_pages(const runner_info *info, uint32_t state_pages)
{
    uint32_t least = (GRID_TOKENS_MIN + info->page_tokens - 1) / info->page_tokens;
    return state_pages > least ? state_pages : least;
}

static status open_tiers(scheduler *s, const prefix_settings *wanted, error *err)
{
    tiering_config tiers = {.tier_count = wanted->tier_count,
                            .mover = s->runner->mover,
                            .pool = s->pool,
                            .ttl_us = wanted->ttl_us,
                            .wake = wanted->wake,
                            .wake_context = wanted->wake_context};
    memcpy(tiers.tiers, wanted->tiers, sizeof tiers.tiers);
    return tiering_open(&s->tiers, &tiers, err);
}

status scheduler_cache_create(scheduler *s, const scheduler_config *config, error *err)
{
    const prefix_settings *wanted = config->cache;
    const runner_info *info = &s->runner->info;
    if (!wanted)
        return OK;
    status st = wanted->tier_count ? open_tiers(s, wanted, err) : OK;
    s->state_pages = info->state_pages;
    s->grid_pages = grid_pages(info, s->state_pages);
    s->ttl_us = wanted->ttl_us;
    s->idle_pages_max = idle_pages(info, wanted->idle_bytes);
    prefix_cache_config prefixes = {.pool = s->pool,
                                    .page_tokens = info->page_tokens,
                                    .state_pages = s->state_pages,
                                    .idle_pages_max = s->idle_pages_max,
                                    .ttl_us = wanted->ttl_us,
                                    .token_us = s->model.prefill[TERM_TOKEN],
                                    .depth_us = s->model.prefill[TERM_DEPTH]};
    if (st || (st = allocate(s, err)))
        return st;
    if ((st = prefix_cache_create(&s->prefixes, &prefixes, err)))
        return st;
    scheduler_set_floors(s);
    if (!s->runner->ops->page_copy)
        return OK;
    tails_config tails = {info->page_tokens, s->state_pages, s->idle_pages_max / TAILS_PART};
    return tails_open(&s->tails, s->pool, &tails, err);
}

void scheduler_cache_destroy(scheduler *s)
{
    tiering_close(s->tiers, 2000000); /* before the pool, in which it holds shares */
    tails_close(&s->tails);
    prefix_cache_destroy(s->prefixes);
    reuse_destroy(s->reuse);
    free(s->state_tables);
    free(s->captures);
    free(s->keys);
    free(s->tier_pages);
    free(s->holders);
}

/* ---- who sees what ---- */

uint32_t scheduler_owner(const sequence *seq)
{
    return seq->tenant * 2 + seq->batch;
}

static uint64_t group_of(const tenant *who)
{
    const char *name = who->share_prefix[0] ? who->share_prefix : who->name;
    return XXH3_64bits_withSeed(name, strlen(name), who->share_prefix[0] ? 1 : 0) | 1; /* never 0 */
}

uint64_t scheduler_tier_space(const scheduler *s, int tenant)
{
    return tenant < 0 ? 0 : group_of(&s->accounts.tenants.tenants[tenant]);
}

static void set_space(const scheduler *s, sequence *seq)
{
    uint64_t salt = seq->request->cache_salt;
    seq->cache.group = group_of(&s->accounts.tenants.tenants[seq->tenant]);
    seq->cache.space = salt ? XXH3_64bits_withSeed(&salt, sizeof salt, seq->cache.group) : seq->cache.group;
}

static bool takes_part(const scheduler *s, const sequence *seq)
{
    return s->prefixes && !seq->request->no_cache;
}

static uint32_t pages_max(const scheduler *s, const sequence *seq) /* one token at least is always computed */
{
    return (sequence_history(seq) - 1) / s->page_tokens;
}

void scheduler_keys(const scheduler *s, const sequence *seq, uint32_t pages)
{
    uint32_t page_tokens = s->page_tokens;
    prefix_key key = prefix_key_root(seq->cache.space);
    for (uint32_t i = 0; i < pages; i++)
        s->keys[i] = key = prefix_key_next(key, seq->request->prompt + (size_t)i * page_tokens, page_tokens);
}

page_id *scheduler_state_table(const scheduler *s, const sequence *seq, uint32_t index)
{
    return s->state_tables + ((size_t)seq->slot * (CAPTURES_MAX + 1) + index) * s->state_pages;
}

/* ---- the look ---- */

/* Where would a restore lead to: the deepest place up to which memory or a tier has all pages, and where states are
 * kept a tier has the state. */
static uint32_t restorable_pages(const scheduler *s, const sequence *seq)
{
    const sequence_cache *c = &seq->cache;
    uint32_t first = c->match.pages, end = pages_max(s, seq), reach = first, asked = end - first;
    while (reach < end && tiering_holder(c->ask, reach - first) > 0)
        reach++;
    if (s->state_pages == 0)
        return reach;
    for (; reach > c->match.usable; reach--) /* states were asked for behind the pages, from `usable` on */
        if (tiering_holder(c->ask, asked + reach - 1 - c->match.usable) > 0)
            return reach;
    return c->match.usable;
}

static tier_ask *ask_tiers(const scheduler *s, const sequence *seq)
{
    uint32_t first = seq->cache.match.pages, usable = seq->cache.match.usable, end = pages_max(s, seq);
    uint32_t pages = end - first, states = s->state_pages ? end - usable : 0;
    prefix_key *wanted = malloc(((size_t)pages + states + 1) * sizeof *wanted);
    if (!wanted)
        return NULL;
    scheduler_keys(s, seq, end);
    memcpy(wanted, s->keys + first, pages * sizeof *wanted);
    for (uint32_t i = 0; i < states; i++)
        wanted[pages + i] = prefix_key_state(s->keys[usable + i], 0);
    tier_ask *ask = tiering_ask(s->tiers, wanted, pages + states);
    free(wanted);
    return ask;
}

void scheduler_cache_end_ask(scheduler *s, sequence *seq)
{
    sequence_cache *c = &seq->cache;
    if (c->ask)
        tiering_ask_end(s->tiers, c->ask);
    if (c->tail_ask)
        tiering_ask_end(s->tiers, c->tail_ask);
    c->ask = c->tail_ask = NULL;
    c->tail_known = c->heard = false;
    c->tier_tail = 0;
}

/* Tokens that a sequence can begin after, by what memory has. */
static uint32_t memory_tokens(const scheduler *s, const sequence *seq)
{
    const sequence_cache *c = &seq->cache;
    return c->memory_tail ? c->match.pages * s->page_tokens + c->memory_tail : c->match.usable * s->page_tokens;
}

static uint32_t tier_tokens(const scheduler *s, const sequence *seq)
{
    return seq->cache.tier_pages * s->page_tokens + seq->cache.tier_tail;
}

static void set_expected(scheduler *s, sequence *seq)
{
    sequence_cache *c = &seq->cache;
    uint32_t here = memory_tokens(s, seq), there = tier_tokens(s, seq), expected = here > there ? here : there;
    uint32_t rest = sequence_history(seq) - expected;
    bool is_long = rest > s->document_tokens;
    bool turn =
        is_long && !seq->batch && expected >= rest && rest <= schedule_turn_tokens(&s->settings, s->document_tokens);
    bool document = is_long && !turn;
    if (expected == c->expected && document == seq->document && turn == seq->turn)
        return;
    s->lane_backlog_us[sequence_lane(seq)] -= seq->backlog_us;
    seq->backlog_us = 0;
    c->expected = expected;
    seq->document = document;
    seq->turn = turn;
    if (seq->phase != PHASE_NONE)
        scheduler_set_backlog(s, seq);
}

/* The answer has to be about the very pages that are missing now. */
static bool asked_for_this(const sequence *seq, prefix_match before)
{
    return before.pages == seq->cache.match.pages && before.usable == seq->cache.match.usable;
}

bool scheduler_cache_look(scheduler *s, sequence *seq)
{
    sequence_cache *c = &seq->cache;
    if (!takes_part(s, seq))
        return true;
    prefix_match before = c->match;
    uint32_t end = pages_max(s, seq);
    c->match = prefix_cache_find(s->prefixes, c->space, seq->request->prompt, sequence_history(seq), end);
    c->match.pages = c->match.pages < end ? c->match.pages : end;
    c->memory_tail = scheduler_tail_in_memory(s, seq);
    bool answered = true;
    if (s->tiers && !c->no_tiers && c->match.usable < end) {
        if (c->ask && !asked_for_this(seq, before))
            scheduler_cache_end_ask(s, seq);
        if (!c->ask)
            c->ask = ask_tiers(s, seq);
        answered = !c->ask || tiering_answered(c->ask);
        c->tier_pages = c->ask && answered ? restorable_pages(s, seq) : 0;
        if (c->ask && answered)
            answered = scheduler_tail_in_tiers(s, seq);
    } else {
        scheduler_cache_end_ask(s, seq);
        c->tier_pages = 0;
    }
    set_expected(s, seq);
    c->heard = answered && c->ask;
    return answered;
}

void scheduler_cache_hear(scheduler *s)
{
    if (!s->tiers)
        return;
    for (sequence *seq = s->waiting.first; seq; seq = seq->next) {
        const sequence_cache *c = &seq->cache;
        if (c->ask && !c->heard && tiering_answered(c->ask) && (!c->tail_ask || tiering_answered(c->tail_ask)))
            scheduler_cache_look(s, seq);
    }
}

void scheduler_cache_arrive(scheduler *s, sequence *seq)
{
    if (!s->prefixes)
        return;
    set_space(s, seq);
    scheduler_cache_look(s, seq);
}

/* ---- room ---- */

uint32_t scheduler_room(const scheduler *s, const sequence *seq)
{
    if (!s->prefixes)
        return page_pool_read_counts(s->pool).free;
    return prefix_cache_available(s->prefixes, scheduler_owner(seq)) + tails_pages(&s->tails);
}

/* Free pages, at the expense of the cache. */
static bool make_room(scheduler *s, const sequence *seq, uint32_t count)
{
    uint32_t owner = scheduler_owner(seq);
    /* A tail with a state takes the pages of a hundred: it goes before what a session would miss. */
    while (s->state_pages && page_pool_read_counts(s->pool).free < count &&
           prefix_cache_spare(s->prefixes, owner) < count && tails_drop_one(&s->tails)) {}
    if (s->prefixes && page_pool_read_counts(s->pool).free < count)
        prefix_cache_make_room(s->prefixes, count, owner, s->now_us);
    while (page_pool_read_counts(s->pool).free < count && tails_drop_one(&s->tails)) {}
    return page_pool_read_counts(s->pool).free >= count;
}

bool scheduler_take_page(scheduler *s, const sequence *seq, page_id *out)
{
    return make_room(s, seq, 1) && page_pool_acquire(s->pool, out);
}

bool scheduler_take_pages(scheduler *s, const sequence *seq, uint32_t count, page_id *out)
{
    if (!make_room(s, seq, count))
        return false;
    for (uint32_t i = 0; i < count; i++)
        page_pool_acquire(s->pool, &out[i]);
    return true;
}

void scheduler_release_pages(scheduler *s, const page_id *pages, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        page_pool_release(s->pool, pages[i]);
}

/* ---- counting ---- */

void scheduler_release_state(scheduler *s, sequence *seq)
{
    if (seq->cache.state_held)
        scheduler_release_pages(s, scheduler_state_table(s, seq, CAPTURES_MAX), s->state_pages);
    seq->cache.state_held = false;
}

static void count_lookup(scheduler *s, sequence *seq)
{
    sequence_cache *c = &seq->cache;
    uint32_t page_tokens = s->page_tokens, end = pages_max(s, seq), pages = seq->kv_count / page_tokens;
    if (c->counted || seq->generated > 0)
        return;
    c->counted = true;
    c->cached = seq->kv_count;
    cache_lookup *l = &c->lookup;
    l->looked_up = seq->request->prompt_count;
    l->differs_at = c->match.differs_at > seq->kv_count ? c->match.differs_at : seq->kv_count;
    if (seq->kv_count + 1 >= l->looked_up) /* all that could be used was there */
        l->differs_at = l->looked_up;
    l->hits[PLACE_RAM] = c->memory_pages * page_tokens;
    l->hits[c->tail_restored ? PLACE_TIERS + c->tail_holder - 1 : PLACE_RAM] += c->tail_tokens;
    for (uint32_t i = 0; i < c->restored_pages; i++) {
        uint32_t holder = tiering_holder(c->ask, i);
        l->hits[holder ? PLACE_TIERS + holder - 1 : PLACE_RAM] += page_tokens;
    }
    /* What is missing, from its front: KV without a state, then what a tier has, then what once was here. */
    uint32_t state = c->match.pages > pages ? c->match.pages - pages : 0;
    uint32_t slow = c->tier_pages > pages + state ? c->tier_pages - pages - state : 0, known = pages + state + slow;
    scheduler_keys(s, seq, end);
    uint32_t old = end;
    while (old > known && !reuse_knows(s->reuse, s->keys[old - 1]))
        old--;
    l->misses[MISS_STATE] = state * page_tokens;
    l->misses[c->no_tiers ? MISS_FAILED : MISS_SLOWER] = slow * page_tokens;
    l->misses[MISS_EVICTED] = (old - known) * page_tokens;
    l->misses[MISS_NEW] = (end - old) * page_tokens;
    l->misses[MISS_LAST] = l->looked_up - end * page_tokens;
    uint32_t at = c->memory_pages + c->restored_pages; /* the page of which the tail spares a part */
    l->misses[at == end ? MISS_LAST : at < known ? MISS_SLOWER : at < old ? MISS_EVICTED : MISS_NEW] -= c->tail_tokens;
    reuse_saw(s->reuse, s->keys, end, s->now_us);
    cache_tenant *t = &s->cache_counts[seq->tenant];
    t->looked_up += l->looked_up;
    for (int i = 0; i < CACHE_PLACES; i++)
        t->hits[i] += l->hits[i];
    for (int i = 0; i < MISS_CAUSES; i++)
        t->misses[i] += l->misses[i];
}

/* ---- the start ---- */

static bool restore_pays(const scheduler *s, const sequence *seq)
{
    const sequence_cache *c = &seq->cache;
    uint32_t here = memory_tokens(s, seq), there = tier_tokens(s, seq);
    if (!c->ask || there <= here)
        return false;
    const runner_info *info = &s->runner->info;
    uint32_t read = c->tier_pages > c->match.pages ? c->tier_pages - c->match.pages : 0;
    uint32_t asked = pages_max(s, seq) - c->match.pages, state_at = asked + c->tier_pages - 1 - c->match.usable;
    uint32_t holder = !read && c->tier_tail ? c->tail_holder : tiering_holder(c->ask, read ? 0 : state_at);
    uint64_t bytes = (uint64_t)(read + s->state_pages + (c->tier_tail > 0)) * info->page_bytes;
    double compute_us = step_model_prefill_us(&s->model, here, there - here);
    return compute_us <= 0 || tiering_restore_us(s->tiers, holder, bytes) < compute_us;
}

bool scheduler_cache_begin(scheduler *s, sequence *seq)
{
    sequence_cache *c = &seq->cache;
    c->memory_pages = c->restored_pages = c->own_from = c->rolling = c->tail_tokens = 0;
    c->restore = NULL;
    c->state_due = c->tail_held = c->tail_restored = c->state_held = false;
    c->tail_serial = 0;
    c->captures = s->captures ? s->captures + (size_t)seq->slot * CAPTURES_MAX : NULL;
    if (!takes_part(s, seq))
        return true;
    bool restore = !seq->cold && restore_pays(s, seq);
    if (!restore && c->memory_tail > 0 && !seq->cold)
        scheduler_tail_hold(s, seq);
    uint32_t pages = c->tail_held ? c->match.pages : c->match.usable;
    if (restore)
        pages = c->match.pages < c->tier_pages ? c->match.pages : c->tier_pages;
    else if (seq->cold)
        pages = 0;
    page_id *state = s->state_pages ? scheduler_state_table(s, seq, CAPTURES_MAX) : NULL;
    prefix_cache_open(s->prefixes, &c->cursor, c->space, scheduler_owner(seq), seq->request->prompt, pages, s->now_us,
                      seq->pages, restore || c->tail_held ? NULL : state);
    c->open = true;
    c->state_held |= state && !restore && pages > 0;
    c->cursor.continues |= seq->request->keep;
    c->memory_pages = c->own_from = pages;
    seq->page_count = pages;
    seq->kv_count = pages * s->page_tokens;
    if (restore) {
        if (state && !scheduler_take_pages(s, seq, s->state_pages, state))
            return false;
        c->restored_pages = c->tier_pages - pages;
        c->tail_restored = c->tier_tail > 0;
        c->tail_tokens = c->tier_tail;
        c->state_due = c->state_held = state != NULL;
        c->needed_parts = state ? 0 : 1; /* the first layers with a state need no KV */
    }
    return true;
}

/* Fills s->tier_pages: the state, then the pages. */
static uint32_t list_restore(scheduler *s, const sequence *seq)
{
    const sequence_cache *c = &seq->cache;
    uint32_t page_tokens = s->page_tokens, first = c->memory_pages, end = first + c->restored_pages, n = 0;
    uint32_t state_at = pages_max(s, seq) - c->match.pages + end - 1 - c->match.usable;
    uint32_t last = c->tail_restored ? end : end - 1, last_tokens = c->tail_restored ? c->tail_tokens : page_tokens;
    const page_id *state = scheduler_state_table(s, seq, CAPTURES_MAX);
    const int32_t *tokens = seq->request->prompt;
    prefix_key tail = scheduler_tail_key(s, seq, end, c->tail_tokens); /* and the keys up to there */
    for (uint32_t i = 0; c->state_due && i < s->state_pages; i++, n++) {
        s->tier_pages[n] = (tier_page){prefix_key_state(c->tail_restored ? tail : s->keys[end - 1], i), c->group,
                                       tokens + (size_t)last * page_tokens, last_tokens, state[i]};
        s->holders[n] = c->tail_restored ? c->tail_state_holder : tiering_holder(c->ask, state_at);
    }
    for (uint32_t i = first; i < end; i++, n++) {
        s->tier_pages[n] =
            (tier_page){s->keys[i], c->group, tokens + (size_t)i * page_tokens, page_tokens, seq->pages[i]};
        s->holders[n] = tiering_holder(c->ask, i - c->match.pages);
    }
    if (c->tail_restored) {
        s->tier_pages[n] =
            (tier_page){tail, c->group, tokens + (size_t)end * page_tokens, c->tail_tokens, seq->pages[end]};
        s->holders[n++] = c->tail_holder;
    }
    return n;
}

/* A turn: soon over, and somebody waits. On few cores a document's pages on their way to the disk would double it. */
static void hold_writes(scheduler *s, const sequence *seq)
{
    const double over_us = 10000;
    double us = step_model_prefill_us(&s->model, seq->kv_count, sequence_history(seq) - seq->kv_count);
    tiering_hold_writes(s->tiers, 1.5 * us + over_us);
}

bool scheduler_cache_start(scheduler *s, sequence *seq)
{
    sequence_cache *c = &seq->cache;
    uint32_t page_tokens = s->page_tokens;
    if (!c->open)
        return true;
    if (c->restored_pages > 0 || c->state_due || c->tail_restored) {
        uint32_t count = list_restore(s, seq);
        c->restore = tiering_restore(s->tiers, s->tier_pages, s->holders, count, c->state_due ? s->state_pages : 0);
        if (!c->restore)
            return false;
        seq->kv_count = (c->memory_pages + c->restored_pages) * page_tokens + c->tail_tokens;
    } else if (c->state_held) {
        page_id *state = scheduler_state_table(s, seq, CAPTURES_MAX);
        status st = s->runner->ops->state_load(s->runner, seq->slot, state);
        assert(st == OK);
        (void)st;
        scheduler_release_state(s, seq);
    }
    scheduler_tail_start(s, seq);
    if (s->tiers && c->memory_pages > 0) {
        scheduler_keys(s, seq, c->memory_pages);
        tiering_touch(s->tiers, s->keys, c->memory_pages);
    }
    count_lookup(s, seq);
    scheduler_cache_end_ask(s, seq);
    if (s->tiers && !seq->batch && !seq->document)
        hold_writes(s, seq);
    return true;
}

/* ---- the restore ---- */

/* Back to the queue with what has come whole; it starts again without the tiers. */
static void give_up(scheduler *s, sequence *seq, uint32_t whole)
{
    sequence_cache *c = &seq->cache;
    uint32_t good = whole < c->restored_pages ? whole : c->restored_pages;
    c->no_tiers = true;
    scheduler_end_chunk(s, seq);
    seq->kv_count = (c->memory_pages + good) * s->page_tokens;
    cache_tenant *t = &s->cache_counts[seq->tenant];
    if (c->counted && seq->generated == 0) { /* what was said to be found is not */
        uint32_t lost = (c->restored_pages - good) * s->page_tokens + c->tail_tokens;
        for (int i = PLACE_TIERS; i < CACHE_PLACES; i++) {
            uint32_t less = c->lookup.hits[i] < lost ? c->lookup.hits[i] : lost;
            c->lookup.hits[i] -= less;
            t->hits[i] -= less;
            c->lookup.misses[MISS_FAILED] += less;
            t->misses[MISS_FAILED] += less;
            lost -= less;
        }
    }
    scheduler_leave_slot(s, seq, false);
    scheduler_move_to(s, seq, PHASE_WAITING);
    scheduler_set_backlog(s, seq);
}

static void load_state(scheduler *s, sequence *seq)
{
    page_id *state = scheduler_state_table(s, seq, CAPTURES_MAX);
    status st = s->runner->ops->state_load(s->runner, seq->slot, state);
    assert(st == OK);
    (void)st;
    seq->cache.state_due = false; /* its pages stay until the restore is in the tree */
}

static void poll_restore(scheduler *s, sequence *seq)
{
    sequence_cache *c = &seq->cache;
    restore_progress now = tiering_progress(c->restore);
    if (now.head_failed || (now.ended && now.whole < c->restored_pages + c->tail_restored)) {
        give_up(s, seq, now.head_failed && s->state_pages ? 0 : now.whole);
        return;
    }
    if (c->state_due && now.head_done)
        load_state(s, seq);
    if (now.ended && !c->state_due)
        scheduler_cache_restored(s, seq);
}

void scheduler_cache_poll(scheduler *s)
{
    if (!s->prefixes)
        return;
    if (s->tiers)
        tiering_collect(s->tiers);
    for (sequence *seq = s->prefilling.first, *next; seq; seq = next) {
        next = seq->next;
        if (seq->cache.restore)
            poll_restore(s, seq);
    }
    uint32_t tails = tails_pages(&s->tails), most = s->idle_pages_max;
    prefix_cache_set_idle_max(s->prefixes, tails < most ? most - tails : 0);
    prefix_cache_trim(s->prefixes, s->now_us);
    if (s->ttl_us && s->now_us > s->ttl_us)
        tails_expire(&s->tails, s->now_us - s->ttl_us);
}

bool scheduler_prompt_ready(const sequence *seq)
{
    const sequence_cache *c = &seq->cache;
    if (seq->orphan && !seq->wanted)
        return false;
    if (!sequence_may_sample(seq) && (!seq->chunk_open || seq->chunk.sample)) /* it is there as a rule */
        return false;
    if (!c->restore)
        return true;
    uint32_t parts = atomic_load_explicit(tiering_parts(c->restore), memory_order_acquire);
    return !c->state_due && parts >= c->needed_parts;
}
