/* Tiers under the engine: a restart finds what was stored, what comes from a tier equals what is computed, with tiers
 * that are slow, forgetful, damaged or late in the middle of a chunk. */
#include "prefix_world.h"

#include <pthread.h>
#include <stdatomic.h>

enum { RECORDS = 20000 };

typedef struct {
    prefix_key key;
    uint64_t space;
    char *bytes; /* tokens, then the parts */
} record;

typedef struct { /* outlives the engines that use it */
    pthread_mutex_t lock;
    record *records;
    uint32_t count;
    _Atomic uint32_t damage; /* one page in so many cannot be read; 0: none */
    _Atomic uint32_t part_us, has_us;
    _Atomic uint32_t gets, got_pages, asked;
} attic;

typedef struct {
    tier base;
    tier_ops ops;
    attic *attic;
    page_mover *mover;
} attic_tier;

static record *find(attic *a, prefix_key key)
{
    for (uint32_t i = 0; i < a->count; i++)
        if (a->records[i].key.low == key.low && a->records[i].key.high == key.high)
            return &a->records[i];
    return NULL;
}

static void nap(uint32_t us)
{
    if (us)
        nanosleep(&(struct timespec){0, us * 1000l}, NULL);
}

static void attic_has(tier *t, const prefix_key *keys, uint32_t count, bool *out)
{
    attic *a = ((attic_tier *)t)->attic;
    nap(a->has_us);
    pthread_mutex_lock(&a->lock);
    for (uint32_t i = 0; i < count; i++)
        out[i] = find(a, keys[i]) != NULL;
    pthread_mutex_unlock(&a->lock);
    a->asked++;
}

static void attic_put(tier *t, const tier_page *pages, uint32_t count)
{
    attic_tier *self = (attic_tier *)t;
    attic *a = self->attic;
    page_mover *m = self->mover;
    pthread_mutex_lock(&a->lock);
    for (uint32_t i = 0; i < count; i++) {
        if (a->count == RECORDS || find(a, pages[i].key))
            continue;
        size_t head = pages[i].token_count * sizeof(int32_t);
        char *bytes = malloc(head + m->parts * m->part_bytes);
        memcpy(bytes, pages[i].tokens, head);
        for (uint32_t p = 0; p < m->parts; p++)
            m->ops->read(m, pages[i].page, p, bytes + head + p * m->part_bytes);
        a->records[a->count++] = (record){pages[i].key, pages[i].space, bytes};
    }
    pthread_mutex_unlock(&a->lock);
}

static void attic_get(tier *t, const tier_page *pages, uint32_t count, tier_landed landed, void *context,
                      const _Atomic bool *stop)
{
    attic_tier *self = (attic_tier *)t;
    attic *a = self->attic;
    page_mover *m = self->mover;
    bool *failed = calloc(count, sizeof *failed);
    a->gets++;
    for (uint32_t p = 0; p < m->parts; p++) {
        nap(a->part_us);
        for (uint32_t i = 0; i < count && !atomic_load(stop); i++) {
            if (failed[i])
                continue;
            pthread_mutex_lock(&a->lock);
            const record *r = find(a, pages[i].key);
            uint32_t one_in = a->damage;
            failed[i] = !r || (one_in && (r->key.low + p) % (m->parts * one_in) == 0);
            if (!failed[i]) {
                assert_memory_equal(r->bytes, pages[i].tokens, pages[i].token_count * sizeof(int32_t));
                size_t head = pages[i].token_count * sizeof(int32_t);
                m->ops->write(m, pages[i].page, p, r->bytes + head + p * m->part_bytes);
            }
            pthread_mutex_unlock(&a->lock);
            a->got_pages += p == 0;
            landed(context, i, p, failed[i] ? ERR_NOT_FOUND : OK);
        }
    }
    free(failed);
}

static void attic_touch(tier *t, const prefix_key *keys, uint32_t count)
{
    (void)t, (void)keys, (void)count;
}

static status attic_drop(tier *t, uint64_t space, error *err)
{
    (void)err;
    attic *a = ((attic_tier *)t)->attic;
    pthread_mutex_lock(&a->lock);
    for (uint32_t i = 0; i < a->count;)
        if (space == 0 || a->records[i].space == space) {
            free(a->records[i].bytes);
            a->records[i] = a->records[--a->count];
        } else {
            i++;
        }
    pthread_mutex_unlock(&a->lock);
    return OK;
}

static void attic_expire(tier *t, uint64_t ttl_us)
{
    (void)t, (void)ttl_us;
}

static void attic_flush(tier *t)
{
    (void)t;
}

static void attic_counts(tier *t, tier_counts *out)
{
    attic *a = ((attic_tier *)t)->attic;
    pthread_mutex_lock(&a->lock);
    *out = (tier_counts){.records = a->count, .online = true};
    pthread_mutex_unlock(&a->lock);
}

static void attic_close(tier *t)
{
    free(t);
}

static tier *tier_of(attic *a, page_mover *mover, bool quick)
{
    attic_tier *t = calloc(1, sizeof *t);
    t->ops = (tier_ops){.name = "attic",
                        .has_is_quick = quick,
                        .has = attic_has,
                        .put = attic_put,
                        .get = attic_get,
                        .touch = attic_touch,
                        .drop = attic_drop,
                        .expire = attic_expire,
                        .flush = attic_flush,
                        .read_counts = attic_counts,
                        .close = attic_close};
    t->base.ops = &t->ops;
    t->attic = a;
    t->mover = mover;
    return &t->base;
}

static void attic_open(attic *a)
{
    memset(a, 0, sizeof *a);
    pthread_mutex_init(&a->lock, NULL);
    a->records = calloc(RECORDS, sizeof *a->records);
}

static void attic_end(attic *a)
{
    for (uint32_t i = 0; i < a->count; i++)
        free(a->records[i].bytes);
    free(a->records);
    pthread_mutex_destroy(&a->lock);
}

/* Slow to compute, so that restores pay. */
static void boot(world *w, attic *a, sim_config config, bool quick)
{
    memset(&w->f, 0, sizeof w->f);
    virtual_clock_init(&w->f.clock, 1000000);
    w->f.ledger = calloc(LEDGER_MAX, sizeof *w->f.ledger);
    config.prefill_tokens_per_s = 200;
    assert_int_equal(sim_runner_create(&w->f.runner, &config, NULL), OK);
    engine_config engine = {
        .tenants = &three_tenants, .clock = &w->f.clock.base, .wake = fixture_wake, .wake_context = &w->f};
    engine.cache.tiers[0] = tier_of(a, w->f.runner->mover, quick);
    engine.cache.tier_count = 1;
    assert_int_equal(engine_create(&w->f.engine, w->f.runner, &engine, NULL), OK);
    w->next_id = 0;
}

static void expect_no_leak(world *w) /* once the tiers have let go of what they wrote */
{
    for (int waits = 0; fixture_snapshot(&w->f).pages_free < fixture_snapshot(&w->f).pages_total; waits++) {
        assert_true(waits < 100000);
        nap(50);
        run(w);
    }
    fixture_expect_no_leak(&w->f);
}

static void halt(world *w)
{
    fixture_close(&w->f);
}

static void a_restart_is_warm(void **unused)
{
    (void)unused;
    for (uint32_t kind = 0; kind < 2 * KINDS; kind++) {
        static world w;
        attic a;
        attic_open(&a);
        a.part_us = 200;
        w = (world){.random = {9}};
        boot(&w, &a, box(kind % KINDS, 2000), kind < KINDS);
        talk *t = &w.talks[0];
        t->count = 0;
        say(&w, t, 700);
        answer(&w, t, 64);
        say(&w, t, 30);
        answer(&w, t, 64);
        halt(&w);
        assert_true(a.count >= t->count / 16 - 1);
        boot(&w, &a, box(kind % KINDS, 2000), kind < KINDS);
        uint32_t before = t->count;
        say(&w, t, 30);
        uint64_t id = w.next_id;
        answer(&w, t, 64);
        assert_int_equal(cached_of(&w, id), kind % KINDS == DENSE ? before / 16 * 16 : before);
        assert_int_equal(w.f.ledger[id].end.lookup.hits[PLACE_TIERS], cached_of(&w, id));
        assert_int_equal(engine_forget(w.f.engine, 0, NULL, NULL), OK);
        assert_int_equal(a.count, 0);
        id = w.next_id;
        answer(&w, t, 64);
        assert_int_equal(cached_of(&w, id), 0);
        halt(&w);
        attic_end(&a);
    }
}

static uint64_t admitted_us(world *w, uint64_t id)
{
    static trace_record records[TRACE_COPY_MAX];
    uint64_t cursor = 0, lost;
    size_t count;
    while ((count = engine_read_trace(w->f.engine, &cursor, records, TRACE_COPY_MAX, &lost)) > 0)
        for (size_t i = 0; i < count; i++)
            if (records[i].kind == TRACE_ADMITTED && records[i].request_id == id)
                return records[i].start_us;
    fail_msg("request %u was not admitted", (unsigned)id);
    return 0;
}

/* Until the tier has answered it looks like one. */
static void a_turn_from_a_tier_does_not_wait_for_documents(void **unused)
{
    (void)unused;
    static world w;
    attic a;
    attic_open(&a);
    w = (world){.random = {9}};
    boot(&w, &a, box(DENSE, 2000), false); /* one question: tails would be asked for besides, in real time */
    talk *t = &w.talks[0];
    t->count = 0;
    say(&w, t, 700);
    answer(&w, t, 64);
    halt(&w);
    boot(&w, &a, box(DENSE, 2000), false);
    uint64_t document = w.next_id;
    for (int i = 1; i < 5; i++) {
        w.talks[i].count = 0;
        say(&w, &w.talks[i], 800);
        fixture_submit(&w.f, ask(&w, &w.talks[i], 4));
    }
    say(&w, t, 30);
    uint64_t turn = w.next_id;
    uint32_t asked = a.asked;
    fixture_submit(&w.f, ask(&w, t, 4));
    engine_step(w.f.engine);
    for (int waits = 0; a.asked < asked + 5; waits++) { /* for each of the five */
        assert_true(waits < 100000);
        nap(50);
    }
    nap(20000);
    run(&w);
    assert_true(cached_of(&w, turn) >= 700);
    assert_true(admitted_us(&w, turn) < admitted_us(&w, document + 1));
    halt(&w);
    attic_end(&a);
}

static void what_is_damaged_is_computed(void **unused)
{
    (void)unused;
    for (uint32_t damage = 1; damage < 60; damage = damage * 2 + 1)
        for (box_kind kind = DENSE; kind < KINDS; kind++) {
            static world w;
            attic a;
            attic_open(&a);
            w = (world){.random = {damage}};
            boot(&w, &a, box(kind, 2000), true);
            talk *t = &w.talks[0];
            t->count = 0;
            say(&w, t, 900);
            answer(&w, t, 64);
            halt(&w);
            a.damage = damage;
            a.part_us = 100;
            boot(&w, &a, box(kind, 2000), true);
            answer(&w, t, 64); /* compares with the cold answer */
            expect_no_leak(&w);
            halt(&w);
            attic_end(&a);
        }
}

static void whatever_the_tiers_do_the_words_are_the_same(void **unused)
{
    (void)unused;
    for (uint64_t seed = 1; seed <= 15; seed++) {
        static world w;
        attic a;
        attic_open(&a);
        w = (world){.random = {seed}};
        for (int life = 0; life < 4; life++) {
            a.damage = seed % 4 == 0 ? 40 : 0;
            a.part_us = (uint32_t)rng_below(&w.random, 300);
            a.has_us = seed % 5 == 0 ? 100 : 0;
            boot(&w, &a, box(seed % KINDS, seed % 4 ? 400 : 1500), seed % 5 != 0);
            for (int i = 0; i < 12; i++)
                crowd(&w);
            expect_no_leak(&w);
            halt(&w);
        }
        print_message("seed %d: %u records, %u restores of %u pages\n", (int)seed, a.count, a.gets, a.got_pages);
        assert_true(a.gets > 0);
        attic_end(&a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_restart_is_warm),
        cmocka_unit_test(a_turn_from_a_tier_does_not_wait_for_documents),
        cmocka_unit_test(what_is_damaged_is_computed),
        cmocka_unit_test(whatever_the_tiers_do_the_words_are_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
