/* server/api/openai_chat.c: POST /v1/chat/completions. */
#include <stdio.h>
#include <stdlib.h>

#include "server/api/messages.h"
#include "server/api/openai.h"
#include "server/api/openai_answer.h"
#include "server/api/params.h"

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
    {"reasoning", NULL},
    {"thinking", NULL},
    {"enable_thinking", NULL},
    {"thinking_budget", NULL},
    {"max_thinking_tokens", NULL},
    {"thinking_token_budget", NULL},
    {"reasoning_budget", NULL},
    {"add_generation_prompt", NULL},
    {"continue_final_message", NULL},
    {"tools", NULL},
    {"tool_choice", NULL},
    {"parallel_tool_calls", NULL},
    {"chat_template_kwargs", read_kwargs},
    {"logprobs", read_logprobs},
    {"top_logprobs", read_top_logprobs},
    {NULL, NULL},
};

bool openai_chat_read(exchange *x, json_t *body)
{
    x->plan.prompts = calloc(1, sizeof *x->plan.prompts);
    x->plan.prompt_count = x->plan.prompts ? 1 : 0;
    if (!x->plan.prompts)
        return api_fail(&x->error, 500, NULL, "out of memory");
    if (!params_read(x, body, fields))
        return false;
    if (!x->plan.want_logprobs && x->plan.sampling.logprobs > 1)
        return api_fail(&x->error, 400, "top_logprobs", "top_logprobs needs \"logprobs\": true");
    if (!x->plan.want_logprobs)
        x->plan.sampling.logprobs = 0;
    return messages_tokenize(x, body, &x->plan.prompts[0]);
}

void openai_chat(exchange *x)
{
    json_t *body = params_parse_body(x);
    if (body && openai_chat_read(x, body))
        params_check_prompts(x);
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

static void write_text_field(buf *out, const char *name, span text)
{
    buf_printf(out, "\"%s\":", name);
    json_text_string(out, text);
}

/* Thoughts under the two names that clients read. */
static void write_thought(buf *out, span text)
{
    write_text_field(out, "reasoning_content", text);
    buf_byte(out, ',');
    write_text_field(out, "reasoning", text);
}

static void write_call(buf *out, const generation *g, uint32_t call, span name, span arguments, bool index)
{
    buf_byte(out, '{');
    if (index)
        buf_printf(out, "\"index\":%u,", call);
    buf_printf(out, "\"id\":\"%s\",\"type\":\"function\",\"function\":{", generation_call_id(g, call));
    write_text_field(out, "name", name);
    buf_byte(out, ',');
    write_text_field(out, "arguments", arguments);
    buf_text(out, "}}");
}

/* One piece as a field of a delta; false: it is none. */
static bool write_delta(buf *out, const generation *g, const answer_piece *piece, span text)
{
    switch (piece->kind) {
    case PIECE_TEXT:
        write_text_field(out, "content", text);
        return true;
    case PIECE_THOUGHT:
        write_thought(out, text);
        return true;
    case PIECE_CALL:
        buf_text(out, "\"tool_calls\":[");
        write_call(out, g, piece->call, text, (span){0}, true);
        buf_byte(out, ']');
        return true;
    case PIECE_ARGUMENTS:
        buf_printf(out, "\"tool_calls\":[{\"index\":%u,\"function\":{", piece->call);
        write_text_field(out, "arguments", text);
        buf_text(out, "}}]");
        return true;
    default:
        return false;
    }
}

static void chat_chunk_choice(buf *out, const exchange *x, generation *g, const char *finish)
{
    const answer_piece *piece = finish || g->taken >= g->pieces.count ? NULL : &g->pieces.items[g->taken];
    buf_printf(out, "{\"index\":%u,\"delta\":{", g->index);
    bool first = !g->begun;
    if (first)
        buf_text(out, "\"role\":\"assistant\",");
    if (piece) {
        if (first && piece->kind != PIECE_TEXT)
            buf_text(out, "\"content\":null,");
        write_delta(out, g, piece, answer_piece_text(&g->pieces, g->taken));
    } else if (first || !finish) {
        buf_text(out, "\"content\":\"\"");
    }
    buf_byte(out, '}');
    write_logprobs(out, x, g);
    write_finish(out, finish);
    g->begun = true;
}

static void write_calls(buf *out, const generation *g)
{
    uint32_t call = 0;
    buf_text(out, ",\"tool_calls\":[");
    for (uint32_t i = 0; i < g->pieces.count; i++) {
        if (g->pieces.items[i].kind != PIECE_CALL)
            continue;
        buf arguments = {0};
        answer_pieces_join(&g->pieces, PIECE_ARGUMENTS, call, &arguments);
        if (call)
            buf_byte(out, ',');
        write_call(out, g, call, answer_piece_text(&g->pieces, i), buf_span(&arguments), false);
        buf_free(&arguments);
        call++;
    }
    buf_byte(out, ']');
}

static void chat_full_choice(buf *out, const exchange *x, generation *g)
{
    buf text = {0};
    buf_printf(out, "{\"index\":%u,\"message\":{\"role\":\"assistant\",\"content\":", g->index);
    if (answer_pieces_join(&g->pieces, PIECE_TEXT, 0, &text) || !g->call_count)
        json_text_string(out, buf_span(&text));
    else
        buf_text(out, "null");
    buf_clear(&text);
    if (answer_pieces_join(&g->pieces, PIECE_THOUGHT, 0, &text)) {
        buf_byte(out, ',');
        write_thought(out, buf_span(&text));
    }
    buf_free(&text);
    if (g->call_count)
        write_calls(out, g);
    buf_text(out, ",\"refusal\":null}");
    write_logprobs(out, x, g);
    write_finish(out, g->finish);
}

static const openai_shape shape = {"chat.completion", "chat.completion.chunk", chat_chunk_choice, chat_full_choice};

static void chat_begin(buf *out, exchange *x)
{
    (void)out;
    openai_begin(x, &shape);
}

/* A chunk for each piece: a delta holds one kind of thing. */
static void chat_pieces(buf *out, exchange *x, generation *g)
{
    size_t written = out->size;
    for (g->taken = 0; g->taken < g->pieces.count; g->taken++) {
        piece_kind kind = g->pieces.items[g->taken].kind;
        if (kind != PIECE_CALL_END && kind != PIECE_CALL_CUT)
            openai_chunk(out, x, g, &shape, NULL);
    }
    if (out->size == written && g->logprobs[0].size)
        openai_chunk(out, x, g, &shape, NULL);
    g->taken = 0;
}

static void chat_finish(buf *out, exchange *x, generation *g)
{
    openai_chunk(out, x, g, &shape, g->finish);
}

static void chat_whole(buf *out, exchange *x)
{
    openai_whole(out, x, &shape);
}

const answer_format openai_chat_format = {
    .id_prefix = "chatcmpl-",
    .begin = chat_begin,
    .pieces = chat_pieces,
    .finish = chat_finish,
    .end = openai_end,
    .whole = chat_whole,
    .progress = openai_progress,
    .logprob = chat_logprob,
};
