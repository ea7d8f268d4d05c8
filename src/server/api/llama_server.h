/* server/api/llama_server.h: llama.cpp's own endpoints, as far as local clients read them: /completion, /props, /slots.
 * Handlers as route.handle wants them. */
#ifndef HEADWAY_SERVER_API_LLAMA_SERVER_H
#define HEADWAY_SERVER_API_LLAMA_SERVER_H

#include "server/exchange.h"

void llama_server_completion(exchange *x); /* worker */
void llama_server_props(exchange *x);
void llama_server_slots(exchange *x);

extern const answer_format llama_server_format;

#endif
