/* cli/help.h: what flags does a command take, and what did the user give? One const table per command is both the
 * parser's grammar and the text of `headway COMMAND --help`, so the two cannot disagree. Values are borrowed from argv.
 * Main thread. */
#ifndef HEADWAY_CLI_HELP_H
#define HEADWAY_CLI_HELP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { FLAGS_MAX = 64, OPERANDS_MAX = 8 };

typedef struct {
    const char *name;     /* "--port" */
    const char *argument; /* "N", "PATH", …; NULL: a switch */
    const char *text;     /* one line of help */
    const char *fallback; /* the value when not given, shown as "[8080]"; NULL: none */
} flag_spec;

typedef struct {
    const char *name;                  /* "serve" */
    const char *operands;              /* "FILE" as shown in the usage line; NULL: none */
    const char *summary;               /* one sentence */
    const flag_spec *flags;            /* ends with a NULL name; at most FLAGS_MAX; --help is added */
    const char *notes;                 /* printed last; NULL: none */
    unsigned operand_min, operand_max; /* at most OPERANDS_MAX */
} command_spec;

typedef struct {
    const command_spec *spec;
    const char *values[FLAGS_MAX]; /* by the index in spec->flags; NULL: not given; "" for a switch that was given */
    const char *operands[OPERANDS_MAX];
    unsigned operand_count;
} command_flags;

enum { COMMAND_RUN = -1 };
/* Reads argv[1..] (`--flag value` or `--flag=value`; `--` ends the flags). COMMAND_RUN: go on; else the exit code: 0
 * after --help was printed on stdout, 2 after a complaint on stderr. */
int command_parse(const command_spec *spec, int argc, char **argv, command_flags *out);

void command_print_help(const command_spec *spec);

/* `name` must be in the table. */
bool flag_given(const command_flags *flags, const char *name);
const char *flag_text(const command_flags *flags, const char *name); /* given value, else fallback, else NULL */
/* A decimal number in [min, max]; ERR_INVALID names the flag, the text and the range. ERR_NOT_FOUND: not given and no
 * fallback. */
status flag_number(const command_flags *flags, const char *name, uint64_t min, uint64_t max, uint64_t *out, error *err);
/* Bytes: a number with an optional K, M, G or T (powers of 1024), e.g. "512M", "1.5G". */
status flag_bytes(const command_flags *flags, const char *name, uint64_t *out, error *err);

/* Prints "headway NAME: TEXT" on stderr and returns `exit_code` (2: wrong flags; 1: everything else). */
int command_fail(const command_spec *spec, const error *err, int exit_code);

#endif
