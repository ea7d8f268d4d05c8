/* server/batch/line.c: see line.h. An answer's id names its batch and its line, so that a file of answers says by
 * itself which lines are done. */
#include "server/batch/line.h"

#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>

#include "server/json_text.h"

enum { INDEX_DIGITS = 8 };

static bool fail(batch_error *fault, const char *code, const char *message)
{
    snprintf(fault->code, sizeof fault->code, "%s", code);
    snprintf(fault->message, sizeof fault->message, "%s", message);
    return false;
}

static bool check(batch_line *line, const char *endpoint, batch_error *fault)
{
    json_t *id = json_object_get(line->root, "custom_id"), *url = json_object_get(line->root, "url");
    const char *method = json_string_value(json_object_get(line->root, "method"));
    if (!json_is_object(line->root))
        return fail(fault, "invalid_json_line", "This line is not a JSON object.");
    if (!json_string_length(id))
        return fail(fault, "missing_required_parameter", "custom_id must be a string that is not empty.");
    if (json_string_length(id) > CUSTOM_ID_MAX || strlen(json_string_value(id)) != json_string_length(id))
        return fail(fault, "invalid_custom_id", "custom_id must have 512 bytes at most, none of them NUL.");
    if (!method || strcmp(method, "POST") != 0)
        return fail(fault, "invalid_method", "method must be \"POST\".");
    if (!json_is_string(url))
        return fail(fault, "missing_required_parameter", "url must be a string.");
    if (strcmp(json_string_value(url), endpoint) != 0)
        return fail(fault, "mismatched_url", "url is not the endpoint of the batch.");
    line->custom_id = json_string_value(id);
    line->body = json_object_get(line->root, "body");
    return json_is_object(line->body) || fail(fault, "missing_required_parameter", "body must be a JSON object.");
}

bool batch_line_read(batch_line *out, span text, const char *endpoint, batch_error *fault)
{
    json_error_t where;
    *out = (batch_line){0};
    if (text.size > BATCH_LINE_BYTES_MAX)
        return fail(fault, "line_too_long", "This line has more than 16 MB.");
    out->root = json_loadb(text.data, text.size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &where);
    if (!out->root)
        return fail(fault, "invalid_json_line", "This line is not valid JSON.");
    if (check(out, endpoint, fault))
        return true;
    batch_line_free(out);
    return false;
}

void batch_line_free(batch_line *line)
{
    json_decref(line->root);
    *line = (batch_line){0};
}

/* ---- all lines of an input ---- */

typedef struct {
    uint64_t hash;
    uint32_t line;
} seen_id;

static int by_hash(const void *a, const void *b)
{
    const seen_id *x = a, *y = b;
    return x->hash != y->hash ? (x->hash < y->hash ? -1 : 1) : (x->line > y->line) - (x->line < y->line);
}

static bool add_fault(batch_record *r, uint32_t line, const batch_error *fault)
{
    if (r->fault_count == BATCH_ERRORS_MAX)
        return false;
    r->faults[r->fault_count] = *fault;
    r->faults[r->fault_count++].line = line;
    return true;
}

static void find_duplicates(seen_id *ids, uint32_t count, batch_record *r)
{
    batch_error fault;
    fail(&fault, "duplicate_custom_id", "Another line has the same custom_id.");
    qsort(ids, count, sizeof *ids, by_hash);
    for (uint32_t i = 1; i < count; i++)
        if (ids[i].hash == ids[i - 1].hash && !add_fault(r, ids[i].line, &fault))
            return;
}

static bool is_blank(span line)
{
    for (size_t i = 0; i < line.size; i++)
        if (!strchr(" \t\r", line.data[i]))
            return false;
    return true;
}

/* Cuts `text` into lines, reads each. `number`: of the line in the file, from 1. */
static void read_lines(batch_input *out, span text, seen_id *ids, batch_record *r)
{
    uint32_t number = 0;
    for (size_t at = 0; at < text.size && r->fault_count < BATCH_ERRORS_MAX;) {
        const char *end = memchr(text.data + at, '\n', text.size - at);
        size_t size = end ? (size_t)(end - text.data) - at : text.size - at;
        span one = span_of(text.data + at, size);
        batch_line line;
        batch_error fault = {0};
        number++;
        if (!is_blank(one)) {
            if (out->count == BATCH_LINES_MAX) {
                fail(&fault, "too_many_requests", "A batch may have 50000 lines.");
                add_fault(r, number, &fault);
                return;
            }
            if (batch_line_read(&line, one, r->endpoint, &fault)) {
                ids[out->count] = (seen_id){XXH3_64bits(line.custom_id, strlen(line.custom_id)), number};
                out->starts[out->count] = at;
                out->sizes[out->count++] = (uint32_t)size;
                batch_line_free(&line);
            } else {
                add_fault(r, number, &fault);
            }
        }
        at += size + 1;
    }
}

/* As many lines as `text` can have at most. */
static size_t line_limit(span text)
{
    size_t count = 1;
    for (size_t at = 0; at < text.size && count < BATCH_LINES_MAX; count++) {
        const char *end = memchr(text.data + at, '\n', text.size - at);
        if (!end)
            break;
        at = (size_t)(end - text.data) + 1;
    }
    return count;
}

bool batch_input_read(batch_input *out, span text, batch_record *r)
{
    size_t limit = line_limit(text);
    seen_id *ids = malloc(limit * sizeof *ids);
    *out = (batch_input){malloc(limit * sizeof *out->starts), malloc(limit * sizeof *out->sizes), 0};
    bool good = ids && out->starts && out->sizes;
    if (good) {
        batch_error fault = {0};
        read_lines(out, text, ids, r);
        find_duplicates(ids, out->count, r);
        if (!out->count && !r->fault_count) {
            fail(&fault, "empty_file", "The input file has no lines.");
            add_fault(r, 0, &fault);
        }
    }
    free(ids);
    return good;
}

void batch_input_free(batch_input *input)
{
    free(input->starts);
    free(input->sizes);
    *input = (batch_input){0};
}

/* ---- answers ---- */

/* What every answer of the batch begins with; its line's number in hex follows. */
static void write_prefix(buf *out, const char *batch_id)
{
    const char *number = strchr(batch_id, '_');
    buf_printf(out, "{\"id\":\"batch_req_%s_", number ? number + 1 : batch_id);
}

static void write_start(buf *out, const char *batch_id, uint32_t index, const char *custom_id)
{
    write_prefix(out, batch_id);
    buf_printf(out, "%0*x\",\"custom_id\":", INDEX_DIGITS, index);
    json_text_string(out, span_from(custom_id));
}

void batch_answer_write(buf *out, const char *batch_id, uint32_t index, const char *custom_id, int http_status,
                        span body)
{
    const char *number = strchr(batch_id, '_');
    write_start(out, batch_id, index, custom_id);
    buf_printf(out, ",\"response\":{\"status_code\":%d,\"request_id\":\"req_%s_%0*x\",\"body\":", http_status,
               number ? number + 1 : batch_id, INDEX_DIGITS, index);
    buf_append(out, body.data, body.size);
    buf_text(out, "},\"error\":null}\n");
}

void batch_answer_write_error(buf *out, const char *batch_id, uint32_t index, const char *custom_id, const char *code,
                              const char *message)
{
    write_start(out, batch_id, index, custom_id);
    buf_printf(out, ",\"response\":null,\"error\":{\"code\":\"%s\",\"message\":", code);
    json_text_string(out, span_from(message));
    buf_text(out, "}}\n");
}

bool batch_answer_index(span line, const char *batch_id, uint32_t *index)
{
    buf prefix = {0};
    write_prefix(&prefix, batch_id);
    size_t head = prefix.size;
    bool good = prefix.data && line.size > head + INDEX_DIGITS && memcmp(line.data, prefix.data, head) == 0 &&
                line.data[head + INDEX_DIGITS] == '"' && line.data[line.size - 1] == '}';
    buf_free(&prefix);
    *index = 0;
    for (size_t i = head; good && i < head + INDEX_DIGITS; i++) {
        const char *digits = "0123456789abcdef", *digit = line.data[i] ? strchr(digits, line.data[i]) : NULL;
        good = digit != NULL;
        *index = *index * 16 + (digit ? (uint32_t)(digit - digits) : 0);
    }
    return good;
}
