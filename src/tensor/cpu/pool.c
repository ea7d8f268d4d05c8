/* tensor/cpu/pool.c: one atomic word says it all. `state` holds the job's generation (high half) and the tiles that
 * nobody has claimed yet (low half). A claim is a compare-and-swap of the whole word, so a worker that slept through a
 * job can never claim a tile of the next one with the last one's arguments: the arguments change only while no tile is
 * left, and then every claim fails. */
#include "tensor/cpu/pool.h"

#include "base/clock.h"
#include "tensor/cpu/cpu_os.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

enum { SPIN_US = 50, SPINS_PER_CLOCK = 32 };

typedef struct {
    pool *owner;
    uint32_t index;
    pthread_t thread;
} worker;

struct pool {
    _Alignas(64) _Atomic uint64_t state;
    _Alignas(64) _Atomic uint32_t done; /* tiles finished of the current job */
    _Alignas(64) _Atomic(pool_tile) tile;
    _Atomic(void *) ctx;
    _Atomic uint32_t tile_count;
    _Alignas(64) _Atomic bool in_step, closing;
    _Atomic uint32_t sleepers;
    _Atomic uint32_t step; /* counts step_begin, so that a sleeper knows why it was woken */
    pthread_mutex_t lock;  /* for going to sleep and waking only */
    pthread_cond_t wake;
    uint32_t threads;
    worker *workers; /* threads - 1 */
    void **scratch;  /* threads */
    size_t scratch_bytes;
};

static inline void cpu_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Runs tiles until none is left to claim. */
static void drain(pool *p, uint32_t index)
{
    uint64_t state = atomic_load_explicit(&p->state, memory_order_acquire);
    while ((uint32_t)state != 0) {
        pool_tile tile = atomic_load_explicit(&p->tile, memory_order_relaxed);
        void *ctx = atomic_load_explicit(&p->ctx, memory_order_relaxed);
        uint32_t count = atomic_load_explicit(&p->tile_count, memory_order_relaxed);
        if (!atomic_compare_exchange_weak_explicit(&p->state, &state, state - 1, memory_order_acq_rel,
                                                   memory_order_acquire))
            continue;
        tile(ctx, count - (uint32_t)state, index);
        atomic_fetch_add_explicit(&p->done, 1, memory_order_release);
        state = atomic_load_explicit(&p->state, memory_order_acquire);
    }
}

static bool has_work(pool *p)
{
    return (uint32_t)atomic_load(&p->state) != 0 || atomic_load(&p->closing);
}

/* True when there may be work, false when SPIN_US went by (or no step runs, where spinning is not wanted). */
static bool spin_for_work(pool *p)
{
    uint64_t until = 0;
    for (uint32_t i = 0; atomic_load_explicit(&p->in_step, memory_order_relaxed); i++) {
        if (has_work(p))
            return true;
        cpu_relax();
        if (i % SPINS_PER_CLOCK != 0)
            continue;
        uint64_t now = clock_now_us();
        if (until == 0)
            until = now + SPIN_US;
        if (now >= until)
            return false;
    }
    return has_work(p);
}

static void sleep_for_work(pool *p, uint32_t *step)
{
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add(&p->sleepers, 1);
    while (!has_work(p) && atomic_load(&p->step) == *step)
        pthread_cond_wait(&p->wake, &p->lock);
    atomic_fetch_sub(&p->sleepers, 1);
    *step = atomic_load(&p->step);
    pthread_mutex_unlock(&p->lock);
}

static void *worker_main(void *arg)
{
    worker *w = arg;
    pool *p = w->owner;
    uint32_t step = 0;
    cpu_os_lower_priority();
    while (!atomic_load(&p->closing)) {
        if (!spin_for_work(p))
            sleep_for_work(p, &step);
        drain(p, w->index);
    }
    return NULL;
}

static void wake_sleepers(pool *p)
{
    if (atomic_load(&p->sleepers) == 0)
        return;
    pthread_mutex_lock(&p->lock);
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
}

status pool_open(pool **out, uint32_t threads, error *err)
{
    if (threads == 0) {
        threads = cpu_os_cores();
        threads = threads > POOL_THREADS_MAX ? POOL_THREADS_MAX : threads;
    }
    if (threads > POOL_THREADS_MAX)
        return error_set(err, ERR_INVALID, "threads: %u, expected at most %d", threads, POOL_THREADS_MAX);
    pool *p = cpu_os_alloc(sizeof(*p));
    if (!p)
        return error_set(err, ERR_MEMORY, "worker pool: out of memory");
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL);
    p->threads = 1;
    p->workers = calloc(threads, sizeof(worker));
    p->scratch = calloc(threads, sizeof(void *));
    if (!p->workers || !p->scratch) {
        pool_close(p);
        return error_set(err, ERR_MEMORY, "worker pool: out of memory");
    }
    for (uint32_t i = 0; i + 1 < threads; i++) {
        p->workers[i] = (worker){.owner = p, .index = i + 1};
        if (pthread_create(&p->workers[i].thread, NULL, worker_main, &p->workers[i]) != 0) {
            pool_close(p);
            return error_set(err, ERR_LIMIT, "worker pool: the system refused thread %u of %u", i + 2, threads);
        }
        p->threads = i + 2;
    }
    *out = p;
    return OK;
}

void pool_close(pool *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    atomic_store(&p->closing, true);
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
    for (uint32_t i = 0; i + 1 < p->threads; i++)
        pthread_join(p->workers[i].thread, NULL);
    for (uint32_t i = 0; p->scratch && i < p->threads; i++)
        cpu_os_free(p->scratch[i], p->scratch_bytes);
    free(p->scratch);
    free(p->workers);
    pthread_cond_destroy(&p->wake);
    pthread_mutex_destroy(&p->lock);
    cpu_os_free(p, sizeof(*p));
}

uint32_t pool_threads(const pool *p)
{
    return p->threads;
}

void pool_run(pool *p, pool_tile tile, void *ctx, uint32_t tile_count)
{
    if (p->threads == 1 || tile_count <= 1) {
        for (uint32_t i = 0; i < tile_count; i++)
            tile(ctx, i, 0);
        return;
    }
    atomic_store_explicit(&p->tile, tile, memory_order_relaxed);
    atomic_store_explicit(&p->ctx, ctx, memory_order_relaxed);
    atomic_store_explicit(&p->tile_count, tile_count, memory_order_relaxed);
    atomic_store_explicit(&p->done, 0, memory_order_relaxed);
    uint64_t generation = (atomic_load_explicit(&p->state, memory_order_relaxed) >> 32) + 1;
    atomic_store(&p->state, generation << 32 | tile_count); /* in total order with `sleepers` */
    wake_sleepers(p);
    drain(p, 0);
    uint64_t spins = 0;
    while (atomic_load_explicit(&p->done, memory_order_acquire) != tile_count) {
        cpu_relax();
        if (++spins % 2048 == 0)
            cpu_os_yield();
    }
}

void pool_step_begin(pool *p)
{
    atomic_store(&p->in_step, true);
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add(&p->step, 1);
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
}

void pool_step_end(pool *p)
{
    atomic_store(&p->in_step, false);
}

status pool_reserve(pool *p, size_t bytes)
{
    if (bytes <= p->scratch_bytes)
        return OK;
    void *fresh[POOL_THREADS_MAX];
    for (uint32_t i = 0; i < p->threads; i++) {
        fresh[i] = cpu_os_alloc(bytes);
        if (fresh[i])
            continue;
        while (i-- > 0)
            cpu_os_free(fresh[i], bytes);
        return ERR_MEMORY;
    }
    for (uint32_t i = 0; i < p->threads; i++) {
        cpu_os_free(p->scratch[i], p->scratch_bytes);
        p->scratch[i] = fresh[i];
    }
    p->scratch_bytes = bytes;
    return OK;
}

void *pool_scratch(const pool *p, uint32_t worker)
{
    return p->scratch[worker];
}
