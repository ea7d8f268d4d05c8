/* cli/run_names.h: under which names are this machine's measurements kept and looked up? Main thread. */
#ifndef HEADWAY_CLI_RUN_NAMES_H
#define HEADWAY_CLI_RUN_NAMES_H

#include "plan/model_shape.h"

/* HEADWAY_HARDWARE, or the row of the hardware table that the CPU's name means, or "this-machine-" and that name with
 * the number of cores. A virtual machine is none of the table's: it has a part of one. */
void run_hardware_name(char out[48]);
/* That rule by what /proc/cpuinfo says (or a text like it), for tests. */
void run_hardware_name_of(char out[48], const char *cpuinfo, const char *machine, long cores);

/* The catalogue's name for a model of that shape, whatever a file calls it; else the shape's own name. A model that has
 * a name of the catalogue and another shape gets its layers and width behind it. */
void run_model_name(char out[64], const model_shape *shape);

#endif
