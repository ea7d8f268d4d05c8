/* plan/weight_type.c: how many bits does a number take, with its share of the scales? Block sizes are those of
 * tensor/dtype.c; mixtures are the mean that llama.cpp's recipes come to on a Llama of 8B. */
#include "plan/model_shape.h"

#include <stdio.h>
#include <string.h>

#define BLOCK(bytes, weights) (8.0 * (bytes) / (weights))

static const weight_type TYPES[] = {
    {"f32", 32, "f32", 0},
    {"f16", 16, "f16", 0},
    {"bf16", 16, "f16", 0},
    {"q8_0", BLOCK(34, 32), "f16", 0},
    {"q6_k", BLOCK(210, 256), "f16", 0},
    {"q5_k_m", 5.70, "f16", 0},
    {"q5_k_s", 5.57, "f16", 0},
    {"q5_1", BLOCK(24, 32), "f16", 0},
    {"q5_0", BLOCK(22, 32), "f16", 0},
    {"q4_k_m", 4.89, "f16", 0},
    {"q4_k_s", 4.67, "f16", 0},
    {"q4_1", BLOCK(20, 32), "f16", 0},
    {"q4_0", BLOCK(18, 32), "f16", 0},
    {"iq4_nl", BLOCK(18, 32), "f16", 0},
    {"iq4_xs", BLOCK(136, 256), "f16", 0},
    {"q3_k_l", 4.30, "f16", 0},
    {"q3_k_m", 4.00, "f16", 0},
    {"q3_k_s", 3.64, "f16", 0},
    {"q2_k", 3.16, "f16", 0},
    {"fp8", 8, "fp8", 0},   /* a scale for 128 x 128 weights, or for a matrix: nothing */
    {"int8", 8, "int8", 0}, /* a scale a row */
    {"mxfp8", BLOCK(33, 32), "fp8", 0},
    {"mxfp4", BLOCK(17, 32), "f16", 0},                 /* activations stay in 16 bits, as gpt-oss is run */
    {"mxfp4_moe", BLOCK(17, 32), "f16", BLOCK(34, 32)}, /* experts in mxfp4, the rest in q8_0: llama.cpp's files */
    {"mxfp4_bf16", BLOCK(17, 32), "f16", 16},           /* the rest in bf16: as gpt-oss's makers ship it */
    {"nvfp4", BLOCK(18, 32), "fp4", 0},
    {"affine8", 8.5, "f16", 0}, /* groups of 64: 16 bits of scale and 16 of bias */
    {"affine6", 6.5, "f16", 0},
    {"affine5", 5.5, "f16", 0},
    {"affine4", 4.5, "f16", 0},
    {"affine3", 3.5, "f16", 0},
    {"affine2", 2.5, "f16", 0},
};
enum { TYPE_COUNT = sizeof TYPES / sizeof *TYPES };

/* As Headway's pages hold them, for heads of a multiple of 64 channels: a 16-bit scale for 64 numbers, and in q4's keys
 * a middle with it. */
static const struct {
    const char *name;
    double bits;
} KV[] = {{"f16", 16}, {"bf16", 16}, {"f32", 32}, {"q8", 8 + 16.0 / 64}, {"q4", 4 + 1.5 * 16.0 / 64}};
enum { KV_COUNT = sizeof KV / sizeof *KV };

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

/* "Q4_K_M" is "q4_k_m". */
static bool same(const char *a, const char *b)
{
    while (*a && lower(*a) == lower(*b))
        a++, b++;
    return lower(*a) == lower(*b);
}

size_t weight_type_count(void)
{
    return TYPE_COUNT;
}

const weight_type *weight_type_at(size_t index)
{
    return index < TYPE_COUNT ? &TYPES[index] : NULL;
}

status weight_type_find(const weight_type **out, const char *name, error *err)
{
    char list[400] = "";
    size_t used = 0;
    for (size_t i = 0; i < TYPE_COUNT; i++) {
        if (same(name, TYPES[i].name)) {
            *out = &TYPES[i];
            return OK;
        }
        if (used < sizeof list)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? " " : "", TYPES[i].name);
    }
    return error_set(err, ERR_INVALID, "weight type \"%.32s\", expected one of %s", name, list);
}

status kv_bits_find(double *bits, const char *name, error *err)
{
    for (size_t i = 0; i < KV_COUNT; i++)
        if (same(name, KV[i].name)) {
            *bits = KV[i].bits;
            return OK;
        }
    return error_set(err, ERR_INVALID, "KV type \"%.32s\", expected one of f16, bf16, f32, q8, q4", name);
}

status model_name_split(const char *text, char name[64], char type[16], error *err)
{
    const char *colon = strrchr(text, ':');
    size_t size = colon ? (size_t)(colon - text) : strlen(text), rest = colon ? strlen(colon + 1) : 0;
    if (size == 0 || size > 63)
        return error_set(err, ERR_INVALID, "model name \"%.80s\": expected 1 to 63 characters%s", text,
                         colon ? " before the colon" : "");
    if (colon && (rest == 0 || rest > 15))
        return error_set(err, ERR_INVALID, "model name \"%.80s\": expected a type after the colon, as q4_0", text);
    memcpy(name, text, size);
    name[size] = 0;
    memcpy(type, colon ? colon + 1 : "", rest + 1);
    return OK;
}
