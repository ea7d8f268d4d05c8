/* tests/unit/metrics/tenants_test.c: tokens of an hour and of a day; the series of one tenant. */
#include "metrics/cadence.h"
#include "metrics/tenants.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#define MINUTE UINT64_C(60000000) /* us */

static void the_window_forgets_what_is_older_than_it(void **state)
{
    (void)state;
    token_window *w = calloc(1, sizeof *w);
    uint64_t start = 1000000u * MINUTE + 7, total = 0;
    for (uint64_t minute = 0; minute < 3000; minute++) { /* 10 tokens arrive in each minute, after its sample */
        uint64_t now = start + minute * MINUTE;
        token_window_sample(w, now, (token_totals){total, total / 2, total / 10});
        total += 10;
        token_totals hour = token_window_sum(w, now, (token_totals){total, total / 2, total / 10}, WINDOW_HOUR);
        token_totals day = token_window_sum(w, now, (token_totals){total, total / 2, total / 10}, WINDOW_DAY);
        assert_int_equal(hour.prompt, (minute < 60 ? minute + 1 : 61) * 10);
        assert_int_equal(day.prompt, (minute < 1440 ? minute + 1 : 1441) * 10);
        assert_in_range(day.cached, day.prompt / 2 - 5, day.prompt / 2 + 5);
        assert_in_range(day.generated, day.prompt / 10 - 1, day.prompt / 10 + 1);
    }
    free(w);
}

static void what_came_before_the_first_sample_counts(void **state)
{
    (void)state;
    token_window *w = calloc(1, sizeof *w);
    token_window_sample(w, 5 * MINUTE, (token_totals){70, 0, 7});
    assert_int_equal(token_window_sum(w, 5 * MINUTE, (token_totals){90, 0, 9}, WINDOW_HOUR).prompt, 90);
    free(w);
}

static void minutes_without_a_sample_hold_nothing(void **state)
{
    (void)state;
    token_window *w = calloc(1, sizeof *w);
    token_totals totals = {100, 10, 50};
    token_window_sample(w, 1 * MINUTE, (token_totals){0});
    token_window_sample(w, 10 * MINUTE, totals);
    token_window_sample(w, 500 * MINUTE, totals); /* nobody asked for eight hours */
    assert_int_equal(token_window_sum(w, 500 * MINUTE, totals, WINDOW_HOUR).prompt, 0);
    assert_int_equal(token_window_sum(w, 500 * MINUTE, totals, WINDOW_DAY).prompt, 100);
    token_window_sample(w, 9000 * MINUTE, totals); /* and for days */
    assert_int_equal(token_window_sum(w, 9000 * MINUTE, totals, WINDOW_DAY).prompt, 0);
    totals.prompt += 5;
    assert_int_equal(token_window_sum(w, 9000 * MINUTE, totals, WINDOW_DAY).prompt, 5);
    assert_int_equal(token_window_sum(w, 20000 * MINUTE, totals, WINDOW_DAY).prompt, 0);
    free(w);
}

static void expect_line(const metrics_registry *registry, const char *line)
{
    buf text = {0};
    metrics_registry_render(registry, &text);
    if (!strstr(text.data, line))
        fail_msg("missing: %s\nin:\n%s", line, text.data);
    buf_free(&text);
}

static void a_tenant_has_its_numbers_under_its_name(void **state)
{
    (void)state;
    metrics_registry *registry;
    tenant_metrics m;
    assert_int_equal(metrics_registry_create(&registry, NULL, NULL), OK);
    tenant_metrics_register(&m, registry, "ac\"me");
    tenant_numbers now = {.running = 2, .waiting = 1, .device_us = 1500000, .tokens = {600, 150, 20}, .refused = 4};
    tenant_metrics_update(&m, &now, 10 * MINUTE);
    tenant_metrics_gap(&m, registry, 0, 0.0009);
    tenant_metrics_gap(&m, registry, 1, 0.3);
    tenant_metrics_gap(&m, registry, 7, 0.3); /* no such class */
    expect_line(registry, "headway_tenant_device_seconds_total{tenant=\"ac\\\"me\"} 1.5\n");
    expect_line(registry, "headway_tenant_refused_total{tenant=\"ac\\\"me\"} 4.0\n");
    expect_line(registry, "headway_input_output_ratio{tenant=\"ac\\\"me\",window=\"1h\"} 30.0\n");
    expect_line(registry, "headway_reuse_ratio{tenant=\"ac\\\"me\",window=\"24h\"} 0.25\n");
    expect_line(registry, "headway_gap_seconds_bucket{tenant=\"ac\\\"me\",class=\"interactive\",le=\"0.001\"} 1\n");
    expect_line(registry, "headway_gap_seconds_count{tenant=\"ac\\\"me\",class=\"batch\"} 1\n");
    tenant_metrics_close(&m);
    metrics_registry_destroy(registry);
}

static void causes_and_kinds_are_labels(void **state)
{
    (void)state;
    metrics_registry *registry;
    cadence_metrics m;
    assert_int_equal(metrics_registry_create(&registry, NULL, NULL), OK);
    cadence_metrics_register(&m, registry);
    counter_reach(m.violations[2], 3);
    gauge_set(m.error_under[1], 0.25);
    gauge_set(m.bound_s, 0.05);
    expect_line(registry, "headway_gap_violations_total{cause=\"machine\"} 3.0\n");
    expect_line(registry, "headway_step_model_error_ratio{kind=\"prefill\",quantile=\"0.95-under\"} 0.25\n");
    expect_line(registry, "headway_gap_bound_seconds 0.05\n");
    expect_line(registry, "headway_step_seconds_total{kind=\"fused\"} 0.0\n");
    metrics_registry_destroy(registry);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_window_forgets_what_is_older_than_it),
        cmocka_unit_test(what_came_before_the_first_sample_counts),
        cmocka_unit_test(minutes_without_a_sample_hold_nothing),
        cmocka_unit_test(a_tenant_has_its_numbers_under_its_name),
        cmocka_unit_test(causes_and_kinds_are_labels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
