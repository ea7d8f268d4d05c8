/* server/router.c: the table of endpoints. */
#include "server/router.h"

#include "server/api/anthropic.h"
#include "server/api/cache.h"
#include "server/api/llama_server.h"
#include "server/api/ollama.h"
#include "server/api/openai.h"
#include "server/api/responses.h"
#include "server/batch/api.h"
#include "server/dashboard/assets.h"
#include "server/debug/debug.h"
#include "server/debug/trace_stream.h"

static const route routes[] = {
    {"/v1/chat/completions", HTTP_POST, true, false, openai_chat, &openai_chat_format},
    {"/chat/completions", HTTP_POST, true, false, openai_chat, &openai_chat_format},
    {"/v1/completions", HTTP_POST, true, false, openai_completions, &openai_completions_format},
    {"/completions", HTTP_POST, true, false, openai_completions, &openai_completions_format},
    {"/v1/responses", HTTP_POST, true, false, responses_create, &responses_format},
    {"/responses", HTTP_POST, true, false, responses_create, &responses_format},
    {"/v1/messages", HTTP_POST, true, false, anthropic_messages, &anthropic_format},
    {"/v1/messages/count_tokens", HTTP_POST, true, false, anthropic_count_tokens, &anthropic_small_format},
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
    {"/v1/files", HTTP_POST, false, false, files_create, NULL},
    {"/v1/files", HTTP_GET, false, false, files_list, NULL},
    {"/v1/batches", HTTP_POST, false, false, batches_create, NULL},
    {"/v1/batches", HTTP_GET, false, false, batches_list, NULL},
    {"/api/chat", HTTP_POST, true, false, ollama_chat, &ollama_chat_format},
    {"/api/generate", HTTP_POST, true, false, ollama_generate, &ollama_generate_format},
    {"/api/tags", HTTP_GET, false, false, ollama_tags, NULL},
    {"/api/show", HTTP_POST, true, false, ollama_show, NULL},
    {"/api/ps", HTTP_GET, false, false, ollama_ps, NULL},
    {"/api/version", HTTP_GET, false, true, ollama_version, NULL},
    {"/api/embed", HTTP_POST, false, false, ollama_embed, NULL},
    {"/api/embeddings", HTTP_POST, false, false, ollama_embed, NULL},
    {"/completion", HTTP_POST, true, false, llama_server_completion, &llama_server_format},
    {"/props", HTTP_GET, false, false, llama_server_props, NULL},
    {"/slots", HTTP_GET, false, false, llama_server_slots, NULL},
    {"/tokenize", HTTP_POST, true, false, api_tokenize, NULL},
    {"/detokenize", HTTP_POST, true, false, api_detokenize, NULL},
};

/* Paths with something behind them, which the handler reads from x->body. */
static const route prefixes[] = {
    {"/v1/models/", HTTP_GET, false, false, openai_models, NULL},
    {"/v1/files/", HTTP_GET, false, false, files_get, NULL},
    {"/v1/files/", HTTP_DELETE, false, false, files_delete, NULL},
    {"/v1/batches/", HTTP_GET, false, false, batches_get, NULL},
    {"/v1/batches/", HTTP_POST, false, false, batches_cancel, NULL},
    {"/dashboard/", HTTP_GET, false, true, dashboard_asset, NULL},
};

static const char *method_list(unsigned methods)
{
    static const char *const lists[] = {
        "OPTIONS",         "GET, HEAD, OPTIONS",         "POST, OPTIONS",         "GET, HEAD, POST, OPTIONS",
        "DELETE, OPTIONS", "GET, HEAD, DELETE, OPTIONS", "POST, DELETE, OPTIONS", "GET, HEAD, POST, DELETE, OPTIONS"};
    return lists[methods];
}

static unsigned method_bit(http_method method)
{
    return method == HTTP_GET || method == HTTP_HEAD ? 1 : method == HTTP_POST ? 2 : method == HTTP_DELETE ? 4 : 0;
}

const route *router_find(http_method method, span path, bool *known, const char **allow)
{
    unsigned methods = 0;
    const route *found = NULL;
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++)
        if (span_is(path, routes[i].path)) {
            methods |= method_bit(routes[i].method);
            found = method_bit(routes[i].method) == method_bit(method) ? &routes[i] : found;
        }
    bool exact = methods != 0;
    for (size_t i = 0; !exact && i < sizeof prefixes / sizeof *prefixes; i++) {
        size_t size = strlen(prefixes[i].path);
        if (path.size <= size || memcmp(path.data, prefixes[i].path, size) != 0)
            continue;
        methods |= method_bit(prefixes[i].method);
        found = method_bit(prefixes[i].method) == method_bit(method) ? &prefixes[i] : found;
    }
    *known = methods != 0;
    if (methods)
        *allow = method_list(methods);
    return found;
}

bool route_takes_form(const route *r)
{
    return r->handle == files_create;
}
