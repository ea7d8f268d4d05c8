/* cli/plan_machine.h: what is this very machine? Its memory is the system's word, its bandwidth measured in some tens
 * of milliseconds, its matmul rate reckoned from cores, clock and instructions. Main thread. */
#ifndef HEADWAY_CLI_PLAN_MACHINE_H
#define HEADWAY_CLI_PLAN_MACHINE_H

#include "plan/hardware.h"

/* The row of the table where the machine is one of its rows, else what was found. `words` are the row's strings. */
typedef struct {
    char name[48], title[256];
} plan_machine_words;
status plan_machine(hardware *out, plan_machine_words *words, error *err);

#endif
