/* server/debug/trace_stream.h: GET /debug/trace?seconds=N: what the engine does from now on, written as it happens. The
 * exchange owns its stream; a client that reads too slowly loses records and is told how many. Loop thread. */
#ifndef HEADWAY_SERVER_DEBUG_TRACE_STREAM_H
#define HEADWAY_SERVER_DEBUG_TRACE_STREAM_H

#include "server/exchange.h"

typedef struct trace_stream trace_stream;

enum { TRACE_SECONDS_MAX = 60, TRACE_STREAMS_MAX = 4 };

void debug_trace(exchange *x); /* a handler: refuses, or begins the stream and leaves x->tracing */
/* Writes what there is while the client takes it; ends the answer when its time is over or the server drains. */
void trace_stream_flush(exchange *x, uint64_t now_us);
void trace_stream_destroy(trace_stream *t); /* NULL is allowed */

#endif
