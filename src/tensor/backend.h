/* tensor/backend.h: one device and the operations a model needs of it.
 * Ops are enqueued in order on the backend's queue by one thread (the engine's); `wait` returns when all have run.
 * Buffers, weights and KV caches are opaque: host code never dereferences them, it uploads and downloads. A CPU backend
 * may run an op before the call returns. All activations are f32, row-major (rows, stride). Same bits: each output row
 * depends only on its own inputs, its position and the model; never on the number of rows, their order, the page ids or
 * the thread count. So every reduction has a fixed order per row: K in blocks of 32 ascending for matmul, KV in fixed
 * splits of ATTEND_SPLIT absolute positions for attention, experts by ascending id, recurrent state token by token. */
#ifndef HEADWAY_TENSOR_BACKEND_H
#define HEADWAY_TENSOR_BACKEND_H

#include "base/error.h"
#include "tensor/dtype.h"

enum { KV_PAGE_TOKENS = 32, ATTEND_SPLIT = 512, MATMUL_TARGETS_MAX = 4, WEIGHT_BAND_ROWS = 64 };
enum { EXPERTS_MAX = 1024, EXPERTS_USED_MAX = 32, CONV_TAPS_MAX = 8 };

typedef struct backend backend;
typedef struct buffer buffer;           /* device memory */
typedef struct weight weight;           /* a matrix [rows, cols], or a stack of them, packed for the device's kernels */
typedef struct kv_cache kv_cache;       /* paged K and V of all layers */
typedef struct state_cache state_cache; /* fixed-size recurrent state of sequence slots, f32 */

typedef struct {
    buffer *buf;
    size_t offset; /* in floats */
    size_t stride; /* floats from one row to the next */
} view;

typedef struct {
    const weight *w;    /* out[r][n] = sum_k w[n][k] * x[r][k] */
    view out;           /* (rows, w.rows) */
    const buffer *bias; /* w.rows floats, or NULL */
    bool add;           /* out += instead of out = (residual) */
} matmul_target;

typedef struct {
    view x; /* (rows, cols) */
    uint32_t rows;
    uint32_t target_count; /* 1..MATMUL_TARGETS_MAX, all with the same cols: x is quantized once */
    matmul_target targets[MATMUL_TARGETS_MAX];
} matmul_args;

typedef struct {
    const weight *table;
    const int32_t *ids; /* host memory, copied by the call; each < table.rows */
    uint32_t rows;
    float scale; /* multiplies the row; 1 for most */
    view out;    /* (rows, cols) */
} get_rows_args;

typedef struct {
    view x, out;                /* (rows, groups * dim); may be the same */
    uint32_t rows, groups, dim; /* each group of dim floats is normalised alone (heads); groups 1 for a plain norm */
    const buffer *weight;       /* dim floats */
    float eps;
} rms_norm_args;

typedef struct {
    view x;                                 /* (rows, heads * head_dim), in place */
    uint32_t rows, heads, head_dim, rotary; /* the first `rotary` channels of each head turn */
    bool interleaved;                       /* pairs (2i, 2i+1), else (i, i + rotary/2) */
    const float *inv_freq;                  /* host, rotary/2 floats, lives as long as the model */
    float factor;                           /* multiplies cos and sin (yarn); 1 for most */
    const uint32_t *positions;              /* host, rows, copied by the call */
} rope_args;

typedef struct { /* consecutive rows of one sequence */
    const uint32_t
        *pages;        /* page of position p is pages[p / KV_PAGE_TOKENS]; host memory, valid until the op has run */
    uint32_t position; /* of the first row */
    uint32_t row_start, row_count;
} kv_segment;

typedef struct {
    kv_cache *cache;
    uint32_t layer;
    view k, v; /* (rows, kv_heads * head_dim), after norm and rope */
    const kv_segment *segments;
    uint32_t segment_count;
} kv_write_args;

typedef struct {
    kv_cache *cache;
    uint32_t layer;
    view q, out; /* (rows, heads * head_dim) */
    uint32_t heads;
    const kv_segment *segments;
    uint32_t segment_count;
    float scale;
    float softcap;   /* 0: none; else c * tanh(s / c) */
    uint32_t window; /* 0: all; else row at p sees keys in (p - window, p] */
} attend_args;

typedef enum { ACT_SILU, ACT_GELU_TANH } activation;
typedef struct {
    view gate, up, out; /* out = act(gate) * up; may alias gate */
    uint32_t rows, dim;
    activation act;
} act_mul_args;

typedef struct {
    view x, out; /* out += x */
    uint32_t rows, dim;
} add_args;

typedef struct {
    view x, gate; /* x *= sigmoid(gate), in place; gate (rows, dim), or one float a row */
    uint32_t rows, dim;
    bool per_row;
} sigmoid_mul_args;

typedef struct { /* p = softmax(logits); picks: ids of the `used` largest p (ties: the lower id), ascending, then their
                    p */
    view logits, picks; /* (rows, experts), (rows, 2 * used) */
    uint32_t rows, experts, used;
    bool normalize; /* the used p are divided by their sum */
} route_args;

typedef struct { /* out += p_e * expert_e(x), e ascending, of a row's picks in [first, end) */
    view x, out; /* (rows, cols) */
    view picks;  /* route's */
    uint32_t rows, used, first, end;
    const weight *gate, *up, *down; /* stacks: expert(x) = down (act(gate x) * (up x)); gate and up of one type */
    activation act;
    uint8_t *touched; /* host, one byte per expert, NULL allowed: set to 1 where a row uses it; to be read after wait */
} experts_args;

typedef struct { /* consecutive rows of one sequence; at position 0 its state is zero, whatever the slot holds */
    uint32_t slot, position, row_start, row_count;
} state_segment;

typedef struct {           /* a layer's state as it is after a row, into pages */
    uint32_t row;          /* of the op's rows */
    const uint32_t *pages; /* state_save's; host memory, valid until the op has run */
} state_copy;

/* Gated DeltaNet (models.md B.4): convolution and SiLU over qkv, q and k to unit length, then token by token for value
 * head h: S = e^g S; d = beta (v - S' k); S += k d'; o = S' q / sqrt(key_dim), g = decay_h softplus(a_h + dt_h), beta =
 * sigmoid(b_h); out = rms(o; norm) * silu(z). */
typedef struct {
    state_cache *cache;
    uint32_t layer;     /* of the state cache */
    view qkv;           /* (rows, key_heads * key_dim twice, then value_heads * value_dim); what it holds is lost */
    view z, out;        /* (rows, value_heads * value_dim) */
    view a, b;          /* (rows, value_heads) */
    const buffer *conv; /* (taps, channels): the last tap meets the row itself */
    const buffer *dt, *decay, *norm; /* value_heads, value_heads, value_dim */
    bool grouped;                    /* value head h has key head h / (value_heads / key_heads), else h % key_heads */
    float eps;                       /* of the norm */
    const state_segment *segments;
    uint32_t segment_count;
    kv_cache *copy_pages;     /* where the copies' pages are; NULL without copies */
    const state_copy *copies; /* ascending; each row once. All layers' copies together are what state_save writes. */
    uint32_t copy_count;
} delta_args;

typedef struct {
    uint32_t layers, slots, key_heads, value_heads, key_dim, value_dim, taps;
} state_config;

/* How keys and values are stored. q8, q4: codes with one scale per token, head and up to KV_SCALE_CHANNELS channels,
 * keys and values apart. */
typedef enum { KV_F16, KV_BF16, KV_Q8, KV_Q4, KV_F32, KV_TYPES } kv_type;
enum { KV_SCALE_CHANNELS = 64 };

typedef struct {
    uint32_t layers, kv_heads, head_dim, page_count; /* pages of KV_PAGE_TOKENS tokens */
    bool exact; /* attention in f32 even where the device has a faster form: for models whose weights are floats */
    kv_type type;
} kv_cache_config;

typedef struct {
    uint32_t threads;    /* 0: the machine's */
    const char *kernels; /* NULL: best; "generic", "avx2", "avx512", "avx512bf16", "neon" */
} backend_config;

typedef struct backend_ops {
    const char *name;                                                    /* "cpu" */
    status (*buffer_create)(backend *self, size_t floats, buffer **out); /* zeroed */
    void (*buffer_destroy)(backend *self, buffer *b);                    /* NULL allowed */
    void (*upload)(backend *self, buffer *b, size_t offset, const float *src, size_t floats);
    void (*download)(backend *self, const buffer *b, size_t offset, float *dst, size_t floats); /* waits */
    /* `raw`: rows * row_bytes of `type` in file order, only read during the call. NULL: weight_fill brings the rows. */
    status (*weight_create)(backend *self, dtype type, uint32_t rows, uint32_t cols, const void *raw, weight **out,
                            error *err);
    /* Rows [first, first + rows) of a weight that was created without any; first is a multiple of WEIGHT_BAND_ROWS, and
     * so is rows but for the last. So a caller need not hold all of a large matrix twice. */
    void (*weight_fill)(backend *self, weight *w, uint32_t first, uint32_t rows, const void *raw);
    /* `stack` matrices of rows x cols. weight_fill numbers their rows through (matrix e has [e * rows, (e + 1) *
     * rows)), a band stays within one matrix and begins at a multiple of WEIGHT_BAND_ROWS of it. For experts_args only.
     */
    status (*stack_create)(backend *self, dtype type, uint32_t stack, uint32_t rows, uint32_t cols, weight **out,
                           error *err);
    void (*weight_destroy)(backend *self, weight *w);
    size_t (*weight_bytes)(const weight *w); /* device bytes, of all matrices: what one step reads of it */
    status (*kv_create)(backend *self, const kv_cache_config *config, kv_cache **out, error *err);
    void (*kv_destroy)(backend *self, kv_cache *cache);
    size_t (*kv_page_bytes)(const kv_cache_config *config); /* of one page, all layers */
    status (*state_create)(backend *self, const state_config *config, state_cache **out, error *err);
    void (*state_destroy)(backend *self, state_cache *cache); /* NULL allowed */
    size_t (*state_bytes)(const state_config *config);        /* of one slot, all layers */
    /* A slot's state into and out of as many pages of a KV cache as it takes, which hold nothing else; the last one's
     * rest is zeroed. Waits. */
    void (*state_save)(backend *self, const state_cache *states, uint32_t slot, kv_cache *cache, const uint32_t *pages);
    void (*state_load)(backend *self, state_cache *states, uint32_t slot, const kv_cache *cache, const uint32_t *pages);
    /* A page's bytes, kv_page_bytes in all, layer after layer; any thread, while no op uses the page. The first: where
     * they lie in host memory, NULL where they do not. */
    void *(*kv_page_at)(backend *self, const kv_cache *cache, uint32_t page);
    void (*kv_page_read)(backend *self, const kv_cache *cache, uint32_t page, size_t offset, size_t bytes, void *dst);
    void (*kv_page_write)(backend *self, kv_cache *cache, uint32_t page, size_t offset, size_t bytes, const void *src);
    /* Memory for pages [first, first + count) that will be needed soon; changes no byte. Any thread, any time. */
    void (*kv_pages_touch)(backend *self, kv_cache *cache, uint32_t first, uint32_t count);

    void (*matmul)(backend *self, const matmul_args *a);
    void (*get_rows)(backend *self, const get_rows_args *a);
    void (*rms_norm)(backend *self, const rms_norm_args *a);
    void (*rope)(backend *self, const rope_args *a);
    void (*kv_write)(backend *self, const kv_write_args *a);
    void (*attend)(backend *self, const attend_args *a);
    void (*act_mul)(backend *self, const act_mul_args *a);
    void (*add)(backend *self, const add_args *a);
    void (*sigmoid_mul)(backend *self, const sigmoid_mul_args *a);
    void (*route)(backend *self, const route_args *a);
    void (*experts)(backend *self, const experts_args *a);
    void (*delta)(backend *self, const delta_args *a);
    void (*wait)(backend *self);
    void (*step_begin)(backend *self);                /* workers wake and spin between ops of a step */
    void (*step_end)(backend *self);                  /* workers sleep */
    double (*read_roof)(backend *self, size_t bytes); /* measured bytes/s of reading a buffer of that size */
    void (*close)(backend *self);
} backend_ops;

struct backend {
    const backend_ops *ops;
    const char *kernels; /* which table runs: "avx512" */
    uint32_t threads;
};

status cpu_backend_open(backend **out, const backend_config *config, error *err);

#endif
