/* tests/unit/sim/script_test.c: runner specs, script files, and the checks that the sim runner makes. */
#include "unit/engine/engine_fixture.h"

#include "sim/script_runner.h"

#include <stdio.h>
#include <unistd.h>

static char script_path[64];

static void write_script(const char *text)
{
    snprintf(script_path, sizeof script_path, "/tmp/headway-script-%d.jsonl", (int)getpid());
    FILE *file = fopen(script_path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void swap_runner(fixture *f, const char *spec)
{
    engine_destroy(f->engine);
    f->runner->ops->close(f->runner);
    error err = {""};
    if (sim_runner_open(&f->runner, spec, NULL, &err))
        fail_msg("%s", err.text);
    engine_config config = {.clock = &f->clock.base};
    assert_int_equal(engine_create(&f->engine, f->runner, &config, NULL), OK);
}

static void open_script(fixture *f, const char *text)
{
    write_script(text);
    char spec[96];
    snprintf(spec, sizeof spec, "script:%s", script_path);
    fixture_open(f, (sim_config){.max_sequences = 1}, (engine_config){0});
    swap_runner(f, spec);
    unlink(script_path);
}

static void expect_said(fixture *f, uint64_t id, const char *text)
{
    ledger_entry *entry = &f->ledger[id];
    assert_int_equal(entry->count, strlen(text));
    for (uint32_t i = 0; i < entry->count; i++)
        assert_int_equal(entry->tokens[i], (uint8_t)text[i]);
}

static void says_the_first_reply_that_matches(void **state)
{
    (void)state;
    fixture f;
    open_script(&f, "# replies\n"
                    "{\"reply\": \"sunny\", \"match\": \"weather\", \"times\": 0}\n\n"
                    "{\"reply\": \"one \\u00e9\"}\r\n"
                    "{\"reply\": \"two\"}");
    static const char *const prompts[] = {"hi", "the weather?", "hi", "hi", "weather"};
    for (uint64_t i = 0; i < 5; i++)
        fixture_submit(&f, fixture_request(i, prompts[i], 200));
    fixture_run(&f);
    expect_said(&f, 0, "one \xc3\xa9");
    expect_said(&f, 1, "sunny");
    expect_said(&f, 2, "two");
    expect_said(&f, 3, "[script: no reply is left for this request]");
    expect_said(&f, 4, "sunny");
    assert_int_equal(f.ledger[0].end.reason, FINISH_STOP);
    assert_string_equal(f.runner->info.model_name, "script");
    fixture_close(&f);
}

static void a_reply_without_end_goes_round(void **state)
{
    (void)state;
    fixture f;
    open_script(&f, "{\"settings\": {\"decode_base_us\": 7000, \"decode_row_us\": 1}}\n"
                    "{\"reply\": \"abc\", \"end\": false}\n{\"reply\": \"\"}\n");
    fixture_submit(&f, fixture_request(1, "hi", 8));
    fixture_submit(&f, fixture_request(2, "hi", 8));
    fixture_run(&f);
    expect_said(&f, 1, "abcabcab");
    expect_said(&f, 2, "");
    assert_int_equal(f.ledger[1].longest_gap_us / 1000, 7);
    assert_int_equal(f.ledger[1].end.reason, FINISH_LENGTH);
    fixture_close(&f);
}

static void a_preempted_request_keeps_its_reply(void **state)
{
    (void)state;
    fixture f;
    open_script(&f, "{\"settings\": {\"page_count\": 40, \"page_tokens\": 1, \"context_length\": 40}}\n"
                    "{\"reply\": \"the first of all the replies\"}\n{\"reply\": \"second, to another request\"}\n"
                    "{\"reply\": \"third, and that is the last\"}\n");
    for (uint64_t i = 0; i < 3; i++)
        fixture_submit(&f, fixture_request(i, "hello", 32));
    fixture_run(&f);
    expect_said(&f, 0, "the first of all the replies");
    expect_said(&f, 1, "second, to another request");
    expect_said(&f, 2, "third, and that is the last");
    assert_true(fixture_snapshot(&f).preemptions > 0);
    fixture_close(&f);
}

static void a_wrong_script_is_named_with_its_line(void **state)
{
    (void)state;
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"{\"reply\": \"a\"}\n{\"reply\": 3}\n", ", line 2: \"reply\" is missing or no string"},
        {"{\"reply\": ", ", line 1: column "},
        {"[1]\n", ", line 1: want a JSON object"},
        {"{\"reply\": \"a\", \"times\": -1}", ", line 1: \"times\" has to be a whole number from 0 on"},
        {"\n{\"settings\": {\"speed\": 1}}",
         ", line 2: sim setting \"speed\": unknown, want one of: prefill_tokens_per_s"},
        {"{\"settings\": {\"max_rows\": 0}}", ", line 1: sim setting \"max_rows\": 0, want 1 to 65536"},
        {"{\"reply\": \"a\", \"match\": 1}", ", line 1: \"match\" has to be a string"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_script(cases[i].text);
        runner *made;
        error err = {""};
        assert_int_equal(script_runner_create(&made, script_path, NULL, &err), ERR_INVALID);
        if (!strstr(err.text, cases[i].want))
            fail_msg("\"%s\" lacks \"%s\"", err.text, cases[i].want);
        unlink(script_path);
    }
    runner *made;
    assert_int_equal(script_runner_create(&made, "/nowhere/script", NULL, NULL), ERR_IO);
}

static void specs_set_the_numbers(void **state)
{
    (void)state;
    runner *made;
    error err = {""};
    sim_config base = {.max_sequences = 9};
    assert_int_equal(sim_runner_open(&made, "sim:context_length=100,page_tokens=10,max_rows=3", &base, &err), OK);
    assert_int_equal(made->info.context_length, 100);
    assert_int_equal(made->info.page_count, 640);
    assert_int_equal(made->info.max_rows, 3);
    assert_int_equal(made->info.max_sequences, 9);
    made->ops->close(made);
    assert_int_equal(sim_runner_open(&made, "model", NULL, &err), ERR_NOT_FOUND);
    assert_int_equal(sim_runner_open(&made, "sim:max_rows", NULL, &err), ERR_INVALID);
    assert_int_equal(sim_runner_open(&made, "sim:max_rows=x", NULL, &err), ERR_INVALID);
}

static void a_plan_that_breaks_the_contract_fails(void **state)
{
    (void)state;
    runner *r;
    virtual_clock clock;
    virtual_clock_init(&clock, 0);
    assert_int_equal(sim_runner_create(&r, &(sim_config){0}, NULL), OK);
    int32_t tokens[200] = {1, 2, 3};
    uint32_t pages[20] = {5, 6, 7, 8, 9};
    sampling_params params = {0};
    sequence_start start = {.params = &params, .tokens = tokens, .prompt_count = 130};
    assert_int_equal(r->ops->sequence_open(r, 2, &start), OK);
    assert_int_equal(r->ops->sequence_open(r, 2, &start), ERR_INVALID);
    sampled_token sampled[4];
    step_result result = {.tokens = sampled};
    error err = {""};
    step_plan plan = {.kind = STEP_PREFILL,
                      .chunk = {.seq = 2, .pages = pages, .position = 1, .tokens = tokens, .token_count = 3}};
    assert_int_equal(r->ops->run(r, &plan, &result, &clock.base, &err), ERR_INVALID);
    plan.chunk.position = 0;
    plan.chunk.token_count = 130;
    plan.deadline_us = 1;
    assert_int_equal(r->ops->run(r, &plan, &result, &clock.base, &err), OK);
    assert_false(result.chunk_done);
    plan.chunk.token_count = 131;
    assert_int_equal(r->ops->run(r, &plan, &result, &clock.base, &err), ERR_INVALID);
    assert_string_equal(err.text, "plan: the chunk of sequence 2 changed while it was open");
    plan.chunk.token_count = 130;
    plan.deadline_us = 0;
    assert_int_equal(r->ops->run(r, &plan, &result, &clock.base, &err), OK);
    assert_true(result.chunk_done);
    r->ops->close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(says_the_first_reply_that_matches),
        cmocka_unit_test(a_reply_without_end_goes_round),
        cmocka_unit_test(a_preempted_request_keeps_its_reply),
        cmocka_unit_test(a_wrong_script_is_named_with_its_line),
        cmocka_unit_test(specs_set_the_numbers),
        cmocka_unit_test(a_plan_that_breaks_the_contract_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
