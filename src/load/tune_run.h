/* load/tune_run.h: what do a chat and a document do to each other under one policy and setting? Runs the engine that
 * serves, in this process and without a thread of its own: one chat decodes, then a document arrives, and the events
 * tell both sides. Main thread; nobody else uses the runner. */
#ifndef HEADWAY_LOAD_TUNE_RUN_H
#define HEADWAY_LOAD_TUNE_RUN_H

#include "load/tune.h"
#include "engine/engine.h"

typedef struct {
    runner *runner;
    hw_clock *clock;
    const char *policy;
    schedule_settings schedule;
    uint32_t chat_tokens, document_tokens; /* of the prompts; 0: without */
    uint64_t alone_us; /* what the document takes alone; 0: not known, then nothing ends the run before its end */
    uint64_t chat_us;  /* without a document: how long the chat is watched */
    uint64_t seed;     /* of the prompts' random ids: another one for each run */
} tune_load;

/* ERR_LIMIT: the engine refuses these settings on this box, err->text says why; ERR_IO: the run failed. */
status tune_run(const tune_load *load, tune_sample *out, error *err);

/* The bound that `schedule` comes to on this box, and the smallest that can be kept. ERR_LIMIT as above. */
status tune_resolve_gap(const tune_load *load, uint64_t *gap_us, uint64_t *smallest_us, error *err);

#endif
