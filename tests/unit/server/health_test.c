/* tests/unit/server/health_test.c: when is a server stuck; how even is a stream; what does a query string say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "server/debug/query.h"
#include "server/gap_stats.h"
#include "server/health.h"

#define SECOND UINT64_C(1000000) /* us */

static void idle_for_hours_is_healthy(void **state)
{
    (void)state;
    health_watch w = {0};
    engine_snapshot e = {.steps = 100, .last_step_us = 5000};
    for (uint64_t now = 0; now < 20000 * SECOND; now += 500 * SECOND) {
        health_see(&w, &e, 0, now);
        assert_int_equal(health_judge(&w, &e, false, now), HEALTH_OK);
    }
    e.waiting = 1; /* the first request after that: its wait begins now */
    uint64_t now = 20000 * SECOND;
    health_see(&w, &e, 0, now);
    assert_int_equal(health_judge(&w, &e, false, now), HEALTH_OK);
    assert_int_equal(health_judge(&w, &e, false, now + 10 * SECOND), HEALTH_OK);
    assert_int_equal(health_judge(&w, &e, false, now + 10 * SECOND + 1), HEALTH_STUCK);
    assert_int_equal(health_waited_us(&w, now + 10 * SECOND + 1), 10 * SECOND + 1);
}

static void a_step_that_ends_heals(void **state)
{
    (void)state;
    health_watch w = {0};
    engine_snapshot e = {.running = 3, .steps = 7};
    health_see(&w, &e, 3, 1 * SECOND);
    health_see(&w, &e, 3, 12 * SECOND);
    assert_int_equal(health_judge(&w, &e, false, 12 * SECOND), HEALTH_STUCK);
    e.steps++;
    health_see(&w, &e, 3, 13 * SECOND);
    assert_int_equal(health_judge(&w, &e, false, 13 * SECOND), HEALTH_OK);
    assert_int_equal(health_judge(&w, &e, false, 22 * SECOND), HEALTH_OK);
}

static void work_that_the_engine_has_not_counted_yet_counts(void **state)
{
    (void)state;
    health_watch w = {0};
    engine_snapshot e = {0};
    health_see(&w, &e, 1, 1 * SECOND);
    assert_int_equal(health_judge(&w, &e, false, 30 * SECOND), HEALTH_STUCK);
    health_see(&w, &e, 0, 30 * SECOND); /* its client gave up */
    assert_int_equal(health_judge(&w, &e, false, 60 * SECOND), HEALTH_OK);
}

static void long_steps_are_given_twenty_times_their_length(void **state)
{
    (void)state;
    health_watch w = {0};
    engine_snapshot e = {.running = 1, .last_step_us = 3 * SECOND};
    health_see(&w, &e, 1, 0);
    assert_int_equal(health_judge(&w, &e, false, 60 * SECOND), HEALTH_OK);
    assert_int_equal(health_judge(&w, &e, false, 60 * SECOND + 1), HEALTH_STUCK);
}

static void failure_and_draining_are_told(void **state)
{
    (void)state;
    health_watch w = {0};
    engine_snapshot e = {0};
    assert_int_equal(health_judge(&w, &e, true, 1), HEALTH_DRAINING);
    e.draining = true;
    assert_int_equal(health_judge(&w, &e, false, 1), HEALTH_DRAINING);
    e.failed = true;
    assert_int_equal(health_judge(&w, &e, true, 1), HEALTH_FAILED);
    assert_string_equal(health_word(HEALTH_STUCK), "stuck");
    assert_string_equal(health_word(HEALTH_FAILED), "failed");
}

static void gaps_have_a_middle_and_a_worst(void **state)
{
    (void)state;
    gap_stats g = {.bound_us = 50000};
    assert_true(gap_stats_middle_us(&g) == 0);
    for (int i = 0; i < 99; i++)
        gap_stats_add(&g, i % 2 ? 11000 : 10000);
    gap_stats_add(&g, 800000);
    gap_stats_add(&g, 50000); /* the bound itself is kept */
    assert_true(gap_stats_middle_us(&g) > 10500 * 0.8 && gap_stats_middle_us(&g) < 10500 * 1.2);
    assert_int_equal(g.worst_us, 800000);
    assert_int_equal(g.last_us, 50000);
    assert_int_equal(g.over, 1);
    assert_int_equal(g.count, 101);
    gap_stats hour = {0};
    gap_stats_add(&hour, 3600 * SECOND);
    assert_int_equal(hour.worst_us, 3600 * SECOND);
    assert_int_equal(hour.over, 0);
    assert_true(gap_stats_middle_us(&hour) > 10 * SECOND);
}

static void queries_hold_whole_numbers(void **state)
{
    (void)state;
    uint64_t n = 1;
    assert_int_equal(query_number(span_from(""), "since", &n), QUERY_ABSENT);
    assert_int_equal(query_number(span_from("a=2&since=45&since=7"), "since", &n), QUERY_NUMBER);
    assert_int_equal(n, 45);
    assert_int_equal(query_number(span_from("since=18446744073709551615"), "since", &n), QUERY_NUMBER);
    assert_true(n == UINT64_MAX);
    static const char *const wrong[] = {"since=", "since=-1", "since=1.5", "since=18446744073709551616", "since=%31"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(query_number(span_from(wrong[i]), "since", &n), QUERY_WRONG);
    assert_int_equal(query_number(span_from("sinced=4&ssince=4&since"), "since", &n), QUERY_ABSENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(idle_for_hours_is_healthy),
        cmocka_unit_test(a_step_that_ends_heals),
        cmocka_unit_test(work_that_the_engine_has_not_counted_yet_counts),
        cmocka_unit_test(long_steps_are_given_twenty_times_their_length),
        cmocka_unit_test(failure_and_draining_are_told),
        cmocka_unit_test(gaps_have_a_middle_and_a_worst),
        cmocka_unit_test(queries_hold_whole_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
