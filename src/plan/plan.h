/* plan/plan.h: what will this model do on this machine, under this load? Memory, decode, prefill, gaps, speculation,
 * energy and what an upgrade buys, as numbers that say what they are; and those numbers as text, as JSON, with their
 * formulas, and two machines side by side. Formulas: docs/planning.md. Pure functions; any thread. */
#ifndef HEADWAY_PLAN_PLAN_H
#define HEADWAY_PLAN_PLAN_H

#include "plan/measured.h"

enum { PLAN_DEPTHS = 5, PLAN_BATCHES = 6, PLAN_POINTS = PLAN_DEPTHS + PLAN_BATCHES, PLAN_GAPS = 5, PLAN_NOTES = 12 };

typedef struct {
    cost_box box;       /* shares are filled in by plan_make */
    bool model;         /* there is one; else only box.step_bytes_fixed, prefill_tok_s or the hardware's own numbers */
    double model_total; /* parameters with towers and draft layers; 0: those of the text model */
    const char *model_from, *hardware_from; /* "the catalogue", "a file"; for the text */
    bool hardware_changed;                  /* by flags: what was measured on the row says nothing of it */
    bool type_assumed;                      /* nothing says how the weights are stored: 16 bits */
    bool kv_changed;                        /* another type than 16 bits */
    uint32_t batch;                         /* streams at once, >= 1 */
    double context, depth;                  /* tokens that a stream may hold; at which decode is said */
    double prompt, cached;                  /* tokens of a prompt, and of them in the cache; negative: not given */
    double chunk, document;                 /* tokens */
    double gap_s, chat_share;               /* cadence's bound (0: as serve chooses it) and share */
    double ssd_gb_s;                        /* the disk tier reads */
    double sessions, session_tokens;        /* kept warm; tokens 0: not given */
    double overhead_s;                      /* of a request; negative: the shares' */
    double prefill_tok_s;                   /* > 0: given outright */
    uint32_t draft;                         /* tokens drafted a step; 0: no speculation */
    double accept;                          /* chance that one is taken, given that those before it were */
    double reads_per_token;                 /* tokens read for each one written: 77 in the case study */
    const run_set *runs;                    /* NULL: none */
} plan_request;

typedef struct { /* bytes */
    double weights, kv_token, kv, state, cache, runtime, needed, usable, left;
    double session;       /* one that is kept warm: its KV and a state */
    double sessions_warm; /* that the memory holds beside the rest, those asked for included */
    bool fits, known;     /* the size of the memory is */
} plan_memory;

typedef struct { /* tokens/s of all streams together */
    uint32_t batch;
    double depth;
    double weight_bytes, kv_bytes, state_bytes; /* of a step, of all rows; the state read and written */
    double experts;                             /* touched in a layer */
    double ceiling, low, high, estimate, step_s;
    double share; /* of the ceiling's bytes, by which the estimate was made */
    double low_share, high_share;
    bool calibrated;      /* share is that of the pair's nearest run */
    bool by_matmul;       /* the step is bound by operations, not by bytes */
    run_summary measured; /* n > 0: estimate is its median */
} plan_decode;

typedef struct {
    double prompt, cached, restore_bytes;  /* what the cached tokens hold */
    double tok_s, rate_flops, flops;       /* of the whole prompt cold, its overhead not counted; 0: not known */
    double cold_s, asked_s, warm_s, ssd_s; /* time to first token: nothing, --cached tokens, all but warm_new cached in
                                              memory, and on the disk */
    double warm_new;                       /* tokens that a warm turn reads */
    double restore_s, restore_ssd_s;       /* of warm_s and ssd_s: putting the cached part in place */
    double overhead_s, chunk_s;            /* of the prompt's first chunk */
    double chunk_compute_s, chunk_read_s, chunk_experts, chunk_bytes;
    bool given;           /* the rate was */
    run_summary measured; /* n > 0: tok_s is its median */
} plan_prefill;

typedef struct {
    const char *policy, *why;
    double gap_s;      /* the longest between two tokens of a chat beside the document */
    double document_s; /* to the document's first token; INFINITY: as long as chats go on */
    double chat_tok_s; /* of each chat meanwhile */
} plan_gap;

typedef struct {
    double tokens;                               /* expected of a step */
    double step_bytes, draft_bytes, plain_bytes; /* of a step with drafts, of them the drafts', and of one without */
    double bytes_token;                          /* of each accepted token and stream */
    double tok_s, gain;                          /* all streams; by the plain estimate */
} plan_speculation;

typedef struct { /* twice of it: factors */
    double bandwidth_decode, bandwidth_prefill, matmul_decode, matmul_prefill, memory_decode, memory_prefill;
    double memory_sessions;
} plan_upgrades;

typedef struct {
    cost_box box; /* the request's with its shares */
    plan_memory memory;
    plan_decode decode, weights_only; /* the load that was asked for; one stream at depth 0 */
    plan_decode depths[PLAN_DEPTHS], batches[PLAN_BATCHES];
    uint32_t depth_count, batch_count, gap_count, note_count;
    plan_prefill prefill;
    plan_gap gaps[PLAN_GAPS];
    plan_speculation speculation;
    plan_upgrades upgrades;
    double gap_s;                         /* the bound that cadence was asked for */
    double prefill_time_share;            /* of the device time, at reads_per_token */
    double joules_decode, joules_prefill; /* of 1,000 tokens; 0: watts are not known */
    char notes[PLAN_NOTES][240];
} plan_result;

/* ERR_INVALID names what cannot be. */
status plan_make(plan_result *out, const plan_request *request, error *err);

void plan_text(const plan_request *q, const plan_result *r, buf *out);
void plan_explain(const plan_request *q, const plan_result *r, buf *out);
status plan_json(const plan_request *q, const plan_result *r, buf *out, error *err);

typedef struct {
    const plan_request *q;
    const plan_result *r;
} plan_side;
void plan_compare_text(const plan_side *a, const plan_side *b, buf *out);
status plan_compare_json(const plan_side *a, const plan_side *b, buf *out, error *err);

void plan_list_hardware(buf *out);
void plan_list_models(buf *out);
status plan_list_json(bool models, buf *out, error *err);

#endif
