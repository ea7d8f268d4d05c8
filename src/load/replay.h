/* load/replay.h: plays a plan against something that answers, and notes what came when. The answering side is a table
 * of functions: an HTTP server (load/client) or a simulated one on a virtual clock. A request's time counts from when
 * the plan wanted it sent, so a late client or a stalled server hides nothing (coordinated omission). One thread: the
 * caller's. */
#ifndef HEADWAY_LOAD_REPLAY_H
#define HEADWAY_LOAD_REPLAY_H

#include "base/clock.h"
#include "load/samples.h"

typedef struct {
    const load_session *session;
    uint32_t turn;
    const span *answers; /* of the turns before */
    uint32_t sample;     /* its number: given back in every event */
} load_request;          /* all of it valid during send */

typedef struct {
    load_outcome outcome;
    int http_status;
    char reason[REASON_MAX], message[160];
    uint32_t retry_after_s;
    load_usage usage;
} load_end;

typedef struct {
    void *self;
    void (*token)(void *self, uint32_t sample, uint64_t at_us, span text);
    void (*end)(void *self, uint32_t sample, uint64_t at_us, const load_end *end);
} load_sink;

typedef struct load_transport load_transport;
struct load_transport {
    /* Starts a request; its events come during wait. */
    status (*send)(load_transport *self, const load_request *request, error *err);
    void (*cancel)(load_transport *self, uint32_t sample); /* no further event of it comes */
    /* Gives events to the sink until the time, or until a request has ended, whichever comes first. */
    void (*wait)(load_transport *self, uint64_t until_us, const load_sink *sink);
};

typedef struct {
    uint64_t start_us, end_us; /* end: nothing of it ran any more */
    bool cut;                  /* stopped from outside */
} load_span;

typedef struct { /* for a progress line */
    const load_phase *phase;
    uint32_t phase_index, running, done, refused, failed;
    uint64_t tokens;
    uint64_t elapsed_us; /* of the phase */
} load_progress_now;

typedef struct {
    const workload *work;
    const load_plan *plan;
    load_transport *transport;
    hw_clock *clock;
    uint64_t tick_us; /* between two calls of `progress` */
    void (*progress)(void *context, const load_progress_now *now);
    void *context;
    volatile int *stop; /* set from outside: cut everything, return; NULL: never */
} replay_config;

enum { PLAYS_MAX = 8192, TRIES_MAX = 6, FAILURES_MAX = 8 };

/* Appends to `samples`; `spans` has PHASES_MAX entries. An agent whose turn is refused tries again after the server's
 * Retry-After (1 s without), TRIES_MAX times, then drops its session. ERR_IO: the first FAILURES_MAX requests, or later
 * four times as many in a row, all failed; `err` says how, and what was measured is there. */
status replay_run(const replay_config *config, load_samples *samples, load_span *spans, error *err);

#endif
