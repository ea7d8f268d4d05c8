/* server/debug/trace_stream.c: see trace_stream.h. */
#include "server/debug/trace_stream.h"

#include <stdlib.h>

#include "base/clock.h"
#include "server/debug/query.h"
#include "server/debug/trace_export.h"

struct trace_stream {
    uint64_t cursor, end_us;
    trace_export out;
};

static uint32_t streams_open(const server *s)
{
    uint32_t count = 0;
    for (const exchange *x = server_exchanges(s); x; x = x->next)
        count += x->tracing && x->connection;
    return count;
}

static bool read_seconds(exchange *x, uint64_t *seconds)
{
    *seconds = 5;
    if (query_number(buf_span(&x->query), "seconds", seconds) == QUERY_WRONG || *seconds < 1 ||
        *seconds > TRACE_SECONDS_MAX)
        return api_fail(&x->error, 400, "seconds", "seconds must be a whole number from 1 to %d", TRACE_SECONDS_MAX);
    if (!x->head_only && streams_open(x->server) >= TRACE_STREAMS_MAX) {
        x->error.retry_after = 10;
        return api_fail(&x->error, 429, NULL, "%d traces are being taken already", TRACE_STREAMS_MAX);
    }
    return true;
}

void debug_trace(exchange *x)
{
    uint64_t seconds, lost, now_us = clock_now_us();
    static const char headers[] = "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
                                  "Content-Disposition: attachment; filename=\"headway-trace.json\"\r\n";
    if (!read_seconds(x, &seconds))
        return;
    if (x->head_only) {
        x->answer.status = 200;
        x->answer.type = "application/json";
        return;
    }
    trace_stream *t = calloc(1, sizeof *t);
    if (!t) {
        api_fail(&x->error, 503, NULL, "out of memory");
        return;
    }
    buf text = {0};
    *t = (trace_stream){.cursor = UINT64_MAX, .end_us = now_us + seconds * 1000000u};
    engine_read_trace(x->model->engine, &t->cursor, NULL, 0, &lost);
    const runner_info *info = engine_runner_info(x->model->engine);
    trace_about about = {.model = span_from(x->model->name),
                         .weight_bytes = info->weight_bytes,
                         .kv_token_bytes = info->page_tokens ? info->page_bytes / info->page_tokens : 0,
                         .state_bytes = info->state_bytes,
                         .kv_bytes = info->page_count * info->page_bytes,
                         .context = info->context_length};
    trace_export_begin(&t->out, &text, &about, now_us);
    x->tracing = t;
    x->streaming = true;
    connection_begin_stream(x->connection, "application/json", span_from(headers));
    connection_stream(x->connection, buf_span(&text));
    buf_free(&text);
    server_watch_traces(x->server);
}

void trace_stream_flush(exchange *x, uint64_t now_us)
{
    trace_stream *t = x->tracing;
    trace_record records[TRACE_COPY_MAX];
    size_t count = TRACE_COPY_MAX;
    bool over = now_us >= t->end_us || server_draining(x->server);
    buf text = {0};
    while (x->connection && count == TRACE_COPY_MAX && !connection_congested(x->connection)) {
        uint64_t lost = 0;
        count = engine_read_trace(x->model->engine, &t->cursor, records, TRACE_COPY_MAX, &lost);
        trace_export_lost(&t->out, &text, lost, now_us);
        for (size_t i = 0; i < count; i++)
            trace_export_record(&t->out, &text, &records[i], server_tenants(x->server));
        connection_stream(x->connection, buf_span(&text));
        buf_clear(&text);
    }
    if (x->connection && over && !connection_congested(x->connection)) {
        trace_export_end(&t->out, &text, now_us);
        connection_stream(x->connection, buf_span(&text));
        connection *c = x->connection;
        x->connection = NULL;
        connection_end_stream(c);
    }
    buf_free(&text);
}

void trace_stream_destroy(trace_stream *t)
{
    free(t);
}
