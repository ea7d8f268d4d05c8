/* text/chat_json.h: the JSON of a chat request, with every integer kept.
 * Jansson refuses integers over 64 bits, which tools and arguments may hold and templates print as they came. Here such
 * a number becomes a marked string, which chat_template_render takes for the number again. Any thread. */
#ifndef HEADWAY_TEXT_CHAT_JSON_H
#define HEADWAY_TEXT_CHAT_JSON_H

#include <jansson.h>

#include "base/span.h"

/* As json_loadb with JSON_ALLOW_NUL and `flags`; NULL with `where` filled on failure. The caller owns the result. */
json_t *chat_json_load(span text, size_t flags, json_error_t *where);

/* The digits (with sign) when `text` is the marked string of such a number; else empty. */
span chat_json_big_integer(span text);

#endif
