/* tensor/cpu/cpu_matmul.c: first all rows are packed into tiles (once per form that the targets need), then panels meet
 * tiles. Rows go through in runs that fit the activation scratch, and within a run in bands that stay in a core's L2
 * while a panel passes over them. How it is cut never shows in the result: matmul_kernels.h fixes each element's
 * arithmetic. */
#include "tensor/cpu/cpu_matmul.h"

#include "tensor/cpu/cpu_os.h"
#include "tensor/cpu/cpu_tiles.h"

#include <assert.h>
#include <string.h>

enum {
    SCRATCH_BYTES = 8 << 20, /* of packed activations at once */
    BAND_BYTES = 512 << 10,  /* of them per band */
    UNIT_COST = 4 << 20,     /* multiply-adds worth claiming as one tile of the pool */
    UNPACK_COST = 6,         /* of a panel, in rows of multiply-adds */
    AHEAD_TILES = 4,         /* that share the asking for the next panel */
    UNITS_PER_THREAD = 3,    /* at least, where there are panels enough */
    PACK_INLINE = 8192,      /* elements packed by the caller alone */
    FORMS_MAX = MATMUL_TARGETS_MAX,
};

/* One packed copy of the rows. */
typedef struct {
    tile_form form;
    uint8_t *tiles;
    size_t tile_bytes;
} packing;

typedef struct {
    cpu_backend *backend;
    const matmul_args *args;
    uint32_t row_start, rows; /* this run */
    uint32_t cols;
    packing packings[FORMS_MAX];
    uint32_t packing_count;
    uint32_t tiles, tile_rows; /* rows per tile, evened out: at most TILE_ROWS, the last tile may have fewer */
    uint32_t packing_of[MATMUL_TARGETS_MAX];
    uint32_t band_tiles; /* tiles per band */
    uint32_t chunk;      /* panels per unit */
    uint32_t chunks[MATMUL_TARGETS_MAX];
    uint32_t chunk_count; /* over all targets */
} matmul_job;

status cpu_matmul_open(cpu_backend *self, error *err)
{
    self->activations.bytes = SCRATCH_BYTES;
    self->activations.memory = cpu_os_alloc(SCRATCH_BYTES);
    return self->activations.memory ? OK : error_set(err, ERR_MEMORY, "matmul scratch: out of memory");
}

void cpu_matmul_close(cpu_backend *self)
{
    cpu_os_free(self->activations.memory, self->activations.bytes);
    self->activations.memory = NULL;
}

status cpu_matmul_reserve(cpu_backend *self, uint32_t cols, error *err)
{
    size_t need = FORMS_MAX * tile_form_bytes((tile_form){.kind = ROWS_F32}, cols);
    if (need <= self->activations.bytes)
        return OK;
    void *memory = cpu_os_alloc(need);
    if (!memory)
        return error_set(err, ERR_MEMORY, "matmul scratch for %u columns: out of memory", cols);
    cpu_matmul_close(self);
    self->activations = (cpu_scratch){memory, need};
    return OK;
}

/* --- what to do --- */

static uint32_t find_packing(matmul_job *job, const weight *w)
{
    packing want = {.form = tile_form_of(&job->backend->kernels, w)};
    for (uint32_t i = 0; i < job->packing_count; i++)
        if (tile_form_equal(job->packings[i].form, want.form))
            return i;
    want.tile_bytes = tile_form_bytes(want.form, job->cols);
    job->packings[job->packing_count] = want;
    return job->packing_count++;
}

/* Rows per run, from the scratch; lays the packings out in it. */
static uint32_t plan_run(matmul_job *job)
{
    size_t all = 0;
    for (uint32_t i = 0; i < job->packing_count; i++)
        all += job->packings[i].tile_bytes;
    size_t tiles = job->backend->activations.bytes / all;
    size_t wanted = (job->args->rows + TILE_ROWS - 1) / TILE_ROWS;
    tiles = tiles > wanted ? wanted : tiles;
    assert(tiles > 0);
    uint8_t *at = job->backend->activations.memory;
    for (uint32_t i = 0; i < job->packing_count; i++) {
        job->packings[i].tiles = at;
        at += tiles * job->packings[i].tile_bytes;
    }
    return (uint32_t)tiles * TILE_ROWS;
}

static void plan_units(matmul_job *job)
{
    size_t widest = 0;
    for (uint32_t i = 0; i < job->packing_count; i++)
        widest = job->packings[i].tile_bytes > widest ? job->packings[i].tile_bytes : widest;
    job->tiles = (job->rows + TILE_ROWS - 1) / TILE_ROWS;
    job->tile_rows = (job->rows + job->tiles - 1) / job->tiles;
    if (job->rows <= job->backend->kernels.matmul->wide_rows)
        job->tile_rows = (job->tile_rows + TILE_ROWS_STEP - 1) / TILE_ROWS_STEP * TILE_ROWS_STEP;
    size_t fit = BAND_BYTES / widest;
    job->band_tiles = fit < 1 ? 1 : fit > job->tiles ? job->tiles : (uint32_t)fit;
    uint32_t band_rows = job->band_tiles * job->tile_rows < job->rows ? job->band_tiles * job->tile_rows : job->rows;
    uint64_t panel_cost = (uint64_t)job->cols * PANEL_ROWS * (band_rows + UNPACK_COST);
    uint64_t panels = 0;
    for (uint32_t t = 0; t < job->args->target_count; t++)
        panels += job->args->targets[t].w->panels;
    uint64_t chunk = UNIT_COST / panel_cost + 1;
    uint64_t fair = panels / (job->backend->base.threads * UNITS_PER_THREAD) + 1;
    job->chunk = (uint32_t)(chunk < fair ? chunk : fair);
    job->chunk_count = 0;
    for (uint32_t t = 0; t < job->args->target_count; t++) {
        job->chunks[t] = (job->args->targets[t].w->panels - 1) / job->chunk + 1;
        job->chunk_count += job->chunks[t];
    }
}

/* --- packing rows --- */

static void pack_tile(void *ctx, uint32_t index, uint32_t worker)
{
    (void)worker;
    const matmul_job *job = ctx;
    const packing *p = &job->packings[index / job->tiles];
    uint32_t tile = index % job->tiles, row = tile * job->tile_rows;
    uint32_t rows = job->rows - row < job->tile_rows ? job->rows - row : job->tile_rows;
    const float *x[TILE_ROWS];
    for (uint32_t r = 0; r < rows; r++)
        x[r] = view_row(job->args->x, job->row_start + row + r);
    tile_pack(&job->backend->kernels, p->form, x, rows, job->cols, p->tiles + tile * p->tile_bytes);
}

static void pack_rows(matmul_job *job)
{
    uint32_t count = job->packing_count * job->tiles;
    if ((uint64_t)job->rows * job->cols * job->packing_count > PACK_INLINE) {
        pool_run(job->backend->pool, pack_tile, job, count);
        return;
    }
    for (uint32_t i = 0; i < count; i++)
        pack_tile(job, i, 0);
}

/* --- panels over tiles --- */

typedef struct {
    const matmul_target *target;
    const packing *packing;
    uint32_t panel, tile_start, tile_end; /* of the run's tiles */
} band_work;

static panel_out output_of(const matmul_job *job, const band_work *work, uint32_t tile)
{
    const matmul_target *t = work->target;
    uint32_t column = work->panel * PANEL_ROWS, left = t->w->rows - column;
    return (panel_out){
        .out = view_row(t->out, job->row_start + tile * job->tile_rows) + column,
        .stride = t->out.stride,
        .bias = t->bias ? t->bias->data + column : NULL,
        .lanes = left < PANEL_ROWS ? left : PANEL_ROWS,
        .add = t->add,
    };
}

static panel panel_in(void *scratch, uint32_t cols)
{
    uint8_t *at = scratch;
    size_t floats = ((size_t)cols + 63) & ~(size_t)63; /* 16 per group of 16 at most */
    return (panel){.scales = (float *)at, .mins = (float *)at + floats, .codes = at + 8 * floats};
}

static void run_panel(const matmul_job *job, const band_work *work, void *scratch)
{
    const matmul_kernels *k = job->backend->kernels.matmul;
    const weight *w = work->target->w;
    uint32_t last_row = work->tile_end * job->tile_rows < job->rows ? work->tile_end * job->tile_rows : job->rows;
    uint32_t band_rows = last_row - work->tile_start * job->tile_rows;
    const uint8_t *tiles_at = work->packing->tiles + work->tile_start * work->packing->tile_bytes;
    bool fused = w->format && band_rows <= k->fused_rows, halves = work->packing->form.kind == ROWS_BF16;
    if (halves || (w->format && !fused && band_rows <= k->wide_rows)) {
        tile_run run = {tiles_at, work->packing->tile_bytes, job->tile_rows, band_rows};
        panel_out to = output_of(job, work, work->tile_start);
        (halves ? job->backend->kernels.bf16->dot : k->dot_wide)(w, work->panel, &run, &to);
        return;
    }
    panel unpacked = panel_in(scratch, job->cols);
    size_t tiles = work->tile_end - work->tile_start, share = tiles < AHEAD_TILES ? tiles : AHEAD_TILES;
    unpacked.ahead =
        w->data + (work->panel + 1) * w->panel_bytes; /* the next panel, in shares; past the end is harmless */
    unpacked.ahead_bytes = w->panel_bytes / share;
    if (w->format && !fused)
        k->unpack(w, work->panel, &unpacked);
    for (uint32_t tile = work->tile_start; tile < work->tile_end; tile++) {
        const uint8_t *x = tiles_at + (tile - work->tile_start) * work->packing->tile_bytes;
        uint32_t left = last_row - tile * job->tile_rows, rows = left < job->tile_rows ? left : job->tile_rows;
        panel_out to = output_of(job, work, tile);
        if (tile - work->tile_start == share)
            unpacked.ahead_bytes = 0;
        if (!w->format)
            k->dot_float(w, work->panel, (const float *)x, rows, &to);
        else if (fused)
            k->dot_packed(w, work->panel, x, rows, &to);
        else
            k->dot(w, &unpacked, x, rows, &to);
        unpacked.ahead += unpacked.ahead_bytes;
    }
}

static void run_unit(void *ctx, uint32_t index, uint32_t worker)
{
    const matmul_job *job = ctx;
    uint32_t band = index / job->chunk_count, chunk = index % job->chunk_count, t = 0;
    while (chunk >= job->chunks[t])
        chunk -= job->chunks[t++];
    const matmul_target *target = &job->args->targets[t];
    uint32_t tile_end = (band + 1) * job->band_tiles;
    band_work work = {
        .target = target,
        .packing = &job->packings[job->packing_of[t]],
        .tile_start = band * job->band_tiles,
        .tile_end = tile_end < job->tiles ? tile_end : job->tiles,
    };
    uint32_t end = (chunk + 1) * job->chunk < target->w->panels ? (chunk + 1) * job->chunk : target->w->panels;
    for (work.panel = chunk * job->chunk; work.panel < end; work.panel++)
        run_panel(job, &work, pool_scratch(job->backend->pool, worker));
}

void cpu_matmul(backend *self, const matmul_args *a)
{
    assert(a->target_count >= 1 && a->target_count <= MATMUL_TARGETS_MAX);
    matmul_job job = {.backend = cpu_backend_of(self), .args = a, .cols = a->targets[0].w->cols};
    if (a->rows == 0)
        return;
    for (uint32_t t = 0; t < a->target_count; t++) {
        assert(a->targets[t].w->cols == job.cols);
        job.packing_of[t] = find_packing(&job, a->targets[t].w);
    }
    uint32_t run_rows = plan_run(&job);
    for (; job.row_start < a->rows; job.row_start += run_rows) {
        job.rows = a->rows - job.row_start < run_rows ? a->rows - job.row_start : run_rows;
        plan_units(&job);
        pack_rows(&job);
        uint32_t bands = (job.tiles - 1) / job.band_tiles + 1;
        pool_run(job.backend->pool, run_unit, &job, bands * job.chunk_count);
    }
}

/* --- rows of a table --- */

static void read_row(void *ctx, uint32_t index, uint32_t worker)
{
    (void)worker;
    const get_rows_args *a = ctx;
    float *out = view_row(a->out, index);
    assert(a->ids[index] >= 0 && (uint32_t)a->ids[index] < a->table->rows);
    cpu_weight_read_row(a->table, (uint32_t)a->ids[index], out);
    for (uint32_t i = 0; a->scale != 1.0f && i < a->table->cols; i++)
        out[i] *= a->scale;
}

void cpu_get_rows(backend *self, const get_rows_args *a)
{
    get_rows_args copy = *a;
    pool_run(cpu_backend_of(self)->pool, read_row, &copy, a->rows);
}
