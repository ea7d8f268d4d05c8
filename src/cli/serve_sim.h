/* cli/serve_sim.h: `serve --runner sim --hardware H --model-shape M`: what that machine costs and holds as the settings
 * of the simulated runner. Main thread. */
#ifndef HEADWAY_CLI_SERVE_SIM_H
#define HEADWAY_CLI_SERVE_SIM_H

#include "cli/help.h"
#include "sim/sim_runner.h"

typedef struct {
    sim_costs costs;
    char name[160]; /* of the model; "": sim's own */
    char text[640]; /* one line on the box; "": none was asked for */
} serve_sim;

/* Do the flags go together? ERR_INVALID names the one that does not. */
status serve_sim_check(const command_flags *flags, error *err);
/* Fills what the command line leaves open; `config` borrows from `own` until the runner is made. ERR_INVALID: a wrong
 * value; ERR_LIMIT: it does not fit. */
status serve_sim_read(serve_sim *own, sim_config *config, const command_flags *flags, error *err);

#endif
