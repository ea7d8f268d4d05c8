/* hybrid_bench.c: how near the read roof are routed experts and the recurrent state, on a machine that is not quiet?
 * hybrid_bench [type [table [threads]]]: the 35B-A3B's width (hidden 2048, 256 experts of 512, top 8; 16 key and 32
 * value heads of 128). Each figure is the best of many short runs, the roof's runs between them. */
#include "base/clock.h"
#include "base/rng.h"
#include "tensor/backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { HIDDEN = 2048, FFN = 512, EXPERTS = 256, USED = 8, ROWS = 2048, LAYERS = 4, RUNS = 300 };
enum { KEY_HEADS = 16, VALUE_HEADS = 32, DIM = 128, TAPS = 4, INNER = VALUE_HEADS * DIM, CHANNELS = 2 * INNER };

typedef struct {
    backend *b;
    weight *stacks[LAYERS][3]; /* a layer's gate, up, down */
    buffer *x, *out, *logits, *picks;
    rng r;
} bench;

/* On one thread its own time: what others take of the core does not count. */
static double now_us(const bench *t)
{
    struct timespec now;
    if (t->b->threads > 1)
        return (double)clock_now_us();
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static buffer *floats(backend *b, size_t count, rng *r)
{
    buffer *to = NULL;
    float *v = malloc(count * sizeof *v);
    for (size_t i = 0; i < count; i++)
        v[i] = (float)rng_unit(r) * 2 - 1;
    if (b->ops->buffer_create(b, count, &to))
        exit(1);
    b->ops->upload(b, to, 0, v, count);
    free(v);
    return to;
}

static weight *stack_of(bench *t, dtype type, uint32_t rows, uint32_t cols)
{
    weight *w = NULL;
    error err = {0};
    size_t bytes = rows * dtype_row_bytes(dtype_get(type), cols);
    uint8_t *raw = malloc(bytes);
    for (size_t i = 0; i < bytes; i++)
        raw[i] = (uint8_t)rng_below(&t->r, 256) & 0x3b; /* no half of it is infinite or NaN */
    if (t->b->ops->stack_create(t->b, type, EXPERTS, rows, cols, &w, &err)) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    for (uint32_t e = 0; e < EXPERTS; e++)
        t->b->ops->weight_fill(t->b, w, e * rows, rows, raw);
    free(raw);
    return w;
}

static double experts_us(bench *t, uint32_t layer, uint32_t rows, uint32_t *touched_count)
{
    uint8_t touched[EXPERTS] = {0};
    experts_args a = {.x = {t->x, 0, HIDDEN}, .out = {t->out, 0, HIDDEN}, .rows = rows, .used = USED, .end = EXPERTS};
    a.picks = (view){t->picks, 0, 2 * USED}, a.touched = touched;
    view logits = {t->logits, rng_below(&t->r, 64) * EXPERTS, EXPERTS};
    a.gate = t->stacks[layer][0], a.up = t->stacks[layer][1], a.down = t->stacks[layer][2];
    double start = now_us(t);
    t->b->ops->route(t->b, &(route_args){logits, a.picks, rows, EXPERTS, USED, true});
    t->b->ops->experts(t->b, &a);
    double us = now_us(t) - start;
    for (uint32_t e = 0; e < EXPERTS; e++)
        *touched_count += touched[e];
    return us;
}

/* The best of many runs, each of experts that other runs have pushed out of the caches. */
static void bench_experts(bench *t, uint32_t rows, uint32_t runs)
{
    double best = 0, flops = 0, one = 0;
    for (int s = 0; s < 3; s++)
        one += (double)t->b->ops->weight_bytes(t->stacks[0][s]) / EXPERTS;
    for (uint32_t i = 0; i < runs; i++) {
        uint32_t touched = 0;
        double us = experts_us(t, i % LAYERS, rows, &touched), rate = touched * one / us * 1e-3;
        double work = 6.0 * rows * USED * HIDDEN * FFN / us * 1e-3;
        best = rate > best ? rate : best;
        flops = work > flops ? work : flops;
    }
    printf("experts, %3u rows: %6.1f GB/s of touched weights, %7.1f GOP/s\n", rows, best, flops);
}

static void bench_delta(bench *t, uint32_t segments, uint32_t rows, uint32_t runs)
{
    error err = {0};
    state_cache *cache = NULL;
    state_config config = {30, segments, KEY_HEADS, VALUE_HEADS, DIM, DIM, TAPS};
    if (t->b->ops->state_create(t->b, &config, &cache, &err))
        exit(1);
    uint32_t all = segments * rows;
    buffer *qkv = floats(t->b, (size_t)all * CHANNELS, &t->r), *z = floats(t->b, (size_t)all * INNER, &t->r);
    buffer *a = floats(t->b, (size_t)all * VALUE_HEADS, &t->r), *conv = floats(t->b, TAPS * CHANNELS, &t->r);
    buffer *one = floats(t->b, VALUE_HEADS + DIM, &t->r), *out = floats(t->b, (size_t)all * INNER, &t->r);
    state_segment *s = calloc(segments, sizeof *s);
    for (uint32_t i = 0; i < segments; i++)
        s[i] = (state_segment){i, 100, i * rows, rows};
    double best = 1e30, bytes = 2.0 * (double)t->b->ops->state_bytes(&config) / config.layers * segments;
    for (uint32_t i = 0; i < runs; i++) {
        delta_args d = {.cache = cache, .layer = i % 30, .qkv = {qkv, 0, CHANNELS}, .z = {z, 0, INNER}};
        d.out = (view){out, 0, INNER}, d.a = d.b = (view){a, 0, VALUE_HEADS}, d.conv = conv;
        d.dt = d.decay = d.norm = one, d.eps = 1e-6f, d.segments = s, d.segment_count = segments;
        double start = now_us(t);
        t->b->ops->delta(t->b, &d);
        double us = now_us(t) - start;
        best = us < best ? us : best;
    }
    printf("delta, %2u sequences of %3u: %8.1f us, %6.1f GB/s of state, %6.1f GFLOP/s\n", segments, rows, best,
           bytes / best * 1e-3, 8.0 * all * VALUE_HEADS * DIM * DIM / best * 1e-3);
    free(s);
    t->b->ops->state_destroy(t->b, cache);
}

static dtype type_named(const char *name)
{
    for (uint32_t id = 0; id < DT_COUNT; id++)
        if (dtype_get(id) && !strcmp(dtype_get(id)->name, name))
            return (dtype)id;
    fprintf(stderr, "hybrid_bench: no type %s\n", name);
    exit(2);
}

int main(int argc, char **argv)
{
    error err = {0};
    bench t = {.r = {1}};
    dtype type = argc > 1 ? type_named(argv[1]) : DT_Q8_0;
    backend_config config = {argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 0, argc > 2 ? argv[2] : NULL};
    if (cpu_backend_open(&t.b, &config, &err))
        return fprintf(stderr, "%s\n", err.text), 1;
    for (int l = 0; l < LAYERS; l++)
        for (int s = 0; s < 3; s++)
            t.stacks[l][s] = stack_of(&t, type, s < 2 ? FFN : HIDDEN, s < 2 ? HIDDEN : FFN);
    t.x = floats(t.b, ROWS * HIDDEN, &t.r);
    t.out = floats(t.b, ROWS * HIDDEN, &t.r);
    t.logits = floats(t.b, (ROWS + 64) * EXPERTS, &t.r);
    t.picks = floats(t.b, ROWS * 2 * USED, &t.r);
    double roof = 0;
    t.b->ops->step_begin(t.b);
    for (int i = 0; i < 8; i++) { /* another size each time: the last one's figure is kept */
        double now = t.b->ops->read_roof(t.b, (256u << 20) + (size_t)i * 4096);
        roof = now > roof ? now : roof;
        t.b->ops->step_begin(t.b);
    }
    printf("%s, %u threads, %s; read roof %.1f GB/s\n", t.b->kernels, t.b->threads, dtype_get(type)->name, roof * 1e-9);
    static const uint32_t FEW[] = {1, 2, 4, 8, 16, 32};
    for (size_t i = 0; i < sizeof FEW / sizeof FEW[0]; i++)
        bench_experts(&t, FEW[i], RUNS / FEW[i] + 20);
    bench_experts(&t, 128, 12);
    bench_experts(&t, 512, 8);
    bench_experts(&t, 2048, 3);
    bench_delta(&t, 1, 1, RUNS);
    bench_delta(&t, 8, 1, RUNS / 4);
    bench_delta(&t, 1, 128, 20);
    t.b->ops->step_end(t.b);
    t.b->ops->close(t.b);
    return 0;
}
