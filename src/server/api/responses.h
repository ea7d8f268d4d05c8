/* server/api/responses.h: OpenAI's Responses, of which nothing is kept: a request becomes the body of a chat
 * completion, the answer is written as output items. Handlers as route.handle wants them. */
#ifndef HEADWAY_SERVER_API_RESPONSES_H
#define HEADWAY_SERVER_API_RESPONSES_H

#include <jansson.h>

#include "server/exchange.h"

void responses_create(exchange *x); /* worker */

extern const answer_format responses_format;

/* The same request as a chat completion's, new; NULL: x->error names what is wrong, by its place in `body`. */
json_t *responses_to_chat(exchange *x, json_t *body);

#define REASONING_MARK "headway:" /* before a thought that travels as encrypted_content */

typedef struct {    /* exchange.own */
    buf echo;       /* what an answer repeats of its request: fields, ending in a comma */
    bool encrypted; /* thoughts are sent as encrypted_content too */
    uint32_t sequence;
} responses_state;

#endif
