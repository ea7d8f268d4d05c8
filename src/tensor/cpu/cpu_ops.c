/* Norm, rope, activations and addition: independent rows. Few floats run on the caller and wake nobody. */
#include "tensor/cpu/cpu_ops.h"
#include "tensor/cpu/float_kernels.h"

#include <math.h>
#include <string.h>

enum {
    TILE_FLOATS = 16384, /* floats of one tile, about; at most this many run on the caller alone */
    ROTARY_MAX = 2 * ATTEND_DIM_MAX,
};

typedef struct {
    const float_kernels *kernels;
    const void *args;
    pool *pool;
    uint32_t tile_rows;
} row_job;

static row_job job_of(backend *self, const void *args, uint32_t tile_rows)
{
    cpu_backend *cpu = cpu_backend_of(self);
    return (row_job){cpu->kernels.floats, args, cpu->pool, tile_rows};
}

static void run_rows(pool_tile tile, row_job *job, uint32_t rows)
{
    uint32_t tiles = (rows + job->tile_rows - 1) / job->tile_rows;
    if (tiles == 1)
        tile(job, 0, 0);
    else if (tiles)
        pool_run(job->pool, tile, job, tiles);
}

static uint32_t rows_per_tile(size_t width)
{
    return width >= TILE_FLOATS ? 1 : (uint32_t)(TILE_FLOATS / (width ? width : 1));
}

static uint32_t tile_end(uint32_t index, uint32_t tile_rows, uint32_t rows)
{
    return rows - index * tile_rows < tile_rows ? rows : (index + 1) * tile_rows;
}

static void rms_norm_tile(void *ctx, uint32_t index, uint32_t worker)
{
    (void)worker;
    const row_job *job = ctx;
    const rms_norm_args *a = job->args;
    uint32_t end = tile_end(index, job->tile_rows, a->rows);
    for (uint32_t r = index * job->tile_rows; r < end; r++) {
        const float *x = view_row(a->x, r);
        float *out = view_row(a->out, r);
        for (uint32_t g = 0; g < a->groups; g++)
            job->kernels->rms_norm(out + (size_t)g * a->dim, x + (size_t)g * a->dim, a->weight->data, a->dim, a->eps);
    }
}

void cpu_rms_norm(backend *self, const rms_norm_args *a)
{
    row_job job = job_of(self, a, rows_per_tile((size_t)a->groups * a->dim));
    run_rows(rms_norm_tile, &job, a->rows);
}

static void rope_tile(void *ctx, uint32_t index, uint32_t worker)
{
    const row_job *job = ctx;
    const rope_args *a = job->args;
    uint32_t end = tile_end(index, job->tile_rows, a->rows), n = a->rotary / 2;
    float *cosines = pool_scratch(job->pool, worker), *sines = cosines + ROTARY_MAX / 2;
    for (uint32_t r = index * job->tile_rows; r < end; r++) {
        float *x = view_row(a->x, r);
        job->kernels->rope_angles(cosines, sines, a->inv_freq, n, a->positions[r], a->factor);
        for (uint32_t h = 0; h < a->heads; h++)
            job->kernels->rope_turn(x + (size_t)h * a->head_dim, cosines, sines, n, a->interleaved);
    }
}

void cpu_rope(backend *self, const rope_args *a)
{
    row_job job = job_of(self, a, rows_per_tile((size_t)a->heads * a->head_dim));
    run_rows(rope_tile, &job, a->rows);
}

static void act_mul_tile(void *ctx, uint32_t index, uint32_t worker)
{
    (void)worker;
    const row_job *job = ctx;
    const act_mul_args *a = job->args;
    uint32_t end = tile_end(index, job->tile_rows, a->rows);
    for (uint32_t r = index * job->tile_rows; r < end; r++)
        job->kernels->act_mul(view_row(a->out, r), view_row(a->gate, r), view_row(a->up, r), a->dim, a->act);
}

void cpu_act_mul(backend *self, const act_mul_args *a)
{
    row_job job = job_of(self, a, rows_per_tile(a->dim));
    run_rows(act_mul_tile, &job, a->rows);
}

static void add_tile(void *ctx, uint32_t index, uint32_t worker)
{
    (void)worker;
    const row_job *job = ctx;
    const add_args *a = job->args;
    uint32_t end = tile_end(index, job->tile_rows, a->rows);
    for (uint32_t r = index * job->tile_rows; r < end; r++)
        job->kernels->add(view_row(a->out, r), view_row(a->x, r), a->dim);
}

void cpu_add(backend *self, const add_args *a)
{
    row_job job = job_of(self, a, rows_per_tile(a->dim));
    run_rows(add_tile, &job, a->rows);
}

static void sigmoid_mul_tile(void *ctx, uint32_t index, uint32_t worker)
{
    (void)worker;
    const row_job *job = ctx;
    const sigmoid_mul_args *a = job->args;
    uint32_t end = tile_end(index, job->tile_rows, a->rows);
    for (uint32_t r = index * job->tile_rows; r < end; r++) {
        float *x = view_row(a->x, r);
        const float *gate = view_row(a->gate, r);
        float share = a->per_row ? 1.0f / (1.0f + expf(-*gate)) : 0;
        if (!a->per_row)
            job->kernels->sigmoid_mul(x, gate, a->dim);
        for (uint32_t i = 0; a->per_row && i < a->dim; i++)
            x[i] *= share;
    }
}

void cpu_sigmoid_mul(backend *self, const sigmoid_mul_args *a)
{
    row_job job = job_of(self, a, rows_per_tile(a->dim));
    run_rows(sigmoid_mul_tile, &job, a->rows);
}

status cpu_ops_open(cpu_backend *self, error *err)
{
    if (pool_reserve(self->pool, ROTARY_MAX * sizeof(float)))
        return error_set(err, ERR_MEMORY, "CPU backend: cannot reserve scratch");
    return OK;
}

void cpu_ops_close(cpu_backend *self)
{
    (void)self;
}

const float_kernels *float_kernels_named(const char *name)
{
    static const struct {
        const char *name;
        const float_kernels *kernels;
    } tables[] = {
        {"generic", &float_kernels_generic},
#if defined(__x86_64__)
        {"avx2", &float_kernels_avx2},
        {"avx512", &float_kernels_avx512},
#elif defined(__aarch64__)
        {"neon", &float_kernels_neon},
#endif
    };
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
        if (!strcmp(tables[i].name, name))
            return tables[i].kernels;
    return NULL;
}
