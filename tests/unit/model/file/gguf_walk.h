/* Reads everything that an opened model offers, through every getter: what a consumer could touch, a sanitizer then
 * sees. */
#ifndef HEADWAY_TESTS_GGUF_WALK_H
#define HEADWAY_TESTS_GGUF_WALK_H

#include <stdlib.h>

#include "model/file/model_file.h"
#include "tensor/quant.h"

static inline uint64_t walk_array(const model_array *array)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < array->count; i++) {
        span text = model_array_string(array, i);
        for (size_t c = 0; c < text.size; c++)
            sum += (uint8_t)text.data[c];
        sum += (uint64_t)model_array_i64(array, i) + (model_array_f64(array, i) > 0);
    }
    return sum;
}

static inline uint64_t walk_keys(const model_file *file)
{
    uint64_t sum = 0;
    span key;
    model_value_type type;
    for (size_t i = 0; model_file_key_at(file, i, &key, &type); i++) {
        uint64_t number;
        double real;
        bool flag;
        span text;
        model_array array;
        error err;
        char *name = strndup(key.data, key.size);
        if (model_file_u64(file, name, &number, &err) == OK)
            sum += number;
        if (model_file_f64(file, name, &real, &err) == OK)
            sum += real > 0;
        if (model_file_bool(file, name, &flag, &err) == OK)
            sum += flag;
        if (model_file_string(file, name, &text, &err) == OK)
            for (size_t c = 0; c < text.size; c++)
                sum += (uint8_t)text.data[c];
        if (model_file_array(file, name, &array, &err) == OK)
            sum += walk_array(&array);
        free(name);
    }
    return sum;
}

static inline uint64_t walk_tensor(const model_tensor *t)
{
    uint64_t sum = 0;
    const dtype_info *info = dtype_get(t->type);
    for (size_t i = 0; i < t->bytes; i++)
        sum += ((const uint8_t *)t->data)[i];
    if (!info->supported || t->bytes == 0)
        return sum;
    size_t row_bytes = dtype_row_bytes(info, t->ne[0]);
    float *row = malloc(t->ne[0] * sizeof *row);
    for (size_t r = 0; row && r < t->bytes / row_bytes; r++) {
        quant_dequantize_row((dtype)t->type, (const uint8_t *)t->data + r * row_bytes, row, t->ne[0]);
        sum += row[0] > 0;
    }
    free(row);
    return sum;
}

static inline uint64_t walk_model(const model_file *file)
{
    uint64_t sum = walk_keys(file) + model_file_bytes(file) + model_file_version(file);
    for (size_t i = 0; i < model_file_tensor_count(file); i++) {
        const model_tensor *t = model_file_tensor_at(file, i);
        char *name = strndup(t->name.data, t->name.size);
        if (strlen(name) == t->name.size && model_file_tensor(file, name) != t)
            abort(); /* the index and the list disagree */
        free(name);
        sum += walk_tensor(t);
        model_file_release_pages(file, t);
    }
    return sum;
}

#endif
