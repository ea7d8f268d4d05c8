/* Any bytes as a regular expression: raw, and inside of a JSON string; the same in deterministic form. */
#include "fuzz/grammar_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    span pattern = span_of((const char *)data, size);
    grammar_builder *b;
    automaton a;
    if (grammar_builder_create(&b, NULL) == OK)
        fuzz_finish(b, grammar_regex(b, pattern), size);
    if (grammar_builder_create(&b, NULL) != OK)
        return 0;
    grammar_rule found = regex_rule(b, pattern, SPELL_JSON, PATTERN_FOUND, "pattern");
    if (found && regular_of(b, found, &a)) {
        automaton_accepts(&a, pattern);
        automaton_free(&a);
    }
    fuzz_finish(b, found, size);
    return 0;
}
