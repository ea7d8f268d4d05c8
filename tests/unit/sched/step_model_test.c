/* tests/unit/sched/step_model_test.c: what the model learns, from boxes whose times are a formula. */
#include "sched/step_model.h"

#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

typedef struct { /* a box: its true times */
    double base, row, kv, chunk, token, depth;
} box;

static const box small = {3300, 500, 0.9, 2000, 450, 0.05};

static double noise(rng *random, double part)
{
    return 1 + part * (2.0 * (double)rng_below(random, 1000) / 999 - 1);
}

static double decode_time(const box *b, uint32_t rows, uint64_t kv)
{
    return b->base + b->row * rows + b->kv * (double)kv;
}

static double prefill_time(const box *b, uint32_t position, uint32_t count)
{
    return b->chunk + b->token * count + b->depth * count * (position + (count - 1) / 2.0);
}

static void teach(step_model *m, const box *b, rng *random, double part, int steps)
{
    for (int i = 0; i < steps; i++) {
        uint32_t rows = 1 + (uint32_t)rng_below(random, 16);
        uint64_t kv = rows * (1 + rng_below(random, 4000));
        step_model_saw_decode(m, rows, kv, decode_time(b, rows, kv) * noise(random, part));
        uint32_t count = 20 + (uint32_t)rng_below(random, 2000), position = (uint32_t)rng_below(random, 6000);
        double from = (double)rng_below(random, 50) / 100, to = from + 0.1 + (double)rng_below(random, 40) / 100;
        step_model_saw_prefill(m, position, count, from, to,
                               (to - from) * prefill_time(b, position, count) * noise(random, part));
    }
}

static double worst(const step_model *m, const box *b)
{
    double most = 0;
    for (uint32_t rows = 1; rows <= 16; rows++)
        for (uint64_t depth = 10; depth <= 4000; depth += 798)
            most =
                fmax(most, fabs(step_model_decode_us(m, rows, rows * depth) / decode_time(b, rows, rows * depth) - 1));
    for (uint32_t count = 200; count <= 2000; count += 300)
        for (uint32_t position = 0; position <= 6000; position += 1000)
            most = fmax(most, fabs(step_model_prefill_us(m, position, count) / prefill_time(b, position, count) - 1));
    return most;
}

static void has_no_opinion_before_it_saw_anything(void **state)
{
    (void)state;
    step_model m;
    step_model_init(&m);
    assert_true(step_model_decode_us(&m, 4, 100) == 0 && step_model_prefill_us(&m, 0, 100) == 0);
    assert_true(step_model_fused_us(&m, 1, 10, 0, 100) == 0);
    assert_int_equal(step_model_prefill_tokens(&m, 0, 1000), UINT32_MAX);
    assert_int_equal(step_model_error(&m, MODEL_DECODE).count, 0);
}

static void learns_a_box_through_noise(void **state)
{
    (void)state;
    step_model m;
    rng random = {1};
    step_model_init(&m);
    teach(&m, &small, &random, 0.1, 3000);
    assert_true(worst(&m, &small) < 0.12);
    for (int kind = 0; kind < MODEL_FUSED; kind++) {
        model_error_summary e = step_model_error(&m, (model_kind)kind);
        assert_true(e.median_abs < 0.1 && e.under_p95 < 0.25 && e.count == MODEL_ERRORS);
    }
}

static int by_value(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Ranks are found without sorting; sorting says the same. */
static void errors_are_the_ranks_of_a_sorted_list(void **state)
{
    (void)state;
    static step_model m;
    rng random = {9};
    for (int i = 0; i < 5000; i++) {
        float sorted[MODEL_ERRORS];
        uint32_t count = 1 + (uint32_t)rng_below(&random, MODEL_ERRORS), kinds = 1 + (uint32_t)rng_below(&random, 300);
        for (uint32_t k = 0; k < count; k++)
            m.errors[MODEL_PREFILL].ratios[k] = sorted[k] = (float)rng_below(&random, kinds) / 100 - 1;
        m.errors[MODEL_PREFILL].count = count;
        model_error_summary e = step_model_error(&m, MODEL_PREFILL);
        qsort(sorted, count, sizeof *sorted, by_value);
        assert_true(e.under_p95 == fmax(sorted[(uint32_t)(0.95 * (count - 1) + 0.5)], 0));
        assert_true(step_model_under(&m, MODEL_PREFILL) == e.under_p95);
        for (uint32_t k = 0; k < count; k++)
            sorted[k] = fabsf(sorted[k]);
        qsort(sorted, count, sizeof *sorted, by_value);
        double median = count % 2 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
        assert_true(e.median_abs == median && e.count == count);
    }
}

static void a_noisy_neighbour_does_not_bend_it(void **state)
{
    (void)state;
    step_model m;
    rng random = {2};
    step_model_init(&m);
    teach(&m, &small, &random, 0.05, 2000);
    for (int i = 0; i < 200; i++) { /* every tenth step is held up by a hole of 30 ms */
        double us = decode_time(&small, 4, 4000);
        step_model_saw_decode(&m, 4, 4000, i % 10 ? us : us + 30000);
    }
    assert_true(fabs(step_model_decode_us(&m, 4, 4000) / decode_time(&small, 4, 4000) - 1) < 0.05);
}

static void a_lasting_change_is_learned(void **state)
{
    (void)state;
    step_model m;
    rng random = {3};
    step_model_init(&m);
    teach(&m, &small, &random, 0.05, 2000);
    for (int i = 0; i < 60; i++) /* the box is three times slower from now on */
        step_model_saw_decode(&m, 4, 4000, 3 * decode_time(&small, 4, 4000));
    assert_true(step_model_decode_us(&m, 4, 4000) > 2.5 * decode_time(&small, 4, 4000));
}

static void tokens_that_fit_are_the_inverse_of_their_time(void **state)
{
    (void)state;
    step_model m;
    rng random = {4};
    step_model_init(&m);
    teach(&m, &small, &random, 0.02, 2000);
    for (uint32_t position = 0; position < 8000; position += 777) {
        uint32_t count = step_model_prefill_tokens(&m, position, 200000);
        assert_true(step_model_prefill_us(&m, position, count) <= 200000);
        assert_true(step_model_prefill_us(&m, position, count + 1) > 200000);
    }
    assert_int_equal(step_model_prefill_tokens(&m, 0, 1), 0);
}

static void overruns_are_mostly_covered(void **state)
{
    (void)state;
    step_model m;
    rng random = {5};
    step_model_init(&m);
    uint32_t over = 0;
    for (int i = 0; i < 2000; i++) {
        double us = (double)rng_below(&random, 3000);
        over += i > 200 && us > step_model_overrun_us(&m);
        step_model_saw_overrun(&m, us);
    }
    assert_in_range(over, 1, 1800 / 5);
    step_model_saw_overrun(&m, 1e6); /* one hole moves it by a few milliseconds at most */
    assert_true(step_model_overrun_us(&m) < 10000);
}

static void odd_observations_do_no_harm(void **state)
{
    (void)state;
    step_model m;
    step_model_init(&m);
    step_model_saw_decode(&m, 0, 0, 100);
    step_model_saw_decode(&m, 1, 0, 0);
    step_model_saw_prefill(&m, 0, 0, 0, 1, 10);
    step_model_saw_prefill(&m, 0, 10, 0.5, 0.5, 10);
    step_model_saw_fused(&m, 1, 1, 0, 10, 100);
    step_model_saw_decode(&m, UINT32_MAX, UINT64_MAX / 2, 1);
    for (int i = 0; i < 100; i++) {
        step_model_saw_prefill(&m, 0, 1, 0, 1, i % 2 ? 1e9 : 1e-3);
        step_model_saw_decode(&m, 3, 7, i % 2 ? 1e9 : 1e-3);
    }
    assert_true(isfinite(step_model_decode_us(&m, 3, 7)) && step_model_decode_us(&m, 3, 7) > 0);
    assert_true(isfinite(step_model_prefill_us(&m, 0, 1)) && step_model_prefill_us(&m, 0, 1) > 0);
}

/* Chunks of one length in many runs wear the term of the depth down to nothing; when shorter ones then take longer
 * than thought, it is that term which the filter would have grow. Times of a mixture of experts on a laptop. */
static void a_term_worn_down_does_not_take_the_others_with_it(void **state)
{
    static const struct {
        uint32_t position, count, runs;
        double us;
    } chunks[] = {{0, 1418, 21, 578700}, {1184, 183, 7, 141700}, {1184, 217, 5, 154200}, {1440, 376, 9, 213300}};
    (void)state;
    step_model m;
    step_model_init(&m);
    step_model_set_prefill(&m, 29997, 527.147, 0.011594);
    for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++)
        for (uint32_t k = 0; k < chunks[i].runs; k++)
            step_model_saw_prefill(&m, chunks[i].position, chunks[i].count, (double)k / chunks[i].runs,
                                   (k + 1.0) / chunks[i].runs, chunks[i].us / chunks[i].runs);
    double predicted = step_model_prefill_us(&m, 1440, 376);
    assert_true(predicted > 0.7 * 213300 && predicted < 1.4 * 213300);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(has_no_opinion_before_it_saw_anything),
        cmocka_unit_test(learns_a_box_through_noise),
        cmocka_unit_test(errors_are_the_ranks_of_a_sorted_list),
        cmocka_unit_test(a_noisy_neighbour_does_not_bend_it),
        cmocka_unit_test(a_lasting_change_is_learned),
        cmocka_unit_test(tokens_that_fit_are_the_inverse_of_their_time),
        cmocka_unit_test(overruns_are_mostly_covered),
        cmocka_unit_test(odd_observations_do_no_harm),
        cmocka_unit_test(a_term_worn_down_does_not_take_the_others_with_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
