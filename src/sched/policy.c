/* sched/policy.c: the table of policies. */
#include "sched/policy.h"

#include <string.h>

extern const sched_policy policy_prefill_first, policy_decode_first, policy_chunked, policy_gate, policy_cadence;

static const sched_policy *const policies[] = {&policy_prefill_first, &policy_decode_first, &policy_chunked,
                                               &policy_gate, &policy_cadence};

const sched_policy *policy_find(const char *name)
{
    for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++)
        if (strcmp(policies[i]->name, name) == 0)
            return policies[i];
    return NULL;
}

const char *policy_names(void)
{
    return "prefill-first, decode-first, chunked, gate, cadence";
}
