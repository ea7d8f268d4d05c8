/* base/buf.h: a growable byte buffer. Zero-initialise; buf_free when done. `data` is always NUL-terminated once
 * non-NULL (the NUL is not counted). Out of memory or over `limit` sets `failed` and later appends do nothing. One
 * thread. */
#ifndef HEADWAY_BASE_BUF_H
#define HEADWAY_BASE_BUF_H

#include "base/span.h"

typedef struct {
    char *data;
    size_t size, capacity;
    size_t limit; /* bytes; 0: no limit */
    bool failed;
} buf;

void buf_append(buf *b, const void *data, size_t size);
void buf_text(buf *b, const char *text); /* a C string */
void buf_byte(buf *b, char byte);
void buf_printf(buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool buf_reserve(buf *b, size_t more); /* room for `more` further bytes; false when failed */
void buf_clear(buf *b);                /* size 0, memory kept, failed reset */
void buf_free(buf *b);                 /* back to all zero except limit */

static inline span buf_span(const buf *b)
{
    return (span){b->data, b->size};
}

#endif
