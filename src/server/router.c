/* server/router.c: the table of endpoints. */
#include "server/router.h"

#include "server/api/openai.h"
#include "server/debug/trace_stream.h"

static const route routes[] = {
    {"/v1/chat/completions", HTTP_POST, true, false, openai_chat, &openai_chat_format},
    {"/chat/completions", HTTP_POST, true, false, openai_chat, &openai_chat_format},
    {"/v1/completions", HTTP_POST, true, false, openai_completions, &openai_completions_format},
    {"/completions", HTTP_POST, true, false, openai_completions, &openai_completions_format},
    {"/v1/embeddings", HTTP_POST, false, false, openai_embeddings, NULL},
    {"/embeddings", HTTP_POST, false, false, openai_embeddings, NULL},
    {"/v1/models", HTTP_GET, false, false, openai_models, NULL},
    {"/models", HTTP_GET, false, false, openai_models, NULL},
    {"/health", HTTP_GET, false, true, openai_health, NULL},
    {"/v1/health", HTTP_GET, false, true, openai_health, NULL},
    {"/metrics", HTTP_GET, false, false, api_metrics, NULL},
    {"/debug/trace", HTTP_GET, false, false, debug_trace, NULL},
    {"/tokenize", HTTP_POST, true, false, api_tokenize, NULL},
    {"/detokenize", HTTP_POST, true, false, api_detokenize, NULL},
};

const route *router_find(http_method method, span path, bool *known, const char **allow)
{
    *known = false;
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        if (!span_is(path, routes[i].path))
            continue;
        *known = true;
        *allow = routes[i].method == HTTP_GET ? "GET, HEAD, OPTIONS" : "POST, OPTIONS";
        if (routes[i].method == method || (routes[i].method == HTTP_GET && method == HTTP_HEAD))
            return &routes[i];
    }
    static const char models[] = "/v1/models/";
    if (path.size > sizeof models - 1 && memcmp(path.data, models, sizeof models - 1) == 0) {
        static const route one = {"/v1/models/", HTTP_GET, false, false, openai_models, NULL};
        *known = true;
        *allow = "GET, HEAD, OPTIONS";
        return method == HTTP_GET || method == HTTP_HEAD ? &one : NULL;
    }
    return NULL;
}
