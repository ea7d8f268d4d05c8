/* model/batch.c: the cursor over (layer, op, row block) that carries rows through any architecture, and the output
 * head. */
#include "model/model.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FEW_ROWS = 32 /* a decode batch: nobody looks at the yield flag */ };

status batch_create(batch **out, const model *m, uint32_t row_capacity, uint32_t segment_capacity, error *err)
{
    batch *b = calloc(1, sizeof *b);
    if (!b)
        return error_set(err, ERR_MEMORY, "batch: out of memory");
    b->row_capacity = row_capacity;
    b->segment_capacity = segment_capacity;
    b->segments = calloc(segment_capacity, sizeof *b->segments);
    b->slice = calloc(segment_capacity, sizeof *b->slice);
    b->state_slice = calloc(segment_capacity, sizeof *b->state_slice);
    b->ids = calloc(row_capacity, sizeof *b->ids);
    b->positions = calloc(m->row_block, sizeof *b->positions);
    status st = m->device->ops->buffer_create(m->device, (size_t)row_capacity * m->config.hidden, &b->x);
    if (!st && m->config.experts)
        st = m->device->ops->buffer_create(m->device, (size_t)row_capacity * m->config.hidden, &b->expert_in);
    if (!st && m->config.experts)
        st = m->device->ops->buffer_create(m->device, (size_t)row_capacity * 2 * m->config.experts_used, &b->picks);
    if (st || !b->segments || !b->slice || !b->state_slice || !b->ids || !b->positions) {
        batch_destroy(m, b);
        return error_set(err, ERR_MEMORY, "batch of %u rows: out of memory", row_capacity);
    }
    *out = b;
    return OK;
}

void batch_destroy(const model *m, batch *b)
{
    if (!b)
        return;
    m->device->ops->buffer_destroy(m->device, b->x);
    m->device->ops->buffer_destroy(m->device, b->expert_in);
    m->device->ops->buffer_destroy(m->device, b->picks);
    free(b->segments);
    free(b->slice);
    free(b->state_slice);
    free(b->ids);
    free(b->positions);
    free(b);
}

void batch_start(batch *b, kv_cache *cache, state_cache *states)
{
    b->rows = b->segment_count = b->copy_count = 0;
    b->layer = b->op = b->row = 0;
    b->embedded = false;
    b->weight_bytes = b->kv_bytes = 0;
    b->cache = cache;
    b->states = states;
}

void batch_add(batch *b, uint32_t slot, const uint32_t *pages, uint32_t position, const int32_t *tokens, uint32_t count)
{
    assert(b->segment_count < b->segment_capacity && b->rows + count <= b->row_capacity);
    b->segments[b->segment_count++] = (batch_segment){pages, tokens, slot, position, b->rows, count};
    for (uint32_t i = 0; i < count; i++)
        b->ids[b->rows + i] = tokens[i];
    b->rows += count;
}

void batch_copy_state(batch *b, uint32_t row, const uint32_t *pages)
{
    assert(b->states && b->copy_count < BATCH_COPIES_MAX && row < b->rows);
    assert(b->copy_count == 0 || b->copies[b->copy_count - 1].row < row);
    b->copies[b->copy_count++] = (state_copy){row, pages};
}

static void embed_rows(const model *m, batch *b)
{
    const get_rows_args args = {.table = m->embed,
                                .ids = b->ids,
                                .rows = b->rows,
                                .scale = m->config.embed_scale,
                                .out = {b->x, 0, m->config.hidden}};
    m->device->ops->get_rows(m->device, &args);
    b->embedded = true;
}

/* KV and state bytes that the rows of this block need: every key and value up to their last position once, every
 * sequence's state of the layer read and written once. */
static uint64_t remembered_bytes(const model *m, const batch *b, uint32_t layer, uint32_t row, uint32_t count)
{
    const model_config *c = &m->config;
    const layer_weights *w = &m->layers[layer];
    kv_cache_config page = model_kv_config(m, 1);
    double token_bytes = page.layers ? (double)m->device->ops->kv_page_bytes(&page) / page.layers / KV_PAGE_TOKENS : 0;
    uint64_t total = 0;
    state_config state = model_state_config(m, 1);
    uint64_t state_bytes = state.layers ? m->device->ops->state_bytes(&state) / state.layers : 0;
    for (uint32_t s = 0; s < b->segment_count; s++) {
        const batch_segment *g = &b->segments[s];
        uint32_t first = row > g->row_start ? row : g->row_start;
        uint32_t last = row + count < g->row_start + g->row_count ? row + count : g->row_start + g->row_count;
        if (first >= last)
            continue;
        uint64_t end = (uint64_t)g->position + (last - g->row_start), start = 0;
        uint64_t oldest = (uint64_t)g->position + (first - g->row_start) + 1;
        if (w->sliding && oldest > c->window)
            start = oldest - c->window;
        total += w->recurrent ? 2 * state_bytes : (uint64_t)((double)(end - start) * token_bytes);
    }
    return total;
}

static uint32_t experts_used(const model *m, const batch *b)
{
    uint32_t used = 0;
    for (uint32_t e = 0; e < m->config.experts; e++)
        used += b->touched[e];
    return used;
}

/* Rows of one step. EXPERTS_OP works on all rows each time, on a slice of the experts: its steps are counted in rows so
 * that the cursor is one. A slice is some milliseconds of a small CPU, or all of them for few rows. */
static uint32_t step_rows(const model *m, const batch *b)
{
    if (b->op != EXPERTS_OP || b->rows == 0)
        return m->row_block;
    const model_config *c = &m->config;
    double pairs = (double)b->rows * c->experts_used, all = c->experts;
    double read = pairs < all ? pairs : all;
    double bytes = read * (double)model_expert_bytes(m, b->layer), flops = 6 * pairs * c->hidden * c->expert_ffn;
    double slices = fmax(bytes / m->slice_bytes, flops / m->slice_flops);
    slices = b->rows <= FEW_ROWS || slices < 1 ? 1 : fmin(ceil(slices), all);
    return (uint32_t)ceil(b->rows / slices);
}

bool batch_advance(const model *m, batch *b)
{
    if (!b->embedded)
        embed_rows(m, b);
    if (b->layer >= m->config.layers)
        return true;
    uint32_t left = b->rows - b->row, most = step_rows(m, b);
    uint32_t count = left < most ? left : most;
    if (b->row == 0) {
        b->weight_bytes += m->arch->op_weight_bytes(m, b->layer, b->op);
        memset(b->touched, 0, m->config.experts);
    }
    if (b->op == MIXER_OP)
        b->kv_bytes += remembered_bytes(m, b, b->layer, b->row, count);
    uint32_t used = b->op == EXPERTS_OP ? experts_used(m, b) : 0;
    m->arch->run_op(m, b, b->layer, b->op, b->row, count);
    if (b->op == EXPERTS_OP) {
        m->device->ops->wait(m->device);
        b->weight_bytes += model_expert_bytes(m, b->layer) * (experts_used(m, b) - used);
    }
    b->row += count;
    if (b->row < b->rows)
        return false;
    b->row = 0;
    if (++b->op == m->arch->op_count) {
        b->op = 0;
        b->layer++;
    }
    return b->layer >= m->config.layers;
}

status head_create(head_scratch *h, const model *m, error *err)
{
    const backend_ops *ops = m->device->ops;
    status st = ops->buffer_create(m->device, (size_t)HEAD_ROWS * m->config.hidden, &h->norm);
    if (!st)
        st = ops->buffer_create(m->device, (size_t)HEAD_ROWS * m->config.vocab, &h->logits);
    return st ? error_set(err, st, "output head: out of memory") : OK;
}

void head_destroy(const model *m, head_scratch *h)
{
    m->device->ops->buffer_destroy(m->device, h->norm);
    m->device->ops->buffer_destroy(m->device, h->logits);
    *h = (head_scratch){0};
}

void head_logits(const model *m, const head_scratch *h, const batch *b, const uint32_t *rows, uint32_t count,
                 float *logits)
{
    const backend_ops *ops = m->device->ops;
    const model_config *c = &m->config;
    assert(count <= HEAD_ROWS);
    for (uint32_t i = 0; i < count;) { /* runs of consecutive rows: one call each */
        uint32_t run = 1;
        while (i + run < count && rows[i + run] == rows[i] + run)
            run++;
        ops->rms_norm(m->device, &(rms_norm_args){.x = {b->x, (size_t)rows[i] * c->hidden, c->hidden},
                                                  .out = {h->norm, (size_t)i * c->hidden, c->hidden},
                                                  .rows = run,
                                                  .groups = 1,
                                                  .dim = c->hidden,
                                                  .weight = m->final_norm,
                                                  .eps = c->rms_eps});
        i += run;
    }
    ops->matmul(m->device, &(matmul_args){.x = {h->norm, 0, c->hidden},
                                          .rows = count,
                                          .target_count = 1,
                                          .targets = {{.w = m->head, .out = {h->logits, 0, c->vocab}}}});
    ops->download(m->device, h->logits, 0, logits, (size_t)count * c->vocab);
    if (c->final_softcap > 0)
        for (size_t i = 0; i < (size_t)count * c->vocab; i++)
            logits[i] = c->final_softcap * tanhf(logits[i] / c->final_softcap);
}
