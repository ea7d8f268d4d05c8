/* tests/unit/plan/measured_test.c: lines in and out, what is refused, doubles and outliers whatever the order, medians.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/rng.h"
#include "plan/measured_private.h"
#include "unit/plan/plain_run.h"

enum { NOW = 1796000000 }; /* 2026-11-30 */

static const char whole[] =
    "{\"format\": \"headway-run/1\", \"kind\": \"decode\", \"hardware\": \"My Box_2\", \"model\": \"Some Model\", "
    "\"type\": \"Q4_0\", \"runtime\": \"headway\", \"version\": \"0.1.0\", \"sampler\": \"greedy\", "
    "\"date\": \"2026-11-29T08:01:02Z\", \"source\": \"a \\\"friend\\\" \\\\ é\", \"batch\": 2, "
    "\"prompt_tokens\": 4096, \"output_tokens\": 64, \"repeats\": 3, \"tok_s\": 61.25, \"tok_s_low\": 60, "
    "\"tok_s_high\": 70.5, \"power\": \"battery\", \"throttled\": true, \"extra\": {\"a\": [1, 2]}}";

/* ---- lines ---- */

static void a_line_is_read_with_all_its_fields(void **state)
{
    (void)state;
    run_record r;
    error err = {""};
    assert_int_equal(run_record_read(&r, span_from(whole), &err), OK);
    assert_string_equal(r.hardware, "my-box-2");
    assert_string_equal(r.model, "some-model");
    assert_string_equal(r.type, "q4_0");
    assert_string_equal(r.version, "0.1.0");
    assert_string_equal(r.source, "a \"friend\" \\ é");
    assert_true(r.kind == RUN_DECODE && r.batch == 2 && r.prompt_tokens == 4096 && r.output_tokens == 64);
    assert_true(r.repeats == 3 && r.tok_s == 61.25 && r.tok_s_low == 60 && r.tok_s_high == 70.5);
    assert_true(r.power == POWER_BATTERY && r.throttled && r.throttle_known);
}

static void what_was_written_reads_back_the_same(void **state)
{
    (void)state;
    run_record first, second;
    buf text = {0};
    assert_int_equal(run_record_read(&first, span_from(whole), NULL), OK);
    run_record_write(&first, &text);
    assert_true(text.data[text.size - 1] == '\n');
    assert_null(memchr(text.data, '\n', text.size - 1));
    assert_int_equal(run_record_read(&second, span_of(text.data, text.size - 1), NULL), OK);
    assert_int_equal(run_compare(&first, &second), 0);
    buf_free(&text);
}

static void what_may_be_missing_has_a_fallback(void **state)
{
    (void)state;
    run_record r;
    error err = {""};
    const char *line = "{\"format\":\"headway-run/1\",\"kind\":\"prefill\",\"hardware\":\"h\",\"model\":\"m\",\"type\":"
                       "\"f16\",\"runtime\":\"x\",\"date\":\"2026-11\",\"batch\":1,\"prompt_tokens\":9,\"tok_s\":1}";
    assert_int_equal(run_record_read(&r, span_from(line), &err), OK);
    assert_true(r.kind == RUN_PREFILL && r.repeats == 1 && r.output_tokens == 0 && r.power == POWER_UNKNOWN);
    assert_true(!r.throttle_known && !r.sampler[0] && !r.source[0] && r.tok_s_low == 0);
}

/* `whole` with one piece of it replaced. */
static void replaced(buf *out, const char *piece, const char *by)
{
    const char *at = strstr(whole, piece);
    assert_non_null(at);
    buf_clear(out);
    buf_append(out, whole, (size_t)(at - whole));
    buf_text(out, by);
    buf_text(out, at + strlen(piece));
}

static void nonsense_is_refused_and_the_field_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *piece, *by, *says;
    } cases[] = {
        {"headway-run/1", "headway-run/2", "format:"},
        {"\"format\": \"headway-run/1\", ", "", "format: is missing"},
        {"\"kind\": \"decode\", ", "", "kind: is missing"},
        {"\"decode\"", "\"train\"", "kind: is none of decode, prefill"},
        {"\"decode\"", "1", "kind:"},
        {"\"hardware\": \"My Box_2\", ", "", "hardware: is missing"},
        {"My Box_2", "  ", "hardware: is empty"},
        {"\"My Box_2\"", "7", "hardware: is not a string"},
        {"My Box_2", "123456789-123456789-123456789-123456789-12345678", "hardware: is longer than 47"},
        {"My Box_2", "a\\u001b[31m", "hardware: holds a control"},
        {"My Box_2", "a\\u202eb", "hardware: holds a control"},
        {"My Box_2", "a\\u2066b", "hardware: holds a control"},
        {"My Box_2", "a\\u0085b", "hardware: holds a control"},
        {"My Box_2", "a\\u0000b", "is not JSON"},
        {"greedy", "a\\nb", "sampler: holds a control"},
        {"Some Model", "llama:7b", "model: has a colon"},
        {"\"type\": \"Q4_0\", ", "", "type: is missing"},
        {"\"runtime\": \"headway\", ", "", "runtime: is missing"},
        {"\"headway\"", "null", "runtime: is not a string"},
        {"\"date\": \"2026-11-29T08:01:02Z\", ", "", "date: is missing"},
        {"2026-11-29T08:01:02Z", "yesterday", "date:"},
        {"2026-11-29T08:01:02Z", "2026-02-29", "date:"},
        {"2026-11-29T08:01:02Z", "2026-13-01", "date:"},
        {"2026-11-29T08:01:02Z", "2026-11-29T24:00:00Z", "date:"},
        {"2026-11-29T08:01:02Z", "2026-11-29 08:01:02", "date:"},
        {"2026-11-29T08:01:02Z", "0000-00-00", "date:"},
        {"2026-11-29T08:01:02Z", "2026", "date:"},
        {"\"batch\": 2, ", "", "batch: is missing"},
        {"\"batch\": 2", "\"batch\": 0", "batch: is not a whole number from 1"},
        {"\"batch\": 2", "\"batch\": -1", "batch:"},
        {"\"batch\": 2", "\"batch\": 1.5", "batch:"},
        {"\"batch\": 2", "\"batch\": 99999999999", "batch:"},
        {"\"batch\": 2", "\"batch\": 2, \"batch\": 3", "is not JSON: duplicate"},
        {"\"prompt_tokens\": 4096, ", "", "prompt_tokens: is missing"},
        {"4096", "-5", "prompt_tokens:"},
        {"\"output_tokens\": 64", "\"output_tokens\": \"64\"", "output_tokens:"},
        {"\"repeats\": 3", "\"repeats\": 0", "repeats:"},
        {"\"tok_s\": 61.25, ", "", "tok_s: is missing"},
        {"61.25", "\"61.25\"", "tok_s: is not a number"},
        {"61.25", "-61.25", "tok_s: -61.25 is not from"},
        {"61.25", "0", "tok_s:"},
        {"61.25", "1e300", "tok_s:"},
        {"61.25", "1e999", "is not JSON"},
        {"61.25", "NaN", "is not JSON"},
        {"61.25", "Infinity", "is not JSON"},
        {"\"tok_s_low\": 60", "\"tok_s_low\": 62", "tok_s_low:"},
        {"70.5", "61", "tok_s_high:"},
        {"\"battery\"", "\"solar\"", "power: is none of unknown, mains, battery"},
        {"\"throttled\": true", "\"throttled\": 1", "throttled:"},
        {"\"extra\"", "\"kv\": \"q8\", \"extra\"", "kv: is none of f16, bf16"},
        {"}}", "}", "is not JSON"},
        {"}}", "}} x", "is not JSON"},
    };
    buf line = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run_record r;
        error err = {""};
        replaced(&line, cases[i].piece, cases[i].by);
        status st = run_record_read(&r, buf_span(&line), &err);
        if (st != ERR_INVALID || !strstr(err.text, cases[i].says))
            fail_msg("'%s' for '%s': status %d, '%s', not '%s'", cases[i].by, cases[i].piece, st, err.text,
                     cases[i].says);
    }
    buf_free(&line);
}

static void what_is_no_object_or_too_long_is_refused(void **state)
{
    (void)state;
    static const char *const lines[] = {"", " ", "null", "[]", "\"headway-run/1\"", "3", "{", "\xff\xfe", "{}"};
    run_record r;
    error err;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        assert_int_equal(run_record_read(&r, span_from(lines[i]), &err), ERR_INVALID);
    static char deep[RUN_LINE_MAX + 1];
    memset(deep, '[', sizeof deep);
    assert_int_equal(run_record_read(&r, span_of(deep, RUN_LINE_MAX), &err), ERR_INVALID);
    assert_int_equal(run_record_read(&r, span_of(deep, RUN_LINE_MAX + 1), &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "longer than"));
    assert_int_equal(run_record_read(&r, span_from("{\"a\": \x1b[2J}"), &err), ERR_INVALID);
    assert_null(strchr(err.text, 0x1b)); /* hostile bytes do not reach the terminal */
}

static void dates_a_day_ahead_are_the_future(void **state)
{
    (void)state;
    static const struct {
        const char *date;
        bool fine;
    } cases[] = {{"2026-11", true},
                 {"2026-12", true},
                 {"2027-01", false},
                 {"2026-12-01", true},
                 {"2026-12-02", false},
                 {"2026-12-01T00:53:20Z", true},
                 {"2026-12-01T00:53:21Z", false},
                 {"2024-02-29", true}};
    char text[24];
    run_date(NOW, text);
    assert_string_equal(text, "2026-11-30T00:53:20Z");
    run_date(0, text);
    assert_string_equal(text, "1970-01-01T00:00:00Z");
    run_date(951782399, text);
    assert_string_equal(text, "2000-02-28T23:59:59Z");
    run_date(951782400, text);
    assert_string_equal(text, "2000-02-29T00:00:00Z");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run_record r = plain(60);
        memcpy(r.date, cases[i].date, strlen(cases[i].date) + 1);
        if ((run_record_check(&r, NOW, NULL) == OK) != cases[i].fine)
            fail_msg("%s", cases[i].date);
        assert_int_equal(run_record_check(&r, 0, NULL), OK);
    }
}

static void days_and_dates_agree_for_centuries(void **state)
{
    (void)state;
    char before[24], after[24];
    for (uint64_t s = 951782400; s < 9000000000; s += 86400 * 13 + 12345) {
        run_record r = plain(1);
        run_date(s, r.date);
        assert_int_equal(run_record_check(&r, s - 86400, NULL), OK);
        assert_int_equal(run_record_check(&r, s - 86401, NULL), ERR_INVALID);
        run_date(s, before);
        run_date(s + 1, after);
        assert_true(strcmp(before, after) < 0);
    }
}

static void mutated_lines_do_no_harm(void **state)
{
    (void)state;
    rng r = {7};
    uint32_t read = 0;
    for (uint32_t i = 0; i < 10000; i++) {
        char line[sizeof whole + 32];
        size_t size = sizeof whole - 1;
        memcpy(line, whole, size);
        for (uint64_t k = 1 + rng_below(&r, 4); k; k--) {
            size_t at = rng_below(&r, size);
            switch (rng_below(&r, 5)) {
            case 0:
                line[at] = (char)rng_next(&r);
                break;
            case 1:
                line[at] ^= (char)(1 << rng_below(&r, 8));
                break;
            case 2: /* a byte less */
                memmove(line + at, line + at + 1, size - at - 1);
                size--;
                break;
            case 3: /* a byte of the alphabet of JSON more */
                memmove(line + at + 1, line + at, size - at);
                line[at] = "{}[]\",:0123456789-.eE\\"[rng_below(&r, 22)];
                size++;
                break;
            default: /* a piece from elsewhere */
                memmove(line + at, line + rng_below(&r, size - 8), size - at < 8 ? size - at : 8);
            }
        }
        run_record record, again;
        error err = {""};
        buf text = {0};
        char *exact = malloc(size); /* no byte after it, for the sanitizer */
        memcpy(exact, line, size);
        if (run_record_read(&record, span_of(exact, size), &err) == OK) {
            read++;
            run_record_write(&record, &text);
            assert_true(text.size <= RUN_LINE_MAX);
            assert_int_equal(run_record_read(&again, span_of(text.data, text.size - 1), &err), OK);
            assert_true(record.tok_s > 0 && record.batch > 0 && record.repeats > 0);
            assert_int_equal(run_compare_group(&record, &again), 0);
        } else
            assert_true(err.text[0] && strlen(err.text) < 400);
        free(exact);
        buf_free(&text);
    }
    assert_true(read > 300 && read < 8000);
}

/* ---- sets ---- */

static void add_line(buf *text, const run_record *r)
{
    run_record_write(r, text);
}

static void seven_imported_runs_are_measured_with_n_seven(void **state)
{
    (void)state;
    static const double rates[] = {61, 66, 64, 63, 70, 60, 65};
    buf text = {0};
    run_set set = {0};
    import_report report;
    error err = {""};
    for (int i = 0; i < 7; i++) {
        run_record r = plain(rates[i]);
        snprintf(r.date, sizeof r.date, "2026-11-%02d", 10 + i);
        add_line(&text, &r);
    }
    assert_int_equal(run_set_import(&set, buf_span(&text), NOW, &report, &err), OK);
    assert_true(report.taken == 7 && report.doubles == 0 && report.refused == 0 && report.outliers == 0);
    run_summary s = run_set_find(&set, RUN_DECODE, "Box", "M", "Q4_0", 1, 0);
    assert_int_equal(s.n, 7);
    assert_true(s.median == 64 && s.low == 60 && s.high == 70);
    assert_string_equal(s.date, "2026-11-16");
    assert_string_equal(s.runtimes, "headway");
    assert_int_equal(run_set_import(&set, buf_span(&text), NOW, &report, &err), OK); /* once more */
    assert_true(report.taken == 0 && report.doubles == 7);
    assert_int_equal(run_set_find(&set, RUN_DECODE, "box", "m", "q4_0", 1, 0).n, 7);
    assert_int_equal(run_set_find(&set, RUN_DECODE, "box", "m", "q4_0", 2, 0).n, 0);
    assert_int_equal(run_set_find(&set, RUN_PREFILL, "box", "m", "q4_0", 1, 0).n, 0);
    assert_int_equal(run_set_find(&set, RUN_DECODE, "box", "m", "q8_0", 1, 0).n, 0);
    assert_int_equal(run_set_find(&set, RUN_DECODE, "box2", "m", "q4_0", 1, 0).n, 0);
    run_set_free(&set);
    buf_free(&text);
}

static void only_like_depths_are_found(void **state)
{
    (void)state;
    run_set set = {0};
    static const uint32_t depths[] = {0, 1024, 1500, 2048, 4033, 8192};
    for (int i = 0; i < 6; i++) {
        run_record r = plain(100 - i);
        r.prompt_tokens = depths[i];
        assert_int_equal(run_set_add(&set, &r), OK);
    }
    assert_int_equal(run_set_find(&set, RUN_DECODE, "box", "m", "q4_0", 1, 0).n, 3);
    assert_int_equal(run_set_find(&set, RUN_DECODE, "box", "m", "q4_0", 1, 1023).n, 3);
    assert_int_equal(run_set_find(&set, RUN_DECODE, "box", "m", "q4_0", 1, 2048).n, 3); /* 1,500, 2,048, 4,033 */
    assert_int_equal(run_set_find(&set, RUN_DECODE, "box", "m", "q4_0", 1, 4096).n, 1);
    assert_int_equal(run_set_find(&set, RUN_DECODE, "box", "m", "q4_0", 1, 60000).n, 0);
    for (uint32_t i = 0; i < set.count; i++) {
        set.items[i].kind = RUN_PREFILL;
        set.items[i].prompt_tokens = 32u << i; /* a prompt of 64 tokens says nothing of one of 512 */
    }
    for (uint32_t i = 0; i < set.count; i++)
        assert_int_equal(run_set_find(&set, RUN_PREFILL, "box", "m", "q4_0", 1, 32u << i).n, 1);
    assert_int_equal(run_set_find(&set, RUN_PREFILL, "box", "m", "q4_0", 1, 96).n, 2);
    assert_int_equal(run_set_find(&set, RUN_PREFILL, "box", "m", "q4_0", 1, 5).n, 1);
    run_set_free(&set);
}

static void hindered_runs_count_only_alone(void **state)
{
    (void)state;
    run_set set = {0};
    run_record r = plain(30);
    r.power = POWER_BATTERY;
    run_set_add(&set, &r);
    r = plain(40);
    r.throttle_known = r.throttled = true;
    memcpy(r.runtime, "llama.cpp", 10);
    run_set_add(&set, &r);
    run_summary s = run_set_find(&set, RUN_DECODE, "box", "m", "q4_0", 1, 0);
    assert_true(s.n == 2 && s.on_battery == 1 && s.throttled == 1 && s.median == 35);
    assert_string_equal(s.runtimes, "headway, llama.cpp");
    r = plain(60);
    r.tok_s_low = 55;
    r.tok_s_high = 64;
    run_set_add(&set, &r);
    s = run_set_find(&set, RUN_DECODE, "box", "m", "q4_0", 1, 0);
    assert_true(s.n == 1 && s.on_battery == 0 && s.throttled == 0 && s.median == 60 && s.low == 55 && s.high == 64);
    run_set_free(&set);
}

static void an_outlier_needs_four_others_and_a_factor_of_two(void **state)
{
    (void)state;
    static const double rates[] = {60, 61, 62, 125, 63};
    buf text = {0};
    import_report report;
    for (int others = 3; others <= 4; others++) {
        run_set set = {0};
        buf_clear(&text);
        for (int i = 0; i <= others; i++) {
            run_record r = plain(rates[i]);
            add_line(&text, &r);
        }
        assert_int_equal(run_set_import(&set, buf_span(&text), NOW, &report, NULL), OK);
        assert_int_equal(report.outliers, others == 4);
        assert_int_equal(report.taken, 4);
        if (others == 4) {
            assert_non_null(strstr(report.first_reason, "line 4: tok_s: 125 is more than"));
            assert_non_null(strstr(report.first_reason, "61.5"));
        }
        run_record low = plain(30.6), just = plain(30.9), elsewhere = plain(1); /* 61.5 or 62 in the middle */
        memcpy(elsewhere.runtime, "other", 6);
        buf_clear(&text);
        add_line(&text, &low);
        add_line(&text, &elsewhere);
        if (others == 4) {
            assert_int_equal(run_set_import(&set, buf_span(&text), NOW, &report, NULL), OK);
            assert_true(report.outliers == 1 && report.taken == 1);
            buf_clear(&text);
            add_line(&text, &just);
            assert_int_equal(run_set_import(&set, buf_span(&text), NOW, &report, NULL), OK);
            assert_true(report.outliers == 0 && report.taken == 1);
        }
        run_set_free(&set);
    }
    buf_free(&text);
}

static void lines_that_are_wrong_do_not_stop_the_others(void **state)
{
    (void)state;
    buf text = {0};
    run_set set = {0};
    import_report report;
    run_record r = plain(50);
    buf_text(&text, "\n  \r\n");
    add_line(&text, &r);
    buf_text(&text, "rubbish\n{\"format\": \"headway-run/9\"}\n");
    r.tok_s = 51;
    memcpy(r.date, "2031-01-01", 11);
    add_line(&text, &r);
    memcpy(r.date, "2026-01-01", 11);
    run_record_write(&r, &text);
    text.size--; /* the last line has no end */
    assert_int_equal(run_set_import(&set, buf_span(&text), NOW, &report, NULL), OK);
    assert_true(report.taken == 2 && report.refused == 3 && report.doubles == 0);
    assert_non_null(strstr(report.first_reason, "line 4: is not JSON"));
    run_set_free(&set);
    buf_free(&text);
}

/* ---- the tables ---- */

static run_record of_m4_max(double tok_s, uint32_t batch, uint32_t depth)
{
    run_record r = plain(tok_s);
    snprintf(r.hardware, sizeof r.hardware, "Apple M4 Max");
    snprintf(r.model, sizeof r.model, "Qwen/Qwen3.6-35B-A3B");
    snprintf(r.type, sizeof r.type, "MXFP8");
    r.batch = batch;
    r.prompt_tokens = depth;
    return r;
}

static void other_names_become_those_of_the_tables(void **state)
{
    (void)state;
    run_record r = of_m4_max(65, 1, 0);
    error err = {""};
    assert_int_equal(run_record_check(&r, NOW, &err), OK);
    assert_string_equal(r.hardware, "m4-max");
    assert_string_equal(r.model, "qwen3.6-35b-a3b");
    assert_string_equal(r.type, "mxfp8");
}

static void a_rate_above_the_ceiling_is_refused(void **state)
{
    (void)state;
    static const struct {
        double tok_s;
        uint32_t batch, depth;
        bool fine;
    } cases[] = {{170, 1, 0, true},      {200, 1, 0, false},    {150, 1, 23000, true},
                 {170, 1, 60000, false}, {170, 2, 60000, true}, {1300, 8, 0, true}, /* all rows at the same experts */
                 {1500, 8, 0, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run_record r = of_m4_max(cases[i].tok_s, cases[i].batch, cases[i].depth);
        error err = {""};
        if ((run_record_check(&r, NOW, &err) == OK) != cases[i].fine)
            fail_msg("%g: %s", cases[i].tok_s, err.text);
        if (!cases[i].fine)
            assert_non_null(strstr(err.text, "the most that m4-max can do with qwen3.6-35b-a3b:mxfp8"));
    }
    run_record r = of_m4_max(3000, 1, 4096); /* a prompt's rate is another thing */
    r.kind = RUN_PREFILL;
    assert_int_equal(run_record_check(&r, NOW, NULL), OK);
    r = of_m4_max(1e6, 1, 0); /* small, in a cache: and yet there is an end */
    snprintf(r.model, sizeof r.model, "smollm2-135m");
    snprintf(r.type, sizeof r.type, "q4_1");
    assert_int_equal(run_record_check(&r, NOW, NULL), ERR_INVALID);
    r.tok_s = 8000;
    assert_int_equal(run_record_check(&r, NOW, NULL), OK);
    r = of_m4_max(1e6, 1, 0); /* a type that is in no table: nothing is known */
    snprintf(r.type, sizeof r.type, "zip");
    assert_int_equal(run_record_check(&r, NOW, NULL), OK);
}

/* ---- the same by a naive model ---- */

enum { LINES = 40 };

static double naive_median(double *values, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = i + 1; k < count; k++)
            if (values[k] < values[i]) {
                double swap = values[i];
                values[i] = values[k];
                values[k] = swap;
            }
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

static void naive_import(const run_record *lines, const uint32_t *order, import_report *out, bool *taken)
{
    bool again[LINES] = {false};
    *out = (import_report){0};
    for (uint32_t i = 0; i < LINES; i++)
        for (uint32_t k = 0; k < i; k++)
            again[order[i]] = again[order[i]] || run_compare(&lines[order[i]], &lines[order[k]]) == 0;
    for (uint32_t i = 0; i < LINES; i++) {
        double others[LINES];
        uint32_t count = 0;
        taken[i] = false;
        if (again[i]) {
            out->doubles++;
            continue;
        }
        for (uint32_t k = 0; k < LINES; k++)
            if (k != i && !again[k] && run_compare_group(&lines[i], &lines[k]) == 0)
                others[count++] = lines[k].tok_s;
        double median = count ? naive_median(others, count) : 0;
        bool apart = count >= 4 && (lines[i].tok_s > 2 * median || 2 * lines[i].tok_s < median);
        out->outliers += apart;
        taken[i] = !apart;
        out->taken += !apart;
    }
}

static int by_record(const void *a, const void *b)
{
    return run_compare(a, b);
}

static run_record any_record(rng *r)
{
    run_record one = plain((double)(10 + 10 * rng_below(r, 8)));
    one.hardware[0] = (char)('a' + rng_below(r, 2));
    one.prompt_tokens = (uint32_t)rng_below(r, 2) * 4000;
    one.power = rng_below(r, 6) == 0 ? POWER_BATTERY : POWER_MAINS;
    one.output_tokens = (uint32_t)rng_below(r, 3);
    return one;
}

static void import_is_what_a_naive_one_does_in_any_order(void **state)
{
    (void)state;
    rng r = {11};
    uint32_t outliers = 0, doubles = 0;
    for (int round = 0; round < 300; round++) {
        run_record lines[LINES];
        uint32_t order[LINES];
        run_set first = {0};
        for (uint32_t i = 0; i < LINES; i++) {
            lines[i] = any_record(&r);
            order[i] = i;
        }
        for (int shuffle = 0; shuffle < 3; shuffle++) {
            import_report wanted, got;
            bool taken[LINES];
            run_set set = {0};
            buf text = {0};
            for (uint32_t i = LINES - 1; i > 0 && shuffle; i--) {
                uint32_t k = (uint32_t)rng_below(&r, i + 1), swap = order[i];
                order[i] = order[k];
                order[k] = swap;
            }
            for (uint32_t i = 0; i < LINES; i++)
                add_line(&text, &lines[order[i]]);
            naive_import(lines, order, &wanted, taken);
            assert_int_equal(run_set_import(&set, buf_span(&text), NOW, &got, NULL), OK);
            assert_true(got.taken == wanted.taken && got.doubles == wanted.doubles && got.outliers == wanted.outliers);
            for (uint32_t i = 0, at = 0; i < LINES; i++) /* those taken, in the order of the lines */
                if (taken[order[i]])
                    assert_int_equal(run_compare(&set.items[at++], &lines[order[i]]), 0);
            qsort(set.items, set.count, sizeof *set.items, by_record);
            if (shuffle == 0)
                first = set;
            else {
                assert_int_equal(first.count, set.count);
                for (uint32_t i = 0; i < set.count; i++)
                    assert_int_equal(run_compare(&set.items[i], &first.items[i]), 0);
                run_set_free(&set);
            }
            outliers += got.outliers;
            doubles += got.doubles;
            buf_free(&text);
        }
        run_set_free(&first);
    }
    assert_true(outliers > 300 && doubles > 300); /* there was something to find */
}

static void the_oldest_of_the_largest_group_go_first(void **state)
{
    (void)state;
    run_set set = {0};
    for (int i = 0; i < 20; i++) {
        run_record r = plain(50 + i);
        if (i >= 16)
            memcpy(r.hardware, "rare", 5);
        snprintf(r.date, sizeof r.date, "20%02d-01", i < 16 ? 10 + i : 1);
        run_set_add(&set, &r);
    }
    assert_int_equal(run_set_trim(&set, 10, NULL), OK);
    assert_int_equal(set.count, 10);
    uint32_t rare = 0;
    for (uint32_t i = 0; i < 10; i++) {
        rare += strcmp(set.items[i].hardware, "rare") == 0;
        if (strcmp(set.items[i].hardware, "box") == 0)
            assert_true(strcmp(set.items[i].date, "2020") >= 0);
    }
    assert_int_equal(rare, 4); /* older, and of a small group */
    assert_int_equal(run_set_trim(&set, 10, NULL), OK);
    assert_int_equal(set.count, 10);
    run_set_free(&set);
}

static void the_runs_that_ship_are_all_read(void **state)
{
    (void)state;
    uint32_t count = 0;
    for (; known_runs[count]; count++) {
        run_record r;
        error err = {""};
        if (run_record_read(&r, span_from(known_runs[count]), &err) || run_record_check(&r, NOW, &err))
            fail_msg("%s: %s", known_runs[count], err.text);
        assert_true(r.source[0]);
    }
    assert_true(count > 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_is_read_with_all_its_fields),
        cmocka_unit_test(what_was_written_reads_back_the_same),
        cmocka_unit_test(what_may_be_missing_has_a_fallback),
        cmocka_unit_test(nonsense_is_refused_and_the_field_is_named),
        cmocka_unit_test(what_is_no_object_or_too_long_is_refused),
        cmocka_unit_test(dates_a_day_ahead_are_the_future),
        cmocka_unit_test(days_and_dates_agree_for_centuries),
        cmocka_unit_test(mutated_lines_do_no_harm),
        cmocka_unit_test(seven_imported_runs_are_measured_with_n_seven),
        cmocka_unit_test(only_like_depths_are_found),
        cmocka_unit_test(hindered_runs_count_only_alone),
        cmocka_unit_test(an_outlier_needs_four_others_and_a_factor_of_two),
        cmocka_unit_test(lines_that_are_wrong_do_not_stop_the_others),
        cmocka_unit_test(other_names_become_those_of_the_tables),
        cmocka_unit_test(a_rate_above_the_ceiling_is_refused),
        cmocka_unit_test(import_is_what_a_naive_one_does_in_any_order),
        cmocka_unit_test(the_oldest_of_the_largest_group_go_first),
        cmocka_unit_test(the_runs_that_ship_are_all_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
