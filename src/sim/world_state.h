/* sim/world_state.h: the parts of a world: boxes, requests in flight, what is due. Private to world*.c. */
#ifndef HEADWAY_SIM_WORLD_STATE_H
#define HEADWAY_SIM_WORLD_STATE_H

#include "sim/world.h"

typedef struct world_box world_box;

typedef enum { FLIGHT_TRAVELS, FLIGHT_READS, FLIGHT_CROSSES, FLIGHT_RUNS } flight_stage;

typedef struct { /* one request, from send to its end, whatever box it is on */
    uint32_t sample, output_tokens, prompt_count;
    int32_t *prompt; /* the next box's; NULL while an engine has it and no other box will */
    uint32_t shared_tokens, turn_marks[TURN_MARKS_MAX], turn_mark_count;
    request_class klass;
    bool conversation;
    uint64_t route_key;
    flight_stage stage; /* READS: on a box that hands over; CROSSES: on the link; RUNS: on its last box */
    world_box *box;     /* while an engine has it, under request_id */
    uint64_t request_id;
    bool cancelled;          /* nobody is told of it any more */
    uint32_t cached, said;   /* prompt tokens; tokens told */
    uint32_t made, place;    /* tokens that came from engines; its place in box->live */
    uint32_t fresh;          /* tokens of the prompt that no cache can hold */
    uint64_t reads_until_us; /* at least, once it is with an engine */
    int32_t first_token;
} flight;

typedef struct { /* of a box, not told yet */
    uint64_t at_us;
    flight *of;
    int32_t token; /* < 0: its end */
    finish_reason reason;
    char *trouble; /* with FINISH_ERROR; owned */
} world_event;

struct world_box {
    runner *runner;
    engine *engine;
    virtual_clock clock;
    bool decodes;
    bool active;   /* it may have something to do */
    flight **live; /* (live_capacity): requests that its engine has */
    uint32_t live_count, live_capacity;
    uint64_t least_step_us; /* no token comes sooner after another */
    uint64_t quiet_us;      /* no answer ends before this, by what was known when it was computed */
    uint64_t link_free_us;
    uint64_t requests, refused;
    world_event *events; /* [first, end): in order of time */
    size_t first, end, capacity;
    uint64_t ended_us; /* of the first end among them; 0: none */
};

typedef struct { /* a request that reaches a box later */
    uint64_t at_us, order;
    flight *of;
} arrival;

struct world {
    load_transport base; /* first */
    hw_clock clock;      /* second: world_of_clock */
    uint64_t start_us, now_us;
    world_config config;
    sim_costs costs, decode_costs;
    world_box boxes[WORLD_BOXES_MAX];
    uint32_t box_count, front_count; /* the first front_count take requests */
    uint64_t next_id, next_order;
    arrival *arrivals; /* a heap */
    size_t arrival_count, arrival_capacity;
    flight **flights; /* by sample; NULL: over */
    uint32_t flight_capacity;
    struct route_table *routes;
    uint32_t next_box;
    uint64_t link_bytes, link_transfers, link_busy_us, link_worst_us;
    bool failed; /* out of memory: every further request fails */
};

/* world_box.c */
status world_box_open(world_box *b, const world *w, bool decodes, error *err);
void world_box_close(world_box *b);
/* One turn of the engine, its events into the queue; sets `active`. False: out of memory. */
bool world_box_step(world_box *b, uint64_t interrupt_us);
bool world_box_put(world_box *b, const world_event *event); /* false: out of memory */
bool world_box_enter(world_box *b, flight *f);              /* its engine has it; false: out of memory */
/* A time before which no answer of this box can end; UINT64_MAX: there is none. Not recomputed when it is not before
 * `enough_us`. */
uint64_t world_box_quiet(world_box *b, uint64_t enough_us);

/* world_prompt.c: the tokens of request->turn's whole prompt; NULL: out of memory. The caller frees. Fills what else a
 * server finds in a conversation. message_tokens: as in world_config. */
int32_t *world_prompt(const load_request *request, uint32_t message_tokens, flight *out);

/* world_route.c */
typedef struct route_table route_table;
route_table *route_table_create(void); /* NULL: out of memory */
void route_table_destroy(route_table *t);
uint64_t route_key_of(const load_session *session);
uint32_t world_route_pick(world *w, uint64_t key); /* of the front boxes */
uint32_t world_route_decode(const world *w);       /* of the decode boxes: the least loaded */

#endif
