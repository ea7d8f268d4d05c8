/* model/sampler.h: which token comes next? Logits of one row to one token, by the request's parameters.
 * Order: the constraint's mask, bias, penalties, temperature, top-k, typical, top-p, min-p, draw. Temperature 0 is
 * exactly argmax (lowest id on ties). The draw of the n-th generated token depends on seed and n alone. A sampler
 * belongs to one sequence; engine thread. */
#ifndef HEADWAY_MODEL_SAMPLER_H
#define HEADWAY_MODEL_SAMPLER_H

#include "base/status.h"
#include "sched/step_plan.h"

typedef struct sampler sampler;

/* `tokens`: the prompt, then `generated_before` tokens that this request made before a preemption; only read by the
 * call. params stay valid as long as the sampler. Ids >= vocab are never drawn. */
status sampler_create(sampler **out, const sampling_params *params, uint32_t vocab, const int32_t *tokens,
                      uint32_t prompt_count, uint32_t generated_before);
void sampler_destroy(sampler *s); /* NULL is allowed */

/* `logits`: vocab floats, changed in place. Fills token, and logprob and top_* when asked for (of the raw distribution:
 * before mask, bias, penalties and temperature). */
void sampler_draw(sampler *s, float *logits, sampled_token *out);

#endif
