/* model/arch/qwen35.c: Qwen3.5 and 3.6, dense and with experts (text): as Qwen3-Next, but GGUF files hold the value
 * heads tiled over the key heads (h mod n_k); a loader that leaves them grouped says so. The three axes of its rope are
 * one for text (models.md B.2, B.3). */
#include "model/arch/arch.h"

static status configure(model *m, const model_file *file, error *err)
{
    status st = model_file_bool(file, "headway.value_heads_grouped", &m->config.value_heads_grouped, err);
    if (st && st != ERR_NOT_FOUND)
        return st;
    return configure_delta(m, file, err);
}

static status configure_moe(model *m, const model_file *file, error *err)
{
    status st = configure(m, file, err);
    return st ? st : configure_experts(m, file, err);
}

const arch_ops arch_qwen35 = {"qwen35", 2, configure, bind_hybrid_layer, run_hybrid_op, hybrid_op_weight_bytes};
const arch_ops arch_qwen35moe = {"qwen35moe",           3, configure_moe, bind_hybrid_layer, run_hybrid_op,
                                 hybrid_op_weight_bytes};
