/* model/write/plan.c: names, shapes and orders of every family in every format. */
#include "model/write/plan.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static const double SHARD_BYTES = 5e9; /* of weights in one safetensors file */
static const float NORM_SPREAD = 0.1f, BIAS_SPREAD = 0.2f, CONV_SPREAD = 0.5f, DT_SPREAD = 1.0f, ROUTER_GAIN = 3.0f;
enum { NAME_BYTES = 128, FULL_BYTES = 192, GGUF_ALIGNMENT = 32 };

typedef struct {
    model_plan *plan;
    const model_shape *s;
    int64_t layer; /* < 0: outside the layers */
    status st;     /* of the first failure; later calls do nothing */
    error *err;
} builder;

static const char *const FORMAT_NAMES[] = {"gguf", "hf", "mlx"};
static const char *const TYPE_NAMES[] = {"f32", "f16", "bf16", "q8_0", "q4_0", "mxfp8", "mxfp4", "affine4"};

const char *format_name(model_format format)
{
    return FORMAT_NAMES[format];
}

const char *type_name(weight_type type)
{
    return TYPE_NAMES[type];
}

/* --- stores --- */

static store float_store(const model_plan *plan)
{
    return plan->type == TYPE_F32 ? STORE_F32 : plan->type == TYPE_F16 ? STORE_F16 : STORE_BF16;
}

/* Vectors, routers and convolutions are never quantized; GGUF keeps them in f32. */
static store small_store(const model_plan *plan)
{
    return plan->format == FORMAT_GGUF ? STORE_F32 : float_store(plan);
}

static status matrix_store(const model_plan *plan, store *out, error *err)
{
    switch (plan->type) {
    case TYPE_F32:
    case TYPE_F16:
    case TYPE_BF16:
        *out = float_store(plan);
        return OK;
    case TYPE_Q8_0:
    case TYPE_Q4_0:
        *out = plan->type == TYPE_Q8_0 ? STORE_Q8_0 : STORE_Q4_0;
        if (plan->format == FORMAT_GGUF)
            return OK;
        break;
    case TYPE_MXFP4:
        *out = plan->format == FORMAT_GGUF ? STORE_MXFP4 : STORE_MLX_FP4;
        if (plan->format != FORMAT_HF)
            return OK;
        break;
    case TYPE_MXFP8:
    case TYPE_AFFINE4:
        *out = plan->type == TYPE_MXFP8 ? STORE_MLX_FP8 : STORE_MLX_Q4;
        if (plan->format == FORMAT_MLX)
            return OK;
        break;
    }
    return error_set(err, ERR_UNSUPPORTED,
                     "format %s has no type %s (gguf: f32, f16, bf16, q8_0, q4_0, mxfp4; hf: f32, f16, bf16; mlx: f32, "
                     "f16, bf16, mxfp8, mxfp4, affine4)",
                     format_name(plan->format), type_name(plan->type));
}

/* MLX holds routers in affine groups of 64 even where the rest is something else (formats.md 3.6). */
static store router_store(const model_plan *plan, uint64_t cols)
{
    bool quantized = plan->format == FORMAT_MLX && plan->type > TYPE_BF16;
    return quantized && cols % store_of(STORE_MLX_Q8)->block == 0 ? STORE_MLX_Q8 : small_store(plan);
}

/* --- adding tensors --- */

static const char *layers_prefix(const model_plan *plan)
{
    const model_shape *s = &plan->shape;
    bool hybrid = s->family == SHAPE_QWEN3_5 || s->family == SHAPE_QWEN3_5_MOE;
    if (plan->format == FORMAT_MLX ? hybrid || (s->composite && s->family == SHAPE_GEMMA3)
                                   : s->composite && s->family == SHAPE_GEMMA3)
        return "language_model.model.";
    return plan->format == FORMAT_HF && s->composite && hybrid ? "model.language_model." : "model.";
}

static void full_name(const builder *b, const char *hf, const char *gguf, char out[FULL_BYTES])
{
    if (b->plan->format == FORMAT_GGUF && b->layer >= 0)
        snprintf(out, FULL_BYTES, "blk.%d.%s", (int)b->layer, gguf);
    else if (b->plan->format == FORMAT_GGUF)
        snprintf(out, FULL_BYTES, "%s", gguf);
    else if (b->layer >= 0)
        snprintf(out, FULL_BYTES, "%slayers.%d.%s", layers_prefix(b->plan), (int)b->layer, hf);
    else if (strncmp(hf, "lm_head", 7) == 0)
        snprintf(out, FULL_BYTES, "%s%s", strncmp(layers_prefix(b->plan), "language", 8) ? "" : "language_model.", hf);
    else
        snprintf(out, FULL_BYTES, "%s%s", layers_prefix(b->plan), hf);
}

static plan_part part_of(const builder *b, const char *hf, fill_kind fill, float scale)
{
    char name[FULL_BYTES];
    if (b->layer >= 0)
        snprintf(name, sizeof name, "layers.%d.%s", (int)b->layer, hf);
    else
        snprintf(name, sizeof name, "%s", hf);
    return (plan_part){fill_key(b->plan->seed, name), fill, scale};
}

/* A tensor of `rows` x `cols` from one canonical tensor; the caller may refine it until the next call. After a failure
 * it is a spare one. */
static plan_tensor *add(builder *b, const char *hf, const char *gguf, store kind, uint64_t rows, uint64_t cols)
{
    static _Thread_local plan_tensor spare;
    model_plan *plan = b->plan;
    char name[FULL_BYTES];
    full_name(b, hf, gguf, name);
    const store_info *info = store_of(kind);
    if (!b->st && cols % info->block)
        b->st = error_set(b->err, ERR_INVALID, "tensor %s: rows of %llu columns, type %s wants a multiple of %u", name,
                          (unsigned long long)cols, info->name, info->block);
    if (!b->st && plan->count == plan->capacity) {
        size_t more = plan->capacity ? 2 * plan->capacity : 256;
        plan_tensor *larger = realloc(plan->tensors, more * sizeof *larger);
        if (larger) {
            plan->tensors = larger;
            plan->capacity = more;
        } else {
            b->st = error_set(b->err, ERR_MEMORY, "out of memory for the list of tensors");
        }
    }
    plan_tensor *t = b->st ? &spare : &plan->tensors[plan->count++];
    *t = (plan_tensor){
        .name = plan->names.size, .store = kind, .dims = 2, .shape = {rows, cols}, .rows = rows, .cols = cols};
    if (!b->st)
        buf_append(&plan->names, name, strlen(name) + 1);
    return t;
}

static plan_tensor *add_vector(builder *b, const char *hf, const char *gguf, uint64_t size, fill_kind fill, float scale)
{
    plan_tensor *t = add(b, hf, gguf, small_store(b->plan), 1, size);
    t->dims = 1;
    t->shape[0] = size;
    t->parts[0] = part_of(b, hf, fill, scale);
    t->exact = true;
    return t;
}

/* "about 1": what the family adds itself is not stored, unless the format's converter added it. */
static void add_norm(builder *b, const char *hf, const char *gguf, uint64_t size)
{
    bool centred = shape_zero_centred(b->s->family);
    plan_tensor *t = add_vector(b, hf, gguf, size, centred ? FILL_NORMAL : FILL_ONE, NORM_SPREAD);
    bool shifted = b->plan->format == FORMAT_GGUF || (b->plan->format == FORMAT_MLX && b->s->family != SHAPE_GEMMA3);
    if (centred && shifted)
        t->value = VALUE_PLUS_ONE;
}

static float fan_in_scale(uint64_t cols)
{
    return 1 / sqrtf((float)cols);
}

static plan_tensor *add_matrix(builder *b, const char *hf, const char *gguf, uint64_t rows, uint64_t cols)
{
    store kind = STORE_F32;
    if (!b->st)
        b->st = matrix_store(b->plan, &kind, b->err);
    plan_tensor *t = add(b, hf, gguf, kind, rows, cols);
    t->parts[0] = part_of(b, hf, FILL_NORMAL, fan_in_scale(cols));
    return t;
}

static plan_tensor *add_router(builder *b, const char *hf, const char *gguf, uint64_t rows, uint64_t cols, float gain)
{
    plan_tensor *t = add(b, hf, gguf, router_store(b->plan, cols), rows, cols);
    t->parts[0] = part_of(b, hf, FILL_NORMAL, gain * fan_in_scale(cols));
    t->exact = true;
    return t;
}

/* --- the parts of a layer --- */

static void add_attention(builder *b)
{
    const model_shape *s = b->s;
    uint64_t q = (uint64_t)s->heads * s->head_dim, kv = (uint64_t)s->kv_heads * s->head_dim;
    plan_order pairs = {ORDER_SAME, 0, 0, 0, 0};
    if (s->family == SHAPE_LLAMA && b->plan->format == FORMAT_GGUF)
        pairs = (plan_order){ORDER_PAIRS, 0, s->head_dim, 0, 0};
    add_matrix(b, "self_attn.q_proj.weight", "attn_q.weight", s->value_heads ? 2 * q : q, s->hidden)->row_order = pairs;
    add_matrix(b, "self_attn.k_proj.weight", "attn_k.weight", kv, s->hidden)->row_order = pairs;
    add_matrix(b, "self_attn.v_proj.weight", "attn_v.weight", kv, s->hidden);
    add_matrix(b, "self_attn.o_proj.weight", "attn_output.weight", s->hidden, q);
    if (s->qkv_bias) {
        add_vector(b, "self_attn.q_proj.bias", "attn_q.bias", q, FILL_NORMAL, BIAS_SPREAD)->col_order = pairs;
        add_vector(b, "self_attn.k_proj.bias", "attn_k.bias", kv, FILL_NORMAL, BIAS_SPREAD)->col_order = pairs;
        add_vector(b, "self_attn.v_proj.bias", "attn_v.bias", kv, FILL_NORMAL, BIAS_SPREAD);
    }
    if (s->o_bias)
        add_vector(b, "self_attn.o_proj.bias", "attn_output.bias", s->hidden, FILL_NORMAL, BIAS_SPREAD);
    if (s->family != SHAPE_LLAMA && s->family != SHAPE_QWEN2) {
        add_norm(b, "self_attn.q_norm.weight", "attn_q_norm.weight", s->head_dim);
        add_norm(b, "self_attn.k_norm.weight", "attn_k_norm.weight", s->head_dim);
    }
}

/* qwen3_next's own fusions: each key head's q, k, v and z; each key head's b and a. */
static void add_fused_qkvz(builder *b)
{
    const model_shape *s = b->s;
    uint32_t k = s->key_dim, v = s->value_heads / s->key_heads * s->value_dim, heads = s->key_heads;
    plan_tensor *t = add_matrix(b, "linear_attn.in_proj_qkvz.weight", "", (uint64_t)heads * (2 * k + 2 * v), s->hidden);
    t->parts[0] = part_of(b, "linear_attn.in_proj_qkv.weight", FILL_NORMAL, fan_in_scale(s->hidden));
    t->parts[1] = part_of(b, "linear_attn.in_proj_z.weight", FILL_NORMAL, fan_in_scale(s->hidden));
    t->turn_count = 4;
    t->turns[0] = (plan_turn){0, k, 0, k};
    t->turns[1] = (plan_turn){0, k, heads * k, k};
    t->turns[2] = (plan_turn){0, v, 2 * heads * k, v};
    t->turns[3] = (plan_turn){1, v, 0, v};
}

static void add_fused_ba(builder *b)
{
    const model_shape *s = b->s;
    uint32_t r = s->value_heads / s->key_heads;
    plan_tensor *t =
        add_matrix(b, "linear_attn.in_proj_ba.weight", "ssm_ba.weight", 2 * (uint64_t)s->value_heads, s->hidden);
    t->parts[0] = part_of(b, "linear_attn.in_proj_b.weight", FILL_NORMAL, fan_in_scale(s->hidden));
    t->parts[1] = part_of(b, "linear_attn.in_proj_a.weight", FILL_NORMAL, fan_in_scale(s->hidden));
    t->turn_count = 2;
    t->turns[0] = (plan_turn){0, r, 0, r};
    t->turns[1] = (plan_turn){1, r, 0, r};
}

static void add_linear(builder *b)
{
    const model_shape *s = b->s;
    bool gguf = b->plan->format == FORMAT_GGUF, next = s->family == SHAPE_QWEN3_NEXT;
    uint32_t keys = 2 * s->key_heads * s->key_dim, inner = s->value_heads * s->value_dim;
    plan_order tiled = {ORDER_SAME, 0, 0, 0, 0};
    if (gguf && !next)
        tiled = (plan_order){ORDER_TILED, 0, 1, s->key_heads, s->value_heads / s->key_heads};
    plan_order values = tiled, channels = tiled;
    values.unit = channels.unit = s->value_dim;
    channels.offset = keys;
    if (next && !gguf) {
        add_fused_qkvz(b);
    } else {
        add_matrix(b, "linear_attn.in_proj_qkv.weight", "attn_qkv.weight", keys + inner, s->hidden)->row_order =
            channels;
        add_matrix(b, "linear_attn.in_proj_z.weight", "attn_gate.weight", inner, s->hidden)->row_order = values;
    }
    if (next) {
        add_fused_ba(b);
    } else {
        add_matrix(b, "linear_attn.in_proj_b.weight", "ssm_beta.weight", s->value_heads, s->hidden)->row_order = tiled;
        add_matrix(b, "linear_attn.in_proj_a.weight", "ssm_alpha.weight", s->value_heads, s->hidden)->row_order = tiled;
    }
    add_matrix(b, "linear_attn.out_proj.weight", "ssm_out.weight", s->hidden, inner)->col_order = values;
    plan_tensor *conv =
        add(b, "linear_attn.conv1d.weight", "ssm_conv1d.weight", small_store(b->plan), keys + inner, s->conv);
    conv->parts[0] = part_of(b, "linear_attn.conv1d.weight", FILL_NORMAL, CONV_SPREAD);
    conv->exact = true;
    conv->row_order = channels;
    if (!gguf) {
        bool mlx = b->plan->format == FORMAT_MLX;
        conv->dims = 3;
        conv->shape[1] = mlx ? s->conv : 1;
        conv->shape[2] = mlx ? 1 : s->conv;
    }
    plan_tensor *decay = add_vector(b, "linear_attn.A_log", "ssm_a", s->value_heads, FILL_LOG_UNIFORM, 1);
    decay->col_order = tiled;
    decay->value = gguf ? VALUE_NEG_EXP : VALUE_AS_IS;
    add_vector(b, "linear_attn.dt_bias", "ssm_dt.bias", s->value_heads, FILL_NORMAL, DT_SPREAD)->col_order = tiled;
    add_vector(b, "linear_attn.norm.weight", "ssm_norm.weight", s->value_dim, FILL_ONE, NORM_SPREAD);
}

/* --- feed-forward --- */

static void add_gated(builder *b, const char *before, const char *tail, uint64_t width)
{
    static const char *const NAMES[] = {"gate", "up", "down"};
    for (int i = 0; i < 3; i++) {
        char hf[NAME_BYTES], gguf[NAME_BYTES];
        snprintf(hf, sizeof hf, "%s.%s_proj.weight", before, NAMES[i]);
        snprintf(gguf, sizeof gguf, "ffn_%s%s.weight", NAMES[i], tail);
        add_matrix(b, hf, gguf, i < 2 ? width : b->s->hidden, i < 2 ? b->s->hidden : width);
    }
}

static void set_stack(plan_tensor *t, uint64_t experts, uint64_t rows)
{
    t->dims = 3;
    t->shape[0] = experts;
    t->shape[1] = rows;
    t->shape[2] = t->cols;
}

/* All experts of one projection; `hf` names them without a number. */
static void add_experts(builder *b, int projection)
{
    static const char *const NAMES[] = {"gate", "up", "down"};
    const model_shape *s = b->s;
    uint64_t rows = projection < 2 ? s->expert_ffn : s->hidden, cols = projection < 2 ? s->hidden : s->expert_ffn;
    char canonical[NAME_BYTES], hf[NAME_BYTES], gguf[NAME_BYTES];
    snprintf(canonical, sizeof canonical, "mlp.experts.%s_proj.weight", NAMES[projection]);
    snprintf(gguf, sizeof gguf, "ffn_%s_exps.weight", NAMES[projection]);
    plan_part part = part_of(b, canonical, FILL_NORMAL, fan_in_scale(cols));
    if (b->plan->format == FORMAT_HF) {
        for (uint32_t e = 0; e < s->experts && !b->st; e++) {
            snprintf(hf, sizeof hf, "mlp.experts.%u.%s_proj.weight", e, NAMES[projection]);
            plan_tensor *t = add_matrix(b, hf, gguf, rows, cols);
            t->parts[0] = part;
            t->first_row = e * rows;
        }
        return;
    }
    snprintf(hf, sizeof hf, "mlp.switch_mlp.%s_proj.weight", NAMES[projection]);
    plan_tensor *t = add_matrix(b, hf, gguf, s->experts * rows, cols);
    t->parts[0] = part;
    set_stack(t, s->experts, rows);
}

/* The files of qwen3_5_moe: gate rows, then up rows of each expert, in one tensor. */
static void add_packed_experts(builder *b)
{
    const model_shape *s = b->s;
    uint32_t width = s->expert_ffn;
    plan_tensor *t = add_matrix(b, "mlp.experts.gate_up_proj", "", 2 * (uint64_t)s->experts * width, s->hidden);
    t->parts[0] = part_of(b, "mlp.experts.gate_proj.weight", FILL_NORMAL, fan_in_scale(s->hidden));
    t->parts[1] = part_of(b, "mlp.experts.up_proj.weight", FILL_NORMAL, fan_in_scale(s->hidden));
    t->turn_count = 2;
    t->turns[0] = (plan_turn){0, width, 0, width};
    t->turns[1] = (plan_turn){1, width, 0, width};
    set_stack(t, s->experts, 2 * (uint64_t)width);
    plan_tensor *down = add_matrix(b, "mlp.experts.down_proj", "", (uint64_t)s->experts * s->hidden, width);
    down->parts[0] = part_of(b, "mlp.experts.down_proj.weight", FILL_NORMAL, fan_in_scale(width));
    set_stack(down, s->experts, s->hidden);
}

static void add_ffn(builder *b)
{
    const model_shape *s = b->s;
    if (!shape_has_experts(s, (uint32_t)b->layer)) {
        add_gated(b, "mlp", "", s->ffn);
        return;
    }
    add_router(b, "mlp.gate.weight", "ffn_gate_inp.weight", s->experts, s->hidden, ROUTER_GAIN);
    if (b->plan->format == FORMAT_HF && s->family == SHAPE_QWEN3_5_MOE)
        add_packed_experts(b);
    else
        for (int projection = 0; projection < 3; projection++)
            add_experts(b, projection);
    if (!s->shared_ffn)
        return;
    plan_tensor *gate = add_router(b, "mlp.shared_expert_gate.weight", "ffn_gate_inp_shexp.weight", 1, s->hidden, 1);
    if (b->plan->format == FORMAT_GGUF) {
        gate->dims = 1;
        gate->shape[0] = s->hidden;
    }
    add_gated(b, "mlp.shared_expert", "_shexp", s->shared_ffn);
}

static void add_layer(builder *b, uint32_t layer)
{
    const model_shape *s = b->s;
    bool gemma = s->family == SHAPE_GEMMA3;
    b->layer = layer;
    add_norm(b, "input_layernorm.weight", "attn_norm.weight", s->hidden);
    if (shape_is_linear(s, layer))
        add_linear(b);
    else
        add_attention(b);
    add_norm(b, "post_attention_layernorm.weight",
             gemma || s->value_heads ? "post_attention_norm.weight" : "ffn_norm.weight", s->hidden);
    if (gemma)
        add_norm(b, "pre_feedforward_layernorm.weight", "ffn_norm.weight", s->hidden);
    add_ffn(b);
    if (gemma)
        add_norm(b, "post_feedforward_layernorm.weight", "post_ffw_norm.weight", s->hidden);
}

static void add_all(builder *b)
{
    const model_shape *s = b->s;
    b->layer = -1;
    plan_tensor *embed = add_matrix(b, "embed_tokens.weight", "token_embd.weight", s->vocab, s->hidden);
    embed->parts[0].scale = s->tied ? fan_in_scale(s->hidden) : 1; /* a tied one is the head too */
    if (s->rope.kind == ROPE_LLAMA3 && b->plan->format == FORMAT_GGUF) {
        plan_tensor *t = add_vector(b, "rope_freqs.weight", "rope_freqs.weight", s->head_dim / 2, FILL_ONE, 0);
        t->value = VALUE_ROPE_FREQS;
    }
    for (uint32_t layer = 0; layer < s->layers && !b->st; layer++)
        add_layer(b, layer);
    b->layer = -1;
    add_norm(b, "norm.weight", "output_norm.weight", s->hidden);
    if (!s->tied)
        add_matrix(b, "lm_head.weight", "output.weight", s->vocab, s->hidden)->head = true;
}

/* --- where the bytes go --- */

static uint64_t tensor_bytes(const plan_tensor *t)
{
    const store_info *info = store_of(t->store);
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < info->pieces; i++)
        bytes += t->rows * store_row_bytes(info, i, t->cols);
    return bytes;
}

static status lay_out(builder *b)
{
    model_plan *plan = b->plan;
    bool gguf = plan->format == FORMAT_GGUF;
    double total = 0;
    for (size_t i = 0; i < plan->count; i++)
        total += (double)tensor_bytes(&plan->tensors[i]);
    if (total > 1e15)
        return error_set(b->err, ERR_LIMIT, "the weights would take %.3g bytes, at most 1e15 are written", total);
    uint64_t at = 0;
    uint32_t file = 0;
    plan->file_bytes = calloc(plan->count + 1, sizeof *plan->file_bytes);
    if (!plan->file_bytes)
        return error_set(b->err, ERR_MEMORY, "out of memory for the list of files");
    for (size_t i = 0; i < plan->count; i++) {
        plan_tensor *t = &plan->tensors[i];
        const store_info *info = store_of(t->store);
        uint64_t bytes = tensor_bytes(t);
        if (!gguf && at > 0 && (double)(at + bytes) > SHARD_BYTES) {
            file++;
            at = 0;
        }
        t->file = file;
        for (uint32_t p = 0; p < info->pieces; p++) {
            t->at[p] = at;
            at += t->rows * store_row_bytes(info, p, t->cols);
        }
        if (gguf)
            at = (at + GGUF_ALIGNMENT - 1) / GGUF_ALIGNMENT * GGUF_ALIGNMENT;
        plan->file_bytes[file] = at;
        plan->parameters += t->value == VALUE_ROPE_FREQS ? 0 : t->rows * t->cols;
    }
    plan->file_count = file + 1;
    for (uint32_t f = 0; f <= file; f++)
        plan->bytes += plan->file_bytes[f];
    return OK;
}

status model_plan_build(model_plan *out, const model_shape *shape, model_format format, weight_type type, uint64_t seed,
                        error *err)
{
    *out = (model_plan){.shape = *shape, .format = format, .type = type, .seed = seed};
    builder b = {.plan = out, .s = &out->shape, .err = err};
    add_all(&b);
    if (!b.st && out->names.failed)
        b.st = error_set(err, ERR_MEMORY, "out of memory for the names of tensors");
    if (!b.st)
        b.st = lay_out(&b);
    if (b.st)
        model_plan_free(out);
    return b.st;
}

void model_plan_free(model_plan *plan)
{
    free(plan->tensors);
    free(plan->file_bytes);
    buf_free(&plan->names);
    *plan = (model_plan){0};
}
