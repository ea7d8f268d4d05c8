/* tests/unit/load/replay_test.c: plans played against a made-up server on a virtual clock. */
#include "load/replay.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

enum { ACTIVE_MAX = 256, FIRST_US = 40000, TOKEN_US = 10000 };

typedef struct {
    bool used;
    uint32_t sample, left;
    uint64_t next_us;
    load_end refusal; /* outcome LOAD_RUNNING: it is answered */
} active;

typedef struct {
    load_transport base;
    virtual_clock clock;
    active requests[ACTIVE_MAX];
    uint32_t sent, cancelled, at_once, most_at_once;
    uint32_t refuse_first; /* so many requests are refused, with Retry-After 2 */
    bool broken;           /* every request fails */
    uint64_t stall_us;     /* the first wait takes so long, whatever was asked */
} fake;

static status fake_send(load_transport *base, const load_request *request, error *err)
{
    fake *f = (fake *)base;
    (void)err;
    active *a = f->requests;
    while (a->used)
        a++;
    assert_true(a < f->requests + ACTIVE_MAX);
    *a = (active){
        true, request->sample, request->session->turns[request->turn].output_tokens, f->clock.time_us + FIRST_US, {0}};
    if (f->broken)
        a->refusal = (load_end){.outcome = LOAD_FAILED, .http_status = 500, .reason = "oops", .message = "on fire"};
    else if (f->sent < f->refuse_first)
        a->refusal = (load_end){.outcome = LOAD_REFUSED, .http_status = 429, .reason = "queue", .retry_after_s = 2};
    f->sent++;
    f->at_once++;
    f->most_at_once = f->at_once > f->most_at_once ? f->at_once : f->most_at_once;
    return OK;
}

static void fake_cancel(load_transport *base, uint32_t sample)
{
    fake *f = (fake *)base;
    for (active *a = f->requests; a < f->requests + ACTIVE_MAX; a++)
        if (a->used && a->sample == sample) {
            a->used = false;
            f->cancelled++;
            f->at_once--;
        }
}

static active *earliest(fake *f)
{
    active *first = NULL;
    for (active *a = f->requests; a < f->requests + ACTIVE_MAX; a++)
        if (a->used && (!first || a->next_us < first->next_us))
            first = a;
    return first;
}

static void fake_wait(load_transport *base, uint64_t until_us, const load_sink *sink)
{
    fake *f = (fake *)base;
    if (f->stall_us) {
        f->clock.time_us += f->stall_us;
        f->stall_us = 0;
        return;
    }
    for (active *a; (a = earliest(f)) && a->next_us <= until_us;) {
        f->clock.time_us = a->next_us > f->clock.time_us ? a->next_us : f->clock.time_us;
        load_end end = a->refusal;
        if (end.outcome == LOAD_RUNNING) {
            sink->token(sink->self, a->sample, f->clock.time_us, span_from("x "));
            a->next_us += TOKEN_US;
            if (--a->left > 0)
                continue;
            end = (load_end){.outcome = LOAD_DONE, .http_status = 200};
        }
        a->used = false;
        f->at_once--;
        sink->end(sink->self, a->sample, f->clock.time_us, &end);
        return;
    }
    if (until_us > f->clock.time_us)
        f->clock.time_us = until_us;
}

typedef struct {
    fake server;
    workload work;
    load_plan plan;
    load_samples samples;
    load_span spans[PHASES_MAX];
    error err;
} fixture;

static status play_plan(fixture *f, const plan_options *options, const trace_file *trace)
{
    f->work = (workload){.seed = 21, .scale = 1, .trace = trace};
    workload_plan(options, trace, &f->plan);
    f->server.base = (load_transport){fake_send, fake_cancel, fake_wait};
    virtual_clock_init(&f->server.clock, 5000000);
    const replay_config config = {.work = &f->work,
                                  .plan = &f->plan,
                                  .transport = &f->server.base,
                                  .clock = &f->server.clock.base,
                                  .tick_us = 1000000};
    return replay_run(&config, &f->samples, f->spans, &f->err);
}

static void a_closed_loop_keeps_so_many_sessions_and_thinks_between_turns(void **state)
{
    (void)state;
    fixture f = {0};
    assert_int_equal(play_plan(&f, &(plan_options){.kind = BENCH_AGENTS, .agents = 3, .duration_s = 60}, NULL), OK);
    assert_int_equal(f.server.most_at_once, 3);
    assert_true(f.samples.count > 60);
    uint32_t later = 0;
    for (uint32_t i = 0; i < f.samples.count; i++) {
        const load_sample *s = &f.samples.items[i];
        assert_int_equal(s->sent_us, s->intended_us);
        load_session session;
        workload_session(&f.work, LOAD_AGENTS, s->session, &session);
        for (uint32_t k = 0; k < i && s->turn > 0; k++) {
            const load_sample *before = &f.samples.items[k];
            if (before->session != s->session || before->turn + 1 != s->turn)
                continue;
            assert_int_equal(s->intended_us, before->end_us + session.turns[s->turn].think_us);
            later++;
        }
        if (s->outcome == LOAD_DONE)
            assert_int_equal(s->mark_count, session.turns[s->turn].output_tokens);
    }
    assert_true(later > 40);
    assert_int_equal(f.spans[0].end_us - f.spans[0].start_us, 60000000);
    samples_free(&f.samples);
}

static void a_late_client_does_not_move_the_plan(void **state)
{
    (void)state;
    fixture late = {.server.stall_us = 3000000}, prompt = {0};
    const plan_options options = {.kind = BENCH_DOCUMENTS, .rate = 4, .requests = 40};
    assert_int_equal(play_plan(&late, &options, NULL), OK);
    assert_int_equal(play_plan(&prompt, &options, NULL), OK);
    assert_int_equal(late.samples.count, 40);
    uint32_t delayed = 0;
    for (uint32_t i = 0; i < 40; i++) { /* sessions that came due together may be sent in another order */
        const load_sample *s = &late.samples.items[i];
        uint32_t k = 0;
        while (prompt.samples.items[k].session != s->session)
            k++;
        assert_int_equal(s->intended_us, prompt.samples.items[k].intended_us);
        delayed += s->sent_us > s->intended_us + 1000000;
    }
    assert_true(delayed >= 3);
    samples_free(&late.samples);
    samples_free(&prompt.samples);
}

static void a_refused_turn_is_tried_again_when_the_server_said(void **state)
{
    (void)state;
    fixture f = {.server.refuse_first = 3};
    assert_int_equal(play_plan(&f, &(plan_options){.kind = BENCH_DOCUMENTS, .workers = 1, .requests = 5}, NULL), OK);
    assert_int_equal(f.samples.count, 5);
    for (uint32_t i = 0; i < 5; i++) {
        const load_sample *s = &f.samples.items[i];
        assert_int_equal(s->outcome, i < 3 ? LOAD_REFUSED : LOAD_DONE);
        if (i > 0 && i <= 3)
            assert_int_equal(s->intended_us, f.samples.items[i - 1].end_us + 2000000);
        if (i <= 3)
            assert_int_equal(s->session, 0);
    }
    assert_string_equal(f.samples.items[0].reason, "queue");
    samples_free(&f.samples);
}

static void a_server_that_fails_always_ends_the_run(void **state)
{
    (void)state;
    fixture f = {.server.broken = true};
    assert_int_equal(play_plan(&f, &(plan_options){.kind = BENCH_AGENTS, .duration_s = 1000}, NULL), ERR_IO);
    assert_string_equal(f.err.text, "8 requests in a row failed: oops: on fire");
    assert_int_equal(f.samples.count, FAILURES_MAX);
    samples_free(&f.samples);
}

static void agents_play_until_the_documents_are_done(void **state)
{
    (void)state;
    fixture f = {0};
    assert_int_equal(play_plan(&f, &(plan_options){.kind = BENCH_MIXED, .workers = 2, .requests = 10}, NULL), OK);
    uint32_t documents = 0, together = 0;
    for (uint32_t i = 0; i < f.samples.count; i++) {
        const load_sample *s = &f.samples.items[i];
        assert_true(s->outcome == LOAD_DONE || (s->outcome == LOAD_CUT && s->role == LOAD_AGENTS));
        assert_true(s->end_us <= f.spans[s->phase].end_us);
        documents += s->role == LOAD_DOCUMENTS && s->phase == 2;
        together += s->role == LOAD_AGENTS && s->phase == 2;
    }
    assert_int_equal(documents, 10);
    assert_true(together > 2);
    assert_true(f.spans[2].start_us >= f.spans[1].end_us);
    samples_free(&f.samples);
}

static void a_trace_keeps_its_own_times(void **state)
{
    (void)state;
    trace_file trace;
    const char *text = "TIMESTAMP,ContextTokens,GeneratedTokens\n0,100,3\n1.5,50,2\n1.5,60,4\n10,70,1\n";
    assert_int_equal(trace_file_parse(&trace, span_from(text), "t", 0, 1, NULL), OK);
    fixture f = {0};
    assert_int_equal(play_plan(&f, &(plan_options){.kind = BENCH_TRACE}, &trace), OK);
    assert_int_equal(f.samples.count, 4);
    const uint64_t at[] = {0, 1500000, 1500000, 10000000};
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(f.samples.items[i].intended_us, 5000000 + at[i]);
    assert_int_equal(f.samples.items[3].mark_count, 1);
    samples_free(&f.samples);
    trace_file_free(&trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_closed_loop_keeps_so_many_sessions_and_thinks_between_turns),
        cmocka_unit_test(a_late_client_does_not_move_the_plan),
        cmocka_unit_test(a_refused_turn_is_tried_again_when_the_server_said),
        cmocka_unit_test(a_server_that_fails_always_ends_the_run),
        cmocka_unit_test(agents_play_until_the_documents_are_done),
        cmocka_unit_test(a_trace_keeps_its_own_times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
