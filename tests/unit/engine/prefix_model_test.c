/* The prefix cache over real arithmetic: tiny models of every kind of memory (dense, sliding windows, recurrent states)
 * say the same with it as without, in crowds, edits, aborts and preemptions. */
#include "prefix_world.h"
#include "runner/model_runner.h"

enum { MODEL_CONTEXT = 2048 };

static void open_model(world *w, const char *path, uint32_t pages, uint64_t seed)
{
    model_file *file;
    error err = {""};
    char plan[256];
    memset(w, 0, sizeof *w);
    w->random = (rng){seed};
    w->history_max = 500;
    virtual_clock_init(&w->f.clock, 1000000);
    w->f.ledger = calloc(LEDGER_MAX, sizeof *w->f.ledger);
    if (model_file_open(&file, path, &err))
        fail_msg("%s", err.text);
    model_runner_config config = {.threads = 1, .context = MODEL_CONTEXT, .sequences = 6, .chunk_tokens = 128};
    config.kv_memory = 64 << 20;
    config.kernels = getenv("HEADWAY_CPU");
    status st = model_runner_open(&w->f.runner, file, &config, plan, sizeof plan, &err);
    model_file_close(file);
    if (st)
        fail_msg("%s", err.text);
    if (pages < w->f.runner->info.page_count)
        w->f.runner->info.page_count = pages; /* the scheduler lends only these */
    engine_config engine = {.tenants = &three_tenants, .unseeded = true, .clock = &w->f.clock.base};
    if (engine_create(&w->f.engine, w->f.runner, &engine, &err))
        fail_msg("%s", err.text);
}

static void real_arithmetic_says_the_same(void **unused)
{
    (void)unused;
    static const char *const models[] = {
        "tests/numeric/vectors/arch/llama.gguf", "tests/numeric/vectors/arch/gemma3.gguf",
        "tests/numeric/vectors/hybrid/qwen35moe.gguf", "tests/numeric/vectors/hybrid/qwen3next.gguf"};
    static world w;
    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
        uint64_t cached = 0, preemptions = 0;
        for (uint64_t seed = 1; seed <= 2; seed++) {
            open_model(&w, models[m], seed == 1 ? 40 : 700, seed);
            for (int i = 0; i < 12; i++)
                crowd(&w);
            cached += fixture_snapshot(&w.f).cached_tokens;
            preemptions += fixture_snapshot(&w.f).preemptions;
            close_world(&w);
        }
        print_message("%s: %llu tokens from the cache, %llu preemptions\n", models[m], (unsigned long long)cached,
                      (unsigned long long)preemptions);
        assert_true(cached > 1000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(real_arithmetic_says_the_same)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
