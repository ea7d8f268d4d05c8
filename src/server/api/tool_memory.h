/* server/api/tool_memory.h: how exactly did a model write the arguments of this call? Clients parse them and send them
 * back with other white space or key order; a prompt that holds the original text meets the prefix cache, one with
 * theirs does not. Bounded: the oldest are forgotten, long ones never kept. By tenant and call id. Any thread. */
#ifndef HEADWAY_SERVER_API_TOOL_MEMORY_H
#define HEADWAY_SERVER_API_TOOL_MEMORY_H

#include "base/buf.h"
#include "base/span.h"

enum { TOOL_MEMORY_SLOTS = 8192, TOOL_MEMORY_BYTES = 16 << 20, TOOL_MEMORY_TEXT_MAX = 64 << 10 };

typedef struct tool_memory tool_memory;

tool_memory *tool_memory_create(void);    /* NULL: out of memory */
void tool_memory_destroy(tool_memory *m); /* NULL is allowed, here and below: nothing is remembered then */

void tool_memory_put(tool_memory *m, uint32_t tenant, span id, span arguments);
bool tool_memory_get(tool_memory *m, uint32_t tenant, span id, buf *arguments); /* appends; false: not known */

#endif
