/* server/api/reasoning_params.h: shall the model think, how hard and for how long? Clients say it in many ways:
 * reasoning_effort, reasoning {effort, max_tokens, enabled}, enable_thinking, thinking {type, budget_tokens},
 * thinking_budget and its kin. They become the variables that the template knows, and a limit. Worker thread. */
#ifndef HEADWAY_SERVER_API_REASONING_PARAMS_H
#define HEADWAY_SERVER_API_REASONING_PARAMS_H

#include <jansson.h>

#include "server/exchange.h"

/* Adds to `variables` what chat_template_kwargs has not set there; fills x->plan.output.thought_budget. False: x->error
 * is set. */
bool reasoning_params_read(exchange *x, json_t *body, json_t *variables);

#endif
