#include "text/grammar/parts.h"
grammar_rule grammar_ebnf(grammar_builder *b, span text)
{
    (void)text;
    return builder_fail(b, ERR_UNSUPPORTED, "no");
}
