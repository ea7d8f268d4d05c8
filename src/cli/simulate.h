/* cli/simulate.h: the parts of `headway simulate`: what was asked for, the box that it runs on, one run of it, and
 * many. Main thread; strings are borrowed from argv. */
#ifndef HEADWAY_CLI_SIMULATE_H
#define HEADWAY_CLI_SIMULATE_H

#include "cli/help.h"
#include "load/beside.h"
#include "load/report.h"
#include "plan/cost.h"
#include "runner/cache_plan.h"
#include "sim/world.h"

typedef struct { /* figures of a box that is known by them only; all 0: none */
    double decode_tok_s, document_s, document_tokens, chunk_s, chunk_tokens;
} simulate_fit;

typedef struct {
    const command_spec *spec;
    const char *model, *hardware, *kv, *policy, *trace_path;
    plan_options plan;
    workload_sizes sizes;
    bool day, documents_batch, cache_off;
    uint64_t seed, kv_memory; /* kv_memory 0: what is left beside the weights */
    double scale, speed;
    load_bounds bounds; /* gap_ms 0: the engine's own */
    schedule_settings schedule;
    cache_wish cache;
    uint32_t message_tokens;             /* of a chat template, around each message */
    uint32_t parallel, context, devices; /* context 0: the model's, or what the loads need */
    uint32_t boxes, decode_boxes;
    double link_gb_s; /* 0: the hardware's */
    world_route route;
    simulate_fit fit;
    double step_gb; /* weights of a decode step; 0: what the model says */
} simulate_options;

typedef struct {
    sim_costs costs;
    char model[160], hardware[160]; /* for people */
    uint64_t kv_memory;             /* of the page pool */
    uint32_t context;               /* of the model; 0: not known */
    double link_gb_s;               /* 0: not known */
} simulate_box;

/* Hardware and model into costs and memory. ERR_INVALID, ERR_NOT_FOUND: the text names the flag; ERR_LIMIT: does not
 * fit. */
status simulate_box_open(simulate_box *out, const simulate_options *o, error *err);

typedef struct { /* of one run; simulate_result_free */
    workload work;
    trace_file trace;
    load_plan plan;
    load_samples samples;
    load_span spans[PHASES_MAX];
    load_summary summary;
    load_beside beside;
    load_bounds bounds;
    world_report world;
    uint64_t page_bytes, pages, idle_bytes;
    uint32_t context, page_tokens;
    bool stopped;
} simulate_result;

/* `progress` may be NULL. ERR_INVALID and ERR_LIMIT: what was asked for cannot be. `out` lies in memory of its own: it
 * is large. */
status simulate_run(simulate_result *out, const simulate_options *o, const simulate_box *box,
                    void (*progress)(void *context, const load_progress_now *now), void *context, volatile int *stop,
                    error *err);
void simulate_result_free(simulate_result *r);

/* The report of one run: bench's, and what only a simulation knows. */
void simulate_text(const simulate_options *o, const simulate_box *box, const simulate_result *r, buf *out);
void simulate_json(const simulate_options *o, const simulate_box *box, const simulate_result *r, buf *out);
void simulate_html(const simulate_options *o, const simulate_box *box, const simulate_result *r, buf *out);
/* The object of the keys that follow from `r` and are no part of bench's report. */
void simulate_json_own(const simulate_options *o, const simulate_box *box, const simulate_result *r, buf *out);

/* Sets one option by its flag's name without dashes ("chunk", "policy", …). ERR_INVALID names it and the text. */
status simulate_set(simulate_options *o, const char *name, const char *value, error *err);

/* ---- sweeps ---- */
enum { SWEEP_VALUES_MAX = 32, SWEEP_VALUE_SIZE = 24, SWEEP_POINTS_MAX = 256 };

typedef struct {
    char name[24];
    char values[SWEEP_VALUES_MAX][SWEEP_VALUE_SIZE];
    uint32_t count; /* 0: no sweep */
} simulate_axis;

status simulate_axis_read(simulate_axis *out, const char *flag, const char *text, error *err);

typedef struct {       /* NAN: there is none */
    char problem[200]; /* "": it ran */
    double values[24]; /* by the rows of sweep_figures */
} sweep_point;

typedef struct {
    const char *name, *title; /* JSON key; column, with its unit */
    int digits;
} sweep_figure;
extern const sweep_figure sweep_figures[]; /* ends with a NULL name */

typedef struct {
    const simulate_options *options;
    const simulate_box *box; /* of the first point */
    simulate_axis axis, by;  /* by.count 0: one axis */
    sweep_point *points;     /* (by.count or 1, axis.count) */
} simulate_sweep;

void sweep_fill(sweep_point *out, const simulate_result *r);
void sweep_compare(simulate_sweep *s); /* once all points are filled */
void sweep_text(const simulate_sweep *s, buf *out);
void sweep_json(const simulate_sweep *s, buf *out);
void sweep_html(const simulate_sweep *s, buf *out);

#endif
