/* server/router.c: the table of endpoints. */
#include "server/router.h"

#include "server/api/cache.h"
#include "server/api/openai.h"
#include "server/dashboard/assets.h"
#include "server/debug/debug.h"
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
    {"/", HTTP_GET, false, true, dashboard_page, NULL},
    {"/debug/state", HTTP_GET, false, false, debug_state, NULL},
    {"/debug/steps", HTTP_GET, false, false, debug_steps, NULL},
    {"/debug/curves", HTTP_GET, true, false, debug_curves, NULL},
    {"/debug/trace", HTTP_GET, false, false, debug_trace, NULL},
    {"/v1/cache", HTTP_DELETE, false, false, api_cache_forget, NULL},
    {"/cache", HTTP_DELETE, false, false, api_cache_forget, NULL},
    {"/tokenize", HTTP_POST, true, false, api_tokenize, NULL},
    {"/detokenize", HTTP_POST, true, false, api_detokenize, NULL},
};

/* Paths with something behind them, which the handler reads from x->body. */
static const route prefixes[] = {
    {"/v1/models/", HTTP_GET, false, false, openai_models, NULL},
    {"/dashboard/", HTTP_GET, false, true, dashboard_asset, NULL},
};

static bool answers(const route *r, http_method method, bool *known, const char **allow)
{
    *known = true;
    *allow = r->method == HTTP_GET      ? "GET, HEAD, OPTIONS"
             : r->method == HTTP_DELETE ? "DELETE, OPTIONS"
                                        : "POST, OPTIONS";
    return r->method == method || (r->method == HTTP_GET && method == HTTP_HEAD);
}

const route *router_find(http_method method, span path, bool *known, const char **allow)
{
    *known = false;
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++)
        if (span_is(path, routes[i].path) && answers(&routes[i], method, known, allow))
            return &routes[i];
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        size_t size = strlen(prefixes[i].path);
        if (path.size > size && memcmp(path.data, prefixes[i].path, size) == 0)
            return answers(&prefixes[i], method, known, allow) ? &prefixes[i] : NULL;
    }
    return NULL;
}
