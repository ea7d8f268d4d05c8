/* How fast is attention? SmolLM2's shape (9 heads on 3 KV heads of 64 channels, 30 layers): a whole prompt at once, the
 * last chunk of a long prompt, a short turn behind it, and one decode step at depth 4096, for 1 and 2 threads. Other
 * shapes: arguments HEADS KV_HEADS HEAD_DIM LAYERS. HEADWAY_CPU picks the kernels, ATTEND_KV the type (f16, bf16, q8,
 * q4). Prints the best of several runs. */
#include "base/clock.h"
#include "unit/tensor/attend_fixture.h"

#include <time.h>

enum { DEPTH = 4096, PAGES = DEPTH / KV_PAGE_TOKENS + 1 };

typedef struct {
    fixture f;
    buffer q, k, v, out;
    uint32_t pages[PAGES];
} bench;

/* All threads' time on a core: what a busy machine does not add to. */
static double cpu_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void attend_once(bench *b, uint32_t layer, uint32_t position, uint32_t rows)
{
    shape s = b->f.s;
    kv_segment segment = {b->pages, position, 0, rows};
    size_t q_width = (size_t)s.heads * s.dim;
    attend_args a = {b->f.cache, layer, {&b->q, 0, q_width}, {&b->out, 0, q_width}, s.heads, &segment, 1, 0.125f, 0, 0};
    cpu_attend(&b->f.cpu.base, &a);
}

static void fill(bench *b)
{
    shape s = b->f.s;
    size_t q_width = (size_t)s.heads * s.dim, k_width = (size_t)s.kv_heads * s.dim;
    b->q = buffer_of(DEPTH * q_width);
    b->out = buffer_of(DEPTH * q_width);
    b->k = buffer_of((DEPTH + 1) * k_width);
    b->v = buffer_of((DEPTH + 1) * k_width);
    for (size_t i = 0; i < DEPTH * q_width; i++)
        b->q.data[i] = random_normal(&b->f.state);
    for (size_t i = 0; i < (DEPTH + 1) * k_width; i++) {
        b->k.data[i] = random_normal(&b->f.state);
        b->v.data[i] = random_normal(&b->f.state);
    }
    for (uint32_t i = 0; i < PAGES; i++)
        b->pages[i] = (i * 37) % PAGES;
    kv_segment all = {b->pages, 0, 0, DEPTH + 1};
    uint64_t start = clock_now_us();
    for (uint32_t layer = 0; layer < s.layers; layer++)
        cpu_kv_write(&b->f.cpu.base,
                     &(kv_write_args){b->f.cache, layer, {&b->k, 0, k_width}, {&b->v, 0, k_width}, &all, 1});
    printf("  kv_write of %d tokens, all layers, first touch: %.1f ms\n", DEPTH + 1,
           (double)(clock_now_us() - start) / 1e3);
}

static void prefill(bench *b, uint32_t position, uint32_t rows)
{
    double best = 1e30, cpu_best = 1e30, keys = 0;
    for (uint32_t i = 0; i < rows; i++)
        keys += position + i + 1;
    for (int run = 0; run < 5; run++) {
        uint64_t start = clock_now_us();
        double cpu_start = cpu_us();
        attend_once(b, 0, position, rows);
        double us = (double)(clock_now_us() - start);
        double cpu = cpu_us() - cpu_start;
        cpu_best = cpu < cpu_best ? cpu : cpu_best;
        best = us < best ? us : best;
    }
    double flops = keys * 4 * b->f.s.dim * b->f.s.heads;
    printf("  rows %u to %u: %.2f ms a layer, %.1f GFLOP/s; %.1f GFLOP per CPU second\n", position, position + rows,
           best / 1e3, flops / best / 1e3, flops / cpu_best / 1e3);
}

static void decode(bench *b)
{
    double best = 1e30, cpu_best = 1e30;
    for (int run = 0; run < 20; run++) {
        pool_step_begin(b->f.cpu.pool);
        uint64_t start = clock_now_us();
        double cpu_start = cpu_us();
        for (uint32_t layer = 0; layer < b->f.s.layers; layer++)
            attend_once(b, layer, DEPTH, 1);
        double us = (double)(clock_now_us() - start);
        double cpu = cpu_us() - cpu_start;
        cpu_best = cpu < cpu_best ? cpu : cpu_best;
        pool_step_end(b->f.cpu.pool);
        best = us < best ? us : best;
    }
    double bytes = (double)cpu_kv_page_bytes(&b->f.cache->config) * (DEPTH + 1) / KV_PAGE_TOKENS;
    printf("  decode at depth %d: %.2f ms a token, %.1f MB of KV, %.1f GB/s; %.2f CPU ms\n", DEPTH, best / 1e3,
           bytes / 1e6, bytes / best / 1e3, cpu_best / 1e3);
}

int main(int argc, char **argv)
{
    shape s = {9, 3, 64, 30, 0, 0};
    if (argc == 5)
        s = (shape){(uint32_t)strtoul(argv[1], NULL, 10),
                    (uint32_t)strtoul(argv[2], NULL, 10),
                    (uint32_t)strtoul(argv[3], NULL, 10),
                    (uint32_t)strtoul(argv[4], NULL, 10),
                    0,
                    0};
    static const char *const types[] = {"f16", "bf16", "q8", "q4", "f32"};
    kv_type type = KV_F16;
    for (uint32_t i = 0; i < KV_TYPES; i++)
        type = getenv("ATTEND_KV") && strcmp(getenv("ATTEND_KV"), types[i]) == 0 ? (kv_type)i : type;
    for (uint32_t threads = 1; threads <= 2; threads++) {
        bench b;
        if (!fixture_open(&b.f, getenv("HEADWAY_CPU"), threads, s, type, PAGES))
            return 1;
        printf("%s, KV %s, %u thread%s, %u heads on %u of %u channels, %u layers\n", b.f.cpu.kernels.name, types[type],
               threads, threads > 1 ? "s" : "", s.heads, s.kv_heads, s.dim, s.layers);
        fill(&b);
        prefill(&b, 0, 512);
        prefill(&b, DEPTH - 512, 512);
        prefill(&b, DEPTH - 32, 32);
        prefill(&b, 0, DEPTH);
        decode(&b);
        fixture_close(&b.f);
        free(b.q.data), free(b.k.data), free(b.v.data), free(b.out.data);
    }
    return 0;
}
