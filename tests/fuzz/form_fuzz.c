/* tests/fuzz/form_fuzz.c: bytes as a form upload: the first line is the Content-Type, the rest the body. What is
 * accepted is sound. */
#include <stdlib.h>

#include "unit/server/form_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    const char *end = size ? memchr(text, '\n', size) : NULL;
    span type = span_of(text, end ? (size_t)(end - text) : size), boundary, body = {0};
    form f;
    const char *why = NULL;
    if (end)
        body = span_of(end + 1, size - (size_t)(end - text) - 1);
    if (!form_boundary(type, &boundary))
        boundary = span_of("b", 1);
    if (boundary.size > FORM_BOUNDARY_MAX)
        abort();
    bool good = form_parse(&f, boundary, body, &why);
    if (!why || (good && !form_is_sound(&f, boundary, body)))
        abort();
    return 0;
}
