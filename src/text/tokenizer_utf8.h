/* text/tokenizer_utf8.h: which characters do these bytes spell? Invalid bytes become U+FFFD, one for each maximal part
 * of an ill-formed sequence, as Python's errors="replace" and the Unicode standard have it. Pure functions; any thread.
 */
#ifndef HEADWAY_TEXT_TOKENIZER_UTF8_H
#define HEADWAY_TEXT_TOKENIZER_UTF8_H

#include "base/buf.h"

typedef struct {
    uint32_t code; /* 0xFFFD for an ill-formed part */
    uint8_t size;  /* bytes used; 0 only when the input is empty */
    bool valid;
    bool cut; /* the bytes end inside what may still become a character; `size` is then all that is left */
} utf8_char;

utf8_char utf8_next(const char *data, size_t size);

/* Of text known to be valid: the code point at `data`, and its size by its first byte. */
uint32_t utf8_code(const char *data);
static inline uint32_t utf8_size(unsigned char first)
{
    return first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}

uint32_t utf8_put(char out[4], uint32_t code); /* returns the size */

/* Offset of the first ill-formed byte, or text.size. */
size_t utf8_valid_prefix(span text);

/* Appends `text`, ill-formed parts replaced. */
void utf8_append_lossy(buf *out, span text);

#endif
