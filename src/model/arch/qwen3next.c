/* model/arch/qwen3next.c: Qwen3-Next: gated delta layers, every fourth attends, experts with a shared one in all. Value
 * heads lie grouped by key head, beta and alpha in one tensor (models.md B.2). */
#include "model/arch/arch.h"

static status configure(model *m, const model_file *file, error *err)
{
    m->config.value_heads_grouped = true;
    status st = configure_delta(m, file, err);
    return st ? st : configure_experts(m, file, err);
}

const arch_ops arch_qwen3next = {"qwen3next", 3, configure, bind_hybrid_layer, run_hybrid_op, hybrid_op_weight_bytes};
