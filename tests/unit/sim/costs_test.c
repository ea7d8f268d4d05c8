/* tests/unit/sim/costs_test.c: lines between points, tables of formulas against the formulas, files of `tune`. */
#include "case_box.h"

#include "base/rng.h"
#include "load/tune.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

static void expect_near(double value, double wanted, double part)
{
    if (!(fabs(value - wanted) <= part * fabs(wanted)))
        fail_msg("%.9g, want %.9g", value, wanted);
}

/* ---- lines ---- */

static const sim_costs table = {.rows = {{1, 100}, {4, 160}},
                                .row_count = 2,
                                .kv_us = 0.25,
                                .chunks = {{2, 50}, {10, 90}, {20, 190}},
                                .chunk_count = 3,
                                .depth_us = 0.5,
                                .fused_row_us = 7,
                                .units = 100,
                                .weight_bytes = 1000,
                                .weight_bytes_row = 10,
                                .weight_bytes_most = 1025};

static void test_a_step_lies_on_the_lines(void **state)
{
    (void)state;
    expect_near(sim_costs_decode_us(&table, 1, 0), 100, 1e-12);
    expect_near(sim_costs_decode_us(&table, 2, 8), 122, 1e-12);
    expect_near(sim_costs_decode_us(&table, 14, 0), 360, 1e-12);
    expect_near(sim_costs_prefill_us(&table, 0, 1), 50, 1e-12);
    expect_near(sim_costs_prefill_us(&table, 0, 6), 70, 1e-12);
    expect_near(sim_costs_prefill_us(&table, 3, 15), 140 + 22.5, 1e-12);
    expect_near(sim_costs_prefill_us(&table, 0, 30), 290, 1e-12);
    expect_near(sim_costs_fused_us(&table, 2, 100, 3, 15), 162.5 + 14 + 25, 1e-12);
    expect_near(sim_costs_fused_us(&table, 2, 8, 3, 0), 122, 1e-12);
    assert_true(sim_costs_decode_us(&table, 0, 100) == 0 && sim_costs_prefill_us(&table, 100, 0) == 0);
}

static void test_units_and_bytes_have_their_part(void **state)
{
    (void)state;
    assert_int_equal(sim_costs_chunk_units(&table, 20), 100);
    assert_int_equal(sim_costs_chunk_units(&table, 10), 50);
    assert_int_equal(sim_costs_chunk_units(&table, 1), 5);
    assert_int_equal(sim_costs_chunk_units(&(sim_costs){0}, 1000), 1);
    expect_near(sim_costs_weight_bytes(&table, 1), 1000, 1e-12);
    expect_near(sim_costs_weight_bytes(&table, 3), 1020, 1e-12);
    expect_near(sim_costs_weight_bytes(&table, 300), 1025, 1e-12);
}

/* ---- a box ---- */

static void test_tables_of_a_box_are_its_formulas(void **state)
{
    (void)state;
    cost_box box = case_box();
    sim_costs c;
    rng random = {11};
    sim_costs_from_box(&c, &box);
    for (int i = 0; i < 2000; i++) {
        double rows = 1 + rng_below(&random, 256), depth = rng_below(&random, 60000);
        expect_near(sim_costs_decode_us(&c, rows, rows * depth), cost_decode_s(&box, rows, depth) * 1e6, 0.03);
        double count = 1 + rng_below(&random, 16384), position = rng_below(&random, 100000);
        expect_near(sim_costs_prefill_us(&c, position, count), cost_chunk_s(&box, position, count) * 1e6, 0.03);
    }
    expect_near(c.weight_bytes, cost_step_weight_bytes(&box, 1), 1e-9);
    expect_near(sim_costs_weight_bytes(&c, 2048), cost_step_weight_bytes(&box, 2048), 1e-6);
    assert_true(c.units / 8 >= 1000); /* of a chunk of 2,048 */
}

static void test_a_fit_holds_for_other_figures_too(void **state)
{
    (void)state;
    cost_box box = case_box();
    sim_costs c, longer;
    sim_costs_fit(&c, &box, 100, 20, 30000, 1.2, 2048);
    expect_near(sim_costs_decode_us(&c, 1, 23000), 1e4, 0.01);
    /* 1.2 s is less than a chunk's part of the document and its weights: it changes nothing; 2 s is more */
    double part_s = 20.0 * 2048 / 30000, weights_s = cost_step_weight_bytes(&box, 2048) / (546e9 * 0.8);
    sim_costs_fit(&longer, &box, 100, 20, 30000, 2, 2048);
    double over_us = sim_costs_prefill_us(&longer, 0, 512) - sim_costs_prefill_us(&c, 0, 512);
    expect_near(over_us, (2 - part_s - weights_s) * 1e6, 1e-6);
}

/* ---- steps.json ---- */

static const char steps[] =
    "{\"format\":\"headway-steps-1\",\"weight_bytes\":5000,\"token_flops\":null,\n\"read\":[],\n"
    "\"prefill\":[{\"tokens\":1,\"position\":0,\"us\":900,\"us_least\":800},{\"tokens\":256,\"position\":0,\"us\":"
    "52000}],\n"
    "\"prefill_at\":[{\"tokens\":100,\"position\":0,\"us\":20000},{\"tokens\":100,\"position\":1000,\"us\":23000}],\n"
    "\"decode\":[{\"rows\":1,\"position\":0,\"us\":1000},{\"rows\":2,\"position\":0,\"us\":1500}],\n"
    "\"decode_at\":[{\"rows\":1,\"position\":0,\"us\":1000},{\"rows\":1,\"position\":1000,\"us\":1400}]}\n";

static void test_a_steps_file_becomes_tables(void **state)
{
    (void)state;
    sim_costs c;
    error err = {""};
    if (sim_costs_from_steps(&c, span_from(steps), "steps.json", &err))
        fail_msg("%s", err.text);
    expect_near(sim_costs_decode_us(&c, 2, 100), 1540, 1e-9);
    expect_near(sim_costs_prefill_us(&c, 0, 256), 52000, 1e-9);
    expect_near(sim_costs_prefill_us(&c, 100, 256), 52000 + 256 * 100 * 0.03, 1e-9);
    expect_near(c.fused_row_us, 51100.0 / 255, 1e-9);
    expect_near(c.weight_bytes, 5000, 0);
}

/* What `tune` writes is what is read. */
static void test_the_writer_of_tune_is_understood(void **state)
{
    (void)state;
    static tune_report report = {.machine = "m", .model = "x"};
    tune_costs *t = &report.costs;
    t->weight_bytes = 123;
    t->chunks = (tune_cost_list){{{1, 0, {500, 400, 600, 3}}, {512, 0, {90000, 9, 99999, 3}}}, 2};
    t->rows = (tune_cost_list){{{1, 0, {700, 1, 1, 1}}}, 1};
    t->state_bytes = 77000;
    report.kv_token_bytes = 4096;
    t->holes = (canary_report){.watched_us = 20000000, .holes = {40, 0, 10, 1}};
    buf text = {0};
    sim_costs c;
    error err = {""};
    tune_steps_json(&report, &text);
    if (sim_costs_from_steps(&c, buf_span(&text), "steps.json", &err))
        fail_msg("%s", err.text);
    expect_near(sim_costs_prefill_us(&c, 4000, 512), 90000, 1e-9);
    expect_near(sim_costs_decode_us(&c, 8, 4000), 700, 1e-9);
    expect_near(c.state_bytes, 77000, 0);
    expect_near(c.kv_token_bytes, 4096, 0);
    expect_near(c.holes_s[0], 2, 1e-9);
    expect_near(c.holes_s[2], 0.5, 1e-9);
    expect_near(c.holes_s[3], 0.05, 1e-9);
    buf_free(&text);
}

static void expect_refused(const char *text, const char *part)
{
    sim_costs c;
    error err = {""};
    assert_int_equal(sim_costs_from_steps(&c, span_from(text), "s.json", &err), ERR_INVALID);
    if (!strstr(err.text, part) || strncmp(err.text, "s.json", 6) != 0)
        fail_msg("\"%s\" does not name \"%s\"", err.text, part);
}

#define HEAD "{\"format\":\"headway-steps-1\","
#define CHUNKS "\"prefill\":[{\"tokens\":8,\"position\":0,\"us\":9}],"

static void test_wrong_files_are_refused_by_name(void **state)
{
    (void)state;
    expect_refused("", "line");
    expect_refused("[]", "headway-steps-1");
    expect_refused("{\"format\":\"headway-curves-1\"}", "headway-steps-1");
    expect_refused(HEAD "\"decode\":[]}", "\"prefill\"");
    expect_refused(HEAD "\"prefill\":{}}", "\"prefill\"");
    expect_refused(HEAD CHUNKS "\"decode\":[]}", "\"decode\"");
    expect_refused(HEAD "\"prefill\":[5]}", "prefill[0]");
    expect_refused(HEAD "\"prefill\":[{\"tokens\":8,\"position\":0}]}", "\"us\"");
    expect_refused(HEAD "\"prefill\":[{\"tokens\":8,\"position\":0,\"us\":-1}]}", "\"us\"");
    expect_refused(HEAD "\"prefill\":[{\"tokens\":8,\"position\":0,\"us\":1e300}]}", "\"us\"");
    expect_refused(HEAD "\"prefill\":[{\"tokens\":8,\"position\":0,\"us\":9},{\"tokens\":8,\"position\":0,\"us\":9}]}",
                   "prefill[1]");
    expect_refused(HEAD CHUNKS
                   "\"decode\":[{\"rows\":1,\"position\":0,\"us\":9}],"
                   "\"decode_at\":[{\"rows\":1,\"position\":5,\"us\":9},{\"rows\":1,\"position\":5,\"us\":9}]}",
                   "decode_at[1]");
    expect_refused(HEAD CHUNKS "\"decode\":[{\"rows\":1,\"position\":0,\"us\":9}],\"holes\":{\"counts\":[]}}", "holes");
    expect_refused(HEAD CHUNKS "\"decode\":[{\"rows\":1,\"position\":0,\"us\":9}],"
                               "\"holes\":{\"watched_us\":1000000,\"counts\":[0,0,0,0,0,90]}}",
                   "more than");
    expect_refused(HEAD CHUNKS "\"decode\":[{\"rows\":1,\"position\":0,\"us\":9}],"
                               "\"holes\":{\"watched_us\":1000000,\"counts\":[0,\"1\",0,0,0,0]}}",
                   "count 1");
    static const char *const kept[] = {"-1", "0.1", "\"x\"", "1e300"};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        char text[256];
        snprintf(text, sizeof text,
                 HEAD CHUNKS "\"decode\":[{\"rows\":1,\"position\":0,\"us\":9}],\"kv_token_bytes\":%s}", kept[i]);
        expect_refused(text, "kv_token_bytes");
    }
}

/* Cut anywhere, or with bytes changed: an answer without a crash, and no number that is not one. */
static void test_broken_files_do_no_harm(void **state)
{
    (void)state;
    rng random = {3};
    char copy[sizeof steps];
    sim_costs c;
    error err = {""};
    for (size_t size = 0; size + 2 < sizeof steps; size++)
        assert_int_equal(sim_costs_from_steps(&c, span_of(steps, size), "s", &err), ERR_INVALID);
    for (int i = 0; i < 20000; i++) {
        memcpy(copy, steps, sizeof steps);
        for (uint32_t k = 0; k < 1 + rng_below(&random, 4); k++)
            copy[rng_below(&random, sizeof steps - 1)] = (char)(32 + rng_below(&random, 96));
        if (sim_costs_from_steps(&c, span_from(copy), "s", &err))
            continue;
        double us = sim_costs_fused_us(&c, 9, 1e6, 1e5, 5000) + sim_costs_decode_us(&c, 99, 1e6);
        assert_true(isfinite(us) && us >= 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_step_lies_on_the_lines),
        cmocka_unit_test(test_units_and_bytes_have_their_part),
        cmocka_unit_test(test_tables_of_a_box_are_its_formulas),
        cmocka_unit_test(test_a_fit_holds_for_other_figures_too),
        cmocka_unit_test(test_a_steps_file_becomes_tables),
        cmocka_unit_test(test_the_writer_of_tune_is_understood),
        cmocka_unit_test(test_wrong_files_are_refused_by_name),
        cmocka_unit_test(test_broken_files_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
