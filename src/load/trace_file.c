/* load/trace_file.c: three formats, one row a line. */
#include "load/trace_file.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"

enum { COLUMNS_MAX = 32, FILE_MAX_MB = 2048 };

typedef struct {
    trace_file *out;
    const char *name;
    uint32_t line;
    int columns[3]; /* of time, input, output in a CSV */
    double first_s; /* of the first row */
    double speed;
} reader;

static status bad_line(const reader *r, error *err, const char *what)
{
    return error_set(err, ERR_INVALID, "%s: line %u: %s", r->name, r->line, what);
}

static bool add_row(reader *r, double at_s, double input, double output)
{
    trace_file *t = r->out;
    if (t->row_count == t->row_capacity) {
        uint32_t capacity = t->row_capacity ? t->row_capacity * 2 : 1024;
        trace_row *rows = realloc(t->rows, capacity * sizeof *rows);
        if (!rows)
            return false;
        t->rows = rows;
        t->row_capacity = capacity;
    }
    if (t->row_count == 0)
        r->first_s = at_s;
    double after = (at_s - r->first_s) / r->speed;
    t->rows[t->row_count++] = (trace_row){.at_us = after > 0 ? (uint64_t)(after * 1e6) : 0,
                                          .input_tokens = (uint32_t)input,
                                          .output_tokens = (uint32_t)output,
                                          .block_start = (uint32_t)t->block_count};
    return true;
}

static bool length_fits(double tokens)
{
    return tokens >= 0 && tokens <= TRACE_TOKENS_MAX;
}

/* ---- Mooncake ---- */

static bool add_blocks(trace_file *t, const json_t *ids)
{
    size_t count = json_array_size(ids);
    if (t->block_count + count > t->block_capacity) {
        size_t capacity =
            t->block_capacity * 2 > t->block_count + count ? t->block_capacity * 2 : t->block_count + count;
        uint64_t *blocks = realloc(t->blocks, capacity * sizeof *blocks);
        if (!blocks)
            return false;
        t->blocks = blocks;
        t->block_capacity = capacity;
    }
    for (size_t i = 0; i < count; i++)
        t->blocks[t->block_count++] = (uint64_t)json_integer_value(json_array_get(ids, i));
    t->rows[t->row_count - 1].block_count = (uint32_t)count;
    return true;
}

static status take_mooncake(reader *r, span line, error *err)
{
    json_error_t problem;
    json_t *row = json_loadb(line.data, line.size, 0, &problem);
    const json_t *at = json_object_get(row, "timestamp"), *ids = json_object_get(row, "hash_ids");
    const json_t *input = json_object_get(row, "input_length"), *output = json_object_get(row, "output_length");
    status st = OK;
    if (!row)
        st = bad_line(r, err, problem.text);
    else if (!json_is_number(at) || !json_is_integer(input) || !json_is_integer(output))
        st = bad_line(r, err, "want numbers timestamp, input_length and output_length");
    else if (!length_fits(json_number_value(input)) || !length_fits(json_number_value(output)))
        st = bad_line(r, err, "input_length or output_length is outside 0 to 16777216");
    else if (ids && (!json_is_array(ids) || json_array_size(ids) > TRACE_BLOCKS_MAX))
        st = bad_line(r, err, "hash_ids is no array of at most 4096 numbers");
    for (size_t i = 0; !st && i < json_array_size(ids); i++)
        if (!json_is_integer(json_array_get(ids, i)))
            st = bad_line(r, err, "hash_ids holds something that is no whole number");
    if (!st && (!add_row(r, json_number_value(at) / 1e3, json_number_value(input), json_number_value(output)) ||
                !add_blocks(r->out, ids)))
        st = error_set(err, ERR_MEMORY, "%s: out of memory", r->name);
    json_decref(row);
    return st;
}

/* ---- CSV ---- */

/* Cuts at commas; quotes around a field are dropped. */
static int cut_fields(span line, span *fields)
{
    int count = 0;
    size_t start = 0;
    for (size_t i = 0; i <= line.size && count < COLUMNS_MAX; i++) {
        if (i < line.size && line.data[i] != ',')
            continue;
        span f = span_of(line.data + start, i - start);
        while (f.size && (f.data[0] == ' ' || f.data[0] == '"'))
            f = span_of(f.data + 1, f.size - 1);
        while (f.size && (f.data[f.size - 1] == ' ' || f.data[f.size - 1] == '"'))
            f.size--;
        fields[count++] = f;
        start = i + 1;
    }
    return count;
}

static bool read_number(span field, double *out)
{
    char text[64], *end;
    if (field.size == 0 || field.size >= sizeof text)
        return false;
    memcpy(text, field.data, field.size);
    text[field.size] = '\0';
    *out = strtod(text, &end);
    return *end == '\0' && isfinite(*out);
}

/* "2023-11-16 18:17:03.9799600" (a T between and a zone after it are accepted) as seconds; else a plain number. */
static bool read_time(span field, double *out)
{
    char text[64];
    int year, month, day, hour, minute;
    double second;
    if (field.size == 0 || field.size >= sizeof text)
        return false;
    memcpy(text, field.data, field.size);
    text[field.size] = '\0';
    if (sscanf(text, "%4d-%2d-%2d%*1[ T]%2d:%2d:%lf", &year, &month, &day, &hour, &minute, &second) != 6)
        return read_number(field, out);
    if (month < 1 || month > 12 || day < 1 || day > 31 || hour < 0 || hour > 23 || minute < 0 || minute > 59 ||
        !(second >= 0 && second < 61))
        return false;
    int y = month <= 2 ? year - 1 : year, m = month <= 2 ? month + 9 : month - 3; /* a year that begins in March */
    double days = 365.0 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day;
    *out = days * 86400 + hour * 3600 + minute * 60 + second;
    return true;
}

static status take_csv(reader *r, span line, error *err)
{
    span fields[COLUMNS_MAX];
    int count = cut_fields(line, fields);
    double at, input, output;
    for (int i = 0; i < 3; i++)
        if (r->columns[i] >= count)
            return bad_line(r, err, "fewer columns than the first line names");
    if (!read_time(fields[r->columns[0]], &at))
        return bad_line(r, err, "the time is neither seconds nor YYYY-MM-DD HH:MM:SS");
    if (!read_number(fields[r->columns[1]], &input) || !read_number(fields[r->columns[2]], &output) ||
        !length_fits(input) || !length_fits(output))
        return bad_line(r, err, "a token count is no number from 0 to 16777216");
    return add_row(r, at, input, output) ? OK : error_set(err, ERR_MEMORY, "%s: out of memory", r->name);
}

static bool find_columns(reader *r, span header, const char *const names[3])
{
    span fields[COLUMNS_MAX];
    int count = cut_fields(header, fields), found = 0;
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < count; i++)
            if (span_is(fields[i], names[k])) {
                r->columns[k] = i;
                found++;
                break;
            }
    return found == 3;
}

/* ---- files ---- */

static span next_line(span *rest)
{
    const char *end = rest->size ? memchr(rest->data, '\n', rest->size) : NULL;
    size_t size = end ? (size_t)(end - rest->data) : rest->size;
    span line = span_of(rest->data, size);
    *rest = end ? span_of(end + 1, rest->size - size - 1) : (span){0};
    if (line.size && line.data[line.size - 1] == '\r')
        line.size--;
    return line;
}

static int by_time(const void *a, const void *b)
{
    const trace_row *x = a, *y = b;
    if (x->at_us != y->at_us)
        return x->at_us < y->at_us ? -1 : 1;
    return (x->block_start > y->block_start) - (x->block_start < y->block_start);
}

static status read_header(reader *r, span *rest, error *err)
{
    static const char *const burst[] = {"Timestamp", "Request tokens", "Response tokens"};
    static const char *const azure[] = {"TIMESTAMP", "ContextTokens", "GeneratedTokens"};
    if (rest->size >= 3 && !memcmp(rest->data, "\xEF\xBB\xBF", 3))
        *rest = span_of(rest->data + 3, rest->size - 3);
    if (rest->size && rest->data[0] == '{') {
        r->out->format = "mooncake";
        return OK;
    }
    span header = next_line(rest);
    r->line = 1;
    if (find_columns(r, header, burst))
        r->out->format = "burstgpt";
    else if (find_columns(r, header, azure))
        r->out->format = "azure";
    else
        return bad_line(r, err,
                        "want a JSON object (Mooncake) or a CSV header with Timestamp, Request tokens, Response tokens "
                        "(BurstGPT) or TIMESTAMP, ContextTokens, GeneratedTokens (Azure)");
    return OK;
}

status trace_file_parse(trace_file *out, span text, const char *name, uint32_t limit, double speed, error *err)
{
    *out = (trace_file){0};
    reader r = {.out = out, .name = name, .speed = speed};
    span rest = text;
    status st = read_header(&r, &rest, err);
    bool lines = !strcmp(out->format ? out->format : "", "mooncake");
    while (!st && rest.size && (!limit || out->row_count < limit)) {
        span line = next_line(&rest);
        r.line++;
        if (line.size == 0)
            continue;
        if (out->row_count >= TRACE_ROWS_MAX)
            st = bad_line(&r, err, "more than 1000000 rows: give --requests");
        else
            st = lines ? take_mooncake(&r, line, err) : take_csv(&r, line, err);
    }
    if (!st && out->row_count == 0)
        st = error_set(err, ERR_INVALID, "%s: no row in it", name);
    if (st) {
        trace_file_free(out);
        return st;
    }
    qsort(out->rows, out->row_count, sizeof *out->rows, by_time);
    return OK;
}

status trace_file_open(trace_file *out, const char *path, uint32_t limit, double speed, error *err)
{
    *out = (trace_file){0};
    FILE *file = fopen(path, "rb");
    if (!file)
        return error_set(err, ERR_IO, "%s: %s", path, strerror(errno));
    buf text = {.limit = (size_t)FILE_MAX_MB << 20};
    char piece[1 << 16];
    size_t size;
    while ((size = fread(piece, 1, sizeof piece, file)) > 0)
        buf_append(&text, piece, size);
    status st = OK;
    if (ferror(file))
        st = error_set(err, ERR_IO, "%s: %s", path, strerror(errno));
    else if (text.failed)
        st = error_set(err, ERR_LIMIT, "%s: larger than %d MB", path, FILE_MAX_MB);
    fclose(file);
    if (!st)
        st = trace_file_parse(out, buf_span(&text), path, limit, speed, err);
    buf_free(&text);
    return st;
}

void trace_file_free(trace_file *t)
{
    free(t->rows);
    free(t->blocks);
    *t = (trace_file){0};
}
