/* tests/unit/engine/engine_test.c: what a submitter and a consumer may rely on, on a virtual clock. */
#include "unit/engine/engine_fixture.h"

static void delivers_tokens_in_order_and_one_end(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f, (sim_config){.reply_tokens = 12}, (engine_config){0});
    fixture_submit(&f, fixture_request(1, "hello", 100));
    fixture_run(&f);
    ledger_entry *entry = &f.ledger[1];
    assert_int_equal(entry->finished, 1);
    assert_int_equal(entry->count, 12);
    assert_int_equal(entry->end.reason, FINISH_STOP);
    assert_int_equal(entry->end.stop_token, BYTE_VOCAB_IM_END);
    assert_int_equal(entry->end.generated, 12);
    assert_int_equal(entry->end.prompt_total, 5);
    assert_int_equal(entry->tokens[5], ' ');
    assert_int_equal(entry->tokens[11], ' ');
    fixture_expect_no_leak(&f);
    fixture_close(&f);
}

static void ends_at_max_tokens(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f, (sim_config){0}, (engine_config){0});
    fixture_submit(&f, fixture_request(1, "hello", 7));
    fixture_submit(&f, fixture_request(2, "hello", 1));
    fixture_run(&f);
    assert_int_equal(f.ledger[1].count, 7);
    assert_int_equal(f.ledger[1].end.reason, FINISH_LENGTH);
    assert_int_equal(f.ledger[1].end.stop_token, -1);
    assert_int_equal(f.ledger[2].count, 1);
    fixture_expect_no_leak(&f);
    fixture_close(&f);
}

static void the_same_request_says_the_same_alone_and_in_a_crowd(void **state)
{
    (void)state;
    int32_t alone[100];
    static const char *const policies[] = {"prefill-first", "decode-first", "chunked", "gate", "cadence"};
    for (int crowd = 0; crowd < 20; crowd++) {
        fixture f;
        engine_config config = {.policy = policies[crowd % 5],
                                .schedule.chunk_tokens = (uint32_t[]){0, 17, 64, 5}[crowd / 5]};
        fixture_open(&f, (sim_config){.max_rows = 3, .page_tokens = crowd > 9 ? 16 : 7}, config);
        fixture_submit(&f, fixture_long_request(1, 777, 100));
        for (int i = 0; i < crowd * 2; i++)
            fixture_submit(&f, fixture_long_request((uint64_t)(2 + i), (uint32_t)(50 + i * 31), (uint32_t)(20 + i)));
        fixture_run(&f);
        assert_int_equal(f.ledger[1].count, 100);
        if (crowd == 0)
            memcpy(alone, f.ledger[1].tokens, sizeof alone);
        assert_memory_equal(alone, f.ledger[1].tokens, sizeof alone);
        fixture_expect_no_leak(&f);
        fixture_close(&f);
    }
}

static void preempts_the_youngest_and_says_the_same(void **state)
{
    (void)state;
    int32_t roomy[6][300];
    for (int tight = 0; tight < 2; tight++) {
        fixture f;
        fixture_open(&f, (sim_config){.page_tokens = 16, .page_count = tight ? 34 : 1000, .reply_tokens = 1000},
                     (engine_config){.policy = "chunked"});
        for (uint64_t i = 0; i < 6; i++)
            fixture_submit(&f, fixture_long_request(i, 100, 300));
        fixture_run(&f);
        for (uint64_t i = 0; i < 6; i++) {
            assert_int_equal(f.ledger[i].count, 300);
            if (!tight)
                memcpy(roomy[i], f.ledger[i].tokens, sizeof roomy[i]);
            assert_memory_equal(roomy[i], f.ledger[i].tokens, sizeof roomy[i]);
        }
        engine_snapshot snapshot = fixture_snapshot(&f);
        assert_int_equal(snapshot.preemptions > 0, tight);
        assert_int_equal(snapshot.prompt_tokens, 600);
        assert_int_equal(snapshot.generated_tokens, 1800);
        fixture_expect_no_leak(&f);
        fixture_close(&f);
    }
}

static void refuses_what_can_never_fit_with_both_numbers(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f, (sim_config){.context_length = 512, .page_count = 20}, (engine_config){0});
    error err = {""};
    request *r = fixture_long_request(1, 500, 13);
    assert_int_equal(engine_submit(f.engine, r, &err), ERR_LIMIT);
    assert_string_equal(err.text, "500 prompt tokens and 13 new tokens, the context holds 512");
    fixture_free_request(r);
    r = fixture_long_request(1, 300, 21);
    assert_int_equal(engine_submit(f.engine, r, &err), ERR_LIMIT);
    assert_string_equal(err.text, "300 prompt tokens and 21 new tokens, the KV memory holds 320");
    fixture_free_request(r);
    assert_int_equal(engine_token_limit(f.engine), 320);
    fixture_submit(&f, fixture_long_request(2, 300, 20));
    fixture_run(&f);
    assert_int_equal(f.ledger[2].count, 20);
    fixture_expect_no_leak(&f);
    fixture_close(&f);
}

static void refuses_malformed_requests(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f, (sim_config){0}, (engine_config){0});
    error err = {""};
    request *r = fixture_request(1, "a", 1);
    r->prompt[0] = BYTE_VOCAB_SIZE;
    assert_int_equal(engine_submit(f.engine, r, &err), ERR_INVALID);
    assert_string_equal(err.text, "prompt token 0 is id 259, the vocabulary has 259");
    r->prompt[0] = 'a';
    r->max_tokens = 0;
    assert_int_equal(engine_submit(f.engine, r, &err), ERR_INVALID);
    r->max_tokens = 5;
    r->prompt_count = 0;
    assert_int_equal(engine_submit(f.engine, r, &err), ERR_INVALID);
    r->prompt_count = 1;
    fixture_submit(&f, r);
    r = fixture_request(1, "b", 1);
    assert_int_equal(engine_submit(f.engine, r, &err), ERR_INVALID);
    assert_string_equal(err.text, "request id 1 is in use");
    fixture_free_request(r);
    fixture_close(&f);
}

static void answers_busy_when_the_queue_is_full_or_drained(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f, (sim_config){.max_sequences = 1}, (engine_config){.max_queued = 3});
    for (uint64_t i = 0; i < 3; i++)
        fixture_submit(&f, fixture_request(i, "abc", 5));
    error err = {""};
    request *r = fixture_request(3, "abc", 5);
    assert_int_equal(engine_submit(f.engine, r, &err), ERR_BUSY);
    assert_string_equal(err.text, "the queue is full: 3 requests wait, at most 3 may");
    fixture_run(&f);
    engine_drain(f.engine);
    assert_int_equal(engine_submit(f.engine, r, &err), ERR_BUSY);
    fixture_free_request(r);
    fixture_run(&f);
    assert_true(fixture_snapshot(&f).draining);
    assert_int_equal(f.finished, 3);
    fixture_close(&f);
}

static void cancels_within_one_step_wherever_a_request_is(void **state)
{
    (void)state;
    for (int turns = 0; turns < 8; turns++) {
        fixture f;
        fixture_open(&f, (sim_config){.max_chunk_tokens = 64}, (engine_config){0});
        fixture_submit(&f, fixture_long_request(1, 200, 50));
        for (int i = 0; i < turns; i++)
            engine_step(f.engine);
        engine_cancel(f.engine, 1, FINISH_CANCELLED);
        engine_cancel(f.engine, 1, FINISH_STOP); /* the first one counts */
        engine_cancel(f.engine, 99, FINISH_CANCELLED);
        engine_step(f.engine);
        fixture_take(&f);
        assert_int_equal(f.ledger[1].finished, 1);
        assert_int_equal(f.ledger[1].end.reason, FINISH_CANCELLED);
        fixture_expect_no_leak(&f);
        engine_cancel(f.engine, 1, FINISH_CANCELLED);
        assert_false(engine_step(f.engine));
        fixture_close(&f);
    }
}

static void a_stream_rests_until_its_tokens_are_taken(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f, (sim_config){.reply_tokens = 2000}, (engine_config){0});
    fixture_submit(&f, fixture_request(1, "abc", 1000));
    int turns = 0;
    while (engine_step(f.engine))
        turns++;
    assert_in_range(turns, 200, 300);
    assert_int_equal(fixture_snapshot(&f).generated_tokens, 256);
    engine_event event;
    for (int i = 0; i < 127; i++) {
        assert_int_equal(engine_take_events(f.engine, &event, 1), 1);
        fixture_note(&f, &event);
    }
    assert_false(engine_step(f.engine));
    fixture_run(&f);
    assert_int_equal(f.ledger[1].count, 1000);
    fixture_expect_no_leak(&f);
    fixture_close(&f);
}

static void reports_progress_of_a_long_prompt(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f, (sim_config){.max_chunk_tokens = 100}, (engine_config){0});
    request *r = fixture_long_request(1, 450, 3);
    r->want_progress = true;
    fixture_submit(&f, r);
    fixture_run(&f);
    assert_int_equal(f.ledger[1].progress_events, 4);
    assert_int_equal(f.ledger[1].last_progress, 400);
    assert_int_equal(f.ledger[1].end.prompt_done, 450);
    fixture_close(&f);
}

static void destroy_frees_what_is_unfinished(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f, (sim_config){.max_sequences = 2}, (engine_config){0});
    for (uint64_t i = 0; i < 6; i++)
        fixture_submit(&f, fixture_long_request(i, 100, 50));
    for (int i = 0; i < 5; i++)
        engine_step(f.engine);
    engine_stop(f.engine);
    fixture_take(&f);
    assert_int_equal(f.finished, 6);
    fixture_expect_no_leak(&f);
    fixture_close(&f);
}

static void times_add_up(void **state)
{
    (void)state;
    fixture f;
    sim_config sim = {
        .prefill_tokens_per_s = 1000, .decode_base_us = 1000, .decode_row_us = 100, .max_chunk_tokens = 100};
    fixture_open(&f, sim, (engine_config){0});
    fixture_submit(&f, fixture_long_request(1, 200, 11));
    fixture_run(&f);
    assert_int_equal(f.ledger[1].end.queued_us, 0);
    assert_int_equal(f.ledger[1].end.prefill_us, 200000);
    assert_int_equal(f.ledger[1].end.decode_us, 10 * 1100);
    engine_snapshot snapshot = fixture_snapshot(&f);
    assert_int_equal(snapshot.prefill_us, 200000);
    assert_int_equal(snapshot.decode_us, 11000);
    assert_int_equal(snapshot.busy_us, 211000);
    assert_int_equal(snapshot.decode_steps, 10);
    assert_int_equal(snapshot.prefill_runs, 2);
    assert_int_equal(snapshot.bytes, 12 * 100000000ull + 20480ull * (200 + 10 * 200 + 55));
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(delivers_tokens_in_order_and_one_end),
        cmocka_unit_test(ends_at_max_tokens),
        cmocka_unit_test(the_same_request_says_the_same_alone_and_in_a_crowd),
        cmocka_unit_test(preempts_the_youngest_and_says_the_same),
        cmocka_unit_test(refuses_what_can_never_fit_with_both_numbers),
        cmocka_unit_test(refuses_malformed_requests),
        cmocka_unit_test(answers_busy_when_the_queue_is_full_or_drained),
        cmocka_unit_test(cancels_within_one_step_wherever_a_request_is),
        cmocka_unit_test(a_stream_rests_until_its_tokens_are_taken),
        cmocka_unit_test(reports_progress_of_a_long_prompt),
        cmocka_unit_test(destroy_frees_what_is_unfinished),
        cmocka_unit_test(times_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
