/* model/model.c: loads a model: numbers, then weights layer by layer, then the scratch that ops share. */
#include "model/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/arch/arch.h"

enum {
    LAYERS_MAX = 1024,
    WIDTH_MAX = 1u << 20,
    ROW_BLOCK_MAX = 512,
    ROW_BLOCK_MIN = 32,
    ROUTED_ROW_BLOCK_MIN = 128, /* where a layer's experts take longer than that anyway */
};
static const double expert_slice_bytes = 128e6; /* some milliseconds too */
static const double row_block_flops = 2e9;      /* a row block of an op stays near some milliseconds on a small CPU */

static status read_heads(model *m, const model_file *file, error *err)
{
    model_config *c = &m->config;
    uint32_t value_dim;
    status st;
    if ((st = arch_u32(m, file, "attention.head_count", 0, 1, 4096, &c->heads, err)) ||
        (st = arch_u32(m, file, "attention.head_count_kv", c->heads, 1, 4096, &c->kv_heads, err)) ||
        (st = arch_u32(m, file, "attention.key_length", c->hidden / c->heads, 2, 1024, &c->head_dim, err)) ||
        (st = arch_u32(m, file, "attention.value_length", c->head_dim, 2, 1024, &value_dim, err)) ||
        (st = arch_u32(m, file, "rope.dimension_count", c->head_dim, 2, c->head_dim, &c->rotary, err)))
        return st;
    if (c->heads % c->kv_heads)
        return error_set(err, ERR_INVALID, "%s: %s.attention.head_count: %u is no multiple of head_count_kv %u",
                         model_file_path(file), m->arch->name, c->heads, c->kv_heads);
    if (value_dim != c->head_dim)
        return error_set(err, ERR_UNSUPPORTED, "%s: %s.attention.value_length: %u, want key_length %u",
                         model_file_path(file), m->arch->name, value_dim, c->head_dim);
    if (c->head_dim % 16 || c->rotary % 2)
        return error_set(err, ERR_UNSUPPORTED, "%s: head size %u (rotary %u): want a multiple of 16 (of 2)",
                         model_file_path(file), c->head_dim, c->rotary);
    return OK;
}

static status read_config(model *m, const model_file *file, error *err)
{
    model_config *c = &m->config;
    const model_tensor *embed = model_file_tensor(file, "token_embd.weight");
    if (!embed)
        return error_set(err, ERR_INVALID, "%s: tensor token_embd.weight: missing (a file with a vocabulary only?)",
                         model_file_path(file));
    if (embed->ne[1] < 1 || embed->ne[1] > (1u << 24))
        return error_set(err, ERR_INVALID, "%s: tensor token_embd.weight: %llu rows, want 1 to 16777216",
                         model_file_path(file), (unsigned long long)embed->ne[1]);
    c->vocab = (uint32_t)embed->ne[1];
    status st;
    if ((st = arch_u32(m, file, "block_count", 0, 1, LAYERS_MAX, &c->layers, err)) ||
        (st = arch_u32(m, file, "embedding_length", 0, 1, WIDTH_MAX, &c->hidden, err)) ||
        (st = arch_u32(m, file, "nextn_predict_layers", 0, 0, c->layers - 1, &c->draft_layers, err)) ||
        (st = arch_u32(m, file, "feed_forward_length", 0, 0, WIDTH_MAX, &c->ffn, err)) ||
        (st = arch_u32(m, file, "context_length", 2048, 1, UINT32_MAX / 2, &c->context, err)) ||
        (st = read_heads(m, file, err)) ||
        (st = arch_f32(m, file, "attention.layer_norm_rms_epsilon", 1e-5f, &c->rms_eps, err)))
        return st;
    c->layers -= c->draft_layers;
    c->attend_scale = 1.0f / sqrtf((float)c->head_dim);
    c->embed_scale = 1;
    c->act = ACT_SILU;
    float base;
    if ((st = arch_f32(m, file, "rope.freq_base", 10000, &base, err)) || (st = m->arch->configure(m, file, err)))
        return st;
    return build_rope(m, file, base, true, &m->rope, err);
}

/* Every weight must be used: a file that holds tensors this family does not know would run wrong, not slow. */
static status check_unused(const model *m, const model_file *file, error *err)
{
    static const char *const foreign[] = {"attn_sinks.weight", "ffn_gate_inp.weight", "attn_qkv.weight", "ssm_a"};
    bool mixed = m->config.experts || m->config.key_heads; /* whose layers say by their tensors what they are */
    char name[64];
    for (size_t i = 0; i < (mixed ? 1 : sizeof foreign / sizeof *foreign); i++) {
        snprintf(name, sizeof name, "blk.0.%s", foreign[i]);
        if (model_file_tensor(file, name))
            return error_set(err, ERR_UNSUPPORTED, "%s: tensor %s: architecture %s has no such part here",
                             model_file_path(file), name, m->arch->name);
    }
    return OK;
}

enum { LAYER_MATRICES = 20 };
/* All matrices of a layer, NULL where it has none. */
static void layer_matrices(const layer_weights *w, weight *out[LAYER_MATRICES])
{
    weight *all[LAYER_MATRICES] = {
        w->q, w->k,     w->v,    w->o,         w->gate,   w->up,          w->down,      w->q_gate,      w->qkv,
        w->z, w->alpha, w->beta, w->state_out, w->router, w->shared_gate, w->expert_up, w->expert_gate, w->expert_down};
    memcpy(out, all, sizeof all);
}

static void count_bytes(model *m)
{
    const backend_ops *ops = m->device->ops;
    m->weight_bytes = ops->weight_bytes(m->head);
    m->resident_bytes = ops->weight_bytes(m->head) + (m->head != m->embed ? ops->weight_bytes(m->embed) : 0);
    for (uint32_t i = 0; i < m->config.layers; i++) {
        weight *all[LAYER_MATRICES];
        layer_matrices(&m->layers[i], all);
        for (uint32_t k = 0; k < LAYER_MATRICES; k++)
            m->resident_bytes += all[k] ? ops->weight_bytes(all[k]) : 0;
        for (uint32_t op = 0; op < m->arch->op_count; op++)
            m->weight_bytes += m->arch->op_weight_bytes(m, i, op);
        m->weight_bytes += m->config.experts_used * model_expert_bytes(m, i);
    }
}

static status load_weights(model *m, const model_file *file, const load_progress *progress, error *err)
{
    const model_config *c = &m->config;
    model_file_release_all(file); /* a vocabulary and its merges are megabytes that packing has no use for */
    status st = check_unused(m, file, err);
    if (st || (st = bind_weight(m, file, -1, "token_embd.weight", c->vocab, c->hidden, &m->embed, err)) ||
        (st = bind_vector(m, file, -1, "output_norm.weight", c->hidden, 0, &m->final_norm, err)))
        return st;
    m->head = m->embed;
    if (model_file_tensor(file, "output.weight"))
        if ((st = bind_weight(m, file, -1, "output.weight", c->vocab, c->hidden, &m->head, err)))
            return st;
    for (uint32_t i = 0; i < c->layers; i++) {
        if ((st = m->arch->bind(m, file, i, err)))
            return st;
        if (progress && progress->report)
            progress->report(progress->context, "packing weights", (i + 1.0) / c->layers);
    }
    if (c->kv_layers == 0) /* a page would have no bytes, and checkpoints of the state lie in pages */
        return error_set(err, ERR_UNSUPPORTED, "%s: no layer has attention: recurrent layers alone are not supported",
                         model_file_path(file));
    count_bytes(m);
    return OK;
}

/* Dense families have one op that tells; mixers of a hybrid one are as wide as what they project to. */
static double row_flops(const model_config *c)
{
    double ffn = 3.0 * (c->experts ? c->shared_ffn : c->ffn);
    double mixer = 2.0 * c->key_heads * c->key_dim + 3.0 * c->value_heads * c->value_dim;
    return 2.0 * c->hidden * (ffn > mixer ? ffn : mixer);
}

static status create_work(model *m, error *err)
{
    const model_config *c = &m->config;
    uint32_t rows = ROW_BLOCK_MAX, least = c->experts ? ROUTED_ROW_BLOCK_MIN : ROW_BLOCK_MIN;
    while (rows > least && row_flops(c) * rows > row_block_flops)
        rows /= 2;
    m->row_block = rows;
    m->slice_bytes = expert_slice_bytes;
    m->slice_flops = 2 * row_block_flops;
    uint32_t q = c->heads * c->head_dim, inner = c->value_heads * c->value_dim, state = c->state_layers ? 1 : 0;
    uint32_t ffn = c->ffn > c->shared_ffn ? c->ffn : c->shared_ffn, mixture = c->experts ? 1 : 0;
    const struct {
        buffer **out;
        uint32_t width;
    } buffers[] = {
        {&m->work.norm, c->hidden},
        {&m->work.proj, c->hidden},
        {&m->work.q, q},
        {&m->work.att, q > inner ? q : inner},
        {&m->work.k, c->kv_heads * c->head_dim},
        {&m->work.v, c->kv_heads * c->head_dim},
        {&m->work.gate, ffn},
        {&m->work.up, ffn},
        {&m->work.q_gate, c->key_heads ? q : 0},
        {&m->work.qkv, state * (2 * c->key_heads * c->key_dim + inner)},
        {&m->work.z, state * inner},
        {&m->work.alpha, state * c->value_heads},
        {&m->work.beta, state * c->value_heads},
        {&m->work.router, c->experts},
        {&m->work.shared_gate, mixture},
    };
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        if (buffers[i].width &&
            m->device->ops->buffer_create(m->device, (size_t)rows * buffers[i].width, buffers[i].out))
            return error_set(err, ERR_MEMORY, "work buffers: out of memory");
    return OK;
}

status model_load(model **out, const model_file *file, backend *device, const load_progress *progress, error *err)
{
    span name;
    status st = model_file_string(file, "general.architecture", &name, err);
    if (st == ERR_NOT_FOUND)
        return error_set(err, ERR_INVALID, "%s: general.architecture: missing", model_file_path(file));
    if (st)
        return st;
    const arch_ops *arch = arch_find(name);
    if (!arch)
        return error_set(err, ERR_UNSUPPORTED, "%s: architecture \"%.*s\" is not supported (%s are)",
                         model_file_path(file), (int)(name.size < 64 ? name.size : 64), name.data, arch_names());
    model *m = calloc(1, sizeof *m);
    if (!m)
        return error_set(err, ERR_MEMORY, "model: out of memory");
    m->arch = arch;
    m->device = device;
    if ((st = read_config(m, file, err)))
        goto fail;
    m->layers = calloc(m->config.layers, sizeof *m->layers);
    if (!m->layers) {
        st = error_set(err, ERR_MEMORY, "model: out of memory");
        goto fail;
    }
    if ((st = load_weights(m, file, progress, err)) || (st = create_work(m, err)))
        goto fail;
    *out = m;
    return OK;
fail:
    model_free(m);
    return st;
}

static void free_layer(model *m, layer_weights *w)
{
    buffer *vectors[] = {w->attn_norm, w->q_norm, w->k_norm,         w->q_bias,    w->k_bias,
                         w->v_bias,    w->o_bias, w->attn_post_norm, w->ffn_norm,  w->ffn_post_norm,
                         w->conv,      w->dt,     w->decay,          w->state_norm};
    weight *matrices[LAYER_MATRICES];
    layer_matrices(w, matrices);
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++)
        m->device->ops->buffer_destroy(m->device, vectors[i]);
    for (size_t i = 0; i < LAYER_MATRICES; i++)
        m->device->ops->weight_destroy(m->device, matrices[i]);
}

void model_free(model *m)
{
    if (!m)
        return;
    const backend_ops *ops = m->device->ops;
    for (uint32_t i = 0; m->layers && i < m->config.layers; i++)
        free_layer(m, &m->layers[i]);
    free(m->layers);
    if (m->head != m->embed)
        ops->weight_destroy(m->device, m->head);
    ops->weight_destroy(m->device, m->embed);
    ops->buffer_destroy(m->device, m->final_norm);
    buffer *work[] = {m->work.norm, m->work.q,     m->work.k,    m->work.v,      m->work.att,
                      m->work.up,   m->work.gate,  m->work.proj, m->work.q_gate, m->work.qkv,
                      m->work.z,    m->work.alpha, m->work.beta, m->work.router, m->work.shared_gate};
    for (size_t i = 0; i < sizeof work / sizeof *work; i++)
        ops->buffer_destroy(m->device, work[i]);
    free(m->rope.inv_freq);
    free(m->rope_local.inv_freq);
    free(m);
}

kv_cache_config model_kv_config(const model *m, uint32_t page_count)
{
    return (kv_cache_config){m->config.kv_layers, m->config.kv_heads,   m->config.head_dim,
                             page_count,          !m->config.quantized, m->kv_stored};
}

state_config model_state_config(const model *m, uint32_t slots)
{
    const model_config *c = &m->config;
    return (state_config){c->state_layers, slots, c->key_heads, c->value_heads, c->key_dim, c->value_dim, c->taps};
}

uint64_t model_expert_bytes(const model *m, uint32_t layer)
{
    const layer_weights *w = &m->layers[layer];
    const backend_ops *ops = m->device->ops;
    if (!w->router)
        return 0;
    return (ops->weight_bytes(w->expert_gate) + ops->weight_bytes(w->expert_up) + ops->weight_bytes(w->expert_down)) /
           m->config.experts;
}
