/* server/api/responses_answer.c: an answer as output items, whole or as numbered events. g->block is the item that is
 * open: its kind is that of its pieces, plus one; 0: none is. What a done event repeats is read from g->all. */
#include <stdio.h>

#include "server/api/answer_items.h"
#include "server/api/responses.h"
#include "server/cache_usage.h"

typedef struct {
    const char *item;   /* its type */
    const char *prefix; /* of its id */
    const char *part;   /* the type of its one part; NULL: it has none */
    const char *event;  /* "response.….delta" and "….done" */
    const char *field;  /* what a done event calls the text */
} item_kind;

static const item_kind text_kind = {"message", "msg", "output_text", "response.output_text", "text"};
static const item_kind thought_kind = {"reasoning", "rs", "reasoning_text", "response.reasoning_text", "text"};
static const item_kind call_kind = {"function_call", "fc", NULL, "response.function_call_arguments", "arguments"};

static const item_kind *kind_of(piece_kind kind)
{
    return kind == PIECE_TEXT ? &text_kind : kind == PIECE_THOUGHT ? &thought_kind : &call_kind;
}

static responses_state *state_of(const exchange *x)
{
    return x->own;
}

static void write_field(buf *out, const char *name, span text)
{
    buf_printf(out, "\"%s\":", name);
    json_text_string(out, text);
}

/* ---- items ---- */

static void write_item_id(buf *out, const exchange *x, const item_kind *kind, uint32_t index)
{
    buf_printf(out, "\"%s_%s_%u\"", kind->prefix, x->id + 5, index); /* behind "resp_" */
}

static void write_part(buf *out, const item_kind *kind, span text)
{
    buf_printf(out, "{\"type\":\"%s\",", kind->part);
    write_field(out, "text", text);
    buf_text(out, kind == &text_kind ? ",\"annotations\":[],\"logprobs\":[]}" : "}");
}

static void write_call(buf *out, const generation *g, const answer_item *item, bool whole)
{
    span arguments = !whole ? (span){0} : item->arguments.size || item->cut ? item->arguments : span_from("{}");
    buf_printf(out, ",\"call_id\":\"%s\",", generation_call_id(g, item->call));
    write_field(out, "name", item->text);
    buf_byte(out, ',');
    write_field(out, "arguments", arguments);
}

static void write_encrypted(buf *out, span text)
{
    buf all = {0};
    buf_text(&all, REASONING_MARK);
    buf_append(&all, text.data, text.size);
    buf_byte(out, ',');
    write_field(out, "encrypted_content", buf_span(&all));
    buf_free(&all);
}

/* `status`: "in_progress": as it is when it begins. */
static void write_item(buf *out, const generation *g, uint32_t index, const answer_item *item, const char *status)
{
    const exchange *x = g->exchange;
    const item_kind *kind = kind_of(item->kind);
    bool whole = strcmp(status, "in_progress") != 0;
    buf_text(out, "{\"id\":");
    write_item_id(out, x, kind, index);
    buf_printf(out, ",\"type\":\"%s\",\"status\":\"%s\"", kind->item, status);
    if (kind == &call_kind)
        write_call(out, g, item, whole);
    else if (kind == &text_kind)
        buf_text(out, ",\"role\":\"assistant\"");
    else
        buf_text(out, ",\"summary\":[]");
    if (kind->part) {
        buf_text(out, ",\"content\":[");
        if (whole)
            write_part(out, kind, item->text);
        buf_byte(out, ']');
    }
    if (kind == &thought_kind && whole && state_of(x)->encrypted)
        write_encrypted(out, item->text);
    buf_byte(out, '}');
}

/* `last`: the answer ended with it. */
static const char *item_status(const generation *g, const answer_item *item, bool last)
{
    bool ran_out = last && g->finish && strcmp(g->finish, "stop") != 0 && strcmp(g->finish, "tool_calls") != 0;
    return item->cut || (ran_out && item->kind != PIECE_CALL) ? "incomplete" : "completed";
}

static void write_output(buf *out, const generation *g)
{
    answer_item item, next;
    uint32_t at = 0, index = 0;
    bool more = answer_items_next(&g->all, &at, &item);
    buf_text(out, "\"output\":[");
    while (more) {
        more = answer_items_next(&g->all, &at, &next);
        if (index)
            buf_byte(out, ',');
        write_item(out, g, index++, &item, item_status(g, &item, !more));
        item = next;
    }
    buf_byte(out, ']');
}

/* ---- the response ---- */

static void write_usage(buf *out, const generation *g)
{
    buf_printf(out,
               "\"usage\":{\"input_tokens\":%u,\"input_tokens_details\":{\"cached_tokens\":%u,"
               "\"cache_write_tokens\":0},\"output_tokens\":%u,\"output_tokens_details\":{\"reasoning_tokens\":%u},"
               "\"total_tokens\":%u}",
               g->prompt_tokens, g->cached, g->tokens, g->thought_tokens, g->prompt_tokens + g->tokens);
}

static const char *response_status(const generation *g)
{
    if (!g->finish)
        return "in_progress";
    if (strcmp(g->finish, "length") == 0)
        return "incomplete";
    return strcmp(g->finish, "stop") == 0 || strcmp(g->finish, "tool_calls") == 0 ? "completed" : "failed";
}

static void write_outcome(buf *out, const generation *g, const char *status)
{
    bool failed = strcmp(status, "failed") == 0;
    buf_printf(out, "\"status\":\"%s\",\"error\":", status);
    if (failed) {
        bool aborted = strcmp(g->finish, "abort") == 0;
        buf_text(out, "{\"code\":\"server_error\",");
        write_field(out, "message",
                    span_from(g->error[0] ? g->error
                              : aborted   ? "the server stopped before the answer was complete"
                                          : "the engine failed"));
        buf_byte(out, '}');
    } else {
        buf_text(out, "null");
    }
    buf_text(out, strcmp(status, "incomplete") == 0 ? ",\"incomplete_details\":{\"reason\":\"max_output_tokens\"},"
                                                    : ",\"incomplete_details\":null,");
}

static void write_response(buf *out, const exchange *x, const generation *g, const char *status)
{
    bool ended = strcmp(status, "in_progress") != 0;
    const buf *echo = &state_of(x)->echo;
    buf_printf(out, "{\"id\":\"%s\",\"object\":\"response\",\"created_at\":%llu,", x->id,
               (unsigned long long)x->created_unix);
    write_outcome(out, g, status);
    write_field(out, "model", span_from(x->model->name));
    buf_byte(out, ',');
    buf_append(out, echo->data, echo->size);
    if (x->plan.tier == TIER_NONE)
        buf_text(out, "\"service_tier\":null,");
    else
        buf_printf(out, "\"service_tier\":\"%s\",", terms_tier_text(&x->terms, x->plan.tier));
    if (!ended) {
        buf_text(out, "\"output\":[],\"usage\":null}");
        return;
    }
    write_output(out, g);
    buf_byte(out, ',');
    write_usage(out, g);
    cache_usage_field(x, g, out);
    buf_byte(out, '}');
}

/* ---- a stream ---- */

static void begin_event(buf *out, const exchange *x, const char *type, const char *tail)
{
    buf_printf(out, "event: %s%s\ndata: {\"type\":\"%s%s\",\"sequence_number\":%u,", type, tail, type, tail,
               state_of(x)->sequence++);
}

static void end_event(buf *out)
{
    buf_text(out, "}\n\n");
}

static void write_response_event(buf *out, exchange *x, const char *type, const char *status)
{
    begin_event(out, x, "response.", type);
    buf_text(out, "\"response\":");
    write_response(out, x, &x->generations[0], status);
    end_event(out);
}

/* Which part of which item an event is about. */
static void write_place(buf *out, const generation *g, const item_kind *kind)
{
    buf_text(out, "\"item_id\":");
    write_item_id(out, g->exchange, kind, g->block.index);
    buf_printf(out, ",\"output_index\":%u,", g->block.index);
    if (kind->part)
        buf_text(out, "\"content_index\":0,");
    if (kind == &text_kind)
        buf_text(out, "\"logprobs\":[],");
}

static void write_part_event(buf *out, const generation *g, const item_kind *kind, const char *tail, span text)
{
    if (!kind->part)
        return;
    begin_event(out, g->exchange, "response.content_part.", tail);
    buf_text(out, "\"item_id\":");
    write_item_id(out, g->exchange, kind, g->block.index);
    buf_printf(out, ",\"output_index\":%u,\"content_index\":0,\"part\":", g->block.index);
    write_part(out, kind, text);
    end_event(out);
}

static void write_item_event(buf *out, const generation *g, const answer_item *item, const char *tail,
                             const char *status)
{
    begin_event(out, g->exchange, "response.output_item.", tail);
    buf_printf(out, "\"output_index\":%u,\"item\":", g->block.index);
    write_item(out, g, g->block.index, item, status);
    end_event(out);
}

static void close_item(buf *out, generation *g, bool last)
{
    answer_item item;
    if (!g->block.kind)
        return;
    if (answer_items_get(&g->all, g->block.index, &item)) {
        const item_kind *kind = kind_of(item.kind);
        span text = kind == &call_kind ? item.arguments : item.text;
        begin_event(out, g->exchange, kind->event, ".done");
        write_place(out, g, kind);
        if (kind == &call_kind) {
            write_field(out, "name", item.text);
            buf_byte(out, ',');
        }
        write_field(out, kind->field, text.size || item.cut || kind != &call_kind ? text : span_from("{}"));
        end_event(out);
        write_part_event(out, g, kind, "done", text);
        write_item_event(out, g, &item, "done", item_status(g, &item, last));
    }
    g->block.kind = 0;
    g->block.index++;
}

static void open_item(buf *out, generation *g, const answer_piece *piece, span text)
{
    answer_item item = {.kind = piece->kind, .call = piece->call, .text = text};
    close_item(out, g, false);
    g->block.kind = (int)piece->kind + 1;
    write_item_event(out, g, &item, "added", "in_progress");
    write_part_event(out, g, kind_of(piece->kind), "added", (span){0});
}

static void write_delta(buf *out, const generation *g, const item_kind *kind, span text)
{
    begin_event(out, g->exchange, kind->event, ".delta");
    write_place(out, g, kind);
    write_field(out, "delta", text);
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
            open_item(out, g, piece, text);
        write_delta(out, g, kind_of(piece->kind), text);
        break;
    case PIECE_CALL:
        open_item(out, g, piece, text);
        break;
    case PIECE_ARGUMENTS:
        write_delta(out, g, &call_kind, text);
        break;
    case PIECE_CALL_END:
    case PIECE_CALL_CUT:
        close_item(out, g, false);
        break;
    }
}

static void begin(buf *out, exchange *x)
{
    if (!x->plan.stream)
        return;
    write_response_event(out, x, "created", "in_progress");
    write_response_event(out, x, "in_progress", "in_progress");
}

static void stream_pieces(buf *out, exchange *x, generation *g)
{
    (void)x;
    for (uint32_t i = 0; i < g->pieces.count; i++)
        write_piece(out, g, i);
}

static void stream_end(buf *out, exchange *x, generation *g)
{
    const char *status = response_status(g);
    close_item(out, g, true);
    write_response_event(out, x, status, status);
}

static void whole(buf *out, exchange *x)
{
    write_response(out, x, &x->generations[0], response_status(&x->generations[0]));
}

const answer_format responses_format = {
    .id_prefix = "resp_",
    .keeps_all = true,
    .begin = begin,
    .pieces = stream_pieces,
    .finish = stream_end,
    .failed = stream_end,
    .whole = whole,
};
