/* Any bytes as a grammar, in either spelling. */
#include "fuzz/grammar_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    grammar_builder *b;
    if (grammar_builder_create(&b, NULL) == OK)
        fuzz_finish(b, grammar_ebnf(b, span_of((const char *)data, size)), size);
    return 0;
}
