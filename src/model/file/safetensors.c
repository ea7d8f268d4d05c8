/* model/file/safetensors.c: see the header. */
#include "model/file/safetensors.h"

#include <inttypes.h>
#include <stdlib.h>

#include "model/file/gguf.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tensor data is little-endian and is read in place");

enum { LENGTH_BYTES = 8 };

static const struct {
    const char *name;
    uint8_t bytes;
} DTYPES[ST_DTYPES] = {
    [ST_BOOL] = {"BOOL", 1},       [ST_U8] = {"U8", 1},           [ST_I8] = {"I8", 1},   [ST_F8_E5M2] = {"F8_E5M2", 1},
    [ST_F8_E4M3] = {"F8_E4M3", 1}, [ST_F8_E8M0] = {"F8_E8M0", 1}, [ST_U16] = {"U16", 2}, [ST_I16] = {"I16", 2},
    [ST_F16] = {"F16", 2},         [ST_BF16] = {"BF16", 2},       [ST_U32] = {"U32", 4}, [ST_I32] = {"I32", 4},
    [ST_F32] = {"F32", 4},         [ST_U64] = {"U64", 8},         [ST_I64] = {"I64", 8}, [ST_F64] = {"F64", 8},
};

const char *safetensors_dtype_name(st_dtype dtype)
{
    return DTYPES[dtype].name;
}

size_t safetensors_dtype_bytes(st_dtype dtype)
{
    return DTYPES[dtype].bytes;
}

static status malformed(const st_file *file, const json_scan *s, const char *expected, error *err)
{
    return error_set(err, ERR_INVALID, "%s: header, byte %zu: expected %s", file->path, scan_offset(s), expected);
}

static status wrong_tensor(const st_file *file, const st_tensor *t, const char *words, error *err)
{
    return error_set(err, ERR_INVALID, "%s: tensor %s: %s", file->path, gguf_printable(t->name).text, words);
}

static status read_dtype(const st_file *file, json_scan *s, st_tensor *t, error *err)
{
    span name;
    if (!scan_string(s, &name))
        return malformed(file, s, "a dtype's name", err);
    for (int i = 0; i < ST_DTYPES; i++) {
        if (span_is(name, DTYPES[i].name)) {
            t->dtype = (st_dtype)i;
            return OK;
        }
    }
    return error_set(err, ERR_UNSUPPORTED, "%s: tensor %s: dtype \"%s\" is not known", file->path,
                     gguf_printable(t->name).text, gguf_printable(name).text);
}

static status read_shape(const st_file *file, json_scan *s, st_tensor *t, error *err)
{
    if (!scan_take(s, '['))
        return malformed(file, s, "a shape", err);
    t->dims = 0;
    if (scan_take(s, ']'))
        return OK;
    do {
        if (t->dims == SAFETENSORS_DIMS_MAX)
            return wrong_tensor(file, t, "more dimensions than the 8 that are read", err);
        if (!scan_u64(s, &t->shape[t->dims++]))
            return malformed(file, s, "a dimension", err);
    } while (scan_take(s, ','));
    return scan_take(s, ']') ? OK : malformed(file, s, "the end of a shape", err);
}

typedef struct {
    uint64_t begin, end;
} st_range;

static status read_offsets(const st_file *file, json_scan *s, st_range *out, error *err)
{
    if (!scan_take(s, '[') || !scan_u64(s, &out->begin) || !scan_take(s, ',') || !scan_u64(s, &out->end) ||
        !scan_take(s, ']'))
        return malformed(file, s, "two data offsets", err);
    return OK;
}

/* The three fields, each once, in any order. */
static status read_fields(const st_file *file, json_scan *s, st_tensor *t, st_range *range, error *err)
{
    enum { DTYPE = 1, SHAPE = 2, OFFSETS = 4, ALL = 7 };
    unsigned seen = 0;
    if (!scan_take(s, '{'))
        return malformed(file, s, "an object with dtype, shape and data_offsets", err);
    do {
        span key;
        unsigned field = 0;
        if (!scan_string(s, &key) || !scan_take(s, ':'))
            return malformed(file, s, "a field's name", err);
        status code = OK;
        if (span_is(key, "dtype") && (field = DTYPE))
            code = read_dtype(file, s, t, err);
        else if (span_is(key, "shape") && (field = SHAPE))
            code = read_shape(file, s, t, err);
        else if (span_is(key, "data_offsets") && (field = OFFSETS))
            code = read_offsets(file, s, range, err);
        else if (!scan_skip(s))
            code = malformed(file, s, "a value", err);
        if (code != OK)
            return code;
        if (seen & field)
            return wrong_tensor(file, t, "a field occurs twice", err);
        seen |= field;
    } while (scan_take(s, ','));
    if (!scan_take(s, '}'))
        return malformed(file, s, "the end of a tensor's object", err);
    return seen == ALL ? OK : wrong_tensor(file, t, "dtype, shape or data_offsets is missing", err);
}

/* The data's place and size against the file and the shape. */
static status place_data(const st_file *file, st_tensor *t, st_range range, size_t data_start, error *err)
{
    uint64_t bytes = DTYPES[t->dtype].bytes, available = file->size - data_start;
    for (uint32_t i = 0; i < t->dims; i++)
        if (__builtin_mul_overflow(bytes, t->shape[i], &bytes))
            return wrong_tensor(file, t, "the shape's product is too large", err);
    if (range.begin > range.end || range.end > available)
        return error_set(err, ERR_INVALID,
                         "%s: tensor %s: data from %" PRIu64 " to %" PRIu64 ", the file has %" PRIu64 " bytes of data",
                         file->path, gguf_printable(t->name).text, range.begin, range.end, available);
    if (range.end - range.begin != bytes)
        return error_set(err, ERR_INVALID,
                         "%s: tensor %s: %" PRIu64 " bytes of data, expected the %" PRIu64 " of its shape", file->path,
                         gguf_printable(t->name).text, range.end - range.begin, bytes);
    t->data = file->data + data_start + range.begin;
    t->bytes = (size_t)bytes;
    return OK;
}

static status push_tensor(st_file *file, const st_tensor *t, error *err)
{
    if (file->tensor_count == SAFETENSORS_TENSORS_MAX)
        return error_set(err, ERR_LIMIT, "%s: more than %d tensors", file->path, SAFETENSORS_TENSORS_MAX);
    if (file->tensor_count == file->tensor_capacity) {
        size_t more = file->tensor_capacity ? file->tensor_capacity * 2 : 64;
        st_tensor *larger = realloc(file->tensors, more * sizeof *larger);
        if (!larger)
            return error_set(err, ERR_MEMORY, "%s: out of memory", file->path);
        file->tensors = larger;
        file->tensor_capacity = more;
    }
    file->tensors[file->tensor_count++] = *t;
    return OK;
}

static int by_start(const void *a, const void *b)
{
    const st_tensor *left = *(const st_tensor *const *)a, *right = *(const st_tensor *const *)b;
    if (left->data != right->data)
        return left->data < right->data ? -1 : 1;
    return left->bytes < right->bytes ? -1 : left->bytes > right->bytes;
}

static status check_overlaps(const st_file *file, error *err)
{
    const st_tensor **order = malloc((file->tensor_count + 1) * sizeof *order);
    if (!order)
        return error_set(err, ERR_MEMORY, "%s: out of memory", file->path);
    for (size_t i = 0; i < file->tensor_count; i++)
        order[i] = &file->tensors[i];
    qsort(order, file->tensor_count, sizeof *order, by_start);
    status code = OK;
    for (size_t i = 1; i < file->tensor_count && code == OK; i++)
        if (order[i - 1]->data + order[i - 1]->bytes > order[i]->data)
            code = error_set(err, ERR_INVALID, "%s: tensor %s: its data overlaps that of %s", file->path,
                             gguf_printable(order[i]->name).text, gguf_printable(order[i - 1]->name).text);
    free(order);
    return code;
}

static status read_tensors(st_file *file, json_scan *s, size_t data_start, error *err)
{
    if (!scan_take(s, '{'))
        return malformed(file, s, "a JSON object", err);
    if (scan_take(s, '}'))
        return scan_end(s) ? OK : malformed(file, s, "nothing after the object", err);
    do {
        st_tensor t = {.path = file->path};
        st_range range = {0, 0};
        if (!scan_string(s, &t.name) || !scan_take(s, ':'))
            return malformed(file, s, "a tensor's name", err);
        if (span_is(t.name, "__metadata__")) {
            if (!scan_skip(s))
                return malformed(file, s, "an object of strings", err);
            continue;
        }
        if (t.name.size == 0 || t.name.size > SAFETENSORS_NAME_MAX)
            return malformed(file, s, "a name of 1 to 512 bytes before this", err);
        status code = read_fields(file, s, &t, &range, err);
        if (code != OK || (code = place_data(file, &t, range, data_start, err)) != OK ||
            (code = push_tensor(file, &t, err)) != OK)
            return code;
    } while (scan_take(s, ','));
    if (!scan_take(s, '}') || !scan_end(s))
        return malformed(file, s, "the end of the object", err);
    return OK;
}

status safetensors_parse(st_file *file, error *err)
{
    uint64_t length;
    if (file->size < LENGTH_BYTES)
        return error_set(err, ERR_INVALID, "%s: is %zu bytes long, expected at least a header", file->path, file->size);
    memcpy(&length, file->data, sizeof length);
    if (length > SAFETENSORS_HEADER_MAX)
        return error_set(err, ERR_INVALID, "%s: header of %" PRIu64 " bytes, expected at most %d (is it safetensors?)",
                         file->path, length, SAFETENSORS_HEADER_MAX);
    if (length > file->size - LENGTH_BYTES)
        return error_set(err, ERR_INVALID, "%s: header of %" PRIu64 " bytes, but the file is %zu bytes long",
                         file->path, length, file->size);
    const char *text = (const char *)file->data + LENGTH_BYTES;
    json_scan scan = {text, text, text + length};
    status code = read_tensors(file, &scan, LENGTH_BYTES + (size_t)length, err);
    return code == OK ? check_overlaps(file, err) : code;
}

status safetensors_open(st_file *file, const char *path, error *err)
{
    if (!(file->path = strdup(path)))
        return error_set(err, ERR_MEMORY, "%s: out of memory", path);
    status code = file_map_open(&file->map, path, LENGTH_BYTES, err);
    if (code != OK)
        return code;
    file->data = file->map.data;
    file->size = file->map.size;
    return safetensors_parse(file, err);
}

void safetensors_close(st_file *file)
{
    if (!file)
        return;
    file_map_close(&file->map);
    free(file->tensors);
    free(file->path);
    *file = (st_file){0};
}

/* --- index --- */

static status index_malformed(const char *path, const json_scan *s, const char *expected, error *err)
{
    return error_set(err, ERR_INVALID, "%s: byte %zu: expected %s", path, scan_offset(s), expected);
}

static status read_weight_map(const char *path, json_scan *s, st_index_entry *entry, void *context, error *err)
{
    if (!scan_take(s, '{'))
        return index_malformed(path, s, "an object as weight_map", err);
    if (scan_take(s, '}'))
        return OK;
    size_t count = 0;
    do {
        span tensor, file;
        if (!scan_string(s, &tensor) || !scan_take(s, ':') || !scan_string(s, &file))
            return index_malformed(path, s, "a tensor's name and a file's", err);
        if (++count > SAFETENSORS_TENSORS_MAX)
            return error_set(err, ERR_LIMIT, "%s: more than %d tensors", path, SAFETENSORS_TENSORS_MAX);
        status code = entry(context, tensor, file, err);
        if (code != OK)
            return code;
    } while (scan_take(s, ','));
    return scan_take(s, '}') ? OK : index_malformed(path, s, "the end of weight_map", err);
}

status safetensors_index_parse(const char *path, span text, st_index_entry *entry, void *context, error *err)
{
    json_scan s = {text.data, text.data, text.data + text.size};
    bool found = false;
    if (!scan_take(&s, '{'))
        return index_malformed(path, &s, "a JSON object", err);
    if (!scan_take(&s, '}')) {
        do {
            span key;
            if (!scan_string(&s, &key) || !scan_take(&s, ':'))
                return index_malformed(path, &s, "a key", err);
            if (span_is(key, "weight_map")) {
                if (found)
                    return index_malformed(path, &s, "one weight_map", err);
                found = true;
                status code = read_weight_map(path, &s, entry, context, err);
                if (code != OK)
                    return code;
            } else if (!scan_skip(&s)) {
                return index_malformed(path, &s, "a value", err);
            }
        } while (scan_take(&s, ','));
        if (!scan_take(&s, '}'))
            return index_malformed(path, &s, "the end of the object", err);
    }
    if (!scan_end(&s))
        return index_malformed(path, &s, "nothing after the object", err);
    return found ? OK : error_set(err, ERR_INVALID, "%s: weight_map is missing", path);
}
