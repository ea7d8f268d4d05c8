/* server/batch/multipart.h: the parts of a form upload (multipart/form-data). Strict: CR LF only, a quoted name on
 * every part, no bytes before the first boundary, nothing but one CR LF behind the last. Borrows from the body; no
 * allocation, no I/O. Any thread. */
#ifndef HEADWAY_SERVER_BATCH_MULTIPART_H
#define HEADWAY_SERVER_BATCH_MULTIPART_H

#include "base/span.h"

enum { FORM_PARTS_MAX = 16, FORM_BOUNDARY_MAX = 70, FORM_NAME_MAX = 255, FORM_HEAD_MAX = 4096 };

typedef struct {
    span name, filename; /* as sent, without the quotes; filename.data NULL: a plain field */
    span value;
} form_part;

typedef struct {
    form_part parts[FORM_PARTS_MAX];
    uint32_t count;
} form;

/* The boundary that a Content-Type names; false: it is not multipart/form-data, or names none that is allowed. */
bool form_boundary(span content_type, span *boundary);
/* False: `why` says what is wrong (a static text). */
bool form_parse(form *out, span boundary, span body, const char **why);
const form_part *form_find(const form *f, const char *name); /* the first of that name; NULL */

#endif
