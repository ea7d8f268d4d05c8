/* server/api/translate.h: what the dialects share that turn their request into the body of a chat completion, which
 * then goes the way of one (openai_chat_read): fields by a table, texts out of blocks. Worker thread. */
#ifndef HEADWAY_SERVER_API_TRANSLATE_H
#define HEADWAY_SERVER_API_TRANSLATE_H

#include <jansson.h>

#include "server/exchange.h"

typedef struct {
    const char *name;
    /* Puts what `value` means into `chat`; NULL: nothing, it is read elsewhere or has no effect. */
    bool (*put)(exchange *x, json_t *value, json_t *chat);
} translate_field;

/* Every field of `body` that is not null: by `own` (ends with a NULL name), else as it is. Fields that would make more
 * than one answer, or one that the dialect cannot write, are refused. False: x->error is set. */
bool translate_fields(exchange *x, json_t *body, const translate_field *own, json_t *chat);

bool translate_bad(exchange *x, const char *where, const char *what); /* 400 "where: what"; false */
const char *translate_type(json_t *block);                            /* its type; NULL */
void translate_set_kwarg(json_t *chat, const char *name, json_t *value);
json_t *translate_text(const buf *text);                                     /* a new string */
void translate_add(json_t *messages, const char *role, json_t *content);     /* takes `content` */
json_t *translate_call(const char *id, const char *name, json_t *arguments); /* an entry of tool_calls; borrows */
bool translate_effort(exchange *x, const char *name, json_t *value, json_t *chat);

#endif
