/* A CPU backend's op side alone: pool, kernels of one instruction set, a KV cache, and sequences with random K and V.
 */
#ifndef TESTS_ATTEND_FIXTURE_H
#define TESTS_ATTEND_FIXTURE_H

#include "tensor/cpu/cpu_ops.h"
#include "tensor/cpu/cpu_kv.h"
#include "tensor/cpu/generic/half.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    uint32_t heads, kv_heads, dim, layers, window;
    float softcap;
} shape;

typedef struct {
    cpu_backend cpu;
    kv_cache *cache;
    shape s;
    kv_type type;
    uint64_t state;
} fixture;

static inline uint32_t random_u32(uint64_t *state)
{
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(*state >> 33) ^ (uint32_t)(*state >> 20 & 0x7ff);
}
static inline uint32_t random_below(uint64_t *state, uint32_t n)
{
    return random_u32(state) % n;
}
/* About normal, deviation 1. */
static inline float random_normal(uint64_t *state)
{
    float sum = 0;
    for (int i = 0; i < 6; i++)
        sum += (float)(random_u32(state) & 0xffff) / 65536.0f - 0.5f;
    return sum * 1.414f;
}

static inline bool fixture_open(fixture *f, const char *kernels, uint32_t threads, shape s, kv_type type,
                                uint32_t page_count)
{
    error err = {0};
    *f = (fixture){.s = s, .type = type, .state = 1};
    if (cpu_kernels_choose(kernels, &f->cpu.kernels, &err))
        return false;
    if (pool_open(&f->cpu.pool, threads, &err) || cpu_ops_open(&f->cpu, &err)) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
    kv_cache_config config = {s.layers, s.kv_heads, s.dim, page_count, false, type};
    if (cpu_kv_create(&f->cpu.base, &config, &f->cache, &err)) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
    return true;
}

static inline void fixture_close(fixture *f)
{
    cpu_kv_destroy(&f->cpu.base, f->cache);
    cpu_ops_close(&f->cpu);
    pool_close(f->cpu.pool);
}

static inline buffer buffer_of(size_t floats)
{
    buffer b = {.data = aligned_alloc(64, (floats * 4 + 127) / 64 * 64), .floats = floats};
    memset(b.data, 0, floats * 4);
    return b;
}

static inline float *random_floats(uint64_t *state, size_t n, float deviation)
{
    float *x = malloc(n * sizeof(float));
    for (size_t i = 0; i < n; i++)
        x[i] = random_normal(state) * deviation;
    return x;
}

#endif
