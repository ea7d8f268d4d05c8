/* plan/plan_private.h: what the files of plan.h share. */
#ifndef HEADWAY_PLAN_PLAN_PRIVATE_H
#define HEADWAY_PLAN_PLAN_PRIVATE_H

#include "plan/plan.h"

typedef struct {
    const plan_request *q;
    plan_result *r;
    run_set pair; /* runs of this hardware, model and type */
} plan_work;

/* plan_prefill.c */
void plan_prefill_fill(plan_work *w);
void plan_gaps_fill(plan_work *w);
bool plan_prefill_known(const plan_request *q, const cost_box *b);
double plan_prefill_s(const plan_request *q, const cost_box *b, double position, double count);
double plan_chunk_s(const plan_request *q, const cost_box *b, double position, double count);

/* plan_more.c */
void plan_speculation_fill(plan_work *w);
void plan_upgrades_fill(plan_work *w);
void plan_energy_fill(plan_work *w);
void plan_notes_fill(plan_work *w);

/* plan.c */
/* Decode by one runtime. */
run_summary plan_find_runtime(const plan_work *w, const char *runtime, uint32_t batch, double depth);
run_summary plan_find(const plan_work *w, run_kind kind, uint32_t batch, double depth);
typedef struct {
    run_summary runs; /* n = 0: the pair has none of that kind */
    uint32_t batch;
    double depth;
} plan_near;
plan_near plan_nearest(const plan_work *w, run_kind kind, uint32_t batch, double depth);
double plan_memory_sessions(const plan_result *r, double usable); /* warm ones beside the rest */

/* plan_text.c */
void plan_put_wrapped(buf *out, const char *first, const char *indent, const char *text);
void plan_put_basis(buf *out, const run_summary *m, bool paper); /* "measured, n = 7, ..." or "est." */
void plan_rates_text(const hardware *hw, buf *out);              /* ", 34.1 TFLOP/s in f16, 68.2 in fp8" */

/* plan_json.c: numbers by hand, in a fixed order; what is not known is null */
void plan_put_string(buf *out, const char *name, const char *text); /* name NULL: none */
void plan_put_number(buf *out, const char *name, double value);
void plan_json_fields(const plan_request *q, const plan_result *r, buf *out); /* without the braces */

/* plan_format.c: numbers for people. */
typedef struct {
    char text[40];
} plan_word;
plan_word plan_bytes(double bytes);       /* "35.7 GB", "20,480 B" */
plan_word plan_streams(uint32_t batch);   /* "1 stream" */
plan_word plan_count(double number);      /* "23,000" */
plan_word plan_seconds(double seconds);   /* "15.4 ms", "44.0 s", "2 min 5 s" */
plan_word plan_number(double number);     /* three digits: "0.67", "65.0", "1,364" */
plan_word plan_parameters(double number); /* "34.7 B" */
plan_word plan_bits(const cost_box *b);   /* of a weight: "4.25 bits, others 8.5": others than experts */

#endif
