/* model/arch/qwen3moe.c: Qwen3 with routed experts in place of the FFN, in all layers or most (models.md A.3). */
#include "model/arch/arch.h"

static status configure(model *m, const model_file *file, error *err)
{
    return configure_experts(m, file, err);
}

static status bind(model *m, const model_file *file, uint32_t layer, error *err)
{
    layer_weights *w = &m->layers[layer];
    status st = bind_attention(m, file, layer, err);
    if (st || (st = bind_vector(m, file, (int)layer, "ffn_norm.weight", m->config.hidden, 0, &w->ffn_norm, err)))
        return st;
    if (!w->q_norm || !w->k_norm)
        return error_set(err, ERR_INVALID, "blk.%u.attn_%c_norm.weight: missing, qwen3moe needs it", layer,
                         !w->q_norm ? 'q' : 'k');
    return bind_experts(m, file, layer, err);
}

const arch_ops arch_qwen3moe = {"qwen3moe", 3, configure, bind, run_hybrid_op, hybrid_op_weight_bytes};
