/* server/batch/service.c: see service.h. Each turn looks at the jobs; the store is searched for others when it was said
 * to have changed, and twice a second. */
#include "server/batch/service.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "server/batch/batch_job.h"
#include "server/router.h"

enum {
    JOBS_MAX = 32,       /* open at once; others wait */
    JOBS_OF_TENANT = 8,  /* of these */
    LINES_AT_ONCE = 256, /* asked at once, of all jobs */
    SCAN_US = 500000,
    SWEEP_US = 600000000,
    TRY_AGAIN_US = 5000000,
};

struct batch_service {
    server *server;
    uv_loop_t *loop;
    batch_store *store;
    atomic_bool poked;
    bool stopped, sweeping, opening; /* opening: inputs are read one at a time, for they take memory */
    uint64_t scanned_us, swept_us;
    batch_job *jobs; /* in the order in which they are asked for their next line */
    uint32_t job_count;
    batch_sign *signs; /* STORE_BATCHES_MAX; of the last scan */
    uint32_t sign_count;
    uv_work_t sweep;
};

batch_store *batch_service_store(batch_service *b)
{
    return b->store;
}

void batch_service_poke(batch_service *b)
{
    atomic_store(&b->poked, true);
}

/* ---- work ---- */

static void on_open(uv_work_t *work)
{
    batch_job_work_open(work->data);
}

static void on_commit(uv_work_t *work)
{
    batch_job_work_commit(work->data);
}

static void on_close(uv_work_t *work)
{
    batch_job_work_close(work->data);
}

static void on_job_done(uv_work_t *work, int result)
{
    batch_job *j = work->data;
    batch_service *b = j->service;
    (void)result;
    j->working = false;
    j->stage = j->next_stage;
    j->write_failed = j->next_failed;
    if (j->write_failed)
        j->write_again_us = clock_now_us() + TRY_AGAIN_US;
    batch_job_count_moved(j);
    batch_service_poke(b);
}

static void on_opened(uv_work_t *work, int result)
{
    batch_job *j = work->data;
    ((batch_service *)j->service)->opening = false;
    if (j->record.state == BATCH_FINALIZING && j->next_stage == JOB_RUNNING)
        j->ending = j->record.why;
    on_job_done(work, result);
}

static void start_work(batch_service *b, batch_job *j, uv_work_cb work, uv_after_work_cb done)
{
    j->working = true;
    j->next_stage = j->stage;
    j->next_failed = false;
    j->work.data = j;
    if (uv_queue_work(b->loop, &j->work, work, done)) {
        j->working = false;
        j->write_again_us = clock_now_us() + TRY_AGAIN_US;
    }
}

/* ---- which batches run ---- */

static batch_job *find_job(const batch_service *b, const char *id)
{
    batch_job *j = b->jobs;
    while (j && strcmp(j->id, id) != 0)
        j = j->next;
    return j;
}

static int tenant_index(const batch_service *b, const char *name)
{
    const tenant_table *table = server_tenants(b->server);
    for (uint32_t i = 0; i < table->count; i++)
        if (!table->tenants[i].removed && strcmp(table->tenants[i].name, name) == 0)
            return (int)i;
    return -1;
}

static uint32_t jobs_of(const batch_service *b, const char *tenant)
{
    uint32_t count = 0;
    for (const batch_job *j = b->jobs; j; j = j->next)
        count += strcmp(j->tenant_name, tenant) == 0;
    return count;
}

static void open_job(batch_service *b, const batch_sign *sign)
{
    batch_job *j = batch_job_create(b->store, sign->id);
    if (!j)
        return;
    memcpy(j->tenant_name, sign->tenant, sizeof j->tenant_name);
    j->service = b;
    j->next = b->jobs;
    b->jobs = j;
    b->job_count++;
    b->opening = true;
    start_work(b, j, on_open, on_opened);
    b->opening = j->working;
    j->stage = j->working ? j->stage : JOB_OVER;
}

/* What the store says of a job that runs. */
static void take_sign(batch_job *j, const batch_sign *sign, uint64_t now_unix)
{
    if (j->stage != JOB_RUNNING || j->ending != BATCH_IN_PROGRESS)
        return;
    if (sign->state == BATCH_CANCELLING)
        j->ending = BATCH_CANCELLED;
    else if (now_unix >= sign->expires_unix)
        j->ending = BATCH_EXPIRED;
}

static void scan(batch_service *b, uint64_t now_unix)
{
    b->sign_count = store_open_batches(b->store, b->signs, STORE_BATCHES_MAX);
    for (uint32_t i = 0; i < b->sign_count; i++) {
        const batch_sign *sign = &b->signs[i];
        batch_job *j = find_job(b, sign->id);
        if (j)
            take_sign(j, sign, now_unix);
        else if (!b->opening && b->job_count < JOBS_MAX && jobs_of(b, sign->tenant) < JOBS_OF_TENANT)
            open_job(b, sign);
    }
}

/* ---- one job ---- */

static bool may_run(batch_service *b, batch_job *j)
{
    bool known;
    const char *allow;
    int who = tenant_index(b, j->tenant_name);
    if (!j->route)
        j->route = router_find(HTTP_POST, span_from(j->record.endpoint), &known, &allow);
    if (who >= 0)
        j->tenant = (uint32_t)who;
    return who >= 0 && j->route;
}

static void advance(batch_service *b, batch_job *j, uint64_t now_us)
{
    if (j->stage != JOB_RUNNING)
        return;
    if (j->ending != BATCH_IN_PROGRESS)
        batch_job_forget_calls(j);
    if (j->working || (j->write_failed && now_us < j->write_again_us))
        return;
    if (!batch_job_has_moving(j) && batch_job_has_pending(j))
        batch_job_move_pending(j);
    if (batch_job_has_moving(j)) {
        start_work(b, j, on_commit, on_job_done);
        return;
    }
    if (j->ending == BATCH_IN_PROGRESS && j->completed + j->failed == j->input.count)
        j->ending = BATCH_COMPLETED;
    if (j->ending != BATCH_IN_PROGRESS)
        start_work(b, j, on_close, on_job_done);
}

static bool wants_line(const batch_job *j, uint64_t now_us)
{
    return j->stage == JOB_RUNNING && j->ending == BATCH_IN_PROGRESS && !j->write_failed &&
           j->hold_until_us <= now_us && j->output.text.size + j->errors.text.size < JOB_PENDING_MAX;
}

/* Three quarters of the engine's slots are the most that batch work gets; a few more wait, so that none stays empty. */
static uint32_t lines_at_once(const batch_service *b)
{
    engine_snapshot now;
    engine_read_snapshot(server_model_of(b->server)->engine, &now);
    uint32_t slots = now.max_sequences - now.max_sequences / 4;
    slots += 2 + slots / 8;
    return slots < LINES_AT_ONCE ? slots : LINES_AT_ONCE;
}

/* Jobs take turns: whoever has asked goes to the end of the list. */
static void ask_lines(batch_service *b, uint64_t now_us)
{
    uint32_t asked = 0, limit = lines_at_once(b);
    for (batch_job *j = b->jobs; j; j = j->next)
        asked += j->asked;
    for (bool any = true; any && asked < limit;) {
        any = false;
        for (batch_job *j = b->jobs; j && asked < limit; j = j->next) {
            if (!wants_line(j, now_us) || !may_run(b, j) || !batch_job_ask_next(j, b->server))
                continue;
            any = true;
            asked++;
        }
    }
    batch_job *first = b->jobs;
    if (!first || !first->next)
        return;
    batch_job **end = &first->next;
    while (*end)
        end = &(*end)->next;
    *end = first;
    b->jobs = first->next;
    first->next = NULL;
}

static void drop_over(batch_service *b)
{
    for (batch_job **at = &b->jobs; *at;) {
        batch_job *j = *at;
        if (j->stage != JOB_OVER || j->working || (j->write_failed && clock_now_us() < j->write_again_us)) {
            at = &j->next;
            continue;
        }
        *at = j->next;
        b->job_count--;
        batch_job_release(j);
        batch_service_poke(b);
    }
}

/* ---- turns ---- */

static void on_sweep(uv_work_t *work)
{
    batch_service *b = work->data;
    store_sweep(b->store, clock_unix_seconds());
}

static void on_swept(uv_work_t *work, int result)
{
    batch_service *b = work->data;
    (void)result;
    b->sweeping = false;
}

static void sweep(batch_service *b, uint64_t now_us)
{
    if (b->sweeping || now_us < b->swept_us + SWEEP_US)
        return;
    b->swept_us = now_us;
    b->sweep.data = b;
    b->sweeping = uv_queue_work(b->loop, &b->sweep, on_sweep, on_swept) == 0;
}

void batch_service_turn(batch_service *b)
{
    uint64_t now_us = clock_now_us();
    bool poked = atomic_exchange(&b->poked, false);
    if (b->stopped || (!poked && now_us < b->scanned_us + SCAN_US))
        return;
    b->scanned_us = now_us;
    bool draining = server_draining(b->server);
    if (!draining) {
        scan(b, clock_unix_seconds());
        sweep(b, now_us);
    }
    for (batch_job *j = b->jobs; j; j = j->next) {
        if (draining)
            batch_job_forget_calls(j);
        advance(b, j, now_us);
    }
    drop_over(b);
    if (!draining)
        ask_lines(b, now_us);
}

bool batch_service_busy(batch_service *b)
{
    for (const batch_job *j = b->jobs; j; j = j->next)
        if (j->working || ((batch_job_has_pending(j) || batch_job_has_moving(j)) && !j->write_failed))
            return true;
    return false;
}

void batch_service_stop(batch_service *b)
{
    b->stopped = true;
    for (batch_job *j = b->jobs; j; j = j->next)
        batch_job_forget_calls(j);
}

status batch_service_open(batch_service **out, server *s, uv_loop_t *loop, const server_batch_config *config,
                          error *err)
{
    batch_service *b = calloc(1, sizeof *b);
    if (b)
        b->signs = malloc(STORE_BATCHES_MAX * sizeof *b->signs);
    if (!b || !b->signs) {
        free(b);
        return error_set(err, ERR_MEMORY, "out of memory");
    }
    b->server = s;
    b->loop = loop;
    b->swept_us = clock_now_us();
    uint64_t bytes_max = config->bytes_max ? config->bytes_max : (uint64_t)8 << 30;
    status st = batch_store_open(&b->store, config->dir, bytes_max, clock_unix_seconds(), err);
    if (st) {
        batch_service_close(b);
        return error_prefix(err, st, "--batch-dir");
    }
    *out = b;
    return OK;
}

void batch_service_close(batch_service *b)
{
    if (!b)
        return;
    while (b->jobs) {
        batch_job *j = b->jobs;
        b->jobs = j->next;
        batch_job_release(j);
    }
    batch_store_close(b->store);
    free(b->signs);
    free(b);
}
