/* cli/chat.h: the parts of `headway chat`: what the user types, the stream that comes back, the HTTP client, the server
 * that
 * `--model` starts. Main thread; a signal handler only sets `*stop`. */
#ifndef HEADWAY_CLI_CHAT_H
#define HEADWAY_CLI_CHAT_H

#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

enum { CHAT_MESSAGE_MAX = 16 << 20, CHAT_EVENT_MAX = 1 << 20 }; /* bytes */

/* ---- chat_input.c: lines to messages. Zero-initialise; chat_draft_free.
 * A line that ends in a backslash goes on in the next one. A line that starts with ``` opens a block that is kept as it
 * is, up to the closing ```; one that starts with """ opens a block whose marks are dropped. */
typedef struct {
    buf text;
    enum { DRAFT_PLAIN, DRAFT_FENCE, DRAFT_QUOTES } inside;
    bool started, complete;
} chat_draft;

bool chat_draft_add(chat_draft *draft, span line); /* true: the message is complete */
void chat_draft_clear(chat_draft *draft);
void chat_draft_free(chat_draft *draft);

/* Lines from a file descriptor, longer ones than any buffer included. */
typedef struct {
    int fd;
    buf held; /* bytes read and not yet taken */
    bool ended;
} chat_lines;
typedef enum { LINE_READ, LINE_END, LINE_INTERRUPTED } line_outcome;
/* Appends a line without its newline to `line`. INTERRUPTED: a signal set *stop; what was typed is dropped. */
line_outcome chat_lines_next(chat_lines *lines, volatile sig_atomic_t *stop, buf *line);

/* ---- chat_stream.c: bytes of a text/event-stream to pieces of an answer. Zero-initialise, set the callback;
 * chat_stream_free. */
typedef struct {
    void (*on_text)(void *context, span text, bool reasoning);
    void *context;
    buf line, data;
    bool done;   /* [DONE] was seen */
    bool failed; /* `problem` says why */
    error problem;
    char finish[24]; /* finish_reason, "" until it came */
} chat_stream;
void chat_stream_push(chat_stream *stream, span bytes);
void chat_stream_free(chat_stream *stream);

/* Copies text for a terminal: control characters (but newline and tab) are dropped, so that an answer cannot steer it.
 * `held` keeps the first byte of a two-byte control character between calls. */
void chat_printable(span text, unsigned char *held, buf *out);

/* ---- chat_client.c: one server, by libcurl. */
typedef struct chat_client chat_client;
status chat_client_open(chat_client **out, const char *url, const char *api_key, volatile sig_atomic_t *stop,
                        error *err);
void chat_client_close(chat_client *client); /* NULL is allowed */
bool chat_client_healthy(chat_client *client);
status chat_client_model(chat_client *client, buf *name, error *err); /* the first of /v1/models */
/* Sends the request and feeds the stream until it ends. ERR_CANCELLED: *stop was set. */
status chat_client_ask(chat_client *client, json_t *request, chat_stream *stream, error *err);

/* ---- chat_server.c: a `headway serve` of our own, on a free port of the loopback address, with a key that only we
 * know. */
typedef struct {
    int pid;    /* 0: none */
    int log_fd; /* what it wrote to stderr */
    char url[64];
    char api_key[33];
} chat_server;
status chat_server_start(chat_server *server, const char *model_path, error *err);
bool chat_server_died(chat_server *server, error *err); /* true: `err` has its last words */
void chat_server_stop(chat_server *server);

#endif
