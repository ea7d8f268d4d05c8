/* runner/model_runner.h: carries step plans out with a real model. Owns backend, model, KV pool and samplers.
 * Same contract and thread as sched/runner.h. */
#ifndef HEADWAY_RUNNER_MODEL_RUNNER_H
#define HEADWAY_RUNNER_MODEL_RUNNER_H

#include "model/model.h"
#include "runner/cache_plan.h"
#include "sched/runner.h"

typedef struct {
    uint32_t threads;      /* 0: the machine's */
    uint32_t context;      /* tokens a sequence may hold; 0: what fits, at most the model's */
    uint32_t sequences;    /* streams at once; 0: DEFAULT_SEQUENCES */
    uint64_t kv_memory;    /* bytes of the page pool; 0: what fits */
    cache_wish cache;      /* idle prefixes that the pool holds beside the running streams, where kv_memory is 0 */
    kv_type kv_stored;     /* how keys and values are stored */
    bool kv_by_weights;    /* kv_stored is f32 where all weights of the layers are, else f16 */
    const char *kernels;   /* HEADWAY_CPU; NULL: best */
    uint32_t vocab_limit;  /* ids the tokenizer knows; 0: all rows */
    uint32_t chunk_tokens; /* rows of the largest chunk; 0: DEFAULT_CHUNK */
    load_progress progress;
} model_runner_config;

enum { DEFAULT_SEQUENCES = 16, DEFAULT_CHUNK = 2048, OPEN_CHUNKS = 4, MAX_ROWS = 64 };

/* `file` may be closed afterwards. `plan_text` gets one line that says what memory was planned and why. */
status model_runner_open(runner **out, const model_file *file, const model_runner_config *config, char *plan_text,
                         size_t plan_size, error *err);
const model *model_runner_model(const runner *r);

/* For tests and tools: called with every sampled row's logits before the sampler changes them; NULL: off. */
typedef void (*logits_tap)(void *context, uint32_t seq, uint32_t position, const float *logits, uint32_t vocab);
void model_runner_tap(runner *r, logits_tap tap, void *context);

#endif
