/* server/batch/batch_job.c: see batch_job.h. */
#include "server/batch/batch_job.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "server/batch/disk.h"
#include "server/batch/service.h"
#include "server/router.h"

enum { READ_PIECE = 1 << 20, INPUT_BYTES_MAX = 1 << 28 };

batch_job *batch_job_create(batch_store *store, const char *id)
{
    batch_job *j = calloc(1, sizeof *j);
    if (!j)
        return NULL;
    snprintf(j->id, sizeof j->id, "%s", id);
    j->store = store;
    j->input_fd = j->output_fd = j->error_fd = -1;
    j->ending = BATCH_IN_PROGRESS;
    j->references = 1;
    return j;
}

void batch_job_release(batch_job *j)
{
    if (--j->references)
        return;
    const int fds[] = {j->input_fd, j->output_fd, j->error_fd};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    batch_record_free(&j->record);
    batch_input_free(&j->input);
    buf_free(&j->output.text);
    buf_free(&j->errors.text);
    buf_free(&j->output_moving.text);
    buf_free(&j->error_moving.text);
    free(j->states);
    free(j);
}

/* ---- on a worker: open ---- */

static bool become_failed(batch_record *r, void *context)
{
    const batch_record *found = context;
    if (batch_state_ended(r->state))
        return false;
    r->state = BATCH_FAILED;
    r->times[BATCH_FAILED] = clock_unix_seconds();
    r->fault_count = found->fault_count;
    memcpy(r->faults, found->faults, sizeof r->faults);
    return true;
}

static status batch_job_fail(batch_job *j, const char *code, const char *message, error *err)
{
    if (message) {
        batch_error *fault = &j->record.faults[j->record.fault_count++];
        snprintf(fault->code, sizeof fault->code, "%s", code);
        snprintf(fault->message, sizeof fault->message, "%s", message);
    }
    return store_change_batch(j->store, j->id, become_failed, &j->record, NULL, err);
}

static bool become_running(batch_record *r, void *context)
{
    const batch_job *j = context;
    r->total = j->input.count;
    r->completed = j->completed;
    r->failed = j->failed;
    if (r->state != BATCH_VALIDATING)
        return true;
    r->state = BATCH_IN_PROGRESS;
    r->times[BATCH_IN_PROGRESS] = clock_unix_seconds();
    return true;
}

/* Marks the lines whose answers are in the file, cuts off what is torn. */
static status read_answers(batch_job *j, int fd, uint64_t *size, uint32_t *count, error *err)
{
    buf text = {0};
    status st = OK;
    bool sound = true;
    uint64_t at = 0; /* of text's first byte in the file */
    *size = 0;
    *count = 0;
    while (sound && st == OK) {
        size_t before = text.size, start = 0;
        st = disk_read_at(fd, at + before, READ_PIECE, &text, err);
        if (st || text.size == before)
            break;
        for (const char *end; sound && (end = memchr(text.data + start, '\n', text.size - start));) {
            uint32_t index;
            size_t length = (size_t)(end - text.data) - start;
            sound = batch_answer_index(span_of(text.data + start, length), j->id, &index) && index < j->input.count &&
                    j->states[index] != LINE_DONE;
            if (!sound)
                break;
            j->states[index] = LINE_DONE;
            ++*count;
            start += length + 1;
            *size += length + 1;
        }
        memmove(text.data, text.data + start, text.size - start);
        text.size -= start;
        at += start;
    }
    buf_free(&text);
    if (st == OK && ftruncate(fd, (off_t)*size))
        st = error_set(err, ERR_IO, "cutting off a torn line: %s", strerror(errno));
    return st;
}

static status open_answers(batch_job *j, error *err)
{
    char path[STORE_PATH_MAX];
    store_file_path(j->store, j->record.output, path);
    status st = disk_open_append(path, &j->output_fd, err);
    if (st)
        return st;
    store_file_path(j->store, j->record.errors, path);
    if ((st = disk_open_append(path, &j->error_fd, err)) ||
        (st = read_answers(j, j->output_fd, &j->output_size, &j->completed, err)))
        return st;
    return read_answers(j, j->error_fd, &j->error_size, &j->failed, err);
}

static status read_input(batch_job *j, error *err)
{
    char path[STORE_PATH_MAX];
    buf text = {0};
    store_file_path(j->store, j->record.input, path);
    status st = disk_read(path, INPUT_BYTES_MAX, &text, err);
    if (st == OK && !batch_input_read(&j->input, buf_span(&text), &j->record))
        st = error_set(err, ERR_MEMORY, "out of memory");
    buf_free(&text);
    if (st)
        return st;
    j->input_fd = open(path, O_RDONLY | O_CLOEXEC);
    j->states = calloc(j->input.count + 1, 1);
    if (j->input_fd < 0)
        return error_set(err, ERR_IO, "%s: %s", path, strerror(errno));
    return j->states ? OK : error_set(err, ERR_MEMORY, "out of memory");
}

void batch_job_work_open(batch_job *j)
{
    error err = {""};
    j->next_stage = JOB_OVER;
    if (!store_find_batch(j->store, NULL, j->id, &j->record))
        return;
    j->record.fault_count = 0;
    status st = read_input(j, &err);
    if (st == ERR_NOT_FOUND)
        st = batch_job_fail(j, "file_not_found", "The input file is not there any more.", &err);
    else if (st == OK && j->record.fault_count)
        st = batch_job_fail(j, NULL, NULL, &err);
    else if (st == OK && (st = open_answers(j, &err)) == OK &&
             (st = store_change_batch(j->store, j->id, become_running, j, NULL, &err)) == OK)
        j->next_stage = JOB_RUNNING;
    if (st) {
        log_error("%s: %s", j->id, err.text);
        j->next_failed = true;
    }
}

/* ---- on a worker: answers, the end ---- */

static status move(int fd, uint64_t *size, answer_lines *lines, error *err)
{
    if (!lines->text.size)
        return OK;
    status st = disk_append(fd, *size, buf_span(&lines->text), err);
    if (st)
        return st;
    *size += lines->text.size;
    buf_free(&lines->text); /* lines->lines is counted on the loop thread */
    return OK;
}

void batch_job_work_commit(batch_job *j)
{
    error err = {""};
    status st = move(j->output_fd, &j->output_size, &j->output_moving, &err);
    if (st == OK)
        st = move(j->error_fd, &j->error_size, &j->error_moving, &err);
    j->next_failed = st != OK;
    if (st)
        log_error("%s: answers cannot be written, trying again: %s", j->id, err.text);
}

static bool become_finalizing(batch_record *r, void *context)
{
    if (r->state != BATCH_IN_PROGRESS)
        return false;
    r->why = *(batch_state *)context;
    r->state = BATCH_FINALIZING;
    r->times[BATCH_FINALIZING] = clock_unix_seconds();
    return true;
}

static bool become_ended(batch_record *r, void *context)
{
    const batch_job *j = context;
    if (batch_state_ended(r->state))
        return false;
    r->state = r->state == BATCH_CANCELLING ? BATCH_CANCELLED : j->ending;
    r->times[r->state] = clock_unix_seconds();
    r->has_output = j->output_size > 0;
    r->has_errors = j->error_size > 0;
    r->completed = j->completed;
    r->failed = j->failed;
    return true;
}

static status write_expired(batch_job *j, error *err)
{
    buf text = {0};
    status st = OK;
    uint32_t count = 0;
    for (uint32_t i = 0; st == OK && i < j->input.count; i++) {
        buf line_text = {0};
        batch_line line = {0};
        batch_error fault;
        if (j->states[i] == LINE_DONE)
            continue;
        st = disk_read_at(j->input_fd, j->input.starts[i], j->input.sizes[i], &line_text, err);
        if (st == OK) {
            bool good = batch_line_read(&line, buf_span(&line_text), j->record.endpoint, &fault);
            batch_answer_write_error(&text, j->id, i, good ? line.custom_id : "", "batch_expired",
                                     "This request could not be executed before the completion window expired.");
            batch_line_free(&line);
            count++;
        }
        buf_free(&line_text);
    }
    if (st == OK && text.failed)
        st = error_set(err, ERR_MEMORY, "out of memory");
    if (st == OK && text.size && (st = disk_append(j->error_fd, j->error_size, buf_span(&text), err)) == OK) {
        j->error_size += text.size;
        j->failed += count;
        memset(j->states, LINE_DONE, j->input.count);
    }
    buf_free(&text);
    return st;
}

/* The answers become a file that may be fetched; an empty one goes. */
static status publish(batch_job *j, const char *id, uint64_t size, const char *what, error *err)
{
    char path[STORE_PATH_MAX];
    uint64_t now = clock_unix_seconds();
    stored_file f = {.bytes = size, .created_unix = now, .expires_unix = now + (uint64_t)STORE_DAYS * 86400};
    store_file_path(j->store, id, path);
    if (!size) {
        unlink(path);
        return OK;
    }
    memcpy(f.id, id, strlen(id) + 1);
    memcpy(f.tenant, j->record.tenant, sizeof f.tenant);
    snprintf(f.purpose, sizeof f.purpose, "batch_output");
    snprintf(f.name, sizeof f.name, "%s_%s.jsonl", j->id, what);
    return store_admit_file(j->store, &f, err);
}

void batch_job_work_close(batch_job *j)
{
    error err = {""};
    status st = store_change_batch(j->store, j->id, become_finalizing, &j->ending, NULL, &err);
    if (st == OK && j->ending == BATCH_EXPIRED)
        st = write_expired(j, &err);
    if (st == OK)
        st = publish(j, j->record.output, j->output_size, "output", &err);
    if (st == OK)
        st = publish(j, j->record.errors, j->error_size, "error", &err);
    if (st == OK)
        st = store_change_batch(j->store, j->id, become_ended, j, NULL, &err);
    j->next_failed = st != OK;
    if (st)
        log_error("%s: cannot be ended, trying again: %s", j->id, err.text);
    else
        j->next_stage = JOB_OVER;
}

/* ---- collected answers ---- */

bool batch_job_has_moving(const batch_job *j)
{
    return j->output_moving.lines || j->error_moving.lines;
}

bool batch_job_has_pending(const batch_job *j)
{
    return j->output.lines || j->errors.lines;
}

void batch_job_move_pending(batch_job *j)
{
    j->output_moving = j->output;
    j->error_moving = j->errors;
    j->output = j->errors = (answer_lines){0};
}

void batch_job_count_moved(batch_job *j)
{
    if (!j->output_moving.text.size) {
        j->completed += j->output_moving.lines;
        j->output_moving = (answer_lines){0};
    }
    if (!j->error_moving.text.size) {
        j->failed += j->error_moving.lines;
        j->error_moving = (answer_lines){0};
    }
    store_count_batch(j->store, j->id, j->completed, j->failed);
}

/* ---- lines ---- */

static void leave_list(line_call *call)
{
    if (call->previous)
        call->previous->next = call->next;
    else
        call->job->calls = call->next;
    if (call->next)
        call->next->previous = call->previous;
    call->next = call->previous = NULL;
    call->exchange = NULL;
    call->job->asked--;
}

static void wait_again(line_call *call)
{
    batch_job *j = call->job;
    j->states[call->line] = LINE_WAITING;
    j->cursor = call->line < j->cursor ? call->line : j->cursor;
}

/* The server has no room, or ends: the line's turn comes again. */
static bool is_passing(const exchange *x)
{
    return x->error.dropped || x->answer.status == 503 || x->answer.status == 429;
}

static void on_answered(void *context, exchange *x)
{
    line_call *call = context;
    batch_job *j = call->job;
    leave_list(call);
    if (is_passing(x)) {
        uint64_t seconds = x->error.retry_after ? x->error.retry_after : 1;
        j->hold_until_us = clock_now_us() + (seconds < 30 ? seconds : 30) * 1000000;
        wait_again(call);
    } else {
        answer_lines *into = x->answer.status == 200 ? &j->output : &j->errors;
        size_t before = into->text.size;
        batch_answer_write(&into->text, j->id, call->line, call->custom_id ? call->custom_id : "", x->answer.status,
                           buf_span(&x->answer.body));
        if (into->text.failed || x->answer.body.failed) { /* no memory for the answer: asked again */
            into->text.size = before;
            into->text.failed = false;
            wait_again(call);
        } else {
            into->lines++;
            j->states[call->line] = LINE_DONE;
        }
    }
    batch_service_poke(j->service);
}

static void on_released(void *context)
{
    line_call *call = context;
    batch_job *j = call->job;
    free(call->custom_id);
    free(call);
    batch_job_release(j);
}

/* Worker: the line becomes a body, and goes the way of every request. */
static void work_ask(exchange *x)
{
    line_call *call = x->inside.context;
    const batch_job *j = call->job;
    buf text = {0};
    batch_line line;
    batch_error fault = {.message = "This line cannot be read."};
    error err = {""};
    bool good = disk_read_at(j->input_fd, j->input.starts[call->line], j->input.sizes[call->line], &text, &err) == OK &&
                batch_line_read(&line, buf_span(&text), j->record.endpoint, &fault);
    buf_free(&text);
    if (!good) {
        api_fail(&x->error, 400, NULL, "%s", fault.message);
        return;
    }
    call->custom_id = strdup(line.custom_id);
    char *body = json_dumps(line.body, JSON_COMPACT);
    batch_line_free(&line);
    if (!body || !call->custom_id) {
        free(body);
        x->error.dropped = true;
        api_fail(&x->error, 503, NULL, "out of memory");
        return;
    }
    buf_text(&x->body, body);
    free(body);
    x->route->handle(x);
}

bool batch_job_ask_next(batch_job *j, server *s)
{
    while (j->cursor < j->input.count && j->states[j->cursor] != LINE_WAITING)
        j->cursor++;
    if (j->cursor == j->input.count)
        return false;
    line_call *call = calloc(1, sizeof *call);
    if (!call)
        return false;
    call->job = j;
    call->line = j->cursor;
    call->next = j->calls;
    if (j->calls)
        j->calls->previous = call;
    j->calls = call;
    j->states[j->cursor++] = LINE_ASKED;
    j->asked++;
    j->references++;
    exchange_inside inside = {on_answered, on_released, call};
    request_terms terms = {.tenant = j->tenant, .klass = CLASS_BATCH};
    exchange *x = server_ask(s, j->route, &terms, &inside, work_ask);
    if (x) {
        call->exchange = x->inside.answered ? x : NULL; /* else it has been answered already */
        return true;
    }
    leave_list(call);
    wait_again(call);
    on_released(call);
    return false;
}

void batch_job_forget_calls(batch_job *j)
{
    while (j->calls) {
        line_call *call = j->calls;
        exchange *x = call->exchange;
        leave_list(call);
        wait_again(call);
        server_forget(x);
    }
}
