/* server/batch/record.h: what is known of a stored file and of a batch, and how that is written as JSON: as clients see
 * it, and as it lies on the disk (the same, and whose it is). Any thread. */
#ifndef HEADWAY_SERVER_BATCH_RECORD_H
#define HEADWAY_SERVER_BATCH_RECORD_H

#include "base/buf.h"
#include "base/error.h"
#include "sched/tenant.h"

enum {
    STORE_ID_MAX = 40,
    BATCH_ERRORS_MAX = 20, /* of its input that are named */
    METADATA_MAX = 16,
    METADATA_KEY_MAX = 64,
    METADATA_VALUE_MAX = 512,
};

typedef struct {
    char id[STORE_ID_MAX], tenant[TENANT_NAME_MAX];
    char purpose[24];
    char name[256]; /* the client's; UTF-8 as it came */
    uint64_t bytes, created_unix;
    uint64_t expires_unix; /* 0: never */
} stored_file;

typedef enum {
    BATCH_VALIDATING, /* its time is that of its creation */
    BATCH_FAILED,
    BATCH_IN_PROGRESS,
    BATCH_FINALIZING,
    BATCH_COMPLETED,
    BATCH_EXPIRED,
    BATCH_CANCELLING,
    BATCH_CANCELLED,
    BATCH_STATES
} batch_state;

typedef struct {
    char code[32], message[160];
    uint32_t line; /* 1 is the first; 0: none in particular */
} batch_error;

typedef struct {
    char id[STORE_ID_MAX], tenant[TENANT_NAME_MAX];
    char endpoint[64];
    char window[16]; /* as it was asked for: "24h" */
    char input[STORE_ID_MAX], output[STORE_ID_MAX],
        errors[STORE_ID_MAX];     /* ids of files; the last two from the start */
    bool has_output, has_errors;  /* they may be fetched */
    batch_state state, why;       /* why: what it becomes when `state` is BATCH_FINALIZING or BATCH_CANCELLING */
    uint64_t times[BATCH_STATES]; /* unix seconds; 0: never */
    uint64_t expires_unix;
    uint32_t total, completed, failed;
    char *metadata; /* owned: a JSON object; NULL: none */
    batch_error faults[BATCH_ERRORS_MAX];
    uint32_t fault_count;
} batch_record;

void batch_record_free(batch_record *r);                          /* what it owns */
bool batch_record_copy(batch_record *to, const batch_record *of); /* false: out of memory */
bool batch_state_ended(batch_state state);                        /* nothing comes behind it */

void stored_file_write(const stored_file *f, bool whose, buf *out);
void batch_record_write(const batch_record *r, bool whose, buf *out);
/* What was written with `whose`. */
status stored_file_read(stored_file *out, span text, error *err);
status batch_record_read(batch_record *out, span text, error *err);

#endif
