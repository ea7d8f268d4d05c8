/* Any bytes as a regular expression: raw, or inside of a JSON string, that also in deterministic form. Nearly all get a
 * small budget of work: nine tenths of the time go into the comparisons that libFuzzer traces in the construction of
 * subsets, and with the whole budget one hostile expression takes as long as thousands of others. */
#include "fuzz/grammar_fuzz.h"

enum { WORK_SMALL = 20000, ALL_OF = 2048 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    span pattern = span_of((const char *)data, size);
    grammar_builder *b;
    grammar_rule rule;
    automaton a;
    uint32_t mark = 1; /* what happens depends on the bytes alone */
    for (size_t i = 0; i < size; i++)
        mark = (mark ^ data[i]) * 16777619u;
    if (grammar_builder_create(&b, NULL) != OK)
        return 0;
    if ((mark >> 8) % ALL_OF)
        b->work = WORK_MAX - WORK_SMALL;
    if (mark & 1) {
        rule = grammar_regex(b, pattern);
    } else {
        rule = regex_rule(b, pattern, SPELL_JSON, PATTERN_FOUND, "pattern");
        if (rule && regular_of(b, rule, &a)) {
            automaton_accepts(&a, pattern);
            automaton_free(&a);
        }
    }
    fuzz_finish(b, rule, size);
    return 0;
}
