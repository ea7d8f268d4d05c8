/* server/connection.c: see connection.h. A connection goes READ_HEAD -> READ_BODY -> ANSWERING -> READ_HEAD …, or from
 * anywhere to LINGER (answer sent, our side shut down, input dropped until the client closes) and CLOSING. Input that
 * belongs to a later request waits in `in`, bounded. Everything that ends an answer only changes state; `network_flush`
 * writes and then looks at waiting input, so that no call recurses. */
#include "server/connection.h"

#include <assert.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"

typedef enum { READ_HEAD, READ_BODY, ANSWERING, LINGER, CLOSING } connection_state;

struct connection {
    uv_tcp_t tcp;
    network *net;
    connection *next, *previous, *next_dirty;
    connection_state state;
    http_head head;
    http_chunks chunks;
    buf in, body, out;
    char *sending; /* held by the write in flight */
    size_t sending_size;
    uv_write_t write;
    uv_shutdown_t shutdown;
    uint64_t since_us;    /* of the current state's deadline */
    uint64_t progress_us; /* last time the kernel took bytes */
    size_t queue_seen;
    size_t body_counted; /* of net->body_bytes */
    void *exchange;
    bool dirty, reading, processing, close_after, streaming, chunked_output, congested, shutting, wants_room;
};

struct network {
    uv_loop_t *loop;
    network_config config;
    uv_tcp_t listener;
    uv_timer_t sweeper;
    connection *first, *dirty;
    network_counts counts;
    size_t body_bytes; /* of all requests being read or answered */
    bool closing, no_keep_alive;
    int port;
    time_t date_second;
    char date[40];
    char scratch[65536];
};

static void process_waiting(connection *c);

const char *http_status_text(int status)
{
    static const struct {
        int status;
        const char *text;
    } names[] = {{200, "OK"},
                 {204, "No Content"},
                 {304, "Not Modified"},
                 {400, "Bad Request"},
                 {401, "Unauthorized"},
                 {403, "Forbidden"},
                 {404, "Not Found"},
                 {405, "Method Not Allowed"},
                 {408, "Request Timeout"},
                 {409, "Conflict"},
                 {413, "Content Too Large"},
                 {414, "URI Too Long"},
                 {415, "Unsupported Media Type"},
                 {417, "Expectation Failed"},
                 {429, "Too Many Requests"},
                 {431, "Request Header Fields Too Large"},
                 {500, "Internal Server Error"},
                 {501, "Not Implemented"},
                 {503, "Service Unavailable"},
                 {505, "HTTP Version Not Supported"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].status == status)
            return names[i].text;
    return "Unknown";
}

static void mark_dirty(connection *c)
{
    if (c->dirty || c->state == CLOSING)
        return;
    c->dirty = true;
    c->next_dirty = c->net->dirty;
    c->net->dirty = c;
}

static void forget(connection *c)
{
    network *n = c->net;
    if (c->previous)
        c->previous->next = c->next;
    else
        n->first = c->next;
    if (c->next)
        c->next->previous = c->previous;
    for (connection **at = &n->dirty; c->dirty && *at; at = &(*at)->next_dirty)
        if (*at == c) {
            *at = c->next_dirty;
            break;
        }
    n->counts.open--;
    n->body_bytes -= c->body_counted;
}

static void on_closed(uv_handle_t *handle)
{
    connection *c = handle->data;
    buf_free(&c->in);
    buf_free(&c->body);
    buf_free(&c->out);
    free(c->sending);
    free(c);
}

/* Ends the connection now. The handler hears of it if an answer was under way. */
static void close_connection(connection *c)
{
    if (c->state == CLOSING)
        return;
    connection_state before = c->state;
    c->state = CLOSING;
    if (before == ANSWERING || before == READ_BODY)
        c->net->config.ops->gone(c->net->config.context, c);
    forget(c);
    uv_close((uv_handle_t *)&c->tcp, on_closed);
}

/* ---- output ---- */

static const char *date_line(network *n)
{
    time_t now = (time_t)clock_unix_seconds();
    if (now != n->date_second) {
        struct tm parts;
        n->date_second = now;
        gmtime_r(&now, &parts);
        strftime(n->date, sizeof n->date, "%a, %d %b %Y %H:%M:%S GMT", &parts);
    }
    return n->date;
}

static void write_head(connection *c, int status, const char *type, span headers)
{
    if (c->net->no_keep_alive)
        c->close_after = true;
    buf_printf(&c->out, "HTTP/1.1 %d %s\r\nServer: headway\r\nDate: %s\r\nAccess-Control-Allow-Origin: *\r\n", status,
               http_status_text(status), date_line(c->net));
    if (type)
        buf_printf(&c->out, "Content-Type: %s\r\n", type);
    if (headers.size)
        buf_append(&c->out, headers.data, headers.size);
    if (c->close_after)
        buf_text(&c->out, "Connection: close\r\n");
    else if (c->head.minor == 0)
        buf_text(&c->out, "Connection: keep-alive\r\n");
}

/* The answer is complete in `out`: on to the next request, or to the end. */
static void finish_answer(connection *c)
{
    c->exchange = NULL;
    c->streaming = c->wants_room = false;
    c->since_us = clock_now_us();
    buf_free(&c->body);
    c->net->body_bytes -= c->body_counted;
    c->body_counted = 0;
    c->state = c->close_after ? LINGER : READ_HEAD;
    http_head_reset(&c->head);
    mark_dirty(c);
}

void connection_respond(connection *c, int status, const char *type, span headers, span body)
{
    assert(c->state != CLOSING && !c->streaming);
    c->close_after |= c->state == READ_BODY; /* the rest of the body is dropped: say so, or the client sends more */
    write_head(c, status, type, headers);
    if (status != 204 && status != 304)
        buf_printf(&c->out, "Content-Length: %zu\r\n", body.size);
    buf_text(&c->out, "\r\n");
    if (c->head.method != HTTP_HEAD && body.size)
        buf_append(&c->out, body.data, body.size);
    finish_answer(c);
}

void connection_begin_stream(connection *c, const char *type, span headers)
{
    assert(c->state == ANSWERING && !c->streaming);
    c->streaming = true;
    c->chunked_output = c->head.minor == 1;
    if (!c->chunked_output)
        c->close_after = true;
    write_head(c, 200, type, headers);
    buf_text(&c->out, c->chunked_output ? "Transfer-Encoding: chunked\r\n\r\n" : "\r\n");
    mark_dirty(c);
}

void connection_stream(connection *c, span data)
{
    assert(c->streaming);
    if (!data.size)
        return;
    if (c->chunked_output)
        buf_printf(&c->out, "%zx\r\n", data.size);
    buf_append(&c->out, data.data, data.size);
    if (c->chunked_output)
        buf_text(&c->out, "\r\n");
    mark_dirty(c);
}

void connection_end_stream(connection *c)
{
    assert(c->streaming);
    if (c->chunked_output)
        buf_text(&c->out, "0\r\n\r\n");
    finish_answer(c);
}

static size_t unsent(const connection *c)
{
    return c->out.size + c->sending_size;
}

bool connection_congested(const connection *c)
{
    if (unsent(c) <= OUTPUT_HIGH)
        return false;
    ((connection *)c)->wants_room = true;
    return true;
}

static void on_shutdown(uv_shutdown_t *request, int result)
{
    connection *c = request->handle->data;
    (void)result;
    if (!c->reading) /* the client has closed its side too; else its FIN or the sweep ends it */
        close_connection(c);
}

static void on_written(uv_write_t *request, int result)
{
    connection *c = request->data;
    free(c->sending);
    c->sending = NULL;
    c->sending_size = 0;
    if (c->state == CLOSING)
        return;
    if (result < 0) {
        close_connection(c);
        return;
    }
    mark_dirty(c);
}

/* Hands `out` to the kernel; false when the connection has died. */
static bool write_out(connection *c)
{
    if (c->out.failed) {
        close_connection(c);
        return false;
    }
    if (c->sending || !c->out.size)
        return true;
    uv_buf_t piece = uv_buf_init(c->out.data, (unsigned)c->out.size);
    int done = uv_try_write((uv_stream_t *)&c->tcp, &piece, 1);
    if (done < 0 && done != UV_EAGAIN) {
        close_connection(c);
        return false;
    }
    size_t sent = done > 0 ? (size_t)done : 0;
    c->progress_us = clock_now_us();
    if (sent == c->out.size) {
        if (c->out.capacity > 4096 || c->state == READ_HEAD)
            buf_free(&c->out);
        buf_clear(&c->out);
        return true;
    }
    piece = uv_buf_init(c->out.data + sent, (unsigned)(c->out.size - sent));
    c->sending = c->out.data;
    c->sending_size = c->queue_seen = c->out.size - sent;
    c->out = (buf){0};
    c->write.data = c;
    if (uv_write(&c->write, (uv_stream_t *)&c->tcp, &piece, 1, on_written)) {
        close_connection(c);
        return false;
    }
    return true;
}

static void flush_one(connection *c)
{
    if (!write_out(c))
        return;
    if (c->wants_room && unsent(c) <= OUTPUT_LOW) {
        c->wants_room = false;
        c->net->config.ops->room(c->net->config.context, c);
        if (c->state == CLOSING)
            return;
    }
    if (c->state == LINGER && !unsent(c) && !c->shutting) {
        c->shutting = true;
        c->since_us = clock_now_us();
        if (uv_shutdown(&c->shutdown, (uv_stream_t *)&c->tcp, on_shutdown))
            close_connection(c);
    } else if (c->state == READ_HEAD) {
        process_waiting(c);
    }
}

void network_flush(network *n)
{
    while (n->dirty) {
        connection *c = n->dirty;
        n->dirty = c->next_dirty;
        c->dirty = false;
        flush_one(c);
    }
}

/* ---- input ---- */

static void refuse(connection *c, int status, const char *reason)
{
    buf body = {0};
    buf_printf(&body,
               "{\"error\":{\"message\":\"%s\",\"type\":\"invalid_request_error\",\"code\":null,\"param\":null}}",
               reason);
    c->close_after = true;
    c->net->counts.refused++;
    void *exchange = c->exchange;
    if (exchange) { /* the handler knows of the request: it is over */
        c->net->config.ops->gone(c->net->config.context, c);
        c->exchange = NULL;
    }
    span retry = status == 503 ? span_from("Retry-After: 5\r\n") : (span){0};
    connection_respond(c, status, "application/json", retry, buf_span(&body));
    c->state = LINGER;
    buf_free(&body);
}

static size_t body_limit(const connection *c)
{
    return c->net->config.body_max;
}

static void start_answer(connection *c)
{
    c->state = ANSWERING;
    c->net->counts.requests++;
    c->net->config.ops->request(c->net->config.context, c);
}

/* The head at data[0 .. head_size) is complete. */
static void take_head(connection *c, const char *data, bool more_follows)
{
    http_head *h = &c->head;
    bool has_body = h->chunked || h->content_length > 0;
    c->close_after = !h->keep_alive;
    c->chunks = (http_chunks){0};
    c->state = has_body ? READ_BODY : ANSWERING;
    c->since_us = clock_now_us();
    c->net->config.ops->head(c->net->config.context, c, h, data);
    if (c->state != READ_BODY && c->state != ANSWERING)
        return; /* answered already */
    if (h->content_length > body_limit(c)) {
        refuse(c, 413, "the request body is too large");
        return;
    }
    if (!has_body) {
        start_answer(c);
        return;
    }
    if (h->expect_continue && !more_follows) {
        buf_text(&c->out, "HTTP/1.1 100 Continue\r\n\r\n");
        mark_dirty(c);
    }
}

/* Takes body bytes; returns how many were used. */
static size_t take_body(connection *c, const char *data, size_t size)
{
    size_t used = 0;
    http_result result = HTTP_MORE;
    if (!c->head.chunked) {
        size_t want = (size_t)c->head.content_length - c->body.size;
        used = size < want ? size : want;
        buf_append(&c->body, data, used);
        result = c->body.size == c->head.content_length ? HTTP_DONE : HTTP_MORE;
    } else {
        while (result == HTTP_MORE && used < size) {
            span payload;
            result = http_chunks_feed(&c->chunks, data, size, &used, &payload);
            if (c->body.size + payload.size > body_limit(c)) {
                refuse(c, 413, "the request body is too large");
                return used;
            }
            if (payload.size)
                buf_append(&c->body, payload.data, payload.size);
        }
    }
    c->net->body_bytes += c->body.size - c->body_counted;
    c->body_counted = c->body.size;
    if (result == HTTP_BAD)
        refuse(c, 400, "the chunked body is malformed");
    else if (c->body.failed || c->net->body_bytes > BODIES_AT_ONCE * c->net->config.body_max)
        refuse(c, 503, "too many large requests at once");
    else if (result == HTTP_DONE)
        start_answer(c);
    return used;
}

/* Looks at input from `data` on; returns how many bytes are used up. */
static size_t process(connection *c, const char *data, size_t size)
{
    size_t used = 0;
    c->processing = true;
    while (used < size) {
        if (c->state == LINGER || c->state == CLOSING) {
            used = size;
        } else if (c->state == READ_BODY) {
            used += take_body(c, data + used, size - used);
        } else if (c->state == READ_HEAD && unsent(c) <= OUTPUT_HIGH) {
            http_result result = http_head_feed(&c->head, data + used, size - used);
            if (result == HTTP_BAD)
                refuse(c, c->head.status, c->head.reason);
            if (result == HTTP_MORE)
                break;
            if (result == HTTP_DONE) {
                const char *head = data + used;
                used += c->head.head_size;
                take_head(c, head, used < size);
            }
        } else {
            break;
        }
    }
    c->processing = false;
    return used;
}

static void on_read(uv_stream_t *stream, ssize_t size, const uv_buf_t *buffer);

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *out)
{
    (void)suggested;
    network *n = ((connection *)handle->data)->net;
    *out = uv_buf_init(n->scratch, sizeof n->scratch);
}

static void set_reading(connection *c, bool on)
{
    if (on == c->reading || c->state == CLOSING)
        return;
    c->reading = on;
    if (on)
        uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read);
    else
        uv_read_stop((uv_stream_t *)&c->tcp);
}

/* Keeps what could not be used yet. `data` may lie inside c->in. */
static void keep_rest(connection *c, const char *data, size_t size)
{
    if (c->state == CLOSING)
        return;
    if (!size) {
        buf_free(&c->in);
    } else if (c->in.data && data >= c->in.data && data <= c->in.data + c->in.size) {
        memmove(c->in.data, data, size);
        c->in.size = size;
    } else {
        buf_append(&c->in, data, size);
    }
    if (c->in.failed)
        close_connection(c);
    else
        set_reading(c, c->in.size < PIPELINE_MAX);
}

static void process_waiting(connection *c)
{
    if (c->processing || !c->in.size)
        return;
    size_t size = c->in.size, used = process(c, c->in.data, size);
    if (used)
        keep_rest(c, c->in.data + used, size - used);
}

static void on_read(uv_stream_t *stream, ssize_t size, const uv_buf_t *buffer)
{
    connection *c = stream->data;
    if (size == 0 || c->state == CLOSING)
        return;
    if (size < 0) {
        bool answering = c->state == ANSWERING || c->state == READ_BODY;
        if (answering || size != UV_EOF || !unsent(c) || c->shutting) {
            close_connection(c);
        } else { /* the client has all it wants but our last bytes */
            c->close_after = true;
            c->state = LINGER;
            set_reading(c, false);
            mark_dirty(c);
        }
        return;
    }
    if (c->state == READ_HEAD && !c->in.size)
        c->since_us = clock_now_us();
    if (c->in.size) {
        buf_append(&c->in, buffer->base, (size_t)size);
        if (c->state == READ_HEAD || c->state == LINGER)
            process_waiting(c);
        else
            set_reading(c, c->in.size < PIPELINE_MAX);
        return;
    }
    size_t used = process(c, buffer->base, (size_t)size);
    if (used < (size_t)size)
        keep_rest(c, buffer->base + used, (size_t)size - used);
}

/* ---- deadlines ---- */

static void check_deadlines(connection *c, uint64_t now)
{
    const network_config *config = &c->net->config;
    uint64_t waited = now > c->since_us ? now - c->since_us : 0;
    size_t queued = uv_stream_get_write_queue_size((uv_stream_t *)&c->tcp);
    if (queued != c->queue_seen || !queued) {
        c->queue_seen = queued;
        c->progress_us = now;
    }
    bool late = false;
    if (queued && now - c->progress_us > config->stall_us) {
        c->net->counts.timed_out++;
        close_connection(c);
        return;
    }
    if (c->state == READ_HEAD && c->in.size)
        late = waited > config->head_us;
    else if (c->state == READ_BODY)
        late = waited > config->head_us + (uint64_t)c->body.size * 1000000u / BODY_RATE_MIN;
    else if ((c->state == READ_HEAD && waited > config->idle_us) ||
             (c->state == LINGER && c->shutting && waited > 5000000u))
        close_connection(c);
    if (late) {
        c->net->counts.timed_out++;
        refuse(c, 408, "the request did not arrive in time");
    }
}

static void on_sweep(uv_timer_t *timer)
{
    network *n = timer->data;
    uint64_t now = clock_now_us();
    for (connection *c = n->first, *next; c; c = next) {
        next = c->next;
        check_deadlines(c, now);
    }
}

/* ---- accepting ---- */

static void on_connection(uv_stream_t *listener, int result)
{
    network *n = listener->data;
    if (result < 0)
        return;
    connection *c = calloc(1, sizeof *c);
    if (!c)
        return;
    uv_tcp_init(n->loop, &c->tcp);
    c->tcp.data = c;
    c->net = n;
    if (uv_accept(listener, (uv_stream_t *)&c->tcp)) {
        uv_close((uv_handle_t *)&c->tcp, on_closed);
        return;
    }
    n->counts.accepted++;
    n->counts.open++;
    c->next = n->first;
    if (n->first)
        n->first->previous = c;
    n->first = c;
    c->since_us = c->progress_us = clock_now_us();
    uv_tcp_nodelay(&c->tcp, 1);
    uv_tcp_keepalive(&c->tcp, 1, 60);
    set_reading(c, true);
    if (n->counts.open > n->config.connections_max || n->closing)
        refuse(c, 503, "too many connections");
}

status network_open(network **out, uv_loop_t *loop, const network_config *config, error *err)
{
    network *n = calloc(1, sizeof *n);
    if (!n)
        return error_set(err, ERR_MEMORY, "out of memory for the network layer");
    n->loop = loop;
    n->config = *config;
    n->config.connections_max = config->connections_max ? config->connections_max : 16384;
    n->config.body_max = config->body_max ? config->body_max : (size_t)64 << 20;
    n->config.head_us = config->head_us ? config->head_us : 10000000u;
    n->config.idle_us = config->idle_us ? config->idle_us : 120000000u;
    n->config.stall_us = config->stall_us ? config->stall_us : 30000000u;
    struct sockaddr_storage address = {0};
    int failed = uv_ip4_addr(config->host, config->port, (struct sockaddr_in *)&address);
    if (failed)
        failed = uv_ip6_addr(config->host, config->port, (struct sockaddr_in6 *)&address);
    if (failed) {
        free(n);
        return error_set(err, ERR_INVALID, "--host %s: not an IPv4 or IPv6 address", config->host);
    }
    uv_tcp_init(loop, &n->listener);
    uv_timer_init(loop, &n->sweeper);
    n->listener.data = n->sweeper.data = n;
    struct sockaddr_storage bound;
    int size = sizeof bound;
    int code = uv_tcp_bind(&n->listener, (struct sockaddr *)&address, 0);
    if (!code)
        code = uv_tcp_getsockname(&n->listener, (struct sockaddr *)&bound, &size);
    *out = n;
    if (code)
        return error_set(err, ERR_IO, "%s:%d: %s", config->host, config->port, uv_strerror(code));
    n->port = ntohs(bound.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&bound)->sin6_port
                                                : ((struct sockaddr_in *)&bound)->sin_port);
    return OK;
}

status network_listen(network *n, error *err)
{
    uv_os_fd_t fd;
    int send_buffer = 128 * 1024, user_timeout_ms = 30000;
    if (!uv_fileno((uv_handle_t *)&n->listener, &fd)) {
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &send_buffer, sizeof send_buffer); /* else 4 MB per slow reader */
#ifdef TCP_USER_TIMEOUT
        setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout_ms, sizeof user_timeout_ms);
#endif
    }
    int code = uv_listen((uv_stream_t *)&n->listener, 4096, on_connection);
    if (code)
        return error_set(err, ERR_IO, "%s:%d: %s", n->config.host, n->config.port, uv_strerror(code));
    uv_timer_start(&n->sweeper, on_sweep, 250, 250);
    return OK;
}

void network_close_idle(network *n)
{
    for (connection *c = n->first, *next; c; c = next) {
        next = c->next;
        if (c->state == READ_HEAD && !unsent(c))
            close_connection(c);
    }
}

void network_refuse_keep_alive(network *n)
{
    n->no_keep_alive = true;
}

void network_close(network *n)
{
    n->closing = true;
    while (n->first)
        close_connection(n->first);
    if (!uv_is_closing((uv_handle_t *)&n->listener))
        uv_close((uv_handle_t *)&n->listener, NULL);
    if (!uv_is_closing((uv_handle_t *)&n->sweeper))
        uv_close((uv_handle_t *)&n->sweeper, NULL);
}

void network_free(network *n)
{
    free(n);
}

bool network_unsent(const network *n)
{
    for (const connection *c = n->first; c; c = c->next)
        if (unsent(c))
            return true;
    return false;
}

int network_port(const network *n)
{
    return n->port;
}

network_counts network_read_counts(const network *n)
{
    return n->counts;
}

buf *connection_body(connection *c)
{
    return &c->body;
}

void connection_set_exchange(connection *c, void *exchange)
{
    c->exchange = exchange;
}

void *connection_exchange(const connection *c)
{
    return c->exchange;
}
