/* server/api/tool_grammar.h: an answer that must call: the family's envelope around the tools' schemas, as a grammar.
 * Worker thread. */
#ifndef HEADWAY_SERVER_API_TOOL_GRAMMAR_H
#define HEADWAY_SERVER_API_TOOL_GRAMMAR_H

#include "server/exchange.h"

typedef struct {
    const char *family;
    json_t *tools; /* borrowed */
    bool one_call;
    bool mistral_args; /* as in chat_form.h */
} tool_grammar_ask;

status tool_grammar_make(grammar **out, const tool_grammar_ask *ask, error *err);

/* Sets x->plan.grammar for x->plan.output (family, tools, one_call). False: x->error is set, for a schema that the
 * grammar does not take. */
bool tool_grammar_build(exchange *x);

#endif
