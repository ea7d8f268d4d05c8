/* plan/catalogue_rows.h: private to the catalogue: how its tables are written. Constant data. */
#ifndef HEADWAY_PLAN_CATALOGUE_ROWS_H
#define HEADWAY_PLAN_CATALOGUE_ROWS_H

#include "plan/model_shape.h"

typedef struct {
    model_shape shape;
    const char *type, *source;
    double published; /* 0: no count was found */
    bool rounded;
} catalogue_row;

typedef struct {
    const catalogue_row *rows;
    size_t count;
} catalogue_table;

extern const catalogue_table catalogue_llama, catalogue_qwen, catalogue_others;

/* Layers that are all of one kind: `n` layers of attention. */
#define LAYERS(n) .layers = (n), .attention_layers = (n)
#define HEADS(q, kv, dim) .heads = (q), .kv_heads = (kv), .head_dim = (dim)
#define DENSE(n, width) .dense_layers = (n), .feed_forward = (width)
#define EXPERTS(n, used, width) .experts = (n), .experts_used = (used), .expert_feed_forward = (width)

#endif
