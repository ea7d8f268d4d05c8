/* plan/cost.h: how long does a step take there? Bytes and operations of a step from the model's sums, seconds from the
 * hardware and from how much of it is reached. Pure functions; any thread.
 *
 *   decode step    the larger of   bytes / (bandwidth x decode share)
 *                  and             rows x 2 x active parameters / (matmul rate x matmul share)
 *     bytes        = always + expert layers x experts touched x expert + KV read + 2 x state, each in its type
 *     touched      = E (1 - (1 - k/E)^rows)
 *   prefill chunk  operations / (matmul rate x matmul share)
 *                  + bytes of the weights it touches / (bandwidth x read share)
 *     added, not the larger of the two: so says the case study's premium of small chunks (docs/planning.md)
 *   several devices: bandwidth, rate and memory add up; each layer hands its rows' activations over the link twice. */
#ifndef HEADWAY_PLAN_COST_H
#define HEADWAY_PLAN_COST_H

#include "plan/hardware.h"
#include "plan/model_shape.h"

typedef struct {                      /* shares of what the makers say, each in (0, 1] */
    double decode;                    /* useful bytes of a decode step by bandwidth */
    double decode_low, decode_high;   /* what is printed as a range: no known measurement lies outside */
    double shallow_low, shallow_high; /* the same, at depths of up to 1,024 tokens: KV read badly is not in it */
    double read;                      /* of weights read in order by a chunk */
    double matmul;                    /* of the dense matmul rate, of prompts */
    double overhead_s;                /* of a request, before its first token, besides its prefill */
    const char *why;                  /* where they are from, in a few words */
} cost_shares;

typedef struct {
    hardware hw;      /* a copy: flags may have changed a number */
    uint32_t devices; /* >= 1 */
    double link_gb_s; /* between them; 0 with one device */
    model_shape shape;
    model_sums sums;
    weight_type type;
    double kv_bits; /* of one number of KV */
    cost_shares shares;
    double step_bytes_fixed; /* > 0: weights of a decode step, instead of what the shape says (`--step-gb`) */
} cost_box;

double cost_bandwidth(const cost_box *b);   /* bytes/s of all devices, as their maker says */
double cost_matmul_rate(const cost_box *b); /* operations/s of all devices in the weights' type; 0: not known */

double cost_experts_touched(const model_shape *shape, double rows); /* of one layer, expected */
/* Of so many parameters of routed experts and of everything else, each as its type stores it. */
double cost_parameter_bytes(const cost_box *b, double others, double experts);
double cost_weight_bytes(const cost_box *b);                   /* all of the text model */
double cost_step_weight_bytes(const cost_box *b, double rows); /* of a decode step, or a chunk, with so many rows */
double cost_kv_token_bytes(const cost_box *b);                 /* kept for a token in layers that see everything */
double cost_kv_bytes(const cost_box *b, double depth);         /* kept for, or read by, one sequence at that depth */
/* Weights, KV of every row, states read and written. */
double cost_step_bytes(const cost_box *b, double rows, double depth);
double cost_prefill_flops(const cost_box *b, double position, double count); /* attention included, the head once */
double cost_link_s(const cost_box *b, double rows);                          /* 0 with one device */

/* Of a decode step: every byte at full bandwidth. At depth 0 of the weights alone, the texts' division: a sequence
 * that holds nothing has no KV and no state yet. */
double cost_ceiling_s(const cost_box *b, double rows, double depth);
double cost_decode_s(const cost_box *b, double rows, double depth);
/* cost_decode_s with another share of the bandwidth than shares.decode. */
double cost_decode_share_s(const cost_box *b, double rows, double depth, double share);
/* Where no matmul rate is known: of the bytes alone. */
double cost_chunk_s(const cost_box *b, double position, double count);
double cost_prefill_s(const cost_box *b, double position, double count, double chunk); /* in chunks of so many tokens */

/* Shares for that hardware and model, without a measurement of the very pair: by the device's family and whether the
 * model has experts; from the table of known measurements (plan/known.c) with up to 4 streams. `shape` NULL: 0.75 to
 * 0.85, what is usual for dense models. */
cost_shares cost_shares_for(const hardware *hw, const model_shape *shape);

#endif
