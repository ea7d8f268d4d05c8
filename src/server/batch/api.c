/* server/batch/api.c: see api.h. */
#include "server/batch/api.h"

#include <ctype.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "server/api/params.h"
#include "server/batch/disk.h"
#include "server/batch/multipart.h"
#include "server/batch/service.h"
#include "server/debug/query.h"

enum {
    LIST_MAX_FILES = 10000,
    LIST_MAX_BATCHES = 100,
    CONTENT_MAX = 1 << 30,
    WINDOW_SECONDS_MAX = 7 * 86400,
    FILE_SECONDS_MIN = 3600,
};

/* ---- start: the loop thread ---- */

static void free_tenant(void *own)
{
    free(own);
}

static void start(exchange *x, void (*task)(exchange *x))
{
    const tenant_table *table = server_tenants(x->server);
    if (!server_batch(x->server)) {
        api_fail(&x->error, 404, NULL, "files and batches are off: start the server with --batch-dir DIR");
        return;
    }
    x->own = strdup(table->tenants[x->terms.tenant].name);
    x->free_own = free_tenant;
    if (x->own)
        server_run_task(x, task);
    else
        api_fail(&x->error, 503, NULL, "out of memory");
}

static const char *tenant_of(const exchange *x)
{
    return x->own;
}

static batch_store *store_of(const exchange *x)
{
    return batch_service_store(server_batch(x->server));
}

static void answer_json(exchange *x)
{
    x->answer.status = 200;
    x->answer.type = "application/json";
}

static void fail_status(exchange *x, status st, const error *err)
{
    if (st == ERR_NOT_FOUND)
        api_fail(&x->error, 404, "id", "%s", err->text);
    else if (st == ERR_BUSY)
        api_fail(&x->error, 409, NULL, "%s", err->text);
    else if (st == ERR_LIMIT)
        api_fail(&x->error, 400, NULL, "%s", err->text);
    else
        api_fail(&x->error, 500, NULL, "the disk or the memory has failed: see the server's log");
}

/* The id in a path, up to `suffix`, which must be there unless it is ""; false: there is none. */
static bool read_id(const exchange *x, const char *suffix, char id[STORE_ID_MAX])
{
    size_t size = x->rest.size, tail = strlen(suffix);
    if (size <= tail || size - tail >= STORE_ID_MAX || memcmp(x->rest.data + size - tail, suffix, tail) != 0)
        return false;
    memcpy(id, x->rest.data, size - tail);
    id[size - tail] = 0;
    return strlen(id) == size - tail && !strchr(id, '/');
}

static bool fail_nothing(exchange *x, const char *what)
{
    return api_fail(&x->error, 404, "id", "there is no such %s", what);
}

/* ---- files ---- */

static bool read_seconds(exchange *x, const form *f, uint64_t *expires)
{
    const form_part *anchor = form_find(f, "expires_after[anchor]"), *part = form_find(f, "expires_after[seconds]");
    uint64_t seconds = 0;
    if (!anchor && !part)
        return true;
    if (!anchor || !span_is(anchor->value, "created_at"))
        return api_fail(&x->error, 400, "expires_after", "expires_after[anchor] must be created_at");
    for (size_t i = 0; part && i < part->value.size && seconds <= (uint64_t)STORE_DAYS * 86400; i++) {
        if (!isdigit((unsigned char)part->value.data[i])) {
            seconds = 0;
            break;
        }
        seconds = seconds * 10 + (uint64_t)(part->value.data[i] - '0');
    }
    if (seconds < FILE_SECONDS_MIN || seconds > (uint64_t)STORE_DAYS * 86400)
        return api_fail(&x->error, 400, "expires_after", "expires_after[seconds] must be from %d to %d",
                        FILE_SECONDS_MIN, STORE_DAYS * 86400);
    *expires = clock_unix_seconds() + seconds;
    return true;
}

/* Only what is UTF-8 and fits: it goes into JSON and comes back out of it. */
static bool read_name(exchange *x, span name, char out[256])
{
    json_t *text = name.size && name.size < 256 ? json_stringn(name.data, name.size) : NULL;
    if (!text)
        return api_fail(&x->error, 400, "file", "file needs a name of at most 255 bytes of UTF-8");
    memcpy(out, name.data, name.size);
    out[name.size] = 0;
    json_decref(text);
    return true;
}

static void create_file(exchange *x)
{
    span boundary;
    form f;
    const char *why;
    error err = {""};
    uint64_t now = clock_unix_seconds();
    stored_file made = {.created_unix = now, .expires_unix = now + (uint64_t)STORE_DAYS * 86400};
    if (!form_boundary(buf_span(&x->content_type), &boundary)) {
        api_fail(&x->error, 415, NULL, "the body must be a form: Content-Type: multipart/form-data; boundary=…");
        return;
    }
    if (!form_parse(&f, boundary, buf_span(&x->body), &why)) {
        api_fail(&x->error, 400, NULL, "%s", why);
        return;
    }
    const form_part *file = form_find(&f, "file"), *purpose = form_find(&f, "purpose");
    if (!file || !file->filename.data)
        api_fail(&x->error, 400, "file", "file is missing");
    else if (!purpose || !span_is(purpose->value, "batch"))
        api_fail(&x->error, 400, "purpose", "purpose must be batch: files are for batches here");
    else if (!file->value.size)
        api_fail(&x->error, 400, "file", "file is empty");
    else if (read_name(x, file->filename, made.name) && read_seconds(x, &f, &made.expires_unix)) {
        snprintf(made.tenant, sizeof made.tenant, "%s", tenant_of(x));
        snprintf(made.purpose, sizeof made.purpose, "batch");
        status st = store_add_file(store_of(x), &made, file->value, &err);
        if (st) {
            fail_status(x, st, &err);
            return;
        }
        stored_file_write(&made, false, &x->answer.body);
        answer_json(x);
    }
}

void files_create(exchange *x)
{
    start(x, create_file);
}

/* limit, after, order and purpose of a list's query. */
static bool read_query(exchange *x, store_query *query, uint32_t limit_max, char after[STORE_ID_MAX], char purpose[24])
{
    char order[8] = "";
    uint64_t limit = query->limit;
    span text = buf_span(&x->query);
    query->tenant = tenant_of(x);
    query_result has_after = query_text(text, "after", after, STORE_ID_MAX);
    query_result has_purpose = query_text(text, "purpose", purpose, 24);
    query_result has_order = query_text(text, "order", order, sizeof order);
    query_result has_limit = query_number(text, "limit", &limit);
    if ((has_limit != QUERY_ABSENT && has_limit != QUERY_NUMBER) || limit < 1 || limit > limit_max)
        return api_fail(&x->error, 400, "limit", "limit must be from 1 to %u", limit_max);
    if (has_order != QUERY_ABSENT && strcmp(order, "asc") != 0 && strcmp(order, "desc") != 0)
        return api_fail(&x->error, 400, "order", "order must be asc or desc");
    if (has_after == QUERY_WRONG)
        return api_fail(&x->error, 400, "after", "after must be an id");
    query->limit = (uint32_t)limit;
    query->oldest_first = strcmp(order, "asc") == 0;
    query->after = has_after == QUERY_ABSENT ? NULL : after;
    query->purpose = has_purpose == QUERY_ABSENT ? NULL : purpose;
    return true;
}

typedef void (*store_list)(batch_store *s, const store_query *query, buf *out, char first[STORE_ID_MAX],
                           char last[STORE_ID_MAX], bool *more);

static void list(exchange *x, store_list from, uint32_t limit, uint32_t limit_max)
{
    char after[STORE_ID_MAX], purpose[24], first[STORE_ID_MAX], last[STORE_ID_MAX];
    store_query query = {.limit = limit};
    bool more;
    buf *out = &x->answer.body;
    if (!read_query(x, &query, limit_max, after, purpose))
        return;
    buf_text(out, "{\"object\":\"list\",\"data\":[");
    from(store_of(x), &query, out, first, last, &more);
    buf_text(out, "]");
    if (first[0])
        buf_printf(out, ",\"first_id\":\"%s\",\"last_id\":\"%s\"", first, last);
    else
        buf_text(out, ",\"first_id\":null,\"last_id\":null");
    buf_printf(out, ",\"has_more\":%s}", more ? "true" : "false");
    answer_json(x);
}

static void list_files(exchange *x)
{
    list(x, store_list_files, LIST_MAX_FILES, LIST_MAX_FILES);
}

void files_list(exchange *x)
{
    start(x, list_files);
}

static void send_content(exchange *x, const stored_file *f)
{
    char path[STORE_PATH_MAX];
    error err = {""};
    store_file_path(store_of(x), f->id, path);
    status st = disk_read(path, CONTENT_MAX, &x->answer.body, &err);
    if (st) {
        fail_status(x, st, &err);
        return;
    }
    x->answer.status = 200;
    x->answer.type = "application/octet-stream";
}

static void get_file(exchange *x)
{
    char id[STORE_ID_MAX];
    stored_file f;
    bool content = read_id(x, "/content", id);
    if ((!content && !read_id(x, "", id)) || !store_find_file(store_of(x), tenant_of(x), id, &f)) {
        fail_nothing(x, "file");
    } else if (content) {
        send_content(x, &f);
    } else {
        stored_file_write(&f, false, &x->answer.body);
        answer_json(x);
    }
}

void files_get(exchange *x)
{
    start(x, get_file);
}

static void delete_file(exchange *x)
{
    char id[STORE_ID_MAX];
    error err = {""};
    if (!read_id(x, "", id)) {
        fail_nothing(x, "file");
        return;
    }
    status st = store_remove_file(store_of(x), tenant_of(x), id, &err);
    if (st) {
        fail_status(x, st, &err);
        return;
    }
    buf_printf(&x->answer.body, "{\"id\":\"%s\",\"object\":\"file\",\"deleted\":true}", id);
    answer_json(x);
}

void files_delete(exchange *x)
{
    start(x, delete_file);
}

/* ---- batches ---- */

/* "24h", and as an extension any number of s, m, h or d up to seven days. */
static bool read_window(exchange *x, json_t *value, batch_record *r)
{
    static const struct {
        char unit;
        uint64_t seconds;
    } units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
    const char *text = json_string_value(value);
    uint64_t number = 0, seconds = 0;
    size_t at = 0;
    while (text && isdigit((unsigned char)text[at]) && at < 7)
        number = number * 10 + (uint64_t)(text[at++] - '0');
    for (size_t i = 0; at && i < sizeof units / sizeof *units; i++)
        if (text[at] == units[i].unit && !text[at + 1])
            seconds = number * units[i].seconds;
    if (seconds < 1 || seconds > WINDOW_SECONDS_MAX)
        return api_fail(&x->error, 400, "completion_window",
                        "completion_window must be \"24h\", or a number of s, m, h or d of at most seven days");
    snprintf(r->window, sizeof r->window, "%s", text);
    r->expires_unix = r->times[BATCH_VALIDATING] + seconds;
    return true;
}

static bool read_metadata(exchange *x, json_t *value, batch_record *r)
{
    const char *key;
    json_t *item;
    if (!value || json_is_null(value))
        return true;
    if (!json_is_object(value) || json_object_size(value) > METADATA_MAX)
        return api_fail(&x->error, 400, "metadata", "metadata must be an object of at most %d pairs", METADATA_MAX);
    json_object_foreach(value, key, item)
    {
        if (strlen(key) > METADATA_KEY_MAX || !json_is_string(item) || json_string_length(item) > METADATA_VALUE_MAX)
            return api_fail(&x->error, 400, "metadata", "metadata: keys may have %d bytes, values are strings of %d",
                            METADATA_KEY_MAX, METADATA_VALUE_MAX);
    }
    r->metadata = json_dumps(value, JSON_COMPACT);
    return r->metadata || api_fail(&x->error, 503, NULL, "out of memory");
}

static bool read_batch(exchange *x, json_t *body, batch_record *r)
{
    static const char *const endpoints[] = {"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"};
    const char *endpoint = json_string_value(json_object_get(body, "endpoint"));
    const char *input = json_string_value(json_object_get(body, "input_file_id"));
    stored_file f;
    *r = (batch_record){.state = BATCH_VALIDATING, .why = BATCH_COMPLETED};
    r->times[BATCH_VALIDATING] = clock_unix_seconds();
    for (size_t i = 0; endpoint && i < sizeof endpoints / sizeof *endpoints; i++)
        if (strcmp(endpoint, endpoints[i]) == 0)
            snprintf(r->endpoint, sizeof r->endpoint, "%s", endpoint);
    if (!r->endpoint[0])
        return api_fail(&x->error, 400, "endpoint",
                        "endpoint must be /v1/chat/completions, /v1/completions, /v1/responses or /v1/messages");
    if (!input || !store_find_file(store_of(x), tenant_of(x), input, &f))
        return api_fail(&x->error, 400, "input_file_id", "input_file_id must be the id of a file of yours");
    if (strcmp(f.purpose, "batch") != 0)
        return api_fail(&x->error, 400, "input_file_id", "the input file's purpose must be batch");
    memcpy(r->input, f.id, sizeof r->input);
    snprintf(r->tenant, sizeof r->tenant, "%s", tenant_of(x));
    return read_window(x, json_object_get(body, "completion_window"), r) &&
           read_metadata(x, json_object_get(body, "metadata"), r);
}

static void create_batch(exchange *x)
{
    batch_record r = {0};
    error err = {""};
    json_t *body = params_parse_body(x);
    if (body && read_batch(x, body, &r)) {
        status st = store_add_batch(store_of(x), &r, &err);
        if (st) {
            fail_status(x, st, &err);
        } else {
            batch_service_poke(server_batch(x->server));
            batch_record_write(&r, false, &x->answer.body);
            answer_json(x);
        }
    }
    batch_record_free(&r);
    json_decref(body);
}

void batches_create(exchange *x)
{
    start(x, create_batch);
}

static void list_batches(exchange *x)
{
    list(x, store_list_batches, 20, LIST_MAX_BATCHES);
}

void batches_list(exchange *x)
{
    start(x, list_batches);
}

static void get_batch(exchange *x)
{
    char id[STORE_ID_MAX];
    batch_record r;
    if (!read_id(x, "", id) || !store_find_batch(store_of(x), tenant_of(x), id, &r)) {
        fail_nothing(x, "batch");
        return;
    }
    batch_record_write(&r, false, &x->answer.body);
    batch_record_free(&r);
    answer_json(x);
}

void batches_get(exchange *x)
{
    start(x, get_batch);
}

typedef struct {
    const char *tenant;
    bool mine;
} cancelling;

static bool become_cancelling(batch_record *r, void *context)
{
    cancelling *ask = context;
    ask->mine = strcmp(r->tenant, ask->tenant) == 0;
    if (!ask->mine || (r->state != BATCH_VALIDATING && r->state != BATCH_IN_PROGRESS))
        return false;
    r->state = BATCH_CANCELLING;
    r->times[BATCH_CANCELLING] = clock_unix_seconds();
    return true;
}

static void cancel_batch(exchange *x)
{
    char id[STORE_ID_MAX];
    batch_record r;
    error err = {""};
    cancelling ask = {.tenant = tenant_of(x)};
    if (!read_id(x, "/cancel", id)) {
        api_fail(&x->error, 404, NULL, "POST is for /v1/batches/ID/cancel");
        return;
    }
    status st = store_change_batch(store_of(x), id, become_cancelling, &ask, &r, &err);
    if (st || !ask.mine) {
        if (st == OK)
            batch_record_free(&r);
        if (st == OK || st == ERR_NOT_FOUND)
            fail_nothing(x, "batch");
        else
            fail_status(x, st, &err);
        return;
    }
    if (r.state == BATCH_CANCELLING) {
        batch_service_poke(server_batch(x->server));
        batch_record_write(&r, false, &x->answer.body);
        answer_json(x);
    } else {
        api_fail(&x->error, 409, NULL, "this batch has ended, or is about to");
    }
    batch_record_free(&r);
}

void batches_cancel(exchange *x)
{
    start(x, cancel_batch);
}
