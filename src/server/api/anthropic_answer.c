/* server/api/anthropic_answer.c: an answer as a message of content blocks, whole or as events. g->block is the block
 * that is open: its kind is that of its pieces, plus one; 0: none is. A stream's first event waits for the first
 * token, which is when the engine knows how much of the prompt was cached. */
#include "server/api/anthropic.h"
#include "server/api/answer_items.h"
#include "server/cache_usage.h"

/* Clients send thoughts back with it, and some drop one that has none. Nothing is checked. */
#define SIGNATURE "headway"

static const char *stop_reason(const exchange *x, const generation *g)
{
    if (strcmp(g->finish, "tool_calls") == 0)
        return "tool_use";
    if (strcmp(g->finish, "length") == 0)
        return g->tokens < x->plan.max_tokens ? "model_context_window_exceeded" : "max_tokens";
    return g->stop_string >= 0 ? "stop_sequence" : "end_turn";
}

static span stop_text(const exchange *x, int index)
{
    return span_of(x->plan.stops.text[index], x->plan.stops.size[index]);
}

static void write_stop(buf *out, const exchange *x, const generation *g)
{
    buf_printf(out, "\"stop_reason\":\"%s\",\"stop_sequence\":", stop_reason(x, g));
    if (g->stop_string >= 0 && strcmp(g->finish, "stop") == 0)
        json_text_string(out, stop_text(x, g->stop_string));
    else
        buf_text(out, "null");
}

/* Nothing is charged for what the cache takes: what was not read from it counts as input. */
static void write_counts(buf *out, const exchange *x, const generation *g)
{
    buf_printf(out,
               "\"input_tokens\":%u,\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":%u,"
               "\"output_tokens\":%u",
               g->prompt_tokens - g->cached, g->cached, g->tokens);
    if (x->plan.output.thoughts)
        buf_printf(out, ",\"output_tokens_details\":{\"thinking_tokens\":%u}", g->thought_tokens);
}

static void write_usage(buf *out, const exchange *x, const generation *g)
{
    const char *tier = x->plan.tier == TIER_NONE ? "default" : terms_tier_text(&x->terms, x->plan.tier);
    buf_text(out, "\"usage\":{");
    write_counts(out, x, g);
    buf_printf(out, ",\"cache_creation\":null,\"server_tool_use\":null,\"service_tier\":\"%s\"}",
               x->terms.klass == CLASS_BATCH   ? "batch"
               : strcmp(tier, "priority") == 0 ? "priority"
                                               : "standard");
}

static void write_message_head(buf *out, const exchange *x)
{
    buf_printf(out, "{\"id\":\"%s\",\"type\":\"message\",\"role\":\"assistant\",\"model\":", x->id);
    json_text_string(out, span_from(x->model->name));
    buf_text(out, ",\"content\":[");
}

/* ---- a stream ---- */

static void begin_event(buf *out, const char *type)
{
    buf_printf(out, "event: %s\ndata: {\"type\":\"%s\"", type, type);
}

static void end_event(buf *out)
{
    buf_text(out, "}\n\n");
}

static void write_ping(buf *out)
{
    begin_event(out, "ping");
    end_event(out);
}

static void begin_message(buf *out, exchange *x, generation *g)
{
    if (g->begun)
        return;
    g->begun = true;
    begin_event(out, "message_start");
    buf_text(out, ",\"message\":");
    write_message_head(out, x);
    buf_text(out, "],\"stop_reason\":null,\"stop_sequence\":null,");
    write_usage(out, x, g);
    buf_byte(out, '}');
    end_event(out);
    write_ping(out);
}

static void begin_delta(buf *out, const generation *g, const char *type, const char *field)
{
    begin_event(out, "content_block_delta");
    buf_printf(out, ",\"index\":%u,\"delta\":{\"type\":\"%s\",\"%s\":", g->block.index, type, field);
}

static void write_delta(buf *out, const generation *g, const char *type, const char *field, span text)
{
    begin_delta(out, g, type, field);
    json_text_string(out, text);
    buf_byte(out, '}');
    end_event(out);
}

static void close_block(buf *out, generation *g)
{
    if (!g->block.kind)
        return;
    if (g->block.kind == PIECE_THOUGHT + 1)
        write_delta(out, g, "signature_delta", "signature", span_from(SIGNATURE));
    begin_event(out, "content_block_stop");
    buf_printf(out, ",\"index\":%u", g->block.index);
    end_event(out);
    g->block.kind = 0;
    g->block.index++;
}

static void open_block(buf *out, generation *g, const answer_piece *piece, span text)
{
    close_block(out, g);
    g->block.kind = (int)piece->kind + 1;
    begin_event(out, "content_block_start");
    buf_printf(out, ",\"index\":%u,\"content_block\":{", g->block.index);
    if (piece->kind == PIECE_TEXT) {
        buf_text(out, "\"type\":\"text\",\"text\":\"\"}");
    } else if (piece->kind == PIECE_THOUGHT) {
        buf_text(out, "\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}");
    } else {
        buf_printf(out, "\"type\":\"tool_use\",\"id\":\"%s\",\"name\":", generation_call_id(g, piece->call));
        json_text_string(out, text);
        buf_text(out, ",\"input\":{}}");
    }
    end_event(out);
}

static void write_piece(buf *out, generation *g, uint32_t i)
{
    const answer_piece *piece = &g->pieces.items[i];
    span text = answer_piece_text(&g->pieces, i);
    switch (piece->kind) {
    case PIECE_TEXT:
    case PIECE_THOUGHT:
        if (g->block.kind != (int)piece->kind + 1)
            open_block(out, g, piece, text);
        if (piece->kind == PIECE_TEXT)
            write_delta(out, g, "text_delta", "text", text);
        else
            write_delta(out, g, "thinking_delta", "thinking", text);
        break;
    case PIECE_CALL:
        open_block(out, g, piece, text);
        break;
    case PIECE_ARGUMENTS:
        write_delta(out, g, "input_json_delta", "partial_json", text);
        break;
    case PIECE_CALL_END:
    case PIECE_CALL_CUT:
        close_block(out, g);
        break;
    }
}

static void stream_pieces(buf *out, exchange *x, generation *g)
{
    begin_message(out, x, g);
    for (uint32_t i = 0; i < g->pieces.count; i++)
        write_piece(out, g, i);
}

static void stream_failed(buf *out, exchange *x, generation *g)
{
    api_error e = {0};
    bool aborted = g->finish && strcmp(g->finish, "abort") == 0;
    api_fail(&e, aborted ? 503 : 500, NULL, "%s",
             g->error[0] ? g->error
             : aborted   ? "the server stopped before the answer was complete"
                         : "the engine failed");
    memcpy(e.request_id, x->request_id, sizeof e.request_id);
    buf_text(out, "event: error\ndata: ");
    anthropic_write_error(&e, out);
    buf_text(out, "\n\n");
}

static void stream_finish(buf *out, exchange *x, generation *g)
{
    if (strcmp(g->finish, "abort") == 0) {
        stream_failed(out, x, g);
        return;
    }
    begin_message(out, x, g);
    close_block(out, g);
    begin_event(out, "message_delta");
    buf_text(out, ",\"delta\":{");
    write_stop(out, x, g);
    buf_text(out, "},\"usage\":{");
    write_counts(out, x, g);
    buf_byte(out, '}');
    cache_usage_field(x, g, out);
    end_event(out);
    begin_event(out, "message_stop");
    end_event(out);
}

/* ---- a whole answer ---- */

static void write_field(buf *out, const char *name, span text)
{
    buf_printf(out, "\"%s\":", name);
    json_text_string(out, text);
}

/* A call that was cut has no input that could be sent: what there is of it is text. */
static void write_block(buf *out, const generation *g, const answer_item *item)
{
    if (item->kind == PIECE_THOUGHT) {
        buf_text(out, "{\"type\":\"thinking\",");
        write_field(out, "thinking", item->text);
        buf_text(out, ",\"signature\":\"" SIGNATURE "\"}");
    } else if (item->kind == PIECE_TEXT || item->cut) {
        buf_text(out, "{\"type\":\"text\",");
        write_field(out, "text", item->kind == PIECE_TEXT ? item->text : item->arguments);
        buf_byte(out, '}');
    } else {
        buf_printf(out, "{\"type\":\"tool_use\",\"id\":\"%s\",", generation_call_id(g, item->call));
        write_field(out, "name", item->text);
        buf_text(out, ",\"input\":");
        if (item->arguments.size)
            buf_append(out, item->arguments.data, item->arguments.size);
        else
            buf_text(out, "{}");
        buf_byte(out, '}');
    }
}

static void whole(buf *out, exchange *x)
{
    const generation *g = &x->generations[0];
    answer_item item;
    bool first = true;
    write_message_head(out, x);
    for (uint32_t at = 0; answer_items_next(&g->pieces, &at, &item); first = false) {
        if (!first)
            buf_byte(out, ',');
        write_block(out, g, &item);
    }
    buf_text(out, "],");
    write_stop(out, x, g);
    buf_byte(out, ',');
    write_usage(out, x, g);
    cache_usage_field(x, g, out);
    buf_byte(out, '}');
}

const answer_format anthropic_format = {
    .id_prefix = "msg_",
    .call_prefix = "toolu_",
    .ping = "event: ping\ndata: {\"type\":\"ping\"}\n\n",
    .pieces = stream_pieces,
    .finish = stream_finish,
    .failed = stream_failed,
    .whole = whole,
    .write_error = anthropic_write_error,
};
