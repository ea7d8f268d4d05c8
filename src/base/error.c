/* base/error.c: formatted error words. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

status error_set(error *err, status code, const char *format, ...)
{
    if (!err)
        return code;
    va_list args;
    va_start(args, format);
    vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    return code;
}

status error_prefix(error *err, status code, const char *format, ...)
{
    if (!err)
        return code;
    char prefix[256], rest[sizeof err->text];
    va_list args;
    va_start(args, format);
    vsnprintf(prefix, sizeof prefix, format, args);
    va_end(args);
    memcpy(rest, err->text, sizeof rest);
    int used = snprintf(err->text, sizeof err->text, "%s: ", prefix);
    size_t room = sizeof err->text - (size_t)used;
    size_t keep = strnlen(rest, room - 1);
    memcpy(err->text + used, rest, keep);
    err->text[(size_t)used + keep] = 0;
    return code;
}
