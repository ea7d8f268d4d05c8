/* A template of any bytes compiles and renders over a fixed conversation, or fails with words. */
#include <stdlib.h>

#include "text/chat_json.h"
#include "text/chat_template.h"

static const char conversation[] =
    "{\"messages\": [{\"role\": \"system\", \"content\": \"Be kind.\"}, {\"role\": \"user\", \"content\": \"Grüße "
    "<s>\"},"
    " {\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"function\": {\"name\": \"f\", \"arguments\":"
    " {\"a\": [1, 2.5, true, 99999999999999999999]}}}]}, {\"role\": \"tool\", \"content\": [{\"type\": \"text\"}]}],"
    " \"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\"}}], \"documents\": null, \"n\": 3,"
    " \"s\": \"Hello World\", \"words\": [\"b\", \"A\", \"c\"], \"d\": {\"b\": 1, \"a\": 2}, \"html\": \"<&'\\\">\","
    " \"yes\": true, \"add_generation_prompt\": true, \"bos_token\": \"<s>\"}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static json_t *variables;
    chat_template *t;
    json_error_t where;
    error err = {{0}};
    render_result out = {0};
    if (!variables)
        variables = chat_json_load(span_from(conversation), 0, &where);
    if (!variables)
        abort();
    if (chat_template_compile(&t, span_of((const char *)data, size), &err)) {
        if (!err.text[0])
            abort();
        return 0;
    }
    status st = chat_template_render(t, variables, 1767323045, &out, &err);
    if (st && !err.text[0] && !out.raised)
        abort();
    size_t at = 0;
    for (size_t i = 0; !st && i < out.range_count; i++) {
        if (out.ranges[i].offset != at)
            abort();
        at += out.ranges[i].size;
    }
    if (!st && at != out.text.size)
        abort();
    render_result_free(&out);
    chat_template_destroy(t);
    return 0;
}
