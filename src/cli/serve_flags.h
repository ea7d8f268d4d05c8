/* cli/serve_flags.h: the flags of `headway serve`, wherever they are given: the command line, else [server] of the
 * config file, else the default. One table of rules checks both. Main thread. */
#ifndef HEADWAY_CLI_SERVE_FLAGS_H
#define HEADWAY_CLI_SERVE_FLAGS_H

#include "cli/help.h"
#include "sched/settings.h"
#include "server/server.h"

extern const command_spec serve_spec;

/* Are the values that were given what they must be? ERR_INVALID names the flag and what was wanted. */
status serve_flags_check(const command_flags *flags, error *err);

/* The number of a flag; 0 when it is not given and has no default. Only after a check. */
uint32_t serve_flags_number(const command_flags *flags, const char *name);
schedule_settings serve_flags_schedule(const command_flags *flags);

/* Opens the tenants of --config and --api-key (or HEADWAY_API_KEY), and takes over what [server] sets and the command
 * line does not. `flags` then borrows from *out. */
status serve_flags_open_tenants(tenants **out, command_flags *flags, error *err);

/* Where the curves of this box may lie: --curves, else curves.json in the folder of --config; "": nowhere. */
void serve_flags_curves(const command_flags *flags, char *path, size_t size);
/* Who answers batch work; url "": nobody else. Checked before. */
void serve_flags_forward(const command_flags *flags, config_forward *out);
server_batch_config serve_flags_batch(const command_flags *flags); /* Checked before. */

#endif
