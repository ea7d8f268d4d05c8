/* server/connection.h: who is connected, and what may they do now? HTTP/1.1 connections on a libuv loop: one request at
 * a time each (pipelined ones wait), deadlines for head, body, idle and stalled writes, bounded buffers, lingering
 * close. What a request means is the handler's (connection_ops). Output is gathered and written once per turn of the
 * loop. Loop thread only. A client that closes or half-closes its side while its request is being answered counts as
 * gone. */
#ifndef HEADWAY_SERVER_CONNECTION_H
#define HEADWAY_SERVER_CONNECTION_H

#include <uv.h>

#include "base/buf.h"
#include "base/error.h"
#include "server/http.h"

typedef struct connection connection;
typedef struct network network;

typedef struct {
    /* A head has arrived; `data` is valid during the call. May answer at once (the body is then dropped). */
    void (*head)(void *context, connection *c, const http_head *head, const char *data);
    /* The body is complete (connection_body). Must lead to an answer, now or later. */
    void (*request)(void *context, connection *c);
    /* The client left, or stalled too long, before the answer was complete. The connection is dead after the call. */
    void (*gone)(void *context, connection *c);
    /* The output is no longer congested. */
    void (*room)(void *context, connection *c);
} connection_ops;

typedef struct {
    const connection_ops *ops;
    void *context;
    const char *host;
    int port;                            /* 0: any */
    uint32_t connections_max;            /* above: answered 503 and closed; 0: 16,384 */
    size_t body_max;                     /* bytes; 0: 64 MB */
    uint64_t head_us, idle_us, stall_us; /* deadlines; 0: 10 s, 120 s, 30 s */
} network_config;

enum {
    OUTPUT_HIGH = 65536,
    OUTPUT_LOW = 16384,
    PIPELINE_MAX = 65536,
    BODY_RATE_MIN = 4096, /* bytes/s */
    BODIES_AT_ONCE = 8,   /* bodies of the largest size held at once, by all clients together; above: 503 */
};

status network_open(network **out, uv_loop_t *loop, const network_config *config, error *err); /* binds */
status network_listen(network *n, error *err);
void network_close(network *n);      /* starts closing everything; the loop must run on until all handles are gone */
void network_free(network *n);       /* after the loop has run out; NULL allowed */
void network_close_idle(network *n); /* connections between two requests */
void network_refuse_keep_alive(network *n); /* every further answer closes its connection */
void network_flush(network *n);             /* writes what the handlers have gathered; call once per turn, after them */
int network_port(const network *n);
bool network_unsent(const network *n); /* is any output not yet with the kernel? */

typedef struct {
    uint64_t accepted, requests, refused, timed_out;
    uint32_t open;
} network_counts;
network_counts network_read_counts(const network *n);

/* An answer. `headers`: further lines, each ending in CR LF. One of respond or begin_stream per request. */
void connection_respond(connection *c, int status, const char *type, span headers, span body);
void connection_begin_stream(connection *c, const char *type, span headers);
void connection_stream(connection *c, span data);
void connection_end_stream(connection *c);
bool connection_congested(const connection *c); /* over OUTPUT_HIGH unsent: `room` will be called */

buf *connection_body(connection *c);                         /* may be moved out by the handler (then zero it) */
void connection_set_exchange(connection *c, void *exchange); /* the handler's, for this request */
void *connection_exchange(const connection *c);
const char *http_status_text(int status);

#endif
