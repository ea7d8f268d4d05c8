/* cli/bench.h: the other halves of `headway bench`. Main thread. */
#ifndef HEADWAY_CLI_BENCH_H
#define HEADWAY_CLI_BENCH_H

#include <stdbool.h>

/* `headway bench agents|documents|mixed|trace`: load for a server. argv[0] is the workload's name. */
bool bench_is_workload(const char *name);
int bench_load_main(int argc, char **argv);

#endif
