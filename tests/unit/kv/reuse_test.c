/* tests/unit/kv/reuse_test.c: the curve against caches of each size that are really run. */
#include "kv/reuse.h"

#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { PATH = 24, SECOND = 1000000 };

static reuse *reuse_of(uint32_t keys_max)
{
    reuse *r;
    assert_int_equal(reuse_create(&r, keys_max, NULL), OK);
    return r;
}

/* The first `count` pages of text number `text`. */
static void path_keys(prefix_key *keys, uint32_t count, uint64_t text)
{
    prefix_key key = prefix_key_root(text);
    for (uint32_t i = 0; i < count; i++) {
        int32_t tokens[2] = {(int32_t)i, 1};
        keys[i] = key = prefix_key_next(key, tokens, 2);
    }
}

/* A cache of `size` pages that gives up the one used longest ago, leaves first, as numbers text * PATH + page. */
typedef struct {
    uint32_t size, count;
    uint64_t pages[4096]; /* newest first */
    uint64_t found, looked_up;
} lru;

static void lru_use(lru *c, uint64_t text, uint32_t count)
{
    uint64_t path[PATH];
    uint32_t hit = 0;
    c->looked_up += count;
    for (uint32_t i = 0; i < count; i++) {
        path[i] = text * PATH + i;
        for (uint32_t at = 0; hit == i && at < c->count; at++)
            hit += c->pages[at] == path[i];
    }
    c->found += hit;
    for (uint32_t i = count; i-- > 0;) {
        uint32_t at = 0;
        while (at < c->count && c->pages[at] != path[i])
            at++;
        if (at == c->count && c->count < c->size)
            c->count++;
        else if (at == c->count)
            at--;
        memmove(c->pages + 1, c->pages, at * sizeof c->pages[0]);
        c->pages[0] = path[i];
    }
}

/* Texts come back the sooner the lower their number; each time some pages of them. */
static uint64_t next_text(rng *random, uint64_t texts)
{
    double u = rng_unit(random);
    return (uint64_t)(u * u * (double)texts);
}

static void says_what_a_real_cache_finds(void **state)
{
    (void)state;
    static lru caches[6];
    static const uint32_t sizes[6] = {1, 10, 63, 200, 700, 2000};
    memset(caches, 0, sizeof caches);
    for (int i = 0; i < 6; i++)
        caches[i].size = sizes[i];
    reuse *r = reuse_of(8192);
    rng random = {3};
    prefix_key keys[PATH];
    for (uint32_t i = 0; i < 4000; i++) {
        uint64_t text = next_text(&random, 60);
        uint32_t count = 1 + (uint32_t)rng_below(&random, PATH);
        path_keys(keys, count, text);
        reuse_saw(r, keys, count, SECOND);
        for (int c = 0; c < 6; c++)
            lru_use(&caches[c], text, count);
    }
    for (int c = 0; c < 6; c++) {
        double real = (double)caches[c].found / (double)caches[c].looked_up;
        /* Bits of a bucket's width: 3% of the size. */
        assert_true(fabs(reuse_hit_share(r, sizes[c]) - real) < (sizes[c] < 64 ? 1e-9 : 0.01));
    }
    assert_true(reuse_largest(r) > 900 && reuse_largest(r) < 60 * PATH * 1.04);
    assert_true(reuse_hit_share(r, reuse_largest(r)) >= reuse_hit_share(r, UINT32_MAX) * 0.998);
    assert_true(reuse_hit_share(r, 0) == 0);
    reuse_destroy(r);
}

static void a_sample_says_nearly_the_same(void **state)
{
    (void)state;
    reuse *all = reuse_of(1 << 17), *some = reuse_of(2048);
    rng random = {4};
    prefix_key keys[PATH];
    for (uint32_t i = 0; i < 40000; i++) {
        path_keys(keys, PATH, next_text(&random, 2000)); /* 48,000 pages */
        reuse_saw(all, keys, PATH, SECOND);
        reuse_saw(some, keys, PATH, SECOND);
    }
    double last = 0;
    for (uint32_t pages = 100; pages < 60000; pages = pages * 5 / 4) {
        double share = reuse_hit_share(all, pages);
        assert_true(share >= last);
        assert_true(fabs(reuse_hit_share(some, pages) - share) < 0.04);
        last = share;
    }
    assert_true(last > 0.9);
    reuse_destroy(all);
    reuse_destroy(some);
}

static void documents_seen_once_are_never_found(void **state)
{
    (void)state;
    reuse *r = reuse_of(1024);
    prefix_key keys[PATH];
    for (uint64_t text = 0; text < 10000; text++) {
        path_keys(keys, PATH, text);
        assert_false(reuse_knows(r, keys[0]));
        reuse_saw(r, keys, PATH, text * SECOND / 100);
    }
    assert_true(reuse_hit_share(r, UINT32_MAX) == 0);
    assert_int_equal(reuse_largest(r), 0);
    reuse_destroy(r);
}

static void knows_what_it_watches(void **state)
{
    (void)state;
    reuse *r = reuse_of(1024);
    prefix_key keys[PATH], other[PATH];
    path_keys(keys, PATH, 1);
    path_keys(other, PATH, 2);
    reuse_saw(r, keys, PATH, 1);
    for (uint32_t i = 0; i < PATH; i++) {
        assert_true(reuse_knows(r, keys[i]));
        assert_false(reuse_knows(r, other[i]));
    }
    reuse_destroy(r);
}

static void old_uses_fade(void **state)
{
    (void)state;
    reuse *r = reuse_of(4096);
    prefix_key keys[PATH];
    uint64_t now = SECOND;
    for (uint32_t i = 0; i < 1000; i++) { /* one text all the time */
        path_keys(keys, PATH, 1);
        reuse_saw(r, keys, PATH, now += SECOND / 10);
    }
    assert_true(reuse_hit_share(r, PATH) > 0.99);
    now += 3600 * (uint64_t)SECOND;
    for (uint64_t text = 100; text < 200; text++) { /* an hour later, a tenth as many that come once */
        path_keys(keys, PATH, text);
        reuse_saw(r, keys, PATH, now += SECOND / 10);
    }
    assert_true(reuse_hit_share(r, PATH) < 0.2);
    now += 1000000 * (uint64_t)SECOND; /* and long after that nothing is left of it */
    path_keys(keys, PATH, 1);
    assert_false(reuse_knows(r, keys[0]));
    reuse_saw(r, keys, PATH, now);
    reuse_saw(r, keys, PATH, now);
    assert_true(fabs(reuse_hit_share(r, PATH) - 0.5) < 1e-6);
    reuse_destroy(r);
}

static void watches_more_again_after_a_flood(void **state)
{
    (void)state;
    reuse *r = reuse_of(1024);
    prefix_key keys[PATH];
    uint64_t now = SECOND;
    for (uint64_t text = 1000; text < 20000; text++) {
        path_keys(keys, PATH, text);
        reuse_saw(r, keys, PATH, now += SECOND / 1000);
    }
    uint32_t known = 0;
    for (uint32_t i = 0; i < 60 * 6; i++) { /* six hours with a few sessions */
        path_keys(keys, PATH, i % 6);
        reuse_saw(r, keys, PATH, now += 60 * (uint64_t)SECOND);
    }
    for (uint32_t text = 0; text < 6; text++) {
        path_keys(keys, PATH, text);
        for (uint32_t i = 0; i < PATH; i++)
            known += reuse_knows(r, keys[i]);
    }
    assert_int_equal(known, 6 * PATH);
    assert_true(reuse_hit_share(r, 6 * PATH) > 0.9 && reuse_hit_share(r, 5 * PATH) < 0.2);
    reuse_destroy(r);
}

static void takes_keys_that_are_no_hashes(void **state)
{
    (void)state;
    reuse *r = reuse_of(16);
    for (uint64_t i = 0; i < 5000; i++) {
        prefix_key key = {i, 0}; /* always watched, whatever the share */
        reuse_saw(r, &key, 1, i);
    }
    prefix_key last = {4999, 0}, gone = {7, 0};
    assert_true(reuse_knows(r, last));
    assert_false(reuse_knows(r, gone));
    reuse_saw(r, NULL, 0, 0);
    reuse_destroy(r);
}

static void refuses_too_few_keys(void **state)
{
    (void)state;
    reuse *r;
    error err = {""};
    assert_int_equal(reuse_create(&r, 0, &err), ERR_INVALID);
    assert_true(err.text[0]);
    reuse_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(says_what_a_real_cache_finds),
        cmocka_unit_test(a_sample_says_nearly_the_same),
        cmocka_unit_test(documents_seen_once_are_never_found),
        cmocka_unit_test(knows_what_it_watches),
        cmocka_unit_test(old_uses_fade),
        cmocka_unit_test(watches_more_again_after_a_flood),
        cmocka_unit_test(takes_keys_that_are_no_hashes),
        cmocka_unit_test(refuses_too_few_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
