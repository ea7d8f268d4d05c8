/* cli/plan_gguf.c: the numbers are those of the metadata (GGUF's keys), the parts are those that have tensors. The sum
 * of the shape is held against the tensors' own count. */
#include "cli/plan_gguf.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_BYTES = 128, NAME_BYTES = 96, LLAMA4_CHUNK = 8192 /* tokens, in three of four layers */ };
#define TYPE_NEAR 0.2 /* bits of a type and of a weight as stored differ by less than that share */

typedef struct {
    const model_file *file;
    span arch;
    model_shape *shape;
    uint64_t parameters, draft, bytes; /* of the text model, of draft layers, and what the first take */
    uint64_t type_bytes[DT_COUNT];
} gguf_reader;

/* --- metadata --- */

/* The scalar under "ARCH.suffix", or the largest number of an array (some families say such things per layer). */
static uint64_t number(const gguf_reader *r, const char *suffix, uint64_t fallback)
{
    char key[KEY_BYTES];
    uint64_t value;
    model_array array;
    snprintf(key, sizeof key, "%.*s.%s", (int)(r->arch.size < 64 ? r->arch.size : 64), r->arch.data, suffix);
    if (model_file_u64(r->file, key, &value, NULL) == OK)
        return value;
    if (model_file_array(r->file, key, &array, NULL) != OK || array.count == 0 || array.element == MV_STRING ||
        array.element == MV_F32 || array.element == MV_F64)
        return fallback;
    value = 0;
    for (uint64_t i = 0; i < array.count; i++) {
        int64_t entry = model_array_i64(&array, i);
        value = entry > 0 && (uint64_t)entry > value ? (uint64_t)entry : value;
    }
    return value;
}

/* Cut to 32 bits at the top: model_shape_check refuses what is too much. */
static uint32_t small(uint64_t value)
{
    return value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
}

static const model_tensor *tensor(const gguf_reader *r, uint32_t layer, const char *name)
{
    char full[NAME_BYTES];
    snprintf(full, sizeof full, "blk.%" PRIu32 ".%s", layer, name);
    return model_file_tensor(r->file, full);
}

/* In how many layers; *first, where given, is one of them. */
static uint32_t layers_with(const gguf_reader *r, const char *name, const model_tensor **first)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < r->shape->layers; i++) {
        const model_tensor *t = tensor(r, i, name);
        if (t && count++ == 0 && first)
            *first = t;
    }
    return count;
}

static bool any(const gguf_reader *r, const char *name)
{
    return layers_with(r, name, NULL) > 0;
}

/* --- tensors --- */

static bool begins(span name, const char *with)
{
    return name.size >= strlen(with) && !memcmp(name.data, with, strlen(with));
}

/* The layer of "blk.N.…"; false: it is of none. */
static bool layer_of(span name, uint32_t *layer)
{
    if (!begins(name, "blk."))
        return false;
    uint64_t value = 0;
    size_t i = 4;
    for (; i < name.size && i < 12 && name.data[i] >= '0' && name.data[i] <= '9'; i++)
        value = value * 10 + (uint64_t)(name.data[i] - '0');
    *layer = (uint32_t)value;
    return i > 4 && i < name.size && name.data[i] == '.';
}

typedef enum { PART_TEXT, PART_DRAFT, PART_NONE } tensor_part;

static tensor_part part_of(span name, uint32_t layers)
{
    static const char *const OTHERS[] = {"v.", "mm.", "model.visual.", "vision_tower.", "rope_freqs", "a."};
    uint32_t layer;
    for (size_t i = 0; i < sizeof OTHERS / sizeof *OTHERS; i++)
        if (begins(name, OTHERS[i]))
            return PART_NONE;
    return begins(name, "mtp.") || (layer_of(name, &layer) && layer >= layers) ? PART_DRAFT : PART_TEXT;
}

static void count_tensors(gguf_reader *r)
{
    for (size_t i = 0; i < model_file_tensor_count(r->file); i++) {
        const model_tensor *t = model_file_tensor_at(r->file, i);
        uint64_t elements = t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3];
        tensor_part part = part_of(t->name, r->shape->layers);
        if (part == PART_DRAFT)
            r->draft += elements;
        if (part != PART_TEXT)
            continue;
        r->parameters += elements;
        r->bytes += t->bytes;
        r->type_bytes[t->type] += t->bytes;
    }
}

uint64_t plan_text_bytes(const model_file *file)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < model_file_tensor_count(file); i++) {
        const model_tensor *t = model_file_tensor_at(file, i);
        bytes += part_of(t->name, UINT32_MAX) == PART_TEXT ? t->bytes : 0;
    }
    return bytes;
}

/* --- the shape --- */

static void read_sizes(gguf_reader *r)
{
    model_shape *s = r->shape;
    const model_tensor *table = model_file_tensor(r->file, "token_embd.weight");
    uint64_t drafts = number(r, "nextn_predict_layers", 0), layers = number(r, "block_count", 0);
    s->layers = small(drafts < layers ? layers - drafts : layers);
    s->layers = s->layers > UINT16_MAX ? UINT16_MAX : s->layers; /* refused below; not looked through */
    s->hidden = small(number(r, "embedding_length", 0));
    s->vocab = table ? small(table->ne[1]) : 0;
    s->context = small(number(r, "context_length", 2048));
    s->tied = !model_file_tensor(r->file, "output.weight");
    s->linear_layers = layers_with(r, "ssm_a", NULL);
    s->attention_layers = s->layers - s->linear_layers;
}

/* Every n-th layer sees everything. */
static void read_window(gguf_reader *r)
{
    model_shape *s = r->shape;
    bool chunked = span_is(r->arch, "llama4");
    uint32_t pattern = chunked ? 4 : 0;
    uint32_t window = small(number(r, "attention.sliding_window", chunked ? LLAMA4_CHUNK : 0));
    if (span_is(r->arch, "gemma3"))
        pattern = 6;
    else if (span_is(r->arch, "gpt-oss") || span_is(r->arch, "gemma2"))
        pattern = 2;
    pattern = small(number(r, "attention.sliding_window_pattern", pattern));
    if (window == 0 || pattern < 2)
        return;
    s->window = window;
    s->window_layers = s->attention_layers - s->attention_layers / pattern;
}

static void read_attention(gguf_reader *r)
{
    model_shape *s = r->shape;
    const model_tensor *q = NULL, *norm = NULL;
    s->heads = small(number(r, "attention.head_count", 0));
    s->kv_heads = small(number(r, "attention.head_count_kv", s->heads));
    s->head_dim = small(number(r, "attention.key_length", s->heads ? s->hidden / s->heads : 0));
    s->value_dim = small(number(r, "attention.value_length", s->head_dim));
    s->kv_lora = small(number(r, "attention.kv_lora_rank", 0));
    if (s->kv_lora) {
        s->q_lora = small(number(r, "attention.q_lora_rank", 0));
        s->rope_dim = small(number(r, "rope.dimension_count", 0));
        s->head_dim = small(number(r, "attention.key_length_mla", s->head_dim));
        s->value_dim = small(number(r, "attention.value_length_mla", s->value_dim));
        s->head_dim -= s->rope_dim < s->head_dim ? s->rope_dim : 0;
        s->kv_heads = s->heads;
        return;
    }
    if (layers_with(r, "attn_q.weight", &q))
        s->gated_attention = q->ne[1] == 2 * (uint64_t)s->heads * s->head_dim;
    s->qk_norm = layers_with(r, "attn_q_norm.weight", &norm) > 0;
    s->qk_norm_whole = norm && norm->ne[0] != s->head_dim;
    s->biases = any(r, "attn_q.bias") || (any(r, "attn_qkv.bias") && !s->linear_layers);
    s->output_bias = any(r, "attn_output.bias");
    s->sinks = any(r, "attn_sinks.weight");
    read_window(r);
}

static void read_linear(gguf_reader *r)
{
    model_shape *s = r->shape;
    if (!s->linear_layers)
        return;
    s->linear_value_heads = small(number(r, "ssm.time_step_rank", 0));
    s->linear_key_heads = small(number(r, "ssm.group_count", 0));
    s->linear_key_dim = small(number(r, "ssm.state_size", 0));
    s->linear_value_dim = s->linear_value_heads ? small(number(r, "ssm.inner_size", 0) / s->linear_value_heads) : 0;
    s->conv_width = small(number(r, "ssm.conv_kernel", 0));
}

static uint32_t input_of(const model_tensor *down)
{
    return down ? small(down->ne[0]) : 0;
}

static void read_feed_forward(gguf_reader *r)
{
    model_shape *s = r->shape;
    const model_tensor *down = NULL, *expert = NULL, *shared = NULL;
    static const char *const NORMS[] = {"attn_norm.weight",     "ffn_norm.weight",       "post_attention_norm.weight",
                                        "post_ffw_norm.weight", "attn_post_norm.weight", "ffn_post_norm.weight"};
    s->dense_layers = layers_with(r, "ffn_down.weight", &down);
    s->feed_forward = input_of(down);
    layers_with(r, "ffn_down_exps.weight", &expert);
    layers_with(r, "ffn_down_shexp.weight", &shared);
    if (expert) {
        s->experts = small(number(r, "expert_count", 0));
        s->experts_used = small(number(r, "expert_used_count", 0));
    }
    s->expert_feed_forward = input_of(expert);
    s->shared_feed_forward = input_of(shared);
    s->shared_gate = any(r, "ffn_gate_inp_shexp.weight");
    s->router_bias = any(r, "exp_probs_b.bias") || any(r, "ffn_gate_inp.bias");
    s->feed_forward_biases = any(r, "ffn_down_exps.bias") || any(r, "ffn_down.bias");
    for (size_t i = 0; i < sizeof NORMS / sizeof *NORMS; i++)
        s->layer_norms += tensor(r, 0, NORMS[i]) != NULL;
}

/* --- how it is stored --- */

/* Mixtures are called after what most of them is. */
static const char *type_called(uint32_t id)
{
    static const struct {
        uint32_t id;
        const char *name;
    } NAMES[] = {
        {DT_F32, "f32"},
        {DT_F16, "f16"},
        {DT_BF16, "bf16"},
        {DT_Q8_0, "q8_0"},
        {DT_Q6_K, "q6_k"},
        {DT_Q5_K, "q5_k_m"},
        {DT_Q5_0, "q5_0"},
        {DT_Q5_1, "q5_1"},
        {DT_Q4_K, "q4_k_m"},
        {DT_Q4_0, "q4_0"},
        {DT_Q4_1, "q4_1"},
        {DT_IQ4_NL, "iq4_nl"},
        {DT_IQ4_XS, "iq4_xs"},
        {DT_Q3_K, "q3_k_m"},
        {DT_Q2_K, "q2_k"},
        {DT_MXFP4, "mxfp4"},
        {DT_NVFP4, "nvfp4"},
        {DT_MXFP8, "mxfp8"},
        {40, "nvfp4"},
        {DT_AFFINE2, "affine2"},
        {DT_AFFINE3, "affine3"},
        {DT_AFFINE4, "affine4"},
        {DT_AFFINE5, "affine5"},
        {DT_AFFINE6, "affine6"},
        {DT_AFFINE8, "affine8"},
        {DT_AFFINE4_BF16, "affine4"},
        {DT_AFFINE4_F16, "affine4"},
    };
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (NAMES[i].id == id)
            return NAMES[i].name;
    return NULL;
}

/* What the file calls itself; NULL: nothing that is known. */
static const char *type_said(const gguf_reader *r)
{
    static const char *const NAMES[] = {
        [0] = "f32",     [1] = "f16",     [2] = "q4_0",    [3] = "q4_1",    [7] = "q8_0",
        [8] = "q5_0",    [9] = "q5_1",    [10] = "q2_k",   [11] = "q3_k_s", [12] = "q3_k_m",
        [13] = "q3_k_l", [14] = "q4_k_s", [15] = "q4_k_m", [16] = "q5_k_s", [17] = "q5_k_m",
        [18] = "q6_k",   [25] = "iq4_nl", [30] = "iq4_xs", [32] = "bf16",   [38] = "mxfp4",
    };
    uint64_t id;
    if (model_file_u64(r->file, "general.file_type", &id, NULL) != OK || id >= sizeof NAMES / sizeof *NAMES)
        return NULL;
    return NAMES[id];
}

static const char *nearest_type(double bits)
{
    size_t best = 0;
    for (size_t i = 1; i < weight_type_count(); i++)
        if (fabs(weight_type_at(i)->bits - bits) < fabs(weight_type_at(best)->bits - bits))
            best = i;
    return weight_type_at(best)->name;
}

/* What the file calls itself, if its bytes are near that; else what most bytes are in; else whose bits are nearest. A
 * small model's tables are often stored wider than its name says. */
static void name_type(const gguf_reader *r, char type[16])
{
    uint32_t most = 0;
    for (uint32_t id = 0; id < DT_COUNT; id++)
        most = r->type_bytes[id] > r->type_bytes[most] ? id : most;
    double bits = r->parameters ? 8.0 * (double)r->bytes / (double)r->parameters : 0;
    const char *const names[] = {type_said(r), type_called(most)};
    for (size_t i = 0; i < 2; i++) {
        const weight_type *known;
        if (!names[i] || weight_type_find(&known, names[i], NULL) != OK || fabs(known->bits / bits - 1) > TYPE_NEAR)
            continue;
        snprintf(type, 16, "%s", names[i]);
        return;
    }
    snprintf(type, 16, "%s", nearest_type(bits));
}

static void read_name(const gguf_reader *r)
{
    model_shape *s = r->shape;
    span name = {0};
    size_t size = 0;
    if (model_file_string(r->file, "general.name", &name, NULL) != OK || name.size == 0)
        name = r->arch;
    for (; size < name.size && size < sizeof s->name - 1; size++) {
        char c = name.data[size];
        s->name[size] = s->title[size] = c > ' ' && c < 127 && c != '"' && c != '\\' ? c : ' ';
    }
}

status plan_gguf_read(plan_model *out, const model_file *file, error *err)
{
    gguf_reader r = {.file = file, .shape = &out->shape};
    const char *path = model_file_path(file);
    model_sums sums;
    *out = (plan_model){.kind = MODEL_GGUF};
    status st = model_file_string(file, "general.architecture", &r.arch, err);
    if (st)
        return error_prefix(err, st, "%s", path);
    read_name(&r);
    read_sizes(&r);
    read_attention(&r);
    read_linear(&r);
    read_feed_forward(&r);
    if ((st = model_shape_check(&out->shape, err)))
        return error_prefix(err, st, "%s", path);
    count_tensors(&r);
    out->shape.other_parameters = r.draft;
    if ((st = model_shape_check(&out->shape, err)))
        return error_prefix(err, st, "%s", path);
    model_shape_sums(&out->shape, &sums);
    if (fabs((double)sums.total - (double)r.parameters) > 0.02 * (double)r.parameters)
        return error_set(err, ERR_UNSUPPORTED,
                         "%s: %" PRIu64 " parameters in its tensors, %" PRIu64
                         " by its metadata: architecture %.*s has parts that the planner does not know",
                         path, r.parameters, sums.total, (int)(r.arch.size < 64 ? r.arch.size : 64), r.arch.data);
    name_type(&r, out->type);
    out->weight_bytes = r.bytes;
    return OK;
}
