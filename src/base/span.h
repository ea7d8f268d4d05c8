/* base/span.h: borrowed bytes with a length. Never NUL-terminated by promise; the owner outlives the span. */
#ifndef HEADWAY_BASE_SPAN_H
#define HEADWAY_BASE_SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    const char *data; /* may be NULL when size is 0 */
    size_t size;      /* bytes */
} span;

static inline span span_of(const char *data, size_t size)
{
    return (span){data, size};
}

static inline span span_from(const char *text) /* a C string */
{
    return (span){text, text ? strlen(text) : 0};
}

static inline bool span_equal(span a, span b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

static inline bool span_is(span a, const char *text)
{
    return span_equal(a, span_from(text));
}

#endif
