/* text/tokenizer_unicode.h: characters younger than PCRE2's own tables.
 * The `tokenizers` package classifies by Unicode 16; the PCRE2 of current distributions by 14. The table holds what was
 * added between, so that \p{L} and its kind mean the same on every machine. */
#ifndef HEADWAY_TEXT_TOKENIZER_UNICODE_H
#define HEADWAY_TEXT_TOKENIZER_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint32_t first, last;
    char category[3]; /* general category, as "Lu" */
} unicode_addition;

extern const unicode_addition unicode_additions[];
extern const size_t unicode_addition_count;

/* A character with a combining class or a decomposition that came after Unicode 9: the package's normalizer lets it
 * stand, and nothing moves or composes across it. */
bool unicode_is_inert(uint32_t code);

#endif
