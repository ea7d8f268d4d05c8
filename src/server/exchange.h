/* server/exchange.h: one HTTP request being answered. Created when its head arrives, worked on by at most one worker
 * thread, then owned by the loop thread; freed when the answer is complete and the engine has let go of all its
 * generations. `connection` is NULL once the client is gone or the answer is complete. Private to the server room. */
#ifndef HEADWAY_SERVER_EXCHANGE_H
#define HEADWAY_SERVER_EXCHANGE_H

#include "server/answer_pieces.h"
#include "server/api/chat_form.h"
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

/* How a dialect writes what was generated: whole frames and bodies. A function may be NULL where it says so. All on
 * the loop thread. */
typedef struct {
    const char *id_prefix;                /* of x->id */
    const char *call_prefix;              /* of generation_call_id; NULL: "call_" */
    const char *stream_type;              /* NULL: server-sent events */
    const char *ping;                     /* what is sent when nothing else is; NULL: a comment of server-sent events */
    bool keeps_all;                       /* g->all holds all pieces, in a stream too */
    void (*begin)(buf *out, exchange *x); /* accepted: the first frames of a stream; NULL */
    void (*pieces)(buf *out, exchange *x,
                   generation *g); /* frames of g->pieces: at least one, or only log-probabilities */
    void (*finish)(buf *out, exchange *x, generation *g); /* frames of its end, for the reason g->finish */
    void (*end)(buf *out, exchange *x); /* the last frames of a stream, all generations have ended; NULL */
    void (*failed)(buf *out, exchange *x, generation *g); /* a stream breaks: g->error; NULL: as OpenAI's */
    void (*whole)(buf *out, exchange *x); /* the body of an answer that is no stream; from g->pieces. NULL: nothing is
                                             generated, the handler leaves an answer */
    void (*progress)(buf *out, exchange *x, const generation *g, const engine_event *event); /* frames; NULL */
    void (*logprob)(const exchange *x, generation *g, const sampled_token *token); /* adds to g->logprobs; NULL */
    void (*write_error)(const api_error *e, buf *out); /* the body of an error; NULL: as OpenAI's */
} answer_format;

typedef struct {
    const char *path;
    http_method method;
    bool on_worker; /* handle runs on a worker thread: it may use x->body, x->plan, x->answer and the model */
    bool open;      /* no key needed */
    void (*handle)(exchange *x);
    const answer_format *format; /* the handler leaves a plan to be generated; NULL: it leaves an answer */
} route;

typedef struct {
    char text[32];
} call_id;

struct generation { /* one sequence */
    exchange *exchange;
    uint32_t index;
    uint64_t id; /* the engine's */
    detokenizer decode;
    stop_matcher stop;
    output_parser *parser; /* owned; NULL: all is text */
    answer_pieces pieces;  /* not sent yet */
    answer_pieces all;     /* of a format that keeps them */
    call_id *calls;        /* owned: those that have begun */
    uint32_t call_count, calls_whole;
    buf arguments; /* of the call that is being written */
    struct {
        uint32_t index;
        int kind;
    } block;         /* the format's own: what it is writing */
    buf logprobs[4]; /* not sent yet; columns as the format likes */
    size_t text_offset;
    uint32_t taken; /* the format's own: pieces written already */
    uint32_t tokens, thought_tokens, prompt_tokens, cached;
    cache_lookup lookup; /* once it is done */
    const char *finish;  /* NULL: going on; "stop", "length", "tool_calls", "abort", "error" */
    int stop_string;     /* index in the plan's of the one that ended it; -1 */
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

/* Of a request that the server asks itself, without a connection. */
typedef struct {
    void (*answered)(void *context, exchange *x); /* x->answer is there; once. NULL: nobody waits */
    void (*released)(void *context);              /* x goes */
    void *context;
} exchange_inside;

struct exchange {
    server *server;
    const server_model *model;
    const chat_form *form; /* what its template knows; NULL: nothing */
    connection *connection;
    exchange_inside inside;
    const route *route;
    exchange *next, *previous, *next_dirty, *next_large;
    bool dirty, working, streaming, large;
    bool head_only;               /* the method is HEAD */
    struct trace_stream *tracing; /* owned: this answer is a trace that is being written */
    forward *forward;             /* owned: another server answers, or does if this turns out to be batch work */
    buf query;                    /* of the target, behind '?' */
    buf if_none_match;            /* the header, of open routes */
    buf rest;                     /* of the path, behind what a route names that takes more */
    buf content_type;             /* the header, of routes that take a form */
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
    void (*write_error)(const api_error *e, buf *out); /* set by a handler without a format; NULL: the format's */
    buf warnings, ignored;
    buf prefix; /* of every chunk */
    generation *generations;
    uint32_t count, live;                  /* live: still the engine's */
    uint64_t arrived_us, sent_us, read_us; /* read_us: its last byte was read */
    uint64_t created_unix;
    char id[48];
    char request_id[28];         /* in the headers of its answer, and in errors that say it */
    void *own;                   /* the dialect's, from its handler on */
    void (*free_own)(void *own); /* NULL: there is none */
};

static inline bool exchange_waited_for(const exchange *x)
{
    return x->connection || x->inside.answered;
}

span exchange_warning_header(const exchange *x, buf *scratch);
void exchange_write_error(exchange *x); /* in the shape of its dialect, into the answer's body */
void route_write_error(const route *r, const api_error *e, buf *out); /* NULL: as OpenAI's */
void make_request_id(server *s, char out[28]);
void exchange_release(exchange *x); /* all that it owns, not itself */

/* Answers x (once) and takes it off its connection. */
void exchange_respond(exchange *x);
void exchange_free_if_done(exchange *x);

/* generation.c: submits x->plan; events go in by generation_event; writes by generation_flush. */
void generation_start(exchange *x);
void generation_event(const engine_event *event);
void generation_flush(exchange *x);
void generation_cancel_all(exchange *x);
void generation_heartbeat(exchange *x);
void generation_free(generation *g);                                /* what it owns */
const char *generation_call_id(const generation *g, uint32_t call); /* of a call that has begun; never NULL */

/* For the handlers: the server's own state. */
typedef struct server_measures server_measures;
bool server_draining(const server *s);
const server_model *server_model_of(const server *s);
server_measures *server_measures_of(server *s);
const char *server_cache_place(const server *s, uint32_t place); /* "ram", "disk": a word for a cache_lookup.hits */
network_counts server_network_counts(const server *s);
const config_forward *server_forward_batch(const server *s); /* NULL: batch work stays here */
forwards *server_forwards(server *s, error *err);            /* NULL: `err` says why */
struct tool_memory *server_tool_memory(const server *s);     /* any thread; NULL: none */
uint64_t server_next_id(server *s);
health server_health(server *s, const engine_snapshot *now, uint64_t now_us);
uint64_t server_waited_us(const server *s, uint64_t now_us); /* as in health_waited_us */
const char *server_curves_path(const server *s);             /* "": none */
void server_watch_traces(server *s); /* marks every exchange that is tracing dirty, some 20 times a second */
uint64_t server_random(server *s);
void server_mark_dirty(exchange *x);
/* Loop thread, from a handler: `task` runs on a worker, few at a time, and leaves the answer. */
void server_run_task(exchange *x, void (*task)(exchange *x));
/* Loop thread: asks for `r` as a client would, on `terms`; `task` runs on a worker, leaves a body and calls the route's
 * handler. The answer is whole, and is given to inside->answered. NULL: out of memory, or the server ends. */
exchange *server_ask(server *s, const route *r, const request_terms *terms, const exchange_inside *inside,
                     void (*task)(exchange *x));
void server_forget(exchange *x);                     /* nobody waits for it any more: it ends when it can */
struct batch_service *server_batch(const server *s); /* NULL: there is none */
/* Loop thread: who shares this server, by index; valid until the next turn. Index 0 is always there. */
const tenant_table *server_tenants(const server *s);
exchange *server_exchanges(const server *s); /* all of them, linked by `next` */
const tenants *server_tenants_of(const server *s);
/* Is there room for `ask`? False: `e` says why not, with the status, the reason and when to try again. */
bool server_admit(server *s, const admission_ask *ask, api_error *e);

#endif
