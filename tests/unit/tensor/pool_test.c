/* pool_test.c: every tile runs once, whatever sleeps, wakes or is late. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tensor/cpu/pool.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

enum { TILES_MAX = 300 };

typedef struct {
    _Atomic uint32_t runs[TILES_MAX];
    _Atomic uint32_t busy[64]; /* per worker: 1 while it runs a tile */
    _Atomic bool shared;       /* two tiles at once had one worker */
    pool *pool;
} tally;

static void count_tile(void *ctx, uint32_t index, uint32_t worker)
{
    tally *t = ctx;
    if (atomic_exchange(&t->busy[worker], 1))
        atomic_store(&t->shared, true);
    uint8_t *scratch = pool_scratch(t->pool, worker);
    memset(scratch, (int)index, 64);
    atomic_fetch_add(&t->runs[index], 1);
    if (scratch[63] != (uint8_t)index)
        atomic_store(&t->shared, true);
    atomic_store(&t->busy[worker], 0);
}

static void run_many(uint32_t threads, bool in_step)
{
    pool *p = NULL;
    error err = {0};
    assert_int_equal(pool_open(&p, threads, &err), OK);
    assert_int_equal(pool_threads(p), threads);
    assert_int_equal(pool_reserve(p, 128), OK);
    for (uint32_t round = 0; round < 400; round++) {
        uint32_t count = round * 7 % TILES_MAX;
        static tally t;
        memset(&t, 0, sizeof(t));
        t.pool = p;
        if (in_step && round % 50 == 0)
            pool_step_begin(p);
        pool_run(p, count_tile, &t, count);
        if (in_step && round % 50 == 49)
            pool_step_end(p);
        for (uint32_t i = 0; i < TILES_MAX; i++)
            assert_int_equal(t.runs[i], i < count ? 1 : 0);
        assert_false(t.shared);
    }
    pool_close(p);
}

static void runs_every_tile_once_outside_a_step(void **state)
{
    (void)state;
    for (uint32_t threads = 1; threads <= 4; threads++)
        run_many(threads, false);
}

static void runs_every_tile_once_inside_steps(void **state)
{
    (void)state;
    for (uint32_t threads = 1; threads <= 4; threads++)
        run_many(threads, true);
}

static void closes_while_workers_sleep_or_spin(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        pool *p = NULL;
        assert_int_equal(pool_open(&p, 3, NULL), OK);
        if (i % 2)
            pool_step_begin(p);
        pool_close(p);
    }
    pool_close(NULL);
}

static void refuses_too_many_threads(void **state)
{
    (void)state;
    pool *p = NULL;
    error err = {0};
    assert_int_equal(pool_open(&p, POOL_THREADS_MAX + 1, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "threads"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_every_tile_once_outside_a_step),
        cmocka_unit_test(runs_every_tile_once_inside_steps),
        cmocka_unit_test(closes_while_workers_sleep_or_spin),
        cmocka_unit_test(refuses_too_many_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
