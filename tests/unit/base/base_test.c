/* tests/unit/base/base_test.c: the floor: buf, error, clock, rng, span. */
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

static void a_buf_grows_and_stays_terminated(void **state)
{
    (void)state;
    buf b = {0};
    for (int i = 0; i < 1000; i++)
        buf_printf(&b, "%d,", i);
    assert_int_equal(b.size, 10 * 2 + 90 * 3 + 900 * 4);
    assert_int_equal(b.data[b.size], 0);
    assert_memory_equal(b.data + b.size - 4, "999,", 4);
    buf_clear(&b);
    assert_string_equal(b.data, "");
    buf_append(&b, NULL, 0);
    buf_byte(&b, 'x');
    assert_true(span_is(buf_span(&b), "x"));
    buf_free(&b);
    assert_null(b.data);
}

static void a_buf_over_its_limit_fails_and_keeps_what_it_has(void **state)
{
    (void)state;
    buf b = {.limit = 5};
    buf_text(&b, "abc");
    buf_text(&b, "def");
    assert_true(b.failed);
    buf_text(&b, "g");
    assert_string_equal(b.data, "abc");
    buf_clear(&b);
    buf_text(&b, "12345");
    assert_false(b.failed);
    assert_false(buf_reserve(&b, SIZE_MAX));
    buf_free(&b);
    assert_int_equal(b.limit, 5);
}

static void an_error_takes_a_prefix_and_is_cut_at_its_end(void **state)
{
    (void)state;
    error err = {""};
    assert_int_equal(error_set(&err, ERR_LIMIT, "%d of %d", 3, 2), ERR_LIMIT);
    assert_int_equal(error_prefix(&err, ERR_IO, "file %s", "m.gguf"), ERR_IO);
    assert_string_equal(err.text, "file m.gguf: 3 of 2");
    char long_text[2000];
    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = 0;
    error_set(&err, ERR_IO, "%s", long_text);
    error_prefix(&err, ERR_IO, "%s", long_text);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
    assert_int_equal(error_set(NULL, ERR_BUSY, "nobody reads this"), ERR_BUSY);
    assert_int_equal(error_prefix(NULL, ERR_BUSY, "nor this"), ERR_BUSY);
}

static void a_virtual_clock_moves_only_when_told(void **state)
{
    (void)state;
    virtual_clock clock;
    virtual_clock_init(&clock, 7);
    assert_int_equal(clock.base.now_us(&clock.base), 7);
    clock.base.sleep_us(&clock.base, 1000000000000u);
    assert_int_equal(clock.base.now_us(&clock.base), 1000000000007u);
    uint64_t before = clock_now_us();
    clock_real()->sleep_us(clock_real(), 2000);
    assert_true(clock_now_us() - before >= 2000);
}

static void the_same_seed_gives_the_same_numbers(void **state)
{
    (void)state;
    rng a = {42}, b = {42};
    uint32_t counts[7] = {0};
    for (int i = 0; i < 70000; i++) {
        uint64_t x = rng_below(&a, 7);
        assert_int_equal(x, rng_below(&b, 7));
        counts[x]++;
        double unit = rng_unit(&a);
        assert_true(unit == rng_unit(&b) && unit >= 0 && unit < 1);
    }
    for (int i = 0; i < 7; i++)
        assert_in_range(counts[i], 9500, 10500);
    rng first = {0};
    assert_true(rng_next(&first) == 0xE220A8397B1DCDAFu); /* the published first number of SplitMix64 from 0 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_buf_grows_and_stays_terminated),
        cmocka_unit_test(a_buf_over_its_limit_fails_and_keeps_what_it_has),
        cmocka_unit_test(an_error_takes_a_prefix_and_is_cut_at_its_end),
        cmocka_unit_test(a_virtual_clock_moves_only_when_told),
        cmocka_unit_test(the_same_seed_gives_the_same_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
