/* tests/unit/sim/costs_trace_test.c: a trace of a machine whose costs are known, as a server would write it: the fit
 * finds them again, disturbed steps, interrupted chunks and lost records included. */
#include "sim/costs.h"

#include "base/rng.h"
#include "server/debug/trace_export.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const sim_costs truth = {.rows = {{1, 2500}, {2, 3000}, {4, 4000}, {8, 6200}},
                                .row_count = 4,
                                .kv_us = 0.4,
                                .chunks = {{1, 2500}, {64, 30000}, {512, 220000}, {2048, 900000}},
                                .chunk_count = 4,
                                .depth_us = 0.05,
                                .fused_row_us = 600};

typedef struct {
    rng random;
    buf text;
    trace_export *out;
    tenant_table *tenants;
    uint64_t now_us, holes, decoding_us;
    uint64_t request;
    bool decoded; /* by the step before */
} server;

static server open_server(uint64_t seed)
{
    server s = {.random = {seed}, .out = calloc(1, sizeof *s.out), .tenants = malloc(sizeof *s.tenants), .request = 7};
    *s.tenants = tenant_table_default();
    trace_export_begin(s.out, &s.text, &(trace_about){span_from("m"), 5000, 24, 70, 2400, 8192}, 0);
    return s;
}

static void record(server *s, trace_record r, double us)
{
    double noise = 0.98 + 0.04 * rng_unit(&s->random);
    r.start_us = s->now_us;
    r.duration_us = (uint64_t)(us * noise);
    s->now_us += r.duration_us + 30;
    trace_export_record(s->out, &s->text, &r, s->tenants);
}

static void decode(server *s, uint32_t rows, uint32_t context)
{
    double us = sim_costs_decode_us(&truth, rows, context), hole = 0;
    if (rng_below(&s->random, 100) == 0) {
        hole = 6000;
        s->holes++;
    }
    s->decoding_us += (uint64_t)us;
    if (s->decoded && rng_below(&s->random, 100) == 0) { /* the engine was not run between two steps */
        s->now_us += 6000;
        s->holes++;
    }
    s->decoded = true;
    record(s, (trace_record){.kind = TRACE_DECODE, .rows = (uint16_t)rows, .position = context}, us + hole);
}

/* In so many runs, of which those before `first` are not told. */
static void chunk(server *s, uint32_t tokens, uint32_t position, uint32_t runs, uint32_t first)
{
    double us = sim_costs_prefill_us(&truth, position, tokens);
    s->decoded = false;
    s->now_us += 40000; /* nobody was there: no hole */
    for (uint32_t i = first; i < runs; i++)
        record(s,
               (trace_record){.kind = TRACE_PREFILL,
                              .tokens = tokens,
                              .position = position,
                              .request_id = s->request,
                              .part = (uint8_t)(255 * (i + 1) / runs),
                              .flags = i + 1 < runs ? TRACE_YIELDED : 0},
               us / runs);
}

/* A fused step whose chunk was left out: its KV had not come. */
static void stalled(server *s, uint32_t rows, uint32_t tokens)
{
    record(s,
           (trace_record){.kind = TRACE_FUSED,
                          .rows = (uint16_t)rows,
                          .tokens = tokens,
                          .request_id = s->request,
                          .flags = TRACE_YIELDED},
           sim_costs_decode_us(&truth, rows, 0));
}

static void fused(server *s, uint32_t rows, uint32_t tokens, uint32_t position)
{
    s->decoded = false;
    record(s,
           (trace_record){.kind = TRACE_FUSED,
                          .rows = (uint16_t)rows,
                          .tokens = tokens,
                          .position = position,
                          .request_id = s->request,
                          .part = 255},
           sim_costs_fused_us(&truth, rows, 0, position, tokens));
}

static void arrive(server *s)
{
    trace_record arrived = {
        .kind = TRACE_ARRIVED, .start_us = s->now_us, .request_id = ++s->request, .duration_us = 1200};
    trace_export_record(s->out, &s->text, &arrived, s->tenants);
}

static void serve(server *s, int turns)
{
    static const uint32_t row_counts[] = {1, 2, 4, 8}, sizes[] = {64, 512, 512, 2048};
    for (int i = 0; i < turns; i++) {
        uint32_t rows = row_counts[rng_below(&s->random, 4)];
        decode(s, rows, rows * (uint32_t)rng_below(&s->random, 6000));
        if (i % 10)
            continue;
        arrive(s);
        for (uint32_t k = 0, position = 0, size; k < 3; k++, position += size) {
            size = sizes[rng_below(&s->random, 4)];
            chunk(s, size, position, 1 + (uint32_t)rng_below(&s->random, 4), 0);
        }
    }
}

static status close_server(server *s, sim_costs *out, error *err)
{
    trace_export_end(s->out, &s->text, s->now_us);
    status st = sim_costs_from_trace(out, buf_span(&s->text), "t.json", err);
    buf_free(&s->text);
    free(s->out);
    free(s->tenants);
    return st;
}

static void expect_near(double value, double wanted, double part)
{
    if (!(fabs(value - wanted) <= part * fabs(wanted)))
        fail_msg("%.9g, want %.9g", value, wanted);
}

static void expect_fit(server *s)
{
    sim_costs c;
    error err = {""};
    double holes_s = (double)s->holes * 1e6 / (double)s->decoding_us;
    if (close_server(s, &c, &err))
        fail_msg("%s", err.text);
    for (uint32_t rows = 1; rows <= 8; rows++)
        for (uint32_t depth = 0; depth <= 6000; depth += 3000)
            expect_near(sim_costs_decode_us(&c, rows, rows * depth), sim_costs_decode_us(&truth, rows, rows * depth),
                        0.03);
    for (uint32_t tokens = 64; tokens <= 2048; tokens *= 2)
        for (uint32_t position = 0; position <= 4096; position += 1024)
            expect_near(sim_costs_prefill_us(&c, position, tokens), sim_costs_prefill_us(&truth, position, tokens),
                        0.04);
    expect_near(c.holes_s[2], holes_s, 0.02);
    expect_near(c.step_us, 30, 0.1);
    expect_near(c.request_us, 1200, 0);
    assert_true(c.weight_bytes == 5000 && c.kv_token_bytes == 24 && c.state_bytes == 70);
    assert_true(c.kv_bytes == 2400 && c.context == 8192);
    assert_true(c.holes_s[0] == 0 && c.holes_s[4] == 0);
    expect_near(c.spread[0], 0.98, 0.02);
    expect_near(c.spread[COST_SPREAD / 2], 1, 0.01);
    expect_near(c.spread[COST_SPREAD - 1], 1.02, 0.02);
}

static void test_the_costs_are_found_again(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        server s = open_server(seed);
        serve(&s, 1500);
        expect_fit(&s);
    }
}

/* A part of a chunk is taken for the whole of none. */
static void test_what_was_not_seen_whole_does_not_count(void **state)
{
    (void)state;
    server s = open_server(9);
    for (int i = 0; i < 200; i++) {
        s.request++;
        chunk(&s, 512, 1024, 4, 3); /* the trace began within it */
        chunk(&s, 64, 1536, 4, 0);
        chunk(&s, 512, 1600, 4, 0);
        trace_export_lost(s.out, &s.text, 5, s.now_us);
        chunk(&s, 2048, 2112, 4, 2);
    }
    serve(&s, 1500);
    expect_fit(&s);
}

/* Its first chunk begins behind what was cached. */
static void test_turns_of_conversations_count(void **state)
{
    (void)state;
    server s = open_server(3);
    sim_costs c;
    error err = {""};
    for (uint32_t i = 0; i < 400; i++) {
        decode(&s, 1, 1000);
        arrive(&s);
        chunk(&s, i % 10 ? 64 : 2048, i % 10 ? 1500 : 0, 1 + i % 4, 0);
    }
    assert_int_equal(close_server(&s, &c, &err), OK);
    expect_near(sim_costs_prefill_us(&c, 1500, 64), sim_costs_prefill_us(&truth, 1500, 64), 0.04);
    expect_near(sim_costs_prefill_us(&c, 0, 2048), sim_costs_prefill_us(&truth, 0, 2048), 0.04);
}

static void test_fused_steps(void **state)
{
    (void)state;
    server s = open_server(4);
    sim_costs c;
    error err = {""};
    serve(&s, 1000);
    for (int i = 0; i < 100; i++)
        fused(&s, 1 + (uint32_t)i % 4, i % 2 ? 64 : 512, 512 * ((uint32_t)i % 8));
    for (int i = 0; i < 600; i++)
        stalled(&s, 2, 512);
    assert_int_equal(close_server(&s, &c, &err), OK);
    expect_near(sim_costs_fused_us(&c, 3, 0, 0, 512), sim_costs_fused_us(&truth, 3, 0, 0, 512), 0.05);
    expect_near(sim_costs_prefill_us(&c, 0, 512), sim_costs_prefill_us(&truth, 0, 512), 0.05);
}

/* Under a policy that runs chunks with rows alone. */
static void test_fused_steps_alone(void **state)
{
    (void)state;
    server s = open_server(6);
    sim_costs c;
    error err = {""};
    for (int i = 0; i < 400; i++) {
        decode(&s, 2, 1000);
        fused(&s, 2, i % 2 ? 512 : 64, 0);
    }
    assert_int_equal(close_server(&s, &c, &err), OK);
    expect_near(sim_costs_fused_us(&c, 2, 0, 0, 512), sim_costs_fused_us(&truth, 2, 0, 0, 512), 0.05);
    expect_near(sim_costs_fused_us(&c, 2, 0, 0, 64), sim_costs_fused_us(&truth, 2, 0, 0, 64), 0.05);
}

static void expect_refused(const char *text, const char *part)
{
    sim_costs c;
    error err = {""};
    assert_int_equal(sim_costs_from_trace(&c, span_from(text), "t.json", &err), ERR_INVALID);
    if (!strstr(err.text, part) || strncmp(err.text, "t.json", 6) != 0)
        fail_msg("\"%s\" does not name \"%s\"", err.text, part);
}

#define STEP(NAME, ARGS)                                                                                               \
    "{\"ph\":\"X\",\"name\":\"" NAME "\",\"pid\":1,\"tid\":1,\"ts\":5,\"dur\":70,\"args\":{" ARGS "}}"
#define CHUNK "\"request\":1,\"tokens\":8,\"position\":0,\"done\":1.0,\"yielded\":false"

static void test_what_is_missing_is_said(void **state)
{
    (void)state;
    expect_refused("", "line");
    expect_refused("{}", "line 1: a trace is a list");
    expect_refused("\n[\n{},\n{\"a\"}]", "line 4");
    expect_refused("[{}, ", "ends within");
    expect_refused("[", "ends within");
    expect_refused("[{} {}]", "neither");
    expect_refused("[{}", "neither");
    expect_refused("[]", "decode step");
    expect_refused("[5, null, \"x\", [], {}]", "decode step");
    expect_refused("[" STEP("prefill", CHUNK) "]", "decode step");
    expect_refused("[" STEP("decode", "\"rows\":1,\"context\":9") "]", "chunk");
    expect_refused("[" STEP("decode", "\"rows\":1e300,\"context\":9") "]", "decode step");
    expect_refused("[" STEP("decode", "\"rows\":1,\"context\":-9") "]", "decode step");
    expect_refused("[" STEP("decode", "\"rows\":1") "]", "decode step"); /* of a server before `context` was told */
}

/* What the trace says of the model is believed within bounds only. */
static void test_bytes_out_of_bounds_are_not_known(void **state)
{
    (void)state;
    static const char *const wrong[] = {"-5", "1e300", "\"x\"", "null"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char text[1024];
        sim_costs c;
        error err = {""};
        snprintf(text, sizeof text,
                 "[{\"ph\":\"i\",\"name\":\"trace starts\",\"pid\":1,\"tid\":2,\"args\":{\"weight_bytes\":%s,"
                 "\"kv_token_bytes\":%s,\"state_bytes\":%s}}," STEP("decode", "\"rows\":1,\"context\":9") "," STEP(
                     "prefill", CHUNK) "]",
                 wrong[i], wrong[i], wrong[i]);
        assert_int_equal(sim_costs_from_trace(&c, span_from(text), "t.json", &err), OK);
        assert_true(c.weight_bytes == 0 && c.kv_token_bytes == 0 && c.state_bytes == 0);
    }
}

static void test_broken_traces_do_no_harm(void **state)
{
    (void)state;
    server s = open_server(2);
    serve(&s, 40);
    trace_export_end(s.out, &s.text, s.now_us);
    char *copy = malloc(s.text.size);
    for (int i = 0; i < 3000; i++) {
        sim_costs c;
        error err = {""};
        memcpy(copy, s.text.data, s.text.size);
        for (uint32_t k = 0; k < 1 + rng_below(&s.random, 6); k++) {
            uint32_t at = (uint32_t)rng_below(&s.random, (uint32_t)s.text.size);
            copy[at] = copy[at] >= '0' && copy[at] <= '9' ? (char)('0' + rng_below(&s.random, 10))
                                                          : (char)(32 + rng_below(&s.random, 96));
        }
        if (sim_costs_from_trace(&c, span_of(copy, s.text.size), "t", &err))
            continue;
        double us = sim_costs_fused_us(&c, 9, 1e6, 1e5, 5000) + sim_costs_decode_us(&c, 99, 1e6);
        assert_true(isfinite(us) && us >= 0 && c.step_us >= 0);
    }
    free(copy);
    buf_free(&s.text);
    free(s.out);
    free(s.tenants);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_costs_are_found_again),
        cmocka_unit_test(test_what_was_not_seen_whole_does_not_count),
        cmocka_unit_test(test_turns_of_conversations_count),
        cmocka_unit_test(test_fused_steps),
        cmocka_unit_test(test_fused_steps_alone),
        cmocka_unit_test(test_what_is_missing_is_said),
        cmocka_unit_test(test_bytes_out_of_bounds_are_not_known),
        cmocka_unit_test(test_broken_traces_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
