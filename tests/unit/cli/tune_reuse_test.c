/* tests/unit/cli/tune_reuse_test.c: the reuse of a running server, out of its /metrics. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/tune_reuse.h"

static const char headway[] = "# HELP headway_cache_hit_tokens_total x\n"
                              "headway_cache_hit_tokens_total{model_name=\"m\",tenant=\"a b\",tier=\"ram\"} 600\n"
                              "headway_cache_hit_tokens_total{model_name=\"m\",tenant=\"a b\",tier=\"disk\"} 100\n"
                              "headway_cache_hit_tokens_totally 9\n"
                              "headway_cache_miss_tokens_total{model_name=\"m\",tenant=\"a b\",cause=\"new\"} 150\n"
                              "headway_cache_miss_tokens_total{model_name=\"m\",tenant=\"a b\",cause=\"evicted\"} 100\n"
                              "headway_cache_miss_tokens_total{model_name=\"m\",tenant=\"a b\",cause=\"last\"} 50\n"
                              "vllm:prefix_cache_queries_total{model_name=\"m\"} 5\n"
                              "vllm:request_prompt_tokens_sum{model_name=\"m\"} 4e3\n"
                              "vllm:request_prompt_tokens_count{model_name=\"m\"} 2\n"
                              "vllm:request_generation_tokens_sum 30\nvllm:request_generation_tokens_count 3";

static void what_was_given_up_counts_as_reuse(void **state)
{
    (void)state;
    tune_reuse r;
    assert_int_equal(tune_reuse_parse(span_from(headway), &r, NULL), OK);
    assert_true(r.given && r.measured);
    assert_true(fabs(r.share - 0.8) < 1e-9);
    assert_true(r.prompt_tokens == 2000 && r.answer_tokens == 10);
}

static void other_servers_count_by_their_hits(void **state)
{
    (void)state;
    tune_reuse r;
    error err = {""};
    assert_int_equal(tune_reuse_parse(span_from("vllm:prefix_cache_queries_total{a=\"b\"} 200.0\n"
                                                "vllm:prefix_cache_hits_total{a=\"b\"} 50.0\n"),
                                      &r, &err),
                     OK);
    assert_true(fabs(r.share - 0.25) < 1e-9 && r.prompt_tokens == 0);
    assert_int_equal(tune_reuse_parse(span_from("vllm:prefix_cache_queries_total 0\n"), &r, &err), ERR_NOT_FOUND);
    assert_int_equal(tune_reuse_parse(span_from(""), &r, &err), ERR_NOT_FOUND);
    assert_int_equal(tune_reuse_parse(span_from("headway_cache_hit_tokens_total"), &r, &err), ERR_NOT_FOUND);
}

static void a_share_or_a_url_is_wanted(void **state)
{
    (void)state;
    tune_reuse r = {0};
    error err = {""};
    assert_int_equal(tune_reuse_read("0.92", &r, &err), OK);
    assert_true(r.given && !r.measured && r.share == 0.92);
    static const char *const wrong[] = {"", "1.5", "92%", "-1", "ftp://x", "yes"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(tune_reuse_read(wrong[i], &r, &err), ERR_INVALID);
    assert_int_equal(tune_reuse_read("http://127.0.0.1:1/", &r, &err), ERR_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_given_up_counts_as_reuse),
        cmocka_unit_test(other_servers_count_by_their_hits),
        cmocka_unit_test(a_share_or_a_url_is_wanted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
