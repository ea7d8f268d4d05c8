/* server/debug/query.h: what does the query string say? Any thread. */
#ifndef HEADWAY_SERVER_DEBUG_QUERY_H
#define HEADWAY_SERVER_DEBUG_QUERY_H

#include "base/span.h"

typedef enum { QUERY_ABSENT, QUERY_NUMBER, QUERY_TEXT, QUERY_WRONG } query_result;

/* The value of `name` in "a=1&b=2", a whole number in decimal; the first one if repeated. */
query_result query_number(span query, const char *name, uint64_t *out);
/* The same as text, %XX and + decoded; QUERY_WRONG: empty, a control byte, half a %XX, or `size` bytes and more. */
query_result query_text(span query, const char *name, char *out, size_t size);

#endif
