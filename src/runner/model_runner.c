/* runner/model_runner.c: step plans on a real model. One decode batch, and one batch per open chunk whose cursor
 * survives a yield. */
#include "runner/model_runner.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory_info.h"
#include "model/sampler.h"
#include "runner/device_pages.h"
#include "runner/fingerprint.h"
#include "tensor/kv_type.h"

static_assert((int)BATCH_COPIES_MAX >= (int)CAPTURES_MAX, "a chunk's captures fit into its batch");
static_assert((int)DEVICE_PARTS_MAX <= (int)PAGE_PARTS_MAX, "parts of a page");
enum { ROOF_BYTES_MAX = 256 << 20, OPS_MAX = 8, COST_ROWS_MAX = 200000 };

typedef struct {
    batch *batch;
    bool open;
    uint32_t seq, position, count; /* of the chunk in it */
} chunk_state;

typedef struct { /* what an op costs: a row's time is a + b * its position; sums over rows for least squares */
    double rows, depth, square, us, us_depth;
} op_cost;

typedef struct {
    runner base; /* first: a model_runner* is a runner* */
    backend *device;
    model *model;
    kv_cache *cache;
    state_cache *states; /* NULL when the model keeps none */
    device_pages pages;
    head_scratch head;
    batch *decode; /* decode rows, and a whole chunk in a fused step */
    chunk_state chunks[OPEN_CHUNKS];
    sampler **samplers; /* per sequence slot */
    float *logits;      /* (HEAD_ROWS, vocab) */
    uint32_t vocab_limit;
    atomic_bool yield;
    op_cost costs[OPS_MAX]; /* of prefill, by op of a layer */
    logits_tap tap;
    void *tap_context;
} model_runner;

typedef struct { /* a row whose logits are wanted */
    uint32_t row, seq, position;
} wanted_row;

static status runner_sequence_open(runner *base, uint32_t seq, const sequence_start *start)
{
    model_runner *r = (model_runner *)base;
    assert(seq < base->info.max_sequences);
    sampler_destroy(r->samplers[seq]);
    r->samplers[seq] = NULL;
    return sampler_create(&r->samplers[seq], start->params, r->vocab_limit, start->tokens, start->prompt_count,
                          start->generated_before);
}

static void runner_sequence_close(runner *base, uint32_t seq)
{
    model_runner *r = (model_runner *)base;
    sampler_destroy(r->samplers[seq]);
    r->samplers[seq] = NULL;
    for (uint32_t i = 0; i < OPEN_CHUNKS; i++)
        if (r->chunks[i].open && r->chunks[i].seq == seq)
            r->chunks[i].open = false;
}

static void sample_rows(model_runner *r, const batch *b, const wanted_row *rows, uint32_t count, step_result *result)
{
    uint32_t vocab = r->model->config.vocab;
    for (uint32_t done = 0; done < count;) {
        uint32_t group = count - done < HEAD_ROWS ? count - done : HEAD_ROWS, index[HEAD_ROWS];
        for (uint32_t i = 0; i < group; i++)
            index[i] = rows[done + i].row;
        head_logits(r->model, &r->head, b, index, group, r->logits);
        for (uint32_t i = 0; i < group; i++) {
            const wanted_row *w = &rows[done + i];
            float *logits = r->logits + (size_t)i * vocab;
            if (r->tap)
                r->tap(r->tap_context, w->seq, w->position, logits, vocab);
            sampled_token *token = &result->tokens[result->token_count++];
            token->seq = w->seq;
            sampler_draw(r->samplers[w->seq], logits, token);
        }
        done += group;
    }
    result->weight_bytes += r->device->ops->weight_bytes(r->model->head);
}

static void finish_batch(const batch *b, step_result *result)
{
    result->weight_bytes += b->weight_bytes;
    result->kv_bytes += b->kv_bytes;
}

static void add_chunk(model_runner *r, batch *b, const prefill_chunk *c)
{
    uint32_t first = b->rows;
    batch_add(b, c->seq, c->pages, c->position, c->tokens, c->token_count);
    for (uint32_t i = 0; r->states && i < c->capture_count; i++)
        batch_copy_state(b, first + c->captures[i].position - c->position - 1, c->captures[i].pages);
}

static bool part_ready(const prefill_chunk *c, uint32_t part)
{
    return !c->parts_ready || atomic_load_explicit(c->parts_ready, memory_order_acquire) > part;
}

/* Whether what the cursor stands before has the older KV that it reads. */
static bool kv_ready(const model_runner *r, const batch *b, const prefill_chunk *c)
{
    if (!c->parts_ready || b->op != MIXER_OP || b->layer >= r->model->config.layers)
        return true;
    const layer_weights *w = &r->model->layers[b->layer];
    return w->recurrent || part_ready(c, w->cache_layer / r->pages.part_layers);
}

/* Decode rows, and the chunk's rows too in a fused step, through all layers. A chunk that would have to wait for its KV
 * is left out. */
static void run_rows(model_runner *r, const step_plan *plan, step_result *result)
{
    batch *b = r->decode;
    wanted_row wanted[MAX_ROWS + 1];
    uint32_t count = 0;
    batch_start(b, r->cache, r->states);
    for (uint32_t i = 0; i < plan->row_count; i++) {
        const decode_row *row = &plan->rows[i];
        batch_add(b, row->seq, row->pages, row->position, &row->token, 1);
        wanted[count++] = (wanted_row){i, row->seq, row->position};
    }
    const prefill_chunk *c = &plan->chunk;
    if (plan->kind == STEP_FUSED && !part_ready(c, r->pages.base.parts - 1)) {
        result->stalled = true;
    } else if (plan->kind == STEP_FUSED) {
        add_chunk(r, b, c);
        if (c->sample)
            wanted[count++] = (wanted_row){b->rows - 1, c->seq, c->position + c->token_count - 1};
        result->chunk_done = true;
    }
    while (!batch_advance(r->model, b))
        ;
    if (count)
        sample_rows(r, b, wanted, count, result);
    finish_batch(b, result);
}

/* Of an op over rows [0, count) of a chunk at `position`, in microseconds; 1 a row while nothing is known. */
static double cost_of(const op_cost *c, uint32_t position, uint32_t count)
{
    double n = count, depth_sum = n * (position + (n - 1) / 2), spread = c->rows * c->square - c->depth * c->depth;
    if (c->rows <= 0 || c->us <= 0)
        return n;
    double b = spread > 1e-6 * c->rows * c->square ? (c->rows * c->us_depth - c->depth * c->us) / spread : 0;
    double most = c->depth > 0 ? 0.95 * c->us / c->depth : 0; /* a row costs something at depth 0 too */
    b = b < 0 ? 0 : b > most ? most : b;
    double a = (c->us - b * c->depth) / c->rows;
    return a * n + b * depth_sum;
}

/* How much of the chunk's work is done: whole layers, and of the one begun what its ops cost. */
static double part_done(const model_runner *r, const batch *b)
{
    uint32_t ops = r->model->arch->op_count, position = b->segments[0].position;
    double all = 0, done = 0;
    for (uint32_t op = 0; op < ops; op++) {
        const op_cost *cost = &r->costs[op < OPS_MAX ? op : OPS_MAX - 1];
        all += cost_of(cost, position, b->rows);
        done += op < b->op ? cost_of(cost, position, b->rows) : op == b->op ? cost_of(cost, position, b->row) : 0;
    }
    return ((double)b->layer + done / all) / r->model->config.layers;
}

static void note_cost(op_cost *c, double rows, double depth, double us)
{
    if (c->rows > COST_ROWS_MAX) { /* forgets */
        c->rows /= 2, c->depth /= 2, c->square /= 2;
        c->us /= 2, c->us_depth /= 2;
    }
    c->rows += rows;
    c->depth += rows * depth;
    c->square += rows * depth * depth;
    c->us += us;
    c->us_depth += us * depth;
}

static bool advance_timed(model_runner *r, batch *b, hw_clock *clock, uint64_t *now_us)
{
    uint32_t op = b->op, row = b->row, layer = b->layer;
    bool done = batch_advance(r->model, b);
    uint64_t end_us = clock->now_us(clock);
    uint32_t to = b->op == op && b->layer == layer && !done ? b->row : b->rows;
    double middle = b->segments[0].position + (row + to) / 2.0;
    note_cost(&r->costs[op < OPS_MAX ? op : OPS_MAX - 1], to - row, middle, (double)(end_us - *now_us));
    *now_us = end_us;
    return done;
}

static void run_prefill(model_runner *r, const step_plan *plan, step_result *result, hw_clock *clock)
{
    const prefill_chunk *c = &plan->chunk;
    assert(c->chunk_slot < OPEN_CHUNKS);
    chunk_state *state = &r->chunks[c->chunk_slot];
    batch *b = state->batch;
    if (!state->open || state->seq != c->seq || state->position != c->position || state->count != c->token_count) {
        batch_start(b, r->cache, r->states);
        add_chunk(r, b, c);
        *state =
            (chunk_state){.batch = b, .open = true, .seq = c->seq, .position = c->position, .count = c->token_count};
    }
    b->segments[0].pages = c->pages; /* the engine's tables may have moved since */
    assert(!r->states || b->copy_count == c->capture_count);
    for (uint32_t i = 0; i < b->copy_count; i++)
        b->copies[i].pages = c->captures[i].pages;
    b->weight_bytes = b->kv_bytes = 0;
    bool done = false;
    uint64_t now_us = clock->now_us(clock);
    while (!done) {
        if ((result->stalled = !kv_ready(r, b, c)))
            break;
        done = advance_timed(r, b, clock, &now_us);
        if (done || atomic_exchange_explicit(&r->yield, false, memory_order_relaxed))
            break;
        if (plan->deadline_us && now_us >= plan->deadline_us)
            break;
    }
    result->chunk_part = done ? 1 : part_done(r, b);
    if (done) {
        state->open = false;
        result->chunk_done = true;
        if (c->sample)
            sample_rows(r, b, &(wanted_row){b->rows - 1, c->seq, c->position + c->token_count - 1}, 1, result);
    }
    finish_batch(b, result);
}

static status runner_run(runner *base, const step_plan *plan, step_result *result, hw_clock *clock, error *err)
{
    model_runner *r = (model_runner *)base;
    (void)err;
    result->token_count = 0;
    result->chunk_done = result->stalled = false;
    result->chunk_part = 0;
    result->bytes = result->weight_bytes = result->kv_bytes = 0;
    r->device->ops->step_begin(r->device);
    if (plan->kind == STEP_PREFILL)
        run_prefill(r, plan, result, clock);
    else
        run_rows(r, plan, result);
    r->device->ops->wait(r->device);
    r->device->ops->step_end(r->device);
    result->bytes = result->weight_bytes + result->kv_bytes;
    return OK;
}

static void runner_yield(runner *base)
{
    atomic_store_explicit(&((model_runner *)base)->yield, true, memory_order_relaxed);
}

static void runner_yield_seen(runner *base)
{
    atomic_store_explicit(&((model_runner *)base)->yield, false, memory_order_relaxed);
}

static void runner_close(runner *base)
{
    model_runner *r = (model_runner *)base;
    if (r->model) {
        batch_destroy(r->model, r->decode);
        for (uint32_t i = 0; i < OPEN_CHUNKS; i++)
            batch_destroy(r->model, r->chunks[i].batch);
        head_destroy(r->model, &r->head);
    }
    for (uint32_t i = 0; r->samplers && i < base->info.max_sequences; i++)
        sampler_destroy(r->samplers[i]);
    free(r->samplers);
    free(r->logits);
    if (r->cache)
        r->device->ops->kv_destroy(r->device, r->cache);
    if (r->states)
        r->device->ops->state_destroy(r->device, r->states);
    model_free(r->model);
    if (r->device)
        r->device->ops->close(r->device);
    free((char *)base->info.model_name);
    free(r);
}

static bool chunk_open(const model_runner *r, uint32_t seq)
{
    for (uint32_t i = 0; i < OPEN_CHUNKS; i++)
        if (r->chunks[i].open && r->chunks[i].seq == seq)
            return true;
    return false;
}

static status check_state_pages(const model_runner *r, uint32_t seq, const page_id *pages)
{
    if (!r->states || seq >= r->base.info.max_sequences)
        return ERR_INVALID;
    for (uint32_t i = 0; i < r->base.info.state_pages; i++)
        if (pages[i] >= r->base.info.page_count)
            return ERR_INVALID;
    return chunk_open(r, seq) ? ERR_BUSY : OK;
}

static status runner_state_save(runner *base, uint32_t seq, const page_id *pages)
{
    model_runner *r = (model_runner *)base;
    status st = check_state_pages(r, seq, pages);
    if (!st)
        r->device->ops->state_save(r->device, r->states, seq, r->cache, pages);
    return st;
}

static status runner_state_load(runner *base, uint32_t seq, const page_id *pages)
{
    model_runner *r = (model_runner *)base;
    status st = check_state_pages(r, seq, pages);
    if (!st)
        r->device->ops->state_load(r->device, r->states, seq, r->cache, pages);
    return st;
}

static void runner_page_copy(runner *base, page_id to, page_id from)
{
    page_mover *m = base->mover;
    for (uint32_t i = 0; i < m->parts; i++)
        memcpy(m->ops->at(m, to, i), m->ops->at(m, from, i), m->part_bytes);
}

static const runner_ops model_runner_ops = {.name = "model",
                                            .sequence_open = runner_sequence_open,
                                            .sequence_close = runner_sequence_close,
                                            .run = runner_run,
                                            .yield = runner_yield,
                                            .yield_seen = runner_yield_seen,
                                            .close = runner_close,
                                            .page_copy = runner_page_copy};
static const runner_ops stateful_runner_ops = {.name = "model",
                                               .sequence_open = runner_sequence_open,
                                               .sequence_close = runner_sequence_close,
                                               .run = runner_run,
                                               .yield = runner_yield,
                                               .yield_seen = runner_yield_seen,
                                               .close = runner_close,
                                               .state_save = runner_state_save,
                                               .state_load = runner_state_load,
                                               .page_copy = runner_page_copy};

/* Streams at once: what was asked for, or fewer than usual where their recurrent states would take more than a quarter
 * of the memory that is left. */
static void plan_sequences(model_runner *r, const model_runner_config *config)
{
    runner_info *info = &r->base.info;
    state_config one = model_state_config(r->model, 1);
    info->state_bytes = one.layers ? r->device->ops->state_bytes(&one) : 0;
    info->state_pages = (uint32_t)((info->state_bytes + info->page_bytes - 1) / info->page_bytes);
    info->max_sequences = config->sequences ? config->sequences : DEFAULT_SEQUENCES;
    while (!config->sequences && info->max_sequences > 1 &&
           info->max_sequences * info->state_bytes > memory_available() / 4)
        info->max_sequences--;
    r->base.ops = info->state_bytes ? &stateful_runner_ops : &model_runner_ops;
}

/* Context and pool: what was asked for, or what fits into half of the memory that is left. */
static status plan_memory(model_runner *r, const model_runner_config *config, char *text, size_t text_size, error *err)
{
    runner_info *info = &r->base.info;
    kv_cache_config one = model_kv_config(r->model, 1);
    info->page_tokens = KV_PAGE_TOKENS;
    info->page_bytes = r->device->ops->kv_page_bytes(&one);
    plan_sequences(r, config);
    uint64_t states = info->state_bytes * info->max_sequences, left = memory_available();
    uint64_t budget = config->kv_memory ? config->kv_memory : (left > states ? left - states : 0) / 2;
    uint32_t trained = r->model->config.context, wanted = config->context ? config->context : trained;
    uint64_t pages = budget / info->page_bytes, page_limit = UINT32_MAX / 2;
    uint64_t useful = ((uint64_t)wanted + KV_PAGE_TOKENS - 1) / KV_PAGE_TOKENS * info->max_sequences;
    uint64_t kept = cache_wish_pages(&config->cache, info, wanted);
    if (!config->kv_memory && pages > useful + kept)
        pages = useful + kept;
    if (pages > page_limit)
        pages = page_limit;
    if (pages == 0)
        return error_set(err, ERR_MEMORY, "KV memory of %llu bytes holds no page (%llu bytes)",
                         (unsigned long long)budget, (unsigned long long)info->page_bytes);
    uint64_t fits = pages * KV_PAGE_TOKENS;
    if (config->context && fits < wanted)
        return error_set(err, ERR_MEMORY, "a context of %u tokens needs %llu MB of KV memory, %llu MB are there",
                         wanted, (unsigned long long)(useful / info->max_sequences * info->page_bytes >> 20),
                         (unsigned long long)(budget >> 20));
    info->context_length = fits < wanted ? (uint32_t)fits : wanted;
    info->page_count = (uint32_t)pages;
    const char *why = config->context ? "asked for" : fits < wanted ? "what the KV memory holds" : "the model's own";
    char state_text[64] = "";
    if (states)
        snprintf(state_text, sizeof state_text, "; recurrent states %llu MB", (unsigned long long)(states >> 20));
    snprintf(text, text_size, "context %u tokens (%s); KV pool %llu MB of %s for %u streams (%s)%s; weights %llu MB",
             info->context_length, why, (unsigned long long)(pages * info->page_bytes >> 20),
             kv_type_name(r->model->kv_stored), info->max_sequences,
             config->kv_memory ? "asked for" : "at most half of the free memory, used as it fills", state_text,
             (unsigned long long)(r->model->resident_bytes >> 20));
    return OK;
}

static status create_batches(model_runner *r, const model_runner_config *config, error *err)
{
    runner_info *info = &r->base.info;
    info->max_rows = info->max_sequences < MAX_ROWS ? info->max_sequences : MAX_ROWS;
    info->max_chunk_tokens = config->chunk_tokens ? config->chunk_tokens : DEFAULT_CHUNK;
    info->max_open_chunks = OPEN_CHUNKS;
    status st = batch_create(&r->decode, r->model, info->max_rows + info->max_chunk_tokens, info->max_rows + 1, err);
    for (uint32_t i = 0; !st && i < OPEN_CHUNKS; i++)
        st = batch_create(&r->chunks[i].batch, r->model, info->max_chunk_tokens, 1, err);
    if (st || (st = head_create(&r->head, r->model, err)))
        return st;
    kv_cache_config kv = model_kv_config(r->model, info->page_count);
    if ((st = r->device->ops->kv_create(r->device, &kv, &r->cache, err)))
        return st;
    state_config states = model_state_config(r->model, info->max_sequences);
    if (states.layers && (st = r->device->ops->state_create(r->device, &states, &r->states, err)))
        return st;
    r->samplers = calloc(info->max_sequences, sizeof *r->samplers);
    r->logits = malloc((size_t)HEAD_ROWS * r->model->config.vocab * sizeof *r->logits);
    if (!r->samplers || !r->logits)
        return error_set(err, ERR_MEMORY, "runner: out of memory");
    return OK;
}

static char *model_name(const model_file *file)
{
    span name = {0};
    if (model_file_string(file, "general.name", &name, NULL) == OK && name.size && name.size < 200)
        return strndup(name.data, name.size);
    const char *path = model_file_path(file), *slash = strrchr(path, '/');
    return strdup(slash ? slash + 1 : path);
}

/* The roof is that of reading as much as a step reads, so that a last-level cache counts for what it gives; a start
 * must stay quick. */
static size_t roof_bytes(uint64_t step_bytes)
{
    return step_bytes < ROOF_BYTES_MAX ? (size_t)step_bytes : ROOF_BYTES_MAX;
}

status model_runner_open(runner **out, const model_file *file, const model_runner_config *config, char *plan_text,
                         size_t plan_size, error *err)
{
    model_runner *r = calloc(1, sizeof *r);
    if (!r)
        return error_set(err, ERR_MEMORY, "runner: out of memory");
    r->base.ops = &model_runner_ops;
    status st;
    if ((st = cpu_backend_open(&r->device, &(backend_config){config->threads, config->kernels}, err)))
        goto fail;
    /* Before the weights: the buffer that is read is as large as they are, and then never beside them. */
    r->base.info.read_roof = r->device->ops->read_roof(r->device, roof_bytes(model_file_bytes(file)));
    if ((st = model_load(&r->model, file, r->device, &config->progress, err)))
        goto fail;
    r->model->kv_stored = !config->kv_by_weights ? config->kv_stored : r->model->config.halved ? KV_F16 : KV_F32;
    if ((st = plan_memory(r, config, plan_text, plan_size, err)) || (st = create_batches(r, config, err)))
        goto fail;
    runner_info *info = &r->base.info;
    kv_cache_config kv = model_kv_config(r->model, info->page_count);
    device_pages_open(&r->pages, r->device, r->cache, &kv, kv_fingerprint(r->model, file, &kv));
    r->base.mover = &r->pages.base;
    info->model_name = model_name(file);
    info->vocab_size = r->model->config.vocab;
    info->weight_bytes = r->model->weight_bytes;
    r->vocab_limit =
        config->vocab_limit && config->vocab_limit < info->vocab_size ? config->vocab_limit : info->vocab_size;
    *out = &r->base;
    return OK;
fail:
    runner_close(&r->base);
    return st;
}

const model *model_runner_model(const runner *r)
{
    return ((const model_runner *)r)->model;
}

void model_runner_tap(runner *r, logits_tap tap, void *context)
{
    ((model_runner *)r)->tap = tap;
    ((model_runner *)r)->tap_context = context;
}
