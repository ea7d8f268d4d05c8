/* server/exchange.c: the parts of an exchange that need nothing of the server's own. */
#include "server/exchange.h"

#include <stdio.h>
#include <stdlib.h>

#include "server/debug/trace_stream.h"

span exchange_warning_header(const exchange *x, buf *scratch)
{
    if (!x->warnings.size && !x->ignored.size)
        return (span){0};
    buf_text(scratch, "x-headway-warning: ");
    buf_append(scratch, x->ignored.data, x->ignored.size);
    if (x->warnings.size && x->ignored.size)
        buf_text(scratch, "; ");
    buf_append(scratch, x->warnings.data, x->warnings.size);
    buf_text(scratch, "\r\n");
    return buf_span(scratch);
}

void exchange_write_error(exchange *x)
{
    memcpy(x->error.request_id, x->request_id, sizeof x->error.request_id);
    if (x->write_error)
        x->write_error(&x->error, &x->answer.body);
    else
        route_write_error(x->route, &x->error, &x->answer.body);
}

void route_write_error(const route *r, const api_error *e, buf *out)
{
    if (r && r->format && r->format->write_error)
        r->format->write_error(e, out);
    else
        api_error_write(e, out);
}

void make_request_id(server *s, char out[28])
{
    snprintf(out, 28, "req_%016llx", (unsigned long long)server_random(s));
}

void exchange_release(exchange *x)
{
    for (uint32_t i = 0; i < x->count; i++)
        generation_free(&x->generations[i]);
    free(x->generations);
    plan_free(&x->plan);
    trace_stream_destroy(x->tracing);
    forward_free(x->forward);
    buf *const texts[] = {&x->body,           &x->query,       &x->rest,     &x->content_type, &x->if_none_match,
                          &x->answer.headers, &x->answer.body, &x->warnings, &x->ignored,      &x->prefix};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        buf_free(texts[i]);
    if (x->free_own)
        x->free_own(x->own);
    if (x->inside.released)
        x->inside.released(x->inside.context);
}
