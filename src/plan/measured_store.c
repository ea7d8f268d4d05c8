/* plan/measured_store.c: the user's file of runs. Lines are appended under a lock of the file, in one write; a file
 * that has grown over the cap is written anew beside it and renamed into its place, so that a crash leaves the one or
 * the other. Whoever waited for the lock of a file that was renamed away opens again. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "plan/measured_private.h"

enum { PATH_SIZE = 4096, OPEN_TRIES = 100, STORE_BYTES_MAX = RUNS_MAX * RUN_LINE_MAX, KEEP = RUNS_MAX / 10 * 9 };

status run_store_path(char *out, size_t size, error *err)
{
    const char *named = getenv("HEADWAY_RUNS"), *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    int used;
    if (named && named[0])
        used = snprintf(out, size, "%s", named);
    else if (data && data[0] == '/')
        used = snprintf(out, size, "%s/headway/runs.jsonl", data);
    else if (home && home[0] == '/')
        used = snprintf(out, size, "%s/.local/share/headway/runs.jsonl", home);
    else
        return error_set(err, ERR_NOT_FOUND,
                         "no place for measured runs: HEADWAY_RUNS, XDG_DATA_HOME, HOME are not set");
    return used < 0 || (size_t)used >= size ? error_set(err, ERR_INVALID, "the path of measured runs is too long") : OK;
}

/* ---- reading ---- */

static status read_whole(int file, const char *path, buf *out, error *err)
{
    struct stat info;
    if (fstat(file, &info) == 0 && info.st_size > STORE_BYTES_MAX)
        return error_set(err, ERR_LIMIT, "%s: is larger than %d bytes", path, STORE_BYTES_MAX);
    out->limit = STORE_BYTES_MAX + 2;
    for (;;) {
        if (!buf_reserve(out, 65536))
            return error_set(err, out->size ? ERR_LIMIT : ERR_MEMORY, "%s: is too large", path);
        ssize_t got = pread(file, out->data + out->size, 65536, (off_t)out->size);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return error_set(err, ERR_IO, "%s: %s", path, strerror(errno));
        if (got == 0)
            return OK;
        out->size += (size_t)got;
        out->data[out->size] = 0;
    }
}

static int by_record(const void *a, const void *b)
{
    return run_compare(a, b);
}

static void drop_doubles(run_set *s)
{
    uint32_t kept = 0;
    if (s->count)
        qsort(s->items, s->count, sizeof *s->items, by_record);
    for (uint32_t i = 0; i < s->count; i++)
        if (kept == 0 || run_compare(&s->items[i], &s->items[kept - 1]))
            s->items[kept++] = s->items[i];
    s->count = kept;
}

/* The readable lines, each once; *damaged counts the others. */
static status read_lines(run_set *s, span text, const char *path, uint32_t *damaged, error *err)
{
    status st = OK;
    *damaged = 0;
    for (size_t at = 0; at < text.size && !st;) {
        const char *start = text.data + at, *end = memchr(start, '\n', text.size - at);
        span line = span_of(start, end ? (size_t)(end - start) : text.size - at);
        run_record record;
        error why;
        at += line.size + 1;
        if (line.size == 0)
            continue;
        if (run_record_read(&record, line, &why) == OK)
            st = run_set_add(s, &record);
        else if ((*damaged)++ == 0)
            log_warn("%s: a line is left out: %s", path, why.text);
    }
    if (*damaged > 1)
        log_warn("%s: %u lines are left out", path, *damaged);
    if (st)
        return error_set(err, st, "%s: %s", path, st == ERR_LIMIT ? "too many runs" : "out of memory");
    drop_doubles(s);
    return OK;
}

status run_store_open(run_set *out, error *err)
{
    char path[PATH_SIZE];
    run_set set = {0};
    buf text = {0};
    uint32_t damaged;
    status st = OK;
    for (size_t i = 0; known_runs[i] && !st; i++)
        buf_printf(&text, "%s\n", known_runs[i]);
    if (text.failed)
        st = error_set(err, ERR_MEMORY, "out of memory");
    if (!st)
        st = read_lines(&set, buf_span(&text), "known runs", &damaged, err);
    buf_clear(&text);
    int file = -1;
    if (!st && run_store_path(path, sizeof path, NULL) == OK) {
        file = open(path, O_RDONLY | O_CLOEXEC);
        if (file < 0 && errno != ENOENT && errno != ENOTDIR)
            st = error_set(err, ERR_IO, "%s: %s", path, strerror(errno));
    }
    if (file >= 0) {
        flock(file, LOCK_SH); /* a file system without locks: a line may be half there, and is left out */
        st = read_whole(file, path, &text, err);
        close(file);
        if (!st)
            st = read_lines(&set, buf_span(&text), path, &damaged, err);
    }
    buf_free(&text);
    if (st)
        run_set_free(&set);
    *out = set;
    return st;
}

/* ---- writing ---- */

static status make_folders(const char *path, error *err)
{
    char folder[PATH_SIZE];
    snprintf(folder, sizeof folder, "%s", path);
    for (char *slash = strchr(folder + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        if (mkdir(folder, 0777) != 0 && errno != EEXIST)
            return error_set(err, ERR_IO, "%s: %s", folder, strerror(errno));
        *slash = '/';
    }
    return OK;
}

/* The file that bears the name now, locked. */
static status open_locked(int *out, const char *path, error *err)
{
    for (int i = 0; i < OPEN_TRIES; i++) {
        struct stat mine, named;
        int file = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
        if (file < 0)
            return error_set(err, ERR_IO, "%s: %s", path, strerror(errno));
        while (flock(file, LOCK_EX) != 0 && errno == EINTR)
            ;
        if (fstat(file, &mine) == 0 && stat(path, &named) == 0 && mine.st_ino == named.st_ino &&
            mine.st_dev == named.st_dev) {
            *out = file;
            return OK;
        }
        close(file);
    }
    return error_set(err, ERR_IO, "%s: is replaced all the time", path);
}

static status write_whole(int file, span text, const char *path, error *err)
{
    for (size_t at = 0; at < text.size;) {
        ssize_t put = write(file, text.data + at, text.size - at);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return error_set(err, ERR_IO, "%s: %s", path, put < 0 ? strerror(errno) : "nothing was written");
        at += (size_t)put;
    }
    return fsync(file) != 0 && errno != EINVAL ? error_set(err, ERR_IO, "%s: %s", path, strerror(errno)) : OK;
}

static uint32_t count_lines(span text)
{
    uint32_t lines = 0;
    for (size_t i = 0; i < text.size; i++)
        lines += text.data[i] == '\n';
    return lines;
}

/* Writes the newest runs of each group to a file of its own, then renames it. The lock of the old file is held. */
static status compact(int old, const char *path, error *err)
{
    char fresh[PATH_SIZE + 8];
    run_set set = {0};
    buf text = {0};
    uint32_t damaged;
    status st = read_whole(old, path, &text, err);
    if (!st)
        st = read_lines(&set, buf_span(&text), path, &damaged, err);
    if (!st)
        st = run_set_trim(&set, KEEP, err);
    buf_clear(&text);
    for (uint32_t i = 0; i < set.count && !st; i++)
        run_record_write(&set.items[i], &text);
    if (!st && text.failed)
        st = error_set(err, ERR_MEMORY, "%s: out of memory", path);
    snprintf(fresh, sizeof fresh, "%s.new", path);
    if (!st) {
        int file = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        st = file < 0 ? error_set(err, ERR_IO, "%s: %s", fresh, strerror(errno))
                      : write_whole(file, buf_span(&text), fresh, err);
        if (file >= 0 && close(file) != 0 && !st)
            st = error_set(err, ERR_IO, "%s: %s", fresh, strerror(errno));
        if (!st && rename(fresh, path) != 0)
            st = error_set(err, ERR_IO, "%s: %s", path, strerror(errno));
        if (st)
            unlink(fresh);
    }
    run_set_free(&set);
    buf_free(&text);
    return st;
}

static status append(int file, const char *path, const run_record *records, uint32_t count, error *err)
{
    struct stat info;
    char last = '\n';
    buf text = {0};
    if (fstat(file, &info) == 0 && info.st_size > 0 && pread(file, &last, 1, info.st_size - 1) == 1 && last != '\n')
        buf_byte(&text, '\n'); /* a line that a crash cut is not to take ours with it */
    for (uint32_t i = 0; i < count; i++)
        run_record_write(&records[i], &text);
    status st =
        text.failed ? error_set(err, ERR_MEMORY, "out of memory") : write_whole(file, buf_span(&text), path, err);
    buf_clear(&text);
    /* A line has at least 100 bytes: the lines of a small file need no counting. */
    if (!st && fstat(file, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > RUNS_MAX * 100 &&
        !(st = read_whole(file, path, &text, err)) && count_lines(buf_span(&text)) > RUNS_MAX)
        st = compact(file, path, err);
    buf_free(&text);
    return st;
}

status run_store_append(const run_record *records, uint32_t count, error *err)
{
    char path[PATH_SIZE];
    int file = -1;
    status st = run_store_path(path, sizeof path, err);
    if (st || (st = make_folders(path, err)) || (st = open_locked(&file, path, err)))
        return st;
    st = append(file, path, records, count, err);
    close(file); /* and the lock with it */
    return st;
}
