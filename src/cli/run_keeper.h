/* cli/run_keeper.h: keeps what was measured on this machine for `headway plan`: one record a figure, with the power
 * source and whether the clocks fell meanwhile (HEADWAY_SYSFS names another folder than /sys). Main thread. */
#ifndef HEADWAY_CLI_RUN_KEEPER_H
#define HEADWAY_CLI_RUN_KEEPER_H

#include "plan/measured.h"

enum { KEPT_MAX = 128, KEPT_STEPS_LEAST = 5, KEPT_PROMPT_LEAST = 32 };

typedef struct {
    run_record form;  /* what all records have in common */
    power_info power; /* before the next figure; its clock is the highest so far */
    bool elsewhere;   /* measured on another machine: its power and clocks are not known */
    run_record records[KEPT_MAX];
    uint32_t count;
} run_keeper;

typedef struct {
    run_kind kind;
    uint32_t batch, prompt_tokens, output_tokens, repeats;
    double tok_s, low, high; /* median, least and most of the repeats; high 0: not known */
} run_figure;

/* Names the machine and the model at `path`, or of the catalogue ("NAME:TYPE"). What cannot be kept has an error: a
 * model that the planner does not know how to read. */
status run_keeper_open(run_keeper *k, const char *path, error *err);
/* Right when the figure's last run has ended. Of fewer decode steps in all repeats, of a shorter prompt, or beyond
 * KEPT_MAX it is left out. */
void run_keeper_add(run_keeper *k, const run_figure *figure);
/* Appends to the user's file and says so in a line for people; nothing to keep: no file, no line. */
status run_keeper_close(run_keeper *k, buf *said, error *err);

/* "on" or "off" for --keep; ERR_INVALID otherwise. */
status run_keeper_wanted(const char *flag, bool *out, error *err);

#endif
