/* model/op_timer.h: where does a step's time go, op by op? Stands between a model and its backend: while attached,
 * every op of the device goes through it, is waited for, and is counted under a family. The ops called are the same,
 * with the same arguments, so results keep their bits; detached, nothing is left and nothing costs. Engine thread. */
#ifndef HEADWAY_MODEL_OP_TIMER_H
#define HEADWAY_MODEL_OP_TIMER_H

#include "model/model.h"

typedef enum {
    OP_EMBEDDING,
    OP_NORMS,
    OP_QKV,
    OP_ROPE,
    OP_KV_WRITE,
    OP_ATTENTION,
    OP_OUT,
    OP_FFN_UP, /* gate and up */
    OP_ACTIVATION,
    OP_FFN_DOWN,
    OP_ROUTE,
    OP_EXPERTS, /* routed: gate, up, activation, down */
    OP_DELTA,   /* convolution and recurrence */
    OP_ADD,
    OP_HEAD,
    OP_DOWNLOAD,
    OP_SAMPLING, /* from the logits' download to the next op */
    OP_WORKERS,  /* waking them and letting them sleep */
    OP_BETWEEN,  /* from the end of an op to the start of the next */
    OP_FAMILIES,
} op_family;

typedef struct {
    uint64_t us, calls;
    uint64_t bytes; /* weights, keys, values and activations that the ops read or write, once a call */
    uint64_t flops; /* of matmuls and attention */
} op_cost;

typedef struct op_timer op_timer;
status op_timer_attach(op_timer **out, const model *m, error *err);
void op_timer_detach(op_timer *t); /* gives the device its own table back, frees; NULL is allowed */
void op_timer_reset(op_timer *t);
op_cost op_timer_cost(const op_timer *t, op_family family);
const char *op_family_name(op_family family);

#endif
