/* Any JSON as a schema compiles to a grammar without dead ends, or is refused with words. */
#include "fuzz/grammar_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    grammar_builder *b;
    json_t *schema = json_loadb((const char *)data, size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    if (schema && grammar_builder_create(&b, NULL) == OK)
        fuzz_finish(b, grammar_json_schema(b, schema), size);
    json_decref(schema);
    return 0;
}
