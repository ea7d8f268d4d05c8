/* tests/unit/engine/model_test.c: with the default model, a request says the same whatever the engine does with it:
 * alone or in a crowd, any policy and chunk, with yields in the middle of chunks, preempted and read again. Skips when
 * the model is not there. */
#include "runner/model_runner.h"
#include "unit/engine/engine_fixture.h"

#include "base/rng.h"

#include <stdio.h>
#include <unistd.h>

enum { REQUESTS = 6, NEW_TOKENS = 48 };

static int32_t said[REQUESTS][NEW_TOKENS]; /* by the first run: one after the other */

static bool model_path(char *path, size_t size)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME"), *given = getenv("HEADWAY_TEST_MODEL");
    if (given)
        snprintf(path, size, "%s", given);
    else if (cache)
        snprintf(path, size, "%s/headway/models/SmolLM2-135M-Instruct.Q4_1.gguf", cache);
    else
        snprintf(path, size, "%s/.cache/headway/models/SmolLM2-135M-Instruct.Q4_1.gguf", home ? home : "");
    return access(path, R_OK) == 0;
}

static runner *open_runner(const char *path, uint32_t page_count)
{
    model_file *file;
    runner *made;
    error err = {""};
    char plan[256];
    if (model_file_open(&file, path, &err))
        fail_msg("%s", err.text);
    model_runner_config config = {.threads = 2, .context = 1024, .sequences = 8, .chunk_tokens = 256};
    config.kv_memory = 1ull << 30;
    config.kernels = getenv("HEADWAY_CPU");
    status st = model_runner_open(&made, file, &config, plan, sizeof plan, &err);
    model_file_close(file);
    if (st)
        fail_msg("%s", err.text);
    made->info.page_count = page_count; /* the scheduler lends only these */
    return made;
}

static request *make_request(uint64_t id)
{
    rng random = {id + 1};
    request *r = fixture_long_request(id, 3 + (uint32_t)id * 41, NEW_TOKENS);
    for (uint32_t i = 0; i < r->prompt_count; i++)
        r->prompt[i] = (int32_t)rng_below(&random, 40000) + 100;
    r->stop_token_count = 0;
    r->sampling = (sampling_params){.top_p = 1, .typical_p = 1, .repetition_penalty = 1};
    if (id % 2) {
        r->sampling.temperature = 0.9f;
        r->sampling.top_p = 0.95f;
        r->sampling.repetition_penalty = 1.1f;
        r->sampling.presence_penalty = 0.3f;
        r->sampling.seed = id * 77;
    }
    return r;
}

static void note(uint32_t counts[REQUESTS], int32_t got[REQUESTS][NEW_TOKENS], engine *e, uint32_t *ended)
{
    engine_event events[16];
    size_t count;
    while ((count = engine_take_events(e, events, 16)) > 0)
        for (size_t i = 0; i < count; i++) {
            if (events[i].kind == EVENT_TOKEN)
                got[events[i].request_id][counts[events[i].request_id]++] = events[i].token.token;
            *ended += events[i].kind == EVENT_FINISHED;
        }
}

static engine_snapshot run_all(runner *r, engine_config config, uint64_t seed, bool one_by_one)
{
    engine *e;
    assert_int_equal(engine_create(&e, r, &config, NULL), OK);
    int32_t got[REQUESTS][NEW_TOKENS];
    uint32_t counts[REQUESTS] = {0}, ended = 0;
    rng random = {seed};
    for (uint64_t i = 0; i < REQUESTS; i++) {
        assert_int_equal(engine_submit(e, make_request(i), NULL), OK);
        for (uint64_t steps = one_by_one ? 1000 : seed ? rng_below(&random, 4) : 0; steps > 0; steps--) {
            if (!engine_step(e))
                break;
            r->ops->yield(r); /* the next chunk stops at its first row block */
            note(counts, got, e, &ended);
        }
    }
    while (engine_step(e))
        note(counts, got, e, &ended);
    note(counts, got, e, &ended);
    assert_int_equal(ended, REQUESTS);
    engine_snapshot s;
    engine_read_snapshot(e, &s);
    assert_int_equal(s.pages_free, s.pages_total);
    engine_destroy(e);
    for (int i = 0; i < REQUESTS; i++) {
        assert_int_equal(counts[i], NEW_TOKENS);
        if (one_by_one)
            memcpy(said[i], got[i], sizeof said[i]);
        for (int t = 0; t < NEW_TOKENS; t++)
            if (said[i][t] != got[i][t])
                fail_msg("%s, chunk %u: request %d, token %d: %d, alone %d", config.policy,
                         config.schedule.chunk_tokens, i, t, got[i][t], said[i][t]);
    }
    return s;
}

static void a_request_says_the_same_however_it_is_scheduled(void **state)
{
    (void)state;
    char path[512];
    if (!model_path(path, sizeof path)) {
        print_message("no model at %s: skipped\n", path);
        skip();
    }
    runner *r = open_runner(path, 200);
    run_all(r, (engine_config){.policy = "prefill-first"}, 0, true);
    run_all(r, (engine_config){.policy = "prefill-first", .schedule.chunk_tokens = 33}, 1, false);
    run_all(r, (engine_config){.policy = "chunked", .schedule.chunk_tokens = 50}, 2, false);
    run_all(r, (engine_config){.policy = "chunked"}, 3, false);
    run_all(r, (engine_config){.policy = "gate", .schedule.chunk_tokens = 77, .schedule.window_us = 20000}, 4, false);
    run_all(r, (engine_config){.policy = "cadence"}, 5, false);
    run_all(r, (engine_config){.policy = "cadence", .schedule.gap_us = 1000000, .schedule.document_tokens = 20}, 6,
            false);
    r->info.page_count = 28; /* 28 to start with, 30 and more at the end */
    engine_snapshot s = run_all(r, (engine_config){.policy = "chunked"}, 0, false);
    print_message("few pages: %llu preemptions\n", (unsigned long long)s.preemptions);
    assert_true(s.preemptions > 0);
    r->ops->close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_request_says_the_same_however_it_is_scheduled)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
