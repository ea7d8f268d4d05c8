/* load/sse.h: which events are in these bytes of a text/event-stream? Bytes may be cut anywhere; lines end in LF, CR or
 * CRLF; several data lines of one event are joined by newlines; comments and other fields are skipped. Zero-initialise,
 * set the callback; sse_free. An event over SSE_EVENT_MAX sets `failed`. One thread. */
#ifndef HEADWAY_LOAD_SSE_H
#define HEADWAY_LOAD_SSE_H

#include "base/buf.h"

enum { SSE_EVENT_MAX = 1 << 20 }; /* bytes */

typedef struct {
    void (*on_event)(void *context, span data); /* `data` is valid during the call */
    void *context;
    bool failed;
    buf line, data; /* private */
    bool after_cr;
} sse_parser;

void sse_push(sse_parser *p, span bytes);
void sse_free(sse_parser *p);

#endif
