/* tensor/cpu/cpu_experts.c: routed experts. Each row has picked its experts (route); (row, expert) pairs are sorted by
 * expert, so that a touched expert is read once and one that nobody picked never is; a row then adds up its own pairs
 * by ascending expert. Pairs go through in groups that fit the scratch, experts ascending, so neither the groups nor
 * the other rows show in a row's bits. Within a group: pack rows, gate and up, activation, down, add. */
#include "tensor/cpu/cpu_ops.h"
#include "tensor/cpu/cpu_os.h"
#include "tensor/cpu/cpu_tiles.h"
#include "tensor/cpu/float_kernels.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum {
    ROWS_MAX = 4096,     /* of one run: more rows read the experts again */
    PAIRS_MAX = 1024,    /* of one group */
    TILES_MAX = 384,     /* of one group */
    UNIT_COST = 8 << 20, /* multiply-adds worth claiming as one tile of the pool */
    UNPACK_COST = 6,     /* of a panel, in rows of multiply-adds */
    UNITS_PER_THREAD = 16,
    INLINE_FLOATS = 32768, /* of the small phases: done by the caller alone */
    AHEAD_TILES = 4,
};

typedef struct {                   /* an expert's pairs of this group: neighbours */
    uint32_t expert, first, count; /* pairs, relative to the group's first */
    uint32_t tile, tiles, tile_rows;
} expert_run;

typedef struct {
    tile_form form;
    size_t tile_bytes;
} tile_shape;

typedef struct {       /* scratch, in the order in which it lies there */
    uint32_t *rows_of; /* of a pair, sorted by expert: its row */
    uint32_t *pair_of; /* (rows, used): where that pair is */
    expert_run *runs;  /* TILES_MAX */
    uint8_t *tiles;
    float *gate, *up, *down; /* (PAIRS_MAX, ffn) twice, (PAIRS_MAX, hidden) */
} expert_room;

typedef struct {
    cpu_backend *backend;
    const experts_args *args;
    uint32_t experts, hidden, ffn;
    uint32_t row_start, rows;                     /* this run */
    uint32_t pair_start, pairs, run_count, tiles; /* this group */
    uint32_t chunk, chunks;                       /* panels of a unit; units of a matrix */
    tile_shape in, mid;
    expert_room room;
} experts_job;

/* --- scratch --- */

static size_t float_tile_bytes(uint32_t cols)
{
    return ((size_t)cols * TILE_ROWS * 4 + 511) & ~(size_t)511; /* the largest of all forms */
}

static size_t index_bytes(void)
{
    return 2 * (size_t)ROWS_MAX * EXPERTS_USED_MAX * sizeof(uint32_t) + TILES_MAX * sizeof(expert_run);
}

status cpu_experts_reserve(cpu_backend *self, uint32_t rows, uint32_t cols, error *err)
{
    size_t widest = rows > cols ? rows : cols;
    size_t need = index_bytes() + TILES_MAX * float_tile_bytes((uint32_t)widest) + 4096;
    need += 3 * (size_t)PAIRS_MAX * (widest + 16) * sizeof(float);
    if (need <= self->expert_rows.bytes)
        return OK;
    void *memory = cpu_os_alloc(need);
    if (!memory)
        return error_set(err, ERR_MEMORY, "scratch for experts of %u x %u: out of memory", rows, cols);
    cpu_experts_close(self);
    self->expert_rows = (cpu_scratch){memory, need};
    return OK;
}

void cpu_experts_close(cpu_backend *self)
{
    if (self->expert_rows.memory)
        cpu_os_free(self->expert_rows.memory, self->expert_rows.bytes);
    self->expert_rows = (cpu_scratch){0};
}

static void *take(uint8_t **at, size_t bytes)
{
    void *piece = *at;
    *at += (bytes + 63) & ~(size_t)63;
    return piece;
}

static void lay_out(experts_job *job)
{
    uint8_t *at = job->backend->expert_rows.memory;
    size_t listed = (size_t)ROWS_MAX * EXPERTS_USED_MAX * sizeof(uint32_t);
    size_t tile = job->in.tile_bytes > job->mid.tile_bytes ? job->in.tile_bytes : job->mid.tile_bytes;
    expert_room *r = &job->room;
    r->rows_of = take(&at, listed);
    r->pair_of = take(&at, listed);
    r->runs = take(&at, TILES_MAX * sizeof(expert_run));
    r->tiles = take(&at, TILES_MAX * tile);
    r->gate = take(&at, (size_t)PAIRS_MAX * job->ffn * sizeof(float));
    r->up = take(&at, (size_t)PAIRS_MAX * job->ffn * sizeof(float));
    r->down = take(&at, (size_t)PAIRS_MAX * job->hidden * sizeof(float));
    assert(at <= (uint8_t *)job->backend->expert_rows.memory + job->backend->expert_rows.bytes);
}

/* Of weights that meet the same rows. */
static tile_shape shape_for(const cpu_backend *self, const weight *a, const weight *b)
{
    tile_form form = tile_form_of(&self->kernels, a);
    assert(a->cols == b->cols && a->format == b->format);
    if (!tile_form_equal(form, tile_form_of(&self->kernels, b)))
        form = (tile_form){.kind = ROWS_F32}; /* E4M3 beside floats */
    return (tile_shape){form, tile_form_bytes(form, a->cols)};
}

/* --- routing --- */

/* The `used` largest, in descending order; of equals the lower id first. */
static void pick_largest(const float *logits, uint32_t count, uint32_t used, uint32_t *ids)
{
    for (uint32_t e = 0, kept = 0; e < count; e++) {
        if (kept == used && !(logits[e] > logits[ids[used - 1]]))
            continue;
        uint32_t at = kept < used ? kept++ : used - 1;
        for (; at > 0 && logits[e] > logits[ids[at - 1]]; at--)
            ids[at] = ids[at - 1];
        ids[at] = e;
    }
}

static void sort_by_id(uint32_t *ids, uint32_t used)
{
    for (uint32_t i = 1; i < used; i++) {
        uint32_t id = ids[i], at = i;
        for (; at > 0 && ids[at - 1] > id; at--)
            ids[at] = ids[at - 1];
        ids[at] = id;
    }
}

typedef struct {
    const route_args *a;
    uint32_t tile_rows;
} route_job;

static void route_row(const route_args *a, uint32_t row)
{
    const float *logits = view_row(a->logits, row);
    float *picks = view_row(a->picks, row), sum = 0;
    uint32_t ids[EXPERTS_USED_MAX];
    pick_largest(logits, a->experts, a->used, ids);
    float most = logits[ids[0]];
    sort_by_id(ids, a->used);
    for (uint32_t i = 0; i < a->used; i++) {
        picks[i] = (float)ids[i];
        picks[a->used + i] = expf(logits[ids[i]] - most);
        sum += picks[a->used + i];
    }
    for (uint32_t e = 0; !a->normalize && e < a->experts; e++)
        sum = (e ? sum : 0) + expf(logits[e] - most);
    for (uint32_t i = 0; i < a->used; i++)
        picks[a->used + i] /= sum;
}

static void route_tile(void *ctx, uint32_t index, uint32_t worker)
{
    (void)worker;
    const route_job *job = ctx;
    for (uint32_t r = index * job->tile_rows; r < job->a->rows && r < (index + 1) * job->tile_rows; r++)
        route_row(job->a, r);
}

void cpu_route(backend *self, const route_args *a)
{
    assert(a->used <= EXPERTS_USED_MAX && a->used <= a->experts && a->experts <= EXPERTS_MAX);
    route_job job = {a, INLINE_FLOATS / a->experts};
    uint32_t tiles = (a->rows + job.tile_rows - 1) / job.tile_rows;
    if (tiles == 1)
        route_tile(&job, 0, 0);
    else
        pool_run(cpu_backend_of(self)->pool, route_tile, &job, tiles);
}

/* Pairs of this call's experts by expert, rows ascending; starts[e] is the first of expert e. Returns their count. */
static uint32_t sort_pairs(const experts_job *job, uint32_t starts[EXPERTS_MAX + 1])
{
    const expert_room *r = &job->room;
    const experts_args *a = job->args;
    uint32_t next[EXPERTS_MAX] = {0}, at = 0;
    for (uint32_t row = 0; row < job->rows; row++) {
        const float *picks = view_row(a->picks, job->row_start + row);
        for (uint32_t i = 0; i < a->used; i++)
            next[(uint32_t)picks[i]]++;
    }
    for (uint32_t e = 0; e < job->experts; e++) {
        uint32_t count = e >= a->first && e < a->end ? next[e] : 0;
        if (count && a->touched)
            a->touched[e] = 1;
        starts[e] = next[e] = at;
        at += count;
    }
    starts[job->experts] = at;
    for (uint32_t row = 0; row < job->rows; row++) {
        const float *picks = view_row(a->picks, job->row_start + row);
        for (uint32_t i = 0; i < a->used; i++) {
            uint32_t e = (uint32_t)picks[i], pair = e >= a->first && e < a->end ? next[e]++ : UINT32_MAX;
            r->pair_of[row * a->used + i] = pair;
            if (pair != UINT32_MAX)
                r->rows_of[pair] = row;
        }
    }
    return at;
}

/* Takes pairs from `from` on while they fit; returns how far it came. */
static uint32_t plan_group(experts_job *job, const uint32_t starts[EXPERTS_MAX + 1], uint32_t *expert, uint32_t from)
{
    uint32_t step = job->backend->kernels.matmul->wide_rows ? TILE_ROWS_STEP : 1;
    job->pair_start = from;
    job->pairs = job->run_count = job->tiles = 0;
    for (; *expert < job->experts; ++*expert) {
        uint32_t count = starts[*expert + 1] - from, room = PAIRS_MAX - job->pairs;
        if (!count)
            continue;
        count = count < room ? count : room;
        uint32_t tiles = (count + TILE_ROWS - 1) / TILE_ROWS;
        if (!count || job->tiles + tiles > TILES_MAX)
            break;
        uint32_t even = (count + tiles - 1) / tiles;
        even = count > step ? (even + step - 1) / step * step : even;
        job->room.runs[job->run_count++] = (expert_run){*expert, job->pairs, count, job->tiles, tiles, even};
        job->pairs += count;
        job->tiles += tiles;
        from += count;
        if (from < starts[*expert + 1])
            break;
    }
    return from;
}

/* --- rows into tiles --- */

static const expert_run *run_of_tile(const experts_job *job, uint32_t tile)
{
    uint32_t low = 0, high = job->run_count - 1;
    while (low < high) {
        uint32_t middle = (low + high + 1) / 2;
        if (job->room.runs[middle].tile <= tile)
            low = middle;
        else
            high = middle - 1;
    }
    return &job->room.runs[low];
}

/* The tile's first pair (of the group), and its rows. */
static uint32_t tile_rows(const experts_job *job, uint32_t tile, uint32_t *first)
{
    const expert_run *run = run_of_tile(job, tile);
    uint32_t done = (tile - run->tile) * run->tile_rows, left = run->count - done;
    *first = run->first + done;
    return left < run->tile_rows ? left : run->tile_rows;
}

static void pack_in(void *ctx, uint32_t tile, uint32_t worker)
{
    (void)worker;
    const experts_job *job = ctx;
    const float *x[TILE_ROWS];
    uint32_t first, rows = tile_rows(job, tile, &first);
    for (uint32_t r = 0; r < rows; r++)
        x[r] = view_row(job->args->x, job->row_start + job->room.rows_of[job->pair_start + first + r]);
    uint8_t *to = job->room.tiles + tile * job->in.tile_bytes;
    tile_pack(&job->backend->kernels, job->in.form, x, rows, job->hidden, to);
}

static void pack_mid(void *ctx, uint32_t tile, uint32_t worker)
{
    (void)worker;
    const experts_job *job = ctx;
    uint32_t first, rows = tile_rows(job, tile, &first);
    const float *x[TILE_ROWS];
    for (uint32_t r = 0; r < rows; r++) {
        size_t at = (size_t)(first + r) * job->ffn;
        float *gate = job->room.gate + at;
        job->backend->kernels.floats->act_mul(gate, gate, job->room.up + at, job->ffn, job->args->act);
        x[r] = gate;
    }
    uint8_t *to = job->room.tiles + tile * job->mid.tile_bytes;
    tile_pack(&job->backend->kernels, job->mid.form, x, rows, job->ffn, to);
}

static void run_phase(experts_job *job, pool_tile tile, uint32_t count, size_t floats)
{
    if (floats > INLINE_FLOATS)
        pool_run(job->backend->pool, tile, job, count);
    else
        for (uint32_t i = 0; i < count; i++)
            tile(job, i, 0);
}

/* --- panels over an expert's rows --- */

typedef struct {
    const weight *w;
    const tile_shape *shape;
    float *out; /* of the run's first pair */
    size_t stride;
} run_target;

static void panel_floats(const experts_job *job, const expert_run *run, const run_target *t, uint32_t panel,
                         panel_out to)
{
    for (uint32_t i = 0; i < run->tiles; i++, to.out += run->tile_rows * t->stride) {
        uint32_t left = run->count - i * run->tile_rows, rows = left < run->tile_rows ? left : run->tile_rows;
        const uint8_t *x = job->room.tiles + (run->tile + i) * t->shape->tile_bytes;
        job->backend->kernels.matmul->dot_float(t->w, panel, (const float *)x, rows, &to);
    }
}

static void panel_tiles(const experts_job *job, const expert_run *run, const run_target *t, uint32_t panel_index,
                        panel_out to, void *scratch)
{
    const matmul_kernels *k = job->backend->kernels.matmul;
    size_t floats = ((size_t)t->w->cols + 63) & ~(size_t)63;
    uint32_t share = run->tiles < AHEAD_TILES ? run->tiles : AHEAD_TILES;
    panel unpacked = {.scales = scratch, .mins = (float *)scratch + floats, .codes = (uint8_t *)scratch + 8 * floats};
    unpacked.ahead = t->w->data + (panel_index + 1) * t->w->panel_bytes;
    unpacked.ahead_bytes = t->w->panel_bytes / share;
    k->unpack(t->w, panel_index, &unpacked);
    for (uint32_t i = 0; i < run->tiles; i++, to.out += run->tile_rows * t->stride) {
        uint32_t left = run->count - i * run->tile_rows, rows = left < run->tile_rows ? left : run->tile_rows;
        if (i == share)
            unpacked.ahead_bytes = 0;
        k->dot(t->w, &unpacked, job->room.tiles + (run->tile + i) * t->shape->tile_bytes, rows, &to);
        unpacked.ahead += unpacked.ahead_bytes;
    }
}

/* Panels [first, end) of the run's expert. */
static void run_panels(const experts_job *job, const expert_run *run, const run_target *t, uint32_t first, uint32_t end,
                       uint32_t worker)
{
    const matmul_kernels *k = job->backend->kernels.matmul;
    const uint8_t *x = job->room.tiles + run->tile * t->shape->tile_bytes;
    tile_run rows = {x, t->shape->tile_bytes, run->tile_rows, run->count};
    for (uint32_t p = first; p < end; p++) {
        uint32_t index = run->expert * t->w->panels + p, left = t->w->rows - p * PANEL_ROWS;
        panel_out to = {.out = t->out + p * PANEL_ROWS, .stride = t->stride};
        to.lanes = left < PANEL_ROWS ? left : PANEL_ROWS;
        if (t->shape->form.kind == ROWS_BF16)
            job->backend->kernels.bf16->dot(t->w, index, &rows, &to);
        else if (!t->w->format)
            panel_floats(job, run, t, index, to);
        else if (run->count <= k->fused_rows)
            k->dot_packed(t->w, index, x, run->count, &to);
        else if (run->count <= k->wide_rows)
            k->dot_wide(t->w, index, &rows, &to);
        else
            panel_tiles(job, run, t, index, to, pool_scratch(job->backend->pool, worker));
    }
}

static void plan_units(experts_job *job, const weight *w, uint32_t matrices)
{
    uint64_t cost = (uint64_t)w->cols * PANEL_ROWS * (job->pairs / job->run_count + UNPACK_COST);
    uint64_t all = (uint64_t)matrices * job->run_count * w->panels;
    uint64_t chunk = UNIT_COST / cost + 1, fair = all / (job->backend->base.threads * UNITS_PER_THREAD) + 1;
    chunk = chunk < fair ? chunk : fair;
    job->chunks = (uint32_t)((w->panels - 1) / chunk + 1);
    job->chunk = (w->panels - 1) / job->chunks + 1;
    job->chunks = (w->panels - 1) / job->chunk + 1;
}

static void chunk_of(const experts_job *job, const weight *w, uint32_t index, uint32_t *first, uint32_t *end)
{
    *first = index % job->chunks * job->chunk;
    *end = *first + job->chunk < w->panels ? *first + job->chunk : w->panels;
}

static void run_up(void *ctx, uint32_t index, uint32_t worker)
{
    const experts_job *job = ctx;
    uint32_t matrix = index / job->chunks, first, end;
    const expert_run *run = &job->room.runs[matrix / 2];
    const weight *w = matrix % 2 ? job->args->up : job->args->gate;
    float *out = (matrix % 2 ? job->room.up : job->room.gate) + (size_t)run->first * job->ffn;
    chunk_of(job, w, index, &first, &end);
    run_panels(job, run, &(run_target){w, &job->in, out, job->ffn}, first, end, worker);
}

static void run_down(void *ctx, uint32_t index, uint32_t worker)
{
    const experts_job *job = ctx;
    uint32_t first, end;
    const expert_run *run = &job->room.runs[index / job->chunks];
    const weight *w = job->args->down;
    float *out = job->room.down + (size_t)run->first * job->hidden;
    chunk_of(job, w, index, &first, &end);
    run_panels(job, run, &(run_target){w, &job->mid, out, job->hidden}, first, end, worker);
}

/* A row takes what this group holds of its pairs; they ascend, and so do the groups. */
static void add_row(void *ctx, uint32_t index, uint32_t worker)
{
    (void)worker;
    const experts_job *job = ctx;
    const experts_args *a = job->args;
    float *out = view_row(a->out, job->row_start + index);
    const float *shares = view_row(a->picks, job->row_start + index) + a->used;
    for (uint32_t i = 0; i < a->used; i++) {
        /* an earlier group's wraps round; none of this call's is far above */
        uint32_t pair = job->room.pair_of[index * a->used + i] - job->pair_start;
        if (pair < job->pairs)
            job->backend->kernels.floats->add_scaled(out, job->room.down + (size_t)pair * job->hidden, shares[i],
                                                     job->hidden);
    }
}

static void run_group(experts_job *job)
{
    pool *pool = job->backend->pool;
    run_phase(job, pack_in, job->tiles, (size_t)job->pairs * job->hidden);
    plan_units(job, job->args->gate, 2);
    pool_run(pool, run_up, job, 2 * job->run_count * job->chunks);
    run_phase(job, pack_mid, job->tiles, (size_t)job->pairs * job->ffn);
    plan_units(job, job->args->down, 1);
    pool_run(pool, run_down, job, job->run_count * job->chunks);
    run_phase(job, add_row, job->rows, (size_t)job->pairs * job->hidden);
}

void cpu_experts(backend *self, const experts_args *a)
{
    experts_job job = {.backend = cpu_backend_of(self), .args = a, .experts = a->gate->stack};
    job.hidden = a->gate->cols;
    job.ffn = a->gate->rows;
    job.in = shape_for(job.backend, a->gate, a->up);
    job.mid = shape_for(job.backend, a->down, a->down);
    assert(a->used <= EXPERTS_USED_MAX && a->end <= job.experts && job.experts <= EXPERTS_MAX);
    assert(a->down->rows == job.hidden && a->down->cols == job.ffn);
    lay_out(&job);
    for (; job.row_start < a->rows; job.row_start += job.rows) {
        uint32_t left = a->rows - job.row_start, starts[EXPERTS_MAX + 1], expert = 0, at = 0;
        job.rows = left < ROWS_MAX ? left : ROWS_MAX;
        uint32_t pairs = sort_pairs(&job, starts);
        while (at < pairs) {
            at = plan_group(&job, starts, &expert, at);
            run_group(&job);
        }
    }
}
