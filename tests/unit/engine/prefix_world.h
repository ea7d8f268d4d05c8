/* tests/unit/engine/prefix_world.h: conversations with an engine that keeps prefixes, on the sim, and what the same
 * prompts say without the cache. The tiers' threads are real, the engine's clock is not. */
#ifndef PREFIX_WORLD_H
#define PREFIX_WORLD_H

#include "base/rng.h"
#include "engine_fixture.h"

#include <time.h>

enum { HISTORY_MAX = 1500, TALKS_MAX = 12, REPLY = 24 };

typedef struct {
    int32_t tokens[HISTORY_MAX];
    uint32_t count, tenant;
} talk;

typedef struct {
    fixture f;
    rng random;
    talk talks[TALKS_MAX];
    uint64_t next_id;
    uint32_t history_max; /* tokens of a talk before it begins anew; 0: HISTORY_MAX */
} world;

static const tenant_table three_tenants = {
    .count = 3,
    .tenants = {{.name = "default", .weight = 1},
                {.name = "left", .weight = 1, .share_prefix = "both"},
                {.name = "right", .weight = 1, .share_prefix = "both", .cache_floor = 200 * 16 * 20480}}};

/* Beginnings at page borders, anywhere (inside a copied page), anywhere with a recurrent state. */
typedef enum { DENSE, STATEFUL, COPYING, KINDS } box_kind;

static sim_config box(box_kind kind, uint32_t pages)
{
    return (sim_config){.max_chunk_tokens = 128,
                        .max_sequences = 6,
                        .page_count = pages,
                        .reply_tokens = REPLY,
                        .context_length = 4096,
                        .copies = kind == COPYING,
                        .state_bytes = kind == STATEFUL ? 700000 : 0};
}

/* Until all requests have ended; what the tiers bring is waited for. */
static void run(world *w)
{
    for (uint32_t waits = 0;; waits++) {
        fixture_run(&w->f);
        engine_snapshot now = fixture_snapshot(&w->f);
        if (now.running + now.waiting == 0)
            return;
        assert_true(waits < 1000000);
        nanosleep(&(struct timespec){0, 20000}, NULL);
    }
}

static uint64_t now_of(world *w)
{
    return w->f.clock.base.now_us(&w->f.clock.base);
}

static request *ask(world *w, const talk *t, uint32_t max_tokens)
{
    request *r = fixture_long_request(w->next_id++, t->count, max_tokens);
    memcpy(r->prompt, t->tokens, t->count * sizeof *r->prompt);
    r->tenant = t->tenant;
    return r;
}

static void say(world *w, talk *t, uint32_t count)
{
    for (uint32_t i = 0; i < count && t->count < HISTORY_MAX; i++)
        t->tokens[t->count++] = (int32_t)rng_below(&w->random, 100);
}

/* The same again without the cache: the same words. */
static inline void expect_cold(world *w, uint64_t id, const talk *t, uint32_t max_tokens)
{
    request *r = ask(w, t, max_tokens);
    uint64_t cold = r->id;
    r->no_cache = true;
    fixture_submit(&w->f, r);
    run(w);
    const ledger_entry *a = &w->f.ledger[id], *b = &w->f.ledger[cold];
    assert_int_equal(a->finished, 1);
    assert_int_equal(b->end.cached, 0);
    assert_int_equal(a->count, b->count);
    assert_memory_equal(a->tokens, b->tokens, a->count * sizeof *a->tokens);
}

static void answer(world *w, talk *t, uint32_t max_tokens) /* and take the reply into the history */
{
    request *r = ask(w, t, max_tokens);
    uint64_t id = r->id;
    fixture_submit(&w->f, r);
    run(w);
    expect_cold(w, id, t, max_tokens);
    const ledger_entry *e = &w->f.ledger[id];
    for (uint32_t i = 0; i < e->count && t->count < HISTORY_MAX; i++)
        t->tokens[t->count++] = e->tokens[i];
}

static cache_report report(world *w)
{
    cache_report *all = malloc(sizeof *all);
    w->f.clock.base.sleep_us(&w->f.clock.base, 200000);
    engine_step(w->f.engine);
    engine_read_cache(w->f.engine, all);
    cache_report copy = *all;
    free(all);
    return copy;
}

static inline void open_box(world *w, sim_config config, uint64_t seed)
{
    memset(w, 0, sizeof *w);
    w->random = (rng){seed};
    fixture_open(&w->f, config, (engine_config){.tenants = &three_tenants, .unseeded = true});
}

static inline void open_world(world *w, box_kind kind, uint32_t pages, uint64_t seed)
{
    open_box(w, box(kind, pages), seed);
}

static void close_world(world *w)
{
    fixture_expect_no_leak(&w->f);
    assert_int_equal(engine_forget(w->f.engine, -1, NULL, NULL), OK);
    cache_report after = report(w);
    assert_int_equal(after.counts.nodes, 0);
    assert_int_equal(after.counts.state_checkpoints, 0);
    fixture_expect_no_leak(&w->f);
    fixture_close(&w->f);
}

static uint32_t cached_of(world *w, uint64_t id)
{
    assert_int_equal(w->f.ledger[id].finished, 1);
    return w->f.ledger[id].end.cached;
}

static void random_turn(world *w)
{
    talk *t = &w->talks[rng_below(&w->random, TALKS_MAX)];
    switch (rng_below(&w->random, 8)) {
    case 0: /* another */
        t->count = 0;
        t->tenant = (uint32_t)rng_below(&w->random, 3);
        say(w, t, 1 + (uint32_t)rng_below(&w->random, 500));
        break;
    case 1: /* of another one's beginning */
        *t = w->talks[rng_below(&w->random, TALKS_MAX)];
        /* fall through */
    case 2: /* an edit */
        t->count = t->count ? 1 + (uint32_t)rng_below(&w->random, t->count) : 0;
        /* fall through */
    default:
        say(w, t, 1 + (uint32_t)rng_below(&w->random, 60));
    }
    if (t->count > (w->history_max ? w->history_max : HISTORY_MAX) - 100)
        t->count = 50;
}

static void crowd(world *w) /* several at once, some aborted; each compared afterwards */
{
    enum { CROWD = 7 };
    static talk asked[CROWD];
    uint64_t ids[CROWD];
    bool aborted[CROWD];
    uint32_t count = 1 + (uint32_t)rng_below(&w->random, CROWD);
    for (uint32_t i = 0; i < count; i++) {
        random_turn(w);
        asked[i] = w->talks[rng_below(&w->random, TALKS_MAX)];
        if (asked[i].count == 0)
            say(w, &asked[i], 20);
        request *r = ask(w, &asked[i], 1 + (uint32_t)rng_below(&w->random, 60));
        r->klass = rng_below(&w->random, 3) == 0 ? CLASS_BATCH : CLASS_INTERACTIVE;
        r->shared_tokens = (uint32_t)rng_below(&w->random, asked[i].count);
        ids[i] = r->id;
        fixture_submit(&w->f, r);
        for (uint64_t steps = rng_below(&w->random, 12); steps > 0; steps--)
            engine_step(w->f.engine);
        aborted[i] = rng_below(&w->random, 4) == 0;
        if (aborted[i])
            engine_cancel(w->f.engine, ids[i], FINISH_CANCELLED);
    }
    if (rng_below(&w->random, 20) == 0)
        assert_int_equal(engine_forget(w->f.engine, (int)rng_below(&w->random, 4) - 1, NULL, NULL), OK);
    run(w);
    for (uint32_t i = 0; i < count; i++)
        if (!aborted[i] || w->f.ledger[ids[i]].end.reason != FINISH_CANCELLED)
            expect_cold(w, ids[i], &asked[i],
                        w->f.ledger[ids[i]].end.generated + (w->f.ledger[ids[i]].end.reason == FINISH_STOP));
}

#endif
