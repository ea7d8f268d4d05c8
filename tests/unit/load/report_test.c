/* tests/unit/load/report_test.c: from fixed samples to fixed numbers and fixed text. */
#include "load/report.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

static void quantiles_interpolate(void **state)
{
    (void)state;
    double v[] = {40, 10, 30, 20};
    load_quantiles q = quantiles_of(v, 4);
    assert_true(q.median == 25 && q.max == 40 && q.mean == 25);
    assert_true(fabs(q.p90 - 37) < 1e-9 && fabs(q.p99 - 39.7) < 1e-9);
    assert_true(quantile_of(v, 4, 0) == 10 && quantile_of(v, 4, 1) == 40);
    assert_true(isnan(quantile_of(v, 0, 0.5)));
    double one[] = {7};
    q = quantiles_of(one, 1);
    assert_true(q.median == 7 && q.p99 == 7 && q.max == 7);
    assert_int_equal(quantiles_of(NULL, 0).count, 0);
}

typedef struct {
    load_plan plan;
    load_span spans[PHASES_MAX];
    load_samples samples;
    load_summary summary;
} run;

/* A stream in phase `phase`: due at `at_ms`, then tokens at the given milliseconds after that. */
static load_sample *stream(run *r, load_role role, uint32_t phase, uint32_t at_ms, const uint32_t *tokens_ms,
                           uint32_t count)
{
    uint32_t index = samples_add(&r->samples);
    load_sample *s = &r->samples.items[index];
    s->role = role;
    s->phase = phase;
    s->session = index;
    s->intended_us = s->sent_us = 1000000 + at_ms * 1000ull;
    for (uint32_t i = 0; i < count; i++)
        samples_token(&r->samples, index, s->intended_us + tokens_ms[i] * 1000ull, span_from(i ? " <b>" : "\"a\""));
    s->end_us = s->intended_us + (count ? tokens_ms[count - 1] * 1000ull : 0);
    s->outcome = LOAD_DONE;
    s->http_status = 200;
    s->usage = (load_usage){true, 100, count, 25};
    return s;
}

static void fill(run *r)
{
    workload_plan(&(plan_options){.kind = BENCH_MIXED, .duration_s = 8}, NULL, &r->plan);
    for (uint32_t i = 0; i < 3; i++)
        r->spans[i] = (load_span){1000000 + i * 2000000ull, 3000000 + i * 2000000ull, false};
    stream(r, LOAD_AGENTS, 0, 0, (const uint32_t[]){100, 110, 120, 130, 140}, 5);
    stream(r, LOAD_DOCUMENTS, 1, 2000, (const uint32_t[]){800, 810}, 2);
    stream(r, LOAD_AGENTS, 2, 4000, (const uint32_t[]){200, 220, 240, 340, 360}, 5);
    load_sample *s = stream(r, LOAD_AGENTS, 2, 4500, (const uint32_t[]){100, 120}, 2);
    s->outcome = LOAD_CUT; /* 1,300 ms after its last token */
    s->usage = (load_usage){0};
    s->wanted_prompt = 60;
    s->end_us = 6920000;
    stream(r, LOAD_DOCUMENTS, 2, 4000, (const uint32_t[]){1600, 1610}, 2);
    for (uint32_t i = 0; i < 3; i++) {
        s = stream(r, LOAD_DOCUMENTS, 2, 4100, NULL, 0);
        s->outcome = LOAD_REFUSED;
        s->http_status = 429;
        s->retry_after_s = 2 + i;
        memcpy(s->reason, "queue_full", sizeof "queue_full");
    }
}

static void the_cells_hold_what_the_samples_say(void **state)
{
    (void)state;
    run r = {0};
    fill(&r);
    const load_bounds bounds = {50, 1000};
    assert_int_equal(summary_build(&r.summary, &r.samples, &r.plan, r.spans, &bounds, NULL), OK);
    const load_cell *alone = &r.summary.cells[0][LOAD_AGENTS], *both = &r.summary.cells[2][LOAD_AGENTS];
    assert_true(alone->ttft_ms.median == 100 && alone->itl_ms.median == 10 && alone->itl_ms.max == 10);
    assert_true(alone->tpot_ms.median == 10 && alone->e2e_ms.median == 140);
    assert_true(fabs(alone->stream_tok_s.median - 100) < 1e-9);
    assert_int_equal(alone->good, 1);
    assert_int_equal(both->requests, 2);
    assert_int_equal(both->cut, 1);
    assert_true(both->itl_ms.count == 6 && both->itl_ms.max == 1300); /* the gap that the cut left open */
    assert_int_equal(both->worst_gap_sample, 3);
    assert_true(fabs(both->worst_gap_at_s - 5.92) < 1e-9);
    assert_int_equal(both->judged, 2); /* the cut one had broken its bound */
    assert_int_equal(both->good, 0);
    assert_int_equal(both->prompt_tokens, 160);
    const load_cell *documents = &r.summary.cells[2][LOAD_DOCUMENTS];
    assert_int_equal(documents->refused, 3);
    assert_int_equal(documents->good, 1);
    assert_int_equal(r.summary.refusal_count, 1);
    assert_int_equal(r.summary.refusals[0].count, 3);
    assert_int_equal(r.summary.refusals[0].retry_after_max_s, 4);
    assert_true(r.summary.compared[LOAD_AGENTS] && !r.summary.compared[LOAD_TRACE]);
    assert_true(r.summary.slowdown[LOAD_AGENTS].ttft_median == 1.5);
    assert_true(r.summary.slowdown[LOAD_DOCUMENTS].ttft_median == 2);
    samples_free(&r.samples);
}

static void gaps_are_sorted_by_the_tokens_held(void **state)
{
    (void)state;
    run r = {0};
    fill(&r);
    r.samples.items[2].usage.prompt_tokens = 3000;
    assert_int_equal(summary_build(&r.summary, &r.samples, &r.plan, r.spans, &(load_bounds){50, 1000}, NULL), OK);
    assert_int_equal(r.summary.resident_count, 2);
    assert_int_equal(r.summary.resident[0].tokens, 0);
    assert_int_equal(r.summary.resident[0].itl_ms.count, 5); /* alone 4, the cut one 1 */
    assert_int_equal(r.summary.resident[1].tokens, 2048);
    assert_true(r.summary.resident[1].itl_ms.max == 100);
    samples_free(&r.samples);
}

static load_report report_of(const run *r)
{
    return (load_report){.kind = "mixed",
                         .url = "http://h:1",
                         .model = "m",
                         .seed = 7,
                         .unix_seconds = 1000,
                         .scale = 1,
                         .tokens_per_word = 1.25,
                         .bounds = {50, 1000},
                         .plan = &r->plan,
                         .spans = r->spans,
                         .samples = &r->samples,
                         .summary = &r->summary,
                         .canary = {.worst_us = 4200, .worst_at_us = 2000000, .over_5ms = 0, .wakes = 5000}};
}

static const char golden[] =
#include "report_golden.inc"
    ;

static void the_text_is_always_the_same(void **state)
{
    (void)state;
    run r = {0};
    fill(&r);
    assert_int_equal(summary_build(&r.summary, &r.samples, &r.plan, r.spans, &(load_bounds){50, 1000}, NULL), OK);
    load_report report = report_of(&r);
    buf text = {0};
    report_text(&report, &text);
    if (getenv("HEADWAY_GOLDEN")) /* prints what report_golden.inc holds */
        fputs(text.data, stdout);
    else
        assert_string_equal(text.data, golden);
    buf_free(&text);
    samples_free(&r.samples);
}

static void the_json_parses_and_html_holds_it(void **state)
{
    (void)state;
    run r = {0};
    fill(&r);
    assert_int_equal(summary_build(&r.summary, &r.samples, &r.plan, r.spans, &(load_bounds){50, 1000}, NULL), OK);
    load_report report = report_of(&r);
    buf text = {0}, page = {0}, rows = {0};
    report_json(&report, REPORT_ROWS | REPORT_STREAMS, &text);
    report_json(&report, REPORT_ROWS, &rows);
    report_html(&report, &page);
    json_error_t problem;
    json_t *root = json_loadb(text.data, text.size, 0, &problem);
    if (!root)
        fail_msg("line %d: %s", problem.line, problem.text);
    assert_string_equal(json_string_value(json_object_get(root, "schema")), "headway-bench/1");
    const json_t *third = json_array_get(json_object_get(root, "requests"), 2);
    assert_string_equal(json_string_value(json_array_get(json_object_get(third, "text"), 1)), " <b>");
    assert_int_equal(json_integer_value(json_array_get(json_object_get(third, "at"), 3)), 1000);
    assert_true(json_number_value(json_object_get(third, "longest_gap_ms")) == 100);
    const json_t *slow = json_object_get(json_object_get(root, "slowdown"), "agents");
    assert_true(json_number_value(json_object_get(slow, "ttft_median")) == 1.5);
    assert_null(strstr(text.data, "<"));      /* it may stand in a script element */
    assert_null(strstr(rows.data, "\"at\"")); /* streams only where asked for */
    assert_non_null(strstr(page.data, text.data));
    assert_null(strstr(page.data, "{\"mark\":"));
    assert_non_null(strstr(page.data, "</html>"));
    json_decref(root);
    buf_free(&text);
    buf_free(&rows);
    buf_free(&page);
    samples_free(&r.samples);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantiles_interpolate),
        cmocka_unit_test(the_cells_hold_what_the_samples_say),
        cmocka_unit_test(gaps_are_sorted_by_the_tokens_held),
        cmocka_unit_test(the_text_is_always_the_same),
        cmocka_unit_test(the_json_parses_and_html_holds_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
