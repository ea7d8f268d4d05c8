/* plan/measured_private.h: what the files of measured.h share. */
#ifndef HEADWAY_PLAN_MEASURED_PRIVATE_H
#define HEADWAY_PLAN_MEASURED_PRIVATE_H

#include "plan/measured.h"

enum { DEPTH_LEAST = 1024, PROMPT_LEAST = 32 }; /* depths, and lengths of prompts, up to here are one */
extern const char run_format[];                 /* "headway-run/1" */

/* Lower case, blanks to dashes, for a type not even that: how names of records are kept and looked up. */
void run_name(char *out, size_t size, const char *text, bool dashes);

/* Total orders: 0 means the same in every field; the same group. */
int run_compare(const run_record *a, const run_record *b);
int run_compare_group(const run_record *a, const run_record *b);
static inline bool run_hindered(const run_record *r)
{
    return r->power == POWER_BATTERY || (r->throttle_known && r->throttled);
}

/* Puts the tables' own names for what they know by another ("apple-m4-max"). */
void run_table_names(run_record *r);
/* Tokens/s that no run can reach there, by the tables' own names; 0: hardware, model or type is not in them, or no
 * decode. */
double run_ceiling(const run_record *r);

/* Leaves `most` records: those that go are the oldest of the groups that have the most. */
status run_set_trim(run_set *s, uint32_t most, error *err);

#endif
