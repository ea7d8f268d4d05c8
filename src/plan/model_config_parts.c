/* plan/model_config_parts.c: see the header. docs/models-catalogue.md says what a tower and a draft layer are made of.
 */
#include "plan/model_config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* --- keys --- */

status config_wrong(const config_part *part, const char *key, const char *expected)
{
    return error_set(part->err, ERR_INVALID, "%s: %s%s: expected %s", part->name, part->prefix, key, expected);
}

const json_t *config_at(const config_part *part, const char *key)
{
    const json_t *value = json_object_get(part->object, key);
    return value && !json_is_null(value) ? value : NULL;
}

status config_count(const config_part *part, const char *key, int64_t fallback, uint32_t low, uint32_t high,
                    uint32_t *out)
{
    const json_t *value = config_at(part, key);
    if (!value && fallback == CONFIG_NEEDED)
        return error_set(part->err, ERR_INVALID, "%s: %s%s is missing", part->name, part->prefix, key);
    if (value && !json_is_integer(value))
        return config_wrong(part, key, "an integer");
    int64_t number = value ? json_integer_value(value) : fallback;
    if (number < (int64_t)low || number > (int64_t)high)
        return error_set(part->err, ERR_INVALID, "%s: %s%s: %" PRId64 ", expected %" PRIu32 " to %" PRIu32, part->name,
                         part->prefix, key, number, low, high);
    *out = (uint32_t)number;
    return OK;
}

status config_flag(const config_part *part, const char *key, bool fallback, bool *out)
{
    const json_t *value = config_at(part, key);
    if (value && !json_is_boolean(value))
        return config_wrong(part, key, "true or false");
    *out = value ? json_is_true(value) : fallback;
    return OK;
}

/* --- towers --- */

enum { WIDTH_MAX = 1 << 16, DEPTH_MAX = 256, POSITIONS_MAX = 1 << 20, PATCH_MAX = 64, IMAGE_MAX = 1 << 14 };

/* A block of a tower: two norms, q, k, v and o, two matrices; all with biases. */
static uint64_t tower_block(uint64_t width, uint64_t inner)
{
    return 4 * width + 4 * (width * width + width) + 2 * width * inner + inner + width;
}

status config_qwen_tower(const config_part *vision, uint64_t *out)
{
    uint32_t depth, width, inner, hidden, positions, patch, frames, merge, colours;
    status st;
    if ((st = config_count(vision, "depth", CONFIG_NEEDED, 1, DEPTH_MAX, &depth)) ||
        (st = config_count(vision, "hidden_size", CONFIG_NEEDED, 1, WIDTH_MAX, &width)) ||
        (st = config_count(vision, "intermediate_size", CONFIG_NEEDED, 1, WIDTH_MAX, &inner)) ||
        (st = config_count(vision, "out_hidden_size", CONFIG_NEEDED, 1, WIDTH_MAX, &hidden)) ||
        (st = config_count(vision, "num_position_embeddings", 2304, 1, POSITIONS_MAX, &positions)) ||
        (st = config_count(vision, "patch_size", 16, 1, PATCH_MAX, &patch)) ||
        (st = config_count(vision, "temporal_patch_size", 2, 1, PATCH_MAX, &frames)) ||
        (st = config_count(vision, "spatial_merge_size", 2, 1, PATCH_MAX, &merge)) ||
        (st = config_count(vision, "in_channels", 3, 1, PATCH_MAX, &colours)))
        return st;
    uint64_t w = width, merged = w * merge * merge;
    uint64_t patches = (uint64_t)colours * frames * patch * patch * w + w + positions * w;
    uint64_t merger = 2 * w + merged * merged + merged + merged * hidden + hidden;
    *out = patches + depth * tower_block(w, inner) + merger;
    return OK;
}

status config_gemma_tower(const config_part *vision, uint32_t hidden, uint64_t *out)
{
    uint32_t depth, width, inner, patch, image;
    status st;
    if ((st = config_count(vision, "num_hidden_layers", CONFIG_NEEDED, 1, DEPTH_MAX, &depth)) ||
        (st = config_count(vision, "hidden_size", CONFIG_NEEDED, 1, WIDTH_MAX, &width)) ||
        (st = config_count(vision, "intermediate_size", CONFIG_NEEDED, 1, WIDTH_MAX, &inner)) ||
        (st = config_count(vision, "patch_size", CONFIG_NEEDED, 1, PATCH_MAX, &patch)) ||
        (st = config_count(vision, "image_size", CONFIG_NEEDED, 1, IMAGE_MAX, &image)))
        return st;
    uint64_t w = width, side = image / patch, norm = 2 * w, projector = w * hidden + w;
    *out = 3ull * patch * patch * w + w + side * side * w + depth * tower_block(w, inner) + norm + projector;
    return OK;
}

status config_llama_tower(const config_part *vision, uint32_t hidden, uint64_t *out)
{
    uint32_t depth, width, inner, patch, image, middle, last, end;
    status st;
    if ((st = config_count(vision, "num_hidden_layers", CONFIG_NEEDED, 1, DEPTH_MAX, &depth)) ||
        (st = config_count(vision, "hidden_size", CONFIG_NEEDED, 1, WIDTH_MAX, &width)) ||
        (st = config_count(vision, "intermediate_size", CONFIG_NEEDED, 1, WIDTH_MAX, &inner)) ||
        (st = config_count(vision, "patch_size", CONFIG_NEEDED, 1, PATCH_MAX, &patch)) ||
        (st = config_count(vision, "image_size", CONFIG_NEEDED, 1, IMAGE_MAX, &image)) ||
        (st = config_count(vision, "projector_input_dim", CONFIG_NEEDED, 1, WIDTH_MAX, &middle)) ||
        (st = config_count(vision, "projector_output_dim", CONFIG_NEEDED, 1, WIDTH_MAX, &last)) ||
        (st = config_count(vision, "vision_output_dim", CONFIG_NEEDED, 1, WIDTH_MAX, &end)))
        return st;
    uint64_t w = width, m = middle, side = image / patch, norms = 4 * w;
    uint64_t patches = 3ull * patch * patch * w + w + (side * side + 1) * w; /* with one for the class */
    *out = patches + norms + depth * tower_block(w, inner) + m * inner + (uint64_t)last * last + (uint64_t)end * hidden;
    return OK;
}

uint64_t config_draft_layer(const model_shape *shape, uint32_t copies)
{
    model_shape longer = *shape;
    model_sums before, after;
    longer.layers++;
    longer.attention_layers++;
    longer.dense_layers += shape->experts ? 0 : 1;
    model_shape_sums(shape, &before);
    model_shape_sums(&longer, &after);
    uint64_t hidden = shape->hidden, join = 2 * hidden * hidden + 3 * hidden; /* of a token with what was thought */
    return after.total - before.total + join + copies * before.embedding;
}

/* --- how weights are stored --- */

static void mlx_type(const json_t *q, char type[16])
{
    const char *mode = json_string_value(json_object_get(q, "mode"));
    json_int_t bits = json_integer_value(json_object_get(q, "bits"));
    if (!mode || strcmp(mode, "affine") == 0) {
        if (bits >= 2 && bits <= 8 && bits != 7)
            snprintf(type, 16, "affine%d", (int)bits);
    } else if (strcmp(mode, "mxfp4") == 0 || strcmp(mode, "mxfp8") == 0 || strcmp(mode, "nvfp4") == 0)
        snprintf(type, 16, "%s", mode);
}

/* Of the weights in the first group of compressed-tensors. */
static void compressed_type(const json_t *q, char type[16])
{
    const json_t *groups = json_object_get(q, "config_groups");
    void *first = json_object_iter((json_t *)(uintptr_t)groups);
    const json_t *weights = first ? json_object_get(json_object_iter_value(first), "weights") : NULL;
    const char *kind = json_string_value(json_object_get(weights, "type"));
    json_int_t bits = json_integer_value(json_object_get(weights, "num_bits"));
    bool real = kind && strcmp(kind, "float") == 0;
    if (bits == 8)
        snprintf(type, 16, "%s", real ? "fp8" : "int8");
    else if (bits == 4)
        snprintf(type, 16, "%s", real ? "nvfp4" : "affine4");
}

static void method_type(const json_t *q, const char *method, char type[16])
{
    const char *algorithm = json_string_value(json_object_get(q, "quant_algo"));
    json_int_t bits = json_integer_value(json_object_get(q, "bits"));
    if (strcmp(method, "fp8") == 0)
        snprintf(type, 16, "fp8");
    else if (strcmp(method, "mxfp4") == 0) /* of experts only, bf16 stays elsewhere */
        snprintf(type, 16, "mxfp4_bf16");
    else if (strcmp(method, "compressed-tensors") == 0)
        compressed_type(q, type);
    else if (strcmp(method, "gptq") == 0 || strcmp(method, "awq") == 0)
        snprintf(type, 16, "%s", bits == 4 ? "affine4" : bits == 8 ? "affine8" : "");
    else if (algorithm && strcmp(algorithm, "NVFP4") == 0)
        snprintf(type, 16, "nvfp4");
    else if (algorithm && strcmp(algorithm, "FP8") == 0)
        snprintf(type, 16, "fp8");
}

void config_weight_type(const json_t *top, const json_t *text, char type[16])
{
    static const struct {
        const char *dtype, *type;
    } PLAIN[] = {{"bfloat16", "bf16"}, {"float16", "f16"}, {"float32", "f32"}};
    static const char *const HOLDERS[] = {"quantization", "quantization_config"};
    type[0] = 0;
    for (size_t i = 0; i < 2; i++) {
        const json_t *q = json_object_get(top, HOLDERS[i]);
        const char *method = json_string_value(json_object_get(q, "quant_method"));
        if (!json_is_object(q))
            continue;
        if (method)
            method_type(q, method, type);
        else
            mlx_type(q, type);
        return;
    }
    const json_t *objects[] = {text, top};
    for (size_t i = 0; i < 4; i++) {
        const char *dtype = json_string_value(json_object_get(objects[i / 2], i % 2 ? "torch_dtype" : "dtype"));
        for (size_t k = 0; dtype && k < sizeof PLAIN / sizeof *PLAIN; k++)
            if (strcmp(dtype, PLAIN[k].dtype) == 0) {
                snprintf(type, 16, "%s", PLAIN[k].type);
                return;
            }
    }
}
