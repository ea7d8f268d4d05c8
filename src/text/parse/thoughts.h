/* text/parse/thoughts.h: the marks around thoughts, a row a spelling. Private to text/parse. */
#ifndef HEADWAY_TEXT_PARSE_THOUGHTS_H
#define HEADWAY_TEXT_PARSE_THOUGHTS_H

#include <stdbool.h>

typedef struct {
    const char *name, *open, *close;
    bool anywhere; /* control tokens: a text does not spell them; else a thought can only come first */
} thought_marks;

const thought_marks *thought_marks_find(const char *name); /* NULL: none of this name, or no name */

#endif
