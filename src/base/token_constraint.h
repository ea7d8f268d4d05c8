/* base/token_constraint.h: the contract by which a request says which tokens may come next (exact JSON, a grammar, a
 * tool's schema). Made and owned by the submitter's side (text/grammar), carried by a request, asked on the engine
 * thread only. Masks are made elsewhere: `ready` false means that the one for now is not there yet; the sequence gets
 * no step until it is, and engine_config's wake machinery (constraint.woken) tells the engine. No call takes longer
 * than some tens of microseconds. */
#ifndef HEADWAY_BASE_TOKEN_CONSTRAINT_H
#define HEADWAY_BASE_TOKEN_CONSTRAINT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct token_constraint token_constraint;

typedef struct {
    bool (*ready)(token_constraint *self);
    /* Once ready: one bit for each token of the vocabulary (bit i % 32 of word i / 32) that may come next; NULL: any
     * may. Stop tokens are set where the text may end. Valid until accept. */
    const uint32_t *(*mask)(token_constraint *self);
    void (*accept)(token_constraint *self, int32_t token); /* the sampled token, a stop token too; once each */
    void (*destroy)(token_constraint *self);               /* with the request, any thread */
} token_constraint_ops;

struct token_constraint {
    const token_constraint_ops *ops;
    void (*woken)(void *context); /* set by the engine at submission: call it (any thread) when ready turned true */
    void *woken_context;
};

#endif
