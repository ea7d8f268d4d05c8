/* server/exchange.h: one HTTP request being answered. Created when its head arrives, worked on by at most one worker
 * thread, then owned by the loop thread; freed when the answer is complete and the engine has let go of all its
 * generations. `connection` is NULL once the client is gone or the answer is complete. Private to the server room. */
#ifndef HEADWAY_SERVER_EXCHANGE_H
#define HEADWAY_SERVER_EXCHANGE_H

#include "server/api/plan.h"
#include "server/connection.h"
#include "server/forward.h"
#include "server/gap_stats.h"
#include "server/health.h"
#include "server/json_text.h"
#include "server/server.h"
#include "server/terms.h"

typedef struct exchange exchange;
typedef struct generation generation;

/* How a dialect writes what was generated. All on the loop thread. */
typedef struct {
    const char *id_prefix, *object, *chunk_object;
    /* One choice of a chunk: new text, or (finish != NULL) the end. Uses and clears g's log-probabilities. */
    void (*chunk_choice)(buf *out, const exchange *x, generation *g, span text, const char *finish);
    void (*full_choice)(buf *out, const exchange *x, generation *g);
    void (*logprob)(const exchange *x, generation *g, const sampled_token *token); /* adds to g->logprobs */
} answer_format;

typedef struct {
    const char *path;
    http_method method;
    bool on_worker; /* handle runs on a worker thread: it may use x->body, x->plan, x->answer and the model */
    bool open;      /* no key needed */
    void (*handle)(exchange *x);
    const answer_format *format; /* the handler leaves a plan to be generated; NULL: it leaves an answer */
} route;

struct generation { /* one sequence */
    exchange *exchange;
    uint32_t index;
    uint64_t id; /* the engine's */
    detokenizer decode;
    stop_matcher stop;
    buf text;        /* not sent yet */
    buf logprobs[4]; /* not sent yet; columns as the format likes */
    size_t text_offset;
    uint32_t tokens, prompt_tokens, cached;
    cache_lookup lookup; /* once it is done */
    const char *finish;  /* NULL: going on */
    bool stopped;        /* by a stop string: what comes later is dropped */
    bool done;           /* the engine has let go */
    bool begun, ended;   /* first and last chunk written */
    uint64_t first_us, last_us, queued_us, prefill_us, decode_us;
    uint32_t prompt_done; /* tokens of the prompt that have been read */
    uint32_t tenant;      /* index */
    request_class klass;
    gap_stats gaps;
    char error[160];
};

struct exchange {
    server *server;
    const server_model *model;
    bool takes_parts; /* the template prints text parts itself */
    connection *connection;
    const route *route;
    exchange *next, *previous, *next_dirty, *next_large;
    bool dirty, working, streaming, large;
    bool head_only;               /* the method is HEAD */
    struct trace_stream *tracing; /* owned: this answer is a trace that is being written */
    forward *forward;             /* owned: another server answers, or does if this turns out to be batch work */
    buf query;                    /* of the target, behind '?' */
    buf if_none_match;            /* the header, of open routes */
    buf body;
    uv_work_t work;
    void (*task)(exchange *x); /* what the worker does instead of route->handle */
    int cache_of;              /* of a request to forget: a tenant's index, -1: everybody's */
    generation_plan plan;
    request_terms terms; /* of the head; with the body's service_tier from generation_start on */
    struct {
        int status; /* 0: none yet */
        const char *type;
        buf body, headers; /* headers: further lines, each with CR LF */
    } answer;
    api_error error;
    buf warnings, ignored;
    buf prefix; /* of every chunk */
    generation *generations;
    uint32_t count, live;                  /* live: still the engine's */
    uint64_t arrived_us, sent_us, read_us; /* read_us: its last byte was read */
    uint64_t created_unix;
    char id[48];
};

span exchange_warning_header(const exchange *x, buf *scratch);

/* Answers x (once) and takes it off its connection. */
void exchange_respond(exchange *x);
void exchange_free_if_done(exchange *x);

/* generation.c: submits x->plan; events go in by generation_event; writes by generation_flush. */
void generation_start(exchange *x);
void generation_event(const engine_event *event);
void generation_flush(exchange *x);
void generation_cancel_all(exchange *x);
void generation_heartbeat(exchange *x);

/* For the handlers: the server's own state. */
typedef struct server_measures server_measures;
bool server_draining(const server *s);
server_measures *server_measures_of(server *s);
const char *server_cache_place(const server *s, uint32_t place); /* "ram", "disk": a word for a cache_lookup.hits */
network_counts server_network_counts(const server *s);
const config_forward *server_forward_batch(const server *s); /* NULL: batch work stays here */
forwards *server_forwards(server *s, error *err);            /* NULL: `err` says why */
uint64_t server_next_id(server *s);
health server_health(server *s, const engine_snapshot *now, uint64_t now_us);
uint64_t server_waited_us(const server *s, uint64_t now_us); /* as in health_waited_us */
const char *server_curves_path(const server *s);             /* "": none */
void server_watch_traces(server *s); /* marks every exchange that is tracing dirty, some 20 times a second */
uint64_t server_random(server *s);
void server_mark_dirty(exchange *x);
/* Loop thread, from a handler: `task` runs on a worker, few at a time, and leaves the answer. */
void server_run_task(exchange *x, void (*task)(exchange *x));
/* Loop thread: who shares this server, by index; valid until the next turn. Index 0 is always there. */
const tenant_table *server_tenants(const server *s);
exchange *server_exchanges(const server *s); /* all of them, linked by `next` */
const tenants *server_tenants_of(const server *s);
/* Is there room for `ask`? False: `e` says why not, with the status, the reason and when to try again. */
bool server_admit(server *s, const admission_ask *ask, api_error *e);

#endif
