/* Mutated templates, the same for every run of a seed: bytes changed, pieces cut, doubled, moved, words of the language
 * put in, two templates spliced. */
#ifndef HEADWAY_TESTS_TEMPLATE_MUTATOR_H
#define HEADWAY_TESTS_TEMPLATE_MUTATOR_H

#include "base/buf.h"
#include "base/rng.h"

static const char *const template_words[] = {
    "{{",        "}}",         "{%",         "%}",        "{#",         "#}",       "{%-",       "-%}",
    "if ",       "else",       "endif",      "for x in ", "endfor",     "set ",     "endset",    "macro m(a) ",
    "endmacro",  "call ",      "endcall",    "filter ",   "endfilter",  "raw",      "endraw",    "recursive",
    " is ",      " not ",      " in ",       " and ",     " or ",       " | ",      "~",         "**",
    "//",        "[",          "]",          "(",         ")",          "{",        "}",         "[::-1]",
    ":",         ",",          ".",          "'",         "\"",         "\\",       "loop",      "loop(x)",
    "namespace", "messages",   "tojson",     "caller()",  "range(9)",   "m(m)",     "varargs",   "kwargs",
    "none",      "true",       "-1",         "99999999",  "1e308",      "\xf0\x9f", "\xc3\xa9",  "\n",
    ".items()",  ".split()",   ".format(x)", ".pop()",    ".append(x)", "% x",      "sort",      "map('upper')",
    "break",     "continue",   "with ",      "endwith",   "generation", "do ",      "%s %(a)s",  "{0!r:>5}",
    "default",   "selectattr", "dictsort",   "groupby",   "unique",     "batch(2)", "indent(3)", "replace('', 'x')",
};

static inline size_t mutator_below(rng *random, size_t limit)
{
    return limit ? (size_t)(rng_next(random) % limit) : 0;
}

static inline void mutator_put_part(buf *out, rng *random, span from)
{
    size_t at = mutator_below(random, from.size + 1), size = mutator_below(random, 40);
    buf_append(out, from.data + at, size < from.size - at ? size : from.size - at);
}

/* Appends to `out` what one mutation makes of `source`; `other` is for splices. */
static inline void mutate_once(buf *out, rng *random, span source, span other)
{
    size_t at = mutator_below(random, source.size + 1), left = source.size - at, cut = mutator_below(random, 12);
    size_t behind = at + (cut < left ? cut : left);
    buf_append(out, source.data, at);
    switch (mutator_below(random, 7)) {
    case 0: /* another byte */
        buf_byte(out, (char)rng_next(random));
        behind = at + (left > 0);
        break;
    case 1: /* cut */
        break;
    case 2: /* doubled, often several times */
        for (size_t i = mutator_below(random, 4); i > 0; i--)
            buf_append(out, source.data + at, behind - at);
        behind = at;
        break;
    case 3: /* the rest of another template */
        at = mutator_below(random, other.size + 1);
        buf_append(out, other.data + at, other.size - at);
        behind = source.size;
        break;
    case 4: /* a piece from elsewhere */
        mutator_put_part(out, random, mutator_below(random, 2) ? source : other);
        behind = at;
        break;
    default: /* a word */
        buf_text(out, template_words[mutator_below(random, sizeof template_words / sizeof *template_words)]);
        if (mutator_below(random, 2))
            behind = at;
        break;
    }
    buf_append(out, source.data + behind, source.size - behind);
}

#endif
