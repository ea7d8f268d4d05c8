/* tests/unit/sim/paid_steps_test.c: a runner with costs: times to the part of a microsecond, chunks that stop where
 * they are told to, bytes that add up. */
#include "base/rng.h"
#include "sim/sim_runner.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

static const sim_costs costs = {.rows = {{1, 1000.25}, {16, 1500}},
                                .row_count = 2,
                                .kv_us = 0.01,
                                .chunks = {{1, 700}, {512, 102400.75}},
                                .chunk_count = 2,
                                .depth_us = 0.002,
                                .fused_row_us = 11,
                                .units = 1000,
                                .weight_bytes = 1000000,
                                .weight_bytes_row = 1000,
                                .weight_bytes_most = 1200000,
                                .kv_token_bytes = 100,
                                .state_bytes = 5000};

typedef struct {
    runner *r;
    virtual_clock clock;
    sampling_params greedy;
    int32_t tokens[4096];
    uint32_t pages[256];
    sampled_token sampled[17];
    step_result result;
} bench;

static void open_bench(bench *b, const sim_costs *c, bool light)
{
    sim_config config = {.costs = c, .light = light, .context_length = 4096, .max_sequences = 16, .page_count = 4096};
    error err = {""};
    memset(b, 0, sizeof *b);
    virtual_clock_init(&b->clock, 5000000);
    if (sim_runner_create(&b->r, &config, &err))
        fail_msg("%s", err.text);
    for (uint32_t i = 0; i < 256; i++)
        b->pages[i] = i;
    b->greedy = (sampling_params){.top_p = 1};
    sequence_start start = {.params = &b->greedy, .tokens = b->tokens, .prompt_count = 4000, .measuring = true};
    for (uint32_t i = 0; i < 16; i++)
        assert_int_equal(b->r->ops->sequence_open(b->r, i, &start), OK);
}

static void close_bench(bench *b)
{
    b->r->ops->close(b->r);
}

static uint64_t run(bench *b, const step_plan *plan) /* how long it took */
{
    error err = {""};
    uint64_t start_us = b->clock.time_us;
    b->result = (step_result){.tokens = b->sampled};
    if (b->r->ops->run(b->r, plan, &b->result, &b->clock.base, &err))
        fail_msg("%s", err.text);
    return b->clock.time_us - start_us;
}

static uint64_t decode(bench *b, uint32_t rows, uint32_t position)
{
    decode_row table[16];
    for (uint32_t i = 0; i < rows; i++)
        table[i] = (decode_row){.seq = i, .pages = b->pages, .position = position};
    return run(b, &(step_plan){.kind = STEP_DECODE, .rows = table, .row_count = rows});
}

static step_plan chunk_of(bench *b, uint32_t seq, uint32_t position, uint32_t count)
{
    return (step_plan){.kind = STEP_PREFILL,
                       .chunk = {.seq = seq,
                                 .pages = b->pages,
                                 .position = position,
                                 .tokens = b->tokens,
                                 .token_count = count,
                                 .chunk_slot = seq % 4}};
}

static void test_parts_of_a_microsecond_are_not_lost(void **state)
{
    (void)state;
    bench b;
    uint64_t sum = 0;
    open_bench(&b, &costs, false);
    for (int i = 0; i < 1000; i++) {
        uint64_t us = decode(&b, 1, 99);
        assert_true(us == 1001 || us == 1002); /* 1001.25 */
        sum += us;
    }
    assert_int_equal(sum, 1001250);
    close_bench(&b);
}

/* However a chunk is cut, by deadlines, yields and interrupts, its runs together take what it takes in one. */
static void test_a_chunk_in_pieces_takes_as_long_as_whole(void **state)
{
    (void)state;
    bench b;
    rng random = {5};
    open_bench(&b, &costs, true);
    double paid = 0, due = 0;
    uint64_t weights = 0, kv = 0, stops = 0;
    for (int i = 0; i < 200; i++) {
        uint32_t position = rng_below(&random, 2000), count = 1 + rng_below(&random, 512), guard = 0;
        step_plan plan = chunk_of(&b, (uint32_t)i % 4, position, count);
        double part = 0, before = due;
        weights = kv = 0;
        due += sim_costs_prefill_us(&costs, position, count);
        do {
            plan.deadline_us = rng_below(&random, 2) ? b.clock.time_us + rng_below(&random, 12000) : 0;
            sim_runner_interrupt_at(b.r, rng_below(&random, 2) ? b.clock.time_us + rng_below(&random, 12000) : 0);
            paid += (double)run(&b, &plan);
            assert_true(b.result.chunk_part > part || b.result.chunk_done);
            part = b.result.chunk_part;
            assert_true(fabs(before + part * (due - before) - paid) < 1.001); /* time follows the part */
            weights += b.result.weight_bytes;
            kv += b.result.kv_bytes;
            stops += !b.result.chunk_done;
            assert_true(++guard < 5000);
        } while (!b.result.chunk_done);
        assert_int_equal(weights, (uint64_t)sim_costs_weight_bytes(&costs, count));
        assert_int_equal(kv, (position + count) * 100 + 2 * 5000);
    }
    if (stops < 300)
        fail_msg("%d stops", (int)stops);
    close_bench(&b);
}

/* At the first unit after the time, and no later: a unit is the 1,000th part of the largest chunk. */
static void expect_stop(bench *b, const step_plan *plan, uint64_t at_us)
{
    double unit_us = sim_costs_prefill_us(&costs, 0, 512) / 1000;
    run(b, plan);
    assert_false(b->result.chunk_done);
    assert_true(b->clock.time_us >= at_us && (double)(b->clock.time_us - at_us) <= unit_us + 1);
}

static void test_a_chunk_stops_where_it_is_told(void **state)
{
    (void)state;
    bench b;
    open_bench(&b, &costs, false);
    step_plan plan = chunk_of(&b, 0, 0, 512);
    plan.deadline_us = b.clock.time_us + 20000;
    expect_stop(&b, &plan, plan.deadline_us);
    uint64_t interrupt_us = b.clock.time_us + 7777;
    plan.deadline_us = 0;
    sim_runner_interrupt_at(b.r, interrupt_us);
    expect_stop(&b, &plan, interrupt_us);
    interrupt_us = b.clock.time_us + 9000;
    plan.deadline_us = b.clock.time_us + 3000; /* the earlier of the two */
    sim_runner_interrupt_at(b.r, interrupt_us);
    expect_stop(&b, &plan, plan.deadline_us);
    plan.deadline_us = 0;
    expect_stop(&b, &plan, interrupt_us);
    uint64_t before_us = b.clock.time_us;
    plan.deadline_us = before_us - 10; /* over already: one unit */
    expect_stop(&b, &plan, before_us);
    assert_true(b.clock.time_us > before_us);
    sim_runner_interrupt_at(b.r, b.clock.time_us); /* has passed: not looked at */
    plan.deadline_us = 0;
    run(&b, &plan);
    assert_true(b.result.chunk_done);
    close_bench(&b);
}

typedef struct { /* a clock on which somebody yields when it is slept on */
    hw_clock base;
    bench *b;
} yielding_clock;

static uint64_t yielding_now(hw_clock *self)
{
    return ((yielding_clock *)self)->b->clock.time_us;
}

static void yielding_sleep(hw_clock *self, uint64_t us)
{
    bench *b = ((yielding_clock *)self)->b;
    b->clock.time_us += us;
    b->r->ops->yield(b->r);
}

/* An interrupt is a yield at that time: the next run goes on as if nothing had been. */
static void test_an_interrupt_is_a_yield(void **state)
{
    (void)state;
    bench a, b;
    open_bench(&a, &costs, false);
    open_bench(&b, &costs, false);
    step_plan plan = chunk_of(&a, 1, 100, 300);
    sim_runner_interrupt_at(a.r, a.clock.time_us + 5000);
    uint64_t interrupted_us = run(&a, &plan);
    plan = chunk_of(&b, 1, 100, 300);
    plan.deadline_us = b.clock.time_us + 5000;
    yielding_clock clock = {{yielding_now, yielding_sleep}, &b};
    b.result = (step_result){.tokens = b.sampled};
    assert_int_equal(b.r->ops->run(b.r, &plan, &b.result, &clock.base, NULL), OK);
    assert_int_equal(b.clock.time_us - 5000000, interrupted_us);
    assert_true(a.result.chunk_part == b.result.chunk_part && !a.result.chunk_done);
    plan.deadline_us = 0;
    b.result = (step_result){.tokens = b.sampled};
    assert_int_equal(b.r->ops->run(b.r, &plan, &b.result, &b.clock.base, NULL), OK);
    assert_true(b.result.chunk_done); /* the yield before it is forgotten */
    close_bench(&a);
    close_bench(&b);
}

static void test_fused_steps_and_bytes(void **state)
{
    (void)state;
    bench b;
    open_bench(&b, &costs, false);
    assert_int_equal(decode(&b, 16, 199), 1532);
    assert_int_equal(b.result.kv_bytes, 16 * (200 * 100 + 2 * 5000));
    assert_int_equal(b.result.weight_bytes, 1015000);
    decode_row rows[2] = {{.seq = 4, .pages = b.pages, .position = 49}, {.seq = 5, .pages = b.pages, .position = 49}};
    step_plan plan = chunk_of(&b, 0, 1000, 512);
    plan.kind = STEP_FUSED;
    plan.rows = rows;
    plan.row_count = 2;
    double want = 102400.75 + 0.002 * 512 * 1000 + 2 * 11 + 0.01 * 100;
    assert_true(fabs((double)run(&b, &plan) - want) < 1);
    assert_true(b.result.chunk_done && b.result.token_count == 2);
    assert_int_equal(b.result.weight_bytes, 1200000);
    close_bench(&b);
}

static void test_the_time_between_steps_counts(void **state)
{
    (void)state;
    bench b;
    sim_costs slower = costs;
    slower.step_us = 30.5;
    open_bench(&b, &slower, false);
    uint64_t sum = 0;
    for (int i = 0; i < 100; i++)
        sum += decode(&b, 1, 99);
    assert_int_equal(sum, 100125 + 3050);
    close_bench(&b);
}

static void test_the_real_clock_is_kept_and_yields_are_seen(void **state)
{
    (void)state;
    bench b;
    open_bench(&b, &costs, false);
    hw_clock *real = clock_real();
    step_plan plan = chunk_of(&b, 0, 0, 256);
    double want = sim_costs_prefill_us(&costs, 0, 256);
    uint64_t start_us = real->now_us(real);
    b.result = (step_result){.tokens = b.sampled};
    assert_int_equal(b.r->ops->run(b.r, &plan, &b.result, real, NULL), OK);
    double us = (double)(real->now_us(real) - start_us);
    assert_true(b.result.chunk_done && us >= want - 1);
    assert_true(us < 3 * want + 100000); /* the machine may be busy */
    close_bench(&b);
}

/* So many a second of the steps with rows, each half as long again as its size; the same ones in every run. */
static void test_steps_fall_into_holes(void **state)
{
    (void)state;
    sim_costs c = costs;
    c.holes_s[0] = 20;
    c.holes_s[3] = 2;
    uint64_t lasted[2] = {0, 0}, longest = 0;
    const uint32_t count = 50000;
    for (int again = 0; again < 2; again++) {
        bench b;
        open_bench(&b, &c, true);
        for (uint32_t i = 0; i < count; i++) {
            uint64_t us = decode(&b, 1, 0);
            lasted[again] += us;
            longest = us > longest ? us : longest;
        }
        close_bench(&b);
    }
    double own_s = count * 1000.25e-6, want_s = own_s * (1 + 20 * 1.5e-3 + 2 * 12e-3);
    assert_int_equal(lasted[0], lasted[1]);
    assert_true(fabs((double)lasted[0] / 1e6 / want_s - 1) < 0.01);
    assert_true(longest >= 13000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_of_a_microsecond_are_not_lost),
        cmocka_unit_test(test_a_chunk_in_pieces_takes_as_long_as_whole),
        cmocka_unit_test(test_a_chunk_stops_where_it_is_told),
        cmocka_unit_test(test_an_interrupt_is_a_yield),
        cmocka_unit_test(test_fused_steps_and_bytes),
        cmocka_unit_test(test_the_time_between_steps_counts),
        cmocka_unit_test(test_steps_fall_into_holes),
        cmocka_unit_test(test_the_real_clock_is_kept_and_yields_are_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
