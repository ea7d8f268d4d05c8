/* server/api/shared_prefix.h: where does a rendered prompt stop being what other conversations begin with too (system
 * prompt, tools) and become this one's own? Any thread. */
#ifndef HEADWAY_SERVER_API_SHARED_PREFIX_H
#define HEADWAY_SERVER_API_SHARED_PREFIX_H

#include <jansson.h>

#include "sched/request.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

bool messages_continue(json_t *messages); /* has the conversation had an answer? */
/* Bytes of the rendering before the text of the first user message, as the template's ranges show it; 0: not found, it
 * is put together with other text. */
size_t shared_prefix_bytes(json_t *messages, const render_result *rendered);
/* The same before the texts of the last user and tool messages, rising; returns how many were found. */
uint32_t turn_bytes(json_t *messages, const render_result *rendered, size_t out[TURN_MARKS_MAX]);
/* For each of `count` rising numbers of bytes: the leading tokens that lie within them. */
void prefix_tokens(const tokenizer *t, const token_list *tokens, const size_t *bytes, uint32_t count, uint32_t *out);
/* Leading tokens that lie within the first `bytes` bytes of their text. */
uint32_t shared_prefix_tokens(const tokenizer *t, const token_list *tokens, size_t bytes);

#endif
