/* cli/plan_machine.h: what is this very machine? Its memory is the system's word, its bandwidth measured in some tens
 * of milliseconds, its matmul rate reckoned from cores, clock and instructions. Main thread. */
#ifndef HEADWAY_CLI_PLAN_MACHINE_H
#define HEADWAY_CLI_PLAN_MACHINE_H

#include "plan/hardware.h"

#define PLAN_MACHINE_NAME "this-machine"

/* `title` becomes out->title. */
status plan_machine(hardware *out, char *title, size_t size, error *err);

#endif
