/* server/api/messages.h: chat messages as clients send them, made into what templates expect: null fields dropped,
 * reasoning under both names, tool arguments as objects, text parts joined where the template wants strings; and the
 * rendered, tokenized prompt. Worker thread. */
#ifndef HEADWAY_SERVER_API_MESSAGES_H
#define HEADWAY_SERVER_API_MESSAGES_H

#include <jansson.h>

#include "server/exchange.h"

/* `body` holds messages and perhaps tools, documents, chat_template_kwargs, add_generation_prompt. Fills `out`. False:
 * x->error is set. */
bool messages_tokenize(exchange *x, json_t *body, token_list *out);

/* Does the template print text parts itself? Asked by rendering one, at start-up. */
bool messages_template_takes_parts(const chat_template *t);

#endif
