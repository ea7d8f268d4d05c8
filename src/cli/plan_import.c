/* cli/plan_import.c: see the header. */
#include "cli/plan_import.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"

enum { READ_BYTES = 1 << 16 };

static status read_file(const char *path, buf *out, error *err)
{
    bool own = strcmp(path, "-") == 0;
    struct stat info;
    if (!own && stat(path, &info) == 0 && S_ISDIR(info.st_mode))
        return error_set(err, ERR_IO, "%s: is a folder", path);
    FILE *file = own ? stdin : fopen(path, "rb");
    if (!file)
        return error_set(err, ERR_IO, "%s: %s", path, strerror(errno));
    size_t got = 1;
    out->limit = IMPORT_BYTES_MAX + READ_BYTES;
    while (got > 0 && out->size <= IMPORT_BYTES_MAX && buf_reserve(out, READ_BYTES)) {
        got = fread(out->data + out->size, 1, READ_BYTES, file);
        out->size += got;
        out->data[out->size] = 0;
    }
    bool failed = ferror(file) != 0;
    if (!own)
        fclose(file);
    if (failed)
        return error_set(err, ERR_IO, "%s: cannot be read", path);
    return out->failed || out->size > IMPORT_BYTES_MAX
               ? error_set(err, ERR_LIMIT, "%s: more than %d bytes", path, IMPORT_BYTES_MAX)
               : OK;
}

static void say(const import_report *r, const char *path, buf *out)
{
    buf_printf(out, "%s: %u run%s taken", path, r->taken, r->taken == 1 ? "" : "s");
    if (r->doubles)
        buf_printf(out, ", %u there already", r->doubles);
    if (r->outliers)
        buf_printf(out, ", %u refused as outliers", r->outliers);
    if (r->refused)
        buf_printf(out, ", %u refused as wrong", r->refused);
    buf_byte(out, '\n');
    if (r->first_reason[0])
        buf_printf(out, "  %s%s\n", r->outliers + r->refused > 1 ? "the first: " : "", r->first_reason);
    if (r->taken + r->doubles + r->outliers + r->refused == 0)
        buf_text(out, "  it holds no lines\n");
}

status plan_import_file(const char *path, import_report *out, buf *said, error *err)
{
    buf text = {0};
    run_set set = {0};
    import_report report = {0};
    status st = read_file(path, &text, err);
    if (!st)
        st = run_store_open(&set, err);
    uint32_t old = set.count;
    if (!st)
        st = run_set_import(&set, buf_span(&text), clock_unix_seconds(), &report, err);
    if (!st && set.count > old)
        st = run_store_append(set.items + old, set.count - old, err);
    if (!st)
        say(&report, path, said);
    if (out)
        *out = report;
    run_set_free(&set);
    buf_free(&text);
    return st;
}

int plan_import(const char *path, bool json)
{
    error err = {0};
    buf said = {0};
    import_report r;
    if (plan_import_file(path, &r, &said, &err)) {
        fprintf(stderr, "headway plan: --import: %s\n", err.text);
        buf_free(&said);
        return 1;
    }
    json_t *object = json ? json_pack("{s:i, s:i, s:i, s:i, s:s?}", "taken", (int)r.taken, "doubles", (int)r.doubles,
                                      "refused", (int)r.refused, "outliers", (int)r.outliers, "first_reason",
                                      r.first_reason[0] ? r.first_reason : NULL)
                          : NULL;
    if (object) {
        json_dumpf(object, stdout, 0);
        putchar('\n');
    } else
        fputs(said.data ? said.data : "", stdout);
    json_decref(object);
    buf_free(&said);
    return r.taken + r.doubles ? 0 : 1;
}
