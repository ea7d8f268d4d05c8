/* model/arch/hybrid.c: what Qwen3-Next and Qwen3.5 share: most layers remember a fixed-size state (gated delta rule,
 * models.md B.4), every n-th attends with a gate (B.3). Which a layer is, its tensors say. */
#include "model/arch/arch.h"

#include <stdlib.h>

status configure_delta(model *m, const model_file *file, error *err)
{
    model_config *c = &m->config;
    uint32_t inner;
    status st;
    if ((st = arch_u32(m, file, "ssm.conv_kernel", 0, 2, CONV_TAPS_MAX, &c->taps, err)) ||
        (st = arch_u32(m, file, "ssm.state_size", 0, 16, 1024, &c->key_dim, err)) ||
        (st = arch_u32(m, file, "ssm.group_count", 0, 1, 1024, &c->key_heads, err)) ||
        (st = arch_u32(m, file, "ssm.time_step_rank", 0, 1, 1024, &c->value_heads, err)) ||
        (st = arch_u32(m, file, "ssm.inner_size", c->value_heads * c->key_dim, 16, 1u << 20, &inner, err)))
        return st;
    c->value_dim = inner / c->value_heads;
    if (inner % c->value_heads || c->value_heads % c->key_heads || c->value_dim % 16 || c->key_dim % 16 ||
        c->value_dim > 1024)
        return error_set(err, ERR_UNSUPPORTED,
                         "%s: %s.ssm: %u key heads of %u, %u value heads of %u together: want value heads a multiple "
                         "of key heads, widths multiples of 16",
                         model_file_path(file), m->arch->name, c->key_heads, c->key_dim, c->value_heads, inner);
    return OK;
}

/* The file's (channels, taps), here one row a tap. */
static status bind_conv(model *m, const model_file *file, uint32_t layer, uint32_t channels, error *err)
{
    uint32_t taps = m->config.taps;
    size_t count = (size_t)taps * channels;
    buffer **out = &m->layers[layer].conv;
    float *values = NULL, *turned = malloc(count * sizeof *turned);
    status st = turned ? read_floats(file, (int)layer, "ssm_conv1d.weight", channels, taps, &values, err)
                       : error_set(err, ERR_MEMORY, "blk.%u.ssm_conv1d.weight: out of memory", layer);
    for (size_t i = 0; !st && i < count; i++)
        turned[i % taps * channels + i / taps] = values[i];
    if (!st && (st = m->device->ops->buffer_create(m->device, count, out)))
        error_set(err, st, "blk.%u.ssm_conv1d.weight: out of memory", layer);
    if (!st)
        m->device->ops->upload(m->device, *out, 0, turned, count);
    free(values);
    free(turned);
    return st;
}

/* beta and alpha: apart, or as one tensor that has for each key head beta's rows of its value heads, then alpha's. */
static status bind_rates(model *m, const model_file *file, uint32_t layer, error *err)
{
    const model_config *c = &m->config;
    layer_weights *w = &m->layers[layer];
    uint32_t r = c->value_heads / c->key_heads;
    bool fused = has_tensor(file, layer, "ssm_ba.weight");
    row_map beta = fused ? (row_map){r, 2 * r, 0} : (row_map){0}, alpha = fused ? (row_map){r, 2 * r, r} : beta;
    status st = bind_mapped(m, file, (int)layer, fused ? "ssm_ba.weight" : "ssm_beta.weight", c->value_heads, c->hidden,
                            beta, &w->beta, err);
    return st ? st
              : bind_mapped(m, file, (int)layer, fused ? "ssm_ba.weight" : "ssm_alpha.weight", c->value_heads,
                            c->hidden, alpha, &w->alpha, err);
}

static status bind_delta(model *m, const model_file *file, uint32_t layer, error *err)
{
    model_config *c = &m->config;
    layer_weights *w = &m->layers[layer];
    uint32_t inner = c->value_heads * c->value_dim, channels = 2 * c->key_heads * c->key_dim + inner;
    const matrix_want matrices[] = {
        {"attn_qkv.weight", channels, c->hidden, &w->qkv},
        {"attn_gate.weight", inner, c->hidden, &w->z},
        {"ssm_out.weight", c->hidden, inner, &w->state_out},
    };
    const vector_want vectors[] = {
        {"attn_norm.weight", c->hidden, 0, &w->attn_norm},
        {"ssm_dt.bias", c->value_heads, 0, &w->dt},
        {"ssm_a", c->value_heads, 0, &w->decay},
        {"ssm_norm.weight", c->value_dim, 0, &w->state_norm},
    };
    w->recurrent = true;
    w->cache_layer = c->state_layers++;
    status st = bind_vectors(m, file, layer, vectors, sizeof vectors / sizeof *vectors, err);
    if (st || (st = bind_matrices(m, file, layer, matrices, sizeof matrices / sizeof *matrices, err)) ||
        (st = bind_conv(m, file, layer, channels, err)))
        return st;
    return bind_rates(m, file, layer, err);
}

static status bind_gated_attention(model *m, const model_file *file, uint32_t layer, error *err)
{
    const model_config *c = &m->config;
    layer_weights *w = &m->layers[layer];
    uint32_t d = c->head_dim, q = c->heads * d, kv = c->kv_heads * d;
    const matrix_want matrices[] = {
        {"attn_k.weight", kv, c->hidden, &w->k},
        {"attn_v.weight", kv, c->hidden, &w->v},
        {"attn_output.weight", c->hidden, q, &w->o},
    };
    const vector_want vectors[] = {
        {"attn_norm.weight", c->hidden, 0, &w->attn_norm},
        {"attn_q_norm.weight", d, 0, &w->q_norm},
        {"attn_k_norm.weight", d, 0, &w->k_norm},
    };
    w->cache_layer = m->config.kv_layers++;
    status st = bind_vectors(m, file, layer, vectors, sizeof vectors / sizeof *vectors, err);
    if (st ||
        (st = bind_mapped(m, file, (int)layer, "attn_q.weight", q, c->hidden, (row_map){d, 2 * d, 0}, &w->q, err)) ||
        (st = bind_mapped(m, file, (int)layer, "attn_q.weight", q, c->hidden, (row_map){d, 2 * d, d}, &w->q_gate, err)))
        return st;
    return bind_matrices(m, file, layer, matrices, sizeof matrices / sizeof *matrices, err);
}

static status bind_mixer(model *m, const model_file *file, uint32_t layer, error *err)
{
    return has_tensor(file, layer, "ssm_a") ? bind_delta(m, file, layer, err)
                                            : bind_gated_attention(m, file, layer, err);
}

status bind_hybrid_layer(model *m, const model_file *file, uint32_t layer, error *err)
{
    status st = bind_mixer(m, file, layer, err);
    if (st || (st = bind_vector(m, file, (int)layer, "post_attention_norm.weight", m->config.hidden, 0,
                                &m->layers[layer].ffn_norm, err)))
        return st;
    return bind_experts(m, file, layer, err);
}

static uint32_t slice_copies(batch *b, uint32_t row, uint32_t count)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < b->copy_count; i++)
        if (b->copies[i].row >= row && b->copies[i].row < row + count)
            b->copy_slice[n++] = (state_copy){b->copies[i].row - row, b->copies[i].pages};
    return n;
}

void run_delta(const model *m, batch *b, uint32_t layer, uint32_t row, uint32_t count)
{
    const backend_ops *ops = m->device->ops;
    const model_config *c = &m->config;
    const layer_weights *w = &m->layers[layer];
    uint32_t inner = c->value_heads * c->value_dim, channels = 2 * c->key_heads * c->key_dim + inner;
    view x = {b->x, (size_t)row * c->hidden, c->hidden}, n = work_view(m->work.norm, c->hidden);
    view qkv = work_view(m->work.qkv, channels), z = work_view(m->work.z, inner), out = work_view(m->work.att, inner);
    view alpha = work_view(m->work.alpha, c->value_heads), beta = work_view(m->work.beta, c->value_heads);
    uint32_t segments = slice_segments(b, row, count);

    norm_rows(m, x, n, count, 1, c->hidden, w->attn_norm);
    ops->matmul(m->device, &(matmul_args){.x = n,
                                          .rows = count,
                                          .target_count = 4,
                                          .targets = {{.w = w->qkv, .out = qkv},
                                                      {.w = w->z, .out = z},
                                                      {.w = w->alpha, .out = alpha},
                                                      {.w = w->beta, .out = beta}}});
    ops->delta(m->device, &(delta_args){.cache = b->states,
                                        .layer = w->cache_layer,
                                        .qkv = qkv,
                                        .z = z,
                                        .out = out,
                                        .a = alpha,
                                        .b = beta,
                                        .conv = w->conv,
                                        .dt = w->dt,
                                        .decay = w->decay,
                                        .norm = w->state_norm,
                                        .grouped = c->value_heads_grouped,
                                        .eps = c->rms_eps,
                                        .segments = b->state_slice,
                                        .segment_count = segments,
                                        .copy_pages = b->cache,
                                        .copies = b->copy_slice,
                                        .copy_count = slice_copies(b, row, count)});
    project_residual(m, out, w->state_out, NULL, NULL, x, count);
}

uint64_t delta_weight_bytes(const model *m, uint32_t layer)
{
    const backend_ops *ops = m->device->ops;
    const layer_weights *w = &m->layers[layer];
    return ops->weight_bytes(w->qkv) + ops->weight_bytes(w->z) + ops->weight_bytes(w->alpha) +
           ops->weight_bytes(w->beta) + ops->weight_bytes(w->state_out);
}

void run_hybrid_op(const model *m, batch *b, uint32_t layer, uint32_t op, uint32_t row, uint32_t count)
{
    const layer_weights *w = &m->layers[layer];
    if (op == MIXER_OP && w->recurrent)
        run_delta(m, b, layer, row, count);
    else if (op == FFN_OP && w->router)
        run_router(m, b, layer, row, count);
    else if (op != EXPERTS_OP)
        run_dense_op(m, b, layer, op, row, count);
    else if (w->router)
        run_experts(m, b, layer, row, count);
}

uint64_t hybrid_op_weight_bytes(const model *m, uint32_t layer, uint32_t op)
{
    const layer_weights *w = &m->layers[layer];
    if (op == MIXER_OP && w->recurrent)
        return delta_weight_bytes(m, layer);
    if (op == EXPERTS_OP)
        return 0;
    return op == FFN_OP && w->router ? experts_weight_bytes(m, layer) : dense_op_weight_bytes(m, layer, op);
}
