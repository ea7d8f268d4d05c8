/* load/samples.h: what was measured? One sample a request; times are microseconds of one monotonic clock. Filled by
 * load/replay, read by load/summary and the reports. The owner is whoever called samples_free; one thread. */
#ifndef HEADWAY_LOAD_SAMPLES_H
#define HEADWAY_LOAD_SAMPLES_H

#include "base/buf.h"
#include "base/error.h"
#include "load/answer.h"
#include "load/workload.h"

enum {
    SAMPLES_MAX = 200000,
    SAMPLE_TOKENS_MAX = 8 << 20, /* of all samples together */
    SAMPLE_TEXT_MAX = 1 << 20,   /* bytes of one answer */
    REASON_MAX = 96,
};

typedef enum {
    LOAD_RUNNING,
    LOAD_DONE,
    LOAD_REFUSED, /* 429 or 503 */
    LOAD_FAILED,  /* any other status, a broken stream, no connection */
    LOAD_CUT,     /* by us: the phase was over */
} load_outcome;

typedef struct {
    uint64_t at_us;
    uint32_t text_end; /* bytes of the sample's text that had come then */
} load_mark;

typedef struct {
    load_role role;
    uint32_t phase, session, turn;
    uint64_t intended_us; /* when the plan wanted it sent: time to first token counts from here */
    uint64_t sent_us, end_us;
    uint32_t wanted_prompt, wanted_output; /* tokens of the plan */
    load_outcome outcome;
    int http_status;         /* 0: none came */
    char reason[REASON_MAX]; /* of a refusal or failure; "" else */
    char message[160];       /* the server's words */
    uint32_t retry_after_s;
    load_usage usage;
    buf text;
    load_mark *marks; /* one for each delta with text */
    uint32_t mark_count, mark_capacity;
} load_sample;

typedef struct {
    load_sample *items;
    uint32_t count, capacity;
    uint64_t token_count;
    bool full; /* a limit was reached: later tokens or requests were not recorded */
} load_samples;

/* Index of a new zeroed sample; UINT32_MAX: no room. Pointers to samples do not outlive this call. */
uint32_t samples_add(load_samples *s);
void samples_token(load_samples *s, uint32_t index, uint64_t at_us, span text);
void samples_free(load_samples *s);

/* Output tokens of a sample: what usage says, else the deltas that came. */
uint32_t sample_output_tokens(const load_sample *s);
uint32_t sample_prompt_tokens(const load_sample *s); /* what usage says, else what the plan wanted */

#endif
