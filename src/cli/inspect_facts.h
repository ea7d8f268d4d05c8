/* cli/inspect_facts.h: what is this model file, what does it need, and does Headway run it? Gathered from an open file;
 * spans borrow from it. The last question is answered by model_load itself, on a backend that keeps nothing. Main
 * thread. */
#ifndef HEADWAY_CLI_INSPECT_FACTS_H
#define HEADWAY_CLI_INSPECT_FACTS_H

#include "model/file/model_file.h"

enum { REASONS_MAX = 8 };

typedef struct {
    uint64_t tensors, bytes;
} type_share;

typedef struct { /* numbers are 0 and spans empty where the file does not say */
    span architecture, name, tokenizer_model, tokenizer_pre;
    const char *file_type; /* "Q4_K_M"; NULL: not said or not known */
    uint64_t parameters, layers, hidden, heads, kv_heads, head_dim, feed_forward, context, vocabulary, window, experts,
        experts_used;
    bool chat_template;
    type_share types[DT_COUNT];
    uint64_t weight_bytes;                  /* of all tensors, as stored */
    uint64_t kv_bytes_per_token;            /* f16, all layers that attend */
    uint64_t recurrent_layers, state_bytes; /* layers with a state instead, and what it takes of each sequence */
    uint64_t draft_layers, draft_tensors;   /* multi-token prediction: recognised, not loaded */
    uint64_t vision_tensors;                /* of a vision tower: recognised, not loaded */
    error reasons[REASONS_MAX];             /* why Headway does not run it; none: it does */
    uint32_t reason_count;
} inspect_facts;

void inspect_gather(inspect_facts *out, const model_file *file);

/* Weights, KV of that many tokens and one sequence's state. */
uint64_t inspect_memory(const inspect_facts *facts, uint64_t tokens);

#endif
