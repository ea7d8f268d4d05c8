/* tests/unit/engine/stress_test.c: thousands of requests that are cancelled anywhere, also in the middle of a chunk, on
 * a clock that does the cancelling while the runner sleeps. One thread, from a seed: a failure repeats. */
#include "unit/engine/engine_fixture.h"

#include "base/rng.h"

#include <stdio.h>

typedef struct {
    hw_clock base; /* first */
    uint64_t time_us;
    fixture *fixture;
    rng random;
    uint64_t next_id, last_id;
    uint32_t busy;
    bool quiet;
} busy_clock;

static uint64_t busy_now(hw_clock *self)
{
    return ((busy_clock *)self)->time_us;
}

static void submit_one(busy_clock *c)
{
    if (c->next_id >= c->last_id)
        return;
    uint32_t prompt_count = 1 + (uint32_t)rng_below(&c->random, rng_below(&c->random, 4) ? 100 : 1200);
    request *r = fixture_long_request(c->next_id, prompt_count, 1 + (uint32_t)rng_below(&c->random, 200));
    r->want_progress = rng_below(&c->random, 2);
    r->sampling.logprobs = rng_below(&c->random, 8) ? 0 : 3;
    error err = {""};
    status st = engine_submit(c->fixture->engine, r, &err);
    if (st == ERR_BUSY) {
        c->busy++;
        fixture_free_request(r);
        return;
    }
    assert_int_equal(st, OK);
    c->next_id++;
}

static void disturb(busy_clock *c)
{
    uint64_t what = rng_below(&c->random, 40);
    if (what < 4)
        submit_one(c);
    if (what >= 4 && what < 16 && c->next_id > 0) {
        uint64_t back = rng_below(&c->random, c->next_id < 60 ? c->next_id : 60);
        engine_cancel(c->fixture->engine, c->next_id - 1 - back,
                      rng_below(&c->random, 3) ? FINISH_CANCELLED : FINISH_STOP);
    }
    if (what == 16)
        fixture_take(c->fixture);
}

static void busy_sleep(hw_clock *self, uint64_t us)
{
    busy_clock *c = (busy_clock *)self;
    c->time_us += us;
    if (!c->quiet)
        disturb(c);
}

static void stress(const char *policy, uint32_t page_count, uint32_t requests, uint64_t seed)
{
    fixture f;
    busy_clock clock = {
        .base = {busy_now, busy_sleep}, .time_us = 1, .fixture = &f, .random = {seed}, .last_id = requests};
    sim_config sim = {
        .max_sequences = 40, .max_rows = 24, .page_count = page_count, .page_tokens = 16, .reply_tokens = 90};
    engine_config config = {
        .policy = policy, .clock = &clock.base, .unseeded = true, .schedule.chunk_tokens = 200, .max_queued = 100};
    fixture_open(&f, sim, config);
    while (clock.next_id < requests) {
        engine_step(f.engine);
        if (fixture_snapshot(&f).running == 0 || rng_below(&clock.random, 3) == 0)
            submit_one(&clock);
        if (rng_below(&clock.random, 6) == 0)
            fixture_take(&f);
    }
    clock.quiet = true;
    fixture_run(&f);
    for (uint32_t i = 0; i < requests; i++)
        if (f.ledger[i].finished != 1)
            fail_msg("request %u has %u FINISHED events", i, f.ledger[i].finished);
    fixture_expect_no_leak(&f);
    engine_snapshot s = fixture_snapshot(&f);
    assert_int_equal(s.finished[0] + s.finished[1] + s.finished[2] + s.finished[3], requests);
    assert_int_equal(s.finished[FINISH_ERROR], 0);
    printf("%s, %u pages: %u requests, %llu cancelled, %llu preemptions, %llu steps, %u busy answers\n", policy,
           page_count, requests, (unsigned long long)s.cancelled, (unsigned long long)s.preemptions,
           (unsigned long long)s.steps, clock.busy);
    assert_true(s.cancelled >= 600); /* four such runs: more than 2,000 aborts that took effect */
    fixture_close(&f);
}

static void cancels_leak_no_page_prefill_first(void **state)
{
    (void)state;
    stress("prefill-first", 4000, 2000, 1);
    stress("prefill-first", 100, 2000, 2);
}

static void cancels_leak_no_page_chunked(void **state)
{
    (void)state;
    stress("chunked", 4000, 2000, 3);
    stress("chunked", 100, 2000, 4);
}

static void cancels_leak_no_page_gate(void **state)
{
    (void)state;
    stress("gate", 4000, 2000, 5);
    stress("gate", 100, 2000, 6);
}

static void cancels_leak_no_page_cadence(void **state)
{
    (void)state;
    stress("cadence", 4000, 4000, 7);
    stress("cadence", 100, 4000, 8);
}

/* What each request says, when nobody cancels: with arrivals that make chunks yield, few pages and any policy. */
static void what_is_said_depends_on_the_request_alone(void **state)
{
    (void)state;
    enum { REQUESTS = 60 };
    static int32_t said[REQUESTS][200];
    static const char *const policies[] = {"prefill-first", "chunked", "decode-first", "gate", "cadence"};
    for (int run = 0; run < 30; run++) {
        fixture f;
        busy_clock clock = {.base = {busy_now, busy_sleep}, .fixture = &f, .random = {99}, .time_us = 1, .quiet = true};
        sim_config sim = {.max_sequences = (uint32_t[]){40, 7, 3}[run % 3],
                          .page_count = run / 2 % 2 ? 100 : 2000,
                          .reply_tokens = 77,
                          .block_tokens = run % 4 ? 64 : 5,
                          .max_rows = run % 5 ? 40 : 2};
        engine_config config = {
            .policy = policies[run % 5], .clock = &clock.base, .unseeded = true, .schedule.chunk_tokens = 128};
        fixture_open(&f, sim, config);
        rng lengths = {7}, when = {(uint64_t)run};
        for (uint64_t i = 0; i < REQUESTS; i++) {
            uint32_t prompt_count = 1 + (uint32_t)rng_below(&lengths, 700);
            request *r = fixture_long_request(i, prompt_count, 100);
            r->klass = rng_below(&when, 3) ? CLASS_INTERACTIVE : CLASS_BATCH;
            fixture_submit(&f, r);
            for (uint64_t steps = rng_below(&when, 30); steps > 0; steps--)
                engine_step(f.engine);
            fixture_take(&f);
        }
        fixture_run(&f);
        for (uint64_t i = 0; i < REQUESTS; i++) {
            assert_int_equal(f.ledger[i].count, 77);
            if (run == 0)
                memcpy(said[i], f.ledger[i].tokens, 77 * sizeof(int32_t));
            assert_memory_equal(said[i], f.ledger[i].tokens, 77 * sizeof(int32_t));
        }
        fixture_expect_no_leak(&f);
        fixture_close(&f);
    }
}

static void nobody_starves(void **state)
{
    (void)state;
    for (int chunked = 0; chunked < 2; chunked++) {
        fixture f;
        sim_config sim = {.max_sequences = 64, .max_rows = 8, .reply_tokens = 100000};
        fixture_open(&f, sim, (engine_config){.policy = chunked ? "chunked" : "prefill-first"});
        for (uint64_t i = 0; i < 20; i++) /* more streams than rows */
            fixture_submit(&f, fixture_long_request(i, 30, 150));
        for (uint64_t i = 20; i < 60; i++) /* and a queue of documents */
            fixture_submit(&f, fixture_long_request(i, 4000, 10));
        fixture_run(&f);
        for (uint64_t i = 0; i < 60; i++) {
            assert_int_equal(f.ledger[i].count, i < 20 ? 150 : 10);
            /* A turn of the rows is at most 8 steps of 2.1 ms (60 streams), each behind a chunk of 25.6 ms. */
            assert_true(f.ledger[i].longest_gap_us <= 8 * (25600 + 2100));
            if (i > 20)
                assert_true(f.ledger[i].first_us > f.ledger[i - 1].first_us);
        }
        fixture_expect_no_leak(&f);
        fixture_close(&f);
    }
}

static void a_stalled_consumer_stops_streams_and_nothing_grows(void **state)
{
    (void)state;
    fixture f;
    sim_config sim = {.max_sequences = 20, .page_count = 400, .reply_tokens = 100000};
    fixture_open(&f, sim, (engine_config){.policy = "chunked"});
    for (uint64_t i = 0; i < 30; i++)
        fixture_submit(&f, fixture_long_request(i, 100, 600));
    uint32_t turns = 0;
    while (engine_step(f.engine))
        assert_true(++turns < 100000);
    assert_true(fixture_snapshot(&f).generated_tokens <= 30 * 256);
    fixture_run(&f);
    for (uint64_t i = 0; i < 30; i++)
        assert_int_equal(f.ledger[i].count, 600);
    fixture_expect_no_leak(&f);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cancels_leak_no_page_prefill_first),
        cmocka_unit_test(cancels_leak_no_page_chunked),
        cmocka_unit_test(cancels_leak_no_page_gate),
        cmocka_unit_test(cancels_leak_no_page_cadence),
        cmocka_unit_test(what_is_said_depends_on_the_request_alone),
        cmocka_unit_test(nobody_starves),
        cmocka_unit_test(a_stalled_consumer_stops_streams_and_nothing_grows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
