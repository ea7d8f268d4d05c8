/* tests/unit/sched/scheduler_test.c: order, turns, pages and preemption, through the plans themselves. */
#include "sched/scheduler.h"
#include "sim/sim_runner.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { SEQUENCES = 16, HISTORY = 600 };

typedef struct {
    runner *runner;
    scheduler *scheduler;
    virtual_clock clock;
    sequence sequences[SEQUENCES];
    request requests[SEQUENCES];
    int32_t histories[SEQUENCES][HISTORY];
    sampled_token sampled[SEQUENCES + 1];
} bench;

static bench *open_bench(sim_config sim, const char *policy, uint64_t page_seed)
{
    bench *b = calloc(1, sizeof *b);
    virtual_clock_init(&b->clock, 0);
    assert_int_equal(sim_runner_create(&b->runner, &sim, NULL), OK);
    scheduler_config config = {.runner = b->runner, .policy = policy_find(policy), .page_shuffle_seed = page_seed};
    assert_int_equal(scheduler_create(&b->scheduler, &config, NULL), OK);
    return b;
}

static void add(bench *b, int index, uint32_t prompt_count)
{
    for (uint32_t i = 0; i < prompt_count; i++)
        b->histories[index][i] = (int32_t)(i + (uint32_t)index) % 100;
    b->requests[index] = (request){
        .id = (uint64_t)index, .prompt = b->histories[index], .prompt_count = prompt_count, .max_tokens = 500};
    b->sequences[index] = (sequence){.request = &b->requests[index]};
    scheduler_add(b->scheduler, &b->sequences[index], b->clock.time_us);
}

static step_plan step(bench *b)
{
    step_plan plan;
    uint64_t start_us = b->clock.time_us;
    scheduler_next(b->scheduler, start_us, &plan);
    if (plan.kind == STEP_IDLE)
        return plan;
    step_result result = {.tokens = b->sampled};
    error err = {""};
    if (b->runner->ops->run(b->runner, &plan, &result, &b->clock.base, &err))
        fail_msg("%s", err.text);
    scheduler_apply(b->scheduler, &plan, &result, start_us, b->clock.time_us);
    return plan;
}

static void close_bench(bench *b)
{
    for (int i = 0; i < SEQUENCES; i++)
        if (b->sequences[i].phase != PHASE_NONE)
            scheduler_remove(b->scheduler, &b->sequences[i]);
    page_pool_counts pages = scheduler_read_counts(b->scheduler).pages;
    assert_int_equal(pages.free, pages.total);
    scheduler_destroy(b->scheduler);
    b->runner->ops->close(b->runner);
    free(b);
}

static void prompts_are_read_in_order_of_arrival(void **state)
{
    (void)state;
    bench *b = open_bench((sim_config){.max_chunk_tokens = 100, .max_sequences = SEQUENCES}, "prefill-first", 0);
    for (int i = 0; i < 4; i++)
        add(b, i, 250);
    uint32_t last = 0;
    for (int i = 0; i < 30; i++) {
        step_plan plan = step(b);
        if (plan.kind != STEP_PREFILL)
            continue;
        uint64_t id = scheduler_at(b->scheduler, plan.chunk.seq)->request->id;
        assert_true(id >= last);
        last = (uint32_t)id;
    }
    assert_int_equal(last, 3);
    close_bench(b);
}

static void streams_take_turns_when_rows_are_few(void **state)
{
    (void)state;
    bench *b = open_bench((sim_config){.max_rows = 3, .max_sequences = SEQUENCES}, "prefill-first", 0);
    for (int i = 0; i < 10; i++)
        add(b, i, 20);
    while (scheduler_read_counts(b->scheduler).running < 10)
        step(b);
    step(b);
    uint32_t before[10];
    for (int i = 0; i < 10; i++)
        before[i] = b->sequences[i].generated;
    for (int i = 0; i < 100; i++)
        assert_int_equal(step(b).row_count, 3);
    for (int i = 0; i < 10; i++)
        assert_in_range(b->sequences[i].generated - before[i], 29, 31);
    close_bench(b);
}

static void one_decode_step_lies_between_two_chunks(void **state)
{
    (void)state;
    bench *b = open_bench((sim_config){.max_chunk_tokens = 32, .max_sequences = SEQUENCES}, "prefill-first", 0);
    add(b, 0, 10);
    step(b);
    add(b, 1, 500);
    step_kind last = STEP_PREFILL;
    for (int i = 0; i < 30; i++) {
        step_kind kind = step(b).kind;
        assert_true(kind != last);
        last = kind;
    }
    close_bench(b);
}

static void the_oldest_goes_on_when_pages_run_out(void **state)
{
    (void)state;
    sim_config sim = {.page_tokens = 10, .page_count = 32, .max_sequences = SEQUENCES, .reply_tokens = 10000};
    bench *b = open_bench(sim, "chunked", 3);
    for (int i = 0; i < 5; i++)
        add(b, i, 50);
    uint32_t last = 0;
    for (int i = 0; i < 230; i++) {
        step(b);
        if (b->sequences[0].phase == PHASE_DECODE) {
            assert_true(b->sequences[0].generated > last || last == 0);
            last = b->sequences[0].generated;
        }
    }
    assert_true(last > 200);
    assert_true(scheduler_read_counts(b->scheduler).preemptions > 0);
    uint32_t generated = b->sequences[4].generated;
    scheduler_remove(b->scheduler, &b->sequences[0]);
    for (int i = 0; i < 60; i++)
        step(b);
    assert_true(b->sequences[1].generated > 60);
    assert_true(b->sequences[4].generated >= generated);
    close_bench(b);
}

static void a_paused_stream_gets_no_rows(void **state)
{
    (void)state;
    bench *b = open_bench((sim_config){.max_sequences = SEQUENCES}, "chunked", 0);
    add(b, 0, 10);
    add(b, 1, 10);
    step(b);
    step(b);
    scheduler_pause(b->scheduler, &b->sequences[0], true);
    uint32_t generated = b->sequences[0].generated;
    for (int i = 0; i < 5; i++)
        assert_int_equal(step(b).row_count, 1);
    assert_int_equal(b->sequences[0].generated, generated);
    assert_int_equal(scheduler_read_counts(b->scheduler).paused, 1);
    scheduler_pause(b->scheduler, &b->sequences[0], false);
    assert_int_equal(step(b).row_count, 2);
    close_bench(b);
}

static void page_order_does_not_change_what_is_said(void **state)
{
    (void)state;
    int32_t plain[HISTORY];
    for (uint64_t seed = 0; seed < 20; seed++) {
        bench *b = open_bench((sim_config){.page_tokens = 3, .max_sequences = SEQUENCES}, "chunked", seed);
        add(b, 1, 77);
        add(b, 2, 200);
        while (b->sequences[1].generated < 200)
            step(b);
        if (seed == 0)
            memcpy(plain, b->histories[1], sizeof plain);
        assert_memory_equal(plain, b->histories[1], 277 * sizeof plain[0]);
        close_bench(b);
    }
}

static void a_runner_with_a_zero_limit_is_refused(void **state)
{
    (void)state;
    runner broken = {.info = {.model_name = "m", .context_length = 10}};
    scheduler *s;
    error err = {""};
    scheduler_config config = {.runner = &broken, .policy = policy_find("chunked")};
    assert_int_equal(scheduler_create(&s, &config, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "runner m: context 10"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prompts_are_read_in_order_of_arrival),
        cmocka_unit_test(streams_take_turns_when_rows_are_few),
        cmocka_unit_test(one_decode_step_lies_between_two_chunks),
        cmocka_unit_test(the_oldest_goes_on_when_pages_run_out),
        cmocka_unit_test(a_paused_stream_gets_no_rows),
        cmocka_unit_test(page_order_does_not_change_what_is_said),
        cmocka_unit_test(a_runner_with_a_zero_limit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
