/* tests/unit/kv/tiering_test.c: tiering over tiers in memory that are slow, stuck or damaged on demand. The test's
 * thread is the engine thread. Meant for ThreadSanitizer too. */
#include "kv/tiering.h"

#include "base/rng.h"
#include "kv/tier_speed.h"
#include "unit/kv/memory_tier.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

enum { PAGE_BYTES = MOVER_PARTS * MOVER_PART_BYTES };

typedef struct {
    array_mover mover;
    page_pool *pool;
    memory_tier *tiers[TIERS_MAX];
    tiering *t;
    _Atomic uint32_t wakes;
} bench;

static void count_wake(void *context)
{
    ((bench *)context)->wakes++;
}

static void bench_open(bench *b, const tier_ops *first, const tier_ops *second, uint64_t queue_pages, uint64_t ttl_us)
{
    memset(b, 0, sizeof *b);
    b->mover.base = (page_mover){&array_ops, MOVER_PARTS, MOVER_PART_BYTES, 1};
    assert_int_equal(page_pool_create(&b->pool, &(page_pool_config){MOVER_PAGES, 0}, NULL), OK);
    b->tiers[0] = memory_tier_make(&b->mover.base, first);
    b->tiers[1] = second ? memory_tier_make(&b->mover.base, second) : NULL;
    tiering_config config = {.tiers = {&b->tiers[0]->base, second ? &b->tiers[1]->base : NULL},
                             .tier_count = second ? 2 : 1,
                             .mover = &b->mover.base,
                             .pool = b->pool,
                             .ttl_us = ttl_us,
                             .queue_bytes_max = queue_pages * PAGE_BYTES,
                             .wake = count_wake,
                             .wake_context = b};
    assert_int_equal(tiering_open(&b->t, &config, NULL), OK);
}

static void bench_close(bench *b)
{
    tiering_close(b->t, 10000000);
    page_pool_counts counts = page_pool_read_counts(b->pool);
    assert_int_equal(counts.free, counts.total);
    page_pool_destroy(b->pool);
    for (int i = 0; i < TIERS_MAX; i++)
        if (b->tiers[i])
            memory_tier_free(b->tiers[i]);
}

/* Turns of the engine thread until `condition` holds; ten seconds at most. */
#define UNTIL(b, condition)                                                                                            \
    do {                                                                                                               \
        uint64_t end_us = clock_now_us() + 10000000;                                                                   \
        while (!(condition) && clock_now_us() < end_us) {                                                              \
            tiering_collect((b)->t);                                                                                   \
            tier_pause(200);                                                                                           \
        }                                                                                                              \
        assert_true(condition);                                                                                        \
    } while (0)

static const int32_t *tokens_of(uint32_t number)
{
    static int32_t tokens[1024][PAGE_TOKENS];
    for (int i = 0; i < PAGE_TOKENS; i++)
        tokens[number][i] = (int32_t)(number * 10 + (uint32_t)i);
    return tokens[number];
}

static tier_page page_of(uint32_t number, uint64_t space, page_id page)
{
    return (tier_page){{number * 0x9E3779B97F4A7C15u, number}, space, tokens_of(number), PAGE_TOKENS, page};
}

static char byte_of(uint32_t number, uint32_t part)
{
    return (char)(number * 7 + part + 1);
}

static page_id filled_page(bench *b, uint32_t number)
{
    page_id page;
    assert_true(page_pool_acquire(b->pool, &page));
    for (uint32_t p = 0; p < MOVER_PARTS; p++)
        memset(b->mover.bytes[page][p], byte_of(number, p), MOVER_PART_BYTES);
    return page;
}

static bool page_holds(bench *b, page_id page, uint32_t number)
{
    for (uint32_t p = 0; p < MOVER_PARTS; p++)
        for (int i = 0; i < MOVER_PART_BYTES; i++)
            if (b->mover.bytes[page][p][i] != byte_of(number, p))
                return false;
    return true;
}

static bool store_number(bench *b, uint32_t number, uint64_t space)
{
    page_id page = filled_page(b, number);
    tier_page p = page_of(number, space, page);
    bool stored = tiering_store(b->t, &p, 1);
    page_pool_release(b->pool, page); /* tiering has its own share */
    return stored;
}

static void store_range(bench *b, uint32_t first, uint32_t count, uint64_t space)
{
    for (uint32_t i = first; i < first + count; i++)
        assert_true(store_number(b, i, space));
    UNTIL(b, tiering_pages_held(b->t) == 0);
}

typedef struct {
    tier_page pages[64];
    uint32_t holders[64], count, head;
    tier_restore *r;
} restore_case;

static void restore_range(bench *b, restore_case *c, uint32_t first, uint32_t count, uint32_t head, uint32_t holder)
{
    c->count = count;
    c->head = head;
    for (uint32_t i = 0; i < count; i++) {
        page_id page;
        assert_true(page_pool_acquire(b->pool, &page));
        memset(b->mover.bytes[page], 0, sizeof b->mover.bytes[page]);
        c->pages[i] = page_of(first + i, 1, page);
        c->holders[i] = holder ? holder : 1 + i % 2;
    }
    c->r = tiering_restore(b->t, c->pages, c->holders, count, head);
    assert_non_null(c->r);
}

static void restore_close(bench *b, restore_case *c)
{
    tiering_restore_end(b->t, c->r);
    for (uint32_t i = 0; i < c->count; i++)
        page_pool_release(b->pool, c->pages[i].page);
    UNTIL(b, tiering_pages_held(b->t) == 0);
}

static bool ended(const restore_case *c)
{
    return tiering_progress(c->r).ended;
}

/* ---- the round trip ---- */

static void pages_come_back_from_every_tier(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, &quick_ops, &slow_ops, 200, 0);
    store_range(&b, 0, 20, 1);
    assert_int_equal(b.tiers[0]->count, 20);
    assert_int_equal(b.tiers[1]->count, 20);
    for (uint32_t holder = 0; holder <= 2; holder++) { /* 0: by turns */
        restore_case c;
        restore_range(&b, &c, 0, 20, 3, holder);
        UNTIL(&b, ended(&c));
        restore_progress p = tiering_progress(c.r);
        assert_true(p.head_done);
        assert_false(p.head_failed);
        assert_int_equal(p.parts_done, MOVER_PARTS);
        assert_int_equal(atomic_load(tiering_parts(c.r)), MOVER_PARTS);
        assert_int_equal(p.whole, 17);
        assert_int_equal(p.bytes_by_tier[0] + p.bytes_by_tier[1], 20 * PAGE_BYTES);
        for (uint32_t i = 0; i < 20; i++)
            assert_true(page_holds(&b, c.pages[i].page, i));
        restore_close(&b, &c);
    }
    assert_true(b.wakes > 0);
    bench_close(&b);
}

/* ---- asks ---- */

static void quick_tiers_answer_at_once(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, &quick_ops, &quick_ops, 200, 0);
    store_range(&b, 0, 4, 1);
    b.tiers[0]->count = 2; /* the first forgets two of them */
    prefix_key keys[5];
    for (uint32_t i = 0; i < 5; i++)
        keys[i] = page_of(i, 1, 0).key;
    tier_ask *a = tiering_ask(b.t, keys, 5);
    assert_true(tiering_answered(a));
    const uint32_t expected[5] = {1, 1, 2, 2, 0};
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(tiering_holder(a, i), expected[i]);
    tiering_ask_end(b.t, a);
    bench_close(&b);
}

static void a_slow_tier_is_asked_only_for_what_is_missing(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, &quick_ops, &slow_ops, 200, 0);
    store_range(&b, 0, 4, 1);
    prefix_key keys[4];
    for (uint32_t i = 0; i < 4; i++)
        keys[i] = page_of(i, 1, 0).key;
    b.tiers[1]->has_us = 5000;
    tier_ask *all = tiering_ask(b.t, keys, 4);
    assert_true(tiering_answered(all)); /* the quick one has all of them */
    b.tiers[0]->count = 2;
    tier_ask *some = tiering_ask(b.t, keys, 4);
    assert_false(tiering_answered(some));
    uint32_t wakes = b.wakes;
    UNTIL(&b, tiering_answered(some));
    UNTIL(&b, b.wakes > wakes);
    const uint32_t expected[4] = {1, 1, 2, 2};
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(tiering_holder(some, i), expected[i]);
    tiering_ask_end(b.t, some);
    tiering_ask_end(b.t, all);
    bench_close(&b);
}

static void a_stuck_tier_has_nothing_after_the_limit(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, &quick_ops, &slow_ops, 200, 0);
    store_range(&b, 0, 2, 1);
    b.tiers[0]->count = 1;
    b.tiers[1]->has_shut = true;
    prefix_key keys[2] = {page_of(0, 1, 0).key, page_of(1, 1, 0).key};
    uint64_t start_us = clock_now_us();
    uint32_t wakes = b.wakes;
    tier_ask *a = tiering_ask(b.t, keys, 2), *behind = tiering_ask(b.t, keys, 2), *given_up = tiering_ask(b.t, keys, 2);
    tiering_ask_end(b.t, given_up);
    UNTIL(&b, tiering_answered(a) && tiering_answered(behind));
    assert_true(clock_now_us() - start_us >= 29000);
    UNTIL(&b, b.wakes > wakes);
    assert_int_equal(tiering_holder(a, 0), 1);
    assert_int_equal(tiering_holder(a, 1), 0);
    b.tiers[1]->has_shut = false;
    tier_pause(20000);
    assert_int_equal(tiering_holder(a, 1), 0); /* an answer does not change */
    tiering_ask_end(b.t, a);
    tiering_ask_end(b.t, behind);
    tier_ask *later = tiering_ask(b.t, keys, 2);
    UNTIL(&b, tiering_answered(later));
    assert_int_equal(tiering_holder(later, 1), 2);
    tiering_ask_end(b.t, later);
    bench_close(&b);
}

static void open_asks_are_bounded(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, &slow_ops, NULL, 200, 0);
    b.tiers[0]->has_shut = true;
    prefix_key key = page_of(0, 1, 0).key;
    uint32_t open = 0;
    while (open < 1000 && tiering_ask(b.t, &key, 1))
        open++;
    assert_int_equal(open, 256);
    b.tiers[0]->has_shut = false;
    bench_close(&b); /* ends those that are open */
}

/* ---- restores ---- */

static void the_head_comes_first_and_parts_follow(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, &quick_ops, &quick_ops, 200, 0);
    store_range(&b, 0, 10, 1);
    b.tiers[0]->gets_allowed = b.tiers[1]->gets_allowed = 1;
    b.tiers[1]->part_shut[MOVER_PARTS - 1] = true;
    restore_case c;
    restore_range(&b, &c, 0, 10, 2, 0); /* a page of the head from each tier */
    UNTIL(&b, tiering_progress(c.r).bytes_by_tier[0] == PAGE_BYTES && b.tiers[1]->in_get);
    b.tiers[0]->gets_allowed = 0; /* one tier goes on with the body */
    UNTIL(&b, tiering_progress(c.r).bytes_by_tier[0] == 5 * PAGE_BYTES);
    assert_false(tiering_progress(c.r).head_done);
    uint32_t wakes = b.wakes;
    b.tiers[1]->part_shut[MOVER_PARTS - 1] = false;
    UNTIL(&b, tiering_progress(c.r).head_done);
    UNTIL(&b, b.wakes > wakes);
    assert_true(page_holds(&b, c.pages[0].page, 0) && page_holds(&b, c.pages[1].page, 1));
    tier_pause(5000);
    assert_int_equal(tiering_progress(c.r).parts_done, 0);
    assert_false(ended(&c));
    b.tiers[1]->gets_allowed = 0;
    UNTIL(&b, ended(&c));
    assert_int_equal(tiering_progress(c.r).whole, 8);
    assert_int_equal(tiering_progress(c.r).parts_done, MOVER_PARTS);
    restore_close(&b, &c);
    bench_close(&b);
}

/* The body is there before the head: no part counts until the head does. */
static void no_part_counts_before_the_head(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, &quick_ops, &quick_ops, 200, 0);
    store_range(&b, 0, 4, 1);
    b.tiers[1]->part_shut[0] = true;
    restore_case c = {.count = 4};
    for (uint32_t i = 0; i < 4; i++) {
        c.pages[i] = page_of(i, 1, filled_page(&b, 500));
        c.holders[i] = i == 0 ? 2 : 1;
    }
    c.r = tiering_restore(b.t, c.pages, c.holders, 4, 1);
    UNTIL(&b, tiering_progress(c.r).whole == 3);
    assert_int_equal(tiering_progress(c.r).parts_done, 0);
    b.tiers[1]->part_shut[0] = false;
    UNTIL(&b, ended(&c));
    assert_int_equal(tiering_progress(c.r).parts_done, MOVER_PARTS);
    restore_close(&b, &c);
    bench_close(&b);
}

static void parts_are_announced_one_by_one(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, &quick_ops, &quick_ops, 200, 0);
    store_range(&b, 0, 10, 1);
    for (int i = 0; i < TIERS_MAX; i++)
        for (int p = 0; p < MOVER_PARTS; p++)
            b.tiers[i]->part_shut[p] = true;
    restore_case c;
    restore_range(&b, &c, 0, 10, 0, 0);
    assert_true(tiering_progress(c.r).head_done); /* there is none */
    for (uint32_t p = 0; p < MOVER_PARTS; p++) {
        uint32_t wakes = b.wakes;
        b.tiers[0]->part_shut[p] = false;
        tier_pause(3000);
        assert_int_equal(tiering_progress(c.r).parts_done, p); /* half of the pages lack it */
        b.tiers[1]->part_shut[p] = false;
        UNTIL(&b, atomic_load(tiering_parts(c.r)) == p + 1);
        UNTIL(&b, b.wakes > wakes);
        for (uint32_t i = 0; i < 10; i++)
            assert_int_equal(b.mover.bytes[c.pages[i].page][p][5], byte_of(i, p));
    }
    UNTIL(&b, ended(&c));
    restore_close(&b, &c);
    bench_close(&b);
}

static void a_failed_page_leaves_the_pages_before_it(void **state)
{
    (void)state;
    for (uint32_t fail_part = 0; fail_part < MOVER_PARTS; fail_part++) {
        bench b;
        bench_open(&b, &quick_ops, &quick_ops, 200, 0);
        store_range(&b, 0, 20, 1);
        b.tiers[0]->records[12].damaged = true;
        b.tiers[0]->fail_part = fail_part;
        restore_case c;
        restore_range(&b, &c, 0, 20, 2, 1);
        UNTIL(&b, ended(&c));
        restore_progress p = tiering_progress(c.r);
        assert_true(p.head_done);
        assert_int_equal(p.whole, 10);
        assert_int_equal(p.parts_done, fail_part); /* of the parts before it every page was there */
        for (uint32_t i = 0; i < 12; i++)
            assert_true(page_holds(&b, c.pages[i].page, i));
        restore_close(&b, &c);
        bench_close(&b);
    }
}

static void a_failed_head_ends_it(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, &quick_ops, &quick_ops, 200, 0);
    store_range(&b, 0, 20, 1);
    b.tiers[0]->records[1].damaged = true;
    restore_case c;
    restore_range(&b, &c, 0, 20, 2, 1);
    UNTIL(&b, ended(&c));
    restore_progress p = tiering_progress(c.r);
    assert_true(p.head_failed);
    assert_false(p.head_done);
    assert_int_equal(p.parts_done, 0);
    assert_int_equal(p.whole, 0);
    assert_int_equal(b.tiers[0]->gets, 1);
    restore_close(&b, &c);
    bench_close(&b);
}

static void other_tokens_and_nobody_are_failures(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, &quick_ops, NULL, 200, 0);
    store_range(&b, 0, 8, 1);
    b.tiers[0]->records[5].tokens[0]++; /* the key's hash is right, the tokens are not */
    restore_case c;
    restore_range(&b, &c, 0, 8, 0, 1);
    UNTIL(&b, ended(&c));
    assert_int_equal(tiering_progress(c.r).whole, 5);
    restore_close(&b, &c);
    restore_range(&b, &c, 0, 4, 0, 2); /* there is no tier 2 */
    UNTIL(&b, ended(&c));
    assert_int_equal(tiering_progress(c.r).whole, 0);
    assert_int_equal(tiering_progress(c.r).parts_done, 0);
    restore_close(&b, &c);
    bench_close(&b);
}

static void pages_stay_shared_until_a_stopped_read_lets_go(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, &quick_ops, NULL, 200, 0);
    store_range(&b, 0, 8, 1);
    b.tiers[0]->part_shut[1] = true;
    restore_case running, queued;
    restore_range(&b, &running, 0, 8, 0, 1);
    restore_range(&b, &queued, 0, 8, 0, 1);
    UNTIL(&b, atomic_load(tiering_parts(running.r)) == 1);
    tiering_restore_end(b.t, queued.r);
    tiering_restore_end(b.t, running.r);
    tiering_collect(b.t);
    assert_int_equal(tiering_pages_held(b.t), 8); /* the queued one's are back */
    for (uint32_t i = 0; i < 8; i++) {
        assert_int_equal(page_pool_holders(b.pool, running.pages[i].page), 2);
        page_pool_release(b.pool, running.pages[i].page);
        page_pool_release(b.pool, queued.pages[i].page);
    }
    b.tiers[0]->part_shut[1] = false;
    UNTIL(&b, tiering_pages_held(b.t) == 0);
    bench_close(&b);
}

/* ---- stores ---- */

static void the_queue_is_bounded_by_bytes(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, &quick_ops, NULL, 40, 0);
    b.tiers[0]->put_shut = true;
    uint32_t stored = 0;
    while (stored < 100 && store_number(&b, stored, 1))
        stored++;
    assert_int_equal(stored, 40);
    assert_int_equal(tiering_pages_held(b.t), 40);
    b.tiers[0]->put_shut = false;
    UNTIL(&b, tiering_pages_held(b.t) == 0);
    assert_true(store_number(&b, 40, 1));
    bench_close(&b);
}

static void a_stuck_tier_does_not_hold_up_the_other(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, &quick_ops, &slow_ops, 40, 0);
    b.tiers[1]->put_shut = true;
    for (uint32_t i = 0; i < 100; i++) {
        assert_true(store_number(&b, i, 1));
        UNTIL(&b, b.tiers[0]->put_pages == i + 1);
        UNTIL(&b, tiering_pages_held(b.t) <= 20); /* what the stuck one has taken */
    }
    assert_int_equal(b.tiers[0]->count, 100);
    b.tiers[1]->put_shut = false;
    bench_close(&b);
}

static void what_waits_is_not_stored_twice(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, &quick_ops, NULL, 40, 0);
    b.tiers[0]->put_shut = true;
    for (uint32_t round = 0; round < 5; round++)
        for (uint32_t i = 0; i < 10; i++)
            assert_true(store_number(&b, i, 1));
    assert_int_equal(tiering_pages_held(b.t), 10);
    b.tiers[0]->put_shut = false;
    UNTIL(&b, tiering_pages_held(b.t) == 0);
    assert_int_equal(b.tiers[0]->put_pages, 10);
    assert_true(b.tiers[0]->puts <= 3); /* in batches */
    bench_close(&b);
}

/* Nothing is written while somebody waits for a first token, and something is although somebody always does. */
static void writes_wait_for_a_first_token(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, &quick_ops, NULL, 200, 0);
    uint64_t held_us = clock_now_us();
    tiering_hold_writes(b.t, 50000);
    assert_true(store_number(&b, 0, 1));
    uint32_t puts = 0;
    while (clock_now_us() < held_us + 50000) {
        tier_pause(500);
        puts = b.tiers[0]->puts;
        if (puts > 0 && clock_now_us() < held_us + 50000)
            fail_msg("a page was written within %u us", (unsigned)(clock_now_us() - held_us));
    }
    UNTIL(&b, b.tiers[0]->put_pages == 1);
    for (uint32_t i = 1; i <= 100; i++)
        assert_true(store_number(&b, i, 1));
    UNTIL(&b, (tiering_hold_writes(b.t, 90000), b.tiers[0]->put_pages == 101)); /* 32 at once at most */
    bench_close(&b);
}

typedef struct {
    tiering *t;
    uint64_t space;
    status st;
    error err;
    _Atomic bool done;
} drop_call;

static void *drop_it(void *argument)
{
    drop_call *d = argument;
    d->st = tiering_drop(d->t, d->space, &d->err);
    d->done = true;
    return NULL;
}

static void a_drop_takes_what_waits_and_what_is_in_hand(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, &quick_ops, NULL, 200, 0);
    store_range(&b, 100, 5, 7);
    store_range(&b, 110, 5, 8);
    b.tiers[0]->put_shut = true;
    assert_true(store_number(&b, 0, 7));
    UNTIL(&b, b.tiers[0]->in_put); /* number 0 is in hand */
    for (uint32_t i = 1; i < 10; i++)
        assert_true(store_number(&b, i, i % 2 ? 7 : 8));
    drop_call d = {.t = b.t, .space = 7};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, drop_it, &d), 0);
    UNTIL(&b, tiering_pages_held(b.t) == 5); /* 0 in hand, four of space 8 */
    assert_false(d.done);
    assert_true(store_number(&b, 0, 7)); /* again, after the drop: stays */
    assert_true(store_number(&b, 3, 7));
    b.tiers[0]->put_shut = false;
    pthread_join(thread, NULL);
    assert_int_equal(d.st, OK);
    UNTIL(&b, tiering_pages_held(b.t) == 0);
    uint32_t of_seven = 0;
    for (uint32_t i = 0; i < b.tiers[0]->count; i++)
        of_seven += b.tiers[0]->records[i].space == 7;
    assert_int_equal(of_seven, 2);
    assert_int_equal(b.tiers[0]->count, 2 + 5 + 4);
    assert_int_equal(tiering_drop(b.t, 0, NULL), OK);
    assert_int_equal(b.tiers[0]->count, 0);
    bench_close(&b);
}

static void a_drop_that_fails_says_where(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, &quick_ops, &slow_ops, 200, 0);
    b.tiers[1]->drop_fails = true;
    error err = {""};
    assert_int_equal(tiering_drop(b.t, 3, &err), ERR_IO);
    assert_string_equal(err.text, "slow: no way");
    assert_int_equal(b.tiers[0]->drops, 1);
    bench_close(&b);
}

static void touches_flushes_and_expiry_reach_the_tier(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, &quick_ops, NULL, 200, 1000000);
    store_range(&b, 0, 3, 1);
    prefix_key keys[3] = {page_of(0, 1, 0).key, page_of(1, 1, 0).key, page_of(2, 1, 0).key};
    tiering_touch(b.t, keys, 3);
    UNTIL(&b, b.tiers[0]->touches == 3);
    UNTIL(&b, b.tiers[0]->flushes > 0);
    UNTIL(&b, b.tiers[0]->expires > 0);
    tier_counts counts[TIERS_MAX];
    const char *names[TIERS_MAX];
    assert_int_equal(tiering_read_counts(b.t, counts, names), 1);
    assert_int_equal(counts[0].records, 3);
    assert_string_equal(names[0], "quick");
    bench_close(&b);
}

static void close_writes_what_waits_or_drops_it(void **state)
{
    (void)state;
    for (int flush = 0; flush < 2; flush++) {
        bench b;
        bench_open(&b, &quick_ops, NULL, 200, 0);
        b.tiers[0]->put_us = 20000;
        for (uint32_t i = 0; i < 100; i++)
            assert_true(store_number(&b, i, 1));
        UNTIL(&b, b.tiers[0]->in_put || b.tiers[0]->put_pages > 0);
        _Atomic bool closed = false;
        b.tiers[0]->closed = &closed;
        tiering_close(b.t, flush ? 10000000 : 0);
        assert_true(closed);
        assert_true(flush ? b.tiers[0]->count == 100 : b.tiers[0]->count < 100);
        assert_true(b.tiers[0]->flushes > 0);
        page_pool_counts counts = page_pool_read_counts(b.pool);
        assert_int_equal(counts.free, counts.total);
        page_pool_destroy(b.pool);
        memory_tier_free(b.tiers[0]);
    }
}

/* ---- all at once ---- */

static uint32_t check_whole_pages(bench *b, const restore_case *c)
{
    restore_progress p = tiering_progress(c->r);
    uint32_t first = (uint32_t)c->pages[0].tokens[0] / 10;
    uint32_t whole = p.ended && p.head_done ? c->head + p.whole : 0;
    for (uint32_t i = 0; i < whole; i++)
        assert_true(page_holds(b, c->pages[i].page, first + i));
    assert_true(p.parts_done < MOVER_PARTS || !p.ended || whole == c->count);
    return whole;
}

static void damage_some(memory_tier *m, rng *random)
{
    pthread_mutex_lock(&m->lock);
    if (m->count)
        m->records[rng_below(random, m->count)].damaged = rng_below(random, 4) == 0;
    pthread_mutex_unlock(&m->lock);
    m->part_us = (uint32_t)rng_below(random, 30);
    m->fail_part = (uint32_t)rng_below(random, MOVER_PARTS);
}

static uint32_t random_step(bench *b, rng *random, restore_case *open, tier_ask **asks)
{
    uint32_t slot = (uint32_t)rng_below(random, 4), number = (uint32_t)rng_below(random, 90), checked = 0;
    restore_case *c = &open[slot];
    switch (rng_below(random, 8)) {
    case 0:
    case 1:
    case 2:
        for (uint32_t i = 0; i < 6; i++)
            store_number(b, number + i, 1 + number / 30 % 3);
        break;
    case 3:
        if (!c->r)
            restore_range(b, c, number, 1 + (uint32_t)rng_below(random, 10), (uint32_t)rng_below(random, 2), 0);
        break;
    case 4:
        if (!c->r || (!ended(c) && rng_below(random, 16) > 0))
            break;
        checked = check_whole_pages(b, c);
        tiering_restore_end(b->t, c->r);
        for (uint32_t i = 0; i < c->count; i++)
            page_pool_release(b->pool, c->pages[i].page);
        c->r = NULL;
        break;
    case 5:
        if (asks[slot]) {
            tiering_ask_end(b->t, asks[slot]);
            asks[slot] = NULL;
        } else {
            prefix_key keys[2] = {page_of(number, 1, 0).key, page_of(number + 1, 1, 0).key};
            asks[slot] = tiering_ask(b->t, keys, 2);
        }
        break;
    case 6:
        damage_some(b->tiers[slot % 2], random);
        break;
    default:
        tiering_collect(b->t);
        break;
    }
    return checked;
}

static void random_use_never_shows_other_bytes(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        bench b;
        bench_open(&b, seed % 2 ? &quick_ops : &slow_ops, &slow_ops, 60, 0);
        rng random = {seed};
        restore_case open[4] = {0};
        tier_ask *asks[4] = {0};
        uint32_t checked = 0;
        for (int step = 0; step < 4000; step++) {
            checked += random_step(&b, &random, open, asks);
            if (step % 500 == 499) {
                drop_call d = {.t = b.t, .space = rng_below(&random, 4)};
                pthread_t thread;
                assert_int_equal(pthread_create(&thread, NULL, drop_it, &d), 0);
                for (int i = 0; i < 50; i++)
                    random_step(&b, &random, open, asks);
                pthread_join(thread, NULL);
                assert_int_equal(d.st, OK);
            }
            if (step % 16 == 0) {
                tiering_collect(b.t);
                tier_pause(200);
            }
        }
        for (int i = 0; i < 4; i++)
            if (open[i].r)
                restore_close(&b, &open[i]);
        assert_true(checked > 0);
        bench_close(&b); /* every page is back */
    }
}

/* ---- how long it will take ---- */

static void the_prediction_follows_what_was_seen(void **state)
{
    (void)state;
    tier_speed s = tier_speed_guess();
    assert_true(tier_speed_predict(&s, 100000000, 0) > 100000 && tier_speed_predict(&s, 100000000, 0) < 102000);
    for (int i = 0; i < 20; i++) { /* 100 MB/s and 4 ms */
        tier_speed_learn(&s, 50000000, 504000, 1000);
        tier_speed_learn(&s, 1000, 4010, 1000);
    }
    double us = tier_speed_predict(&s, 50000000, 1000);
    assert_true(us > 490000 && us < 520000);
    us = tier_speed_predict(&s, 0, 1000);
    assert_true(us > 3800 && us < 4200);
    us = tier_speed_predict(&s, 50000000, 3600000000u); /* an hour on it is tried again */
    assert_true(us < 55000);
    for (int i = 0; i < 20; i++) /* 5 GB/s: quicker than the guess is believed for good */
        tier_speed_learn(&s, 500000000, 100050, 2000);
    us = tier_speed_predict(&s, 500000000, 3600000000u);
    assert_true(us < 110000);
}

static void what_waits_to_be_read_counts(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, &quick_ops, NULL, 200, 0);
    store_range(&b, 0, 8, 1);
    double idle_us = tiering_restore_us(b.t, 1, 0);
    assert_true(tiering_restore_us(b.t, 0, 0) > 1e12 && tiering_restore_us(b.t, 2, 0) > 1e12);
    b.tiers[0]->part_shut[0] = true;
    restore_case c;
    restore_range(&b, &c, 0, 8, 0, 1);
    assert_true(tiering_restore_us(b.t, 1, 0) > idle_us);
    b.tiers[0]->part_shut[0] = false;
    UNTIL(&b, ended(&c));
    restore_close(&b, &c);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_come_back_from_every_tier),
        cmocka_unit_test(quick_tiers_answer_at_once),
        cmocka_unit_test(a_slow_tier_is_asked_only_for_what_is_missing),
        cmocka_unit_test(a_stuck_tier_has_nothing_after_the_limit),
        cmocka_unit_test(open_asks_are_bounded),
        cmocka_unit_test(the_head_comes_first_and_parts_follow),
        cmocka_unit_test(no_part_counts_before_the_head),
        cmocka_unit_test(parts_are_announced_one_by_one),
        cmocka_unit_test(a_failed_page_leaves_the_pages_before_it),
        cmocka_unit_test(a_failed_head_ends_it),
        cmocka_unit_test(other_tokens_and_nobody_are_failures),
        cmocka_unit_test(pages_stay_shared_until_a_stopped_read_lets_go),
        cmocka_unit_test(the_queue_is_bounded_by_bytes),
        cmocka_unit_test(a_stuck_tier_does_not_hold_up_the_other),
        cmocka_unit_test(what_waits_is_not_stored_twice),
        cmocka_unit_test(writes_wait_for_a_first_token),
        cmocka_unit_test(a_drop_takes_what_waits_and_what_is_in_hand),
        cmocka_unit_test(a_drop_that_fails_says_where),
        cmocka_unit_test(touches_flushes_and_expiry_reach_the_tier),
        cmocka_unit_test(close_writes_what_waits_or_drops_it),
        cmocka_unit_test(random_use_never_shows_other_bytes),
        cmocka_unit_test(the_prediction_follows_what_was_seen),
        cmocka_unit_test(what_waits_to_be_read_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
