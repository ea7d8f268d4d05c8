/* sim/costs.h: what does each step of the simulated device cost? Tables with straight lines between their points, so
 * that numbers from a planner's formulas, from `tune`'s measurement of a box, from a trace and from a fit all become
 * the same thing. Pure values; any thread. */
#ifndef HEADWAY_SIM_COSTS_H
#define HEADWAY_SIM_COSTS_H

#include "base/span.h"
#include "load/canary.h"
#include "plan/cost.h"

enum { COST_POINTS_MAX = 32, COST_SPREAD = 64 };

typedef struct {
    double x, us;
} cost_point; /* ascending in x; before the first as the first, after the last the last slope goes on */

typedef struct {
    cost_point rows[COST_POINTS_MAX]; /* a decode step at depth 0, by rows */
    uint32_t row_count;
    double kv_us;                       /* of each token of KV that the rows of a step read */
    cost_point chunks[COST_POINTS_MAX]; /* a chunk at position 0, by tokens */
    uint32_t chunk_count;
    double depth_us;     /* of each token of a chunk, for each position before the chunk */
    double fused_row_us; /* what a decode row adds to a chunk that runs with it, besides its KV */
    double step_us;      /* between two steps: the engine's own */
    double request_us;   /* of a request, before it is with the engine: network, template, tokenizer */
    uint32_t
        units; /* looks at yield and deadline during one chunk of chunk_count's largest: a smaller chunk has its part */
    double weight_bytes, weight_bytes_row; /* of a decode step with one row; what each further row adds, about */
    double weight_bytes_most;              /* however many rows: all of them; 0: no such limit */
    double kv_token_bytes, state_bytes;
    double kv_bytes, context; /* of the server that was measured: its page pool, tokens of a sequence; 0: not known */
    /* Times when the machine did something else, in the time of steps with rows: so many of 1 ms and more, of 2, 4, ...
     * a second. They are drawn from a seed of their own. All 0: none. */
    double holes_s[CANARY_SIZES];
    double spread[COST_SPREAD]; /* of decode steps by what they should take, ascending: each as often; all 0: none */
} sim_costs;

double sim_costs_decode_us(const sim_costs *c, double rows, double kv_tokens);
double sim_costs_prefill_us(const sim_costs *c, double position, double count);
double sim_costs_fused_us(const sim_costs *c, double rows, double kv_tokens, double position, double count);

/* Into how many units a chunk of so many tokens falls, >= 1; what weights a step with so many rows reads. */
uint64_t sim_costs_chunk_units(const sim_costs *c, double count);
double sim_costs_weight_bytes(const sim_costs *c, double rows);

void sim_costs_from_box(sim_costs *out, const cost_box *box);
/* tune's steps.json: `name` for messages. ERR_INVALID names the missing part. */
status sim_costs_from_steps(sim_costs *out, span text, const char *name, error *err);
/* A server's trace (`/debug/trace`): what its steps took, with all else that the machine did meanwhile. It needs a
 * decode step and a whole chunk of a prompt; ERR_INVALID says which is missing. */
status sim_costs_from_trace(sim_costs *out, span text, const char *name, error *err);
/* The case study's box by three of its figures; what reads of weights in order reach comes from `box`.
 *   decode    so many tokens/s, of one stream at the depth of its chats: sets the share of the bandwidth
 *   document  its floor, which no chunk size takes it below: its compute alone, so it sets the matmul rate; each chunk
 *             reads the weights that it touches besides
 *   chunk     the first over the second (44 s x 2,048 / 60,000 = 1.5 s): checks it only, unless it is more than compute
 *             and weights explain; then what is over is a cost of each chunk */
void sim_costs_fit(sim_costs *out, const cost_box *box, double decode_tok_s, double document_s, double document,
                   double chunk_s, double chunk);

#endif
