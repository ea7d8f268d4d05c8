/* model/arch/moe.c: layers with routed experts, and a shared one that is always read (models.md B.5):
 *   x += sigmoid(w n) shared(n) + sum over the used e of p_e expert_e(n), n = rms(x), p = softmax(Wr n)
 * The sum is an op of its own that goes over slices of the experts, not of the rows: every row block would read most
 * experts again. A layer without a router has a plain gated FFN. */
#include "model/arch/arch.h"

#include <stdio.h>

enum { GATING_SOFTMAX = 1 };

status configure_experts(model *m, const model_file *file, error *err)
{
    model_config *c = &m->config;
    char key[96];
    uint32_t gating;
    float scale;
    status st;
    if ((st = arch_u32(m, file, "expert_count", 0, 1, EXPERTS_MAX, &c->experts, err)) ||
        (st = arch_u32(m, file, "expert_used_count", 0, 1,
                       c->experts < EXPERTS_USED_MAX ? c->experts : EXPERTS_USED_MAX, &c->experts_used, err)) ||
        (st = arch_u32(m, file, "expert_feed_forward_length", 0, 1, 1u << 20, &c->expert_ffn, err)) ||
        (st = arch_u32(m, file, "expert_shared_feed_forward_length", 0, 0, 1u << 20, &c->shared_ffn, err)) ||
        (st = arch_u32(m, file, "expert_gating_func", GATING_SOFTMAX, 0, 100, &gating, err)) ||
        (st = arch_f32(m, file, "expert_weights_scale", 1, &scale, err)))
        return st;
    if (gating != GATING_SOFTMAX || (scale != 1.0f && scale != 0.0f))
        return error_set(err, ERR_UNSUPPORTED, "%s: %s.expert_gating_func %u, expert_weights_scale %g: want 1 and 1",
                         model_file_path(file), m->arch->name, gating, (double)scale);
    c->experts_normalize = true;
    arch_key(m, "expert_weights_norm", key, sizeof key);
    st = model_file_bool(file, key, &c->experts_normalize, err);
    return st == ERR_NOT_FOUND ? OK : st;
}

static uint32_t type_of(const model_file *file, uint32_t layer, const char *name)
{
    char full[96];
    snprintf(full, sizeof full, "blk.%u.%s", layer, name);
    const model_tensor *t = model_file_tensor(file, full);
    return t ? t->type : DT_COUNT;
}

/* gate and up lie apart, or as one tensor with gate's rows before up's in each expert. */
static status bind_stacks(model *m, const model_file *file, uint32_t layer, error *err)
{
    const model_config *c = &m->config;
    layer_weights *w = &m->layers[layer];
    bool fused = has_tensor(file, layer, "ffn_gate_up_exps.weight");
    uint32_t rows = c->expert_ffn, both = 2 * rows;
    row_map gate = fused ? (row_map){rows, both, 0} : (row_map){0};
    row_map up = fused ? (row_map){rows, both, rows} : (row_map){0};
    const char *gate_name = fused ? "ffn_gate_up_exps.weight" : "ffn_gate_exps.weight";
    const char *up_name = fused ? "ffn_gate_up_exps.weight" : "ffn_up_exps.weight";
    status st;
    if (type_of(file, layer, gate_name) != type_of(file, layer, up_name) && has_tensor(file, layer, gate_name) &&
        has_tensor(file, layer, up_name))
        return error_set(err, ERR_UNSUPPORTED, "%s: tensors blk.%u.%s and %s: of two types, want one",
                         model_file_path(file), layer, gate_name, up_name);
    if ((st = bind_stack(m, file, (int)layer, gate_name, c->experts, rows, c->hidden, gate, &w->expert_gate, err)) ||
        (st = bind_stack(m, file, (int)layer, up_name, c->experts, rows, c->hidden, up, &w->expert_up, err)))
        return st;
    return bind_stack(m, file, (int)layer, "ffn_down_exps.weight", c->experts, c->hidden, rows, (row_map){0},
                      &w->expert_down, err);
}

status bind_experts(model *m, const model_file *file, uint32_t layer, error *err)
{
    const model_config *c = &m->config;
    layer_weights *w = &m->layers[layer];
    if (!c->experts || !has_tensor(file, layer, "ffn_gate_inp.weight"))
        return bind_ffn(m, file, layer, err);
    if (has_tensor(file, layer, "exp_probs_b.bias"))
        return error_set(err, ERR_UNSUPPORTED, "%s: tensor blk.%u.exp_probs_b.bias: routing with a bias",
                         model_file_path(file), layer);
    status st = bind_weight(m, file, (int)layer, "ffn_gate_inp.weight", c->experts, c->hidden, &w->router, err);
    if (st || (st = bind_stacks(m, file, layer, err)) || !c->shared_ffn)
        return st;
    const matrix_want shared[] = {
        {"ffn_gate_inp_shexp.weight", 1, c->hidden, &w->shared_gate},
        {"ffn_gate_shexp.weight", c->shared_ffn, c->hidden, &w->gate},
        {"ffn_up_shexp.weight", c->shared_ffn, c->hidden, &w->up},
        {"ffn_down_shexp.weight", c->hidden, c->shared_ffn, &w->down},
    };
    return bind_matrices(m, file, layer, shared, sizeof shared / sizeof *shared, err);
}

/* The shared expert and the picks; what the routed ones start from stays in the batch. */
void run_router(const model *m, batch *b, uint32_t layer, uint32_t row, uint32_t count)
{
    const backend_ops *ops = m->device->ops;
    const model_config *c = &m->config;
    const layer_weights *w = &m->layers[layer];
    view x = {b->x, (size_t)row * c->hidden, c->hidden}, n = {b->expert_in, (size_t)row * c->hidden, c->hidden};
    view picks = {b->picks, (size_t)row * 2 * c->experts_used, 2 * (size_t)c->experts_used};
    view gate = work_view(m->work.gate, c->shared_ffn), up = work_view(m->work.up, c->shared_ffn);
    view logits = work_view(m->work.router, c->experts), share = work_view(m->work.shared_gate, 1);

    norm_rows(m, x, n, count, 1, c->hidden, w->ffn_norm);
    ops->matmul(m->device, &(matmul_args){.x = n,
                                          .rows = count,
                                          .target_count = w->shared_gate ? 4 : 1,
                                          .targets = {{.w = w->router, .out = logits},
                                                      {.w = w->gate, .out = gate},
                                                      {.w = w->up, .out = up},
                                                      {.w = w->shared_gate, .out = share}}});
    ops->route(m->device, &(route_args){.logits = logits,
                                        .picks = picks,
                                        .rows = count,
                                        .experts = c->experts,
                                        .used = c->experts_used,
                                        .normalize = c->experts_normalize});
    if (!w->shared_gate)
        return;
    ops->act_mul(m->device, &(act_mul_args){gate, up, gate, count, c->shared_ffn, c->act});
    ops->sigmoid_mul(m->device, &(sigmoid_mul_args){gate, share, count, c->shared_ffn, true});
    project_residual(m, gate, w->down, NULL, NULL, x, count);
}

/* All rows; of the experts the share that rows [row, row + count) are of all. */
void run_experts(const model *m, batch *b, uint32_t layer, uint32_t row, uint32_t count)
{
    const model_config *c = &m->config;
    const layer_weights *w = &m->layers[layer];
    uint64_t end = row + count;
    m->device->ops->experts(m->device, &(experts_args){.x = {b->expert_in, 0, c->hidden},
                                                       .out = {b->x, 0, c->hidden},
                                                       .picks = {b->picks, 0, 2 * (size_t)c->experts_used},
                                                       .rows = b->rows,
                                                       .used = c->experts_used,
                                                       .first = (uint32_t)((uint64_t)c->experts * row / b->rows),
                                                       .end = (uint32_t)(c->experts * end / b->rows),
                                                       .gate = w->expert_gate,
                                                       .up = w->expert_up,
                                                       .down = w->expert_down,
                                                       .act = c->act,
                                                       .touched = b->touched});
}

uint64_t experts_weight_bytes(const model *m, uint32_t layer)
{
    const backend_ops *ops = m->device->ops;
    const layer_weights *w = &m->layers[layer];
    uint64_t bytes = ops->weight_bytes(w->router);
    return w->shared_gate ? bytes + ops->weight_bytes(w->shared_gate) + ops->weight_bytes(w->gate) +
                                ops->weight_bytes(w->up) + ops->weight_bytes(w->down)
                          : bytes;
}
