/* cli/plan_import.h: `headway plan --import FILE`: measured runs of others into the user's own file. Main thread. */
#ifndef HEADWAY_CLI_PLAN_IMPORT_H
#define HEADWAY_CLI_PLAN_IMPORT_H

#include "plan/measured.h"

enum { IMPORT_BYTES_MAX = 64 << 20 };

/* Appends what is believable and not there yet. `said` gets lines for people: how many were taken, and why others were
 * not. OK also when nothing was taken. "-": from stdin. `out`: the counts; may be NULL. */
status plan_import_file(const char *path, import_report *out, buf *said, error *err);

/* The command's part: the report on stdout, as one JSON object or for people; the exit code. 1: the file cannot be
 * read, or no line of it was taken or there already. */
int plan_import(const char *path, bool json);

#endif
