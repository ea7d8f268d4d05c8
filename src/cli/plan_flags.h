/* cli/plan_flags.h: what did the user ask `headway plan`? Flags into a request, hardware by name, by numbers or this
 * very machine. Main thread. */
#ifndef HEADWAY_CLI_PLAN_FLAGS_H
#define HEADWAY_CLI_PLAN_FLAGS_H

#include "cli/help.h"
#include "cli/plan_machine.h"
#include "plan/plan.h"

enum { PLAN_WRONG_FLAG = 2, PLAN_WRONG_FILE = 1 };

extern const command_spec plan_spec;

/* Hardware, model and load; `name` NULL: --hardware's, this machine where no flag names any. On failure *exit_code
 * says whether a flag or a file was wrong. Strings of the request live as long as the flags' and `machine`. */
status plan_flags_read(plan_request *out, plan_machine_words *machine, const command_flags *f, const char *name,
                       error *err, int *exit_code);
/* "A,B" of --compare. */
status plan_flags_pair(const command_flags *f, char a[64], char b[64], error *err);

#endif
