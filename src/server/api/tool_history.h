/* server/api/tool_history.h: the tool calls of earlier turns, as the template wants them. Templates differ: some print
 * an object, some add a string to a string, some take both. Worker thread. */
#ifndef HEADWAY_SERVER_API_TOOL_HISTORY_H
#define HEADWAY_SERVER_API_TOOL_HISTORY_H

#include <jansson.h>

#include "server/exchange.h"

/* Checks the calls of message `index` and puts their arguments into the form that the template prefers, with the text
 * that the model wrote where it is known and means the same. False: x->error is set. */
bool tool_history_prepare(exchange *x, json_t *message, size_t index);

/* The template failed: the next thing to try, from 0 on. False: there is none. */
bool tool_history_retry(json_t *messages, int attempt);

/* Sets x->error for a rendering that failed with `text`: names the message whose arguments are no JSON object, if one
 * is to blame. */
bool tool_history_blame(exchange *x, json_t *messages, bool raised, const char *text);

/* Which forms does a template take? By rendering one call. */
void tool_history_probe(const chat_template *t, bool *takes_object, bool *takes_text);

#endif
