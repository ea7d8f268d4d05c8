/* model/file/safetensors.h: private to model/file. What does one .safetensors file hold? u64 length of a JSON header,
 * the header (name -> dtype, shape, data_offsets), then row-major little-endian data; a tensor may start anywhere.
 * Invariant after a parse that returned OK: every tensor's data lies inside the file, has the size of its shape and
 * shares no byte with another. Memory is proportional to the header that was really read. One thread parses; then any
 * may read. */
#ifndef HEADWAY_MODEL_FILE_SAFETENSORS_H
#define HEADWAY_MODEL_FILE_SAFETENSORS_H

#include "base/error.h"
#include "base/span.h"
#include "model/file/file_map.h"

enum {
    SAFETENSORS_HEADER_MAX = 100 << 20, /* bytes; the format's own limit */
    SAFETENSORS_TENSORS_MAX = 1 << 20,  /* of one file, and of all shards of a model */
    SAFETENSORS_DIMS_MAX = 8,
    SAFETENSORS_NAME_MAX = 512, /* bytes */
};

typedef enum {
    ST_BOOL,
    ST_U8,
    ST_I8,
    ST_F8_E5M2,
    ST_F8_E4M3,
    ST_F8_E8M0,
    ST_U16,
    ST_I16,
    ST_F16,
    ST_BF16,
    ST_U32,
    ST_I32,
    ST_F32,
    ST_U64,
    ST_I64,
    ST_F64,
    ST_DTYPES
} st_dtype;

typedef struct {
    span name; /* inside the mapping */
    st_dtype dtype;
    uint32_t dims;
    uint64_t shape[SAFETENSORS_DIMS_MAX]; /* slowest first */
    const uint8_t *data;
    size_t bytes;
    const char *path; /* of its file */
    bool used;        /* the loader's mark */
} st_tensor;

typedef struct {
    char *path;   /* owned */
    file_map map; /* .data NULL when the bytes belong to somebody else (tests) */
    const uint8_t *data;
    size_t size;
    st_tensor *tensors;
    size_t tensor_count, tensor_capacity;
} st_file;

/* Reads file->data[0, size) under the name file->path. The caller closes the file, also after an error. */
status safetensors_parse(st_file *file, error *err);
status safetensors_open(st_file *file, const char *path, error *err);
void safetensors_close(st_file *file); /* NULL and zeroed are allowed */

const char *safetensors_dtype_name(st_dtype dtype);
size_t safetensors_dtype_bytes(st_dtype dtype);

/* The weight_map of an index file: calls `entry` for each pair until it returns other than OK. */
typedef status st_index_entry(void *context, span tensor, span file, error *err);
status safetensors_index_parse(const char *path, span text, st_index_entry *entry, void *context, error *err);

/* --- safetensors_json.c: the subset of JSON that headers and indexes are made of, read in place --- */

typedef struct {
    const char *start, *at, *end;
} json_scan;

bool scan_take(json_scan *s, char c);       /* skips blanks; true: c was next and is consumed */
bool scan_end(json_scan *s);                /* only blanks are left */
bool scan_string(json_scan *s, span *out);  /* the bytes between the quotes; false when there is an escape */
bool scan_u64(json_scan *s, uint64_t *out); /* digits only, no leading zero */
bool scan_skip(json_scan *s);               /* any value, nested up to 64 deep */
static inline size_t scan_offset(const json_scan *s)
{
    return (size_t)(s->at - s->start);
}

#endif
