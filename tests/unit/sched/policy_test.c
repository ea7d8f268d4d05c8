/* tests/unit/sched/policy_test.c: policies as functions of numbers. */
#include "sched/policy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

static policy_choice choose(const char *name, policy_view view)
{
    const sched_policy *policy = policy_find(name);
    assert_non_null(policy);
    if (!view.chunk_tokens)
        view.chunk_tokens = 512;
    if (!view.max_rows)
        view.max_rows = 64;
    return policy->choose(&view);
}

static void both_idle_without_work_and_decode_without_prompts(void **state)
{
    (void)state;
    static const char *const names[] = {"prefill-first", "chunked"};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(choose(names[i], (policy_view){0}).kind, STEP_IDLE);
        assert_int_equal(choose(names[i], (policy_view){.decoding = 3}).kind, STEP_DECODE);
        assert_int_equal(choose(names[i], (policy_view){.prefill_tokens = 9}).kind, STEP_PREFILL);
        assert_int_equal(choose(names[i], (policy_view){.prefill_tokens = 9, .decoding = 1, .chunk_open = true}).kind,
                         STEP_PREFILL);
    }
    assert_null(policy_find("cadence!"));
}

static void prefill_first_puts_one_decode_step_between_chunks(void **state)
{
    (void)state;
    policy_view view = {.decoding = 4, .prefill_tokens = 5000};
    assert_int_equal(choose("prefill-first", view).kind, STEP_PREFILL);
    assert_int_equal(choose("prefill-first", view).chunk_tokens, 512);
    view.chunk_since_decode = true;
    assert_int_equal(choose("prefill-first", view).kind, STEP_DECODE);
    view.decoding = 0;
    assert_int_equal(choose("prefill-first", view).kind, STEP_PREFILL);
}

static void chunked_gives_rows_first_and_the_chunk_the_rest(void **state)
{
    (void)state;
    policy_view view = {.decoding = 100, .prefill_tokens = 5000};
    policy_choice choice = choose("chunked", view);
    assert_int_equal(choice.kind, STEP_FUSED);
    assert_int_equal(choice.chunk_tokens, 512 - 64);
    view.max_rows = 1000;
    view.decoding = 1000;
    assert_int_equal(choose("chunked", view).chunk_tokens, 64);
    view.chunk_tokens = 1;
    assert_int_equal(choose("chunked", view).chunk_tokens, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_idle_without_work_and_decode_without_prompts),
        cmocka_unit_test(prefill_first_puts_one_decode_step_between_chunks),
        cmocka_unit_test(chunked_gives_rows_first_and_the_chunk_the_rest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
