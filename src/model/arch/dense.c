/* model/arch/dense.c: attention and gated FFN on a block of rows, read top to bottom like the formulas (models.md A.3,
 * C). */
#include "model/arch/arch.h"

view work_view(buffer *b, uint32_t width)
{
    return (view){b, 0, width};
}

void norm_rows(const model *m, view x, view out, uint32_t rows, uint32_t groups, uint32_t dim, const buffer *weight)
{
    m->device->ops->rms_norm(m->device, &(rms_norm_args){.x = x,
                                                         .out = out,
                                                         .rows = rows,
                                                         .groups = groups,
                                                         .dim = dim,
                                                         .weight = weight,
                                                         .eps = m->config.rms_eps});
}

/* The batch's segments cut to rows [row, row + count), row numbers relative to the block; fills positions too. */
uint32_t slice_segments(batch *b, uint32_t row, uint32_t count)
{
    uint32_t n = 0;
    for (uint32_t s = 0; s < b->segment_count; s++) {
        const batch_segment *g = &b->segments[s];
        uint32_t first = row > g->row_start ? row : g->row_start;
        uint32_t end = row + count < g->row_start + g->row_count ? row + count : g->row_start + g->row_count;
        if (first >= end)
            continue;
        uint32_t position = g->position + (first - g->row_start);
        b->state_slice[n] = (state_segment){g->slot, position, first - row, end - first};
        b->slice[n++] = (kv_segment){g->pages, position, first - row, end - first};
        for (uint32_t r = first; r < end; r++)
            b->positions[r - row] = g->position + (r - g->row_start);
    }
    return n;
}

/* x += W in, through the post norm where the family has one. */
void project_residual(const model *m, view in, const weight *w, const buffer *bias, const buffer *post, view x,
                      uint32_t rows)
{
    const backend_ops *ops = m->device->ops;
    view proj = work_view(m->work.proj, m->config.hidden);
    matmul_target target = {.w = w, .out = post ? proj : x, .bias = bias, .add = !post};
    ops->matmul(m->device, &(matmul_args){.x = in, .rows = rows, .target_count = 1, .targets = {target}});
    if (!post)
        return;
    norm_rows(m, proj, proj, rows, 1, m->config.hidden, post);
    ops->add(m->device, &(add_args){.x = proj, .out = x, .rows = rows, .dim = m->config.hidden});
}

static void rotate(const model *m, view x, uint32_t heads, uint32_t rows, const rope_table *rope,
                   const uint32_t *positions)
{
    const model_config *c = &m->config;
    m->device->ops->rope(m->device, &(rope_args){.x = x,
                                                 .rows = rows,
                                                 .heads = heads,
                                                 .head_dim = c->head_dim,
                                                 .rotary = c->rotary,
                                                 .interleaved = c->interleaved,
                                                 .inv_freq = rope->inv_freq,
                                                 .factor = rope->factor,
                                                 .positions = positions});
}

void run_attention(const model *m, batch *b, uint32_t layer, uint32_t row, uint32_t count)
{
    const backend_ops *ops = m->device->ops;
    const model_config *c = &m->config;
    const layer_weights *w = &m->layers[layer];
    uint32_t q_width = c->heads * c->head_dim, kv_width = c->kv_heads * c->head_dim;
    view x = {b->x, (size_t)row * c->hidden, c->hidden};
    view n = work_view(m->work.norm, c->hidden), q = work_view(m->work.q, q_width);
    view k = work_view(m->work.k, kv_width), v = work_view(m->work.v, kv_width), att = work_view(m->work.att, q_width);
    uint32_t segments = slice_segments(b, row, count);

    norm_rows(m, x, n, count, 1, c->hidden, w->attn_norm);
    view gate = work_view(m->work.q_gate, q_width);
    ops->matmul(m->device, &(matmul_args){.x = n,
                                          .rows = count,
                                          .target_count = w->q_gate ? 4 : 3,
                                          .targets = {{.w = w->q, .out = q, .bias = w->q_bias},
                                                      {.w = w->k, .out = k, .bias = w->k_bias},
                                                      {.w = w->v, .out = v, .bias = w->v_bias},
                                                      {.w = w->q_gate, .out = gate}}});
    if (w->q_norm)
        norm_rows(m, q, q, count, c->heads, c->head_dim, w->q_norm);
    if (w->k_norm)
        norm_rows(m, k, k, count, c->kv_heads, c->head_dim, w->k_norm);
    const rope_table *rope = w->sliding ? &m->rope_local : &m->rope;
    rotate(m, q, c->heads, count, rope, b->positions);
    rotate(m, k, c->kv_heads, count, rope, b->positions);
    ops->kv_write(m->device, &(kv_write_args){.cache = b->cache,
                                              .layer = w->cache_layer,
                                              .k = k,
                                              .v = v,
                                              .segments = b->slice,
                                              .segment_count = segments});
    ops->attend(m->device, &(attend_args){.cache = b->cache,
                                          .layer = w->cache_layer,
                                          .q = q,
                                          .out = att,
                                          .heads = c->heads,
                                          .segments = b->slice,
                                          .segment_count = segments,
                                          .scale = c->attend_scale,
                                          .softcap = c->attend_softcap,
                                          .window = w->sliding ? c->window : 0});
    if (w->q_gate)
        ops->sigmoid_mul(m->device, &(sigmoid_mul_args){.x = att, .gate = gate, .rows = count, .dim = q_width});
    project_residual(m, att, w->o, w->o_bias, w->attn_post_norm, x, count);
}

void run_ffn(const model *m, batch *b, uint32_t layer, uint32_t row, uint32_t count)
{
    const backend_ops *ops = m->device->ops;
    const model_config *c = &m->config;
    const layer_weights *w = &m->layers[layer];
    view x = {b->x, (size_t)row * c->hidden, c->hidden}, n = work_view(m->work.norm, c->hidden);
    view gate = work_view(m->work.gate, c->ffn), up = work_view(m->work.up, c->ffn);

    norm_rows(m, x, n, count, 1, c->hidden, w->ffn_norm);
    ops->matmul(m->device, &(matmul_args){.x = n,
                                          .rows = count,
                                          .target_count = 2,
                                          .targets = {{.w = w->gate, .out = gate}, {.w = w->up, .out = up}}});
    ops->act_mul(m->device,
                 &(act_mul_args){.gate = gate, .up = up, .out = gate, .rows = count, .dim = c->ffn, .act = c->act});
    project_residual(m, gate, w->down, NULL, w->ffn_post_norm, x, count);
}

void run_dense_op(const model *m, batch *b, uint32_t layer, uint32_t op, uint32_t row, uint32_t count)
{
    if (op == 0)
        run_attention(m, b, layer, row, count);
    else
        run_ffn(m, b, layer, row, count);
}

uint64_t dense_op_weight_bytes(const model *m, uint32_t layer, uint32_t op)
{
    const backend_ops *ops = m->device->ops;
    const layer_weights *w = &m->layers[layer];
    if (op == 0)
        return ops->weight_bytes(w->q) + ops->weight_bytes(w->k) + ops->weight_bytes(w->v) + ops->weight_bytes(w->o) +
               (w->q_gate ? ops->weight_bytes(w->q_gate) : 0);
    return ops->weight_bytes(w->gate) + ops->weight_bytes(w->up) + ops->weight_bytes(w->down);
}
