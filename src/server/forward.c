/* server/forward.c: see forward.h. curl tells which sockets and when (watch_socket, set_timer); uv tells it back what
 * happened, and what has ended is looked for after each such call. Nothing is freed inside a callback of curl's. */
#include "server/forward.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/secret.h"
#include "server/exchange.h"

#define CONNECT_MS 5000L
#define SILENCE_S 600L /* in which not a byte comes: batch work may wait in the other server's queue */
#define LOG_EVERY_US 10000000u
enum { WHOLE_MAX = 16 << 20, HEADERS_MAX = 8192 };

struct forwards {
    uv_loop_t *loop;
    uv_timer_t timer;
    CURLM *multi;
    counter *requests, *failures;
    uint64_t logged_us;
};

struct forward {
    CURL *easy; /* NULL: not started */
    forwards *all;
    struct curl_slist *headers;
    buf url;
    unsigned hops;
    struct exchange *x;
    buf type, answer_headers, body;
    bool streams, paused, too_long;
    char words[CURL_ERROR_SIZE];
};

typedef struct { /* a socket that curl wants watched */
    uv_poll_t poll;
    forwards *all;
    curl_socket_t socket;
} watched;

/* ---- headers that pass ---- */

static bool listed(span name, const char *const *list) /* a name that ends in '-' is a beginning */
{
    for (; *list; list++) {
        size_t size = strlen(*list);
        bool begins = (*list)[size - 1] == '-';
        if ((name.size == size || (begins && name.size > size)) && strncasecmp(name.data, *list, size) == 0)
            return true;
    }
    return false;
}

static const char *const to_them[] = {"accept",       "user-agent",  "x-request-id", "x-correlation-id",
                                      "x-session-id", "traceparent", "tracestate",   "openai-beta",
                                      "x-llm-d-",     "x-slo-",      "x-gateway-",   NULL};
static const char *const to_client[] = {"x-request-id", "retry-after", "openai-", "x-ratelimit-", "x-headway-", NULL};

static bool add_line(forward *w, const char *line)
{
    struct curl_slist *next = curl_slist_append(w->headers, line);
    if (next)
        w->headers = next;
    return next != NULL;
}

static bool keep_headers(forward *w, const http_head *head, const char *data, buf *line)
{
    bool kept = add_line(w, "Content-Type: application/json") && add_line(w, "Expect:");
    for (uint16_t i = 0; kept && i < head->header_count; i++) {
        const http_header *h = &head->headers[i];
        if (!listed(span_of(data + h->name, h->name_size), to_them) || !h->value_size)
            continue;
        buf_clear(line);
        buf_printf(line, "%.*s: %.*s", h->name_size, data + h->name, h->value_size, data + h->value);
        kept = !line->failed && add_line(w, line->data);
    }
    span hops = http_head_get(head, data, "x-headway-hops");
    w->hops = hops.size == 1 && hops.data[0] >= '0' && hops.data[0] <= '9' ? (unsigned)(hops.data[0] - '0') : 0;
    char next[32];
    snprintf(next, sizeof next, "x-headway-hops: %u", w->hops + 1);
    return kept && add_line(w, next);
}

static bool keep_key(forward *w, const char *key, buf *line)
{
    if (!key[0])
        return true;
    buf_clear(line);
    buf_printf(line, "Authorization: Bearer %s", key);
    return !line->failed && add_line(w, line->data);
}

/* The address with or without /v1, as clients give it; the path likewise. */
static void write_url(buf *out, const char *base, const char *path)
{
    size_t size = strlen(base);
    while (size && base[size - 1] == '/')
        size--;
    if (size > 3 && memcmp(base + size - 3, "/v1", 3) == 0)
        size -= 3;
    buf_append(out, base, size);
    buf_text(out, strncmp(path, "/v1/", 4) == 0 ? "" : "/v1");
    buf_text(out, path);
}

forward *forward_prepare(const config_forward *to, const char *path, const http_head *head, const char *data)
{
    forward *w = calloc(1, sizeof *w);
    buf line = {0};
    if (!w)
        return NULL;
    write_url(&w->url, to->url, path);
    bool kept = !w->url.failed && keep_headers(w, head, data, &line) && keep_key(w, to->key, &line);
    secret_wipe(line.data, line.size);
    buf_free(&line);
    if (kept)
        return w;
    forward_free(w);
    return NULL;
}

bool forward_under_way(const forward *w)
{
    return w && w->easy;
}

bool forward_went_in_circles(const forward *w)
{
    return w->hops >= FORWARD_HOPS_MAX;
}

void forward_free(forward *w)
{
    if (!w)
        return;
    if (w->easy) {
        curl_multi_remove_handle(w->all->multi, w->easy);
        curl_easy_cleanup(w->easy);
    }
    for (struct curl_slist *h = w->headers; h; h = h->next)
        secret_wipe(h->data, strlen(h->data));
    curl_slist_free_all(w->headers);
    buf_free(&w->url);
    buf_free(&w->type);
    buf_free(&w->answer_headers);
    buf_free(&w->body);
    free(w);
}

/* ---- what comes back ---- */

static size_t on_header(char *data, size_t one, size_t size, void *user)
{
    forward *w = user;
    span line = span_of(data, size * one);
    while (line.size && (line.data[line.size - 1] == '\r' || line.data[line.size - 1] == '\n'))
        line.size--;
    const char *colon = line.size ? memchr(line.data, ':', line.size) : NULL;
    if (line.size > 5 && memcmp(line.data, "HTTP/", 5) == 0) { /* a head begins: what a 100 said does not count */
        buf_clear(&w->type);
        buf_clear(&w->answer_headers);
    } else if (colon) {
        span name = span_of(line.data, (size_t)(colon - line.data));
        if (name.size == 12 && strncasecmp(name.data, "content-type", 12) == 0) {
            const char *value = colon + 1 + strspn(colon + 1, " ");
            buf_clear(&w->type);
            buf_append(&w->type, value, (size_t)(line.data + line.size - value));
        } else if (listed(name, to_client) && w->answer_headers.size + line.size < HEADERS_MAX) {
            buf_append(&w->answer_headers, line.data, line.size);
            buf_text(&w->answer_headers, "\r\n");
        }
    }
    return size * one;
}

static long status_of(forward *w)
{
    long status = 0;
    curl_easy_getinfo(w->easy, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

static size_t on_bytes(char *data, size_t one, size_t size, void *user)
{
    forward *w = user;
    struct exchange *x = w->x;
    size *= one;
    if (!w->streams && !w->body.size && status_of(w) == 200 && w->type.size >= 17 &&
        strncasecmp(w->type.data, "text/event-stream", 17) == 0) {
        w->streams = true;
        connection_begin_stream(x->connection, "text/event-stream", buf_span(&w->answer_headers));
    }
    if (w->streams) {
        w->paused = connection_congested(x->connection);
        if (w->paused)
            return CURL_WRITEFUNC_PAUSE;
        connection_stream(x->connection, span_of(data, size));
        return size;
    }
    w->too_long = w->body.size + size > WHOLE_MAX;
    if (!w->too_long)
        buf_append(&w->body, data, size);
    return w->too_long || w->body.failed ? 0 : size;
}

void forward_room(struct exchange *x)
{
    forward *w = x->forward;
    if (!w->paused || !x->connection || connection_congested(x->connection))
        return;
    w->paused = false;
    curl_easy_pause(w->easy, CURLPAUSE_CONT);
}

/* ---- the end of one ---- */

static void say_failure(forward *w, const char *why)
{
    uint64_t now_us = clock_now_us();
    counter_add(w->all->failures, 1);
    if (w->all->logged_us && now_us - w->all->logged_us < LOG_EVERY_US)
        return;
    w->all->logged_us = now_us;
    log_warn("forwarding to %s: %s", w->url.data, why); /* the URL holds no key: config_forward_read */
}

/* Clients learn that it is the other server, not where it is. */
static void describe_failure(forward *w, CURLcode result, api_error *e)
{
    const char *why = w->words[0] ? w->words : curl_easy_strerror(result);
    say_failure(w, w->too_long ? "its answer is too long" : why);
    e->code = "upstream_error";
    if (w->too_long)
        api_fail(e, 502, NULL, "the server that this request was forwarded to sent an answer of more than %d MB",
                 WHOLE_MAX >> 20);
    else if (result == CURLE_OPERATION_TIMEDOUT && status_of(w) == 0 && !w->body.size)
        api_fail(e, 504, NULL, "the server that this request was forwarded to did not answer in time");
    else if (result == CURLE_COULDNT_CONNECT || result == CURLE_COULDNT_RESOLVE_HOST)
        api_fail(e, 502, NULL, "the server that this request was forwarded to cannot be reached");
    else
        api_fail(e, 502, NULL, "the server that this request was forwarded to broke off: %s",
                 curl_easy_strerror(result));
}

static void end_stream(struct exchange *x, const api_error *e)
{
    connection *c = x->connection;
    if (e->status) { /* the only way left to say it */
        buf event = {0};
        buf_text(&event, "data: ");
        api_error_write(e, &event);
        buf_text(&event, "\n\n");
        connection_stream(c, buf_span(&event));
        buf_free(&event);
    }
    x->connection = NULL;
    connection_end_stream(c);
    server_mark_dirty(x);
}

static void end_whole(struct exchange *x)
{
    forward *w = x->forward;
    long status = status_of(w);
    if (status == 401 || status == 403 || status < 200 || (status >= 300 && status < 400)) {
        char why[64];
        snprintf(why, sizeof why, "it answers %ld", status);
        say_failure(w, why);
        x->error.code = "upstream_error";
        api_fail(&x->error, 502, NULL,
                 status == 401 || status == 403
                     ? "the server that this request was forwarded to does not take this server's key"
                     : "the server that this request was forwarded to answers what no such server does");
    }
    x->answer.status = (int)status;
    x->answer.type = w->type.size ? w->type.data : NULL;
    x->answer.body = w->body;
    w->body = (buf){0};
    buf_append(&x->answer.headers, w->answer_headers.data, w->answer_headers.size);
    exchange_respond(x);
}

static void finish(forward *w, CURLcode result)
{
    struct exchange *x = w->x;
    api_error e = {0};
    if (result)
        describe_failure(w, result, &e);
    if (w->streams) {
        end_stream(x, &e);
    } else if (result) {
        x->error = e;
        exchange_respond(x);
    } else {
        end_whole(x);
    }
    x->forward = NULL;
    forward_free(w);
}

static void take_finished(forwards *f)
{
    CURLMsg *message;
    int left;
    while ((message = curl_multi_info_read(f->multi, &left))) {
        forward *w = NULL;
        if (message->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &w);
        finish(w, message->data.result);
    }
}

/* ---- between curl and uv ---- */

static void on_socket(uv_poll_t *poll, int result, int events)
{
    watched *s = poll->data;
    forwards *f = s->all;
    int flags = result < 0 ? CURL_CSELECT_ERR : 0, running;
    flags |= events & UV_READABLE ? CURL_CSELECT_IN : 0;
    flags |= events & UV_WRITABLE ? CURL_CSELECT_OUT : 0;
    curl_multi_socket_action(f->multi, s->socket, flags, &running);
    take_finished(f);
}

static void on_time(uv_timer_t *timer)
{
    forwards *f = timer->data;
    int running;
    curl_multi_socket_action(f->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    take_finished(f);
}

static void free_watched(uv_handle_t *handle)
{
    free(handle->data);
}

static watched *watch(forwards *f, curl_socket_t socket)
{
    watched *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    *s = (watched){.all = f, .socket = socket};
    if (uv_poll_init_socket(f->loop, &s->poll, socket)) {
        free(s);
        return NULL;
    }
    s->poll.data = s;
    curl_multi_assign(f->multi, socket, s);
    return s;
}

static int watch_socket(CURL *easy, curl_socket_t socket, int what, void *user, void *known)
{
    forwards *f = user;
    watched *s = known;
    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        if (s) {
            uv_poll_stop(&s->poll);
            curl_multi_assign(f->multi, socket, NULL);
            uv_close((uv_handle_t *)&s->poll, free_watched);
        }
        return 0;
    }
    if (!s && !(s = watch(f, socket)))
        return -1;
    int events = (what & CURL_POLL_IN ? UV_READABLE : 0) | (what & CURL_POLL_OUT ? UV_WRITABLE : 0);
    return uv_poll_start(&s->poll, events, on_socket);
}

static int set_timer(CURLM *multi, long timeout_ms, void *user)
{
    forwards *f = user;
    (void)multi;
    if (timeout_ms < 0)
        return uv_timer_stop(&f->timer);
    return uv_timer_start(&f->timer, on_time, (uint64_t)timeout_ms, 0);
}

/* ---- start and end of all ---- */

status forwards_open(forwards **out, uv_loop_t *loop, metrics_registry *registry, error *err)
{
    forwards *f = calloc(1, sizeof *f);
    if (!f || curl_global_init(CURL_GLOBAL_DEFAULT) || !(f->multi = curl_multi_init())) {
        free(f);
        return error_set(err, ERR_MEMORY, "forwarding cannot be set up");
    }
    f->loop = loop;
    uv_timer_init(loop, &f->timer);
    f->timer.data = f;
    f->requests = metrics_counter(
        registry, (metric_name){"headway:requests_forwarded", "Requests handed to another server.", NULL});
    f->failures = metrics_counter(
        registry, (metric_name){"headway:forward_failures", "Forwarded requests that the other server failed.", NULL});
    curl_multi_setopt(f->multi, CURLMOPT_SOCKETFUNCTION, watch_socket);
    curl_multi_setopt(f->multi, CURLMOPT_SOCKETDATA, f);
    curl_multi_setopt(f->multi, CURLMOPT_TIMERFUNCTION, set_timer);
    curl_multi_setopt(f->multi, CURLMOPT_TIMERDATA, f);
    *out = f;
    return OK;
}

static void free_forwards(uv_handle_t *handle)
{
    free(handle->data);
}

void forwards_close(forwards *f)
{
    if (!f)
        return;
    curl_multi_cleanup(f->multi);
    uv_close((uv_handle_t *)&f->timer, free_forwards);
}

static void set_protocols(CURL *easy)
{
#if LIBCURL_VERSION_NUM >= 0x075500
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
#else
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS, CURLPROTO_HTTP | CURLPROTO_HTTPS);
#endif
}

static bool set_up(forward *w, struct exchange *x)
{
    CURL *easy = w->easy = curl_easy_init();
    if (!easy)
        return false;
    w->x = x;
    set_protocols(easy);
    curl_easy_setopt(easy, CURLOPT_URL, w->url.data);
    curl_easy_setopt(easy, CURLOPT_NOPROXY, "localhost,127.0.0.1,::1");
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_PRIVATE, w);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, w->headers);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)x->body.size);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, x->body.size ? x->body.data : "");
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, SILENCE_S);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, w->words);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, w);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_bytes);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, w);
    return curl_multi_add_handle(w->all->multi, easy) == CURLM_OK;
}

void forward_start(struct exchange *x, forwards *f)
{
    forward *w = x->forward;
    w->all = f;
    if (set_up(w, x)) {
        counter_add(f->requests, 1);
        return;
    }
    api_fail(&x->error, 503, NULL, "out of memory");
    x->forward = NULL;
    forward_free(w);
    exchange_respond(x);
}
