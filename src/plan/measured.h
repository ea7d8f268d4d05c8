/* plan/measured.h: what was measured, where and when? Records of runs, one JSON object a line ("headway-run/1",
 * docs/results.md): those shipped with Headway, those that `bench` and `tune` keep on this machine, and those that
 * `plan --import` takes from others. Nonsense is refused with a reason, an outlier too. A set is owned by who opened
 * it; one thread. */
#ifndef HEADWAY_PLAN_MEASURED_H
#define HEADWAY_PLAN_MEASURED_H

#include "base/buf.h"
#include "base/power_info.h"
#include "plan/cost.h"

enum { RUNS_MAX = 20000, RUN_LINE_MAX = 4096 };

typedef enum { RUN_DECODE, RUN_PREFILL, RUN_KINDS } run_kind;

typedef struct {
    run_kind kind;
    char hardware[48], model[64], type[16]; /* names of the tables; others are kept too, and found by the same name;
                                               lower case, blanks are dashes (run_record_check makes them so) */
    char runtime[48], version[32];          /* "headway", "0.1.0" */
    char sampler[48];                       /* "greedy"; "": not said */
    char date[24];                          /* "2026-11", "2026-11-30", or "2026-11-30T21:04:05Z" */
    char source[96];                        /* who says so; "": this machine */
    double tok_s;                           /* of all streams together */
    double tok_s_low, tok_s_high;           /* the least and the most of the repeats; 0: not said */
    uint32_t batch, prompt_tokens,
        output_tokens; /* prompt_tokens: the depth at which decode began, or the prompt read; output: 0: not said */
    uint32_t repeats;  /* runs that tok_s is the median of, >= 1 */
    power_source power;
    bool throttled, throttle_known; /* clocks fell during the run */
} run_record;

typedef struct {
    run_record *items;
    uint32_t count, capacity;
} run_set;

void run_set_free(run_set *s);
status run_set_add(run_set *s, const run_record *r); /* as it is; ERR_MEMORY, ERR_LIMIT */

/* One line. ERR_INVALID: `err` says what is wrong with which field: missing, of a wrong type, out of range, or a rate
 * above the ceiling of the hardware where both are known. */
status run_record_read(run_record *out, span line, error *err);
/* The same for a record that is no line; names become lower case. `now_s`: unix seconds, a date more than a day later
 * is refused; 0: any date will do. */
status run_record_check(run_record *r, uint64_t now_s, error *err);
void run_record_write(const run_record *r, buf *out); /* a line and its end */
void run_date(uint64_t unix_s, char out[24]);         /* "2026-11-30T21:04:05Z" */

typedef struct {
    uint32_t taken, doubles, refused, outliers;
    char first_reason[240]; /* "line 3: ..." */
} import_report;
/* Lines of `text` to the set's end; wrong ones are left out and counted, a double (the same in every field) is counted
 * once. An outlier differs from the median of the other runs of its group (hardware, model, type, kind, batch, runtime,
 * like depth, like power; at least 4 of them, in the set or in `text`) by more than a factor of two. What is taken does
 * not depend on the order of the lines. */
status run_set_import(run_set *s, span text, uint64_t now_s, import_report *out, error *err);

/* The user's own file: $XDG_DATA_HOME/headway/runs.jsonl, or ~/.local/share/...; HEADWAY_RUNS names another. 0600 not
 * needed: no text of anybody is in it. */
status run_store_path(char *out, size_t size, error *err);
/* Shipped ones and the user's; no file: none. Damaged lines are left out, with a warning in the log. */
status run_store_open(run_set *out, error *err);
/* Under a lock, whole lines, on the disk when it returns. Over RUNS_MAX lines the oldest of the largest groups go. */
status run_store_append(const run_record *records, uint32_t count, error *err);

typedef struct {                    /* n = 0: nothing is known */
    uint32_t n;                     /* records */
    double median, low, high;       /* tokens/s; low and high with what the records say of their repeats */
    char date[24];                  /* of the newest */
    uint32_t on_battery, throttled; /* of them */
    char runtimes[96];              /* "headway, llama.cpp" */
} run_summary;
/* Runs of exactly that hardware, model, type, kind and batch, depths less than a factor of two apart (of decode
 * all up to 1,024 count as 1,024; of prompts all up to 32 as 32). Runs on battery or with falling clocks count only
 * when there are no others. */
run_summary run_set_find(const run_set *s, run_kind kind, const char *hardware, const char *model, const char *type,
                         uint32_t batch, uint32_t depth);

/* The known measurements that ship with Headway, as lines (plan/known.c). */
extern const char *const known_runs[]; /* ends with NULL */

#endif
