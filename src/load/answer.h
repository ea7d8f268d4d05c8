/* load/answer.h: what does a streamed answer of /v1/chat/completions or /v1/completions say? Text of every delta that
 * holds some (`content`, `reasoning_content`, `reasoning`, `text`), usage, finish reason, an error inside the stream.
 * Only fields that every OpenAI-compatible server sends. Zero-initialise, set the callback, answer_open, answer_free.
 * One thread. */
#ifndef HEADWAY_LOAD_ANSWER_H
#define HEADWAY_LOAD_ANSWER_H

#include <stdint.h>

#include "load/sse.h"

typedef struct {
    bool seen;
    uint32_t prompt_tokens, completion_tokens, cached_tokens;
} load_usage;

typedef struct {
    void (*on_text)(void *context, span text); /* one call for a delta: about one token */
    void *context;
    bool done;         /* [DONE] was seen */
    char finish[24];   /* "" until it came */
    char problem[160]; /* "" when all is well */
    load_usage usage;
    sse_parser sse; /* private */
} answer_stream;

void answer_open(answer_stream *a); /* once `a` lies where it stays */
void answer_push(answer_stream *a, span bytes);
void answer_free(answer_stream *a);

/* The reason in an error body {"error":{"code"|"type","message"}} as "code: message"; "" when there is none. */
void answer_error_reason(span body, char *reason, size_t reason_size, char *message, size_t message_size);

#endif
