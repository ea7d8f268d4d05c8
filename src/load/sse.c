/* load/sse.c: a line at a time; an empty line ends an event. */
#include "load/sse.h"

static void take_line(sse_parser *p)
{
    span line = buf_span(&p->line);
    if (line.size == 0) {
        if (p->data.size > 0)
            p->on_event(p->context, buf_span(&p->data));
        buf_clear(&p->data);
    } else if (line.size >= 5 && !memcmp(line.data, "data:", 5)) {
        size_t skip = line.size > 5 && line.data[5] == ' ' ? 6 : 5;
        if (p->data.size > 0)
            buf_byte(&p->data, '\n');
        buf_append(&p->data, line.data + skip, line.size - skip);
    }
    buf_clear(&p->line);
}

static size_t until_line_end(span bytes)
{
    size_t i = 0;
    while (i < bytes.size && bytes.data[i] != '\n' && bytes.data[i] != '\r')
        i++;
    return i;
}

void sse_push(sse_parser *p, span bytes)
{
    p->line.limit = p->data.limit = SSE_EVENT_MAX;
    while (bytes.size > 0 && !p->failed) {
        if (p->after_cr && bytes.data[0] == '\n') { /* the second half of CRLF */
            p->after_cr = false;
            bytes = span_of(bytes.data + 1, bytes.size - 1);
            continue;
        }
        p->after_cr = false;
        size_t size = until_line_end(bytes);
        buf_append(&p->line, bytes.data, size);
        if (size < bytes.size) {
            p->after_cr = bytes.data[size] == '\r';
            bool cut = p->line.failed;
            take_line(p);
            p->failed = cut || p->data.failed;
            size++;
        }
        p->failed = p->failed || p->line.failed;
        bytes = span_of(bytes.data + size, bytes.size - size);
    }
}

void sse_free(sse_parser *p)
{
    buf_free(&p->line);
    buf_free(&p->data);
}
