/* kernel_bench.c: how fast is each kernel here, and what share of the machine's roofs is that?
 * kernel_bench [table [threads [type]]]: for each type, 512 rows through the layer shapes of a small llama (GOP/s and
 * the tokens/s that its layers would give), and one row through enough matrices to leave the caches (GB/s, share of
 * read_roof). */
#include "base/clock.h"
#include "tensor/backend.h"
#include "tensor/quant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const dtype TYPES[] = {DT_F32,     DT_F16,     DT_BF16,    DT_Q4_0,        DT_Q4_1,  DT_Q5_0,
                              DT_Q5_1,    DT_Q8_0,    DT_Q2_K,    DT_Q3_K,        DT_Q4_K,  DT_Q5_K,
                              DT_Q6_K,    DT_IQ4_NL,  DT_IQ4_XS,  DT_MXFP4,       DT_MXFP8, DT_NVFP4,
                              DT_AFFINE4, DT_AFFINE6, DT_AFFINE8, DT_AFFINE4_BF16};
enum { TYPE_COUNT = sizeof(TYPES) / sizeof(TYPES[0]), HIDDEN = 768, FFN = 1536, ROWS = 512, REPEATS = 5 };
#define DECODE_BYTES ((size_t)100 << 20)

typedef struct {
    backend *b;
    buffer *x, *out;
    double roof;
} bench;

static weight *random_weight(backend *b, dtype type, uint32_t rows, uint32_t cols)
{
    size_t bytes = dtype_row_bytes(dtype_get(type), cols) * rows;
    uint8_t *raw = malloc(bytes);
    uint64_t s = 88172645463325252u;
    for (size_t i = 0; i < bytes; i++) {
        s ^= s << 13, s ^= s >> 7, s ^= s << 17;
        raw[i] = (uint8_t)(s >> 32) & 0x3b; /* no half of it is infinite or NaN */
    }
    weight *w = NULL;
    error err = {0};
    if (b->ops->weight_create(b, type, rows, cols, raw, &w, &err) != OK) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    free(raw);
    return w;
}

static void multiply(const bench *t, weight *const *w, uint32_t targets, uint32_t rows, uint32_t cols)
{
    matmul_args a = {.x = {t->x, 0, cols}, .rows = rows, .target_count = targets};
    for (uint32_t i = 0; i < targets; i++)
        a.targets[i] = (matmul_target){.w = w[i], .out = {t->out, (size_t)i * rows * FFN, FFN}};
    t->b->ops->matmul(t->b, &a);
}

/* q k v, o, gate up, down. */
static void layer(const bench *t, weight *const w[7], uint32_t rows)
{
    multiply(t, w, 3, rows, HIDDEN);
    multiply(t, w + 3, 1, rows, HIDDEN);
    multiply(t, w + 4, 2, rows, HIDDEN);
    multiply(t, w + 6, 1, rows, FFN);
}

static void bench_type(const bench *t, dtype type)
{
    static const uint32_t SHAPES[7][2] = {{HIDDEN, HIDDEN}, {256, HIDDEN}, {256, HIDDEN}, {HIDDEN, HIDDEN},
                                          {FFN, HIDDEN},    {FFN, HIDDEN}, {HIDDEN, FFN}};
    enum { LAYERS_MAX = 64 };
    weight *w[LAYERS_MAX][7];
    double weights = 0;
    size_t bytes = 0;
    uint32_t layers = 0;
    for (; layers < LAYERS_MAX && (layers == 0 || bytes < DECODE_BYTES); layers++)
        for (int i = 0; i < 7; i++) {
            w[layers][i] = random_weight(t->b, type, SHAPES[i][0], SHAPES[i][1]);
            bytes += t->b->ops->weight_bytes(w[layers][i]);
            weights += (double)SHAPES[i][0] * SHAPES[i][1];
        }
    uint64_t many = UINT64_MAX, one = UINT64_MAX, four = UINT64_MAX, sixteen = UINT64_MAX;
    t->b->ops->step_begin(t->b);
    for (int n = 0; n < REPEATS; n++) {
        uint64_t start = clock_now_us();
        for (uint32_t l = 0; l < 4; l++)
            layer(t, w[l % layers], ROWS);
        uint64_t spent = clock_now_us() - start;
        many = spent < many ? spent : many;
        static const uint32_t FEW[3] = {1, 4, 16};
        uint64_t *best[3] = {&one, &four, &sixteen};
        for (int i = 0; i < 3; i++) {
            start = clock_now_us();
            for (uint32_t l = 0; l < layers; l++)
                layer(t, w[l], FEW[i]);
            spent = clock_now_us() - start;
            *best[i] = spent < *best[i] ? spent : *best[i];
        }
    }
    t->b->ops->step_end(t->b);
    double ops = weights / layers * 4 * 2 * ROWS, rate = (double)bytes / 1e3 / (double)one;
    printf("%-7s %8.1f GOP/s %7.0f tok/s of 135M | 1 row %6.2f GB/s %4.0f%% | 4 rows x%.2f, 16 rows x%.2f of one row's "
           "time\n",
           dtype_get(type)->name, ops / 1e3 / (double)many, ops / (double)many * 1e6 / 212.3e6, rate,
           rate * 1e11 / t->roof, (double)four / (double)one, (double)sixteen / (double)one);
    fflush(stdout);
    for (uint32_t l = 0; l < layers; l++)
        for (int i = 0; i < 7; i++)
            t->b->ops->weight_destroy(t->b, w[l][i]);
}

int main(int argc, char **argv)
{
    bench t = {0};
    error err = {0};
    backend_config config = {.kernels = argc > 1 && strcmp(argv[1], "best") != 0 ? argv[1] : NULL,
                             .threads = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 2};
    if (cpu_backend_open(&t.b, &config, &err) != OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    t.b->ops->buffer_create(t.b, (size_t)ROWS * FFN, &t.x);
    t.b->ops->buffer_create(t.b, (size_t)3 * ROWS * FFN, &t.out);
    float *x = malloc(sizeof(float) * ROWS * FFN);
    for (size_t i = 0; i < (size_t)ROWS * FFN; i++)
        x[i] = (float)((i * 2654435761u >> 8) % 2001) / 1000 - 1;
    t.b->ops->upload(t.b, t.x, 0, x, (size_t)ROWS * FFN);
    t.roof = t.b->ops->read_roof(t.b, DECODE_BYTES);
    printf("%s, %u threads, read roof %.2f GB/s\n", t.b->kernels, t.b->threads, t.roof / 1e9);
    for (int i = 0; i < TYPE_COUNT; i++)
        if (argc < 4 || strcmp(argv[3], dtype_get(TYPES[i])->name) == 0)
            bench_type(&t, TYPES[i]);
    free(x);
    t.b->ops->buffer_destroy(t.b, t.x);
    t.b->ops->buffer_destroy(t.b, t.out);
    t.b->ops->close(t.b);
    return 0;
}
