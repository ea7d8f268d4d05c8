/* tensor/cpu/cpu_backend.c: opens the CPU as a backend, and its buffers. */
#include "tensor/cpu/cpu_backend.h"

#include "base/clock.h"
#include "tensor/cpu/cpu_matmul.h"
#include "tensor/cpu/cpu_ops.h"
#include "tensor/cpu/cpu_os.h"
#include "tensor/cpu/cpu_weight.h"
#include "tensor/cpu/matmul_kernels.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static status buffer_create(backend *self, size_t floats, buffer **out)
{
    (void)self;
    buffer *b = malloc(sizeof(*b));
    if (!b || floats > SIZE_MAX / sizeof(float) || !(b->data = cpu_os_alloc(floats * sizeof(float)))) {
        free(b);
        return ERR_MEMORY;
    }
    b->floats = floats;
    *out = b;
    return OK;
}

static void buffer_destroy(backend *self, buffer *b)
{
    (void)self;
    if (!b)
        return;
    cpu_os_free(b->data, b->floats * sizeof(float));
    free(b);
}

static void upload(backend *self, buffer *b, size_t offset, const float *src, size_t floats)
{
    (void)self;
    assert(offset <= b->floats && floats <= b->floats - offset);
    memcpy(b->data + offset, src, floats * sizeof(float));
}

enum { COPY_FLOATS = 64 << 10 }; /* of one tile of a large download */

typedef struct {
    float *to;
    const float *from;
    size_t floats;
} copy_job;

static void copy_tile(void *ctx, uint32_t index, uint32_t worker)
{
    (void)worker;
    const copy_job *job = ctx;
    size_t at = (size_t)index * COPY_FLOATS, left = job->floats - at;
    memcpy(job->to + at, job->from + at, (left < COPY_FLOATS ? left : COPY_FLOATS) * sizeof(float));
}

static void download(backend *self, const buffer *b, size_t offset, float *dst, size_t floats)
{
    assert(offset <= b->floats && floats <= b->floats - offset);
    copy_job job = {dst, b->data + offset, floats};
    pool_run(cpu_backend_of(self)->pool, copy_tile, &job, (uint32_t)((floats + COPY_FLOATS - 1) / COPY_FLOATS));
}

static status weight_create(backend *self, dtype type, uint32_t rows, uint32_t cols, const void *raw, weight **out,
                            error *err)
{
    cpu_backend *b = cpu_backend_of(self);
    status s = cpu_matmul_reserve(b, cols, err);
    weight_shape shape = {type, 1, rows, cols};
    return s == OK ? cpu_weight_create((weight_place){b->pool, &b->weights}, shape, raw, out, err) : s;
}

static status stack_create(backend *self, dtype type, uint32_t stack, uint32_t rows, uint32_t cols, weight **out,
                           error *err)
{
    cpu_backend *b = cpu_backend_of(self);
    weight_shape shape = {type, stack, rows, cols};
    status s = cpu_experts_reserve(b, rows, cols, err);
    return s == OK ? cpu_weight_create((weight_place){b->pool, &b->weights}, shape, NULL, out, err) : s;
}

static void weight_fill(backend *self, weight *w, uint32_t first, uint32_t rows, const void *raw)
{
    cpu_weight_fill(cpu_backend_of(self)->pool, w, first, rows, raw);
}

static void weight_destroy(backend *self, weight *w)
{
    cpu_weight_destroy(&cpu_backend_of(self)->weights, w);
}

static size_t weight_bytes(const weight *w)
{
    return w->bytes;
}

static void cpu_wait(backend *self)
{
    (void)self; /* every op has run when its call returned */
}

static void step_begin(backend *self)
{
    pool_step_begin(cpu_backend_of(self)->pool);
}

static void step_end(backend *self)
{
    pool_step_end(cpu_backend_of(self)->pool);
}

/* --- the roof --- */

enum { ROOF_CHUNK = 256 << 10, ROOF_RUNS = 7, ROOF_BYTES_MIN = 1 << 20 };
#define ROOF_BYTES_MAX ((size_t)1 << 30)

typedef struct {
    const cpu_backend *backend;
    const uint8_t *memory;
    size_t bytes;
    _Atomic uint64_t sum;
} roof_job;

static void roof_tile(void *ctx, uint32_t index, uint32_t worker)
{
    (void)worker;
    roof_job *job = ctx;
    size_t at = (size_t)index * ROOF_CHUNK, left = job->bytes - at;
    atomic_fetch_add(&job->sum,
                     job->backend->kernels.matmul->read_bytes(job->memory + at, left < ROOF_CHUNK ? left : ROOF_CHUNK));
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double read_roof(backend *self, size_t bytes)
{
    cpu_backend *b = cpu_backend_of(self);
    bytes = bytes < ROOF_BYTES_MIN ? ROOF_BYTES_MIN : bytes > ROOF_BYTES_MAX ? ROOF_BYTES_MAX : bytes;
    if (bytes == b->roof_bytes)
        return b->roof_rate;
    roof_job job = {.backend = b, .memory = cpu_os_alloc(bytes), .bytes = bytes};
    if (!job.memory)
        return 0;
    memset((void *)job.memory, 1, bytes);
    double rates[ROOF_RUNS];
    pool_step_begin(b->pool);
    for (int i = -1; i < ROOF_RUNS; i++) { /* run -1 warms the workers up */
        uint64_t start = clock_now_us();
        pool_run(b->pool, roof_tile, &job, (uint32_t)((bytes - 1) / ROOF_CHUNK + 1));
        uint64_t spent = clock_now_us() - start;
        if (i >= 0)
            rates[i] = (double)bytes * 1e6 / (double)(spent ? spent : 1);
    }
    pool_step_end(b->pool);
    cpu_os_free((void *)job.memory, bytes);
    qsort(rates, ROOF_RUNS, sizeof(rates[0]), compare_doubles);
    b->roof_bytes = bytes;
    b->roof_rate = rates[ROOF_RUNS / 2];
    return b->roof_rate;
}

/* --- open and close --- */

static void cpu_close(backend *self)
{
    cpu_backend *b = cpu_backend_of(self);
    cpu_ops_close(b);
    cpu_experts_close(b);
    cpu_matmul_close(b);
    pool_close(b->pool);
    free(b);
}

static const backend_ops CPU_OPS = {
    .name = "cpu",
    .buffer_create = buffer_create,
    .buffer_destroy = buffer_destroy,
    .upload = upload,
    .download = download,
    .weight_create = weight_create,
    .weight_fill = weight_fill,
    .stack_create = stack_create,
    .weight_destroy = weight_destroy,
    .weight_bytes = weight_bytes,
    .kv_create = cpu_kv_create,
    .kv_destroy = cpu_kv_destroy,
    .kv_page_bytes = cpu_kv_page_bytes,
    .state_create = cpu_state_create,
    .state_destroy = cpu_state_destroy,
    .state_bytes = cpu_state_bytes,
    .state_save = cpu_state_save,
    .state_load = cpu_state_load,
    .kv_page_at = cpu_kv_page_at,
    .kv_page_read = cpu_kv_page_read,
    .kv_pages_touch = cpu_kv_pages_touch,
    .kv_page_write = cpu_kv_page_write,
    .matmul = cpu_matmul,
    .get_rows = cpu_get_rows,
    .rms_norm = cpu_rms_norm,
    .rope = cpu_rope,
    .kv_write = cpu_kv_write,
    .attend = cpu_attend,
    .act_mul = cpu_act_mul,
    .add = cpu_add,
    .sigmoid_mul = cpu_sigmoid_mul,
    .route = cpu_route,
    .experts = cpu_experts,
    .delta = cpu_delta,
    .wait = cpu_wait,
    .step_begin = step_begin,
    .step_end = step_end,
    .read_roof = read_roof,
    .close = cpu_close,
};

status cpu_backend_open(backend **out, const backend_config *config, error *err)
{
    cpu_backend *b = calloc(1, sizeof(*b));
    if (!b)
        return error_set(err, ERR_MEMORY, "CPU backend: out of memory");
    status s = cpu_kernels_choose(config->kernels, &b->kernels, err);
    if (s == OK)
        s = pool_open(&b->pool, config->threads, err);
    if (s == OK) {
        b->base = (backend){.ops = &CPU_OPS, .kernels = b->kernels.name, .threads = pool_threads(b->pool)};
        s = cpu_matmul_open(b, err);
    }
    if (s == OK)
        s = cpu_ops_open(b, err);
    if (s != OK) {
        if (b->pool)
            cpu_close(&b->base);
        else
            free(b);
        return s;
    }
    *out = &b->base;
    return OK;
}
