/* engine/trace.h: what did the engine do in the last seconds? A ring of small records, one for each step and one for
 * each thing that happened to a request. Single writer (the engine thread, which never waits longer than a reader's
 * copy of TRACE_COPY_MAX records), any number of readers; a reader that is too slow loses the oldest records and is
 * told. */
#ifndef HEADWAY_ENGINE_TRACE_H
#define HEADWAY_ENGINE_TRACE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TRACE_RECORDS = 16384, TRACE_COPY_MAX = 256 };

typedef enum {
    TRACE_DECODE,    /* a step: rows */
    TRACE_PREFILL,   /* a run of a chunk: request_id is its prompt's */
    TRACE_FUSED,     /* rows and a chunk */
    TRACE_ARRIVED,   /* a request: time only from here on, and how long it was on its way from its last byte read */
    TRACE_ADMITTED,  /* got a slot */
    TRACE_TOKEN,     /* of a stream, at start_us: `duration_us` is its gap to the token before (0: the first) */
    TRACE_SET_ASIDE, /* its prompt gave way at a chunk border */
    TRACE_PREEMPTED, /* gave its pages up */
    TRACE_FINISHED,  /* tokens: generated */
} trace_kind;

typedef struct {
    uint64_t start_us, duration_us;
    uint64_t request_id;
    uint64_t bytes;        /* steps: useful bytes */
    uint32_t predicted_us; /* steps: what the model said; TRACE_TOKEN: the gap's bound, 0: none */
    uint32_t tokens;       /* prefill, fused: of the chunk */
    uint32_t position;     /* of the chunk's first token; decode: tokens that its rows read, together */
    uint16_t rows;
    uint8_t kind;   /* trace_kind */
    uint8_t tenant; /* index */
    uint8_t flags;  /* TRACE_YIELDED ... */
    uint8_t klass;  /* request_class of request_id */
    uint8_t part;   /* prefill: how far the chunk is after this run, of 255 */
} trace_record;

enum {
    TRACE_YIELDED = 1,  /* the chunk was interrupted: it goes on in a later record */
    TRACE_VIOLATED = 2, /* TRACE_TOKEN: the gap was over its bound */
    TRACE_DOCUMENT = 4, /* the prompt is document-scale */
};

typedef struct trace trace;

status trace_create(trace **out, error *err);
void trace_destroy(trace *t);                         /* NULL is allowed */
void trace_add(trace *t, const trace_record *record); /* the writer */

/* Copies records from number *cursor on (the first record ever is 0) and moves *cursor behind the last one copied;
 * returns how many, at most min(max, TRACE_COPY_MAX); 0: nothing new. *lost: records before these that are gone. A
 * cursor of UINT64_MAX is moved to the newest end. */
size_t trace_read(trace *t, uint64_t *cursor, trace_record *records, size_t max, uint64_t *lost);

#endif
