/* sim/sim_runner.h: a runner without weights: steps take the time that a few numbers say, tokens are words made up from
 * what was read. The vocabulary is sim/byte_vocab.h. What it says depends on all that the sequence holds, read back
 * through its page table, and on nothing else: a wrong page, a part of one that is another's, a lost token, a chunk fed
 * twice or a recurrent state that is not the sequence's changes the text. Neither layout, nor chunks, nor what was
 * restored instead of computed does.
 * Sampling parameters are ignored but for logprobs (made up) and the seed (with temperature > 0). It checks each plan
 * against the contract of sched/runner.h and fails the step when one is broken. Time comes from the clock given to run:
 * real, or virtual in tests. */
#ifndef HEADWAY_SIM_SIM_RUNNER_H
#define HEADWAY_SIM_SIM_RUNNER_H

#include "sched/runner.h"
#include "sim/costs.h"

enum { SIM_WORD = 6 }; /* tokens: five letters and a space */

typedef struct { /* who decides what is said; calls come on the engine thread */
    void *self;
    void (*open)(void *self, uint32_t seq, const sequence_start *start);
    /* Token number `index` of the reply; `state`: a hash of all tokens up to the last multiple of SIM_WORD of the
     * reply (light: of that multiple alone). */
    int32_t (*token)(void *self, uint32_t seq, uint32_t index, uint64_t state);
    void (*close)(void *self); /* may be NULL */
} sim_voice;

typedef struct {                 /* a 0 means the default in brackets */
    const char *model_name;      /* ["sim"] */
    double prefill_tokens_per_s; /* [20000] */
    uint64_t decode_base_us;     /* [2000] of a decode step */
    uint64_t decode_row_us;      /* [5] and for each row */
    uint32_t reply_tokens;       /* [128] then <|im_end|> comes */
    uint32_t context_length;     /* [8192] */
    uint32_t page_tokens;        /* [16] */
    uint32_t page_count;         /* [enough for 64 full contexts] */
    uint32_t max_sequences;      /* [1024] */
    uint32_t max_rows;           /* [max_sequences] */
    uint32_t max_chunk_tokens;   /* [512] */
    uint32_t block_tokens;       /* [64] of a prefill between two looks at yield and deadline */
    uint64_t weight_bytes;       /* [100 MB] said to be read by each step */
    uint64_t kv_token_bytes;     /* [20 KB] said to be read for each token of context */
    uint32_t parts;              /* [2] of a page: kv/page_mover.h */
    uint64_t state_bytes;        /* [0] said to be the size of a recurrent state; > 0: one is kept */
    uint32_t state_pages;        /* [as many as it needs] that hold it */
    bool copies; /* a sequence may go on inside a copied page (page_copy), as the real models do; where states
                    are kept it always may */
    const sim_voice *voice; /* [made-up words]; copied */
    /* [none]; copied. Then times and bytes come from them instead of from the numbers above (but a state's and KV's
     * bytes where they have none), parts of a microsecond are carried over to the next step, and a prefill stops at the
     * first of the chunk's units (costs.h) after deadline, yield or interrupt. A clock that is not the real one is
     * slept once up to there. Defaults: max_chunk_tokens 2048, state_pages as many as KV of that size takes. */
    const sim_costs *costs;
    /* For speed: no page memory (no mover), words from the sequence's seed and the token's number only, and checks of a
     * plan that do not grow with its tokens. Steps, their times and their bytes are those of the full runner. */
    bool light;
} sim_config;

status sim_runner_create(runner **out, const sim_config *config, error *err); /* closed with ops->close */

/* On a virtual clock nobody else is there to yield: a prefill with costs that runs past this time stops as if yield had
 * been called then. It stays until set again; a time that has passed when a run begins does nothing, 0 neither. The
 * thread that runs it. */
void sim_runner_interrupt_at(runner *r, uint64_t time_us);

/* "sim", "sim:key=value,..." (keys: the numbers of sim_config but weight_bytes and
 * kv_token_bytes) or
 * "script:FILE" (see sim/script_runner.h). `base` gives the values that `spec` does not; NULL: defaults. ERR_NOT_FOUND:
 * some other runner. */
status sim_runner_open(runner **out, const char *spec, const sim_config *base, error *err);

#endif
