/* model/file/gguf.h: private to model/file. One shard of a GGUF model, parsed; and the model put together from its
 * shards. Invariant: whatever is stored here points inside its shard's bytes and was checked; numbers copied out of the
 * file are host integers. Limits: HEADER_BYTES_MAX, KEYS_MAX, TENSORS_MAX, STRINGS_MAX, SHARDS_MAX. Memory is
 * proportional to what was really read, so a lying count allocates nothing. */
#ifndef HEADWAY_MODEL_FILE_GGUF_H
#define HEADWAY_MODEL_FILE_GGUF_H

#include "model/file/file_map.h"
#include "model/file/model_file.h"
#include "model/file/name_index.h"

enum {
    GGUF_HEADER_BYTES = 24,
    HEADER_BYTES_MAX = 1 << 28, /* keys and tensor list; what is read at open, so a sparse file cannot take forever */
    KEYS_MAX = 1 << 16,
    TENSORS_MAX = 1 << 16, /* of all shards */
    STRINGS_MAX = 1 << 24, /* strings in all arrays of one shard */
    SHARDS_MAX = 4096,
    KEY_BYTES_MAX = 65535,
    TENSOR_NAME_BYTES_MAX = 63,
    ALIGNMENT_MIN = 8, /* the format's own rule; consumers may read f32 in place */
    ALIGNMENT_MAX = 1 << 20,
};

typedef struct {
    span key;
    model_value_type type;
    model_value_type element; /* of an array */
    const uint8_t *value;     /* the scalar, the string's bytes, or the array's first element */
    uint64_t count;           /* bytes of a string, elements of an array */
    uint64_t strings_at;      /* of a string array: where its offsets start in `strings` */
} gguf_key;

typedef struct {
    const char *path;    /* for messages; owned */
    file_map map;        /* .data NULL when the bytes belong to somebody else (tests) */
    const uint8_t *data; /* the whole shard */
    size_t size;
    uint32_t version;
    uint64_t alignment;
    gguf_key *keys;
    size_t key_count, key_capacity;
    name_index key_index;
    uint64_t *strings; /* offset of each array string from its array's start */
    size_t string_count, string_capacity;
    model_tensor *tensors;
    size_t tensor_count, tensor_capacity;
} gguf_shard;

typedef struct {                                  /* one const table per kind of model; all private to model/file */
    status (*open)(model_file *file, error *err); /* fills shards[0], tensors, tensor_index, bytes, own */
    void (*close)(model_file *file);              /* frees what `own` holds; also of half an open */
    const char *(*format)(const model_file *file);
    void (*release)(const model_file *file, const void *data, size_t bytes); /* advice; data as tensors show it */
    void (*release_tensor)(const model_file *file, const model_tensor *tensor);
    void (*release_all)(const model_file *file);
} model_kind;

extern const model_kind gguf_kind, hf_kind;

struct model_file {
    const model_kind *kind;
    void *own; /* of the kind; NULL for GGUF */
    char *path;
    uint64_t bytes;
    bool forget;        /* what was read need not stay in the system's cache */
    gguf_shard *shards; /* metadata is that of shards[0] */
    size_t shard_count;
    model_tensor *tensors; /* of all shards, in order */
    size_t tensor_count;
    name_index tensor_index;
};

/* model_file.c: an empty one (NULL: out of memory), and the last checks: on any error the file is closed. */
model_file *model_file_create(const model_kind *kind, const char *path);
status model_file_finish(model_file **out, model_file *file, status code, error *err);

/* gguf_parse.c: reads shard->data[0, size) under the name shard->path; the caller frees the shard, also after an error.
 */
status gguf_shard_parse(gguf_shard *shard, error *err);
void gguf_shard_free(gguf_shard *shard);

/* gguf_values.c: lookup and conversion inside one shard. */
const gguf_key *gguf_find(const gguf_shard *shard, const char *key);
status gguf_u64(const gguf_shard *shard, const char *key, uint64_t *out, error *err);
const char *gguf_type_name(model_value_type type);
size_t gguf_type_bytes(model_value_type type); /* 0: string or array */

/* gguf_check.c: what keys and tensors say about each other. */
status gguf_check_model(const model_file *file, error *err);

/* gguf.c: a model of one shard in the caller's memory, which must outlive it; for tests and fuzzing. */
status gguf_open_memory(model_file **out, const char *name, const void *data, size_t size, error *err);

/* A name from the file, made printable for a message: control bytes become '?', long ones are cut. Fits any key in 96
 * bytes. */
typedef struct {
    char text[96];
} printable;
printable gguf_printable(span name);

#endif
