/* The KV cache's memory, and the op that writes tokens into it. */
#include "tensor/cpu/cpu_kv.h"
#include "tensor/cpu/cpu_attend.h"
#include "tensor/cpu/cpu_ops.h"
#include "tensor/cpu/cpu_os.h"

#include <stdlib.h>

enum {
    WRITE_ROWS = 32,      /* rows of one tile */
    TILES_PER_THREAD = 2, /* of few rows */
    ALONE_HEADS = 8,      /* heads of all rows that the caller writes alone */
};

size_t cpu_kv_page_bytes(const kv_cache_config *config)
{
    return (size_t)config->layers * config->kv_heads * kv_block_bytes(config->type, config->head_dim);
}

static status check_config(const kv_cache_config *config, error *err)
{
    if (config->head_dim == 0 || config->head_dim % ATTEND_DIM_STEP || config->head_dim > ATTEND_DIM_MAX)
        return error_set(err, ERR_UNSUPPORTED, "KV cache: head dimension %u, want a multiple of %d up to %d",
                         config->head_dim, ATTEND_DIM_STEP, ATTEND_DIM_MAX);
    if ((uint32_t)config->type >= KV_TYPES)
        return error_set(err, ERR_INVALID, "KV cache: type %u", (uint32_t)config->type);
    if (config->layers == 0 || config->layers > 65535 || config->kv_heads == 0 || config->kv_heads > 65535)
        return error_set(err, ERR_INVALID, "KV cache: %u layers and %u KV heads, want 1 to 65535 of each",
                         config->layers, config->kv_heads);
    if (config->page_count == 0 || config->page_count > SIZE_MAX / 4 / cpu_kv_page_bytes(config))
        return error_set(err, ERR_INVALID, "KV cache: %u pages of %zu bytes", config->page_count,
                         cpu_kv_page_bytes(config));
    return OK;
}

status cpu_kv_create(backend *self, const kv_cache_config *config, kv_cache **out, error *err)
{
    status st = check_config(config, err);
    if (st)
        return st;
    kv_cache *cache = calloc(1, sizeof(*cache));
    if (!cache)
        return error_set(err, ERR_MEMORY, "KV cache: out of memory");
    cache->config = *config;
    const float_kernels *kernels = cpu_backend_of(self)->kernels.floats;
    bool exact = config->exact || config->type == KV_F32; /* a faster form has no way to read floats */
    cache->kernels = exact && kernels->exact ? kernels->exact : kernels;
    cache->block_bytes = kv_block_bytes(config->type, config->head_dim);
    cache->page_bytes = cpu_kv_page_bytes(config);
    cache->bytes = cache->page_bytes * config->page_count;
    cache->memory = cpu_os_alloc(cache->bytes);
    cache->foreign = calloc(config->page_count, sizeof(*cache->foreign));
    cache->partials = cpu_os_alloc(ATTEND_PARTIAL_FLOATS * sizeof(float));
    cache->splits_left = calloc(ATTEND_GROUPS_MAX, sizeof(*cache->splits_left));
    if (!cache->memory || !cache->foreign || !cache->partials || !cache->splits_left ||
        pool_reserve(cpu_backend_of(self)->pool, cpu_attend_scratch_bytes(cache->kernels, config->head_dim))) {
        st = error_set(err, ERR_MEMORY, "KV cache: cannot reserve %zu bytes", cache->bytes);
        cpu_kv_destroy(self, cache);
        return st;
    }
    *out = cache;
    return OK;
}

void cpu_kv_destroy(backend *self, kv_cache *cache)
{
    (void)self;
    if (!cache)
        return;
    cpu_os_free(cache->memory, cache->bytes);
    cpu_os_free(cache->partials, ATTEND_PARTIAL_FLOATS * sizeof(float));
    free(cache->foreign);
    free(cache->splits_left);
    free(cache);
}

typedef struct {
    const float_kernels *kernels;
    const kv_write_args *a;
    uint32_t rows, tile_rows; /* of all segments, numbered through; of one tile */
} write_job;

/* The lines of a block that one token's K and V go to: written one by one they would be waited for one by one. */
static void prefetch_token(const uint8_t *block, kv_type type, uint32_t slot, uint32_t dim)
{
    size_t k_bytes = kv_block_v(type, dim) * KV_GROUP / KV_PAGE_TOKENS, v_width = kv_v_width(type, dim);
    uint32_t first = kv_coded(type) ? slot / 4 * 4 : slot, tokens = kv_coded(type) ? 4 : 1;
    const uint8_t *k = block + slot / KV_GROUP * k_bytes, *v = block + kv_block_v(type, dim) + first * v_width;
    for (size_t at = 0; at < k_bytes; at += 64)
        __builtin_prefetch(k + at, 1);
    for (size_t at = 0; at < tokens * v_width; at += 64)
        __builtin_prefetch(v + at, 1);
}

static void write_row(const write_job *job, const kv_segment *s, uint32_t i)
{
    const kv_cache *cache = job->a->cache;
    kv_type type = cache->config.type;
    uint32_t dim = cache->config.head_dim, heads = cache->config.kv_heads, position = s->position + i;
    uint32_t slot = position % KV_PAGE_TOKENS;
    size_t page = (size_t)s->pages[position / KV_PAGE_TOKENS] * cache->page_bytes;
    const float *k = view_row(job->a->k, s->row_start + i), *v = view_row(job->a->v, s->row_start + i);
    uint8_t *block = kv_cache_blocks(cache, job->a->layer, 0) + page;
    if (i == 0) /* later rows mostly find the lines of the row before */
        prefetch_token(block, type, slot, dim);
    for (uint32_t h = 0; h < heads; h++, block += cache->block_bytes) {
        if (i == 0 && h + 1 < heads)
            prefetch_token(block + cache->block_bytes, type, slot, dim);
        job->kernels->kv_write(block, type, slot, dim, k + (size_t)h * dim, v + (size_t)h * dim);
    }
}

static void write_tile(void *ctx, uint32_t index, uint32_t worker)
{
    (void)worker;
    const write_job *job = ctx;
    const kv_segment *s = job->a->segments;
    uint32_t row = index * job->tile_rows, left = job->rows - row < job->tile_rows ? job->rows - row : job->tile_rows;
    while (row >= s->row_count)
        row -= s++->row_count;
    for (; left; left--) {
        write_row(job, s, row);
        for (row++; left > 1 && row >= s->row_count; s++)
            row -= s->row_count;
    }
}

void cpu_kv_write(backend *self, const kv_write_args *a)
{
    pool *pool = cpu_backend_of(self)->pool;
    write_job job = {.kernels = a->cache->kernels, .a = a};
    cpu_kv_take_pages(a);
    for (uint32_t i = 0; i < a->segment_count; i++)
        job.rows += a->segments[i].row_count;
    uint32_t tiles = TILES_PER_THREAD * pool_threads(pool), share = (job.rows + tiles - 1) / tiles;
    /* Neighbouring tokens share lines: only those of different sequences are worth two threads. */
    job.tile_rows = share < WRITE_ROWS && a->segment_count >= tiles ? share : WRITE_ROWS;
    if (job.rows * a->cache->config.kv_heads <= ALONE_HEADS)
        for (uint32_t i = 0; job.tile_rows && i * job.tile_rows < job.rows; i++)
            write_tile(&job, i, 0);
    else
        pool_run(pool, write_tile, &job, (job.rows + job.tile_rows - 1) / job.tile_rows);
}
