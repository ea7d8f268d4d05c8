/* model/model.h: a model's numbers and weights, bound to a backend, and the batch that moves through its layers.
 * The architecture files (arch/) bind names to weights and say what one op of one layer does to a block of rows;
 * everything else (cursor, yields, sampling) is common. A model is immutable after model_load. A batch belongs to the
 * engine thread. */
#ifndef HEADWAY_MODEL_MODEL_H
#define HEADWAY_MODEL_MODEL_H

#include "model/file/model_file.h"
#include "tensor/backend.h"

typedef struct model model;
typedef struct batch batch;

typedef struct {     /* rotary embedding of one kind of layer: models.md 1.1 */
    float *inv_freq; /* rotary / 2 */
    float factor;    /* multiplies cos and sin */
} rope_table;

typedef struct {
    uint32_t layers, hidden, heads, kv_heads, head_dim, ffn, vocab, context;
    uint32_t rotary;  /* channels of a head that turn */
    bool interleaved; /* GGUF `llama` rotates adjacent pairs */
    float rms_eps, attend_scale, embed_scale;
    float attend_softcap, final_softcap; /* 0: none */
    uint32_t window;                     /* of sliding layers; 0: no layer slides */
    uint32_t window_pattern;             /* every n-th layer is full */
    activation act;
    bool quantized; /* a layer's weight has fewer than 16 bits: attention may be less than exact too */
    bool halved;    /* a layer's weight has fewer than 32 bits */
    uint32_t experts, experts_used, expert_ffn, shared_ffn;    /* 0: none */
    bool experts_normalize;                                    /* the used experts' shares add up to 1 */
    uint32_t kv_layers, state_layers;                          /* which keep keys and values, which a recurrent state */
    uint32_t taps, key_heads, value_heads, key_dim, value_dim; /* of layers with a state */
    bool value_heads_grouped;                                  /* value head h has key head h / (value / key heads) */
    uint32_t draft_layers; /* of multi-token prediction, at the end of the file: not loaded */
} model_config;

typedef struct { /* NULL where the architecture has none */
    buffer *attn_norm, *q_norm, *k_norm, *q_bias, *k_bias, *v_bias, *o_bias, *attn_post_norm, *ffn_norm, *ffn_post_norm;
    weight *q, *k, *v, *o, *gate, *up, *down;   /* gate, up, down: the shared expert where there are experts */
    weight *q_gate;                             /* sigmoid of it times what attention gives, before o */
    weight *qkv, *z, *alpha, *beta, *state_out; /* gated delta: models.md B.4 */
    buffer *conv, *dt, *decay, *state_norm;
    weight *router, *shared_gate, *expert_gate, *expert_up, *expert_down;
    uint32_t cache_layer; /* of the KV cache, or of the state cache when recurrent */
    bool sliding, recurrent;
} layer_weights;

typedef struct {       /* one family; a new one is a new file and a line in arch.c */
    const char *name;  /* general.architecture */
    uint32_t op_count; /* ops of a layer; a chunk may stop after any of them */
    status (*configure)(model *m, const model_file *file, error *err); /* what differs from the defaults of arch.c */
    status (*bind)(model *m, const model_file *file, uint32_t layer, error *err);
    void (*run_op)(const model *m, batch *b, uint32_t layer, uint32_t op, uint32_t row_start, uint32_t row_count);
    /* Read once per batch, whatever its rows; routed experts are not in it. */
    uint64_t (*op_weight_bytes)(const model *m, uint32_t layer, uint32_t op);
} arch_ops;

struct model {
    const arch_ops *arch;
    backend *device;
    model_config config;
    layer_weights *layers;
    weight *embed, *head; /* head == embed when tied */
    buffer *final_norm;
    rope_table rope, rope_local;     /* local: sliding layers of gemma3 */
    kv_type kv_stored;               /* of the caches that it is used with; KV_F16 unless set before the first */
    uint32_t row_block;              /* rows that one op works on between two looks at the yield flag */
    double slice_bytes, slice_flops; /* at most what one step of EXPERTS_OP reads and computes */
    uint64_t weight_bytes;           /* device bytes that one decode row reads: of routed experts those it uses */
    uint64_t resident_bytes;         /* of all weights */
    struct {                         /* a block of rows each; contents do not outlive an op; NULL where unused */
        buffer *norm, *q, *k, *v, *att, *gate, *up, *proj, *q_gate, *qkv, *z, *alpha, *beta, *router,
            *shared_gate; /* no EXPERTS_OP uses one */
    } work;
};

enum { MIXER_OP, FFN_OP, EXPERTS_OP }; /* ops of a layer; the last only in families that route */

typedef struct {
    void (*report)(void *context, const char *what, double fraction); /* may be NULL */
    void *context;
} load_progress;

/* Binds and packs every weight of `file` (which may be closed afterwards). `err` names key or tensor. */
status model_load(model **out, const model_file *file, backend *device, const load_progress *progress, error *err);
void model_free(model *m); /* NULL is allowed */
const arch_ops *arch_find(span name);
const char *arch_names(void); /* of all that there are: "llama, qwen2, ..." */
kv_cache_config model_kv_config(const model *m, uint32_t page_count);
state_config model_state_config(const model *m, uint32_t slots); /* layers 0: the model keeps no state */
uint64_t model_expert_bytes(const model *m, uint32_t layer);     /* of one routed expert; 0: the layer has none */

typedef struct { /* consecutive tokens of one sequence in a batch */
    const uint32_t *pages;
    const int32_t *tokens;
    uint32_t slot; /* of the state cache */
    uint32_t position, row_start, row_count;
} batch_segment;

enum { BATCH_COPIES_MAX = 8 };

struct batch {
    buffer *x;                 /* (row_capacity, hidden): the residual stream; lives across yields */
    buffer *expert_in, *picks; /* (row_capacity, hidden), (row_capacity, 2 * experts_used): from FFN_OP to EXPERTS_OP */
    uint32_t row_capacity, segment_capacity;
    uint32_t rows, segment_count;
    batch_segment *segments;
    kv_cache *cache;
    state_cache *states;                     /* NULL when the model keeps none */
    uint32_t layer, op, row;                 /* the cursor: the next thing to run */
    bool embedded;                           /* rows of x hold embeddings */
    uint64_t weight_bytes, kv_bytes;         /* useful bytes of the ops run since batch_start; kv: with states */
    int32_t *ids;                            /* scratch, row_capacity */
    uint32_t *positions;                     /* scratch, a block of rows */
    kv_segment *slice;                       /* scratch, segment_capacity */
    state_segment *state_slice;              /* scratch, segment_capacity; the same segments */
    state_copy copies[BATCH_COPIES_MAX];     /* of the state, to be taken on the way: batch_copy_state */
    state_copy copy_slice[BATCH_COPIES_MAX]; /* scratch: those of a block of rows */
    uint32_t copy_count;
    uint8_t touched[EXPERTS_MAX]; /* experts of the cursor's layer that a row has used */
};

status batch_create(batch **out, const model *m, uint32_t row_capacity, uint32_t segment_capacity, error *err);
void batch_destroy(const model *m, batch *b);
void batch_start(batch *b, kv_cache *cache, state_cache *states); /* empty, cursor at the beginning */
/* A sequence's tokens; its state, where the model keeps one, is that of `slot` at `position` (zero at position 0) and
 * moves on with the cursor: a batch that is given up leaves it undefined. */
void batch_add(batch *b, uint32_t slot, const uint32_t *pages, uint32_t position, const int32_t *tokens,
               uint32_t count);
/* Pages get the state of the row's sequence as it is after the row; whole once the batch is done. Rows ascend. */
void batch_copy_state(batch *b, uint32_t row, const uint32_t *pages);

/* Advances the cursor by one op of one block of rows (of EXPERTS_OP: some experts of all rows); true when all layers
 * are done. */
bool batch_advance(const model *m, batch *b);

/* Logits of `count` (<= HEAD_ROWS) rows of a finished batch into host memory (count, vocab). */
enum { HEAD_ROWS = 32 };
typedef struct {
    buffer *norm, *logits;
} head_scratch;
status head_create(head_scratch *h, const model *m, error *err);
void head_destroy(const model *m, head_scratch *h);
void head_logits(const model *m, const head_scratch *h, const batch *b, const uint32_t *rows, uint32_t count,
                 float *logits);

#endif
