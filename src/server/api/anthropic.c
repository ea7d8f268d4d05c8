/* server/api/anthropic.c: POST /v1/messages and /v1/messages/count_tokens, and Anthropic's errors. */
#include "server/api/anthropic.h"

#include "server/api/openai.h"
#include "server/api/params.h"
#include "server/api/translate.h"

void anthropic_write_error(const api_error *e, buf *out)
{
    static const struct {
        int status;
        const char *type;
    } types[] = {{401, "authentication_error"}, {403, "permission_error"}, {404, "not_found_error"},
                 {413, "request_too_large"},    {429, "rate_limit_error"}, {503, "overloaded_error"},
                 {504, "timeout_error"}};
    const char *type = e->status >= 500 ? "api_error" : "invalid_request_error";
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].status == e->status)
            type = types[i].type;
    buf_printf(out, "{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":", type);
    json_text_string(out, span_from(e->message));
    buf_text(out, "},\"request_id\":");
    if (e->request_id[0])
        json_text_string(out, span_from(e->request_id));
    else
        buf_text(out, "null");
    buf_byte(out, '}');
}

/* Reads body into x->plan; `answers`: it is to be answered, not counted. */
static bool read_request(exchange *x, bool answers)
{
    json_t *body = params_parse_body(x), *max = json_object_get(body, "max_tokens");
    if (!body)
        return false;
    bool ok = !answers || (max && !json_is_null(max)) || translate_bad(x, "max_tokens", "this field is required");
    json_t *chat = ok ? anthropic_to_chat(x, body) : NULL;
    json_decref(body);
    ok = chat && openai_chat_read(x, chat);
    json_decref(chat);
    return ok;
}

void anthropic_messages(exchange *x)
{
    if (read_request(x, true))
        params_check_prompts(x);
}

void anthropic_count_tokens(exchange *x)
{
    if (!read_request(x, false))
        return;
    buf_printf(&x->answer.body, "{\"input_tokens\":%zu}", x->plan.prompts[0].count);
    x->answer.status = 200;
    x->answer.type = "application/json";
}

const answer_format anthropic_small_format = {.write_error = anthropic_write_error};
