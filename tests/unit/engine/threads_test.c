/* tests/unit/engine/threads_test.c: the engine's own thread, three submitters that also cancel, a reader of snapshots
 * and a consumer that sleeps until it is woken. Meant for ThreadSanitizer; what it checks holds anywhere. */
#include "unit/engine/engine_fixture.h"

#include "base/rng.h"

#include <pthread.h>
#include <stdatomic.h>

enum { SUBMITTERS = 3, EACH = 300, TOTAL = SUBMITTERS * EACH };

typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t woken;
    bool news;
    engine *engine;
    _Atomic uint64_t next_id;
    _Atomic bool done;
    _Atomic uint32_t ended[TOTAL];
    uint32_t tokens[TOTAL], ended_count;
} hall;

static void wake(void *context)
{
    hall *h = context;
    pthread_mutex_lock(&h->lock);
    h->news = true;
    pthread_cond_signal(&h->woken);
    pthread_mutex_unlock(&h->lock);
}

static void *submit_many(void *argument)
{
    hall *h = argument;
    rng random = {(uint64_t)(uintptr_t)&random};
    for (int i = 0; i < EACH; i++) {
        uint64_t id = atomic_fetch_add(&h->next_id, 1);
        request *r =
            fixture_long_request(id, 1 + (uint32_t)rng_below(&random, 300), 1 + (uint32_t)rng_below(&random, 30));
        status st;
        while ((st = engine_submit(h->engine, r, NULL)) == ERR_BUSY)
            clock_real()->sleep_us(clock_real(), 200);
        if (st)
            abort();
        if (rng_below(&random, 3) == 0)
            engine_cancel(h->engine, rng_below(&random, id + 1), FINISH_CANCELLED);
    }
    return NULL;
}

static void *read_snapshots(void *argument)
{
    hall *h = argument;
    uint64_t steps = 0;
    while (!atomic_load(&h->done)) {
        engine_snapshot s;
        engine_read_snapshot(h->engine, &s);
        if (s.steps < steps || s.pages_free > s.pages_total || s.decode_steps > s.steps)
            abort();
        steps = s.steps;
        clock_real()->sleep_us(clock_real(), 50);
    }
    return NULL;
}

static void consume(hall *h)
{
    engine_event events[7];
    while (h->ended_count < TOTAL) {
        pthread_mutex_lock(&h->lock);
        while (!h->news)
            pthread_cond_wait(&h->woken, &h->lock);
        h->news = false;
        pthread_mutex_unlock(&h->lock);
        size_t count;
        while ((count = engine_take_events(h->engine, events, 7)) > 0)
            for (size_t i = 0; i < count; i++) {
                uint64_t id = events[i].request_id;
                assert_int_equal(h->ended[id], 0);
                h->tokens[id] += events[i].kind == EVENT_TOKEN;
                if (events[i].kind != EVENT_FINISHED)
                    continue;
                h->ended[id]++;
                h->ended_count++;
                if (events[i].reason != FINISH_CANCELLED)
                    assert_int_equal(h->tokens[id], events[i].generated);
            }
    }
}

static void run_hall(const char *policy)
{
    hall *h = calloc(1, sizeof *h);
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->woken, NULL);
    runner *r;
    sim_config sim = {
        .prefill_tokens_per_s = 1e7, .decode_base_us = 20, .decode_row_us = 1, .max_sequences = 32, .page_count = 200};
    assert_int_equal(sim_runner_create(&r, &sim, NULL), OK);
    engine_config config = {.policy = policy, .max_queued = 50, .wake = wake, .wake_context = h};
    assert_int_equal(engine_create(&h->engine, r, &config, NULL), OK);
    assert_int_equal(engine_start(h->engine, NULL), OK);
    pthread_t submitters[SUBMITTERS], reader;
    for (int i = 0; i < SUBMITTERS; i++)
        pthread_create(&submitters[i], NULL, submit_many, h);
    pthread_create(&reader, NULL, read_snapshots, h);
    consume(h);
    for (int i = 0; i < SUBMITTERS; i++)
        pthread_join(submitters[i], NULL);
    atomic_store(&h->done, true);
    pthread_join(reader, NULL);
    engine_snapshot s;
    engine_read_snapshot(h->engine, &s);
    assert_int_equal(s.pages_free, s.pages_total);
    assert_int_equal(s.finished[0] + s.finished[1] + s.finished[2], TOTAL);
    engine_destroy(h->engine);
    r->ops->close(r);
    free(h);
}

static void threads_share_only_the_two_queues(void **state)
{
    (void)state;
    run_hall("prefill-first");
    run_hall("chunked");
    run_hall("cadence");
}

static void destroy_stops_a_running_engine(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        runner *r;
        assert_int_equal(sim_runner_create(&r, &(sim_config){.decode_base_us = 100}, NULL), OK);
        engine *e;
        assert_int_equal(engine_create(&e, r, &(engine_config){0}, NULL), OK);
        assert_int_equal(engine_start(e, NULL), OK);
        for (uint64_t id = 0; id < 20; id++)
            assert_int_equal(engine_submit(e, fixture_long_request(id, 2000, 100), NULL), OK);
        clock_real()->sleep_us(clock_real(), 3000);
        engine_destroy(e);
        r->ops->close(r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_share_only_the_two_queues),
        cmocka_unit_test(destroy_stops_a_running_engine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
