/* server/api/openai.h: the OpenAI dialect and the small endpoints around it. Handlers as route.handle wants them. */
#ifndef HEADWAY_SERVER_API_OPENAI_H
#define HEADWAY_SERVER_API_OPENAI_H

#include <jansson.h>

#include "server/exchange.h"

void openai_chat(exchange *x);        /* worker */
void openai_completions(exchange *x); /* worker */
void openai_embeddings(exchange *x);
void openai_models(exchange *x);
void openai_health(exchange *x);
void api_tokenize(exchange *x);   /* worker */
void api_detokenize(exchange *x); /* worker */
void api_metrics(exchange *x);

/* Worker: the body of a chat completion, read into x->plan; its prompt may be longer than the context
 * (params_check_prompts). False: x->error is set. */
bool openai_chat_read(exchange *x, json_t *body);

extern const answer_format openai_chat_format, openai_completions_format;

/* Text of one token as it is shown in log-probabilities, specials included. */
void openai_token_text(const exchange *x, token_id id, buf *text);

#endif
