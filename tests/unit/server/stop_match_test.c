/* tests/unit/server/stop_match_test.c: stop strings across token borders. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/rng.h"
#include "server/stop_match.h"

typedef struct {
    stop_set set;
    stop_matcher matcher;
    buf out;
} fixture;

static fixture fixture_open(const char *const *stops)
{
    fixture f = {0};
    for (; *stops; stops++)
        assert_true(stop_set_add(&f.set, span_from(*stops)));
    return f;
}

static int fixture_push(fixture *f, const char *text)
{
    return stop_push(&f->matcher, &f->set, span_from(text), false, &f->out);
}

static void fixture_close(fixture *f)
{
    stop_set_free(&f->set);
    buf_free(&f->matcher.held);
    buf_free(&f->out);
}

static void never_lets_out_a_part_of_a_stop_string(void **state)
{
    (void)state;
    fixture f = fixture_open((const char *const[]){"</s>", NULL});
    assert_int_equal(fixture_push(&f, "a<"), -1);
    assert_string_equal(f.out.data, "a");
    assert_int_equal(fixture_push(&f, "/"), -1);
    assert_int_equal(fixture_push(&f, "s"), -1);
    assert_string_equal(f.out.data, "a");
    assert_int_equal(fixture_push(&f, ">tail"), 0);
    assert_string_equal(f.out.data, "a");
    fixture_close(&f);
}

static void lets_out_what_turned_out_harmless(void **state)
{
    (void)state;
    fixture f = fixture_open((const char *const[]){"aab", NULL});
    assert_int_equal(fixture_push(&f, "aaa"), -1);
    assert_string_equal(f.out.data, "a");
    assert_int_equal(fixture_push(&f, "c"), -1);
    assert_string_equal(f.out.data, "aaac");
    fixture_push(&f, "a");
    stop_finish(&f.matcher, &f.out);
    assert_string_equal(f.out.data, "aaaca");
    fixture_close(&f);
}

static void takes_the_match_that_ends_first(void **state)
{
    (void)state;
    fixture f = fixture_open((const char *const[]){"bcd", "c", "abc", NULL});
    assert_int_equal(fixture_push(&f, "xabcd"), 2); /* "c" and "abc" end together: the longer one */
    assert_string_equal(f.out.data, "x");
    fixture_close(&f);
}

static void includes_the_stop_string_when_asked(void **state)
{
    (void)state;
    fixture f = fixture_open((const char *const[]){"END", NULL});
    assert_int_equal(stop_push(&f.matcher, &f.set, span_from("x EN"), true, &f.out), -1);
    assert_int_equal(stop_push(&f.matcher, &f.set, span_from("D."), true, &f.out), 0);
    assert_string_equal(f.out.data, "x END");
    fixture_close(&f);
}

static void refuses_empty_long_and_too_many(void **state)
{
    (void)state;
    static char large[STOP_BYTES_MAX + 1];
    memset(large, 'a', sizeof large);
    stop_set set = {0};
    assert_false(stop_set_add(&set, span_from("")));
    assert_false(stop_set_add(&set, span_of(large, sizeof large)));
    for (int i = 0; i < STOP_STRINGS_MAX; i++)
        assert_true(stop_set_add(&set, span_of(large, STOP_BYTES_MAX)));
    assert_false(stop_set_add(&set, span_from("x")));
    stop_set_free(&set);
}

/* The definition, one byte at a time over the whole text. */
static int naive(const stop_set *set, const char *text, size_t size, size_t *kept)
{
    for (size_t end = 1; end <= size; end++) {
        int found = -1;
        for (uint32_t i = 0; i < set->count; i++)
            if (set->size[i] <= end && memcmp(text + end - set->size[i], set->text[i], set->size[i]) == 0 &&
                (found < 0 || set->size[i] > set->size[found]))
                found = (int)i;
        if (found >= 0) {
            *kept = end - set->size[found];
            return found;
        }
    }
    *kept = size;
    return -1;
}

static void agrees_with_the_definition_however_the_text_is_cut(void **state)
{
    (void)state;
    rng r = {3};
    for (int round = 0; round < 20000; round++) {
        char text[64];
        size_t size = (size_t)rng_below(&r, sizeof text), kept;
        fixture f = {0};
        for (size_t i = 0; i < size; i++)
            text[i] = (char)('a' + rng_below(&r, 2));
        for (uint64_t i = 1 + rng_below(&r, 3); i-- > 0;) {
            char stop[8];
            size_t length = 1 + (size_t)rng_below(&r, sizeof stop);
            for (size_t k = 0; k < length; k++)
                stop[k] = (char)('a' + rng_below(&r, 2));
            stop_set_add(&f.set, span_of(stop, length));
        }
        int want = naive(&f.set, text, size, &kept), found = -1;
        for (size_t at = 0; at < size && found < 0;) {
            size_t piece = 1 + (size_t)rng_below(&r, 5);
            piece = piece < size - at ? piece : size - at;
            found = stop_push(&f.matcher, &f.set, span_of(text + at, piece), false, &f.out);
            at += piece;
            assert_true(f.out.size <= kept);
        }
        if (found < 0)
            stop_finish(&f.matcher, &f.out);
        assert_int_equal(found, want);
        assert_int_equal(f.out.size, kept);
        if (kept)
            assert_memory_equal(f.out.data, text, kept);
        fixture_close(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(never_lets_out_a_part_of_a_stop_string),
        cmocka_unit_test(lets_out_what_turned_out_harmless),
        cmocka_unit_test(takes_the_match_that_ends_first),
        cmocka_unit_test(includes_the_stop_string_when_asked),
        cmocka_unit_test(refuses_empty_long_and_too_many),
        cmocka_unit_test(agrees_with_the_definition_however_the_text_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
