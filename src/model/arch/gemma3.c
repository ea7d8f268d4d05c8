/* model/arch/gemma3.c: Gemma 3 (text). Embeddings times sqrt(hidden), four norms a layer (the two "post" ones before
 * the residual add), normed q and k heads, five sliding layers with a local rope base to one full layer, GELU, soft
 * caps where set (models.md C). GGUF norm weights already hold the +1. */
#include "model/arch/arch.h"

#include <math.h>

enum { WINDOW_PATTERN = 6, LARGEST_LAYERS = 62 };
static const float local_rope_base = 10000.0f;

static status configure(model *m, const model_file *file, error *err)
{
    model_config *c = &m->config;
    float local = local_rope_base;
    status st = arch_f32(m, file, "rope.freq_base_swa", local_rope_base, &local, err);
    if (st || (st = arch_u32(m, file, "attention.sliding_window", 0, 0, 1u << 24, &c->window, err)) ||
        (st =
             arch_u32(m, file, "attention.sliding_window_pattern", WINDOW_PATTERN, 1, 1024, &c->window_pattern, err)) ||
        (st = arch_f32(m, file, "attn_logit_softcapping", 0, &c->attend_softcap, err)) ||
        (st = arch_f32(m, file, "final_logit_softcapping", 0, &c->final_softcap, err)) ||
        (st = build_rope(m, file, local, false, &m->rope_local, err)))
        return st;
    c->act = ACT_GELU_TANH;
    c->embed_scale = sqrtf((float)c->hidden);
    float scale = c->layers == LARGEST_LAYERS ? 1.0f / sqrtf((float)c->hidden / (float)c->heads) /* the 27B */
                                              : 1.0f / sqrtf((float)c->head_dim);
    return arch_f32(m, file, "attention.scale", scale, &c->attend_scale, err);
}

static status bind(model *m, const model_file *file, uint32_t layer, error *err)
{
    const model_config *c = &m->config;
    layer_weights *w = &m->layers[layer];
    status st = bind_dense_layer(m, file, layer, err);
    if (st ||
        (st = bind_vector(m, file, (int)layer, "post_attention_norm.weight", c->hidden, 0, &w->attn_post_norm, err)) ||
        (st = bind_vector(m, file, (int)layer, "post_ffw_norm.weight", c->hidden, 0, &w->ffn_post_norm, err)))
        return st;
    if (!w->q_norm || !w->k_norm)
        return error_set(err, ERR_INVALID, "blk.%u.attn_%c_norm.weight: missing, gemma3 needs it", layer,
                         !w->q_norm ? 'q' : 'k');
    w->sliding = c->window && (layer + 1) % c->window_pattern != 0;
    return OK;
}

const arch_ops arch_gemma3 = {"gemma3", 2, configure, bind, run_dense_op, dense_op_weight_bytes};
