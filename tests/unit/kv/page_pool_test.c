/* tests/unit/kv/page_pool_test.c: the pool against a naive model, and its assertions. */
#include "kv/page_pool.h"

#include "base/rng.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static page_pool *pool_of(uint32_t page_count, uint64_t seed)
{
    page_pool *pool;
    assert_int_equal(page_pool_create(&pool, &(page_pool_config){page_count, seed}, NULL), OK);
    return pool;
}

static void lends_each_page_once(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 3; seed++) {
        page_pool *pool = pool_of(100, seed);
        bool lent[100] = {false};
        page_id page;
        for (int i = 0; i < 100; i++) {
            assert_true(page_pool_acquire(pool, &page));
            assert_false(lent[page]);
            lent[page] = true;
        }
        assert_false(page_pool_acquire(pool, &page));
        page_pool_destroy(pool);
    }
}

static void a_seed_permutes_the_order(void **state)
{
    (void)state;
    page_pool *plain = pool_of(64, 0), *shuffled = pool_of(64, 5), *again = pool_of(64, 5);
    int moved = 0;
    for (page_id i = 0; i < 64; i++) {
        page_id a, b, c;
        page_pool_acquire(plain, &a);
        page_pool_acquire(shuffled, &b);
        page_pool_acquire(again, &c);
        assert_int_equal(a, i);
        assert_int_equal(b, c);
        moved += a != b;
    }
    assert_true(moved > 50);
    page_pool_destroy(plain);
    page_pool_destroy(shuffled);
    page_pool_destroy(again);
}

static void agrees_with_a_naive_model(void **state)
{
    (void)state;
    enum { PAGES = 37 };
    uint32_t holders[PAGES] = {0};
    page_pool *pool = pool_of(PAGES, 9);
    rng random = {1};
    for (int i = 0; i < 100000; i++) {
        uint32_t used = 0;
        for (int p = 0; p < PAGES; p++)
            used += holders[p] > 0;
        page_id page = (page_id)rng_below(&random, PAGES);
        uint64_t what = rng_below(&random, 5);
        if (what < 2) {
            bool lent = page_pool_acquire(pool, &page);
            assert_int_equal(lent, used < PAGES);
            if (lent) {
                assert_int_equal(holders[page], 0);
                holders[page] = 1;
            }
        } else if (what == 2 && holders[page]) {
            page_pool_share(pool, page);
            holders[page]++;
        } else if (holders[page]) {
            page_pool_release(pool, page);
            holders[page]--;
        }
        assert_int_equal(page_pool_holders(pool, page), holders[page]);
    }
    page_pool_counts counts = page_pool_read_counts(pool);
    assert_int_equal(counts.acquired - counts.released, counts.total - counts.free);
    page_pool_destroy(pool);
}

/* Idleness is what a kept page's holders say, and whatever changed it is on the list once. */
static void kept_pages_are_idle_with_one_holder(void **state)
{
    (void)state;
    enum { PAGES = 23 };
    uint32_t holders[PAGES] = {0};
    bool kept[PAGES] = {false}, was_idle[PAGES] = {false};
    page_pool *pool = pool_of(PAGES, 9);
    rng random = {2};
    for (int i = 0; i < 100000; i++) {
        page_id page = (page_id)rng_below(&random, PAGES);
        uint64_t what = rng_below(&random, 6);
        if (what == 0 && page_pool_acquire(pool, &page)) {
            holders[page] = 1;
        } else if (what == 1 && holders[page]) {
            page_pool_share(pool, page);
            holders[page]++;
        } else if (what == 2 && holders[page] > kept[page]) {
            page_pool_release(pool, page);
            holders[page]--;
        } else if (what == 3 && holders[page]) {
            kept[page] = !kept[page];
            page_pool_keep(pool, page, kept[page]);
        } else if (what == 4 && rng_below(&random, 10) == 0) {
            bool listed[PAGES] = {false};
            while (page_pool_next_changed(pool, &page)) {
                assert_false(listed[page]);
                listed[page] = true;
            }
            for (int p = 0; p < PAGES; p++) {
                bool idle = kept[p] && holders[p] == 1;
                assert_true(listed[p] || idle == was_idle[p]);
                was_idle[p] = idle;
            }
        }
        uint32_t idle = 0;
        for (int p = 0; p < PAGES; p++)
            idle += kept[p] && holders[p] == 1;
        assert_int_equal(page_pool_read_counts(pool).idle, idle);
    }
    page_pool_destroy(pool);
}

static void keep_twice(page_pool *pool)
{
    page_id page;
    page_pool_acquire(pool, &page);
    page_pool_keep(pool, page, true);
    page_pool_keep(pool, page, true);
}

static void free_a_kept_page(page_pool *pool)
{
    page_id page;
    page_pool_acquire(pool, &page);
    page_pool_keep(pool, page, true);
    page_pool_release(pool, page);
}

static void release_a_free_page(page_pool *pool)
{
    page_pool_release(pool, 3);
}

static void release_twice(page_pool *pool)
{
    page_id page;
    page_pool_acquire(pool, &page);
    page_pool_release(pool, page);
    page_pool_release(pool, page);
}

static void share_a_free_page(page_pool *pool)
{
    page_pool_share(pool, 0);
}

static bool aborts(void (*act)(page_pool *pool))
{
    pid_t child = fork();
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        if (!freopen("/dev/null", "w", stderr))
            _exit(1);
        act(pool_of(8, 0));
        _exit(0);
    }
    int how;
    waitpid(child, &how, 0);
    return WIFSIGNALED(how) && WTERMSIG(how) == SIGABRT;
}

static void asserts_on_pages_that_are_not_lent(void **state)
{
    (void)state;
    assert_true(aborts(release_a_free_page));
    assert_true(aborts(release_twice));
    assert_true(aborts(share_a_free_page));
    assert_true(aborts(keep_twice));
    assert_true(aborts(free_a_kept_page));
}

static void refuses_an_empty_pool(void **state)
{
    (void)state;
    page_pool *pool;
    error err = {""};
    assert_int_equal(page_pool_create(&pool, &(page_pool_config){0}, &err), ERR_INVALID);
    page_pool_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lends_each_page_once),      cmocka_unit_test(a_seed_permutes_the_order),
        cmocka_unit_test(agrees_with_a_naive_model), cmocka_unit_test(asserts_on_pages_that_are_not_lent),
        cmocka_unit_test(refuses_an_empty_pool),     cmocka_unit_test(kept_pages_are_idle_with_one_holder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
