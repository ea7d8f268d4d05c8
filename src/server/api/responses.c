/* server/api/responses.c: POST /v1/responses, and what its answers repeat of the request. */
#include "server/api/responses.h"

#include <stdlib.h>

#include "server/api/openai.h"
#include "server/api/params.h"

static void free_state(void *own)
{
    responses_state *state = own;
    buf_free(&state->echo);
    free(state);
}

static void echo_value(buf *out, const char *name, json_t *value)
{
    char *text = value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    buf_printf(out, "\"%s\":", name);
    buf_text(out, text ? text : "null");
    buf_byte(out, ',');
    free(text);
}

/* `value` or, where it is missing, `otherwise`, which is taken. */
static void echo_or(buf *out, const char *name, json_t *value, json_t *otherwise)
{
    echo_value(out, name, value && !json_is_null(value) ? value : otherwise);
    json_decref(otherwise);
}

/* Defaults first, what the request says over them. */
static void echo_over(buf *out, const char *name, json_t *value, json_t *defaults)
{
    json_object_update(defaults, value);
    echo_value(out, name, defaults);
    json_decref(defaults);
}

static void echo_tools(buf *out, json_t *tools)
{
    json_t *all = json_array(), *tool;
    size_t i;
    json_array_foreach(tools, i, tool)
    {
        json_t *one = json_pack("{s:n, s:n, s:b}", "description", "parameters", "strict", 0);
        json_object_update(one, tool);
        json_array_append_new(all, one);
    }
    echo_value(out, "tools", all);
    json_decref(all);
}

static void echo_request(const exchange *x, json_t *body, buf *out)
{
    static const char *const plain[] = {"instructions",     "max_output_tokens", "max_tool_calls",
                                        "prompt_cache_key", "safety_identifier", "user"};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        echo_value(out, plain[i], json_object_get(body, plain[i]));
    echo_or(out, "metadata", json_object_get(body, "metadata"), json_object());
    echo_or(out, "parallel_tool_calls", json_object_get(body, "parallel_tool_calls"), json_true());
    echo_or(out, "tool_choice", json_object_get(body, "tool_choice"), json_string("auto"));
    echo_tools(out, json_object_get(body, "tools"));
    echo_over(out, "text", json_object_get(body, "text"), json_pack("{s:{s:s}}", "format", "type", "text"));
    echo_over(out, "reasoning", json_object_get(body, "reasoning"), json_pack("{s:n, s:n}", "effort", "summary"));
    buf_text(out, "\"temperature\":");
    json_text_number(out, (double)x->plan.sampling.temperature);
    buf_text(out, ",\"top_p\":");
    json_text_number(out, (double)x->plan.sampling.top_p);
    buf_text(out, ",\"background\":false,\"previous_response_id\":null,\"store\":false,\"top_logprobs\":0,"
                  "\"truncation\":\"disabled\",");
}

void responses_create(exchange *x)
{
    json_t *body = params_parse_body(x);
    responses_state *state = calloc(1, sizeof *state);
    x->own = state;
    x->free_own = state ? free_state : NULL;
    if (!state)
        api_fail(&x->error, 500, NULL, "out of memory");
    json_t *chat = state && body ? responses_to_chat(x, body) : NULL;
    if (chat && openai_chat_read(x, chat) && params_check_prompts(x))
        echo_request(x, body, &state->echo);
    json_decref(chat);
    json_decref(body);
}
