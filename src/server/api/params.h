/* server/api/params.h: reads the fields that generation endpoints share into a plan. A field that would change the
 * answer and is not supported is an error naming it; an unknown one is ignored and named in a warning. Worker thread.
 */
#ifndef HEADWAY_SERVER_API_PARAMS_H
#define HEADWAY_SERVER_API_PARAMS_H

#include <jansson.h>

#include "server/exchange.h"

/* The body as a JSON object (the caller decrefs); NULL: x->error says why. */
json_t *params_parse_body(exchange *x);

typedef struct {
    const char *name;
    bool (*read)(exchange *x, json_t *value); /* NULL: read elsewhere, or harmless */
} param_field;

/* Reads every key of `body`: first by `own` (ends with a NULL name), then by the shared table. False: x->error is set.
 */
bool params_read(exchange *x, json_t *body, const param_field *own);
bool params_unsupported(exchange *x, const char *name, const char *why); /* sets x->error; false */
void params_warn(exchange *x, const char *text);

/* Is `value` what a client sends to say "off": null, false, 0, "", [] or {}? */
bool params_is_off(json_t *value);
bool params_read_uint(exchange *x, const char *name, json_t *value, uint64_t min, uint64_t max, uint64_t *out);
bool params_read_bool(exchange *x, const char *name, json_t *value, bool *out);

/* Refuses prompts that the context cannot hold. */
bool params_check_prompts(exchange *x);

#endif
