/* Attention: segments cut into groups (one KV head, a run of query rows), groups into tiles for the pool.
 * A query row is (token, head of the KV head's group); rows of a group share each tile of K and V. Few rows over many
 * keys give one tile per split of ATTEND_SPLIT positions, and whoever finishes a group's last split merges them; many
 * rows walk their splits in one tile. Both fold the same partial results in the same order, so a row's bits do not tell
 * which ran. */
#include "tensor/cpu/cpu_attend.h"
#include "tensor/cpu/cpu_kv.h"
#include "tensor/cpu/cpu_ops.h"

#include <string.h>

enum {
    WAVE_SEGMENTS = 128,
    ROW_ALIGN = 16, /* group sizes the kernels like */
    TILES_PER_THREAD = 8,
    DEEP_TILES_PER_THREAD = 2, /* where they are about as long as each other: each widens all of K and V again */
    DEEP = 8,                  /* times as many keys before the rows as rows */
    SPLIT_TILES_PER_THREAD = 4,
    PAIRS_ALONE = 1024, /* at most so many run on the caller: a microsecond or two, about what waking a worker costs */
    ROWS_MIN = 48,      /* rows that pay for widening K and V */
    HEADS_MAX = 8,      /* KV heads whose blocks of a page one tile reads in a row */
    APART_ROWS = 16,    /* most rows of a tile with several heads: each head has its own scratch */
};

typedef struct {
    const kv_segment *segment;
    uint32_t rows;        /* query rows per KV head: tokens * heads per KV head */
    uint32_t group_rows;  /* of one tile, the last may have fewer */
    uint32_t first_split; /* of the splits that any row sees */
    uint32_t splits; /* > 0: one tile per split and run of heads, results in `partials`; 0: a tile walks its splits */
    uint32_t heads;  /* KV heads of such a tile, the last may have fewer */
    uint32_t first_tile, first_counter;
    float *partials;
} plan;

typedef struct {
    const float_kernels *kernels;
    pool *pool;
    const attend_args *a;
    uint32_t heads_per_kv, plan_count, tile_count;
    uint64_t pairs; /* of query rows and keys, all KV heads: the wave's work */
    plan plans[WAVE_SEGMENTS];
} wave;

static size_t state_floats(uint32_t rows, uint32_t head_dim)
{
    size_t padded = (rows + ROW_ALIGN - 1) / ROW_ALIGN * ROW_ALIGN;
    return padded * (2 + (size_t)head_dim);
}

static attend_state state_at(float *memory, uint32_t rows)
{
    size_t padded = (rows + ROW_ALIGN - 1) / ROW_ALIGN * ROW_ALIGN;
    return (attend_state){.m = memory, .l = memory + padded, .acc = memory + 2 * padded};
}

static size_t round_up(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

/* A worker's scratch: the sum of all splits, then for each head an attend_work, its part and the kernel's own room. */
static size_t state_bytes(uint32_t head_dim)
{
    return round_up(sizeof(float) * state_floats(ATTEND_ROWS, head_dim));
}
static size_t head_bytes(const float_kernels *kernels, uint32_t head_dim)
{
    return round_up(sizeof(attend_work)) + state_bytes(head_dim) + round_up(kernels->attend_scratch_bytes(head_dim));
}

size_t cpu_attend_scratch_bytes(const float_kernels *kernels, uint32_t head_dim)
{
    return state_bytes(head_dim) + HEADS_MAX * head_bytes(kernels, head_dim);
}

static uint32_t split_of_first_key(uint32_t position, uint32_t window)
{
    return window && position >= window ? (position - window + 1) / ATTEND_SPLIT : 0;
}

/* Sets up the worker's `slot`th attend_work for rows [start, start + count) of KV head `kv_head`. */
static attend_work *load_work(const wave *w, const plan *p, uint32_t kv_head, uint32_t start, uint32_t count,
                              uint32_t worker, uint32_t slot)
{
    const attend_args *a = w->a;
    uint32_t dim = a->cache->config.head_dim;
    uint8_t *scratch = pool_scratch(w->pool, worker);
    scratch += state_bytes(dim) + slot * head_bytes(w->kernels, dim);
    attend_work *work = (attend_work *)scratch;
    work->blocks = kv_cache_blocks(a->cache, a->layer, kv_head);
    work->page_bytes = a->cache->page_bytes;
    work->pages = p->segment->pages;
    work->type = a->cache->config.type;
    work->head_dim = dim;
    work->rows = count;
    work->window = a->window;
    work->scale = a->scale;
    work->softcap = a->softcap;
    memset(work->ahead, 0, sizeof(work->ahead));
    work->part = state_at((float *)(scratch + round_up(sizeof(attend_work))), ATTEND_ROWS);
    work->scratch = scratch + round_up(sizeof(attend_work)) + state_bytes(dim);
    for (uint32_t r = 0; r < count; r++) {
        uint32_t token = (start + r) / w->heads_per_kv,
                 head = kv_head * w->heads_per_kv + (start + r) % w->heads_per_kv;
        work->q[r] = view_row(a->q, p->segment->row_start + token) + (size_t)head * dim;
        work->position[r] = p->segment->position + token;
    }
    w->kernels->attend_load(work);
    return work;
}

static void clear_state(attend_state s, uint32_t rows, uint32_t head_dim)
{
    for (uint32_t r = 0; r < rows; r++) {
        s.m[r] = ATTEND_MASKED;
        s.l[r] = 0;
    }
    memset(s.acc, 0, sizeof(float) * rows * head_dim);
}

static void finish_rows(const wave *w, const plan *p, uint32_t kv_head, uint32_t start, uint32_t count, attend_state s)
{
    uint32_t dim = w->a->cache->config.head_dim;
    for (uint32_t r = 0; r < count; r++) {
        uint32_t token = (start + r) / w->heads_per_kv,
                 head = kv_head * w->heads_per_kv + (start + r) % w->heads_per_kv;
        float *out = view_row(w->a->out, p->segment->row_start + token) + (size_t)head * dim;
        w->kernels->attend_finish(out, s.acc + (size_t)r * dim, s.l[r], dim);
    }
}

static const plan *plan_of(const wave *w, uint32_t tile)
{
    uint32_t low = 0, high = w->plan_count; /* the last plan that starts at or before `tile` */
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        *(w->plans[middle].first_tile <= tile ? &low : &high) = middle;
    }
    return &w->plans[low];
}

/* The first blocks of the tile that this thread will claim after `tile`, as far as one can tell. */
static void look_ahead(const wave *w, uint32_t tile, attend_work *work)
{
    const kv_cache *cache = w->a->cache;
    uint32_t next = tile + pool_threads(w->pool);
    const plan *p = next < w->tile_count ? plan_of(w, next) : NULL;
    if (!p || p->splits || p->rows > p->group_rows || p->segment->position >= ATTEND_SPLIT)
        return;
    const uint8_t *blocks = kv_cache_blocks(cache, w->a->layer, (next - p->first_tile) % cache->config.kv_heads);
    for (uint32_t i = 0; i < ATTEND_TILE / KV_PAGE_TOKENS && i * KV_PAGE_TOKENS <= p->segment->position; i++)
        work->ahead[i] = blocks + (size_t)p->segment->pages[i] * cache->page_bytes;
}

static void run_whole(const wave *w, const plan *p, uint32_t index, uint32_t worker)
{
    uint32_t kv_heads = w->a->cache->config.kv_heads, dim = w->a->cache->config.head_dim;
    uint32_t groups = (p->rows + p->group_rows - 1) / p->group_rows;
    uint32_t start = (groups - 1 - index / kv_heads) * p->group_rows, kv_head = index % kv_heads; /* long ones first */
    uint32_t count = p->rows - start < p->group_rows ? p->rows - start : p->group_rows;
    attend_work *work = load_work(w, p, kv_head, start, count, worker, 0);
    look_ahead(w, p->first_tile + index, work);
    attend_state total = state_at(pool_scratch(w->pool, worker), ATTEND_ROWS);
    clear_state(total, count, dim);
    uint32_t last = work->position[count - 1] / ATTEND_SPLIT;
    for (uint32_t s = split_of_first_key(work->position[0], w->a->window); s <= last; s++) {
        w->kernels->attend_split(&work, 1, s);
        for (uint32_t r = 0; r < count; r++)
            w->kernels->attend_merge(total, r, work->part, r, dim);
    }
    finish_rows(w, p, kv_head, start, count, total);
}

static void merge_splits(const wave *w, const plan *p, uint32_t kv_head, uint32_t worker)
{
    uint32_t dim = w->a->cache->config.head_dim;
    attend_state total = state_at(pool_scratch(w->pool, worker), ATTEND_ROWS);
    clear_state(total, p->rows, dim);
    for (uint32_t s = 0; s < p->splits; s++) {
        size_t at = ((size_t)kv_head * p->splits + s) * state_floats(p->rows, dim);
        for (uint32_t r = 0; r < p->rows; r++)
            w->kernels->attend_merge(total, r, state_at(p->partials + at, p->rows), r, dim);
    }
    finish_rows(w, p, kv_head, 0, p->rows, total);
}

static void run_split(const wave *w, const plan *p, uint32_t index, uint32_t worker)
{
    uint32_t split = index % p->splits, first = index / p->splits * p->heads,
             count = w->a->cache->config.kv_heads - first;
    attend_work *works[HEADS_MAX] = {0};
    count = count < p->heads ? count : p->heads;
    for (uint32_t i = 0; i < count; i++) {
        size_t at = ((size_t)(first + i) * p->splits + split) * state_floats(p->rows, w->a->cache->config.head_dim);
        works[i] = load_work(w, p, first + i, 0, p->rows, worker, i);
        works[i]->part = state_at(p->partials + at, p->rows);
    }
    w->kernels->attend_split(works, count, p->first_split + split);
    for (uint32_t i = 0; i < count; i++)
        if (atomic_fetch_sub(&w->a->cache->splits_left[p->first_counter + first + i], 1) == 1)
            merge_splits(w, p, first + i, worker);
}

static void run_tile(void *ctx, uint32_t index, uint32_t worker)
{
    const wave *w = ctx;
    const plan *p = plan_of(w, index);
    if (p->splits)
        run_split(w, p, index - p->first_tile, worker);
    else
        run_whole(w, p, index - p->first_tile, worker);
}

/* Room that split tiles of this wave have taken. */
typedef struct {
    size_t floats;
    uint32_t counters;
} taken;

static uint32_t rows_of_group(const wave *w, uint32_t rows, const kv_segment *s)
{
    bool deep = s->position / DEEP >= s->row_count;
    uint32_t tiles_wanted = (deep ? DEEP_TILES_PER_THREAD : TILES_PER_THREAD) * pool_threads(w->pool);
    uint64_t all = (uint64_t)rows * w->a->cache->config.kv_heads * w->a->segment_count;
    uint64_t want = (all / tiles_wanted + ROW_ALIGN - 1) / ROW_ALIGN * ROW_ALIGN;
    return want < ROWS_MIN ? ROWS_MIN : want > ATTEND_ROWS ? ATTEND_ROWS : (uint32_t)want;
}

/* As many heads as leave every thread a few tiles; one where rows are many, since they read a head's blocks for long.
 */
static uint32_t heads_of_tile(const wave *w, const plan *p)
{
    uint32_t kv_heads = w->a->cache->config.kv_heads, heads = kv_heads < HEADS_MAX ? kv_heads : HEADS_MAX;
    uint64_t wanted = SPLIT_TILES_PER_THREAD * (uint64_t)pool_threads(w->pool);
    if (p->rows > APART_ROWS)
        return 1;
    while (heads > 1 && (uint64_t)w->a->segment_count * p->splits * ((kv_heads + heads - 1) / heads) < wanted)
        heads--;
    return heads;
}

/* Takes `floats` of partial results and the counters of all heads; false when they find no room beside the wave's so
 * far. */
static bool plan_splits(wave *w, plan *p, uint32_t splits, size_t floats, taken *t)
{
    uint32_t kv_heads = w->a->cache->config.kv_heads;
    if (t->floats + floats > ATTEND_PARTIAL_FLOATS || t->counters + kv_heads > ATTEND_GROUPS_MAX)
        return false;
    p->splits = splits;
    p->heads = heads_of_tile(w, p);
    p->partials = w->a->cache->partials + t->floats;
    p->first_counter = t->counters;
    for (uint32_t h = 0; h < kv_heads; h++)
        atomic_store(&w->a->cache->splits_left[p->first_counter + h], splits);
    t->floats += floats;
    t->counters += kv_heads;
    w->tile_count += splits * ((kv_heads + p->heads - 1) / p->heads);
    return true;
}

static bool plan_segment(wave *w, const kv_segment *s, taken *t)
{
    const kv_cache_config *config = &w->a->cache->config;
    plan *p = &w->plans[w->plan_count];
    *p = (plan){.segment = s, .rows = s->row_count * w->heads_per_kv, .first_tile = w->tile_count};
    p->first_split = split_of_first_key(s->position, w->a->window);
    uint32_t splits = (s->position + s->row_count - 1) / ATTEND_SPLIT - p->first_split + 1;
    size_t floats = (size_t)splits * config->kv_heads * state_floats(p->rows, config->head_dim);
    if (splits > 1 && p->rows <= ATTEND_ROWS && floats <= ATTEND_PARTIAL_FLOATS &&
        config->kv_heads <= ATTEND_GROUPS_MAX) {
        if (!plan_splits(w, p, splits, floats, t))
            return false;
    } else {
        p->group_rows = rows_of_group(w, p->rows, s);
        w->tile_count += (p->rows + p->group_rows - 1) / p->group_rows * config->kv_heads;
    }
    w->plan_count++;
    w->pairs += (uint64_t)p->rows * (s->position + s->row_count) * config->kv_heads;
    return true;
}

void cpu_attend(backend *self, const attend_args *a)
{
    cpu_backend *cpu = cpu_backend_of(self);
    uint32_t next = 0;
    while (next < a->segment_count) {
        wave w = {.kernels = a->cache->kernels, .pool = cpu->pool, .a = a};
        w.heads_per_kv = a->heads / a->cache->config.kv_heads;
        taken t = {0};
        while (next < a->segment_count && w.plan_count < WAVE_SEGMENTS) {
            if (a->segments[next].row_count && !plan_segment(&w, &a->segments[next], &t))
                break;
            next++;
        }
        if (w.tile_count > 1 && w.pairs > PAIRS_ALONE)
            pool_run(cpu->pool, run_tile, &w, w.tile_count);
        else
            for (uint32_t i = 0; i < w.tile_count; i++)
                run_tile(&w, i, 0);
    }
}
