/* plan/measured.h: what was measured, where and when? Records of runs, one JSON object a line ("headway-run/1",
 * docs/results.md): those shipped with Headway, those that `bench` and `tune` keep on this machine, and those that
 * `plan --import` takes from others. Nonsense is refused with a reason, an outlier too. A set is owned by who opened
 * it; one thread. */
#ifndef HEADWAY_PLAN_MEASURED_H
#define HEADWAY_PLAN_MEASURED_H

#include "base/buf.h"
#include "plan/cost.h"

enum { RUNS_MAX = 20000, RUN_LINE_MAX = 4096 };

typedef enum { RUN_DECODE, RUN_PREFILL, RUN_KINDS } run_kind;
typedef enum { POWER_UNKNOWN, POWER_MAINS, POWER_BATTERY } power_source;

typedef struct {
    run_kind kind;
    char hardware[48], model[64], type[16]; /* names of the tables; others are kept too, and found by the same name */
    char runtime[48], version[32];          /* "headway", "0.1.0" */
    char sampler[48];                       /* "greedy"; "": not said */
    char date[24];                          /* "2026-11-30", or with a time, UTC */
    char source[96];                        /* who says so; "": this machine */
    double tok_s;                           /* of all streams together */
    uint32_t batch, prompt_tokens,
        output_tokens; /* prompt_tokens: the depth at which decode began, or the prompt read */
    uint32_t repeats;  /* runs that tok_s is the median of, >= 1 */
    power_source power;
    bool throttled, throttle_known; /* clocks fell during the run */
} run_record;

typedef struct {
    run_record *items;
    uint32_t count, capacity;
} run_set;

void run_set_free(run_set *s);
/* One line. ERR_INVALID: `err` says what is wrong with which field: missing, of a wrong type, out of range, or a rate
 * above the ceiling of the hardware where both are known. */
status run_record_read(run_record *out, span line, error *err);
void run_record_write(const run_record *r, buf *out); /* a line and its end */

typedef struct {
    uint32_t taken, doubles, refused, outliers;
    char first_reason[240]; /* "line 3: ..." */
} import_report;
/* Lines of `text` into the set; wrong ones are left out and counted. An outlier differs from the median of the other
 * runs of its group (hardware, model, type, kind, batch, runtime; at least 4 of them) by more than a factor of two. */
status run_set_import(run_set *s, span text, import_report *out, error *err);

/* The user's own file: $XDG_DATA_HOME/headway/runs.jsonl, or ~/.local/share/...; HEADWAY_RUNS names another. 0600 not
 * needed: no text of anybody is in it. */
status run_store_path(char *out, size_t size, error *err);
status run_store_open(run_set *out, error *err); /* shipped ones and the user's; no file: none */
status run_store_append(const run_record *records, uint32_t count, error *err); /* under a lock, whole lines */

typedef struct {                    /* n = 0: nothing is known */
    uint32_t n;                     /* records */
    double median, low, high;       /* tokens/s */
    char date[24];                  /* of the newest */
    uint32_t on_battery, throttled; /* of them */
    char runtimes[96];
} run_summary;
/* Runs of exactly that hardware, model, type, kind and batch, depth within a factor of two (0 counts as up to 1,024).
 * Runs on battery or with falling clocks count only when there are no others. */
run_summary run_set_find(const run_set *s, run_kind kind, const char *hardware, const char *model, const char *type,
                         uint32_t batch, uint32_t depth);

/* The known measurements that ship with Headway, as lines (plan/known.c). */
extern const char *const known_runs[]; /* ends with NULL */

#endif
