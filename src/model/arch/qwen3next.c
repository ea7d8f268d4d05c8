/* model/arch/qwen3next.c: Qwen3-Next: gated delta layers, every fourth attends, experts with a shared one in all. Value
 * heads lie grouped by key head, beta and alpha in one tensor (models.md B.2). */
#include "model/arch/arch.h"

static status configure(model *m, const model_file *file, error *err)
{
    m->config.value_heads_grouped = true;
    status st = configure_delta(m, file, err);
    return st ? st : configure_experts(m, file, err);
}

static status bind(model *m, const model_file *file, uint32_t layer, error *err)
{
    status st = bind_hybrid_mixer(m, file, layer, err);
    if (st || (st = bind_vector(m, file, (int)layer, "post_attention_norm.weight", m->config.hidden, 0,
                                &m->layers[layer].ffn_norm, err)))
        return st;
    return bind_experts(m, file, layer, err);
}

const arch_ops arch_qwen3next = {"qwen3next", 3, configure, bind, run_hybrid_op, hybrid_op_weight_bytes};
