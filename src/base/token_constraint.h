/* base/token_constraint.h: the contract by which a request says which tokens may come next (exact JSON, a grammar, a
 * tool's schema). Made and owned by the submitter's side (text/grammar), carried by a request, asked on the engine
 * thread only. Masks are made elsewhere: `ready` false means that the one for now is not there yet; the sequence gets
 * no step until it is, and what `watch` was given tells the engine. No call takes longer than some tens of
 * microseconds. */
#ifndef HEADWAY_BASE_TOKEN_CONSTRAINT_H
#define HEADWAY_BASE_TOKEN_CONSTRAINT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct token_constraint token_constraint;

typedef enum {
    CONSTRAINT_OPEN,   /* more may come */
    CONSTRAINT_OVER,   /* the text is complete: nothing but a stop token could follow */
    CONSTRAINT_FAILED, /* a token came that was not allowed, or a bound was met: the text is of no use */
} constraint_state;

typedef struct {
    bool (*ready)(token_constraint *self);
    /* Once ready: one bit for each token of the vocabulary (bit i % 32 of word i / 32) that may come next; NULL: any
     * may. Stop tokens are set where the text may end. Valid until accept. */
    const uint32_t *(*mask)(token_constraint *self);
    /* The sampled token, a stop token too; once each, while ready. */
    constraint_state (*accept)(token_constraint *self, int32_t token);
    /* Set by the engine at submission, before the first other call: `woken` is called when ready turned true later on
     * (any thread; it must not call back). */
    void (*watch)(token_constraint *self, void (*woken)(void *context), void *context);
    void (*destroy)(token_constraint *self); /* with the request, any thread */
} token_constraint_ops;

struct token_constraint {
    const token_constraint_ops *ops;
};

#endif
