/* sched/step_plan.h: what shall the device do next? Filled by the scheduler, carried out by a runner; lives on the
 * engine thread for one step. Pointers borrow the engine's per-sequence tables and stay valid until run returns. */
#ifndef HEADWAY_SCHED_STEP_PLAN_H
#define HEADWAY_SCHED_STEP_PLAN_H

#include "sched/request.h"

typedef enum { STEP_IDLE, STEP_DECODE, STEP_PREFILL, STEP_FUSED } step_kind;

typedef struct {           /* one token of one stream through all layers; the next token is sampled */
    uint32_t seq;          /* sequence slot: < runner_info.max_sequences */
    const uint32_t *pages; /* covers position */
    uint32_t position;     /* where `token` goes: KV holds [0, position) */
    int32_t token;         /* the input token */
} decode_row;

typedef struct { /* the recurrent state as it is after tokens [0, position) of the sequence, into pages of the pool */
    uint32_t position;
    const uint32_t *pages; /* runner_info.state_pages */
} state_capture;

enum { CAPTURES_MAX = 8 }; /* of one chunk */

typedef struct { /* a run of prompt tokens; the cursor inside it is the runner's */
    uint32_t seq;
    const uint32_t *pages; /* covers position + token_count - 1 */
    uint32_t position;     /* of tokens[0] */
    const int32_t *tokens;
    uint32_t token_count; /* <= runner_info.max_chunk_tokens */
    bool sample;          /* last chunk of the prompt: sample the first token after its last row */
    uint32_t chunk_slot;  /* < runner_info.max_open_chunks: where the unfinished chunk's activations live */
    /* Taken on the way, ascending, each in (position, position + token_count]; whole when the chunk is done. */
    const state_capture *captures;
    uint32_t capture_count; /* <= CAPTURES_MAX; 0 where no state is kept */
    /* KV of the tokens before the chunk is still coming: parts [0, *parts_ready) of its pages (kv/page_mover.h) are in
     * place. NULL: all of it is, from now on. A fused step leaves the chunk out, stalled, while a part is missing. */
    const _Atomic uint32_t *parts_ready;
} prefill_chunk;

typedef struct {
    step_kind kind;
    const decode_row *rows; /* STEP_DECODE, STEP_FUSED */
    uint32_t row_count;     /* <= runner_info.max_rows */
    prefill_chunk chunk;    /* STEP_PREFILL, STEP_FUSED */
    uint64_t deadline_us;   /* STEP_PREFILL: stop at the first row block after this; 0: run to the chunk's end */
} step_plan;

typedef struct {
    int32_t token;
    float logprob; /* when logprobs were asked for */
    uint32_t top_count;
    int32_t top_tokens[LOGPROBS_MAX];
    float top_logprobs[LOGPROBS_MAX];
    uint32_t seq;
} sampled_token;

typedef struct {
    sampled_token
        *tokens; /* capacity max_rows + 1, given by the engine: rows in order, then the chunk's (if sample and done) */
    uint32_t token_count;
    bool chunk_done;
    bool stalled;      /* the chunk needs a part of the KV that has not come: parts_ready has to grow first */
    double chunk_part; /* how much of the chunk's work is done now, 0 to 1; 1 with chunk_done */
    uint64_t bytes;    /* useful bytes touched: weights + KV + state, exact */
    uint64_t weight_bytes, kv_bytes;
} step_result;

#endif
