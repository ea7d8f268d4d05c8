/* server/api/ollama_answer.c: what /api/chat and /api/generate write. A stream is one object a line; a call is written
 * when it is whole, for its arguments are an object there. */
#include <time.h>

#include "base/clock.h"
#include "server/api/ollama.h"

void ollama_write_error(const api_error *e, buf *out)
{
    buf_text(out, "{\"error\":");
    json_text_string(out, span_from(e->message));
    buf_byte(out, '}');
}

void ollama_write_time(buf *out, uint64_t unix_seconds)
{
    char text[40];
    struct tm parts;
    time_t when = (time_t)unix_seconds;
    gmtime_r(&when, &parts);
    strftime(text, sizeof text, "\"%Y-%m-%dT%H:%M:%SZ\"", &parts);
    buf_text(out, text);
}

static void write_start(buf *out, const exchange *x)
{
    buf_text(out, "{\"model\":");
    json_text_string(out, span_from(x->model->name));
    buf_text(out, ",\"created_at\":");
    ollama_write_time(out, clock_unix_seconds());
}

static void write_string(buf *out, const char *name, span text)
{
    buf_printf(out, ",\"%s\":", name);
    json_text_string(out, text);
}

static void write_call(buf *out, const answer_pieces *pieces, uint32_t call)
{
    buf name = {0}, arguments = {0};
    answer_pieces_join(pieces, PIECE_CALL, call, &name);
    answer_pieces_join(pieces, PIECE_ARGUMENTS, call, &arguments);
    buf_printf(out, "{\"function\":{\"index\":%u", call);
    write_string(out, "name", buf_span(&name));
    buf_text(out, ",\"arguments\":");
    if (arguments.size)
        buf_append(out, arguments.data, arguments.size);
    else
        buf_text(out, "{}");
    buf_text(out, "}}");
    buf_free(&name);
    buf_free(&arguments);
}

/* How it ended, how much it was and how long it took. */
static void write_end(buf *out, const exchange *x, const generation *g)
{
    const char *reason = strcmp(g->finish, "length") == 0 ? "length" : "stop";
    unsigned long long total_us = clock_now_us() - x->arrived_us;
    buf_printf(out, ",\"done\":true,\"done_reason\":\"%s\",\"total_duration\":%llu,\"load_duration\":0", reason,
               total_us * 1000);
    buf_printf(out, ",\"prompt_eval_count\":%u,\"prompt_eval_duration\":%llu,\"eval_count\":%u,\"eval_duration\":%llu}",
               g->prompt_tokens, (unsigned long long)g->prefill_us * 1000, g->tokens,
               (unsigned long long)g->decode_us * 1000);
}

static void failed(buf *out, exchange *x, generation *g)
{
    (void)x;
    buf_text(out, "{\"error\":");
    json_text_string(out, span_from(g->error[0] ? g->error : "the engine failed"));
    buf_text(out, "}\n");
}

/* ---- chat ---- */

static void write_message(buf *out, span text, span thought)
{
    buf_text(out, ",\"message\":{\"role\":\"assistant\"");
    write_string(out, "content", text);
    if (thought.size)
        write_string(out, "thinking", thought);
}

static void chat_pieces(buf *out, exchange *x, generation *g)
{
    for (uint32_t i = 0; i < g->pieces.count; i++) {
        const answer_piece *piece = &g->pieces.items[i];
        span text = answer_piece_text(&g->pieces, i), none = span_of("", 0);
        if (piece->kind != PIECE_TEXT && piece->kind != PIECE_THOUGHT && piece->kind != PIECE_CALL_END)
            continue;
        write_start(out, x);
        write_message(out, piece->kind == PIECE_TEXT ? text : none, piece->kind == PIECE_THOUGHT ? text : none);
        if (piece->kind == PIECE_CALL_END) {
            buf_text(out, ",\"tool_calls\":[");
            write_call(out, &g->all, piece->call);
            buf_byte(out, ']');
        }
        buf_text(out, "},\"done\":false}\n");
    }
}

static void chat_finish(buf *out, exchange *x, generation *g)
{
    write_start(out, x);
    write_message(out, span_of("", 0), (span){0});
    buf_byte(out, '}');
    write_end(out, x, g);
    buf_byte(out, '\n');
}

static void chat_whole(buf *out, exchange *x)
{
    generation *g = &x->generations[0];
    buf text = {0}, thought = {0};
    answer_pieces_join(&g->pieces, PIECE_TEXT, 0, &text);
    answer_pieces_join(&g->pieces, PIECE_THOUGHT, 0, &thought);
    write_start(out, x);
    write_message(out, buf_span(&text), buf_span(&thought));
    if (g->calls_whole) {
        buf_text(out, ",\"tool_calls\":[");
        for (uint32_t call = 0; call < g->calls_whole; call++) {
            if (call)
                buf_byte(out, ',');
            write_call(out, &g->pieces, call);
        }
        buf_byte(out, ']');
    }
    buf_byte(out, '}');
    write_end(out, x, g);
    buf_free(&text);
    buf_free(&thought);
}

/* ---- generate ---- */

static void generate_pieces(buf *out, exchange *x, generation *g)
{
    for (uint32_t i = 0; i < g->pieces.count; i++) {
        bool thought = g->pieces.items[i].kind == PIECE_THOUGHT;
        if (!thought && g->pieces.items[i].kind != PIECE_TEXT)
            continue;
        write_start(out, x);
        write_string(out, "response", thought ? span_of("", 0) : answer_piece_text(&g->pieces, i));
        if (thought)
            write_string(out, "thinking", answer_piece_text(&g->pieces, i));
        buf_text(out, ",\"done\":false}\n");
    }
}

static void generate_finish(buf *out, exchange *x, generation *g)
{
    write_start(out, x);
    write_string(out, "response", span_of("", 0));
    write_end(out, x, g);
    buf_byte(out, '\n');
}

static void generate_whole(buf *out, exchange *x)
{
    generation *g = &x->generations[0];
    buf text = {0}, thought = {0};
    answer_pieces_join(&g->pieces, PIECE_TEXT, 0, &text);
    answer_pieces_join(&g->pieces, PIECE_THOUGHT, 0, &thought);
    write_start(out, x);
    write_string(out, "response", buf_span(&text));
    if (thought.size)
        write_string(out, "thinking", buf_span(&thought));
    write_end(out, x, g);
    buf_free(&text);
    buf_free(&thought);
}

void ollama_write_loaded(exchange *x)
{
    buf *out = &x->answer.body;
    write_start(out, x);
    if (x->route->format == &ollama_chat_format) {
        write_message(out, span_of("", 0), (span){0});
        buf_byte(out, '}');
    } else {
        write_string(out, "response", span_of("", 0));
    }
    buf_text(out, ",\"done\":true,\"done_reason\":\"load\"}");
    x->answer.status = 200;
    x->answer.type = "application/json";
}

const answer_format ollama_chat_format = {
    .id_prefix = "ollama-",
    .stream_type = "application/x-ndjson",
    .ping = "",
    .keeps_all = true,
    .pieces = chat_pieces,
    .finish = chat_finish,
    .failed = failed,
    .whole = chat_whole,
    .write_error = ollama_write_error,
};

const answer_format ollama_generate_format = {
    .id_prefix = "ollama-",
    .stream_type = "application/x-ndjson",
    .ping = "",
    .pieces = generate_pieces,
    .finish = generate_finish,
    .failed = failed,
    .whole = generate_whole,
    .write_error = ollama_write_error,
};
