/* tests/unit/sched/admission_test.c: what is refused, with which word, and when to come back. */
#include "sched/admission.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const admission_view idle = {.waiting_max = 10,
                                    .decode_us = 4000,
                                    .smallest_gap_us = 8000,
                                    .chunk_us = 2000,
                                    .prefill_token_us = 500,
                                    .prefill_share = 1,
                                    .document_tokens = 400};

static admission_answer decide(admission_view view, tenant who, tenant_counts counts, admission_ask ask)
{
    if (!who.name[0])
        memcpy(who.name, "acme", 5);
    admission_answer a = admission_decide(&view, &who, &counts, &ask);
    if (a.verdict == ADMIT_OK) {
        assert_int_equal(a.status, 200);
        assert_null(a.reason);
    } else {
        assert_non_null(a.reason);
        assert_true(a.message[0]);
        assert_true((a.status == 429 || a.status == 503) == (a.retry_after_s >= 1));
    }
    return a;
}

static void an_idle_server_takes_what_asks_for_nothing(void **state)
{
    (void)state;
    admission_answer a = decide(idle, (tenant){0}, (tenant_counts){0}, (admission_ask){.prompt_tokens = 100});
    assert_int_equal(a.verdict, ADMIT_OK);
    assert_false(a.document);
    assert_true(a.predicted_first_token_us == 52000);
    assert_true(decide(idle, (tenant){0}, (tenant_counts){0}, (admission_ask){.prompt_tokens = 500}).document);
}

static void what_could_run_at_once_does_not_count_as_waiting(void **state)
{
    (void)state;
    admission_view view = idle;
    tenant small = {.queued_max = 3};
    assert_int_equal(decide(view, small, (tenant_counts){0}, (admission_ask){.copies = 5}).verdict, ADMIT_TENANT_QUEUE);
    view.slots_free = 2;
    assert_int_equal(decide(view, small, (tenant_counts){0}, (admission_ask){.copies = 5}).verdict, ADMIT_OK);
    assert_int_equal(decide(view, small, (tenant_counts){0}, (admission_ask){.copies = 6}).verdict, ADMIT_TENANT_QUEUE);
}

static void full_queues_are_refused_before_the_prompt_is_known(void **state)
{
    (void)state;
    admission_view full = idle;
    full.waiting = 10;
    full.backlog_documents_us = 110e6;
    admission_answer a = decide(full, (tenant){0}, (tenant_counts){0}, (admission_ask){0});
    assert_int_equal(a.verdict, ADMIT_QUEUE_FULL);
    assert_int_equal(a.retry_after_s, 10); /* 11 wait for 110 s: one of them is gone after 10 */
    tenant small = {.queued_max = 3, .concurrent_max = 2};
    assert_int_equal(decide(idle, small, (tenant_counts){.waiting = 3, .running = 2}, (admission_ask){0}).verdict,
                     ADMIT_TENANT_QUEUE);
    assert_int_equal(decide(idle, small, (tenant_counts){.waiting = 3, .running = 1}, (admission_ask){0}).verdict,
                     ADMIT_OK);
    assert_int_equal(
        decide(idle, small, (tenant_counts){.waiting = 2, .running = 2}, (admission_ask){.copies = 2}).verdict,
        ADMIT_TENANT_QUEUE);
    tenant thrifty = {.tokens_max = 1000};
    admission_ask ask = {.prompt_tokens = 200, .max_tokens = 300};
    assert_int_equal(decide(idle, thrifty, (tenant_counts){.tokens_held = 501}, ask).verdict, ADMIT_TENANT_TOKENS);
    assert_int_equal(decide(idle, thrifty, (tenant_counts){.tokens_held = 500}, ask).verdict, ADMIT_OK);
}

static void bounds_that_cannot_be_kept_are_refused(void **state)
{
    (void)state;
    admission_ask tight = {.gap_us = 7000};
    admission_answer a = decide(idle, (tenant){0}, (tenant_counts){0}, tight);
    assert_int_equal(a.verdict, ADMIT_GAP);
    assert_int_equal(a.status, 400);
    assert_non_null(strstr(a.message, "the smallest is 8 ms"));
    tight.klass = CLASS_BATCH;
    assert_int_equal(decide(idle, (tenant){0}, (tenant_counts){0}, tight).verdict, ADMIT_OK);
    admission_view crowd = idle;
    crowd.decode_us = 12000;
    assert_int_equal(decide(crowd, (tenant){0}, (tenant_counts){0}, (admission_ask){.gap_us = 10000}).verdict,
                     ADMIT_GAP_LOAD);
    assert_int_equal(decide(crowd, (tenant){0}, (tenant_counts){0}, (admission_ask){0}).verdict, ADMIT_OK);
    assert_int_equal(decide(idle, (tenant){.gap_us = 5000}, (tenant_counts){0}, (admission_ask){0}).verdict, ADMIT_GAP);
}

static void a_conversation_computes_what_is_not_cached(void **state)
{
    (void)state;
    tenant_counts counts = {.cached_share = 0.9};
    admission_ask ask = {.prompt_tokens = 2000, .first_token_us = 200000};
    assert_int_equal(decide(idle, (tenant){0}, counts, ask).verdict, ADMIT_FIRST_TOKEN); /* a second and more */
    ask.conversation = true;
    admission_answer a = decide(idle, (tenant){0}, counts, ask); /* 200 of its tokens are new: 102 ms */
    assert_int_equal(a.verdict, ADMIT_OK);
    assert_false(a.document);
    assert_in_range((uint64_t)a.predicted_first_token_us, 101000, 103000);
    assert_int_equal(decide(idle, (tenant){0}, (tenant_counts){0}, ask).verdict, ADMIT_FIRST_TOKEN);
    counts.cached_share = 0.75; /* 500 new ones: long, but a turn, before which only others' turns come */
    admission_view busy = idle;
    busy.turn_tokens = 1600;
    busy.backlog_turns_us = 50e3;
    busy.backlog_documents_us = 5e6;
    ask.first_token_us = 400000;
    a = decide(busy, (tenant){0}, counts, ask);
    assert_false(a.document);
    assert_in_range((uint64_t)a.predicted_first_token_us, 301000, 303000);
    counts.cached_share = 0.4; /* mostly new */
    assert_true(decide(busy, (tenant){0}, counts, ask).document);
    counts.cached_share = 0.75;
    ask.klass = CLASS_BATCH;
    assert_true(decide(busy, (tenant){0}, counts, ask).document);
}

static void a_first_token_too_late_is_refused_with_the_time_to_come_back(void **state)
{
    (void)state;
    admission_view busy = idle;
    busy.backlog_documents_us = 5e6;
    busy.backlog_short_us = 100e3;
    busy.prefill_share = 0.5;
    admission_ask ask = {.prompt_tokens = 1000, .first_token_us = 2000000};
    admission_answer a = decide(busy, (tenant){0}, (tenant_counts){0}, ask);
    assert_int_equal(a.verdict, ADMIT_FIRST_TOKEN);
    assert_int_equal(a.retry_after_s, 10);
    ask.prompt_tokens = 100; /* short: it overtakes */
    ask.first_token_us = 400000;
    assert_int_equal(decide(busy, (tenant){0}, (tenant_counts){0}, ask).verdict, ADMIT_OK);
    ask.first_token_us = 200000;
    assert_int_equal(decide(busy, (tenant){0}, (tenant_counts){0}, ask).verdict, ADMIT_FIRST_TOKEN);
}

static void the_server_s_own_state_comes_first(void **state)
{
    (void)state;
    admission_view view = idle;
    view.draining = true;
    assert_int_equal(decide(view, (tenant){0}, (tenant_counts){0}, (admission_ask){0}).verdict, ADMIT_DRAINING);
    view.failed = true;
    assert_int_equal(decide(view, (tenant){0}, (tenant_counts){0}, (admission_ask){0}).status, 503);
    admission_answer a = decide(idle, (tenant){.removed = true}, (tenant_counts){0}, (admission_ask){0});
    assert_int_equal(a.status, 403);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_idle_server_takes_what_asks_for_nothing),
        cmocka_unit_test(what_could_run_at_once_does_not_count_as_waiting),
        cmocka_unit_test(full_queues_are_refused_before_the_prompt_is_known),
        cmocka_unit_test(bounds_that_cannot_be_kept_are_refused),
        cmocka_unit_test(a_conversation_computes_what_is_not_cached),
        cmocka_unit_test(a_first_token_too_late_is_refused_with_the_time_to_come_back),
        cmocka_unit_test(the_server_s_own_state_comes_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
