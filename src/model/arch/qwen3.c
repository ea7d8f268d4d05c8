/* model/arch/qwen3.c: Qwen3: no biases, RMS norm of each q and k head before the half-split rope (models.md A.3). */
#include "model/arch/arch.h"

static status configure(model *m, const model_file *file, error *err)
{
    (void)m;
    (void)file;
    (void)err;
    return OK;
}

static status bind(model *m, const model_file *file, uint32_t layer, error *err)
{
    status st = bind_dense_layer(m, file, layer, err);
    if (st)
        return st;
    const layer_weights *w = &m->layers[layer];
    if (!w->q_norm || !w->k_norm)
        return error_set(err, ERR_INVALID, "blk.%u.attn_%c_norm.weight: missing, qwen3 needs it", layer,
                         !w->q_norm ? 'q' : 'k');
    return OK;
}

const arch_ops arch_qwen3 = {"qwen3", 2, configure, bind, run_dense_op, dense_op_weight_bytes};
