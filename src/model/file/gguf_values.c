/* model/file/gguf_values.c: metadata by key, converted with care. */
#include <inttypes.h>

#include "model/file/gguf.h"

static const struct {
    const char *name;
    size_t bytes;
} TYPES[] = {
    [MV_U8] = {"u8", 1},           [MV_I8] = {"i8", 1},          [MV_U16] = {"u16", 2}, [MV_I16] = {"i16", 2},
    [MV_U32] = {"u32", 4},         [MV_I32] = {"i32", 4},        [MV_F32] = {"f32", 4}, [MV_BOOL] = {"a bool", 1},
    [MV_STRING] = {"a string", 0}, [MV_ARRAY] = {"an array", 0}, [MV_U64] = {"u64", 8}, [MV_I64] = {"i64", 8},
    [MV_F64] = {"f64", 8},
};

const char *gguf_type_name(model_value_type type)
{
    return TYPES[type].name;
}

size_t gguf_type_bytes(model_value_type type)
{
    return TYPES[type].bytes;
}

printable gguf_printable(span name)
{
    enum { CUT = sizeof(printable) - 4 };
    printable out;
    size_t n = name.size < CUT ? name.size : CUT;
    for (size_t i = 0; i < n; i++)
        out.text[i] = (unsigned char)name.data[i] < 0x20 || (unsigned char)name.data[i] >= 0x7f ? '?' : name.data[i];
    memcpy(out.text + n, n < name.size ? "..." : "", n < name.size ? 4 : 1);
    return out;
}

const gguf_key *gguf_find(const gguf_shard *shard, const char *key)
{
    int64_t number = name_index_find(&shard->key_index, span_from(key));
    return number == NAME_ABSENT ? NULL : &shard->keys[number];
}

static bool is_integer(model_value_type type)
{
    return type != MV_F32 && type != MV_F64 && type != MV_STRING && type != MV_ARRAY && type != MV_BOOL;
}

/* An integer or bool at `p`, sign-extended; a u64 keeps its bits. */
static int64_t integer_at(model_value_type type, const uint8_t *p)
{
    uint64_t bits = 0;
    memcpy(&bits, p, TYPES[type].bytes); /* little-endian */
    switch (type) {
    case MV_I8:
        return (int8_t)bits;
    case MV_I16:
        return (int16_t)bits;
    case MV_I32:
        return (int32_t)bits;
    default:
        return (int64_t)bits;
    }
}

static double number_at(model_value_type type, const uint8_t *p)
{
    if (type == MV_F64) {
        double value;
        memcpy(&value, p, sizeof value);
        return value;
    }
    if (type == MV_F32) {
        float value;
        memcpy(&value, p, sizeof value);
        return value;
    }
    int64_t value = integer_at(type, p);
    return type == MV_U64 ? (double)(uint64_t)value : (double)value;
}

static status wrong_type(const gguf_shard *shard, const gguf_key *key, const char *expected, error *err)
{
    return error_set(err, ERR_INVALID, "%s: key %s: found %s, expected %s", shard->path, gguf_printable(key->key).text,
                     gguf_type_name(key->type), expected);
}

status gguf_u64(const gguf_shard *shard, const char *name, uint64_t *out, error *err)
{
    const gguf_key *key = gguf_find(shard, name);
    if (!key)
        return ERR_NOT_FOUND;
    if (!is_integer(key->type))
        return wrong_type(shard, key, "an integer", err);
    int64_t value = integer_at(key->type, key->value);
    if (value < 0 && key->type != MV_U64)
        return error_set(err, ERR_INVALID, "%s: key %s: found %" PRId64 ", expected 0 or more", shard->path,
                         gguf_printable(key->key).text, value);
    *out = (uint64_t)value;
    return OK;
}

status model_file_u64(const model_file *file, const char *key, uint64_t *out, error *err)
{
    return gguf_u64(&file->shards[0], key, out, err);
}

status model_file_f64(const model_file *file, const char *name, double *out, error *err)
{
    const gguf_key *key = gguf_find(&file->shards[0], name);
    if (!key)
        return ERR_NOT_FOUND;
    if (key->type != MV_F32 && key->type != MV_F64 && !is_integer(key->type))
        return wrong_type(&file->shards[0], key, "a number", err);
    *out = number_at(key->type, key->value);
    return OK;
}

status model_file_bool(const model_file *file, const char *name, bool *out, error *err)
{
    const gguf_key *key = gguf_find(&file->shards[0], name);
    if (!key)
        return ERR_NOT_FOUND;
    if (key->type != MV_BOOL)
        return wrong_type(&file->shards[0], key, "a bool", err);
    *out = *key->value != 0;
    return OK;
}

status model_file_string(const model_file *file, const char *name, span *out, error *err)
{
    const gguf_key *key = gguf_find(&file->shards[0], name);
    if (!key)
        return ERR_NOT_FOUND;
    if (key->type != MV_STRING)
        return wrong_type(&file->shards[0], key, "a string", err);
    *out = span_of((const char *)key->value, (size_t)key->count);
    return OK;
}

status model_file_array(const model_file *file, const char *name, model_array *out, error *err)
{
    const gguf_shard *shard = &file->shards[0];
    const gguf_key *key = gguf_find(shard, name);
    if (!key)
        return ERR_NOT_FOUND;
    if (key->type != MV_ARRAY)
        return wrong_type(shard, key, "an array", err);
    const uint64_t *offsets = key->element == MV_STRING && key->count > 0 ? shard->strings + key->strings_at : NULL;
    *out = (model_array){key->element, key->count, key->value, offsets};
    return OK;
}

span model_array_string(const model_array *array, uint64_t index)
{
    if (array->element != MV_STRING || index >= array->count)
        return (span){0};
    const char *p = (const char *)array->raw + ((const uint64_t *)array->private_index)[index];
    uint64_t bytes;
    memcpy(&bytes, p, sizeof bytes);
    return span_of(p + sizeof bytes, (size_t)bytes);
}

static const uint8_t *element_at(const model_array *array, uint64_t index)
{
    return index < array->count ? (const uint8_t *)array->raw + index * gguf_type_bytes(array->element) : NULL;
}

int64_t model_array_i64(const model_array *array, uint64_t index)
{
    const uint8_t *p = element_at(array, index);
    return p && (is_integer(array->element) || array->element == MV_BOOL) ? integer_at(array->element, p) : 0;
}

double model_array_f64(const model_array *array, uint64_t index)
{
    const uint8_t *p = element_at(array, index);
    return p && array->element != MV_STRING ? number_at(array->element, p) : 0;
}

bool model_file_key_at(const model_file *file, size_t index, span *key, model_value_type *type)
{
    const gguf_shard *shard = &file->shards[0];
    if (index >= shard->key_count)
        return false;
    *key = shard->keys[index].key;
    *type = shard->keys[index].type;
    return true;
}
