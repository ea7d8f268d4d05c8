/* server/api/openai_chat.c: POST /v1/chat/completions. */
#include <stdio.h>
#include <stdlib.h>

#include "server/api/messages.h"
#include "server/api/openai.h"
#include "server/api/params.h"

static bool read_tool_choice(exchange *x, json_t *value)
{
    const char *choice = json_string_value(value);
    if (choice && (strcmp(choice, "auto") == 0 || strcmp(choice, "none") == 0))
        return true;
    return params_unsupported(x, "tool_choice", "only \"auto\" and \"none\"");
}

static bool read_tools(exchange *x, json_t *value)
{
    return json_is_array(value) || api_fail(&x->error, 400, "tools", "tools must be an array");
}

static bool read_kwargs(exchange *x, json_t *value)
{
    return json_is_object(value) ||
           api_fail(&x->error, 400, "chat_template_kwargs", "chat_template_kwargs must be an object");
}

static bool read_logprobs(exchange *x, json_t *value)
{
    if (!params_read_bool(x, "logprobs", value, &x->plan.want_logprobs))
        return false;
    if (x->plan.want_logprobs && !x->plan.sampling.logprobs)
        x->plan.sampling.logprobs = 1;
    return true;
}

static bool read_top_logprobs(exchange *x, json_t *value)
{
    uint64_t top = 0;
    if (!params_read_uint(x, "top_logprobs", value, 0, LOGPROBS_MAX - 1, &top))
        return false;
    x->plan.sampling.logprobs = 1 + (uint32_t)top;
    return true;
}

static const param_field fields[] = {
    {"messages", NULL},
    {"documents", NULL},
    {"reasoning_effort", NULL},
    {"add_generation_prompt", NULL},
    {"tools", read_tools},
    {"tool_choice", read_tool_choice},
    {"chat_template_kwargs", read_kwargs},
    {"logprobs", read_logprobs},
    {"top_logprobs", read_top_logprobs},
    {NULL, NULL},
};

void openai_chat(exchange *x)
{
    json_t *body = params_parse_body(x);
    if (!body)
        return;
    x->plan.prompts = calloc(1, sizeof *x->plan.prompts);
    x->plan.prompt_count = x->plan.prompts ? 1 : 0;
    if (params_read(x, body, fields)) {
        if (!x->plan.want_logprobs && x->plan.sampling.logprobs > 1)
            api_fail(&x->error, 400, "top_logprobs", "top_logprobs needs \"logprobs\": true");
        else if (messages_tokenize(x, body, &x->plan.prompts[0]))
            params_check_prompts(x);
        if (!x->plan.want_logprobs)
            x->plan.sampling.logprobs = 0;
    }
    json_decref(body);
}

/* ---- what is written ---- */

void openai_token_text(const exchange *x, token_id id, buf *text)
{
    detokenizer d = {.started = true, .keep_specials = true};
    detokenizer_push(&d, x->model->tokenizer, id, text);
    buf_append(text, d.held, d.held_size); /* the raw bytes of an unfinished character */
}

static void write_logprob(buf *out, const exchange *x, token_id id, float logprob)
{
    buf text = {0};
    openai_token_text(x, id, &text);
    buf_text(out, "{\"token\":");
    json_text_string(out, buf_span(&text));
    buf_text(out, ",\"logprob\":");
    json_text_number(out, logprob < -9999.0f ? -9999.0 : (double)logprob);
    buf_text(out, ",\"bytes\":[");
    for (size_t i = 0; i < text.size; i++)
        buf_printf(out, i ? ",%u" : "%u", (unsigned char)text.data[i]);
    buf_text(out, "]");
    buf_free(&text);
}

static void chat_logprob(const exchange *x, generation *g, const sampled_token *token)
{
    buf *out = &g->logprobs[0];
    if (out->size)
        buf_byte(out, ',');
    write_logprob(out, x, token->token, token->logprob);
    buf_text(out, ",\"top_logprobs\":[");
    uint32_t top = x->plan.sampling.logprobs - 1;
    for (uint32_t i = 0; i < token->top_count && i < top; i++) {
        if (i)
            buf_byte(out, ',');
        write_logprob(out, x, token->top_tokens[i], token->top_logprobs[i]);
        buf_byte(out, '}');
    }
    buf_text(out, "]}");
}

static void write_logprobs(buf *out, const exchange *x, generation *g)
{
    buf_text(out, ",\"logprobs\":");
    if (!x->plan.want_logprobs || !g->logprobs[0].size) {
        buf_text(out, "null");
        return;
    }
    buf_text(out, "{\"content\":[");
    buf_append(out, g->logprobs[0].data, g->logprobs[0].size);
    buf_text(out, "],\"refusal\":null}");
    buf_clear(&g->logprobs[0]);
}

static void write_finish(buf *out, const char *finish)
{
    if (finish)
        buf_printf(out, ",\"finish_reason\":\"%s\"}", finish);
    else
        buf_text(out, ",\"finish_reason\":null}");
}

static void chat_chunk_choice(buf *out, const exchange *x, generation *g, span text, const char *finish)
{
    buf_printf(out, "{\"index\":%u,\"delta\":{", g->index);
    if (!g->begun)
        buf_text(out, "\"role\":\"assistant\",");
    if (!finish || !g->begun || text.size) {
        buf_text(out, "\"content\":");
        json_text_string(out, text);
    }
    buf_byte(out, '}');
    write_logprobs(out, x, g);
    write_finish(out, finish);
}

static void chat_full_choice(buf *out, const exchange *x, generation *g)
{
    buf_printf(out, "{\"index\":%u,\"message\":{\"role\":\"assistant\",\"content\":", g->index);
    json_text_string(out, buf_span(&g->text));
    buf_text(out, ",\"refusal\":null}");
    write_logprobs(out, x, g);
    write_finish(out, g->finish);
}

const answer_format openai_chat_format = {
    .id_prefix = "chatcmpl-",
    .object = "chat.completion",
    .chunk_object = "chat.completion.chunk",
    .chunk_choice = chat_chunk_choice,
    .full_choice = chat_full_choice,
    .logprob = chat_logprob,
};
