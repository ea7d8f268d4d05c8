/* server/api/anthropic.h: Anthropic's Messages: a request becomes the body of a chat completion, the answer is written
 * as content blocks. Handlers as route.handle wants them. */
#ifndef HEADWAY_SERVER_API_ANTHROPIC_H
#define HEADWAY_SERVER_API_ANTHROPIC_H

#include <jansson.h>

#include "server/exchange.h"

void anthropic_messages(exchange *x);     /* worker */
void anthropic_count_tokens(exchange *x); /* worker */

extern const answer_format anthropic_format, anthropic_small_format; /* small: of answers that are not generated */
void anthropic_write_error(const api_error *e, buf *out);

/* The same request as a chat completion's, new; NULL: x->error names what is wrong, by its place in `body`. */
json_t *anthropic_to_chat(exchange *x, json_t *body);

#endif
