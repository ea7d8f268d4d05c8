/* cli/chat_stream.c: server-sent events of /v1/chat/completions, as text. */
#include <stdio.h>

#include "cli/chat.h"

static void fail(chat_stream *stream, const char *what)
{
    if (!stream->failed)
        error_set(&stream->problem, ERR_IO, "%s", what);
    stream->failed = true;
}

static void give_text(chat_stream *stream, json_t *delta, const char *key, bool reasoning)
{
    json_t *text = json_object_get(delta, key);
    if (json_is_string(text) && json_string_length(text) > 0)
        stream->on_text(stream->context, span_of(json_string_value(text), json_string_length(text)), reasoning);
}

static void take_event(chat_stream *stream, span data)
{
    if (span_is(data, "[DONE]")) {
        stream->done = true;
        return;
    }
    json_error_t problem;
    json_t *event = json_loadb(data.data, data.size, JSON_ALLOW_NUL, &problem);
    if (!event) {
        fail(stream, "the server sent an event that is not JSON");
        return;
    }
    json_t *words = json_object_get(event, "error");
    if (words) {
        const char *text = json_string_value(json_object_get(words, "message"));
        fail(stream, text ? text : "the server reported an error without a message");
    }
    json_t *choice = json_array_get(json_object_get(event, "choices"), 0);
    json_t *delta = json_object_get(choice, "delta");
    give_text(stream, delta, "reasoning_content", true);
    give_text(stream, delta, "content", false);
    const char *finish = json_string_value(json_object_get(choice, "finish_reason"));
    if (finish)
        snprintf(stream->finish, sizeof stream->finish, "%s", finish);
    json_decref(event);
}

static void take_line(chat_stream *stream)
{
    span line = buf_span(&stream->line);
    if (line.size > 0 && line.data[line.size - 1] == '\r')
        line.size--;
    if (line.size == 0) {
        if (stream->data.size > 0 && !stream->done)
            take_event(stream, buf_span(&stream->data));
        buf_clear(&stream->data);
    } else if (line.size >= 5 && !memcmp(line.data, "data:", 5)) {
        size_t skip = line.size > 5 && line.data[5] == ' ' ? 6 : 5;
        if (stream->data.size > 0)
            buf_byte(&stream->data, '\n');
        buf_append(&stream->data, line.data + skip, line.size - skip);
    } /* comments and other fields say nothing to us */
    buf_clear(&stream->line);
}

void chat_stream_push(chat_stream *stream, span bytes)
{
    stream->line.limit = stream->data.limit = CHAT_EVENT_MAX;
    while (bytes.size > 0 && !stream->failed) {
        const char *end = memchr(bytes.data, '\n', bytes.size);
        size_t size = end ? (size_t)(end - bytes.data) : bytes.size;
        buf_append(&stream->line, bytes.data, size);
        if (stream->line.failed || stream->data.failed)
            fail(stream, "the server sent an event that is too long");
        else if (end)
            take_line(stream);
        size += end ? 1 : 0;
        bytes = span_of(bytes.data + size, bytes.size - size);
    }
}

void chat_stream_free(chat_stream *stream)
{
    buf_free(&stream->line);
    buf_free(&stream->data);
}

void chat_printable(span text, unsigned char *held, buf *out)
{
    for (size_t i = 0; i < text.size; i++) {
        unsigned char byte = (unsigned char)text.data[i];
        if (*held) { /* U+0080 to U+009F are C2 80 to C2 9F */
            if (byte < 0x80 || byte >= 0xa0)
                buf_byte(out, (char)*held);
            bool control = byte >= 0x80 && byte < 0xa0;
            *held = 0;
            if (control)
                continue;
        }
        if (byte == 0xc2)
            *held = byte;
        else if ((byte >= 0x20 && byte != 0x7f) || byte == '\n' || byte == '\t')
            buf_byte(out, (char)byte);
    }
}
