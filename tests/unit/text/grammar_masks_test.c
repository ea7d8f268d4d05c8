/* Masks equal what each token's bytes say, on random walks; threads; bounds. */
#include "unit/text/grammar_fixture.h"
#include "unit/text/tokenizer_fixture.h"

#include <pthread.h>

static token_masks *little_masks(tokenizer **t)
{
    token_masks *m;
    error err = {""};
    const int32_t stops[] = {LITTLE_EOS};
    *t = little_create("gpt-2");
    if (token_masks_create(&m, *t, LITTLE_COUNT, stops, 1, &err))
        fail_msg("%s", err.text);
    return m;
}

static void test_masks_equal_brute_force(void **state)
{
    (void)state;
    tokenizer *t;
    token_masks *m = little_masks(&t);
    for (int i = 0; i < GRAMMAR_CASES; i++) {
        grammar *g = make_grammar(grammar_cases[i].kind, grammar_cases[i].text);
        for (uint64_t seed = 1; seed <= 12; seed++) {
            buf text = {0};
            constraint_state end;
            walk_checked(m, g, seed, 150, 1, &text, &end);
            assert_int_not_equal(end, CONSTRAINT_FAILED);
            if (end == CONSTRAINT_OVER)
                assert_true(grammar_accepts(g, buf_span(&text)));
            buf_free(&text);
        }
        grammar_release(g);
    }
    token_masks_destroy(m);
    tokenizer_destroy(t);
}

static void test_a_stop_token_only_where_the_text_may_end(void **state)
{
    (void)state;
    tokenizer *t;
    error err = {""};
    token_masks *m = little_masks(&t);
    grammar *g = make_grammar(KIND_REGEX, "ab?");
    token_constraint *c;
    assert_int_equal(grammar_constraint(&c, g, m, &err), OK);
    wait_ready(c);
    int32_t a = tokenizer_find(t, span_from("a")), b = tokenizer_find(t, span_from("b")),
            ab = tokenizer_find(t, span_from("ab"));
#define ALLOWED(id) (c->ops->mask(c)[(id) / 32] >> (id) % 32 & 1)
    assert_true(ALLOWED(a) && ALLOWED(ab) && !ALLOWED(b) && !ALLOWED(LITTLE_EOS));
    assert_int_equal(c->ops->accept(c, a), CONSTRAINT_OPEN);
    wait_ready(c);
    assert_true(!ALLOWED(a) && !ALLOWED(ab) && ALLOWED(b) && ALLOWED(LITTLE_EOS));
    assert_int_equal(c->ops->accept(c, b), CONSTRAINT_OVER);
    assert_true(c->ops->ready(c) && ALLOWED(LITTLE_EOS) && !ALLOWED(a));
    c->ops->destroy(c);
    assert_int_equal(grammar_constraint(&c, g, m, &err), OK);
    wait_ready(c);
    assert_int_equal(c->ops->accept(c, LITTLE_EOS), CONSTRAINT_FAILED);
    c->ops->destroy(c);
    grammar_release(g);
    token_masks_destroy(m);
    tokenizer_destroy(t);
}

/* ---- threads ---- */

typedef struct {
    token_masks *masks;
    grammar *g;
    uint64_t seed;
    _Atomic uint32_t woken;
} walker;

static void wake(void *context)
{
    atomic_fetch_add((_Atomic uint32_t *)context, 1);
}

static void *walk_on(void *argument)
{
    walker *w = argument;
    rng r = {w->seed};
    for (int round = 0; round < 20; round++) {
        token_constraint *c;
        if (grammar_constraint(&c, w->g, w->masks, NULL))
            return NULL;
        c->ops->watch(c, wake, &w->woken);
        uint32_t most = (uint32_t)rng_below(&r, 40);
        for (uint32_t i = 0; i < most && ((constraint *)c)->state == CONSTRAINT_OPEN; i++) {
            wait_ready(c);
            c->ops->accept(c, random_allowed((constraint *)c, &r));
        }
        c->ops->destroy(c); /* ready or not */
    }
    return w;
}

static void test_many_threads_walk_at_once(void **state)
{
    (void)state;
    enum { THREADS = 6 };
    tokenizer *t;
    token_masks *m = little_masks(&t);
    pthread_t threads[THREADS];
    walker walkers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        grammar *g = make_grammar(grammar_cases[i % 3].kind, grammar_cases[i % 3].text);
        walkers[i] = (walker){.masks = m, .g = g, .seed = (uint64_t)i + 7};
        pthread_create(&threads[i], NULL, walk_on, &walkers[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        void *done;
        pthread_join(threads[i], &done);
        assert_ptr_equal(done, &walkers[i]);
        grammar_release(walkers[i].g);
    }
    token_masks_destroy(m);
    tokenizer_destroy(t);
}

static void test_the_cache_is_bounded_and_keeps_what_is_held(void **state)
{
    (void)state;
    mask_cache c;
    assert_true(mask_cache_init(&c, 10000));
    uint64_t first[2] = {1, 1};
    for (uint64_t i = 1; i <= 500; i++) {
        mask_entry *e = calloc(1, sizeof *e);
        e->key[0] = e->key[1] = i;
        e->bytes = 1000;
        mask_cache_put(&c, e);
        if (i != 1)
            mask_cache_release(&c, e);
        assert_true(c.bytes <= 11000);
    }
    mask_entry *held = mask_cache_find(&c, first);
    assert_non_null(held);
    uint64_t gone[2] = {2, 2}, there[2] = {500, 500};
    assert_null(mask_cache_find(&c, gone));
    mask_entry *last = mask_cache_find(&c, there);
    assert_non_null(last);
    mask_cache_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_masks_equal_brute_force),
        cmocka_unit_test(test_a_stop_token_only_where_the_text_may_end),
        cmocka_unit_test(test_many_threads_walk_at_once),
        cmocka_unit_test(test_the_cache_is_bounded_and_keeps_what_is_held),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
