/* server/api/reasoning_limit.h: a constraint that leaves thoughts free, ends one cleanly after so many tokens, and
 * hands over to another constraint (a grammar) behind it. */
#ifndef HEADWAY_SERVER_API_REASONING_LIMIT_H
#define HEADWAY_SERVER_API_REASONING_LIMIT_H

#include "base/error.h"
#include "base/token_constraint.h"
#include "text/output_parser.h"
#include "text/tokenizer.h"

typedef struct {
    const tokenizer *tokenizer; /* outlives the constraint */
    uint32_t vocab_size;        /* of the masks */
    const output_marks *marks;
    bool open;               /* the prompt has opened a thought */
    bool may_open;           /* the answer may begin with one */
    uint32_t budget;         /* tokens of thought; UINT32_MAX: no limit */
    token_constraint *inner; /* owned once created; NULL: anything may follow */
} reasoning_limit_config;

/* *out is left as it is when this fails. */
status reasoning_limit_create(token_constraint **out, const reasoning_limit_config *config, error *err);

#endif
