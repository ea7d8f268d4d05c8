/* model/arch/qwen2.c: Qwen2 and Qwen2.5: as llama with biases on q, k and v and half-split rope (models.md A.2, A.3).
 */
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
    if (!w->q_bias || !w->k_bias || !w->v_bias)
        return error_set(err, ERR_INVALID, "blk.%u.attn_%c.bias: missing, qwen2 needs it", layer,
                         !w->q_bias   ? 'q'
                         : !w->k_bias ? 'k'
                                      : 'v');
    return OK;
}

const arch_ops arch_qwen2 = {"qwen2", 2, configure, bind, run_dense_op, dense_op_weight_bytes};
