/* text/grammar/machine.h: where is a text in a grammar? A machine follows all ways to read it at once: each way is a
 * state and a stack of what is to be gone on with after the procedure that it is in. Stacks share their lower parts and
 * equal ones are one. Owner: one thread at a time. */
#ifndef HEADWAY_TEXT_GRAMMAR_MACHINE_H
#define HEADWAY_TEXT_GRAMMAR_MACHINE_H

#include "text/grammar/parts.h"

enum {
    WAYS_MAX = 256,      /* more are dropped: what is left is still right, only less */
    STACK_MAX = 16384,   /* frames; a way that needs more is dropped */
    FRAME_LOOP = 1 << 31 /* the frame is a loop: its procedure, and how often it was gone round */
};

typedef struct {
    uint32_t frame, count; /* a state to return to; or FRAME_LOOP | procedure */
    uint32_t below;        /* stack; 0: the bottom */
    uint32_t next, depth;  /* next: of the same hash */
    uint64_t key[2];       /* of the whole stack: equal for stacks that the next `window` bytes cannot tell apart */
} stack_frame;

typedef struct {
    uint32_t state, stack;
} way;

typedef struct {
    way way;
    uint32_t stamp;
} seen_way;

typedef struct {
    way *ways; /* (capacity), owned by whoever made the list */
    uint32_t count, capacity;
    bool ended; /* the bottom was reached: the text may end here */
} way_list;

typedef struct {
    const grammar *g;
    stack_frame *frames; /* 0 is not used */
    uint32_t frame_count, frame_capacity;
    uint32_t *buckets, bucket_count;
    seen_way *seen; /* a hash table: what one closure has come by */
    way *todo;
    uint32_t stamp, seen_count, todo_count; /* stamp: of the closure */
    uint32_t window;
    uint64_t seeds[2];
    uint64_t steps; /* counted up: what was looked at */
    bool failed;    /* out of memory */
} machine;

status machine_init(machine *m, const grammar *g, uint32_t window);
void machine_free(machine *m);

static inline uint64_t machine_mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) * 0x9E3779B97F4A7C15u;
    return h ^ h >> 29;
}

/* How often a loop must and may be gone round again, as far as `window` bytes can tell. */
uint64_t machine_loop_view(const machine *m, const procedure *loop, uint32_t count);

uint32_t machine_push(machine *m, uint32_t frame, uint32_t count, uint32_t below); /* 0: none could be made */
void machine_forget(machine *m, uint32_t frame_count); /* frames above go, nothing may point to them */
void machine_compact(machine *m, way_list *ways);      /* what `ways` do not need goes */

/* All of these append to `out`. */
void machine_start(machine *m, way_list *out);
void machine_step(machine *m, const way *ways, uint32_t count, uint8_t byte, way_list *out);
void machine_return(machine *m, uint32_t stack, way_list *out); /* as if the procedure on top of `stack` had ended */

/* For tests and tools: is the whole text one of the grammar's? */
bool grammar_accepts(const grammar *g, span text);

#endif
