/* tests/unit/sim/light_test.c: the light runner changes neither schedule nor times. The same random loads
 * (conversations that come back with the answer they got, documents, batch work, cancellations, pools that are too
 * small) run through two engines, one over each form of the runner; every step, move and event must be the same at the
 * same microsecond. */
#include "base/rng.h"
#include "engine/engine.h"
#include "sim/byte_vocab.h"
#include "sim/sim_runner.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { SLOTS = 6, TALKS = 24, TURNS = 3, TOKENS_MAX = 4000, MS = 1000 };

static const sim_costs costs = {.rows = {{1, 3000.3}, {8, 4500.7}},
                                .row_count = 2,
                                .kv_us = 0.21,
                                .chunks = {{1, 3100}, {64, 9000.1}, {512, 60000.9}},
                                .chunk_count = 3,
                                .depth_us = 0.013,
                                .fused_row_us = 100.5,
                                .units = 700,
                                .weight_bytes = 3e6,
                                .weight_bytes_row = 1e5,
                                .kv_token_bytes = 200};

typedef struct {
    uint64_t due_us;                 /* its next turn; 0: one is running, or it is over */
    uint32_t turn, count, cut_after; /* tokens so far; cancelled after so many tokens of the answer, 0: not */
    uint32_t answered;
    bool batch;
    int32_t tokens[TOKENS_MAX];
} talk;

typedef struct {
    virtual_clock clock;
    runner *r;
    engine *e;
    rng random;
    talk talks[TALKS];
    uint64_t cursor, saying[SLOTS]; /* request ids */
    uint32_t reply_tokens;
    uint32_t steps, yielded, preempted, cached;
} world;

typedef struct {
    engine_event events[64];
    size_t event_count;
    trace_record records[TRACE_COPY_MAX];
    size_t record_count;
    bool busy;
} turn_log;

static void voice_open(void *self, uint32_t seq, const sequence_start *start)
{
    ((world *)self)->saying[seq] = start->request_id;
}

static int32_t voice_token(void *self, uint32_t seq, uint32_t index, uint64_t state)
{
    const world *w = self;
    rng word = {w->saying[seq] * 100 + index};
    (void)state;
    return index == w->reply_tokens ? BYTE_VOCAB_IM_END : (int32_t)rng_below(&word, 256);
}

static void open_world(world *w, bool light, uint64_t seed)
{
    static const char *const policies[] = {"cadence", "gate", "chunked", "prefill-first", "decode-first"};
    rng random = {seed};
    sim_costs c = costs;
    c.state_bytes = rng_below(&random, 2) ? 9000 : 0;
    sim_voice voice = {w, voice_open, voice_token, NULL};
    sim_config sim = {.costs = rng_below(&random, 4) ? &c : NULL,
                      .light = light,
                      .copies = seed % 2,
                      .state_bytes = (uint64_t)c.state_bytes,
                      .context_length = TOKENS_MAX,
                      .page_count = 200 + rng_below(&random, 600),
                      .max_sequences = SLOTS,
                      .max_chunk_tokens = 512,
                      .voice = &voice};
    engine_config config = {.policy = policies[rng_below(&random, 5)],
                            .schedule = {.gap_us = 60 * MS, .chat_share_set = rng_below(&random, 2)},
                            .clock = &w->clock.base};
    error err = {""};
    memset(w, 0, sizeof *w);
    virtual_clock_init(&w->clock, 1000000);
    if (sim_runner_create(&w->r, &sim, &err) || engine_create(&w->e, w->r, &config, &err))
        fail_msg("%s", err.text);
    w->random = (rng){seed + 1};
    w->reply_tokens = 20 + (uint32_t)rng_below(&random, 60);
    for (uint32_t i = 0; i < TALKS; i++)
        w->talks[i].due_us = w->clock.time_us + rng_below(&w->random, 4000 * MS);
}

static void close_world(world *w)
{
    engine_destroy(w->e);
    w->r->ops->close(w->r);
}

static void say(talk *t, int32_t token)
{
    if (t->count < TOKENS_MAX)
        t->tokens[t->count++] = token;
}

static void ask(world *w, uint32_t index)
{
    static const int32_t stops[] = {BYTE_VOCAB_IM_END};
    talk *t = &w->talks[index];
    uint32_t more =
        t->turn == 0 ? 5 + rng_below(&w->random, rng_below(&w->random, 4) ? 300 : 2500) : 3 + rng_below(&w->random, 80);
    bool shared = t->turn == 0 && rng_below(&w->random, 2);
    for (uint32_t i = 0; i < more && t->count < TOKENS_MAX - 100; i++)
        say(t, shared && i < 200 ? (int32_t)i % 50 : (int32_t)rng_below(&w->random, 200));
    t->batch = rng_below(&w->random, 4) == 0;
    t->cut_after = rng_below(&w->random, 6) == 0 ? 1 + rng_below(&w->random, 10) : 0;
    t->answered = 0;
    t->due_us = 0;
    t->turn++;
    request *r = calloc(1, sizeof *r);
    *r = (request){.id = index + 1 + (uint64_t)t->turn * 1000,
                   .prompt = malloc(t->count * sizeof *r->prompt),
                   .prompt_count = t->count,
                   .max_tokens = 1 + rng_below(&w->random, 90),
                   .stop_tokens = stops,
                   .stop_token_count = 1,
                   .sampling = {.temperature = 1, .top_p = 1, .seed = index},
                   .klass = t->batch ? CLASS_BATCH : CLASS_INTERACTIVE,
                   .context = t};
    memcpy(r->prompt, t->tokens, t->count * sizeof *r->prompt);
    error err = {""};
    if (engine_submit(w->e, r, &err))
        fail_msg("%s", err.text);
}

static void take(world *w, const engine_event *e)
{
    talk *t = e->context;
    if (e->kind == EVENT_TOKEN) {
        say(t, e->token.token);
        if (++t->answered == t->cut_after)
            engine_cancel(w->e, e->request_id, FINISH_CANCELLED);
    } else if (e->kind == EVENT_FINISHED) {
        w->cached += e->cached > 0;
        if (t->turn < TURNS && t->count < TOKENS_MAX - 200)
            t->due_us = w->clock.time_us + rng_below(&w->random, 1500 * MS);
    }
}

static uint64_t next_due(const world *w)
{
    uint64_t due_us = 0;
    for (uint32_t i = 0; i < TALKS; i++)
        if (w->talks[i].due_us && (!due_us || w->talks[i].due_us < due_us))
            due_us = w->talks[i].due_us;
    return due_us;
}

/* One turn; false: everything is over. */
static bool turn(world *w, turn_log *log)
{
    for (uint32_t i = 0; i < TALKS; i++)
        if (w->talks[i].due_us && w->talks[i].due_us <= w->clock.time_us)
            ask(w, i);
    uint64_t due_us = next_due(w), lost;
    sim_runner_interrupt_at(w->r, due_us);
    memset(log, 0, sizeof *log);
    log->busy = engine_step(w->e);
    log->event_count = engine_take_events(w->e, log->events, 64);
    log->record_count = engine_read_trace(w->e, &w->cursor, log->records, TRACE_COPY_MAX, &lost);
    for (size_t i = 0; i < log->event_count; i++)
        take(w, &log->events[i]);
    for (size_t i = 0; i < log->record_count; i++) {
        w->steps += log->records[i].kind <= TRACE_FUSED;
        w->yielded += log->records[i].kind == TRACE_PREFILL && log->records[i].flags & TRACE_YIELDED;
        w->preempted += log->records[i].kind == TRACE_PREEMPTED;
    }
    if (log->busy || log->event_count > 0)
        return true;
    if (due_us > w->clock.time_us)
        w->clock.time_us = due_us;
    return due_us > 0;
}

static void expect_same(const world *a, const turn_log *x, const turn_log *y, uint64_t seed)
{
    const size_t record_size = offsetof(trace_record, part) + 1;
    bool same = x->busy == y->busy && x->event_count == y->event_count && x->record_count == y->record_count;
    for (size_t i = 0; same && i < x->record_count; i++)
        same = memcmp(&x->records[i], &y->records[i], record_size) == 0;
    for (size_t i = 0; same && i < x->event_count; i++) {
        const engine_event *e = &x->events[i], *f = &y->events[i];
        same = e->kind == f->kind && e->request_id == f->request_id && e->time_us == f->time_us &&
               e->cached == f->cached && e->generated == f->generated && e->reason == f->reason &&
               e->prefill_us == f->prefill_us && e->decode_us == f->decode_us;
    }
    if (!same)
        fail_msg("seed %llu: the two differ in step %u", (unsigned long long)seed, a->steps);
}

static void test_light_is_the_same_schedule(void **state)
{
    (void)state;
    static world full, light;
    static turn_log x, y;
    uint32_t steps = 0, yielded = 0, preempted = 0, cached = 0;
    for (uint64_t seed = 0; seed < 60; seed++) {
        open_world(&full, false, seed);
        open_world(&light, true, seed);
        bool on = true;
        while (on) {
            on = turn(&full, &x);
            assert_true(turn(&light, &y) == on);
            expect_same(&full, &x, &y, seed);
            assert_int_equal(full.clock.time_us, light.clock.time_us);
        }
        steps += light.steps;
        yielded += light.yielded;
        preempted += light.preempted;
        cached += light.cached;
        close_world(&full);
        close_world(&light);
    }
    print_message("%u steps, %u interrupted chunks, %u preemptions, %u cached prompts\n", steps, yielded, preempted,
                  cached);
    assert_true(steps > 20000 && yielded > 300 && preempted > 20 && cached > 500);
}

/* Many small contexts that the checks of the light form must still refuse. */
static void test_light_checks_what_it_can(void **state)
{
    (void)state;
    sim_config config = {.light = true, .context_length = 512, .page_count = 64, .max_sequences = 2};
    runner *r;
    virtual_clock clock;
    sampling_params greedy = {.top_p = 1};
    int32_t tokens[512] = {0};
    uint32_t pages[32] = {0}, bad[32] = {[1] = 64};
    sampled_token sampled[8];
    step_result result = {.tokens = sampled};
    error err = {""};
    virtual_clock_init(&clock, 1);
    assert_int_equal(sim_runner_create(&r, &config, &err), OK);
    sequence_start start = {.params = &greedy, .tokens = tokens, .prompt_count = 40};
    assert_int_equal(r->ops->sequence_open(r, 0, &start), OK);
    decode_row row = {.pages = pages, .position = 40};
    step_plan early = {.kind = STEP_DECODE, .rows = &row, .row_count = 1};
    assert_int_equal(r->ops->run(r, &early, &result, &clock.base, &err), ERR_INVALID);
    step_plan plan = {.kind = STEP_PREFILL, .chunk = {.pages = bad, .tokens = tokens, .token_count = 30}};
    assert_int_equal(r->ops->run(r, &plan, &result, &clock.base, &err), ERR_INVALID);
    plan.chunk.pages = pages;
    plan.chunk.token_count = 41;
    assert_int_equal(r->ops->run(r, &plan, &result, &clock.base, &err), ERR_INVALID);
    plan.chunk.token_count = 30;
    assert_int_equal(r->ops->run(r, &plan, &result, &clock.base, &err), OK);
    plan.chunk.position = 29;
    plan.chunk.token_count = 5;
    assert_int_equal(r->ops->run(r, &plan, &result, &clock.base, &err), ERR_INVALID);
    assert_null(r->mover);
    r->ops->close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_light_is_the_same_schedule),
        cmocka_unit_test(test_light_checks_what_it_can),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
