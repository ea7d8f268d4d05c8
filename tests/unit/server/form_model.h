/* tests/unit/server/form_model.h: a form upload parsed, and what must hold of the result whatever the bytes were. */
#ifndef HEADWAY_TESTS_FORM_MODEL_H
#define HEADWAY_TESTS_FORM_MODEL_H

#include "server/batch/multipart.h"

static inline bool form_inside(span part, span body)
{
    return !part.size || (part.data >= body.data && part.data + part.size <= body.data + body.size);
}

/* Parts lie inside the body, in order, and hold no delimiter. */
static inline bool form_is_sound(const form *f, span boundary, span body)
{
    const char *last = body.data;
    if (f->count > FORM_PARTS_MAX)
        return false;
    for (uint32_t i = 0; i < f->count; i++) {
        const form_part *p = &f->parts[i];
        if (!p->name.data || !form_inside(p->name, body) || !form_inside(p->filename, body) ||
            !form_inside(p->value, body) || (p->value.size && p->value.data < last))
            return false;
        last = p->value.size ? p->value.data + p->value.size : last;
        for (size_t at = 0; at + boundary.size + 4 <= p->value.size; at++)
            if (memcmp(p->value.data + at, "\r\n--", 4) == 0 &&
                memcmp(p->value.data + at + 4, boundary.data, boundary.size) == 0)
                return false;
    }
    return true;
}

#endif
