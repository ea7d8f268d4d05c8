/* server/api/constraints.h: which texts may the answer be? Reads response_format, vLLM's guided_* and
 * structured_outputs, llama-server's json_schema and grammar, and keeps what was compiled lately: clients send the same
 * schema again and again, and masks go with a grammar. */
#ifndef HEADWAY_SERVER_API_CONSTRAINTS_H
#define HEADWAY_SERVER_API_CONSTRAINTS_H

#include <jansson.h>

#include "server/exchange.h"
#include "text/grammar/grammar.h"

typedef struct constraint_store constraint_store;
constraint_store *constraint_store_create(void);    /* NULL: out of memory */
void constraint_store_destroy(constraint_store *s); /* after the engine has let go of all requests; NULL allowed */

bool constraints_is_field(const char *name);
/* Worker thread: fills x->plan.grammar. False: x->error names what is wrong or not supported, and where. */
bool constraints_read(exchange *x, json_t *body);
/* For what is put together elsewhere (a tool's call): takes the reference. False: x->error. Worker thread. */
bool constraints_set(exchange *x, grammar *g);
/* Of x->plan for one generation, from behind its thought on. True with *out NULL: none. Any thread. */
bool constraints_make(exchange *x, token_constraint **out);

#endif
