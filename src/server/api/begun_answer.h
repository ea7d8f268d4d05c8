/* server/api/begun_answer.h: an answer that the client has begun. The last message, the assistant's, is taken off the
 * conversation; its text goes behind what the template opens an answer with, and the model goes on from there. What the
 * client wrote is no part of what it gets. Worker thread. */
#ifndef HEADWAY_SERVER_API_BEGUN_ANSWER_H
#define HEADWAY_SERVER_API_BEGUN_ANSWER_H

#include <jansson.h>

#include "server/exchange.h"
#include "text/chat_template.h"

/* `body` says by continue_final_message whether it is so; then the last of `messages` is taken off, and *out is its
 * text, new; else *out is NULL. x->plan has been read. False: x->error is set. */
bool begun_answer_take(exchange *x, json_t *body, json_t *messages, json_t **out);

/* `begun` behind the prompt that was rendered without it. False: x->error is set. */
bool begun_answer_append(exchange *x, json_t *begun, render_result *rendered);

#endif
