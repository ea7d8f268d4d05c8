/* model/file/hf_tensors.c: one table leads from GGUF's names to those of the files (models.md A.2, B.2, C). Whatever
 * the files hold beside it is a vision tower or MTP, which are named and left out, or refused: a part nobody reads
 * would run wrong without a word. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "model/file/hf.h"
#include "tensor/quant.h"

enum { NAME_BYTES = 256, VECTOR_MAX = 1 << 26 };

#define BIT(family) (1u << (family))
#define QWEN_LINEAR (BIT(HF_QWEN3NEXT) | BIT(HF_QWEN35) | BIT(HF_QWEN35MOE)) /* zero-centred norms */
#define EXPERTS (BIT(HF_QWEN3MOE) | BIT(HF_QWEN3NEXT) | BIT(HF_QWEN35MOE))
#define ALL 0xffffu

typedef enum {
    MATRIX,     /* as it is */
    HEADS,      /* q or k rows: permuted in family llama */
    HEADS_BIAS, /* the same of a vector */
    VECTOR,     /* floats, any shape */
    NORM,       /* + 1 in zero-centred families */
    NEG_EXP,    /* -exp(x) */
    CONV,       /* [C,1,K] or [C,K,1] to [C,K] */
    ROW,        /* a matrix of one row as a vector */
    QKVZ,       /* fused q, k, v, z per key head: attn_qkv and attn_gate */
    BA,         /* fused b, a per key head: ssm_beta and ssm_alpha */
    STACK,      /* experts in one tensor, or one tensor each */
} rule_kind;

typedef struct {
    const char *file, *gguf; /* module of the files (no ".weight"); full name after "blk.N." */
    unsigned families;
    rule_kind kind;
} rule;

static const rule RULES[] = {
    {"input_layernorm.weight", "attn_norm.weight", ALL, NORM},
    {"post_attention_layernorm.weight", "ffn_norm.weight", ~(QWEN_LINEAR | BIT(HF_GEMMA3)), NORM},
    {"post_attention_layernorm.weight", "post_attention_norm.weight", QWEN_LINEAR | BIT(HF_GEMMA3), NORM},
    {"pre_feedforward_layernorm.weight", "ffn_norm.weight", BIT(HF_GEMMA3), NORM},
    {"post_feedforward_layernorm.weight", "post_ffw_norm.weight", BIT(HF_GEMMA3), NORM},
    {"self_attn.q_proj", "attn_q.weight", ALL, HEADS},
    {"self_attn.k_proj", "attn_k.weight", ALL, HEADS},
    {"self_attn.v_proj", "attn_v.weight", ALL, MATRIX},
    {"self_attn.o_proj", "attn_output.weight", ALL, MATRIX},
    {"self_attn.q_proj.bias", "attn_q.bias", ALL, HEADS_BIAS},
    {"self_attn.k_proj.bias", "attn_k.bias", ALL, HEADS_BIAS},
    {"self_attn.v_proj.bias", "attn_v.bias", ALL, VECTOR},
    {"self_attn.o_proj.bias", "attn_output.bias", ALL, VECTOR},
    {"self_attn.q_norm.weight", "attn_q_norm.weight", ALL, NORM},
    {"self_attn.k_norm.weight", "attn_k_norm.weight", ALL, NORM},
    {"mlp.gate_proj", "ffn_gate.weight", ALL, MATRIX},
    {"mlp.up_proj", "ffn_up.weight", ALL, MATRIX},
    {"mlp.down_proj", "ffn_down.weight", ALL, MATRIX},
    {"mlp.gate", "ffn_gate_inp.weight", EXPERTS, MATRIX},
    {"gate_proj", "ffn_gate_exps.weight", EXPERTS, STACK},
    {"up_proj", "ffn_up_exps.weight", EXPERTS, STACK},
    {"down_proj", "ffn_down_exps.weight", EXPERTS, STACK},
    {"mlp.shared_expert.gate_proj", "ffn_gate_shexp.weight", EXPERTS, MATRIX},
    {"mlp.shared_expert.up_proj", "ffn_up_shexp.weight", EXPERTS, MATRIX},
    {"mlp.shared_expert.down_proj", "ffn_down_shexp.weight", EXPERTS, MATRIX},
    {"mlp.shared_expert_gate", "ffn_gate_inp_shexp.weight", EXPERTS, ROW},
    {"linear_attn.in_proj_qkv", "attn_qkv.weight", QWEN_LINEAR, MATRIX},
    {"linear_attn.in_proj_z", "attn_gate.weight", QWEN_LINEAR, MATRIX},
    {"linear_attn.in_proj_a", "ssm_alpha.weight", QWEN_LINEAR, MATRIX},
    {"linear_attn.in_proj_b", "ssm_beta.weight", QWEN_LINEAR, MATRIX},
    {"linear_attn.in_proj_qkvz", "", BIT(HF_QWEN3NEXT), QKVZ},
    {"linear_attn.in_proj_ba", "", BIT(HF_QWEN3NEXT), BA},
    {"linear_attn.conv1d.weight", "ssm_conv1d.weight", QWEN_LINEAR, CONV},
    {"linear_attn.A_log", "ssm_a", QWEN_LINEAR, NEG_EXP},
    {"linear_attn.dt_bias", "ssm_dt.bias", QWEN_LINEAR, VECTOR},
    {"linear_attn.norm.weight", "ssm_norm.weight", QWEN_LINEAR, VECTOR},
    {"linear_attn.out_proj", "ssm_out.weight", QWEN_LINEAR, MATRIX},
};

static status no_memory(const hf_dir *dir, error *err)
{
    return error_set(err, ERR_MEMORY, "%s: out of memory", dir->path);
}

static bool is_float(st_dtype dtype)
{
    return dtype == ST_F32 || dtype == ST_F16 || dtype == ST_BF16;
}

/* The name gets memory of its own; layer < 0: outside the layers. */
static status push(hf_dir *dir, int64_t layer, const char *name, model_tensor t, error *err)
{
    char full[NAME_BYTES];
    int size = layer < 0 ? snprintf(full, sizeof full, "%s", name)
                         : snprintf(full, sizeof full, "blk.%" PRId64 ".%s", layer, name);
    char *copy = hf_alloc(dir, (size_t)size + 1);
    if (!copy)
        return no_memory(dir, err);
    memcpy(copy, full, (size_t)size + 1);
    t.name = span_of(copy, (size_t)size);
    if (dir->tensor_count == dir->tensor_capacity) {
        size_t more = dir->tensor_capacity ? dir->tensor_capacity * 2 : 64;
        model_tensor *larger = realloc(dir->tensors, more * sizeof *larger);
        if (!larger)
            return no_memory(dir, err);
        dir->tensors = larger;
        dir->tensor_capacity = more;
    }
    dir->tensors[dir->tensor_count++] = t;
    return OK;
}

/* --- vectors: f32 in memory of our own --- */

static status read_floats(hf_dir *dir, st_tensor *t, float **out, uint64_t *count, error *err)
{
    t->used = true;
    if (!is_float(t->dtype))
        return error_set(err, ERR_UNSUPPORTED, "%s: tensor %s: %s, expected F32, F16 or BF16", t->path,
                         gguf_printable(t->name).text, safetensors_dtype_name(t->dtype));
    size_t unit = safetensors_dtype_bytes(t->dtype);
    *count = t->bytes / unit;
    if (*count == 0 || *count > VECTOR_MAX)
        return error_set(err, ERR_INVALID, "%s: tensor %s: %" PRIu64 " elements, expected 1 to %d", t->path,
                         gguf_printable(t->name).text, *count, VECTOR_MAX);
    float *values = hf_alloc(dir, *count * sizeof *values);
    if (!values)
        return no_memory(dir, err);
    for (uint64_t i = 0; i < *count; i++)
        values[i] = hf_float_at(t->dtype, t->data + i * unit);
    *out = values;
    return OK;
}

static model_tensor vector_of(const float *values, uint64_t count)
{
    return (model_tensor){
        .type = DT_F32, .dims = 1, .ne = {count, 1, 1, 1}, .data = values, .bytes = count * sizeof(float)};
}

/* llama's order of rows within a head; `values` has whole heads. */
static void permute_heads(float *values, uint64_t count, uint64_t head_dim, float *scratch)
{
    for (uint64_t at = 0; at + head_dim <= count; at += head_dim) {
        for (uint64_t i = 0; i < head_dim; i++)
            scratch[i] = values[at + (i & 1) * (head_dim / 2) + i / 2];
        memcpy(values + at, scratch, head_dim * sizeof *values);
    }
}

static bool norm_shifts(const hf_dir *dir)
{
    return dir->family == HF_GEMMA3 || ((BIT(dir->family) & QWEN_LINEAR) && !dir->converted);
}

static status add_vector(hf_dir *dir, int64_t layer, const rule *r, st_tensor *t, error *err)
{
    float *values = NULL;
    uint64_t count = 0;
    status code = read_floats(dir, t, &values, &count, err);
    if (code != OK)
        return code;
    for (uint64_t i = 0; i < count; i++) {
        if (r->kind == NORM && norm_shifts(dir))
            values[i] += 1;
        else if (r->kind == NEG_EXP)
            values[i] = -expf(values[i]);
    }
    if (r->kind == HEADS_BIAS && dir->family == HF_LLAMA) {
        float *scratch = hf_alloc(dir, dir->head_dim * sizeof *scratch);
        if (!scratch)
            return no_memory(dir, err);
        permute_heads(values, count, dir->head_dim, scratch);
    }
    model_tensor out = vector_of(values, count);
    if (r->kind == CONV) {
        uint64_t last = t->dims == 3 ? t->shape[2] == 1 ? t->shape[1] : t->shape[2] : 0;
        if (t->dims != 3 || (t->shape[1] != 1 && t->shape[2] != 1))
            return error_set(err, ERR_INVALID, "%s: tensor %s: expected [channels, 1, width] or [channels, width, 1]",
                             t->path, gguf_printable(t->name).text);
        out.dims = 2;
        out.ne[0] = last;
        out.ne[1] = t->shape[0];
    }
    return push(dir, layer, r->gguf, out, err);
}

/* --- matrices --- */

static hf_source *new_source(hf_dir *dir, const hf_matrix *parts, size_t part_count, uint64_t part_rows)
{
    hf_source *source = hf_alloc(dir, sizeof *source);
    hf_matrix *copies = hf_alloc(dir, part_count * sizeof *copies);
    if (!source || !copies)
        return NULL;
    memcpy(copies, parts, part_count * sizeof *copies);
    *source =
        (hf_source){.parts = copies, .part_rows = part_rows, .segments = {{0, part_rows, 0, 0}}, .segment_count = 1};
    return source;
}

static model_tensor tensor_of(const hf_matrix *m, const hf_source *source, uint64_t rows, uint64_t experts)
{
    model_tensor t = {.type = m->type,
                      .dims = experts ? 3 : 2,
                      .ne = {m->cols, rows, experts ? experts : 1, 1},
                      .bytes = rows * (experts ? experts : 1) * dtype_row_bytes(dtype_get(m->type), m->cols)};
    if (source) {
        t.read_rows = hf_read_rows;
        t.source = source;
    } else {
        t.data = m->weight;
    }
    return t;
}

static status wrong_matrix(const hf_dir *dir, const char *path, const char *words, error *err)
{
    return error_set(err, ERR_INVALID, "%s: tensor %s: %s", dir->path, gguf_printable(span_from(path)).text, words);
}

static status add_matrix(hf_dir *dir, int64_t layer, const rule *r, const char *path, error *err)
{
    hf_matrix m;
    status code = hf_matrix_find(dir, path, &m, err);
    if (code != OK)
        return code == ERR_NOT_FOUND ? OK : code;
    bool permuted = r->kind == HEADS && dir->family == HF_LLAMA;
    if (m.dims != 2)
        return wrong_matrix(dir, path, "expected a matrix", err);
    if (permuted && m.rows % dir->head_dim)
        return wrong_matrix(dir, path, "rows are no whole number of heads", err);
    if (r->kind == ROW) {
        if (m.rows != 1)
            return wrong_matrix(dir, path, "expected one row", err);
        float *values = hf_alloc(dir, m.cols * sizeof *values);
        void *row = hf_alloc(dir, dtype_row_bytes(dtype_get(m.type), m.cols) + 1);
        hf_source *source = new_source(dir, &m, 1, 1);
        if (!values || !row || !source)
            return no_memory(dir, err);
        model_tensor t = tensor_of(&m, source, 1, 0);
        hf_read_rows(&t, 0, 1, row);
        quant_dequantize_row(m.type, row, values, m.cols);
        return push(dir, layer, r->gguf, vector_of(values, m.cols), err);
    }
    hf_source *source = NULL;
    if (permuted || m.form != FORM_COPY) {
        if (!(source = new_source(dir, &m, 1, m.rows)))
            return no_memory(dir, err);
        source->half_head = permuted ? (uint32_t)dir->head_dim / 2 : 0;
    }
    return push(dir, layer, r->gguf, tensor_of(&m, source, m.rows, 0), err);
}

/* One GGUF tensor out of runs of rows of a matrix. */
static status add_runs(hf_dir *dir, int64_t layer, const char *gguf, const hf_matrix *m, const hf_segment *segments,
                       uint32_t count, uint64_t rows, error *err)
{
    hf_source *source = new_source(dir, m, 1, rows);
    if (!source)
        return no_memory(dir, err);
    memcpy(source->segments, segments, count * sizeof *segments);
    source->segment_count = count;
    return push(dir, layer, gguf, tensor_of(m, source, rows, 0), err);
}

/* For each key head: q, k, the v of its value heads, the z of them (models.md B.2). */
static status add_qkvz(hf_dir *dir, int64_t layer, const char *path, error *err)
{
    hf_matrix m;
    status code = hf_matrix_find(dir, path, &m, err);
    if (code != OK)
        return code == ERR_NOT_FOUND ? OK : code;
    uint64_t heads = dir->key_heads, k = dir->key_dim, v = dir->value_heads / heads * dir->value_dim,
             all = 2 * k + 2 * v;
    if (m.dims != 2 || m.rows != heads * all)
        return wrong_matrix(dir, path, "rows are not those of linear_num_key_heads and its companions", err);
    const hf_segment qkv[] = {{0, k, all, 0}, {heads * k, k, all, k}, {2 * heads * k, v, all, 2 * k}};
    const hf_segment z[] = {{0, v, all, 2 * k + v}};
    code = add_runs(dir, layer, "attn_qkv.weight", &m, qkv, 3, heads * (2 * k + v), err);
    return code != OK ? code : add_runs(dir, layer, "attn_gate.weight", &m, z, 1, heads * v, err);
}

static status add_ba(hf_dir *dir, int64_t layer, const char *path, error *err)
{
    hf_matrix m;
    status code = hf_matrix_find(dir, path, &m, err);
    if (code != OK)
        return code == ERR_NOT_FOUND ? OK : code;
    uint64_t r = dir->value_heads / dir->key_heads;
    if (m.dims != 2 || m.rows != 2 * dir->value_heads)
        return wrong_matrix(dir, path, "rows are not twice linear_num_value_heads", err);
    const hf_segment b[] = {{0, r, 2 * r, 0}}, a[] = {{0, r, 2 * r, r}};
    code = add_runs(dir, layer, "ssm_beta.weight", &m, b, 1, dir->value_heads, err);
    return code != OK ? code : add_runs(dir, layer, "ssm_alpha.weight", &m, a, 1, dir->value_heads, err);
}

/* --- experts --- */

/* One tensor each. */
static status add_separate(hf_dir *dir, int64_t layer, const rule *r, const char *before, error *err)
{
    char path[2 * NAME_BYTES];
    hf_matrix *parts = malloc(dir->experts * sizeof *parts);
    if (!parts)
        return no_memory(dir, err);
    status code = OK;
    for (uint64_t e = 0; e < dir->experts && code == OK; e++) {
        snprintf(path, sizeof path, "%s.%" PRIu64 ".%s", before, e, r->file);
        code = hf_matrix_find(dir, path, &parts[e], err);
        if (code == ERR_NOT_FOUND)
            code = wrong_matrix(dir, path, "is missing", err);
        const hf_matrix *m = &parts[e], *first = &parts[0];
        if (code == OK && (m->dims != 2 || m->rows != first->rows || m->cols != first->cols || m->type != first->type))
            code = wrong_matrix(dir, path, "differs from that of expert 0 in shape or type", err);
    }
    hf_source *source = code == OK ? new_source(dir, parts, dir->experts, parts[0].rows) : NULL;
    if (code == OK)
        code = source ? push(dir, layer, r->gguf, tensor_of(&parts[0], source, parts[0].rows, dir->experts), err)
                      : no_memory(dir, err);
    free(parts);
    return code;
}

/* All in one, [experts, rows, cols]; `half` 1, 2: the first or second half of each expert's rows. */
static status add_stacked(hf_dir *dir, int64_t layer, const rule *r, const char *path, uint32_t half, bool *found,
                          error *err)
{
    hf_matrix m;
    status code = hf_matrix_find(dir, path, &m, err);
    if (code != OK)
        return code == ERR_NOT_FOUND ? OK : code;
    *found = true;
    if (m.dims != 3 || m.shape[0] != dir->experts || (half && m.shape[1] % 2))
        return wrong_matrix(dir, path, "expected [num_experts, rows, columns]", err);
    uint64_t each = m.shape[1], rows = half ? each / 2 : each;
    hf_source *source = NULL;
    if (half || m.form != FORM_COPY) {
        if (!(source = new_source(dir, &m, 1, rows * dir->experts)))
            return no_memory(dir, err);
        source->segments[0] = (hf_segment){0, rows, each, half == 2 ? rows : 0};
    }
    return push(dir, layer, r->gguf, tensor_of(&m, source, rows, dir->experts), err);
}

static status add_experts(hf_dir *dir, int64_t layer, const rule *r, const char *before, error *err)
{
    char path[NAME_BYTES];
    bool found = false;
    snprintf(path, sizeof path, "%smlp.switch_mlp.%s", before, r->file);
    status code = add_stacked(dir, layer, r, path, 0, &found, err);
    if (code != OK || found)
        return code;
    bool gate = strcmp(r->file, "gate_proj") == 0, down = strcmp(r->file, "down_proj") == 0;
    snprintf(path, sizeof path, "%smlp.experts.%s", before, down ? "down_proj" : "gate_up_proj");
    code = add_stacked(dir, layer, r, path, down ? 0 : gate ? 1 : 2, &found, err);
    if (code != OK || found)
        return code;
    snprintf(path, sizeof path, "%smlp.experts.0.%s.weight", before, r->file);
    if (!dir->experts || !hf_find(dir, path))
        return OK; /* a dense layer, or the architecture says what it misses */
    snprintf(path, sizeof path, "%smlp.experts", before);
    return add_separate(dir, layer, r, path, err);
}

/* --- all --- */

static status apply(hf_dir *dir, int64_t layer, const rule *r, const char *before, error *err)
{
    char path[NAME_BYTES];
    snprintf(path, sizeof path, "%s%s", before, r->file);
    switch (r->kind) {
    case MATRIX:
    case HEADS:
    case ROW:
        return add_matrix(dir, layer, r, path, err);
    case QKVZ:
        return add_qkvz(dir, layer, path, err);
    case BA:
        return add_ba(dir, layer, path, err);
    case STACK:
        return add_experts(dir, layer, r, before, err);
    default: {
        st_tensor *t = hf_find(dir, path);
        return t ? add_vector(dir, layer, r, t, err) : OK;
    }
    }
}

static bool starts_with(span name, const char *head)
{
    size_t size = strlen(head);
    return name.size >= size && memcmp(name.data, head, size) == 0;
}

static bool starts_with_one_of(span name, const char *const *heads)
{
    for (; *heads; heads++)
        if (starts_with(name, *heads))
            return true;
    return false;
}

static bool ends_with(span name, const char *tail)
{
    size_t size = strlen(tail);
    return name.size >= size && memcmp(name.data + name.size - size, tail, size) == 0;
}

static status check_unused(hf_dir *dir, error *err)
{
    static const char *const VISION[] = {"model.visual.",
                                         "visual.",
                                         "vision_tower.",
                                         "model.vision_tower.",
                                         "vision_model.",
                                         "multi_modal_projector.",
                                         "model.multi_modal_projector.",
                                         NULL};
    static const char *const MTP[] = {"mtp.", "model.mtp.", "language_model.mtp.", NULL};
    for (size_t i = 0; i < dir->total; i++) {
        const st_tensor *t = dir->all[i];
        if (t->used || ends_with(t->name, "rotary_emb.inv_freq"))
            continue;
        if (starts_with_one_of(t->name, VISION))
            dir->has_vision = true;
        else if (starts_with_one_of(t->name, MTP))
            dir->has_mtp = true;
        else
            return error_set(err, ERR_UNSUPPORTED, "%s: tensor %s: a %s model has no such part here", t->path,
                             gguf_printable(t->name).text, dir->arch);
    }
    return OK;
}

static status find_prefix(hf_dir *dir, error *err)
{
    static const char *const PREFIXES[] = {"model.", "model.language_model.", "language_model.model.", ""};
    char name[NAME_BYTES];
    for (size_t i = 0; i < sizeof PREFIXES / sizeof *PREFIXES; i++) {
        snprintf(name, sizeof name, "%sembed_tokens.weight", PREFIXES[i]);
        if (hf_find(dir, name)) {
            dir->prefix = PREFIXES[i];
            return OK;
        }
    }
    return error_set(err, ERR_INVALID, "%s: tensor model.embed_tokens.weight: is missing", dir->path);
}

/* conv1d tells who wrote the norms: MLX moves its axis and adds the 1 at once (formats.md 3.6). */
static void find_converted(hf_dir *dir)
{
    char name[NAME_BYTES];
    for (uint64_t i = 0; i < dir->layers; i++) {
        snprintf(name, sizeof name, "%slayers.%" PRIu64 ".linear_attn.conv1d.weight", dir->prefix, i);
        const st_tensor *t = hf_find(dir, name);
        if (!t)
            continue;
        dir->converted = t->dims == 3 && t->shape[2] == 1;
        return;
    }
}

static bool is_tied(const hf_dir *dir)
{
    const json_t *tied = json_object_get(dir->config, "tie_word_embeddings");
    if (!tied)
        tied = json_object_get(dir->text, "tie_word_embeddings");
    return tied ? json_is_true(tied) : dir->family == HF_GEMMA3;
}

static status bind_head(hf_dir *dir, error *err)
{
    static const char *const HEADS[] = {"lm_head", "language_model.lm_head", "model.language_model.lm_head"};
    static const rule OUTPUT = {"", "output.weight", ALL, MATRIX};
    for (size_t i = 0; i < sizeof HEADS / sizeof *HEADS; i++) {
        hf_matrix ignored;
        size_t before = dir->tensor_count;
        status code =
            is_tied(dir) ? hf_matrix_find(dir, HEADS[i], &ignored, err) : add_matrix(dir, -1, &OUTPUT, HEADS[i], err);
        if ((code != OK && code != ERR_NOT_FOUND) || dir->tensor_count > before)
            return code;
    }
    const json_t *tied = json_object_get(dir->config, "tie_word_embeddings");
    if (json_is_false(tied))
        return error_set(err, ERR_INVALID, "%s: tensor lm_head.weight: is missing, and tie_word_embeddings is false",
                         dir->path);
    return OK;
}

status hf_bind_tensors(hf_dir *dir, error *err)
{
    static const rule EMBED = {"embed_tokens", "token_embd.weight", ALL, MATRIX};
    static const rule FINAL = {"norm.weight", "output_norm.weight", ALL, NORM};
    char before[NAME_BYTES];
    status code = find_prefix(dir, err);
    if (code != OK)
        return code;
    find_converted(dir);
    if ((code = apply(dir, -1, &EMBED, dir->prefix, err)) != OK ||
        (code = apply(dir, -1, &FINAL, dir->prefix, err)) != OK || (code = bind_head(dir, err)) != OK)
        return code;
    for (uint64_t layer = 0; layer < dir->layers; layer++) {
        snprintf(before, sizeof before, "%slayers.%" PRIu64 ".", dir->prefix, layer);
        for (size_t i = 0; i < sizeof RULES / sizeof *RULES; i++) {
            if (!(RULES[i].families & BIT(dir->family)))
                continue;
            if ((code = apply(dir, (int64_t)layer, &RULES[i], before, err)) != OK)
                return code;
        }
    }
    return check_unused(dir, err);
}
