/* tensor/cpu/cpu_delta.c: gated delta layers and the state that they keep of each sequence. Two passes: convolution and
 * unit-length q and k, by key head; then the recurrence and the gated norm, by value head. A head's state lies in
 * blocks of DELTA_COLS value channels, each of which stays in L1 while the tokens pass over it. The recurrence goes
 * token by token, prefill too, so where a run of tokens begins or ends never shows. */
#include "tensor/cpu/cpu_kv.h"
#include "tensor/cpu/cpu_ops.h"
#include "tensor/cpu/cpu_os.h"
#include "tensor/cpu/float_kernels.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct state_cache {
    state_config config;
    size_t history_floats, layer_floats, slot_floats; /* a layer: the history, then the heads */
    float *memory;                                    /* [slots][layers] */
};

#define UNIT_EPS 1e-6f /* added to the square of the length of q and k */
enum { DIM_MAX = 1024, ROWS_AT_ONCE = 512 };

static uint32_t channels_of(const state_config *c)
{
    return 2 * c->key_heads * c->key_dim + c->value_heads * c->value_dim;
}

static size_t history_floats(const state_config *c)
{
    return ((size_t)(c->taps - 1) * channels_of(c) + 15) & ~(size_t)15;
}

static size_t layer_floats(const state_config *c)
{
    return history_floats(c) + (size_t)c->value_heads * c->key_dim * c->value_dim;
}

size_t cpu_state_bytes(const state_config *c)
{
    return c->layers * layer_floats(c) * sizeof(float);
}

static status check_config(const state_config *c, error *err)
{
    if (!c->layers || !c->slots || !c->key_heads || !c->value_heads || c->value_heads % c->key_heads)
        return error_set(err, ERR_INVALID, "recurrent state: %u layers, %u slots, %u key and %u value heads", c->layers,
                         c->slots, c->key_heads, c->value_heads);
    if (!c->key_dim || !c->value_dim || c->key_dim % 16 || c->value_dim % 16 || c->key_dim > DIM_MAX ||
        c->value_dim > DIM_MAX)
        return error_set(err, ERR_UNSUPPORTED, "recurrent state: heads of %u x %u, want multiples of 16 up to %d",
                         c->key_dim, c->value_dim, DIM_MAX);
    if (c->taps < 2 || c->taps > CONV_TAPS_MAX)
        return error_set(err, ERR_UNSUPPORTED, "recurrent state: a convolution of %u taps, want 2 to %d", c->taps,
                         CONV_TAPS_MAX);
    return OK;
}

status cpu_state_create(backend *self, const state_config *config, state_cache **out, error *err)
{
    status st = check_config(config, err);
    if (st)
        return st;
    size_t slot = cpu_state_bytes(config);
    state_cache *cache = calloc(1, sizeof(*cache));
    if (cache && slot <= SIZE_MAX / 2 / config->slots)
        cache->memory = cpu_os_alloc(slot * config->slots);
    /* alpha, beta and k q of a tile's rows */
    if (!cache || !cache->memory || pool_reserve(cpu_backend_of(self)->pool, 3 * ROWS_AT_ONCE * sizeof(float))) {
        free(cache);
        return error_set(err, ERR_MEMORY, "recurrent state: cannot reserve %u slots of %zu bytes", config->slots, slot);
    }
    cache->config = *config;
    cache->history_floats = history_floats(config);
    cache->layer_floats = layer_floats(config);
    cache->slot_floats = config->layers * cache->layer_floats;
    *out = cache;
    return OK;
}

void cpu_state_destroy(backend *self, state_cache *cache)
{
    (void)self;
    if (!cache)
        return;
    cpu_os_free(cache->memory, cache->config.slots * cache->slot_floats * sizeof(float));
    free(cache);
}

/* --- in pages: a slot's bytes in order, page after page --- */

/* The part of [offset, offset + bytes) that lies in the page of `offset`. */
static size_t within_page(const kv_cache *cache, size_t offset, size_t bytes)
{
    size_t room = cache->page_bytes - offset % cache->page_bytes;
    return bytes < room ? bytes : room;
}

static uint8_t *paged(const kv_cache *cache, const uint32_t *pages, size_t offset)
{
    uint32_t page = pages[offset / cache->page_bytes];
    assert(page < cache->config.page_count);
    return cache->memory + page * cache->page_bytes + offset % cache->page_bytes;
}

static void to_pages(const kv_cache *cache, const uint32_t *pages, size_t offset, const void *src, size_t bytes)
{
    for (size_t done = 0, part; done < bytes; done += part) {
        part = within_page(cache, offset + done, bytes - done);
        atomic_store_explicit(&cache->foreign[pages[(offset + done) / cache->page_bytes]], 1, memory_order_relaxed);
        memcpy(paged(cache, pages, offset + done), (const uint8_t *)src + done, part);
    }
}

static void from_pages(const kv_cache *cache, const uint32_t *pages, void *dst, size_t bytes)
{
    for (size_t done = 0, part; done < bytes; done += part) {
        part = within_page(cache, done, bytes - done);
        memcpy((uint8_t *)dst + done, paged(cache, pages, done), part);
    }
}

/* What is left of the last page, so that nobody else's bytes go along. */
static void clear_rest(const kv_cache *cache, const uint32_t *pages, size_t bytes)
{
    if (bytes % cache->page_bytes)
        memset(paged(cache, pages, bytes), 0, cache->page_bytes - bytes % cache->page_bytes);
}

void cpu_state_save(backend *self, const state_cache *states, uint32_t slot, kv_cache *cache, const uint32_t *pages)
{
    (void)self;
    assert(slot < states->config.slots);
    size_t bytes = states->slot_floats * sizeof(float);
    to_pages(cache, pages, 0, states->memory + slot * states->slot_floats, bytes);
    clear_rest(cache, pages, bytes);
}

void cpu_state_load(backend *self, state_cache *states, uint32_t slot, const kv_cache *cache, const uint32_t *pages)
{
    (void)self;
    assert(slot < states->config.slots);
    from_pages(cache, pages, states->memory + slot * states->slot_floats, states->slot_floats * sizeof(float));
}

/* --- the op --- */

typedef struct {
    const delta_args *a;
    const float_kernels *kernels;
    pool *pool;
    state_config c;
    uint32_t channels, value_start, per_key; /* value_start: the first channel of v; per_key: value heads a key head */
} delta_job;

static float *layer_state(const delta_job *job, const state_segment *s)
{
    const state_cache *cache = job->a->cache;
    assert(s->slot < cache->config.slots && job->a->layer < cache->config.layers);
    return cache->memory + s->slot * cache->slot_floats + job->a->layer * cache->layer_floats;
}

/* The copy, if any, that is taken after one of `rows` rows from `row` on: the first. */
static const state_copy *next_copy(const delta_args *a, uint32_t row, uint32_t rows)
{
    for (uint32_t i = 0; i < a->copy_count; i++)
        if (a->copies[i].row >= row && a->copies[i].row - row < rows)
            return &a->copies[i];
    return NULL;
}

/* `count` floats at `at` of the layer's state. */
static void take_copy(const delta_job *job, const state_copy *copy, size_t at, const float *src, size_t count)
{
    size_t offset = (job->a->layer * job->a->cache->layer_floats + at) * sizeof(float);
    to_pages(job->a->copy_pages, copy->pages, offset, src, count * sizeof(float));
}

static void copy_history(const delta_job *job, const state_copy *copy, const state_segment *s, uint32_t channel,
                         uint32_t n)
{
    const float *history = layer_state(job, s);
    for (uint32_t j = 0; j + 1 < job->c.taps; j++) {
        size_t at = (size_t)j * job->channels + channel;
        take_copy(job, copy, at, history + at, n);
    }
}

/* What no head has: the history's padding, and behind the last layer the page's rest. */
static void copy_rest(const delta_job *job, const state_copy *copy)
{
    static const float zeros[16];
    const state_cache *cache = job->a->cache;
    size_t used = (size_t)(job->c.taps - 1) * job->channels;
    take_copy(job, copy, used, zeros, cache->history_floats - used);
    if (job->a->layer + 1 == job->c.layers)
        clear_rest(job->a->copy_pages, copy->pages, cache->slot_floats * sizeof(float));
}

static void convolve(const delta_job *job, const state_segment *s, uint32_t channel, uint32_t n)
{
    float *history = layer_state(job, s) + channel;
    if (s->position == 0)
        for (uint32_t j = 0; j + 1 < job->c.taps; j++)
            memset(history + (size_t)j * job->channels, 0, n * sizeof(float));
    job->kernels->conv(&(conv_args){.x = view_row(job->a->qkv, s->row_start) + channel,
                                    .stride = job->a->qkv.stride,
                                    .rows = s->row_count,
                                    .n = n,
                                    .count = job->c.taps,
                                    .taps = job->a->conv->data + channel,
                                    .tap_stride = job->channels,
                                    .history = history,
                                    .history_stride = job->channels});
}

static float dot(const float *a, const float *b, uint32_t n)
{
    float sum[16] = {0};
    for (uint32_t i = 0; i < n; i += 16)
        for (uint32_t j = 0; j < 16; j++)
            sum[j] += a[i + j] * b[i + j];
    for (uint32_t half = 8; half; half /= 2)
        for (uint32_t j = 0; j < half; j++)
            sum[j] += sum[j + half];
    return sum[0];
}

static void to_length(float *x, float length, uint32_t n)
{
    float by = length / sqrtf(dot(x, x, n) + UNIT_EPS);
    for (uint32_t i = 0; i < n; i++)
        x[i] *= by;
}

static void convolve_rows(const delta_job *job, const state_segment *s, uint32_t g)
{
    uint32_t dim = job->c.key_dim, share = job->per_key * job->c.value_dim;
    uint32_t q = g * dim, k = (job->c.key_heads + g) * dim;
    convolve(job, s, q, dim);
    convolve(job, s, k, dim);
    convolve(job, s, job->value_start + g * share, share);
    for (uint32_t t = 0; t < s->row_count; t++) {
        float *row = view_row(job->a->qkv, s->row_start + t);
        to_length(row + q, 1.0f / sqrtf((float)dim), dim);
        to_length(row + k, 1.0f, dim);
    }
}

/* One key head of one segment, and as large a share of the value channels; in runs of rows between copies. */
static void convolve_tile(void *ctx, uint32_t index, uint32_t worker)
{
    (void)worker;
    const delta_job *job = ctx;
    const state_segment *s = &job->a->segments[index / job->c.key_heads];
    uint32_t g = index % job->c.key_heads, dim = job->c.key_dim, share = job->per_key * job->c.value_dim;
    for (uint32_t done = 0, rows; done < s->row_count; done += rows) {
        uint32_t row = s->row_start + done;
        const state_copy *copy = next_copy(job->a, row, s->row_count - done);
        rows = copy ? copy->row + 1 - row : s->row_count - done;
        convolve_rows(job, &(state_segment){s->slot, s->position + done, row, rows}, g);
        if (!copy)
            continue;
        copy_history(job, copy, s, g * dim, dim);
        copy_history(job, copy, s, (job->c.key_heads + g) * dim, dim);
        copy_history(job, copy, s, job->value_start + g * share, share);
        if (g == 0)
            copy_rest(job, copy);
    }
}

static float softplus(float x)
{
    return x > 20.0f ? x : log1pf(expf(x));
}

/* Rows of one head's segment that share the scratch. */
typedef struct {
    uint32_t head, row, rows; /* row: of the batch */
    const float *q, *k;       /* of the first row */
    float *alpha, *beta, *kq;
} head_rows;

static void prepare_rows(const delta_job *job, const head_rows *h)
{
    const delta_args *a = job->a;
    for (uint32_t t = 0; t < h->rows; t++) {
        float rate = a->decay->data[h->head] * softplus(view_row(a->a, h->row + t)[h->head] + a->dt->data[h->head]);
        h->alpha[t] = expf(rate);
        h->beta[t] = 1.0f / (1.0f + expf(-view_row(a->b, h->row + t)[h->head]));
        h->kq[t] = dot(h->k + t * a->qkv.stride, h->q + t * a->qkv.stride, job->c.key_dim);
    }
}

static void recur(const delta_job *job, const head_rows *h, float *state)
{
    const delta_args *a = job->a;
    uint32_t dim = job->c.value_dim, cols = dim % DELTA_COLS ? 16 : DELTA_COLS;
    const float *v = view_row(a->qkv, h->row) + job->value_start + h->head * dim;
    float *out = view_row(a->out, h->row) + h->head * dim;
    delta_block block = {.rows = h->rows, .key_dim = job->c.key_dim, .cols = cols, .q = h->q, .k = h->k};
    block.alpha = h->alpha, block.beta = h->beta, block.kq = h->kq;
    block.stride = a->qkv.stride, block.out_stride = a->out.stride;
    for (uint32_t c = 0; c < dim; c += cols) {
        block.state = state + (size_t)c * job->c.key_dim;
        block.v = v + c;
        block.out = out + c;
        job->kernels->delta(&block);
    }
    for (uint32_t t = 0; t < h->rows; t++, out += a->out.stride) {
        job->kernels->rms_norm(out, out, a->norm->data, dim, a->eps);
        job->kernels->act_mul(out, view_row(a->z, h->row + t) + h->head * dim, out, dim, ACT_SILU);
    }
}

/* One value head of one segment. */
static void recur_tile(void *ctx, uint32_t index, uint32_t worker)
{
    const delta_job *job = ctx;
    const state_segment *s = &job->a->segments[index / job->c.value_heads];
    uint32_t head = index % job->c.value_heads, dim = job->c.key_dim;
    uint32_t key = job->a->grouped ? head / job->per_key : head % job->c.key_heads;
    size_t floats = (size_t)dim * job->c.value_dim;
    size_t at = job->a->cache->history_floats + head * floats;
    float *state = layer_state(job, s) + at;
    if (s->position == 0)
        memset(state, 0, floats * sizeof(float));
    head_rows h = {.head = head, .alpha = pool_scratch(job->pool, worker)};
    h.beta = h.alpha + ROWS_AT_ONCE;
    h.kq = h.beta + ROWS_AT_ONCE;
    for (uint32_t done = 0; done < s->row_count; done += h.rows) {
        h.row = s->row_start + done;
        h.rows = s->row_count - done < ROWS_AT_ONCE ? s->row_count - done : ROWS_AT_ONCE;
        const state_copy *copy = next_copy(job->a, h.row, h.rows);
        if (copy)
            h.rows = copy->row + 1 - h.row;
        h.q = view_row(job->a->qkv, h.row) + key * dim;
        h.k = h.q + job->c.key_heads * dim;
        prepare_rows(job, &h);
        recur(job, &h, state);
        if (copy)
            take_copy(job, copy, at, state, floats);
    }
}

void cpu_delta(backend *self, const delta_args *a)
{
    cpu_backend *cpu = cpu_backend_of(self);
    delta_job job = {.a = a, .kernels = cpu->kernels.floats, .pool = cpu->pool, .c = a->cache->config};
    job.channels = channels_of(&job.c);
    job.value_start = 2 * job.c.key_heads * job.c.key_dim;
    job.per_key = job.c.value_heads / job.c.key_heads;
    pool_run(cpu->pool, convolve_tile, &job, a->segment_count * job.c.key_heads);
    pool_run(cpu->pool, recur_tile, &job, a->segment_count * job.c.value_heads);
}
