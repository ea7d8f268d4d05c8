/* server/api/ollama.h: Ollama's dialect. A request is made into the OpenAI form and goes its way; only what is written
 * is Ollama's own: lines of JSON, durations in nanoseconds. Handlers as route.handle wants them. */
#ifndef HEADWAY_SERVER_API_OLLAMA_H
#define HEADWAY_SERVER_API_OLLAMA_H

#include "server/exchange.h"

void ollama_chat(exchange *x);     /* worker */
void ollama_generate(exchange *x); /* worker */
void ollama_tags(exchange *x);
void ollama_show(exchange *x); /* worker */
void ollama_ps(exchange *x);
void ollama_version(exchange *x);
void ollama_embed(exchange *x);

extern const answer_format ollama_chat_format, ollama_generate_format;

/* {"error":"…"} */
void ollama_write_error(const api_error *e, buf *out);
void ollama_write_time(buf *out, uint64_t unix_seconds); /* a JSON string */
/* The answer to a request that only wants the model loaded. */
void ollama_write_loaded(exchange *x);

#endif
