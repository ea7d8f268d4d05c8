/* engine/trace.c: a ring under a lock that is held for a copy of a few records. */
#include "engine/trace.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct trace {
    pthread_mutex_t lock;
    uint64_t count; /* records ever added */
    trace_record records[TRACE_RECORDS];
};

status trace_create(trace **out, error *err)
{
    trace *t = calloc(1, sizeof *t);
    if (!t)
        return error_set(err, ERR_MEMORY, "trace: out of memory");
    pthread_mutex_init(&t->lock, NULL);
    *out = t;
    return OK;
}

void trace_destroy(trace *t)
{
    if (!t)
        return;
    pthread_mutex_destroy(&t->lock);
    free(t);
}

void trace_add(trace *t, const trace_record *record)
{
    pthread_mutex_lock(&t->lock);
    t->records[t->count++ % TRACE_RECORDS] = *record;
    pthread_mutex_unlock(&t->lock);
}

size_t trace_read(trace *t, uint64_t *cursor, trace_record *records, size_t max, uint64_t *lost)
{
    size_t count = 0, most = max < TRACE_COPY_MAX ? max : TRACE_COPY_MAX;
    pthread_mutex_lock(&t->lock);
    uint64_t oldest = t->count > TRACE_RECORDS ? t->count - TRACE_RECORDS : 0;
    if (*cursor > t->count)
        *cursor = t->count;
    *lost = *cursor < oldest ? oldest - *cursor : 0;
    *cursor += *lost;
    while (count < most && *cursor < t->count)
        records[count++] = t->records[(*cursor)++ % TRACE_RECORDS];
    pthread_mutex_unlock(&t->lock);
    return count;
}
