/* tests/unit/sim/case_study_test.c: the case study's machine, fitted to three of its figures, has to show the others
 * under the engine that serves: what its text measured, and what the policies make of it. */
#include "case_box.h"

#include "load/tune_run.h"
#include "sim/sim_runner.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

/* The chat (0 tokens: none) beside the document (0: none), on a virtual clock. */
static inline tune_sample case_run(const char *policy, schedule_settings schedule, uint32_t chat, uint32_t document)
{
    sim_costs costs = case_costs();
    sim_config config = {.costs = &costs,
                         .light = true,
                         .context_length = 131072,
                         .page_tokens = 32,
                         .page_count = 16384,
                         .max_sequences = 16,
                         .reply_tokens = 1 << 30};
    runner *r;
    virtual_clock clock;
    error err = {""};
    tune_sample out;
    virtual_clock_init(&clock, 1000000);
    assert_int_equal(sim_runner_create(&r, &config, &err), OK);
    tune_load load = {.runner = r,
                      .clock = &clock.base,
                      .policy = policy,
                      .schedule = schedule,
                      .chat_tokens = chat,
                      .document_tokens = document,
                      .chat_us = 5000000,
                      .seed = 7};
    if (tune_run(&load, &out, &err))
        fail_msg("%s", err.text);
    r->ops->close(r);
    return out;
}

static void expect_between(const char *what, double value, double low, double high)
{
    print_message("%-58s %10.4g, want %.4g to %.4g\n", what, value, low, high);
    if (!(value >= low && value <= high))
        fail_msg("%s: %g, want %g to %g", what, value, low, high);
}

static double document_s(const sim_costs *c, double chunk)
{
    double us = 0;
    for (double at = 0; at < CASE_DOCUMENT; at += chunk)
        us += sim_costs_prefill_us(c, at, fmin(chunk, CASE_DOCUMENT - at));
    return us / 1e6;
}

static void test_the_fit_gives_back_its_figures(void **state)
{
    (void)state;
    sim_costs c = case_costs();
    double step_us = sim_costs_decode_us(&c, 1, CASE_CHAT);
    expect_between("a decode step of a chat, ms", step_us / 1e3, 15.38 * 0.99, 15.38 * 1.01);
    expect_between("a document in 30 pieces, less 30 readings of the weights, s",
                   document_s(&c, 2048) - 30 * c.weight_bytes_most / (0.8 * 546e9), 44 * 0.99, 44 * 1.01);
    double middle_us = sim_costs_prefill_us(&c, CASE_DOCUMENT / 2 - 1024, 2048);
    expect_between("a chunk of 2,048 in the middle, s (the text: 1.5)", middle_us / 1e6, 1.5 * 0.9, 1.5 * 1.1);
    expect_between("weights that a chunk reads, GB", sim_costs_weight_bytes(&c, 2048) / 1e9, 33, 37);
    expect_between("KV of a token, B", c.kv_token_bytes, 20480, 20480);
}

static void test_small_chunks_cost_what_the_text_says(void **state)
{
    (void)state;
    schedule_settings at_512 = {.chunk_tokens = 512}, at_1024 = {.chunk_tokens = 1024};
    tune_sample fine = case_run("prefill-first", at_512, CASE_CHAT, CASE_DOCUMENT);
    tune_sample coarse = case_run("prefill-first", at_1024, CASE_CHAT, CASE_DOCUMENT);
    expect_between("premium at 512 over the floor, %", (fine.ttft_us / 44e6 - 1) * 100, 12.75, 34.5);
    expect_between("premium at 1,024 over the floor, %", (coarse.ttft_us / 44e6 - 1) * 100, 12.75, 34.5);
    expect_between("finer costs more, %", (fine.ttft_us / coarse.ttft_us - 1) * 100, 5, 20);
    expect_between("mean gap at 512, s", 1 / fine.chat_tokens_per_s, 0.4 * 0.85, 0.8 * 1.15);
    expect_between("mean gap at 1,024, s", 1 / coarse.chat_tokens_per_s, 0.4 * 0.85, 0.8 * 1.15);
}

static void test_the_incident(void **state)
{
    (void)state;
    schedule_settings at_2048 = {.chunk_tokens = 2048};
    tune_sample alone = case_run("prefill-first", at_2048, CASE_CHAT, 0);
    tune_sample beside = case_run("prefill-first", at_2048, CASE_CHAT, CASE_DOCUMENT);
    expect_between("the chat alone, tok/s", alone.chat_tokens_per_s, 60, 70);
    expect_between("beside a document under prefill-first, tok/s", beside.chat_tokens_per_s, 0.603, 0.737);
}

static void test_gate_bounds_a_stall_by_one_chunk(void **state)
{
    (void)state;
    sim_costs c = case_costs();
    schedule_settings at_2048 = {.chunk_tokens = 2048};
    tune_sample s = case_run("gate", at_2048, CASE_CHAT, CASE_DOCUMENT);
    double chunk_us = sim_costs_prefill_us(&c, CASE_DOCUMENT - 608, 2048);
    expect_between("gate: worst gap, s", s.worst_us / 1e6, 1, (chunk_us + 20000) / 1e6);
    expect_between("gate: median gap, ms", s.p50_us / 1e3, 14, 17);
}

static void expect_cadence(uint64_t gap_ms, double premium_most)
{
    schedule_settings plain = {.chunk_tokens = 2048};
    schedule_settings bound = {.chunk_tokens = 2048, .gap_us = gap_ms * 1000, .chat_share_set = true};
    tune_sample first = case_run("prefill-first", plain, CASE_CHAT, CASE_DOCUMENT);
    tune_sample cadence = case_run("cadence", bound, CASE_CHAT, CASE_DOCUMENT);
    char what[80];
    snprintf(what, sizeof what, "cadence at %d ms: premium over prefill-first, %%", (int)gap_ms);
    expect_between(what, (cadence.ttft_us / first.ttft_us - 1) * 100, -5, premium_most);
    snprintf(what, sizeof what, "cadence at %d ms: worst gap, ms", (int)gap_ms);
    expect_between(what, cadence.worst_us / 1e3, (double)gap_ms / 2, (double)gap_ms);
    assert_true(cadence.gaps > 44000 / gap_ms);
}

static void test_cadence_keeps_100_ms(void **state)
{
    (void)state;
    expect_cadence(100, 21);
}

static void test_cadence_keeps_250_ms(void **state)
{
    (void)state;
    expect_cadence(250, 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_fit_gives_back_its_figures),
        cmocka_unit_test(test_small_chunks_cost_what_the_text_says),
        cmocka_unit_test(test_the_incident),
        cmocka_unit_test(test_gate_bounds_a_stall_by_one_chunk),
        cmocka_unit_test(test_cadence_keeps_100_ms),
        cmocka_unit_test(test_cadence_keeps_250_ms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
