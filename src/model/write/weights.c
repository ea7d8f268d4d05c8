/* model/write/weights.c: the threads that make rows and write them. Each takes the next piece of the plan under the
 * lock and works on it alone; where its bytes go is known, so nobody waits for an order. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "model/write/model_write.h"

enum { CHUNK_VALUES = 1 << 18, PROGRESS_MS = 200 };

typedef struct {
    const model_plan *plan;
    const int *files;
    const uint64_t *starts;
    const volatile sig_atomic_t *stop;
    pthread_mutex_t lock;
    pthread_cond_t finished;
    size_t tensor; /* the next piece */
    uint64_t row;
    uint64_t done;    /* bytes */
    uint32_t running; /* threads */
    status st;
    error err;
} job;

typedef struct {
    float *values; /* a row, and another for permutations */
    uint8_t *bytes;
    size_t value_capacity, byte_capacity;
} workspace;

static bool reserve(void **memory, size_t *capacity, size_t want, size_t unit)
{
    if (want <= *capacity)
        return true;
    void *larger = realloc(*memory, want * unit);
    if (!larger)
        return false;
    *memory = larger;
    *capacity = want;
    return true;
}

static void fail(job *j, status st, const char *words, int number)
{
    pthread_mutex_lock(&j->lock);
    if (!j->st)
        j->st =
            number ? error_set(&j->err, st, "%s: %s", words, strerror(number)) : error_set(&j->err, st, "%s", words);
    pthread_mutex_unlock(&j->lock);
}

/* The next rows; false: there are none, or the work is over. */
static bool take(job *j, const plan_tensor **tensor, uint64_t *first, uint64_t *count)
{
    bool any = false;
    pthread_mutex_lock(&j->lock);
    if (j->stop && *j->stop && !j->st)
        j->st = error_set(&j->err, ERR_CANCELLED, "stopped");
    while (!j->st && j->tensor < j->plan->count && j->row == j->plan->tensors[j->tensor].rows) {
        j->tensor++;
        j->row = 0;
    }
    if (!j->st && j->tensor < j->plan->count) {
        const plan_tensor *t = &j->plan->tensors[j->tensor];
        uint64_t rows = t->cols < CHUNK_VALUES ? CHUNK_VALUES / t->cols : 1;
        *tensor = t;
        *first = j->row;
        *count = rows < t->rows - j->row ? rows : t->rows - j->row;
        j->row += *count;
        any = true;
    }
    pthread_mutex_unlock(&j->lock);
    return any;
}

static int write_at(int file, const uint8_t *bytes, size_t size, uint64_t at)
{
    while (size > 0) {
        ssize_t put = pwrite(file, bytes, size, (off_t)at);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return put < 0 ? errno : ENOSPC;
        bytes += put;
        size -= (size_t)put;
        at += (uint64_t)put;
    }
    return 0;
}

static void write_rows(job *j, workspace *w, const plan_tensor *t, uint64_t first, uint64_t count)
{
    const store_info *info = store_of(t->store);
    size_t row_bytes[STORE_PIECES] = {0}, all = 0;
    for (uint32_t p = 0; p < info->pieces; p++)
        all += (row_bytes[p] = store_row_bytes(info, p, t->cols)) * count;
    if (!reserve((void **)&w->values, &w->value_capacity, 2 * t->cols, sizeof *w->values) ||
        !reserve((void **)&w->bytes, &w->byte_capacity, all, 1)) {
        fail(j, ERR_MEMORY, "out of memory for rows", 0);
        return;
    }
    uint8_t *pieces[STORE_PIECES] = {0}, *to[STORE_PIECES], *at = w->bytes;
    for (uint32_t p = 0; p < info->pieces; p++) {
        pieces[p] = at;
        at += row_bytes[p] * count;
    }
    for (uint64_t r = 0; r < count; r++) {
        plan_row(j->plan, t, first + r, w->values, w->values + t->cols);
        for (uint32_t p = 0; p < STORE_PIECES; p++)
            to[p] = pieces[p] ? pieces[p] + r * row_bytes[p] : NULL;
        store_row(t->store, w->values, t->cols, to);
    }
    for (uint32_t p = 0; p < info->pieces; p++) {
        int number = write_at(j->files[t->file], pieces[p], row_bytes[p] * count,
                              j->starts[t->file] + t->at[p] + first * row_bytes[p]);
        if (number) {
            fail(j, ERR_IO, "the weights cannot be written", number);
            return;
        }
    }
    pthread_mutex_lock(&j->lock);
    j->done += all;
    pthread_mutex_unlock(&j->lock);
}

static void *work(void *argument)
{
    job *j = argument;
    workspace w = {0};
    const plan_tensor *t;
    uint64_t first, count;
    while (take(j, &t, &first, &count))
        write_rows(j, &w, t, first, count);
    free(w.values);
    free(w.bytes);
    pthread_mutex_lock(&j->lock);
    j->running--;
    pthread_cond_signal(&j->finished);
    pthread_mutex_unlock(&j->lock);
    return NULL;
}

static void watch(job *j, const write_options *options)
{
    pthread_mutex_lock(&j->lock);
    while (j->running > 0) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += PROGRESS_MS * 1000000L;
        until.tv_sec += until.tv_nsec / 1000000000L;
        until.tv_nsec %= 1000000000L;
        pthread_cond_timedwait(&j->finished, &j->lock, &until);
        uint64_t done = j->done;
        pthread_mutex_unlock(&j->lock);
        if (options->progress)
            options->progress(options->context, done, j->plan->bytes);
        pthread_mutex_lock(&j->lock);
    }
    pthread_mutex_unlock(&j->lock);
}

status model_write_weights(const model_plan *plan, const int *files, const uint64_t *starts,
                           const write_options *options, error *err)
{
    job j = {.plan = plan, .files = files, .starts = starts, .stop = options->stop};
    pthread_mutex_init(&j.lock, NULL);
    pthread_cond_init(&j.finished, NULL);
    pthread_t threads[WRITE_THREADS_MAX];
    uint32_t want = options->threads < 1                   ? 1
                    : options->threads > WRITE_THREADS_MAX ? WRITE_THREADS_MAX
                                                           : options->threads;
    uint32_t started = 0;
    pthread_mutex_lock(&j.lock);
    while (started < want && pthread_create(&threads[started], NULL, work, &j) == 0)
        started++;
    j.running = started;
    if (started == 0)
        j.st = error_set(&j.err, ERR_MEMORY, "no thread can be started");
    pthread_mutex_unlock(&j.lock);
    watch(&j, options);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    pthread_cond_destroy(&j.finished);
    pthread_mutex_destroy(&j.lock);
    return j.st ? error_set(err, j.st, "%s", j.err.text) : OK;
}
