/* model/arch/llama.c: Llama and its kin (SmolLM2). GGUF stores q and k rows permuted, so rope turns adjacent pairs.
 *   h = x + Wo attend(rope(Wq n), rope(Wk n), Wv n), n = rms(x);  out = h + Wd(silu(Wg n) * Wu n), n = rms(h)
 * (models.md A.3) */
#include "model/arch/arch.h"

static status configure(model *m, const model_file *file, error *err)
{
    (void)file;
    m->config.interleaved = true;
    if (m->config.rotary != m->config.head_dim)
        return error_set(err, ERR_UNSUPPORTED, "llama.rope.dimension_count: %u, want the head size %u",
                         m->config.rotary, m->config.head_dim);
    return OK;
}

const arch_ops arch_llama = {"llama", 2, configure, bind_dense_layer, run_dense_op, dense_op_weight_bytes};
