/* server/api/tool_choice.h: which tools may the answer call, and must it? Reads tools, tool_choice and
 * parallel_tool_calls, in the shapes of the OpenAI chat API, which other dialects translate into. Worker thread. */
#ifndef HEADWAY_SERVER_API_TOOL_CHOICE_H
#define HEADWAY_SERVER_API_TOOL_CHOICE_H

#include <jansson.h>

#include "server/exchange.h"

/* Fills x->plan.output but for the thoughts. *shown: the tools that the prompt shows, borrowed from `body`; NULL: none
 * ("none" takes them out of the prompt, so that a model that may not call does not try). False: x->error is set. */
bool tool_choice_read(exchange *x, json_t *body, json_t **shown);

#endif
