/* tests/unit/metrics/registry_test.c */
#include "metrics/registry.h"
#include "metrics/serving.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

static void expect_text(const metrics_registry *registry, const char *want)
{
    buf text = {0};
    metrics_registry_render(registry, &text);
    assert_string_equal(text.data, want);
    buf_free(&text);
}

static void renders_families_with_their_series(void **state)
{
    (void)state;
    metrics_registry *registry;
    assert_int_equal(metrics_registry_create(&registry, "model_name=\"m\"", NULL), OK);
    counter *stop = metrics_counter(registry, (metric_name){"a:ended", "Ended.", "reason=\"stop\""});
    gauge *level = metrics_gauge(registry, (metric_name){"a:level", "Level.", NULL});
    counter *length = metrics_counter(registry, (metric_name){"a:ended", "Ended.", "reason=\"length\""});
    counter_add(stop, 2);
    counter_add(length, 0.5);
    counter_reach(stop, 7);
    counter_reach(stop, 3);
    gauge_set(level, 0.1);
    expect_text(registry, "# HELP a:ended_total Ended.\n# TYPE a:ended_total counter\n"
                          "a:ended_total{model_name=\"m\",reason=\"stop\"} 7.0\n"
                          "a:ended_total{model_name=\"m\",reason=\"length\"} 0.5\n"
                          "# HELP a:level Level.\n# TYPE a:level gauge\na:level{model_name=\"m\"} 0.1\n");
    metrics_registry_destroy(registry);
}

static void buckets_count_up_and_hold_their_edge(void **state)
{
    (void)state;
    metrics_registry *registry;
    assert_int_equal(metrics_registry_create(&registry, NULL, NULL), OK);
    histogram *h = metrics_histogram(registry, (metric_name){"h", "H.", NULL}, (double[]){0.25, 1, 2.5}, 3);
    histogram_observe(h, 0.25);
    histogram_observe(h, 0.5);
    histogram_observe_times(h, 100, 2);
    expect_text(registry, "# HELP h H.\n# TYPE h histogram\nh_bucket{le=\"0.25\"} 1\nh_bucket{le=\"1.0\"} 2\n"
                          "h_bucket{le=\"2.5\"} 2\nh_bucket{le=\"+Inf\"} 4\nh_count 4\nh_sum 200.75\n");
    metrics_registry_destroy(registry);
}

static void labels_are_escaped(void **state)
{
    (void)state;
    buf text = {0};
    label_text(&text, "a", "x\"y\\z\n");
    label_text(&text, "b", "");
    assert_string_equal(text.data, "a=\"x\\\"y\\\\z\\n\",b=\"\"");
    buf_free(&text);
}

static void nothing_happens_on_a_missing_series(void **state)
{
    (void)state;
    counter_add(NULL, 1);
    counter_reach(NULL, 1);
    gauge_set(NULL, 1);
    histogram_observe(NULL, 1);
    assert_int_equal(histogram_count(NULL), 0);
}

static void *add_many(void *argument)
{
    void **series = argument;
    for (int i = 0; i < 20000; i++) {
        counter_add(series[0], 1);
        histogram_observe(series[1], i % 3);
    }
    return NULL;
}

static void no_update_is_lost_between_threads(void **state)
{
    (void)state;
    metrics_registry *registry;
    assert_int_equal(metrics_registry_create(&registry, "", NULL), OK);
    void *series[] = {metrics_counter(registry, (metric_name){"c", "C.", NULL}),
                      metrics_histogram(registry, (metric_name){"h", "H.", NULL}, (double[]){1}, 1)};
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, add_many, series);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    assert_true(counter_value(series[0]) == 60000);
    assert_int_equal(histogram_count(series[1]), 60000);
    assert_true(histogram_sum(series[1]) == 3 * 19999);
    metrics_registry_destroy(registry);
}

static void *register_many(void *argument)
{
    for (int i = 0; i < 300; i++) {
        char labels[40];
        snprintf(labels, sizeof labels, "n=\"%d\"", i);
        metrics_histogram(argument, (metric_name){"late", "Late.", labels}, (double[]){1, 2}, 2);
        snprintf(labels, sizeof labels, "family_%d", i);
        metrics_gauge(argument, (metric_name){labels, "Late.", NULL});
    }
    return NULL;
}

static void series_appear_while_others_render(void **state)
{
    (void)state;
    metrics_registry *registry;
    assert_int_equal(metrics_registry_create(&registry, "", NULL), OK);
    metrics_counter(registry, (metric_name){"early", "Early.", NULL});
    pthread_t thread;
    pthread_create(&thread, NULL, register_many, registry);
    buf text = {0};
    for (int i = 0; i < 50; i++) {
        buf_clear(&text);
        metrics_registry_render(registry, &text);
        assert_int_equal(text.data[text.size - 1], '\n');
    }
    pthread_join(thread, NULL);
    buf_clear(&text);
    metrics_registry_render(registry, &text);
    assert_non_null(strstr(text.data, "late_count{n=\"299\"} 0\n"));
    assert_non_null(strstr(text.data, "\nfamily_299 0.0\n"));
    buf_free(&text);
    metrics_registry_destroy(registry);
}

static void serving_names_are_those_of_the_dashboards(void **state)
{
    (void)state;
    metrics_registry *registry;
    assert_int_equal(metrics_registry_create(&registry, "model_name=\"m\",engine=\"0\"", NULL), OK);
    serving_metrics m;
    serving_metrics_register(&m, registry, &(serving_sizes){8192, 16, 100, 4096, true});
    histogram_observe(m.between_tokens_s, 0.0035);
    counter_add(m.finished[SERVED_ABORT], 1);
    buf text = {0};
    metrics_registry_render(registry, &text);
    static const char *const lines[] = {
        "vllm:num_requests_running{model_name=\"m\",engine=\"0\"} 0.0\n",
        "vllm:inter_token_latency_seconds_bucket{model_name=\"m\",engine=\"0\",le=\"0.004\"} 1\n",
        "vllm:request_success_total{model_name=\"m\",engine=\"0\",finished_reason=\"abort\"} 1.0\n",
        "vllm:request_prompt_tokens_bucket{model_name=\"m\",engine=\"0\",le=\"5000.0\"} 0\n",
        "vllm:cache_config_info{model_name=\"m\",engine=\"0\",block_size=\"16\",num_gpu_blocks=\"100\"",
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        if (!strstr(text.data, lines[i]))
            fail_msg("missing: %s", lines[i]);
    buf_free(&text);
    metrics_registry_destroy(registry);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(renders_families_with_their_series),
        cmocka_unit_test(buckets_count_up_and_hold_their_edge),
        cmocka_unit_test(labels_are_escaped),
        cmocka_unit_test(nothing_happens_on_a_missing_series),
        cmocka_unit_test(no_update_is_lost_between_threads),
        cmocka_unit_test(series_appear_while_others_render),
        cmocka_unit_test(serving_names_are_those_of_the_dashboards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
