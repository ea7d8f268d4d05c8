/* tests/unit/load/trace_file_test.c: three formats; a wrong line is named. */
#include "load/prompt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

static trace_file parse(const char *text, double speed)
{
    trace_file t;
    error err = {0};
    if (trace_file_parse(&t, span_from(text), "t", 0, speed, &err))
        fail_msg("%s", err.text);
    return t;
}

static const char mooncake[] =
    "{\"timestamp\": 1000, \"input_length\": 700, \"output_length\": 30, \"hash_ids\": [1, 2]}\n"
    "{\"timestamp\": 3500, \"input_length\": 1400, \"output_length\": 0, \"hash_ids\": [1, 5, 6]}\n";

static void mooncake_lines_are_read(void **state)
{
    (void)state;
    trace_file t = parse(mooncake, 2);
    assert_string_equal(t.format, "mooncake");
    assert_int_equal(t.row_count, 2);
    assert_int_equal(t.rows[0].at_us, 0);
    assert_int_equal(t.rows[1].at_us, 1250000); /* twice as fast */
    assert_int_equal(t.rows[1].input_tokens, 1400);
    assert_int_equal(t.rows[1].block_count, 3);
    assert_int_equal(t.blocks[t.rows[1].block_start], 1);
    trace_file_free(&t);
}

static void burstgpt_and_azure_tables_are_read(void **state)
{
    (void)state;
    trace_file t =
        parse("Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
              "5,1,2.5,ChatGPT,472,18,490,Conversation log\r\n\n"
              "45.5,2,1,GPT-4,1087,230,1317,API log\n",
              1);
    assert_string_equal(t.format, "burstgpt");
    assert_int_equal(t.row_count, 2);
    assert_int_equal(t.rows[1].at_us, 40500000);
    assert_int_equal(t.rows[1].input_tokens, 1087);
    assert_int_equal(t.rows[1].output_tokens, 230);
    trace_file_free(&t);
    t = parse("\xEF\xBB\xBFTIMESTAMP,ContextTokens,GeneratedTokens\n"
              "2023-11-16 23:59:59.5000000,374,44\n2023-11-17 00:00:01.7500000,396,109\n",
              1);
    assert_string_equal(t.format, "azure");
    assert_int_equal(t.rows[1].at_us, 2250000); /* over midnight */
    assert_int_equal(t.rows[0].output_tokens, 44);
    trace_file_free(&t);
}

static void rows_come_in_the_order_of_time(void **state)
{
    (void)state;
    trace_file t = parse("TIMESTAMP,ContextTokens,GeneratedTokens\n10,1,1\n30,3,1\n20,2,1\n", 1);
    assert_int_equal(t.rows[1].input_tokens, 2);
    assert_int_equal(t.rows[2].at_us, 20000000);
    trace_file_free(&t);
}

static void a_wrong_line_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"", "line 1: want a JSON object (Mooncake)"},
        {"a,b,c\n1,2,3\n", "line 1: want a JSON object (Mooncake)"},
        {"{\"timestamp\": 1, \"input_length\": 2, \"output_length\": 3}\n{oops\n", "line 2: "},
        {"{\"timestamp\": 1, \"input_length\": \"2\", \"output_length\": 3}\n", "line 1: want numbers timestamp"},
        {"{\"timestamp\": 1, \"input_length\": -2, \"output_length\": 3}\n", "line 1: input_length"},
        {"{\"timestamp\": 1, \"input_length\": 2, \"output_length\": 3, \"hash_ids\": [1, \"x\"]}\n",
         "line 1: hash_ids"},
        {"TIMESTAMP,ContextTokens,GeneratedTokens\n1,2,3\n1,2\n", "line 3: fewer columns"},
        {"TIMESTAMP,ContextTokens,GeneratedTokens\n1,2,many\n", "line 2: a token count"},
        {"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-13-01 00:00:00,2,3\n", "line 2: the time"},
        {"TIMESTAMP,ContextTokens,GeneratedTokens\n1,2,99999999\n", "line 2: a token count"},
        {"TIMESTAMP,ContextTokens,GeneratedTokens\n", "t: no row in it"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        trace_file t;
        error err = {0};
        assert_int_equal(trace_file_parse(&t, span_from(cases[i].text), "t", 0, 1, &err), ERR_INVALID);
        if (!strstr(err.text, cases[i].words))
            fail_msg("'%s' does not hold '%s'", err.text, cases[i].words);
        assert_null(t.rows);
    }
    trace_file t;
    error err = {0};
    assert_int_equal(trace_file_open(&t, "/no/such/trace", 0, 1, &err), ERR_IO);
    assert_non_null(strstr(err.text, "/no/such/trace"));
}

static void rows_that_share_a_block_share_its_text(void **state)
{
    (void)state;
    trace_file t = parse(mooncake, 1);
    workload w = {.seed = 9, .scale = 1, .trace = &t};
    const prompt_settings settings = {.model = "m", .words_per_token = 1};
    buf text[2] = {{0}, {0}};
    for (uint32_t i = 0; i < 2; i++) {
        load_session s;
        workload_session(&w, LOAD_TRACE, i, &s);
        assert_int_equal(s.turns[0].output_tokens, i ? 1 : 30);
        prompt_body(&text[i], &settings, &(load_request){&s, 0, NULL, 0});
    }
    size_t same = 0, blanks = 0;
    for (; text[0].data[same] == text[1].data[same]; same++)
        blanks += text[0].data[same] == ' ';
    assert_true(blanks >= 512 && blanks < 520); /* block 1, not 2 against 5 */
    buf_free(&text[0]);
    buf_free(&text[1]);
    trace_file_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mooncake_lines_are_read),
        cmocka_unit_test(burstgpt_and_azure_tables_are_read),
        cmocka_unit_test(rows_come_in_the_order_of_time),
        cmocka_unit_test(a_wrong_line_is_named),
        cmocka_unit_test(rows_that_share_a_block_share_its_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
