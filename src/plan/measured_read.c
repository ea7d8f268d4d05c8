/* plan/measured_read.c: one run as a line of JSON, and what a run must be to be believed. */
#include <ctype.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>

#include "plan/measured_private.h"

enum { COUNT_MAX = 1 << 27, BATCH_MAX = 1 << 16, REPEATS_MOST = 1000000, DAY_S = 86400, YEAR_LEAST = 2000 };
static const double rate_min = 1e-4, rate_max = 1e7;

const char run_format[] = "headway-run/1";
static const char *const kinds[RUN_KINDS] = {"decode", "prefill"};

/* ---- dates ---- */

/* Days since 1970-01-01 of a day of the Gregorian calendar; years count from March, so that a leap day ends one. */
static int64_t days_of(int year, int month, int day)
{
    int64_t y = month > 2 ? year : year - 1, era = y / 400, of_era = y % 400;
    int64_t of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

/* Does the text have digits where `shape` has a 9, and its other characters as they are? */
static bool has_shape(const char *text, const char *shape)
{
    size_t i = 0;
    for (; shape[i]; i++)
        if (shape[i] == '9' ? !isdigit((unsigned char)text[i]) : text[i] != shape[i])
            return false;
    return text[i] == 0;
}

static int digits(const char *text, int count)
{
    int value = 0;
    for (int i = 0; i < count; i++)
        value = value * 10 + text[i] - '0';
    return value;
}

/* Unix seconds of its first moment; false: no date. */
static bool read_date(const char *text, int64_t *out)
{
    static const int month_days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool whole = has_shape(text, "9999-99-99T99:99:99Z"), day_too = whole || has_shape(text, "9999-99-99");
    if (!day_too && !has_shape(text, "9999-99"))
        return false;
    int year = digits(text, 4), month = digits(text + 5, 2), day = day_too ? digits(text + 8, 2) : 1;
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    if (year < YEAR_LEAST || month < 1 || month > 12 || day < 1 ||
        day > month_days[month - 1] + (month == 2 && leap ? 1 : 0))
        return false;
    int hour = whole ? digits(text + 11, 2) : 0, minute = whole ? digits(text + 14, 2) : 0;
    int second = whole ? digits(text + 17, 2) : 0;
    *out = days_of(year, month, day) * DAY_S + hour * 3600 + minute * 60 + second;
    return hour < 24 && minute < 60 && second < 61;
}

void run_date(uint64_t unix_s, char out[24])
{
    int64_t day = (int64_t)(unix_s / DAY_S), rest = (int64_t)(unix_s % DAY_S);
    int year = 1970 + (int)(day / 366), month = 1;
    while (year < 9999 && days_of(year + 1, 1, 1) <= day)
        year++;
    while (month < 12 && days_of(year, month + 1, 1) <= day)
        month++;
    snprintf(out, 24, "%04u-%02u-%02uT%02u:%02u:%02uZ", (unsigned)year % 10000, (unsigned)month % 100,
             (unsigned)(day - days_of(year, month, 1) + 1) % 100, (unsigned)(rest / 3600) % 24,
             (unsigned)(rest / 60 % 60), (unsigned)(rest % 60));
}

/* ---- names ---- */

void run_name(char *out, size_t size, const char *text, bool dashes)
{
    size_t i = 0;
    for (; text[i] && i + 1 < size; i++)
        out[i] = dashes && (text[i] == ' ' || text[i] == '_') ? '-' : (char)tolower((unsigned char)text[i]);
    out[i] = 0;
}

/* Characters that would do something to a terminal: controls, also those of two bytes, line breaks and the marks that
 * turn the direction of writing. `text` is UTF-8. */
static bool has_controls(const char *text)
{
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (*p < 0x20 || *p == 0x7f || (*p == 0xc2 && p[1] < 0xa0))
            return true;
        if (*p == 0xe2 && ((p[1] == 0x80 && p[2] >= 0xa8 && p[2] <= 0xae) || (p[1] == 0x81 && p[2] >= 0xa6)))
            if (p[1] == 0x80 || p[2] <= 0xa9)
                return true;
    }
    return false;
}

typedef struct {
    const char *name;
    size_t offset, size;
    bool needed;
} text_field;

#define TEXT(field, needed)                                                                                            \
    {                                                                                                                  \
#field, offsetof(run_record, field), sizeof((run_record *)0)->field, needed                                    \
    }
static const text_field text_fields[] = {TEXT(hardware, true), TEXT(model, true),    TEXT(type, true),
                                         TEXT(runtime, true),  TEXT(version, false), TEXT(sampler, false),
                                         TEXT(date, true),     TEXT(source, false)};
enum { TEXT_FIELDS = sizeof text_fields / sizeof *text_fields };

typedef struct {
    const char *name;
    size_t offset;
    uint32_t least, most, fallback;
    bool needed;
} count_field;

static const count_field count_fields[] = {
    {"batch", offsetof(run_record, batch), 1, BATCH_MAX, 1, true},
    {"prompt_tokens", offsetof(run_record, prompt_tokens), 0, COUNT_MAX, 0, true},
    {"output_tokens", offsetof(run_record, output_tokens), 0, COUNT_MAX, 0, false},
    {"repeats", offsetof(run_record, repeats), 1, REPEATS_MOST, 1, false}};
enum { COUNT_FIELDS = sizeof count_fields / sizeof *count_fields };

/* ---- judging ---- */

static void tidy_name(char *name, size_t size, bool dashes)
{
    char text[sizeof((run_record *)0)->model];
    run_name(text, sizeof text, name, dashes);
    snprintf(name, size, "%.*s", (int)size - 1, text);
}

static status check_rates(const run_record *r, error *err)
{
    if (!(r->tok_s >= rate_min) || r->tok_s > rate_max)
        return error_set(err, ERR_INVALID, "tok_s: %g is not from %g to %g", r->tok_s, rate_min, rate_max);
    if (!(r->tok_s_low >= 0) || r->tok_s_low > r->tok_s)
        return error_set(err, ERR_INVALID, "tok_s_low: %g is not from 0 to tok_s, %g", r->tok_s_low, r->tok_s);
    if (!(r->tok_s_high >= 0) || (r->tok_s_high > 0 && r->tok_s_high < r->tok_s) || r->tok_s_high > rate_max)
        return error_set(err, ERR_INVALID, "tok_s_high: %g is not from tok_s, %g, to %g", r->tok_s_high, r->tok_s,
                         rate_max);
    double ceiling = run_ceiling(r);
    if (ceiling > 0 && r->tok_s > ceiling)
        return error_set(err, ERR_INVALID, "tok_s: %.6g is above %.6g, the most that %s can do with %s:%s", r->tok_s,
                         ceiling, r->hardware, r->model, r->type);
    return OK;
}

status run_record_check(run_record *r, uint64_t now_s, error *err)
{
    int64_t date;
    for (size_t i = 0; i < TEXT_FIELDS; i++) {
        const char *text = (const char *)r + text_fields[i].offset;
        if (text_fields[i].needed && !text[strspn(text, " ")])
            return error_set(err, ERR_INVALID, "%s: is empty", text_fields[i].name);
        if (has_controls(text))
            return error_set(err, ERR_INVALID, "%s: holds a control character", text_fields[i].name);
    }
    for (size_t i = 0; i < COUNT_FIELDS; i++) {
        const count_field *f = &count_fields[i];
        uint32_t value;
        memcpy(&value, (const char *)r + f->offset, sizeof value);
        if (value < f->least || value > f->most)
            return error_set(err, ERR_INVALID, "%s: %u is not from %u to %u", f->name, value, f->least, f->most);
    }
    if (strchr(r->model, ':'))
        return error_set(err, ERR_INVALID, "model: has a colon; the type is a field of its own");
    if (r->kind == RUN_PREFILL && r->prompt_tokens == 0)
        return error_set(err, ERR_INVALID, "prompt_tokens: 0 in a run of prefill");
    if (!read_date(r->date, &date))
        return error_set(err, ERR_INVALID, "date: '%s' is not like 2026-11-30 or 2026-11-30T21:04:05Z", r->date);
    if (now_s && date > (int64_t)now_s + DAY_S)
        return error_set(err, ERR_INVALID, "date: %s is in the future", r->date);
    tidy_name(r->hardware, sizeof r->hardware, true);
    tidy_name(r->model, sizeof r->model, true);
    tidy_name(r->type, sizeof r->type, false);
    run_table_names(r);
    return check_rates(r, err);
}

/* ---- reading ---- */

static status read_text(const json_t *line, const text_field *f, run_record *out, error *err)
{
    const json_t *value = json_object_get(line, f->name);
    if (!value || (json_is_null(value) && !f->needed))
        return f->needed ? error_set(err, ERR_INVALID, "%s: is missing", f->name) : OK;
    if (!json_is_string(value))
        return error_set(err, ERR_INVALID, "%s: is not a string", f->name);
    size_t size = json_string_length(value);
    if (size >= f->size)
        return error_set(err, ERR_INVALID, "%s: is longer than %zu bytes", f->name, f->size - 1);
    memcpy((char *)out + f->offset, json_string_value(value), size + 1);
    return OK;
}

static status read_count(const json_t *line, const count_field *f, run_record *out, error *err)
{
    const json_t *value = json_object_get(line, f->name);
    uint32_t number = f->fallback;
    if (!value && f->needed)
        return error_set(err, ERR_INVALID, "%s: is missing", f->name);
    if (value) {
        json_int_t n = json_integer_value(value);
        if (!json_is_integer(value) || n < f->least || n > f->most)
            return error_set(err, ERR_INVALID, "%s: is not a whole number from %u to %u", f->name, f->least, f->most);
        number = (uint32_t)n;
    }
    memcpy((char *)out + f->offset, &number, sizeof number);
    return OK;
}

static status read_rate(const json_t *line, const char *name, bool needed, double *out, error *err)
{
    const json_t *value = json_object_get(line, name);
    if (!value || (json_is_null(value) && !needed))
        return needed ? error_set(err, ERR_INVALID, "%s: is missing", name) : OK;
    if (!json_is_number(value))
        return error_set(err, ERR_INVALID, "%s: is not a number", name);
    *out = json_number_value(value);
    return OK;
}

/* Which of the names is it? `fallback` where the field may be missing, else -1. */
static status read_choice(const json_t *line, const char *field, const char *const *names, int count, int fallback,
                          int *out, error *err)
{
    const json_t *value = json_object_get(line, field);
    const char *text = json_string_value(value);
    *out = fallback;
    if (!value)
        return fallback < 0 ? error_set(err, ERR_INVALID, "%s: is missing", field) : OK;
    for (int i = 0; i < count && text; i++)
        if (strcmp(text, names[i]) == 0) {
            *out = i;
            return OK;
        }
    char list[128] = "";
    for (int i = 0; i < count; i++)
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i ? ", " : "", names[i]);
    return error_set(err, ERR_INVALID, "%s: is none of %s", field, list);
}

static status read_conditions(const json_t *line, run_record *out, error *err)
{
    static const char *const sources[] = {"unknown", "mains", "battery"}; /* by power_source */
    static const char *const kv[] = {"f16", "bf16"};
    const json_t *throttled = json_object_get(line, "throttled");
    int power, ignored;
    status st = read_choice(line, "power", sources, 3, POWER_UNKNOWN, &power, err);
    if (st || (st = read_choice(line, "kv", kv, 2, 0, &ignored, err))) /* others are another measurement */
        return st;
    out->power = (power_source)power;
    if (throttled && !json_is_boolean(throttled) && !json_is_null(throttled))
        return error_set(err, ERR_INVALID, "throttled: is not true, false or null");
    out->throttle_known = json_is_boolean(throttled);
    out->throttled = json_is_true(throttled);
    return OK;
}

static status read_fields(const json_t *line, run_record *out, error *err)
{
    static const char *const formats[] = {run_format};
    int kind, format;
    status st;
    if (!json_is_object(line))
        return error_set(err, ERR_INVALID, "is not an object");
    if ((st = read_choice(line, "format", formats, 1, -1, &format, err)) ||
        (st = read_choice(line, "kind", kinds, RUN_KINDS, -1, &kind, err)))
        return st;
    out->kind = (run_kind)kind;
    for (size_t i = 0; i < TEXT_FIELDS && !st; i++)
        st = read_text(line, &text_fields[i], out, err);
    for (size_t i = 0; i < COUNT_FIELDS && !st; i++)
        st = read_count(line, &count_fields[i], out, err);
    if (st || (st = read_rate(line, "tok_s", true, &out->tok_s, err)) ||
        (st = read_rate(line, "tok_s_low", false, &out->tok_s_low, err)) ||
        (st = read_rate(line, "tok_s_high", false, &out->tok_s_high, err)))
        return st;
    return read_conditions(line, out, err);
}

status run_record_read(run_record *out, span line, error *err)
{
    json_error_t why;
    memset(out, 0, sizeof *out);
    if (line.size > RUN_LINE_MAX)
        return error_set(err, ERR_INVALID, "is longer than %d bytes", RUN_LINE_MAX);
    json_t *json = json_loadb(line.data, line.size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &why);
    if (!json) { /* its text may quote the line, controls and all */
        char *quote = strstr(why.text, " near ");
        if (quote)
            *quote = 0;
        return error_set(err, ERR_INVALID, "is not JSON: %s, byte %d", why.text, why.position);
    }
    status st = read_fields(json, out, err);
    json_decref(json);
    return st ? st : run_record_check(out, 0, err);
}

/* ---- writing ---- */

static void write_text(buf *out, const char *name, const char *text)
{
    buf_printf(out, ", \"%s\": \"", name);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            buf_byte(out, '\\');
        buf_byte(out, *text);
    }
    buf_byte(out, '"');
}

void run_record_write(const run_record *r, buf *out)
{
    buf_printf(out, "{\"format\": \"%s\", \"kind\": \"%s\"", run_format, kinds[r->kind]);
    for (size_t i = 0; i < TEXT_FIELDS; i++) {
        const char *text = (const char *)r + text_fields[i].offset;
        if (text_fields[i].needed || text[0])
            write_text(out, text_fields[i].name, text);
    }
    for (size_t i = 0; i < COUNT_FIELDS; i++) {
        uint32_t value;
        memcpy(&value, (const char *)r + count_fields[i].offset, sizeof value);
        buf_printf(out, ", \"%s\": %u", count_fields[i].name, value);
    }
    buf_printf(out, ", \"tok_s\": %.6g", r->tok_s);
    if (r->tok_s_low > 0)
        buf_printf(out, ", \"tok_s_low\": %.6g", r->tok_s_low);
    if (r->tok_s_high > 0)
        buf_printf(out, ", \"tok_s_high\": %.6g", r->tok_s_high);
    buf_printf(out, ", \"power\": \"%s\", \"throttled\": %s}\n", power_source_name(r->power),
               !r->throttle_known ? "null"
               : r->throttled     ? "true"
                                  : "false");
}
