/* model/file/model_file.h: what does this file hold? Metadata and tensor views of an untrusted model file (GGUF v2, v3,
 * split or not) or directory (safetensors of Hugging Face or MLX, shown under GGUF's keys and tensor names). A view
 * borrows the mapping: it lives until model_file_close. Opened and read by one thread; read-only afterwards, so any
 * thread may read. Every count, offset and type has been checked when open returns OK. */
#ifndef HEADWAY_MODEL_FILE_MODEL_FILE_H
#define HEADWAY_MODEL_FILE_MODEL_FILE_H

#include "base/error.h"
#include "base/span.h"
#include "tensor/dtype.h"

typedef struct model_file model_file;

typedef struct model_tensor model_tensor;
struct model_tensor {
    span name;
    uint32_t type;    /* GGUF id, or one of the loaders' own (>= DT_OWN); may be unsupported: see dtype_get */
    uint32_t dims;    /* 1..4 */
    uint64_t ne[4];   /* ne[0] contiguous; unused ones are 1 */
    const void *data; /* inside the mapping: ne[1] * ne[2] * ne[3] rows of blocks of `type`; NULL: use read_rows */
    size_t bytes;     /* of all rows as blocks of `type` */
    /* Rows [first, first + count) of all ne[1] * ne[2] * ne[3] as blocks of `type`, where the file holds them
     * otherwise: scales apart, in another order, one expert at a time. Any thread. NULL: `data` has them. */
    void (*read_rows)(const model_tensor *tensor, uint64_t first, uint64_t count, void *dst);
    const void *source; /* read_rows' own */
};

typedef enum { /* GGUF value type ids */
               MV_U8,
               MV_I8,
               MV_U16,
               MV_I16,
               MV_U32,
               MV_I32,
               MV_F32,
               MV_BOOL,
               MV_STRING,
               MV_ARRAY,
               MV_U64,
               MV_I64,
               MV_F64
} model_value_type;

/* `path`: a GGUF file (the first shard of a split model, or any shard), or a directory with config.json and
 * safetensors. err: "FILE: KEY or tensor: what was expected". */
status model_file_open(model_file **out, const char *path, error *err);
void model_file_close(model_file *file); /* NULL is allowed */

const char *model_file_path(const model_file *file);
uint64_t model_file_bytes(const model_file *file); /* all shards */
uint32_t model_file_version(const model_file *file);
const char *model_file_format(const model_file *file); /* "GGUF v3", "safetensors", "MLX safetensors" */
bool model_file_is_directory(const model_file *file);

size_t model_file_tensor_count(const model_file *file);
const model_tensor *model_file_tensor_at(const model_file *file, size_t index);
const model_tensor *model_file_tensor(const model_file *file, const char *name); /* NULL: absent; hashed lookup */

/* Metadata. Each getter returns OK, ERR_NOT_FOUND (out untouched) or ERR_INVALID (wrong type; err says which).
 * Integers of any width and sign convert when the value fits. */
status model_file_u64(const model_file *file, const char *key, uint64_t *out, error *err);
status model_file_f64(const model_file *file, const char *key, double *out, error *err);
status model_file_bool(const model_file *file, const char *key, bool *out, error *err);
status model_file_string(const model_file *file, const char *key, span *out, error *err);

typedef struct {
    model_value_type element; /* never MV_ARRAY */
    uint64_t count;
    const void *raw; /* packed little-endian elements; strings need model_file_array_string */
    const void *private_index;
} model_array;
status model_file_array(const model_file *file, const char *key, model_array *out, error *err);
span model_array_string(const model_array *array, uint64_t index); /* O(1); element must be MV_STRING */
int64_t model_array_i64(const model_array *array, uint64_t index); /* element an integer or bool */
double model_array_f64(const model_array *array, uint64_t index);  /* element F32, F64 or an integer */

/* Iterates the keys, for `inspect`; false past the end. */
bool model_file_key_at(const model_file *file, size_t index, span *key, model_value_type *type);

/* Drops the mapping's pages of one tensor, or of `bytes` of one, from memory after they were repacked (advice only). */
void model_file_release_all(const model_file *file); /* metadata too: what is asked for again is read again */
void model_file_release_range(const model_file *file, const void *data, size_t bytes);
void model_file_release_pages(const model_file *file, const model_tensor *tensor);
/* Advice: `bytes` of a tensor's data, from `data` on, are read next. */
void model_file_expect(const void *data, size_t bytes);

#endif
