/* text/tokenizer_regex.h: where does a pre-tokenizer's pattern match?
 * Patterns are written for Oniguruma (what the `tokenizers` package runs); they are translated to PCRE2 with the same
 * meaning of \s, \w, \d, \h, \p{…} and the same version of Unicode, or refused. Bounded: a pattern that backtracks
 * without end fails with a message. A compiled regex is immutable: any thread; a regex_scratch belongs to one call. */
#ifndef HEADWAY_TEXT_TOKENIZER_REGEX_H
#define HEADWAY_TEXT_TOKENIZER_REGEX_H

#include "base/buf.h"
#include "base/error.h"

typedef struct regex regex;

enum { REGEX_PATTERN_MAX = 64 * 1024 };

status regex_compile(regex **out, span pattern, error *err);
status regex_compile_literal(regex **out, span text, error *err); /* matches `text` itself */
void regex_free(regex *r);

typedef struct regex_scratch regex_scratch;
regex_scratch *regex_scratch_create(void); /* NULL: out of memory */
void regex_scratch_free(regex_scratch *s);

/* The first non-empty match in text[from..]; `text` is valid UTF-8. found false: none. */
status regex_find(const regex *r, regex_scratch *s, span text, size_t from, bool *found, size_t *start, size_t *end,
                  error *err);

/* The translated pattern, for tests. */
status regex_translate(buf *out, span pattern, error *err);

#endif
