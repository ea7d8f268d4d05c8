/* server/batch/record.c: see record.h. */
#include "server/batch/record.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "server/json_text.h"

static const struct {
    const char *state, *time;
} names[BATCH_STATES] = {
    [BATCH_VALIDATING] = {"validating", "created_at"},       [BATCH_FAILED] = {"failed", "failed_at"},
    [BATCH_IN_PROGRESS] = {"in_progress", "in_progress_at"}, [BATCH_FINALIZING] = {"finalizing", "finalizing_at"},
    [BATCH_COMPLETED] = {"completed", "completed_at"},       [BATCH_EXPIRED] = {"expired", "expired_at"},
    [BATCH_CANCELLING] = {"cancelling", "cancelling_at"},    [BATCH_CANCELLED] = {"cancelled", "cancelled_at"},
};

void batch_record_free(batch_record *r)
{
    free(r->metadata);
    r->metadata = NULL;
}

bool batch_record_copy(batch_record *to, const batch_record *of)
{
    *to = *of;
    to->metadata = of->metadata ? strdup(of->metadata) : NULL;
    return to->metadata || !of->metadata;
}

bool batch_state_ended(batch_state state)
{
    return state == BATCH_FAILED || state == BATCH_COMPLETED || state == BATCH_EXPIRED || state == BATCH_CANCELLED;
}

/* ---- out ---- */

static void write_text(buf *out, const char *key, const char *value)
{
    buf_printf(out, ",\"%s\":", key);
    if (value)
        json_text_string(out, span_from(value));
    else
        buf_text(out, "null");
}

static void write_time(buf *out, const char *key, uint64_t unix_seconds)
{
    if (unix_seconds)
        buf_printf(out, ",\"%s\":%llu", key, (unsigned long long)unix_seconds);
    else
        buf_printf(out, ",\"%s\":null", key);
}

void stored_file_write(const stored_file *f, bool whose, buf *out)
{
    buf_printf(out, "{\"id\":\"%s\",\"object\":\"file\",\"bytes\":%llu,\"created_at\":%llu", f->id,
               (unsigned long long)f->bytes, (unsigned long long)f->created_unix);
    write_time(out, "expires_at", f->expires_unix);
    write_text(out, "filename", f->name);
    write_text(out, "purpose", f->purpose);
    buf_text(out, ",\"status\":\"processed\",\"status_details\":null");
    if (whose)
        write_text(out, "tenant", f->tenant);
    buf_byte(out, '}');
}

static void write_faults(const batch_record *r, buf *out)
{
    if (!r->fault_count) {
        buf_text(out, ",\"errors\":null");
        return;
    }
    buf_text(out, ",\"errors\":{\"object\":\"list\",\"data\":[");
    for (uint32_t i = 0; i < r->fault_count; i++) {
        const batch_error *fault = &r->faults[i];
        buf_printf(out, "%s{\"code\":\"%s\"", i ? "," : "", fault->code);
        write_text(out, "message", fault->message);
        buf_text(out, ",\"param\":null");
        if (fault->line)
            buf_printf(out, ",\"line\":%u}", fault->line);
        else
            buf_text(out, ",\"line\":null}");
    }
    buf_text(out, "]}");
}

void batch_record_write(const batch_record *r, bool whose, buf *out)
{
    buf_printf(out, "{\"id\":\"%s\",\"object\":\"batch\"", r->id);
    write_text(out, "endpoint", r->endpoint);
    write_faults(r, out);
    write_text(out, "input_file_id", r->input);
    write_text(out, "completion_window", r->window);
    write_text(out, "status", names[r->state].state);
    write_text(out, "output_file_id", r->has_output ? r->output : NULL);
    write_text(out, "error_file_id", r->has_errors ? r->errors : NULL);
    for (int i = 0; i < BATCH_STATES; i++)
        write_time(out, names[i].time, r->times[i]);
    write_time(out, "expires_at", r->expires_unix);
    buf_printf(out, ",\"request_counts\":{\"total\":%u,\"completed\":%u,\"failed\":%u},\"metadata\":%s", r->total,
               r->completed, r->failed, r->metadata ? r->metadata : "null");
    if (whose) {
        write_text(out, "tenant", r->tenant);
        write_text(out, "output", r->output);
        write_text(out, "error_output", r->errors);
        write_text(out, "why", names[r->why].state);
    }
    buf_byte(out, '}');
}

/* ---- in ---- */

static bool read_text(json_t *object, const char *key, char *out, size_t size)
{
    const char *text = json_string_value(json_object_get(object, key));
    if (!text || strlen(text) >= size)
        return false;
    memcpy(out, text, strlen(text) + 1);
    return true;
}

/* What is written without escapes. */
static bool read_word(json_t *object, const char *key, char *out, size_t size)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    return read_text(object, key, out, size) && !out[strspn(out, letters)];
}

static uint64_t read_number(json_t *object, const char *key)
{
    json_int_t number = json_integer_value(json_object_get(object, key));
    return number > 0 ? (uint64_t)number : 0;
}

static bool read_state(json_t *object, const char *key, batch_state *out)
{
    const char *text = json_string_value(json_object_get(object, key));
    for (int i = 0; text && i < BATCH_STATES; i++)
        if (strcmp(text, names[i].state) == 0) {
            *out = (batch_state)i;
            return true;
        }
    return false;
}

status stored_file_read(stored_file *out, span text, error *err)
{
    json_t *o = json_loadb(text.data ? text.data : "", text.size, JSON_REJECT_DUPLICATES, NULL);
    *out = (stored_file){.bytes = read_number(o, "bytes"),
                         .created_unix = read_number(o, "created_at"),
                         .expires_unix = read_number(o, "expires_at")};
    bool good = json_is_object(o) && read_word(o, "id", out->id, sizeof out->id) &&
                read_text(o, "tenant", out->tenant, sizeof out->tenant) &&
                read_text(o, "purpose", out->purpose, sizeof out->purpose) &&
                read_text(o, "filename", out->name, sizeof out->name);
    json_decref(o);
    return good ? OK : error_set(err, ERR_INVALID, "not the description of a file");
}

static void read_faults(json_t *list, batch_record *out)
{
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item)
    {
        batch_error *fault = &out->faults[out->fault_count];
        if (out->fault_count == BATCH_ERRORS_MAX || !read_word(item, "code", fault->code, sizeof fault->code) ||
            !read_text(item, "message", fault->message, sizeof fault->message))
            return;
        fault->line = (uint32_t)read_number(item, "line");
        out->fault_count++;
    }
}

status batch_record_read(batch_record *out, span text, error *err)
{
    json_t *o = json_loadb(text.data ? text.data : "", text.size, JSON_REJECT_DUPLICATES, NULL);
    json_t *counts = json_object_get(o, "request_counts"), *metadata = json_object_get(o, "metadata");
    *out = (batch_record){.expires_unix = read_number(o, "expires_at"),
                          .total = (uint32_t)read_number(counts, "total"),
                          .completed = (uint32_t)read_number(counts, "completed"),
                          .failed = (uint32_t)read_number(counts, "failed"),
                          .has_output = json_is_string(json_object_get(o, "output_file_id")),
                          .has_errors = json_is_string(json_object_get(o, "error_file_id"))};
    for (int i = 0; i < BATCH_STATES; i++)
        out->times[i] = read_number(o, names[i].time);
    bool good = json_is_object(o) && read_word(o, "id", out->id, sizeof out->id) &&
                read_text(o, "tenant", out->tenant, sizeof out->tenant) &&
                read_text(o, "endpoint", out->endpoint, sizeof out->endpoint) &&
                read_text(o, "completion_window", out->window, sizeof out->window) &&
                read_text(o, "input_file_id", out->input, sizeof out->input) &&
                read_text(o, "output", out->output, sizeof out->output) &&
                read_text(o, "error_output", out->errors, sizeof out->errors) && read_state(o, "status", &out->state) &&
                read_state(o, "why", &out->why);
    read_faults(json_object_get(json_object_get(o, "errors"), "data"), out);
    if (good && json_is_object(metadata))
        good = (out->metadata = json_dumps(metadata, JSON_COMPACT)) != NULL;
    json_decref(o);
    return good ? OK : error_set(err, ERR_INVALID, "not the description of a batch");
}
