/* Tails: the longest common beginning is found, what is held twice is held once, pages are given back. */
#include "sched/tails.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

enum { PAGE_TOKENS = 8, PAGES = 200, STATE_PAGES = 9, SESSIONS = 100 }; /* owners from SESSIONS on have sessions */

typedef struct {
    page_pool *pool;
    tails t;
    uint32_t state_pages;
} world;

static void open_world(world *w)
{
    assert_int_equal(page_pool_create(&w->pool, &(page_pool_config){PAGES, 0}, NULL), OK);
    assert_int_equal(tails_open(&w->t, w->pool, &(tails_config){PAGE_TOKENS, w->state_pages, PAGES - 40}, NULL), OK);
}

static void close_world(world *w)
{
    tails_close(&w->t);
    page_pool_counts counts = page_pool_read_counts(w->pool);
    assert_int_equal(counts.free, counts.total);
    page_pool_destroy(w->pool);
}

static page_id put(world *w, uint64_t key, uint32_t owner, const int32_t *tokens, uint32_t count, uint64_t now_us)
{
    page_id pages[1 + STATE_PAGES];
    for (uint32_t i = 0; i <= w->state_pages; i++)
        assert_true(page_pool_acquire(w->pool, &pages[i]));
    new_tail made = {{key, 0}, owner, count, tokens, pages[0], pages + 1, owner >= SESSIONS};
    tails_put(&w->t, &made, now_us);
    for (uint32_t i = 0; i <= w->state_pages; i++)
        page_pool_release(w->pool, pages[i]);
    return pages[0];
}

static uint32_t find(world *w, uint64_t key, const int32_t *tokens, uint32_t most, page_id *page)
{
    found_tail found = {0};
    uint32_t peeked = tails_peek(&w->t, (prefix_key){key, 0}, tokens, most);
    uint32_t count = tails_find(&w->t, (prefix_key){key, 0}, tokens, most, 1000, &found);
    assert_int_equal(peeked, count);
    *page = found.page;
    for (uint32_t i = 0; count && i < w->state_pages; i++)
        assert_int_equal(page_pool_holders(w->pool, found.state[i]), 1);
    return count;
}

static void the_longest_beginning_is_found(void **unused)
{
    (void)unused;
    world w = {0};
    open_world(&w);
    const int32_t a[] = {1, 2, 3, 4, 5, 6, 7}, b[] = {1, 2, 9, 9, 9, 9, 9}, c[] = {5, 5};
    page_id of_a = put(&w, 1, 0, a, 5, 10), of_b = put(&w, 1, 0, b, 7, 11), found = 0;
    put(&w, 2, 0, c, 2, 12);
    assert_int_equal(find(&w, 1, a, 7, &found), 5); /* slots behind it mean nothing */
    assert_int_equal(found, of_a);
    assert_int_equal(find(&w, 1, a, 3, &found), 3); /* no more than may be used */
    assert_int_equal(find(&w, 1, b, 7, &found), 7);
    assert_int_equal(found, of_b);
    assert_int_equal(find(&w, 1, c, 2, &found), 0);
    assert_int_equal(find(&w, 3, a, 7, &found), 0);
    close_world(&w);
}

static void what_goes_on_replaces_its_beginning(void **unused)
{
    (void)unused;
    world w = {0};
    open_world(&w);
    const int32_t a[] = {1, 2, 3, 4, 5, 6, 7};
    page_id found = 0;
    put(&w, 1, 0, a, 3, 10);
    page_id longer = put(&w, 1, 0, a, 6, 11);
    assert_int_equal(w.t.count, 1);
    put(&w, 1, 0, a, 4, 12);
    assert_int_equal(w.t.count, 1);
    assert_int_equal(find(&w, 1, a, 7, &found), 6);
    assert_int_equal(found, longer);
    close_world(&w);
}

static void the_oldest_goes_and_so_does_what_is_forgotten(void **unused)
{
    (void)unused;
    world w = {0};
    open_world(&w);
    const int32_t a[] = {1, 2, 3};
    page_id found;
    for (uint32_t i = 0; i < TAILS_MAX + 5; i++)
        put(&w, i, i % 4, a, 3, 100 + i);
    assert_int_equal(w.t.count, TAILS_MAX);
    assert_int_equal(find(&w, 4, a, 3, &found), 0);
    assert_int_equal(find(&w, 5, a, 3, &found), 3); /* and is young now */
    assert_true(tails_drop_one(&w.t));
    assert_int_equal(find(&w, 6, a, 3, &found), 0);
    assert_int_equal(find(&w, 5, a, 3, &found), 3);
    uint32_t before = w.t.count, gone = tails_forget(&w.t, 2, 2);
    assert_int_equal(before - gone, w.t.count);
    for (uint32_t i = 0; i < w.t.count; i++)
        assert_true(w.t.tails[i].owner < 2);
    tails_expire(&w.t, 1000); /* all but the one that was used at 1,000 */
    assert_int_equal(w.t.count, 1);
    assert_int_equal(find(&w, 5, a, 3, &found), 3);
    close_world(&w);
}

static void what_came_once_goes_before_sessions(void **unused)
{
    (void)unused;
    world w = {0};
    open_world(&w);
    const int32_t a[] = {1, 2, 3};
    page_id found;
    put(&w, 1000, SESSIONS, a, 3, 1);
    put(&w, 1001, 0, a, 3, 2);
    assert_int_equal(find(&w, 1001, a, 3, &found), 3); /* used: it is worth as much */
    for (uint32_t i = 0; i < 5 * TAILS_MAX; i++)
        put(&w, i, 1, a, 3, 5000 + i);
    assert_int_equal(w.t.count, TAILS_MAX);
    assert_int_equal(find(&w, 1000, a, 3, &found), 3);
    assert_int_equal(find(&w, 1001, a, 3, &found), 3);
    for (uint32_t i = 0; i < TAILS_MAX; i++)
        put(&w, i, SESSIONS + 1, a, 3, 9000 + i);
    assert_int_equal(w.t.count, TAILS_MAX); /* among sessions by age */
    assert_int_equal(find(&w, 1000, a, 3, &found), 0);
    close_world(&w);
}

/* With states: whole or not at all, each place of its own, no more pages than they may have. */
static void a_state_is_of_use_behind_its_token_only(void **unused)
{
    (void)unused;
    world w = {.state_pages = STATE_PAGES};
    open_world(&w);
    const int32_t a[] = {1, 2, 3, 4, 5, 6, 7};
    page_id found = 0;
    page_id shorter = put(&w, 1, 0, a, 3, 10), longer = put(&w, 1, 0, a, 6, 11);
    put(&w, 1, 0, a, 6, 12);
    assert_int_equal(w.t.count, 2);
    assert_int_equal(tails_pages(&w.t), 2 * (1 + STATE_PAGES));
    assert_int_equal(find(&w, 1, a, 7, &found), 6);
    assert_int_equal(found, longer);
    assert_int_equal(find(&w, 1, a, 5, &found), 3);
    assert_int_equal(found, shorter);
    assert_int_equal(find(&w, 1, a, 2, &found), 0);
    tails_drop(&w.t, 1);
    tails_drop(&w.t, 77); /* nobody's */
    assert_int_equal(find(&w, 1, a, 5, &found), 0);
    assert_int_equal(find(&w, 1, a, 6, &found), 6);
    for (uint32_t i = 0; i < 3 * TAILS_MAX; i++) {
        put(&w, 100 + i, 1, a, 3, 5000 + i);
        assert_true(w.t.count * (1 + STATE_PAGES) <= w.t.config.pages_max);
    }
    assert_int_equal(find(&w, 1, a, 6, &found), 6); /* it was used: a session's */
    assert_int_equal(tails_forget(&w.t, 0, 1), 1 + STATE_PAGES);
    close_world(&w);
}

/* A budget that one does not fit into keeps none. */
static void none_is_kept_without_room(void **unused)
{
    (void)unused;
    world w = {.state_pages = STATE_PAGES};
    open_world(&w);
    w.t.config.pages_max = STATE_PAGES;
    const int32_t a[] = {1, 2, 3};
    put(&w, 1, 0, a, 3, 10);
    assert_int_equal(w.t.count, 0);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_longest_beginning_is_found),
        cmocka_unit_test(what_goes_on_replaces_its_beginning),
        cmocka_unit_test(the_oldest_goes_and_so_does_what_is_forgotten),
        cmocka_unit_test(what_came_once_goes_before_sessions),
        cmocka_unit_test(a_state_is_of_use_behind_its_token_only),
        cmocka_unit_test(none_is_kept_without_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
