/* server/debug/debug.h: what is this server doing right now? Handlers of /debug/steps, /debug/state and /debug/curves,
 * the JSON behind the dashboard. Shapes: docs/operating.md. Bounded answers: at most STEPS_MAX records, STREAMS_MAX
 * streams, CURVES_BYTES_MAX bytes. */
#ifndef HEADWAY_SERVER_DEBUG_DEBUG_H
#define HEADWAY_SERVER_DEBUG_DEBUG_H

#include "server/exchange.h"

enum { STEPS_MAX = 4096, STREAMS_MAX = 256, CURVES_BYTES_MAX = 4 << 20 };

void debug_steps(exchange *x);  /* loop thread */
void debug_state(exchange *x);  /* loop thread */
void debug_curves(exchange *x); /* worker: it reads a file */

/* Private to the room: ,"cache":{...}. `now_us`: of the engine's clock. */
void debug_write_cache(buf *out, const exchange *x, uint64_t now_us);

#endif
