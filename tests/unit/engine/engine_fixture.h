/* tests/unit/engine/engine_fixture.h: an engine over the sim runner on a virtual clock, turned by hand, and a ledger of
 * all that came out. */
#ifndef ENGINE_FIXTURE_H
#define ENGINE_FIXTURE_H

#include "engine/engine.h"
#include "sim/byte_vocab.h"
#include "sim/sim_runner.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { LEDGER_MAX = 4096 };

typedef struct {
    uint32_t count, capacity;
    int32_t *tokens;
    uint32_t finished; /* FINISHED events seen */
    bool token_after_end;
    engine_event end;
    uint32_t progress_events, last_progress;
    uint64_t first_us, last_us, longest_gap_us;
} ledger_entry;

typedef struct {
    virtual_clock clock;
    runner *runner;
    engine *engine;
    ledger_entry *ledger; /* (LEDGER_MAX) by request id */
    uint32_t wakes, finished;
} fixture;

static const int32_t fixture_stops[] = {BYTE_VOCAB_END_OF_TEXT, BYTE_VOCAB_IM_END};

static void fixture_wake(void *context)
{
    ((fixture *)context)->wakes++;
}

static inline void fixture_open(fixture *f, sim_config sim, engine_config config)
{
    memset(f, 0, sizeof *f);
    virtual_clock_init(&f->clock, 1000000);
    f->ledger = calloc(LEDGER_MAX, sizeof *f->ledger);
    assert_int_equal(sim_runner_create(&f->runner, &sim, NULL), OK);
    if (!config.clock)
        config.clock = &f->clock.base;
    config.wake = fixture_wake;
    config.wake_context = f;
    error err = {""};
    if (engine_create(&f->engine, f->runner, &config, &err))
        fail_msg("%s", err.text);
}

static inline request *fixture_request(uint64_t id, const char *text, uint32_t max_tokens)
{
    request *r = calloc(1, sizeof *r);
    r->id = id;
    r->prompt_count = (uint32_t)strlen(text);
    r->prompt = malloc((r->prompt_count + 1) * sizeof *r->prompt);
    for (uint32_t i = 0; i < r->prompt_count; i++)
        r->prompt[i] = (uint8_t)text[i];
    r->max_tokens = max_tokens;
    r->stop_tokens = fixture_stops;
    r->stop_token_count = 2;
    r->context = (void *)(uintptr_t)(id + 1);
    return r;
}

static inline request *fixture_long_request(uint64_t id, uint32_t prompt_count, uint32_t max_tokens)
{
    request *r = fixture_request(id, "x", max_tokens);
    r->prompt = realloc(r->prompt, prompt_count * sizeof *r->prompt);
    r->prompt_count = prompt_count;
    for (uint32_t i = 0; i < prompt_count; i++)
        r->prompt[i] = (int32_t)((i * 7 + id * 13) % 128);
    return r;
}

static inline void fixture_free_request(request *r)
{
    free(r->prompt);
    free(r);
}

static inline void fixture_submit(fixture *f, request *r)
{
    error err = {""};
    if (engine_submit(f->engine, r, &err))
        fail_msg("%s", err.text);
}

static inline void fixture_note(fixture *f, const engine_event *event)
{
    assert_true(event->request_id < LEDGER_MAX);
    assert_ptr_equal(event->context, (void *)(uintptr_t)(event->request_id + 1));
    ledger_entry *entry = &f->ledger[event->request_id];
    entry->token_after_end |= entry->finished > 0;
    if (event->kind == EVENT_PROGRESS) {
        entry->progress_events++;
        assert_true(event->prompt_done >= entry->last_progress);
        entry->last_progress = event->prompt_done;
    } else if (event->kind == EVENT_FINISHED) {
        entry->finished++;
        entry->end = *event;
        f->finished++;
    } else {
        if (entry->count == entry->capacity) {
            entry->capacity = entry->capacity ? entry->capacity * 2 : 64;
            entry->tokens = realloc(entry->tokens, entry->capacity * sizeof *entry->tokens);
        }
        entry->tokens[entry->count++] = event->token.token;
        if (entry->last_us && event->time_us - entry->last_us > entry->longest_gap_us)
            entry->longest_gap_us = event->time_us - entry->last_us;
        if (!entry->first_us)
            entry->first_us = event->time_us;
        entry->last_us = event->time_us;
    }
}

static inline void fixture_take(fixture *f)
{
    engine_event events[32];
    size_t count;
    while ((count = engine_take_events(f->engine, events, 32)) > 0)
        for (size_t i = 0; i < count; i++)
            fixture_note(f, &events[i]);
}

static inline void fixture_run(fixture *f) /* until there is nothing to do */
{
    uint32_t idle = 0, turns = 0;
    while (idle < 2) { /* what the consumer took may let streams go on */
        idle = engine_step(f->engine) ? 0 : idle + 1;
        fixture_take(f);
        assert_true(++turns < 5000000);
    }
}

static inline engine_snapshot fixture_snapshot(fixture *f)
{
    engine_snapshot snapshot;
    engine_read_snapshot(f->engine, &snapshot);
    return snapshot;
}

static inline void fixture_expect_no_leak(fixture *f)
{
    engine_snapshot snapshot = fixture_snapshot(f);
    assert_int_equal(snapshot.pages_free, snapshot.pages_total);
    assert_int_equal(snapshot.running, 0);
    assert_int_equal(snapshot.waiting, 0);
    for (uint32_t i = 0; i < LEDGER_MAX; i++)
        assert_false(f->ledger[i].token_after_end);
}

static inline void fixture_close(fixture *f)
{
    engine_destroy(f->engine);
    f->runner->ops->close(f->runner);
    for (uint32_t i = 0; i < LEDGER_MAX; i++)
        free(f->ledger[i].tokens);
    free(f->ledger);
}

#endif
