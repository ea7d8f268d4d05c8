/* server/server.h: the HTTP server over one engine. server_create binds (so that a taken port is known before a model
 * is loaded), server_run serves until it is drained or stopped. The loop runs on the thread that calls server_run;
 * JSON, templates and tokenization run on libuv's worker threads; the engine has its own. Order at the end: server_run
 * returns, engine_destroy, server_destroy. */
#ifndef HEADWAY_SERVER_SERVER_H
#define HEADWAY_SERVER_SERVER_H

#include "base/error.h"
#include "engine/engine.h"
#include "server/tenants.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

typedef struct server server;

typedef struct {
    const char *dir;    /* where files and batches lie; NULL: there are none. Made if need be */
    uint64_t bytes_max; /* of all files; 0: 8 GB */
} server_batch_config;

typedef struct {         /* borrowed until server_destroy */
    const char *host;    /* an IPv4 or IPv6 address */
    int port;            /* 0: any */
    tenants *tenants;    /* whom to serve */
    bool keep_at_hangup; /* SIGHUP: reads the tenants' file again, if there is one; else it ends the process */
    uint32_t connections_max;
    size_t body_max;
    uint64_t head_us, idle_us, stall_us; /* deadlines; 0: 10 s, 120 s, 30 s */
    const char *curves_path;             /* served at /debug/curves; NULL: none */
    config_forward forward_batch;        /* who answers batch work; url "": this server */
    server_batch_config batch;
    uint64_t heartbeat_us; /* SSE comments while nothing else is sent; 0: 5 s */
} server_config;

typedef struct { /* what is served; borrowed until server_destroy */
    engine *engine;
    const tokenizer *tokenizer;
    const chat_template *chat_template;         /* NULL: chat answers 400 */
    const char *template_text;                  /* its source; NULL allowed */
    const char *tool_parser, *reasoning_parser; /* of text/output_parser.h, "none"; NULL: by the template's text */
    const char *name;
    uint64_t created_unix;
    uint32_t context_length;
    uint64_t cache_bytes;                 /* that cached prefixes may take; 0: none are kept */
    const sampling_params *sampling;      /* where a request says nothing; NULL: temperature 1 and nothing else */
    struct constraint_store *constraints; /* api/constraints.h; NULL: answers cannot be held to a format */
    const int32_t *stop_tokens;           /* end a generation */
    uint32_t stop_token_count;
} server_model;

status server_create(server **out, const server_config *config, error *err);
void server_wake(void *server); /* engine_config.wake, with the server as wake_context; any thread */
/* Serves until SIGTERM and the last answer, or SIGINT or a second SIGTERM. The engine must have the tenants' table. */
status server_run(server *s, const server_model *model, error *err);
void server_stop(server *s); /* any thread: as a SIGINT */
int server_port(const server *s);
void server_destroy(server *s); /* NULL allowed */

#endif
