/* tests/fuzz/json_fuzz.c: request bodies through every handler that reads one. The first byte picks the handler. */
#include "server/api/anthropic.h"
#include "server/api/responses.h"
#include "unit/server/bodies.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bodies world;
    static void (*const handlers[])(exchange *) = {openai_chat,      openai_completions, api_tokenize,
                                                   api_detokenize,   anthropic_messages, anthropic_count_tokens,
                                                   responses_create, openai_chat};
    if (!world.tokenizer)
        bodies_open(&world);
    if (size > 1)
        bodies_run(&world, handlers[data[0] & 7], (const char *)data + 1, size - 1);
    return 0;
}
