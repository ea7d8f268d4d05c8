/* model/file/hf_matrix.c: a module's tensors as one matrix: floats, FP8 with a scale per block of 128 x 128, or one of
 * MLX's quantized forms (formats.md section 3). */
#include <inttypes.h>
#include <stdio.h>

#include "model/file/hf.h"

enum { PATH_BYTES = 256, FP8_BLOCK = 128 };

static status wrong(const st_tensor *t, const char *words, error *err)
{
    return error_set(err, ERR_INVALID, "%s: tensor %s: %s", t->path, gguf_printable(t->name).text, words);
}

static st_tensor *find_part(const hf_dir *dir, const char *path, const char *suffix)
{
    char name[PATH_BYTES];
    int size = snprintf(name, sizeof name, "%s%s", path, suffix);
    return size < (int)sizeof name ? hf_find(dir, name) : NULL;
}

/* Shape without the last dimension must be the weight's. */
static status check_beside(const st_tensor *weight, const st_tensor *part, uint64_t last, error *err)
{
    bool same = part->dims == weight->dims && part->shape[part->dims - 1] == last;
    for (uint32_t i = 0; same && i + 1 < weight->dims; i++)
        same = part->shape[i] == weight->shape[i];
    if (same)
        return OK;
    return error_set(err, ERR_INVALID, "%s: tensor %s: its shape does not fit %s, expected %" PRIu64 " in a row",
                     part->path, gguf_printable(part->name).text, gguf_printable(weight->name).text, last);
}

/* --- MLX --- */

/* The value of `key` for this module: the module's own block, or the one of all; -1 when it is no integer. */
static int64_t quantization_number(const json_t *block, const json_t *all, const char *key, int64_t fallback)
{
    const json_t *value = json_object_get(block, key);
    if (!value && all)
        value = json_object_get(all, key);
    return !value ? fallback : json_is_integer(value) ? json_integer_value(value) : -1;
}

/* The modules of composite models may be named without their outer "language_model." or "model.". */
static const json_t *module_block(const hf_dir *dir, const char *path)
{
    const json_t *block = json_object_get(dir->quantization, path);
    for (const char *rest = path; !block && (rest = strchr(rest, '.'));)
        block = json_object_get(dir->quantization, ++rest);
    return block;
}

static status mlx_numbers(const hf_dir *dir, const char *path, hf_matrix *m, error *err)
{
    static const struct {
        const char *mode;
        hf_form form;
        dtype type;
        int64_t group, bits;
    } MODES[] = {{"affine", MLX_AFFINE, DT_AFFINE4, 64, 4},
                 {"mxfp4", MLX_MXFP4, DT_MXFP4, 32, 4},
                 {"mxfp8", MLX_MXFP8, DT_MXFP8, 32, 8},
                 {"nvfp4", MLX_NVFP4, DT_NVFP4, 16, 4}};
    const json_t *own = module_block(dir, path);
    bool overridden = json_is_object(own);
    const json_t *block = overridden ? own : dir->quantization;
    const json_t *named = json_object_get(block, "mode"); /* absent is affine, in an override too */
    const char *mode = named ? json_string_value(named) : "affine";
    for (size_t i = 0; mode && i < sizeof MODES / sizeof *MODES; i++) {
        if (strcmp(mode, MODES[i].mode) != 0)
            continue;
        int64_t group = quantization_number(block, NULL, "group_size", MODES[i].group);
        int64_t bits = quantization_number(block, NULL, "bits", MODES[i].bits);
        bool affine = MODES[i].form == MLX_AFFINE;
        if (affine ? (group != 32 && group != 64 && group != 128) || bits < 2 || bits > 8 || bits == 7
                   : group != MODES[i].group || bits != MODES[i].bits)
            return error_set(err, ERR_UNSUPPORTED,
                             "%s: quantization of %s: mode %s with group_size %" PRId64 ", bits %" PRId64,
                             dir->config_path, path, mode, group, bits);
        static const dtype AFFINE[] = {
            [2] = DT_AFFINE2, [3] = DT_AFFINE3, [4] = DT_AFFINE4, [5] = DT_AFFINE5, [6] = DT_AFFINE6, [8] = DT_AFFINE8};
        m->form = MODES[i].form;
        m->type = affine ? AFFINE[bits] : MODES[i].type;
        m->group = (uint32_t)group;
        m->bits = (uint32_t)bits;
        return OK;
    }
    return error_set(err, ERR_UNSUPPORTED,
                     "%s: quantization of %s: mode \"%.32s\", expected affine, mxfp4, mxfp8 or nvfp4", dir->config_path,
                     path, mode ? mode : "?");
}

static status mlx_matrix(const hf_dir *dir, const char *path, const st_tensor *w, st_tensor *scales, hf_matrix *m,
                         error *err)
{
    if (!dir->mlx)
        return wrong(scales, "scales without a \"quantization\" in config.json", err);
    status code = mlx_numbers(dir, path, m, err);
    if (code != OK)
        return code;
    uint64_t packed = w->shape[w->dims - 1];
    if (w->dtype != ST_U32 || w->dims < 2)
        return wrong(w, "expected U32, as quantized weights are", err);
    if (packed > UINT32_MAX || packed * 32 % m->bits || packed * 32 / m->bits % m->group || packed * 32 / m->bits % 32)
        return wrong(w, "rows are no whole number of groups: config.json's bits or group_size are not this tensor's",
                     err);
    m->cols = packed * 32 / m->bits;
    m->weight_row = (size_t)packed * 4;
    scales->used = true;
    if ((code = check_beside(w, scales, m->cols / m->group, err)) != OK)
        return code;
    st_dtype d = scales->dtype;
    bool is_float = d == ST_F32 || d == ST_F16 || d == ST_BF16;
    if (m->form == MLX_AFFINE ? !is_float : safetensors_dtype_bytes(d) != 1)
        return wrong(scales, "not the dtype that scales of its mode have", err);
    m->scales = scales->data;
    m->scale_dtype = d;
    m->scale_row = m->cols / m->group * safetensors_dtype_bytes(d);
    if (m->type == DT_AFFINE4 && d != ST_F32 && m->group % 64 == 0) /* no wider in memory than in the file */
        m->type = d == ST_BF16 ? DT_AFFINE4_BF16 : DT_AFFINE4_F16;
    if (m->form != MLX_AFFINE)
        return OK;
    st_tensor *biases = find_part(dir, path, ".biases");
    if (!biases)
        return wrong(scales, "no .biases beside it, affine needs them", err);
    biases->used = true;
    m->biases = biases->data;
    if (biases->dtype != d)
        return wrong(biases, "expected the dtype of the scales", err);
    return check_beside(w, biases, m->cols / m->group, err);
}

/* --- FP8 --- */

static status fp8_block(const hf_dir *dir, hf_matrix *m, error *err)
{
    const json_t *size = json_object_get(dir->quantization, "weight_block_size");
    m->block_rows = m->block_cols = FP8_BLOCK;
    if (!size || json_is_null(size))
        return OK;
    json_int_t rows = json_integer_value(json_array_get(size, 0)), cols = json_integer_value(json_array_get(size, 1));
    if (json_array_size(size) != 2 || rows < 1 || cols < 1 || rows > 65536 || cols > 65536)
        return error_set(err, ERR_INVALID, "%s: weight_block_size: expected two sizes", dir->config_path);
    m->block_rows = (uint32_t)rows;
    m->block_cols = (uint32_t)cols;
    return OK;
}

/* E4M3 times a scale of 128 x 128: BF16 holds E4M3 exactly and rounds the product at 2^-9; MXFP8 would round the scale
 * to a power of two and the codes again at 2^-4. */
static status fp8_matrix(const hf_dir *dir, const char *path, const st_tensor *w, hf_matrix *m, error *err)
{
    st_tensor *scales = find_part(dir, path, ".weight_scale_inv");
    m->form = FORM_FP8;
    m->type = DT_BF16;
    if (!scales)
        return wrong(w, "F8_E4M3 without its weight_scale_inv", err);
    scales->used = true;
    status code = fp8_block(dir, m, err);
    if (code != OK)
        return code;
    uint64_t down = (w->shape[0] + m->block_rows - 1) / m->block_rows;
    uint64_t across = (m->cols + m->block_cols - 1) / m->block_cols;
    if (w->dims != 2 || scales->dims != 2 || scales->shape[0] != down || scales->shape[1] != across)
        return error_set(err, ERR_INVALID, "%s: tensor %s: expected a scale for each %u x %u of the weight",
                         scales->path, gguf_printable(scales->name).text, m->block_rows, m->block_cols);
    m->scale_dtype = scales->dtype;
    if (scales->dtype != ST_F32 && scales->dtype != ST_F16 && scales->dtype != ST_BF16)
        return wrong(scales, "expected F32, F16 or BF16", err);
    m->scales = scales->data;
    m->scale_row = across * safetensors_dtype_bytes(scales->dtype);
    return OK;
}

static status plain_matrix(const hf_dir *dir, const char *path, const st_tensor *w, hf_matrix *m, error *err)
{
    switch (w->dtype) {
    case ST_F32:
        m->type = DT_F32;
        return OK;
    case ST_F16:
        m->type = DT_F16;
        return OK;
    case ST_BF16:
        m->type = DT_BF16;
        return OK;
    case ST_F8_E4M3:
        return fp8_matrix(dir, path, w, m, err);
    default:
        return error_set(err, ERR_UNSUPPORTED,
                         "%s: tensor %s: %s as a weight, expected F32, F16, BF16, F8_E4M3 or MLX's U32", w->path,
                         gguf_printable(w->name).text, safetensors_dtype_name(w->dtype));
    }
}

status hf_matrix_find(hf_dir *dir, const char *path, hf_matrix *out, error *err)
{
    st_tensor *w = find_part(dir, path, ".weight"), *scales = find_part(dir, path, ".scales");
    if (!w)
        w = find_part(dir, path, "");
    if (!w)
        return ERR_NOT_FOUND;
    w->used = true;
    if (w->dims == 0 || w->bytes == 0)
        return wrong(w, "is empty", err);
    *out = (hf_matrix){.form = FORM_COPY, .weight = w->data, .dims = w->dims, .cols = w->shape[w->dims - 1]};
    out->weight_row = w->bytes / (w->bytes / safetensors_dtype_bytes(w->dtype) / out->cols);
    status code = scales ? mlx_matrix(dir, path, w, scales, out, err) : plain_matrix(dir, path, w, out, err);
    if (code != OK)
        return code;
    memcpy(out->shape, w->shape, sizeof out->shape);
    out->shape[w->dims - 1] = out->cols;
    out->rows = 1;
    for (uint32_t i = 0; i + 1 < w->dims; i++)
        out->rows *= w->shape[i]; /* no overflow: the bytes are in the file */
    return OK;
}
