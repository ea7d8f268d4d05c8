/* server/stop_match.h: has the text reached a stop string? Fed in pieces of any size; what is let out never holds a
 * part of a stop string that may still be completed. The match is the one that ends first (of those the longest),
 * however the text is cut. Linear time. The owner is one generation; one thread. */
#ifndef HEADWAY_SERVER_STOP_MATCH_H
#define HEADWAY_SERVER_STOP_MATCH_H

#include "base/buf.h"

enum { STOP_STRINGS_MAX = 16, STOP_BYTES_MAX = 1024 };

typedef struct { /* immutable once built: shared by the choices of one request */
    uint32_t count;
    uint16_t size[STOP_STRINGS_MAX];
    char *text[STOP_STRINGS_MAX];       /* owned */
    uint16_t *border[STOP_STRINGS_MAX]; /* owned: [i] = longest proper border of the first i + 1 bytes */
} stop_set;                             /* zero-initialise; stop_set_free */

bool stop_set_add(stop_set *set, span text); /* false: out of memory, empty, too long or too many */
void stop_set_free(stop_set *set);

typedef struct { /* zero-initialise; buf_free(&held) */
    uint16_t matched[STOP_STRINGS_MAX];
    buf held;
} stop_matcher;

/* Appends to `out` what is certain. Returns the index of the stop string found, or -1; after a match `out` ends before
 * it (behind it with `include`) and the rest is dropped. */
int stop_push(stop_matcher *m, const stop_set *set, span text, bool include, buf *out);
void stop_finish(stop_matcher *m, buf *out); /* lets out what was held back */

#endif
