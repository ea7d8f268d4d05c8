/* model/file/hf.h: private to model/file. A directory of Hugging Face or MLX, opened: its safetensors files, its
 * config.json, and what becomes of both: metadata in GGUF's encoding, tensors under GGUF's names. Invariant: whatever
 * is stored here was checked against the mapping; memory is proportional to the files. One thread opens; any may read
 * rows afterwards. */
#ifndef HEADWAY_MODEL_FILE_HF_H
#define HEADWAY_MODEL_FILE_HF_H

#include <jansson.h>

#include "base/buf.h"
#include "model/file/gguf.h"
#include "model/file/safetensors.h"

/* --- hf_dir.c --- */

typedef struct hf_block hf_block; /* memory that lives as long as the directory */

typedef enum { HF_LLAMA, HF_QWEN2, HF_QWEN3, HF_QWEN3MOE, HF_QWEN3NEXT, HF_QWEN35, HF_QWEN35MOE, HF_GEMMA3 } hf_family;

typedef struct {
    char *path;        /* of the directory */
    char *config_path; /* for messages */
    st_file *files;
    size_t file_count, file_capacity;
    st_tensor **all; /* of all files */
    size_t total;
    name_index names;
    json_t *config;             /* config.json */
    const json_t *text;         /* its text_config, or itself */
    const json_t *quantization; /* MLX's or the FP8 block's; NULL: none */
    bool mlx;                   /* quantization is MLX's */
    hf_family family;
    const char *arch; /* general.architecture */
    uint64_t layers, heads, kv_heads, head_dim, rotary, experts;
    uint64_t key_heads, value_heads, key_dim, value_dim; /* of linear attention */
    double rope_base;
    bool converted; /* MLX wrote it: norms hold their +1 already, conv1d is [C,4,1] */
    bool has_mtp, has_vision;
    const char *prefix; /* before "layers." in the files' names */
    hf_block *blocks;
    model_tensor *tensors;
    size_t tensor_count, tensor_capacity;
    buf metadata;
    uint32_t key_count;
} hf_dir;

status hf_dir_open(hf_dir *dir, const char *path, error *err); /* the caller closes it, also after an error */
void hf_dir_close(hf_dir *dir);
void *hf_alloc(hf_dir *dir, size_t size);                /* NULL: out of memory */
st_tensor *hf_find(const hf_dir *dir, const char *name); /* NULL: absent */
/* The text of DIR/name, at most `limit` bytes. ERR_NOT_FOUND: there is none. */
status hf_read_text(const hf_dir *dir, const char *name, size_t limit, buf *out, error *err);
status hf_read_json(const hf_dir *dir, const char *name, json_t **out, error *err);

/* --- hf_config.c: config.json and its companions to metadata; fills the numbers of `dir` --- */
status hf_read_config(hf_dir *dir, error *err);
/* Metadata as GGUF encodes it: header, keys; no tensors. */
status hf_finish_metadata(hf_dir *dir, error *err);
void hf_key_u64(hf_dir *dir, const char *key, uint64_t value);
void hf_key_f64(hf_dir *dir, const char *key, double value);
void hf_key_bool(hf_dir *dir, const char *key, bool value);
void hf_key_text(hf_dir *dir, const char *key, span value);
void hf_key_u64s(hf_dir *dir, const char *key, const uint64_t *values, size_t count);

/* --- hf_tensors.c: which tensor of the files is which of GGUF's --- */
status hf_bind_tensors(hf_dir *dir, error *err);

/* --- hf_matrix.c: how a matrix lies in the files --- */

typedef enum { FORM_COPY, FORM_FP8, MLX_AFFINE, MLX_MXFP4, MLX_MXFP8, MLX_NVFP4 } hf_form;

typedef struct { /* leading dimensions flattened into rows */
    hf_form form;
    dtype type; /* what its rows become */
    uint64_t rows, cols;
    const uint8_t *weight, *scales, *biases; /* rows side by side; scales and biases NULL where the form has none */
    size_t weight_row, scale_row;            /* bytes */
    st_dtype scale_dtype;
    uint32_t bits, group;            /* MLX */
    uint32_t block_rows, block_cols; /* FP8: of one scale; 0: no scale */
    uint32_t dims;
    uint64_t shape[SAFETENSORS_DIMS_MAX]; /* in elements */
} hf_matrix;

/* The matrix at module `path` ("model.layers.0.self_attn.q_proj"): PATH.weight, or PATH itself. ERR_NOT_FOUND: there is
 * none. Marks the tensors as used. */
status hf_matrix_find(hf_dir *dir, const char *path, hf_matrix *out, error *err);

/* --- hf_rows.c: rows in GGUF's order --- */

/* GGUF's rows [first, …) of one part are, from `offset` on, runs of `run` rows, the next `stride` further. */
typedef struct {
    uint64_t first, run, stride, offset;
} hf_segment;

enum { SEGMENTS_MAX = 3 };

typedef struct {
    const hf_matrix *parts; /* one, or one per expert */
    uint64_t part_rows;     /* rows of the GGUF tensor that come out of each */
    hf_segment segments[SEGMENTS_MAX];
    uint32_t segment_count;
    uint32_t half_head; /* llama: half the head; GGUF's row 2i + s of a head is the file's s * half + i */
} hf_source;

void hf_read_rows(const model_tensor *tensor, uint64_t first, uint64_t count, void *dst);
uint64_t hf_row_of(const hf_source *source, uint64_t row); /* row within its part's matrix; exposed for tests */
float hf_float_at(st_dtype dtype, const uint8_t *p);       /* F32, F16, BF16 */

/* --- mlx_blocks.c: one row of a quantized matrix as blocks of m->type --- */
void mlx_row_blocks(const hf_matrix *m, uint64_t row, uint8_t *dst);

#endif
