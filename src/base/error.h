/* base/error.h: the words that go with a failed status. The caller owns the struct (stack is fine); one thread. */
#ifndef HEADWAY_BASE_ERROR_H
#define HEADWAY_BASE_ERROR_H

#include "base/status.h"

typedef struct {
    char text[512]; /* UTF-8, one line, "what: where, found, expected"; "" when unset */
} error;

/* Formats into `err` (NULL is allowed; cut at the end of the buffer) and returns `code`, so that callers can write
 * `return error_set(err, ERR_INVALID, "…")`. */
status error_set(error *err, status code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Puts "prefix: " before the text already there; returns `code`. */
status error_prefix(error *err, status code, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
