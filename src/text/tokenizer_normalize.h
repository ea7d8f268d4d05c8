/* text/tokenizer_normalize.h: what does the text look like before it is cut?
 * A chain of the `tokenizers` package's normalizers. Immutable once built: any thread; scratch belongs to one call.
 * Linear. */
#ifndef HEADWAY_TEXT_TOKENIZER_NORMALIZE_H
#define HEADWAY_TEXT_TOKENIZER_NORMALIZE_H

#include "text/tokenizer_regex.h"

typedef enum {
    NORMALIZE_NFC,
    NORMALIZE_NFD,
    NORMALIZE_NFKC,
    NORMALIZE_NFKD,
    NORMALIZE_PREPEND,
    NORMALIZE_REPLACE
} normalize_kind;

typedef struct {
    normalize_kind kind;
    regex *pattern; /* REPLACE; owned */
    buf text;       /* PREPEND, REPLACE: what is put there */
} normalize_step;

enum { NORMALIZE_STEPS_MAX = 16 };
typedef struct {
    normalize_step steps[NORMALIZE_STEPS_MAX];
    size_t count; /* 0: the identity */
} normalizer;

/* Takes ownership of `pattern` (also on failure). */
status normalizer_add(normalizer *n, normalize_kind kind, regex *pattern, span text, error *err);
void normalizer_free(normalizer *n);

/* *out: the normalized text: `text` itself, or inside one of the two buffers. */
status normalizer_apply(const normalizer *n, regex_scratch *s, span text, buf work[2], span *out, error *err);

#endif
