/* The KV cache's memory, and the op that writes tokens into it. */
#include "tensor/cpu/cpu_kv.h"
#include "tensor/cpu/cpu_attend.h"
#include "tensor/cpu/cpu_ops.h"
#include "tensor/cpu/cpu_os.h"

#include <stdlib.h>

enum { WRITE_ROWS = 32 }; /* rows of one tile */

size_t cpu_kv_page_bytes(const kv_cache_config *config)
{
    return (size_t)config->layers * config->kv_heads * kv_block_bytes(config->head_dim);
}

static status check_config(const kv_cache_config *config, error *err)
{
    if (config->head_dim == 0 || config->head_dim % ATTEND_DIM_STEP || config->head_dim > ATTEND_DIM_MAX)
        return error_set(err, ERR_UNSUPPORTED, "KV cache: head dimension %u, want a multiple of %d up to %d",
                         config->head_dim, ATTEND_DIM_STEP, ATTEND_DIM_MAX);
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
    cache->kernels = config->exact && kernels->exact ? kernels->exact : kernels;
    cache->block_bytes = kv_block_bytes(config->head_dim);
    cache->page_bytes = cpu_kv_page_bytes(config);
    cache->bytes = cache->page_bytes * config->page_count;
    cache->memory = cpu_os_alloc(cache->bytes);
    cache->partials = cpu_os_alloc(ATTEND_PARTIAL_FLOATS * sizeof(float));
    cache->splits_left = calloc(ATTEND_GROUPS_MAX, sizeof(*cache->splits_left));
    if (!cache->memory || !cache->partials || !cache->splits_left ||
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
    free(cache->splits_left);
    free(cache);
}

typedef struct {
    const float_kernels *kernels;
    const kv_write_args *a;
    const kv_segment *segment;
} write_job;

static void write_tile(void *ctx, uint32_t index, uint32_t worker)
{
    (void)worker;
    const write_job *job = ctx;
    const kv_segment *s = job->segment;
    const kv_cache *cache = job->a->cache;
    uint32_t dim = cache->config.head_dim, end = (index + 1) * WRITE_ROWS;
    for (uint32_t i = index * WRITE_ROWS; i < s->row_count && i < end; i++) {
        uint32_t position = s->position + i;
        size_t page = (size_t)s->pages[position / KV_PAGE_TOKENS] * cache->page_bytes;
        const float *k = view_row(job->a->k, s->row_start + i), *v = view_row(job->a->v, s->row_start + i);
        for (uint32_t h = 0; h < cache->config.kv_heads; h++)
            job->kernels->kv_write(kv_cache_blocks(cache, job->a->layer, h) + page, position % KV_PAGE_TOKENS, dim,
                                   k + (size_t)h * dim, v + (size_t)h * dim);
    }
}

void cpu_kv_write(backend *self, const kv_write_args *a)
{
    for (uint32_t i = 0; i < a->segment_count; i++) {
        write_job job = {.kernels = a->cache->kernels, .a = a, .segment = &a->segments[i]};
        uint32_t tiles = (a->segments[i].row_count + WRITE_ROWS - 1) / WRITE_ROWS;
        if (tiles == 1)
            write_tile(&job, 0, 0);
        else if (tiles)
            pool_run(cpu_backend_of(self)->pool, write_tile, &job, tiles);
    }
}
