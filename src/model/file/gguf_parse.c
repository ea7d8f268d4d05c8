/* model/file/gguf_parse.c: one GGUF shard, byte by byte, from somebody we do not trust.
 * A cursor never passes the end: every read asks `take` first. Layout: formats.md section 1. */
#include <inttypes.h>
#include <stdlib.h>

#include "model/file/gguf.h"

typedef struct {
    gguf_shard *shard;
    size_t at;  /* offset of the next byte */
    size_t end; /* of the file, or of what a header may take */
    error *err;
} cursor;

static const uint8_t *take(cursor *c, uint64_t bytes) /* NULL when fewer are left */
{
    if (bytes > c->end - c->at)
        return NULL;
    const uint8_t *p = c->shard->data + c->at;
    c->at += (size_t)bytes;
    return p;
}

static bool take_u32(cursor *c, uint32_t *out)
{
    const uint8_t *p = take(c, sizeof *out);
    if (p)
        memcpy(out, p, sizeof *out);
    return p != NULL;
}

static bool take_u64(cursor *c, uint64_t *out)
{
    const uint8_t *p = take(c, sizeof *out);
    if (p)
        memcpy(out, p, sizeof *out);
    return p != NULL;
}

static uint64_t left(const cursor *c)
{
    return c->end - c->at;
}

/* "FILE: WHAT N (NAME): the file ends inside it" */
static status truncated(cursor *c, const char *what, size_t number, span name)
{
    return error_set(c->err, ERR_INVALID, "%s: %s %zu (%s): the file ends inside it, at byte %zu of %zu",
                     c->shard->path, what, number, gguf_printable(name).text, c->at, c->end);
}

static status take_name(cursor *c, const char *what, size_t number, size_t max, span *out)
{
    uint64_t bytes;
    if (!take_u64(c, &bytes))
        return truncated(c, what, number, span_from("its name"));
    if (bytes == 0 || bytes > max)
        return error_set(c->err, ERR_INVALID, "%s: %s %zu: its name is %" PRIu64 " bytes long, expected 1 to %zu",
                         c->shard->path, what, number, bytes, max);
    const uint8_t *name = take(c, bytes);
    if (!name)
        return truncated(c, what, number, span_from("its name"));
    *out = span_of((const char *)name, (size_t)bytes);
    return OK;
}

/* Room for one more item; doubles. */
static bool reserve(void **items, size_t *capacity, size_t count, size_t item_bytes)
{
    if (count < *capacity)
        return true;
    size_t larger = *capacity ? *capacity * 2 : 64;
    void *grown = realloc(*items, larger * item_bytes);
    if (!grown)
        return false;
    *items = grown;
    *capacity = larger;
    return true;
}

static status out_of_memory(cursor *c)
{
    return error_set(c->err, ERR_MEMORY, "%s: out of memory while reading the header", c->shard->path);
}

static status lying_length(cursor *c, const gguf_key *key, const char *what, uint64_t length)
{
    return error_set(c->err, ERR_INVALID,
                     "%s: key %s: %s of %" PRIu64 ", expected at most what the %" PRIu64 " bytes left can hold",
                     c->shard->path, gguf_printable(key->key).text, what, length, left(c));
}

static status parse_string(cursor *c, gguf_key *key)
{
    if (!take_u64(c, &key->count))
        return truncated(c, "key", c->shard->key_count, key->key);
    key->value = take(c, key->count);
    return key->value ? OK : lying_length(c, key, "a string length", key->count);
}

/* Walks the strings of an array once and remembers where each starts. */
static status parse_strings(cursor *c, gguf_key *key)
{
    gguf_shard *shard = c->shard;
    size_t start = c->at;
    key->strings_at = shard->string_count;
    for (uint64_t i = 0; i < key->count; i++) {
        uint64_t offset = c->at - start, bytes;
        if (shard->string_count >= STRINGS_MAX)
            return error_set(c->err, ERR_LIMIT, "%s: key %s: more than %d strings in arrays", shard->path,
                             gguf_printable(key->key).text, STRINGS_MAX);
        if (!reserve((void **)&shard->strings, &shard->string_capacity, shard->string_count, sizeof *shard->strings))
            return out_of_memory(c);
        if (!take_u64(c, &bytes))
            return truncated(c, "key", shard->key_count, key->key);
        if (!take(c, bytes))
            return lying_length(c, key, "a string length", bytes);
        shard->strings[shard->string_count++] = offset;
    }
    return OK;
}

static status check_bools(cursor *c, const gguf_key *key, const uint8_t *bytes, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        if (bytes[i] > 1)
            return error_set(c->err, ERR_INVALID, "%s: key %s: found the byte %u, expected a bool of 0 or 1",
                             c->shard->path, gguf_printable(key->key).text, bytes[i]);
    return OK;
}

static status parse_array(cursor *c, gguf_key *key)
{
    uint32_t element;
    if (!take_u32(c, &element) || !take_u64(c, &key->count))
        return truncated(c, "key", c->shard->key_count, key->key);
    if (element > MV_F64 || element == MV_ARRAY)
        return error_set(c->err, ERR_INVALID, "%s: key %s: array of %s (%" PRIu32 "), expected scalars or strings",
                         c->shard->path, gguf_printable(key->key).text,
                         element == MV_ARRAY ? "arrays" : "an unknown type", element);
    key->element = (model_value_type)element;
    key->value = c->shard->data + c->at;
    size_t bytes = gguf_type_bytes(key->element);
    if (key->count > left(c) / (bytes ? bytes : sizeof(uint64_t)))
        return lying_length(c, key, "an array length", key->count);
    if (key->element == MV_STRING)
        return parse_strings(c, key);
    take(c, key->count * bytes);
    return key->element == MV_BOOL ? check_bools(c, key, key->value, key->count) : OK;
}

static status parse_value(cursor *c, gguf_key *key)
{
    uint32_t type;
    if (!take_u32(c, &type))
        return truncated(c, "key", c->shard->key_count, key->key);
    if (type > MV_F64)
        return error_set(c->err, ERR_INVALID, "%s: key %s: value type %" PRIu32 ", expected 0 to %d", c->shard->path,
                         gguf_printable(key->key).text, type, MV_F64);
    key->type = (model_value_type)type;
    if (type == MV_STRING)
        return parse_string(c, key);
    if (type == MV_ARRAY)
        return parse_array(c, key);
    key->value = take(c, gguf_type_bytes(key->type));
    if (!key->value)
        return truncated(c, "key", c->shard->key_count, key->key);
    return type == MV_BOOL ? check_bools(c, key, key->value, 1) : OK;
}

static status parse_keys(cursor *c, uint64_t count)
{
    gguf_shard *shard = c->shard;
    for (uint64_t i = 0; i < count; i++) {
        gguf_key key = {0};
        status code = take_name(c, "key", (size_t)i, KEY_BYTES_MAX, &key.key);
        if (code != OK || (code = parse_value(c, &key)) != OK)
            return code;
        code = name_index_add(&shard->key_index, key.key, (uint32_t)i);
        if (code == ERR_INVALID)
            return error_set(c->err, ERR_INVALID, "%s: key %s: occurs twice, expected once", shard->path,
                             gguf_printable(key.key).text);
        if (code != OK || !reserve((void **)&shard->keys, &shard->key_capacity, shard->key_count, sizeof key))
            return out_of_memory(c);
        shard->keys[shard->key_count++] = key;
    }
    return OK;
}

static status bad_tensor(cursor *c, const model_tensor *t, const char *found, uint64_t number, const char *expected)
{
    return error_set(c->err, ERR_INVALID, "%s: tensor %s: %s %" PRIu64 ", expected %s", c->shard->path,
                     gguf_printable(t->name).text, found, number, expected);
}

/* Sets t->bytes from type and shape. */
static status measure_tensor(cursor *c, model_tensor *t)
{
    const dtype_info *info = t->type < DT_OWN ? dtype_get(t->type) : NULL; /* the loaders' own are no file's */
    if (!info)
        return bad_tensor(c, t, "type id", t->type, "a type that GGUF defines");
    if (t->ne[0] % info->block_elems != 0)
        return error_set(c->err, ERR_INVALID,
                         "%s: tensor %s: rows of %" PRIu64 " elements, expected a multiple of %u (%s)", c->shard->path,
                         gguf_printable(t->name).text, t->ne[0], info->block_elems, info->name);
    uint64_t elements = 1, blocks, bytes;
    for (int d = 0; d < 4; d++)
        if (__builtin_mul_overflow(elements, t->ne[d], &elements) || elements > INT64_MAX)
            return bad_tensor(c, t, "the element count overflows at dimension", t->ne[d], "a product below 2^63");
    blocks = elements / info->block_elems;
    if (__builtin_mul_overflow(blocks, (uint64_t)info->block_bytes, &bytes) || bytes > c->shard->size)
        return error_set(c->err, ERR_INVALID,
                         "%s: tensor %s: %" PRIu64 " elements of %s, expected to fit in a file of %zu "
                         "bytes",
                         c->shard->path, gguf_printable(t->name).text, elements, info->name, c->shard->size);
    t->bytes = (size_t)bytes;
    return OK;
}

/* t->data holds the offset in the data section until place_tensors. */
static status parse_tensor(cursor *c, size_t number)
{
    gguf_shard *shard = c->shard;
    model_tensor t = {.ne = {1, 1, 1, 1}};
    status code = take_name(c, "tensor", number, TENSOR_NAME_BYTES_MAX, &t.name);
    if (code != OK)
        return code;
    if (!take_u32(c, &t.dims))
        return truncated(c, "tensor", number, t.name);
    if (t.dims < 1 || t.dims > 4)
        return bad_tensor(c, &t, "dimension count", t.dims, "1 to 4");
    for (uint32_t d = 0; d < t.dims; d++) {
        if (!take_u64(c, &t.ne[d]))
            return truncated(c, "tensor", number, t.name);
        if (t.ne[d] == 0 || t.ne[d] > INT64_MAX)
            return bad_tensor(c, &t, "a dimension of", t.ne[d], "1 to 2^63 - 1");
    }
    uint64_t offset;
    if (!take_u32(c, &t.type) || !take_u64(c, &offset))
        return truncated(c, "tensor", number, t.name);
    if ((code = measure_tensor(c, &t)) != OK)
        return code;
    if (offset % shard->alignment != 0)
        return error_set(c->err, ERR_INVALID, "%s: tensor %s: offset %" PRIu64 ", expected a multiple of %" PRIu64,
                         shard->path, gguf_printable(t.name).text, offset, shard->alignment);
    if (offset > shard->size)
        return bad_tensor(c, &t, "offset", offset, "one inside the file");
    if (!reserve((void **)&shard->tensors, &shard->tensor_capacity, shard->tensor_count, sizeof t))
        return out_of_memory(c);
    t.data = shard->data + offset;
    shard->tensors[shard->tensor_count++] = t;
    return OK;
}

static int by_address(const void *a, const void *b)
{
    const model_tensor *x = *(const model_tensor *const *)a, *y = *(const model_tensor *const *)b;
    return ((const uint8_t *)x->data > (const uint8_t *)y->data) -
           ((const uint8_t *)x->data < (const uint8_t *)y->data);
}

static status check_overlaps(cursor *c)
{
    gguf_shard *shard = c->shard;
    if (shard->tensor_count < 2)
        return OK;
    const model_tensor **sorted = malloc(shard->tensor_count * sizeof(const model_tensor *));
    if (!sorted)
        return out_of_memory(c);
    for (size_t i = 0; i < shard->tensor_count; i++)
        sorted[i] = &shard->tensors[i];
    qsort(sorted, shard->tensor_count, sizeof(const model_tensor *), by_address);
    status code = OK;
    for (size_t i = 1; i < shard->tensor_count && code == OK; i++)
        if ((const uint8_t *)sorted[i - 1]->data + sorted[i - 1]->bytes > (const uint8_t *)sorted[i]->data)
            code =
                error_set(c->err, ERR_INVALID, "%s: tensor %s: overlaps tensor %s, expected its own bytes", shard->path,
                          gguf_printable(sorted[i]->name).text, gguf_printable(sorted[i - 1]->name).text);
    free(sorted);
    return code;
}

/* Moves each tensor from its offset to its bytes behind the padded header. */
static status place_tensors(cursor *c)
{
    gguf_shard *shard = c->shard;
    uint64_t start = (c->at + shard->alignment - 1) / shard->alignment * shard->alignment;
    for (size_t i = 0; i < shard->tensor_count; i++) {
        model_tensor *t = &shard->tensors[i];
        uint64_t offset = (uint64_t)((const uint8_t *)t->data - shard->data);
        uint64_t room = start + offset > shard->size ? 0 : shard->size - start - offset;
        if (t->bytes > room)
            return error_set(c->err, ERR_INVALID,
                             "%s: tensor %s: data at bytes %" PRIu64 " to %" PRIu64 ", expected inside the file of %zu",
                             shard->path, gguf_printable(t->name).text, start + offset, start + offset + t->bytes,
                             shard->size);
        t->data = shard->data + start + offset;
    }
    return check_overlaps(c);
}

static status parse_alignment(cursor *c)
{
    const gguf_key *key = gguf_find(c->shard, "general.alignment");
    uint32_t value = 32;
    if (key && key->type != MV_U32)
        return error_set(c->err, ERR_INVALID, "%s: key general.alignment: found %s, expected u32", c->shard->path,
                         gguf_type_name(key->type));
    if (key)
        memcpy(&value, key->value, sizeof value);
    if (value < ALIGNMENT_MIN || (value & (value - 1)) != 0 || value > ALIGNMENT_MAX)
        return error_set(c->err, ERR_INVALID,
                         "%s: key general.alignment: found %" PRIu32 ", expected a power of two from %d to %d",
                         c->shard->path, value, ALIGNMENT_MIN, ALIGNMENT_MAX);
    c->shard->alignment = value;
    return OK;
}

static status parse_counts(cursor *c, uint64_t *tensors, uint64_t *keys)
{
    enum { TENSOR_BYTES_MIN = 8 + 1 + 4 + 8 + 4 + 8, KEY_BYTES_MIN = 8 + 1 + 4 + 1 };
    const char *path = c->shard->path;
    take_u64(c, tensors);
    take_u64(c, keys);
    uint64_t tensors_max = left(c) / TENSOR_BYTES_MIN, keys_max = left(c) / KEY_BYTES_MIN;
    if (*tensors > tensors_max || *tensors > TENSORS_MAX)
        return error_set(c->err, ERR_INVALID, "%s: header: %" PRIu64 " tensors, expected at most %" PRIu64, path,
                         *tensors, tensors_max < TENSORS_MAX ? tensors_max : TENSORS_MAX);
    if (*keys > keys_max || *keys > KEYS_MAX)
        return error_set(c->err, ERR_INVALID, "%s: header: %" PRIu64 " keys, expected at most %" PRIu64, path, *keys,
                         keys_max < KEYS_MAX ? keys_max : KEYS_MAX);
    return OK;
}

static status parse_magic(cursor *c)
{
    gguf_shard *shard = c->shard;
    if (shard->size < GGUF_HEADER_BYTES)
        return error_set(c->err, ERR_INVALID, "%s: is %zu bytes long, expected at least the %d of a header",
                         shard->path, shard->size, GGUF_HEADER_BYTES);
    const uint8_t *magic = take(c, 4);
    if (memcmp(magic, "GGUF", 4) != 0)
        return error_set(c->err, ERR_INVALID, "%s: header: starts with \"%s\", expected \"GGUF\"", shard->path,
                         gguf_printable(span_of((const char *)magic, 4)).text);
    take_u32(c, &shard->version);
    uint32_t swapped = __builtin_bswap32(shard->version);
    if (swapped >= 1 && swapped <= 3)
        return error_set(c->err, ERR_INVALID, "%s: header: big-endian GGUF, expected little-endian", shard->path);
    if (shard->version < 2 || shard->version > 3)
        return error_set(c->err, ERR_INVALID, "%s: header: GGUF version %" PRIu32 ", expected 2 or 3", shard->path,
                         shard->version);
    return OK;
}

status gguf_shard_parse(gguf_shard *shard, error *err)
{
    cursor c = {shard, 0, shard->size < HEADER_BYTES_MAX ? shard->size : HEADER_BYTES_MAX, err};
    uint64_t tensors = 0, keys = 0;
    status code;
    if ((code = parse_magic(&c)) != OK || (code = parse_counts(&c, &tensors, &keys)) != OK ||
        (code = parse_keys(&c, keys)) != OK || (code = parse_alignment(&c)) != OK)
        return code;
    for (size_t i = 0; i < tensors; i++)
        if ((code = parse_tensor(&c, i)) != OK)
            return code;
    return place_tensors(&c);
}

void gguf_shard_free(gguf_shard *shard)
{
    file_map_close(&shard->map);
    free((char *)(uintptr_t)shard->path);
    free(shard->keys);
    free(shard->strings);
    free(shard->tensors);
    name_index_free(&shard->key_index);
    *shard = (gguf_shard){0};
}
