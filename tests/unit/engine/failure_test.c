/* tests/unit/engine/failure_test.c: a runner that fails, refuses or lies about nothing else, and the wake-ups of the
 * consumer. */
#include "unit/engine/engine_fixture.h"

typedef struct { /* the sim runner behind a door that can be shut */
    runner base; /* first */
    runner *inner;
    uint32_t runs_to_fail; /* from now on */
    uint64_t refused_id;   /* 0: none */
} door;

static status door_open_sequence(runner *self, uint32_t seq, const sequence_start *start)
{
    door *d = (door *)self;
    if (d->refused_id && start->request_id == d->refused_id)
        return ERR_MEMORY;
    return d->inner->ops->sequence_open(d->inner, seq, start);
}

static void door_close_sequence(runner *self, uint32_t seq)
{
    ((door *)self)->inner->ops->sequence_close(((door *)self)->inner, seq);
}

static status door_run(runner *self, const step_plan *plan, step_result *result, hw_clock *clock, error *err)
{
    door *d = (door *)self;
    if (d->runs_to_fail > 0) {
        d->runs_to_fail--;
        return error_set(err, ERR_IO, "the device is gone");
    }
    return d->inner->ops->run(d->inner, plan, result, clock, err);
}

static void door_yield(runner *self)
{
    ((door *)self)->inner->ops->yield(((door *)self)->inner);
}

static void door_close(runner *self)
{
    ((door *)self)->inner->ops->close(((door *)self)->inner);
    free(self);
}

static const runner_ops door_ops = {.name = "door",
                                    .sequence_open = door_open_sequence,
                                    .sequence_close = door_close_sequence,
                                    .run = door_run,
                                    .yield = door_yield,
                                    .close = door_close};

static door *open_with_door(fixture *f, engine_config config)
{
    fixture_open(f, (sim_config){.max_chunk_tokens = 64, .max_sequences = 8}, config);
    engine_destroy(f->engine);
    door *d = calloc(1, sizeof *d);
    d->inner = f->runner;
    d->base = (runner){.ops = &door_ops, .info = f->runner->info, .mover = f->runner->mover};
    f->runner = &d->base;
    config.clock = &f->clock.base;
    config.wake = fixture_wake;
    config.wake_context = f;
    assert_int_equal(engine_create(&f->engine, f->runner, &config, NULL), OK);
    return d;
}

static void a_failed_step_ends_its_requests_and_the_others_go_on(void **state)
{
    (void)state;
    fixture f;
    door *d = open_with_door(&f, (engine_config){.policy = "prefill-first"});
    fixture_submit(&f, fixture_request(1, "one", 10));
    engine_step(f.engine);
    fixture_submit(&f, fixture_long_request(2, 200, 10));
    d->runs_to_fail = 1;
    engine_step(f.engine); /* a decode step: request 1 is in it */
    fixture_run(&f);
    assert_int_equal(f.ledger[1].end.reason, FINISH_ERROR);
    assert_string_equal(f.ledger[1].end.error_text, "the device is gone");
    assert_int_equal(f.ledger[1].count, 1);
    assert_int_equal(f.ledger[2].end.reason, FINISH_LENGTH);
    assert_false(fixture_snapshot(&f).failed);
    fixture_expect_no_leak(&f);
    fixture_close(&f);
}

static void steps_that_fail_in_a_row_stop_the_intake(void **state)
{
    (void)state;
    fixture f;
    door *d = open_with_door(&f, (engine_config){0});
    d->runs_to_fail = 100;
    for (uint64_t i = 0; i < 5; i++)
        fixture_submit(&f, fixture_request(i, "one", 10));
    fixture_run(&f);
    assert_true(fixture_snapshot(&f).failed);
    assert_int_equal(fixture_snapshot(&f).finished[FINISH_ERROR], 5);
    request *r = fixture_request(9, "x", 1);
    error err = {""};
    assert_int_equal(engine_submit(f.engine, r, &err), ERR_BUSY);
    fixture_free_request(r);
    fixture_expect_no_leak(&f);
    fixture_close(&f);
}

static void a_sequence_that_does_not_open_ends_with_an_error(void **state)
{
    (void)state;
    fixture f;
    door *d = open_with_door(&f, (engine_config){0});
    d->refused_id = 2;
    for (uint64_t i = 1; i < 4; i++)
        fixture_submit(&f, fixture_request(i, "abc", 4));
    fixture_run(&f);
    assert_int_equal(f.ledger[1].end.reason, FINISH_LENGTH);
    assert_int_equal(f.ledger[2].end.reason, FINISH_ERROR);
    assert_int_equal(f.ledger[3].end.reason, FINISH_LENGTH);
    fixture_expect_no_leak(&f);
    fixture_close(&f);
}

static void the_consumer_is_woken_when_there_is_something_again(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f, (sim_config){0}, (engine_config){0});
    fixture_submit(&f, fixture_request(1, "abc", 50));
    engine_step(f.engine);
    assert_int_equal(f.wakes, 1);
    for (int i = 0; i < 5; i++)
        engine_step(f.engine);
    assert_int_equal(f.wakes, 1); /* nothing was taken: it knows */
    engine_event events[6];
    assert_int_equal(engine_take_events(f.engine, events, 6), 6);
    engine_step(f.engine);
    assert_int_equal(f.wakes, 2); /* it took all there was, although it was exactly `max` */
    assert_int_equal(engine_take_events(f.engine, events, 6), 1);
    assert_int_equal(engine_take_events(f.engine, events, 6), 0);
    engine_cancel(f.engine, 1, FINISH_CANCELLED);
    engine_step(f.engine);
    assert_int_equal(f.wakes, 3);
    fixture_close(&f);
}

static void an_unknown_policy_is_named_with_the_known_ones(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f, (sim_config){0}, (engine_config){0});
    engine *e;
    error err = {""};
    assert_int_equal(engine_create(&e, f.runner, &(engine_config){.policy = "fifo"}, &err), ERR_INVALID);
    assert_string_equal(err.text,
                        "policy \"fifo\": unknown, want one of: prefill-first, decode-first, chunked, gate, cadence");
    fixture_close(&f);
}

static void logprobs_come_with_their_alternatives(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f, (sim_config){0}, (engine_config){0});
    request *r = fixture_request(1, "abc", 3);
    r->sampling.logprobs = 3;
    fixture_submit(&f, r);
    for (int i = 0; i < 5; i++)
        engine_step(f.engine);
    engine_event events[4];
    assert_int_equal(engine_take_events(f.engine, events, 4), 4);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(events[i].token.top_count, 2);
        assert_int_equal(events[i].token.top_tokens[0], events[i].token.token);
        assert_true(events[i].token.top_logprobs[0] == events[i].token.logprob);
    }
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failed_step_ends_its_requests_and_the_others_go_on),
        cmocka_unit_test(steps_that_fail_in_a_row_stop_the_intake),
        cmocka_unit_test(a_sequence_that_does_not_open_ends_with_an_error),
        cmocka_unit_test(the_consumer_is_woken_when_there_is_something_again),
        cmocka_unit_test(an_unknown_policy_is_named_with_the_known_ones),
        cmocka_unit_test(logprobs_come_with_their_alternatives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
