/* model/write/model_write.h: a plan to files. Weights are made, encoded and written a few rows at a time by up to two
 * threads, so memory does not grow with the model; the bytes do not depend on the number of threads. Nothing stands
 * under the wanted name until all of it is written: "PATH.part" is renamed at the end and removed after a failure. */
#ifndef HEADWAY_MODEL_WRITE_MODEL_WRITE_H
#define HEADWAY_MODEL_WRITE_MODEL_WRITE_H

#include <signal.h>

#include "model/write/gguf_keys.h"
#include "model/write/plan.h"

enum { WRITE_THREADS_MAX = 2 };

typedef struct {
    uint32_t threads;                                             /* 1 to WRITE_THREADS_MAX */
    void (*progress)(void *context, uint64_t done, uint64_t all); /* bytes of weights; the caller's thread; or NULL */
    void *context;
    const volatile sig_atomic_t *stop; /* not 0: leave with ERR_CANCELLED; or NULL */
} write_options;

typedef struct { /* a small file of a directory */
    const char *name;
    span bytes;
} write_file;

/* One GGUF file. ERR_INVALID: `path` exists; ERR_LIMIT: the disk has too little room. */
status model_write_gguf(const model_plan *plan, const gguf_keys *keys, const char *path, const write_options *options,
                        error *err);
/* A directory: safetensors (with an index when there are several) and `files`. */
status model_write_directory(const model_plan *plan, const write_file *files, size_t file_count, const char *path,
                             const write_options *options, error *err);

/* The weights of a plan into its open files, data section of file f from starts[f] on. */
status model_write_weights(const model_plan *plan, const int *files, const uint64_t *starts,
                           const write_options *options, error *err);

/* The header of safetensors file `file`: length, JSON, blanks up to a multiple of 8. */
void safetensors_header(const model_plan *plan, uint32_t file, buf *out);
void safetensors_file_name(const model_plan *plan, uint32_t file, char out[64]);
/* model.safetensors.index.json */
void safetensors_index(const model_plan *plan, buf *out);

#endif
