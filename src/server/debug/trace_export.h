/* server/debug/trace_export.h: the engine's records as a trace that Perfetto and chrome://tracing open: JSON, array
 * form. A track for the device holds the steps, a track per request its arrival, its prompt's runs and its tokens. Text
 * is appended to a buffer, so that a trace of any length takes a bounded amount of memory; after every call the text so
 * far is a valid array once `]` follows. No I/O, no clock; one thread. */
#ifndef HEADWAY_SERVER_DEBUG_TRACE_EXPORT_H
#define HEADWAY_SERVER_DEBUG_TRACE_EXPORT_H

#include "base/buf.h"
#include "engine/trace.h"
#include "sched/tenant.h"

enum { TRACE_KNOWN = 1024 };

typedef struct { /* of the model that runs */
    span model;
    uint64_t weight_bytes, kv_token_bytes, state_bytes; /* all of it; a token's KV; a sequence's recurrent state */
    uint64_t kv_bytes;                                  /* of the page pool */
    uint32_t context;                                   /* tokens a sequence may hold */
} trace_about;

typedef struct { /* zero-initialise */
    bool begun;
    uint64_t written, lost; /* records */
    struct {
        uint64_t id, arrived_us; /* 0: not known */
    } known[TRACE_KNOWN];        /* requests whose track has its name; [id % TRACE_KNOWN] */
} trace_export;

void trace_export_begin(trace_export *e, buf *out, const trace_about *about, uint64_t now_us);
void trace_export_record(trace_export *e, buf *out, const trace_record *record, const tenant_table *tenants);
void trace_export_lost(trace_export *e, buf *out, uint64_t count, uint64_t now_us); /* records that are gone */
void trace_export_end(trace_export *e, buf *out, uint64_t now_us);

#endif
