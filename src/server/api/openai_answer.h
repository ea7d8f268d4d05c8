/* server/api/openai_answer.h: what the two OpenAI generation endpoints write alike: an envelope with choices, usage and
 * timings. A dialect calls these from the functions of its answer_format. Loop thread. */
#ifndef HEADWAY_SERVER_API_OPENAI_ANSWER_H
#define HEADWAY_SERVER_API_OPENAI_ANSWER_H

#include "server/exchange.h"

typedef struct {
    const char *object, *chunk_object;
    /* One choice of a chunk: g->pieces, or (finish != NULL) its end. Uses and clears g's log-probabilities. */
    void (*chunk_choice)(buf *out, const exchange *x, generation *g, const char *finish);
    void (*full_choice)(buf *out, const exchange *x, generation *g);
} openai_shape;

void openai_begin(exchange *x, const openai_shape *shape); /* fills x->prefix */
void openai_chunk(buf *out, exchange *x, generation *g, const openai_shape *shape, const char *finish);
void openai_end(buf *out, exchange *x);
void openai_whole(buf *out, exchange *x, const openai_shape *shape);
void openai_progress(buf *out, exchange *x, const generation *g, const engine_event *event);
void openai_timings(buf *out, const generation *g); /* "timings":{…} */
void openai_failed(buf *out, exchange *x, generation *g);

#endif
