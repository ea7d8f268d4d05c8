/* server/debug/query.h: what does the query string say? Numbers only. Any thread. */
#ifndef HEADWAY_SERVER_DEBUG_QUERY_H
#define HEADWAY_SERVER_DEBUG_QUERY_H

#include "base/span.h"

typedef enum { QUERY_ABSENT, QUERY_NUMBER, QUERY_WRONG } query_result;

/* The value of `name` in "a=1&b=2", a whole number in decimal; the first one if repeated. */
query_result query_number(span query, const char *name, uint64_t *out);

#endif
