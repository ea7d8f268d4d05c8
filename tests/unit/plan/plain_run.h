/* tests/unit/plan/plain_run.h: a record with nothing special about it. */
#ifndef HEADWAY_TESTS_PLAIN_RUN_H
#define HEADWAY_TESTS_PLAIN_RUN_H

#include "plan/measured.h"

static inline run_record plain(double tok_s)
{
    run_record r = {.kind = RUN_DECODE,
                    .hardware = "box",
                    .model = "m",
                    .type = "q4_0",
                    .runtime = "headway",
                    .date = "2026-11-29",
                    .tok_s = tok_s,
                    .batch = 1,
                    .repeats = 1};
    return r;
}

#endif
