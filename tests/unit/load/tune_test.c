/* tests/unit/load/tune_test.c: from made-up curves to the sweet spot and the files; and what a chat and a document do
 * to each other on a simulated runner, to the microsecond. */
#include "load/plot.h"
#include "load/tune_sweep.h"
#include "server/config.h"
#include "sim/sim_runner.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

static tune_report *report_of(void)
{
    tune_report *r = calloc(1, sizeof *r);
    r->machine = "a <machine> \"x\"";
    r->model = "m";
    r->unix_seconds = 1700000000;
    r->gap_us = 50000;
    r->smallest_gap_us = 12000;
    r->chat_share = 0.25;
    r->context = 8192;
    r->document_tokens = 2048;
    r->chat_tokens = 32;
    r->alone_us = (tune_spread){2e6, 1.9e6, 2.1e6, 3};
    r->solo_gap_us = 10000;
    r->solo_tokens_per_s = 100;
    return r;
}

static tune_point *add(tune_report *r, const char *policy, uint32_t chunk, double premium, double p99_ms, double rate)
{
    tune_point *p = &r->points[r->point_count++];
    *p = (tune_point){.policy = policy, .chunk = chunk, .gap_us = r->gap_us, .chat_share = r->chat_share};
    tune_add_sample(p, &(tune_sample){.ttft_us = premium * 2e6,
                                      .premium = premium,
                                      .starved = premium == 0,
                                      .gaps = 100,
                                      .p50_us = p99_ms * 500,
                                      .p99_us = p99_ms * 1000,
                                      .worst_us = p99_ms * 1200,
                                      .chat_tokens_per_s = rate});
    return p;
}

/* ---- the choice ---- */

static void the_smallest_premium_within_the_bound_is_the_sweet_spot(void **state)
{
    (void)state;
    tune_report *r = report_of();
    add(r, "gate", 64, 2.0, 20, 80);
    add(r, "gate", 128, 1.5, 40, 70);
    add(r, "gate", 256, 1.2, 51, 60); /* over the bound */
    add(r, "cadence", 256, 1.7, 45, 30);
    assert_int_equal(tune_sweet(r, NULL), 1);
    assert_int_equal(tune_sweet(r, "gate"), 1);
    assert_int_equal(tune_sweet(r, "cadence"), 3);
    assert_int_equal(tune_sweet(r, "chunked"), -1);
    assert_int_equal(tune_choice(r), 1);
    r->gap_us = 51000;
    assert_int_equal(tune_sweet(r, NULL), 2);
    free(r);
}

static void a_gap_bound_alone_is_not_enough_the_chat_keeps_its_share(void **state)
{
    (void)state;
    tune_report *r = report_of();
    add(r, "chunked", 64, 1.1, 45, 21); /* of 100 tok/s alone, the share is 25 less a tenth */
    add(r, "cadence", 512, 1.4, 45, 23);
    assert_int_equal(tune_sweet(r, NULL), 1);
    r->chat_share = 0;
    assert_int_equal(tune_sweet(r, NULL), 0);
    free(r);
}

static void among_premiums_that_are_the_same_cadence_goes_first(void **state)
{
    (void)state;
    tune_report *r = report_of();
    add(r, "prefill-first", 64, 1.30, 45, 40);
    add(r, "cadence", 512, 1.36, 45, 40);
    add(r, "cadence", 1024, 1.34, 45, 40);
    assert_int_equal(tune_sweet(r, NULL), 2);
    r->points[1].samples[0].premium = r->points[2].samples[0].premium = 1.37; /* more than 5% */
    assert_int_equal(tune_sweet(r, NULL), 0);
    free(r);
}

static void starved_documents_and_refused_bounds_are_never_chosen(void **state)
{
    (void)state;
    tune_report *r = report_of();
    add(r, "decode-first", 64, 0, 10, 100);
    r->points[r->point_count++] = (tune_point){.policy = "gate", .chunk = 64, .refused = "too short"};
    assert_int_equal(tune_choice(r), -1);
    tune_point *swept = add(r, "cadence", 512, 1.1, 40, 50);
    swept->bound_sweep = true; /* another bound than the operator's */
    assert_int_equal(tune_choice(r), -1);
    free(r);
}

static void when_nothing_keeps_the_bound_the_nearest_is_taken(void **state)
{
    (void)state;
    tune_report *r = report_of();
    add(r, "decode-first", 64, 0, 10, 100);
    add(r, "gate", 64, 3, 70, 80);
    add(r, "cadence", 64, 2, 60, 40);
    assert_int_equal(tune_sweet(r, NULL), -1);
    assert_int_equal(tune_choice(r), 2);
    free(r);
}

static void points_that_break_out_are_odd(void **state)
{
    (void)state;
    tune_report *r = report_of();
    add(r, "gate", 256, 1.2, 40, 50); /* in any order */
    add(r, "gate", 64, 1.6, 20, 50);
    add(r, "gate", 128, 1.4, 30, 50);
    add(r, "chunked", 128, 9, 900, 1);
    for (uint32_t i = 0; i < 4; i++)
        assert_false(tune_is_odd(r, i));
    r->points[2].samples[0].p99_us = 60e3; /* 4/3 of the larger neighbour's 40 is 53 */
    assert_true(tune_is_odd(r, 2));
    r->points[2].samples[0].p99_us = 30e3;
    r->points[2].samples[0].premium = 0.85; /* under 1.2 by more than 4/3 */
    assert_true(tune_is_odd(r, 2));
    add(r, "cadence", 64, 1.2, 51, 50); /* it promised 50 */
    assert_true(tune_is_odd(r, 4));
    tune_point *refused = &r->points[r->point_count++];
    *refused = (tune_point){.policy = "cadence", .bound_sweep = true, .gap_us = 10000, .refused = "too short"};
    assert_false(tune_is_odd(r, 5));
    refused->gap_us = 25000; /* 12 ms can be kept */
    assert_true(tune_is_odd(r, 5));
    free(r);
}

static void a_box_that_changes_its_speed_is_not_steady(void **state)
{
    (void)state;
    tune_report *r = report_of();
    buf out = {0};
    assert_true(tune_is_steady(r));
    r->alone_us.most = 2.6e6;
    assert_false(tune_is_steady(r));
    tune_table(r, &out);
    assert_non_null(strstr(out.data, "not steady"));
    buf_free(&out);
    free(r);
}

static void of_two_samples_the_less_disturbed_counts(void **state)
{
    (void)state;
    tune_report *r = report_of();
    tune_point *p = add(r, "gate", 64, 1.5, 40, 50);
    tune_add_sample(p, &(tune_sample){.premium = 1.4, .p99_us = 90e3});
    assert_true(p->sample_count == 2 && tune_value(p)->p99_us == 40e3);
    tune_add_sample(p, &(tune_sample){.premium = 1.4, .p99_us = 1});
    assert_int_equal(p->sample_count, 2);
    tune_point *starved = add(r, "gate", 128, 0, 10, 90);
    tune_add_sample(starved, &(tune_sample){.premium = 2, .p99_us = 90e3});
    assert_false(tune_value(starved)->starved);
    free(r);
}

static void quantiles_are_values_that_were_measured(void **state)
{
    (void)state;
    double few[] = {1, 2}, many[200];
    for (int i = 0; i < 200; i++)
        many[i] = i + 1;
    assert_true(tune_quantile(few, 2, 0.99) == 2 && tune_quantile(few, 2, 0.5) == 1);
    assert_true(tune_quantile(many, 200, 0.99) == 198 && tune_quantile(many, 200, 1) == 200);
    double mixed[] = {5, 1, 9, 3};
    tune_spread s = tune_spread_of(mixed, 4);
    assert_true(s.median == 4 && s.least == 1 && s.most == 9 && s.repeats == 4);
}

/* ---- the files ---- */

static void curves_are_this_json(void **state)
{
    (void)state;
    static const char want[] =
        "{\"format\":\"headway-curves-1\",\"machine\":\"a \\u003cmachine> \\\"x\\\"\",\"model\":\"m\","
        "\"date\":\"2023-11-14T22:13:20Z\",\"quick\":false,\"load_average\":0,\n"
        "\"bound_ms\":50,\"bound_auto\":false,\"smallest_bound_ms\":12,\"chat_share\":0.25,\"context\":8192,"
        "\"document_tokens\":2048,\"chat_prompt_tokens\":32,\n"
        "\"alone\":{\"document_ttft_ms\":1900,\"document_ttft_median_ms\":2000,\"document_ttft_most_ms\":2100,"
        "\"chat_gap_ms\":10,\"chat_tokens_per_s\":100,\"steady\":true},\n"
        "\"choice\":{\"policy\":\"cadence\",\"chunk\":512,\"keeps_bound\":true},\n"
        "\"policies\":[\n{\"policy\":\"decode-first\",\"points\":[\n"
        "{\"chunk\":64,\"document_premium\":null,\"document_ttft_ms\":null,\"starved\":true,\"estimated\":false,"
        "\"gaps\":100,\"gap_p50_ms\":5,\"gap_p99_ms\":10,\"chat_gap_ms\":12,\"chat_tokens_per_s\":100,"
        "\"keeps_bound\":false,\"samples\":[{\"document_premium\":null,\"document_ttft_ms\":null,\"starved\":true,"
        "\"estimated\":false,\"gaps\":100,\"gap_p50_ms\":5,\"gap_p99_ms\":10,\"chat_gap_ms\":12,"
        "\"chat_tokens_per_s\":100}]}]},\n"
        "{\"policy\":\"cadence\",\"sweet\":512,\"points\":[\n"
        "{\"chunk\":512,\"document_premium\":1.5,\"document_ttft_ms\":3000,\"starved\":false,\"estimated\":false,"
        "\"gaps\":100,\"gap_p50_ms\":20,\"gap_p99_ms\":40,\"chat_gap_ms\":48,\"chat_tokens_per_s\":50,"
        "\"keeps_bound\":true,\"samples\":[{\"document_premium\":1.5,\"document_ttft_ms\":3000,\"starved\":false,"
        "\"estimated\":false,\"gaps\":100,\"gap_p50_ms\":20,\"gap_p99_ms\":40,\"chat_gap_ms\":48,"
        "\"chat_tokens_per_s\":50}]}]}],\n"
        "\"bounds\":[\n{\"chunk\":512,\"bound_ms\":10,\"chat_share\":0.5,\"refused\":\"too short\"}]}\n";
    tune_report *r = report_of();
    buf out = {0};
    add(r, "decode-first", 64, 0, 10, 100);
    add(r, "cadence", 512, 1.5, 40, 50);
    r->points[r->point_count++] = (tune_point){.policy = "cadence",
                                               .bound_sweep = true,
                                               .chunk = 512,
                                               .gap_us = 10000,
                                               .chat_share = 0.5,
                                               .refused = "too short"};
    tune_curves_json(r, &out);
    assert_string_equal(out.data, want);
    buf_free(&out);
    free(r);
}

static void steps_are_json_with_rates_and_spread(void **state)
{
    (void)state;
    tune_report *r = report_of();
    buf out = {0};
    r->costs.token_flops = 2e8;
    r->costs.weight_bytes = 90000000;
    r->costs.reads[r->costs.read_count++] = (tune_read){1 << 20, {4e10, 3e10, 5e10, 3}};
    r->costs.chunks.items[r->costs.chunks.count++] = (tune_cost){256, 0, {256000, 250000, 300000, 5}};
    r->costs.depths.items[r->costs.depths.count++] = (tune_cost){1, 4096, {12000, 11000, 13000, 7}};
    tune_steps_json(r, &out);
    json_t *root = json_loads(out.data, 0, NULL);
    assert_non_null(root);
    const char *format;
    double rate, flops, us;
    int repeats, position;
    assert_int_equal(json_unpack(root, "{s:s, s:[{s:F, s:F}], s:[{s:i, s:i, s:F}], s:[], s:[]}", "format", &format,
                                 "prefill", "tokens_per_s", &rate, "gflop_per_s", &flops, "decode_at", "position",
                                 &position, "repeats", &repeats, "us", &us, "decode", "prefill_at"),
                     0);
    assert_string_equal(format, "headway-steps-1");
    assert_true(rate == 1000 && flops == 200 && position == 4096 && repeats == 7 && us == 12000);
    json_decref(root);
    buf_free(&out);
    free(r);
}

static const char *setting_of(const config *c, const char *name)
{
    for (uint32_t i = 0; i < c->setting_count; i++)
        if (strcmp(c->settings[i].name, name) == 0)
            return c->settings[i].value;
    return NULL;
}

static status any(void *context, const char *name, const char *value, error *err)
{
    (void)context, (void)name, (void)value, (void)err;
    return OK;
}

static void the_config_is_one_that_serve_reads(void **state)
{
    (void)state;
    tune_report *r = report_of();
    char longer[400];
    memset(longer, 'x', sizeof longer);
    longer[sizeof longer - 1] = 0;
    const tune_setting settings[] = {
        {"threads", "2"}, {"model", "a ; b"}, {"runner", longer}, {"ctx", NULL}, {NULL, NULL}};
    buf out = {0};
    config *c = calloc(1, sizeof *c);
    error err = {""};
    r->model = "a\nmodel = evil";
    add(r, "gate", 128, 1.5, 40, 50);
    tune_config(r, settings, &out);
    assert_int_equal(config_parse(c, "f", buf_span(&out), &(config_rules){any, NULL}, &err), OK);
    assert_string_equal(setting_of(c, "policy"), "gate");
    assert_string_equal(setting_of(c, "chunk"), "128");
    assert_string_equal(setting_of(c, "gap-ms"), "50");
    assert_string_equal(setting_of(c, "chat-share"), "0.25");
    assert_string_equal(setting_of(c, "threads"), "2");
    assert_null(setting_of(c, "model"));
    assert_null(setting_of(c, "runner"));
    assert_non_null(strstr(out.data, "give --model"));
    r->gap_auto = true;
    buf_clear(&out);
    tune_config(r, settings, &out);
    assert_int_equal(config_parse(c, "f", buf_span(&out), &(config_rules){any, NULL}, &err), OK);
    assert_string_equal(setting_of(c, "gap-ms"), "auto");
    buf_free(&out);
    free(c);
    free(r);
}

static void the_page_escapes_names_and_loads_nothing(void **state)
{
    (void)state;
    tune_report *r = report_of();
    buf out = {0};
    tune_html(r, &out); /* without a single point */
    assert_non_null(strstr(out.data, "</html>"));
    assert_null(strstr(out.data, "<svg"));
    add(r, "gate", 64, 1.5, 40, 50);
    add(r, "gate", 128, 1.3, 45, 50);
    buf_clear(&out);
    tune_html(r, &out);
    assert_null(strstr(out.data, "<machine>"));
    static const char *const outside[] = {"http", "src=", "url(", "<script", "nan", "inf"};
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++)
        if (strstr(out.data, outside[i]))
            fail_msg("the page holds %s", outside[i]);
    assert_non_null(strstr(out.data, "class=\"mark\""));
    buf_free(&out);
    free(r);
}

/* ---- cache or quantize ---- */

/* 1 ms a token and none by depth; a step of 10 ms, and 1 us more for each token of context. */
static tune_report *plain_box(void)
{
    tune_report *r = report_of();
    r->document_tokens = 2000;
    r->alone_us = (tune_spread){2e6, 2e6, 2e6, 3};
    r->costs.chunks.items[r->costs.chunks.count++] = (tune_cost){512, 0, {512e3, 512e3, 512e3, 3}};
    r->costs.depths.items[r->costs.depths.count++] = (tune_cost){1, 0, {10e3, 10e3, 10e3, 3}};
    r->costs.depths.items[r->costs.depths.count++] = (tune_cost){1, 4000, {14e3, 14e3, 14e3, 3}};
    return r;
}

static void what_cache_and_quantization_spare_is_known_exactly(void **state)
{
    (void)state;
    tune_report *r = plain_box();
    r->reuse = (tune_reuse){.given = true, .share = 0.9, .prompt_tokens = 8000, .answer_tokens = 100};
    tune_cache_advice a = tune_cache_advise(r);
    assert_true(a.known);
    assert_true(fabs(a.read_us - 8e6) < 1 && fabs(a.spared_us - 7.2e6) < 1);
    double kv_us = 100 * 1.0 * 8050;
    assert_true(fabs(a.answer_us - (100 * 10e3 + kv_us)) < 1);
    assert_true(fabs(a.q8_us - 0.47 * kv_us) < 1 && fabs(a.q4_us - 0.72 * kv_us) < 1);
    assert_true(fabs(a.break_even - 0.47 * kv_us / 8e6) < 1e-6);
    free(r);
}

static void depth_makes_the_end_of_a_prompt_dearer(void **state)
{
    (void)state;
    tune_report *r = plain_box();
    r->alone_us.least = 4e6; /* twice what the first chunk says: x + x^2 / 2000, in ms */
    r->reuse = (tune_reuse){.given = true, .share = 0.5, .prompt_tokens = 2000, .answer_tokens = 1000};
    tune_cache_advice a = tune_cache_advise(r);
    assert_true(fabs(a.read_us - 4e6) < 1 && fabs(a.spared_us - 1.5e6) < 1);
    double tokens = a.break_even * 2000;
    assert_true(fabs(tokens + tokens * tokens / 2000 - a.q8_us / 1e3) < 1e-3);
    free(r);
}

static void the_advice_follows_the_reuse(void **state)
{
    (void)state;
    tune_report *r = plain_box();
    buf out = {0};
    r->kv_token_bytes = 23040;
    r->reuse = (tune_reuse){.given = true, .measured = true, .share = 0.9, .prompt_tokens = 8000, .answer_tokens = 100};
    tune_cache_text(r, &out);
    assert_non_null(strstr(out.data, "Cache first"));
    for (const char *line = out.data; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        assert_true(strcspn(line, "\n") <= 80);
    assert_non_null(strstr(out.data, "90% (measured)"));
    assert_non_null(strstr(out.data, "176 MB in f16"));
    r->reuse = (tune_reuse){.given = true, .share = 0.01, .prompt_tokens = 8000, .answer_tokens = 100};
    buf_clear(&out);
    tune_cache_text(r, &out);
    assert_non_null(strstr(out.data, "Quantize first"));
    r->reuse.given = false;
    buf_clear(&out);
    tune_cache_text(r, &out);
    assert_non_null(strstr(out.data, "Above a reuse of"));
    for (const char *line = out.data; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        assert_true(strcspn(line, "\n") <= 80);
    r->costs.depths.count = 1;
    buf_clear(&out);
    tune_cache_text(r, &out);
    assert_int_equal(out.size, 0); /* not enough is known */
    buf_free(&out);
    free(r);
}

static void plots_leave_out_what_cannot_be_drawn(void **state)
{
    (void)state;
    buf out = {0};
    plot p = {.title = "t", .x_label = "x", .x_log = true, .y_log = true, .series_count = 1};
    p.series[0] = (plot_series){.name = "n", .count = 3, .x = {1, 2, 4}, .y = {NAN, 0, -1}, .marked = -1};
    plot_svg(&p, &out);
    assert_int_equal(out.size, 0);
    p.series[0].y[1] = 7; /* a single point: an axis nevertheless */
    plot_svg(&p, &out);
    assert_non_null(strstr(out.data, "<circle"));
    assert_null(strstr(out.data, "nan"));
    buf_free(&out);
    plot_number(&out, 12345);
    buf_byte(&out, ' ');
    plot_number(&out, 2e9);
    buf_byte(&out, ' ');
    plot_number(&out, 0.25);
    buf_byte(&out, ' ');
    plot_number(&out, 1024);
    assert_string_equal(out.data, "12.3k 2G 0.25 1024");
    buf_free(&out);
}

/* ---- runs ---- */

typedef struct {
    runner *runner;
    virtual_clock clock;
} box;

/* 1,000 tokens of prefill a second, decode steps of 10 ms. */
static void box_open(box *b)
{
    error err = {""};
    virtual_clock_init(&b->clock, 1000000);
    assert_int_equal(sim_runner_open(&b->runner,
                                     "sim:prefill_tokens_per_s=1000,decode_base_us=9000,decode_row_us=1000,"
                                     "block_tokens=4,context_length=2048,page_count=1024,max_sequences=4,max_rows=4",
                                     NULL, &err),
                     OK);
}

static tune_sample run_of(box *b, tune_load load)
{
    tune_sample out;
    error err = {""};
    load.runner = b->runner;
    load.clock = &b->clock.base;
    if (tune_run(&load, &out, &err))
        fail_msg("%s", err.text);
    return out;
}

static void a_document_as_long_as_its_chunk_is_one_gap(void **state)
{
    (void)state;
    box b;
    box_open(&b);
    tune_load load = {.policy = "prefill-first", .document_tokens = 512};
    tune_sample s = run_of(&b, load);
    assert_true(s.ttft_us == 512000 && s.gaps == 0 && s.premium == 0);
    load.chat_tokens = 16;
    load.alone_us = 512000;
    s = run_of(&b, load);
    assert_true(s.premium == 1 && s.gaps == 1 && s.worst_us == 522000 && s.p99_us == 522000);
    load.schedule.chunk_tokens = 128; /* 4 chunks, 3 decode steps between them, and the last gap */
    s = run_of(&b, load);
    assert_true(s.ttft_us == 542000 && s.gaps == 4 && s.worst_us == 138000);
    assert_true(fabs(s.chat_tokens_per_s - 1e6 / 138000) < 1e-9);
    b.runner->ops->close(b.runner);
}

static void decode_first_starves_the_document(void **state)
{
    (void)state;
    box b;
    box_open(&b);
    tune_sample s = run_of(
        &b, (tune_load){.policy = "decode-first", .document_tokens = 512, .chat_tokens = 16, .alone_us = 512000});
    assert_true(s.starved && s.premium == 0 && s.gaps == 52 && s.worst_us == 10000);
    assert_true(fabs(s.chat_tokens_per_s - 100) < 1e-9);
    b.runner->ops->close(b.runner);
}

static void cadence_keeps_its_bound_and_one_too_small_is_refused(void **state)
{
    (void)state;
    box b;
    box_open(&b);
    tune_load load = {.policy = "cadence",
                      .document_tokens = 512,
                      .chat_tokens = 16,
                      .alone_us = 512000,
                      .schedule = {.gap_us = 50000, .chat_share_set = true}};
    tune_sample s = run_of(&b, load);
    assert_true(!s.starved && s.premium > 1 && s.premium < 1.6 && s.worst_us <= 50000 && s.worst_us > 20000);
    load.schedule.gap_us = 1000;
    error err = {""};
    load.runner = b.runner;
    load.clock = &b.clock.base;
    assert_int_equal(tune_run(&load, &s, &err), ERR_LIMIT);
    assert_non_null(strstr(err.text, "smallest"));
    b.runner->ops->close(b.runner);
}

static void steps_are_measured_to_the_microsecond(void **state)
{
    (void)state;
    box b;
    error err = {""};
    tune_costs *c = calloc(1, sizeof *c);
    box_open(&b);
    tune_stepping stepping = {.runner = b.runner, .clock = &b.clock.base, .budget_us = 60000000};
    assert_int_equal(tune_measure_steps(&stepping, c, &err), OK);
    assert_int_equal(c->chunks.count, 10); /* 1, 2, 4 ... 512 */
    for (uint32_t i = 0; i < c->chunks.count; i++)
        assert_true(c->chunks.items[i].size == 1u << i && c->chunks.items[i].us.median == 1000.0 * (1u << i));
    assert_int_equal(c->rows.count, 3);
    assert_true(c->rows.items[2].size == 4 && c->rows.items[2].us.median == 13000);
    assert_true(c->depths.count == 2 && c->depths.items[1].position == 1024 && c->depths.items[1].us.most == 10000);
    assert_true(fabs(tune_prompt_us(c, 1500) - 1500000) < 1);
    memset(c, 0, sizeof *c);
    stepping.budget_us = 1000000; /* large chunks are left out */
    assert_int_equal(tune_measure_steps(&stepping, c, &err), OK);
    assert_true(c->chunks.count >= 4 && c->chunks.count < 9 && c->rows.count == 3);
    b.runner->ops->close(b.runner);
    free(c);
}

static void a_sweep_fits_its_time(void **state)
{
    (void)state;
    box b;
    error err = {""};
    box_open(&b);
    for (int quick = 0; quick < 2; quick++) {
        tune_report *r = report_of();
        uint64_t start_us = b.clock.time_us, budget_us = quick ? 30000000 : 120000000;
        tune_sweep sweep = {.runner = b.runner,
                            .clock = &b.clock.base,
                            .chat_share = 0.25,
                            .quick = quick,
                            .end_us = start_us + budget_us};
        tune_stepping stepping = {b.runner, &b.clock.base, quick, budget_us / 5, {0}};
        assert_int_equal(tune_measure_steps(&stepping, &r->costs, &err), OK);
        assert_int_equal(tune_sweep_run(&sweep, r, &err), OK);
        assert_true(b.clock.time_us - start_us <= budget_us * 11 / 10);
        assert_true(r->document_tokens >= 256 && r->document_tokens <= 1024);
        assert_true(r->gap_us == 52000 && r->gap_auto); /* 4 steps of 4 rows */
        int choice = tune_choice(r);
        assert_true(choice >= 0 && strcmp(r->points[choice].policy, "cadence") == 0);
        uint32_t measured = 0;
        for (uint32_t i = 0; i < r->point_count; i++)
            measured += tune_value(&r->points[i]) != NULL || r->points[i].refused[0] != 0;
        assert_true(measured == r->point_count && measured >= 15);
        free(r);
    }
    b.runner->ops->close(b.runner);
}

static void a_machine_without_time_left_measures_what_the_choice_needs(void **state)
{
    (void)state;
    box b;
    error err = {""};
    box_open(&b);
    tune_report *r = report_of();
    tune_stepping stepping = {b.runner, &b.clock.base, false, 10000000, {0}};
    assert_int_equal(tune_measure_steps(&stepping, &r->costs, &err), OK);
    tune_sweep sweep = {
        .runner = b.runner, .clock = &b.clock.base, .chat_share = 0.25, .end_us = b.clock.time_us + 1000};
    assert_int_equal(tune_sweep_run(&sweep, r, &err), OK);
    assert_int_equal(r->document_tokens, 256);
    assert_int_equal(r->point_count, 10); /* two chunks of five policies */
    for (uint32_t i = 0; i < r->point_count; i++)
        assert_true(tune_value(&r->points[i]) && !r->points[i].bound_sweep);
    b.runner->ops->close(b.runner);
    free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_smallest_premium_within_the_bound_is_the_sweet_spot),
        cmocka_unit_test(a_gap_bound_alone_is_not_enough_the_chat_keeps_its_share),
        cmocka_unit_test(among_premiums_that_are_the_same_cadence_goes_first),
        cmocka_unit_test(starved_documents_and_refused_bounds_are_never_chosen),
        cmocka_unit_test(when_nothing_keeps_the_bound_the_nearest_is_taken),
        cmocka_unit_test(points_that_break_out_are_odd),
        cmocka_unit_test(a_box_that_changes_its_speed_is_not_steady),
        cmocka_unit_test(of_two_samples_the_less_disturbed_counts),
        cmocka_unit_test(quantiles_are_values_that_were_measured),
        cmocka_unit_test(curves_are_this_json),
        cmocka_unit_test(steps_are_json_with_rates_and_spread),
        cmocka_unit_test(the_config_is_one_that_serve_reads),
        cmocka_unit_test(the_page_escapes_names_and_loads_nothing),
        cmocka_unit_test(what_cache_and_quantization_spare_is_known_exactly),
        cmocka_unit_test(depth_makes_the_end_of_a_prompt_dearer),
        cmocka_unit_test(the_advice_follows_the_reuse),
        cmocka_unit_test(plots_leave_out_what_cannot_be_drawn),
        cmocka_unit_test(a_document_as_long_as_its_chunk_is_one_gap),
        cmocka_unit_test(decode_first_starves_the_document),
        cmocka_unit_test(cadence_keeps_its_bound_and_one_too_small_is_refused),
        cmocka_unit_test(steps_are_measured_to_the_microsecond),
        cmocka_unit_test(a_machine_without_time_left_measures_what_the_choice_needs),
        cmocka_unit_test(a_sweep_fits_its_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
