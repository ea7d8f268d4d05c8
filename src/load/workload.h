/* load/workload.h: who asks for what, and when? A plan of phases; in each, groups of one role play sessions of one or
 * more turns. Everything follows from the seed: session `index` of a role is the same whoever plays it and whenever,
 * and no two sessions share text but the agents' system prompt and a trace's shared blocks. Lengths are tokens, times
 * microseconds. Knows no clock, no network and no text, so that load/replay drives it against a server and the
 * simulator on a virtual clock. Values only; any thread. */
#ifndef HEADWAY_LOAD_WORKLOAD_H
#define HEADWAY_LOAD_WORKLOAD_H

#include "base/error.h"
#include "base/rng.h"
#include "load/trace_file.h"

typedef enum { LOAD_AGENTS, LOAD_DOCUMENTS, LOAD_TRACE, LOAD_ROLES } load_role;
const char *load_role_name(load_role role); /* "agents", … */

enum { TURNS_MAX = 16, PHASES_MAX = 4, GROUPS_MAX = 2 };

typedef struct {
    uint32_t prompt_tokens; /* what this turn adds to the conversation */
    uint32_t output_tokens;
    uint64_t think_us; /* from the end of the answer before (turn 0: from the session's start) to sending this one */
} load_turn;

typedef struct {
    load_role role;
    uint32_t index;
    uint64_t key;           /* of its own text */
    uint64_t shared_key;    /* of the first shared_tokens, the same for all sessions of the role */
    uint32_t shared_tokens; /* before turn 0; 0: none */
    uint32_t turn_count;
    load_turn turns[TURNS_MAX];
    const trace_row *row;   /* LOAD_TRACE: the blocks of its prompt; NULL else */
    const uint64_t *blocks; /* of the trace */
    double block_tokens;    /* of a block, scaled */
} load_session;

typedef struct { /* other sizes than the usual ones; 0: the usual */
    uint32_t document_tokens, document_output;
    uint32_t prompt_tokens, output_tokens; /* of an agent: its first prompt, what all share included; each answer */
    double think_s;                        /* between an answer and the next turn, always so long */
    double spread;                         /* document_tokens and prompt_tokens are drawn from so much less to so much
                                              more: 0.4 is 60% to 140% */
} workload_sizes;

typedef struct {
    uint64_t seed;
    double scale;            /* multiplies prompt lengths */
    const trace_file *trace; /* NULL when no group is LOAD_TRACE */
    workload_sizes sizes;
} workload;

void workload_session(const workload *w, load_role role, uint32_t index, load_session *out);
/* The most tokens, answers included, that a session of the role can come to hold. */
uint64_t workload_longest(const workload *w, load_role role);
/* Tokens of the whole prompt of `turn`: shared, all turns so far, the wanted length of the answers between. */
uint32_t session_prompt_tokens(const load_session *s, uint32_t turn);

typedef struct {
    load_role role;
    uint32_t concurrency;   /* closed loop: sessions at once; 0: open loop */
    double rate;            /* open loop: sessions that start a second, Poisson; a trace has its own times over it */
    uint32_t request_limit; /* 0: none */
    uint64_t delay_us;      /* closed loop: its sessions start so long after the phase */
} load_group;

typedef struct {
    const char *name;
    uint64_t duration_us; /* nothing new is sent later, but by agents while other roles finish; 0: no limit */
    uint64_t at_least_us; /* a group's request_limit counts from then on */
    load_group groups[GROUPS_MAX];
    uint32_t group_count;
    bool together; /* its cells are compared with the phases where a role was alone */
} load_phase;

typedef struct {
    load_phase phases[PHASES_MAX];
    uint32_t phase_count;
} load_plan;

typedef struct { /* what was asked for; 0 or absent: the default */
    enum { BENCH_AGENTS, BENCH_DOCUMENTS, BENCH_MIXED, BENCH_TRACE } kind;
    uint32_t agents, workers, requests;
    double duration_s, rate;
    double head_start_s; /* mixed: so long the agents are alone before the documents come, and so much longer in the
                            phase without documents */
} plan_options;

void workload_plan(const plan_options *options, const trace_file *trace, load_plan *out);
/* A day of a service in which 7 of 10 requests are agents' turns, in sessions that begin at random times, and the
 * others documents at random times: `requests` of them in 24 hours, 77 tokens in for each one out. */
void workload_day(uint32_t requests, load_plan *plan, workload_sizes *sizes);

typedef struct { /* when do sessions start in an open loop? */
    rng random;
    double rate, at_s;
} load_arrivals;

void arrivals_open(load_arrivals *a, uint64_t seed, load_role role, double rate);
uint64_t arrivals_next(load_arrivals *a); /* microseconds after the phase's start, never decreasing */

#endif
