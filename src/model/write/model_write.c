/* model/write/model_write.c: names, room on the disk, headers, and the rename at the end. */
#include "model/write/model_write.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

typedef struct {
    buf part;   /* "PATH.part" */
    buf header; /* of the file in work */
    int *files;
    uint64_t *starts;
    uint32_t opened;
} output;

static status no_memory(error *err, const char *path)
{
    return error_set(err, ERR_MEMORY, "%s: out of memory", path);
}

/* `path` without slashes at its end, a tail added. */
static void put_part_name(buf *out, const char *path)
{
    size_t size = strlen(path);
    while (size > 1 && path[size - 1] == '/')
        size--;
    buf_append(out, path, size);
    buf_text(out, ".part");
}

static status check_free(const char *path, error *err)
{
    struct stat found;
    if (!*path)
        return error_set(err, ERR_INVALID, "the name of the output is empty");
    if (lstat(path, &found) == 0)
        return error_set(err, ERR_INVALID, "%s: exists already; remove it or give another name", path);
    return OK;
}

static status check_room(const char *path, uint64_t want, error *err)
{
    char folder[4096];
    struct statvfs disk;
    const char *end = path + strlen(path);
    while (end > path + 1 && end[-1] == '/')
        end--;
    while (end > path && end[-1] != '/')
        end--;
    if (end == path)
        snprintf(folder, sizeof folder, ".");
    else
        snprintf(folder, sizeof folder, "%.*s", (int)(end - path), path);
    if (statvfs(folder, &disk))
        return error_set(err, ERR_IO, "%s: %s", folder, strerror(errno));
    uint64_t room = (uint64_t)disk.f_bavail * disk.f_frsize;
    if (room < want)
        return error_set(err, ERR_LIMIT, "%s: needs %.2f GB, its disk has %.2f GB free", path, (double)want / 1e9,
                         (double)room / 1e9);
    return OK;
}

static status write_all(int file, const char *path, const void *data, size_t size, error *err)
{
    const char *at = data;
    while (size > 0) {
        ssize_t put = write(file, at, size);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return error_set(err, ERR_IO, "%s: cannot be written: %s", path, strerror(put < 0 ? errno : ENOSPC));
        at += put;
        size -= (size_t)put;
    }
    return OK;
}

static status open_output(output *o, uint32_t count, const char *path, error *err)
{
    put_part_name(&o->part, path);
    o->files = calloc(count, sizeof *o->files);
    o->starts = calloc(count, sizeof *o->starts);
    return o->files && o->starts && !o->part.failed ? OK : no_memory(err, path);
}

/* Opens file `path` as the next one and writes o->header. */
static status start_file(output *o, const char *path, uint64_t data_bytes, error *err)
{
    if (o->header.failed)
        return no_memory(err, path);
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (file < 0)
        return error_set(err, ERR_IO, "%s: cannot be made: %s", path, strerror(errno));
    o->files[o->opened] = file;
    o->starts[o->opened++] = o->header.size;
    status st = write_all(file, path, o->header.data, o->header.size, err);
    if (!st && ftruncate(file, (off_t)(o->header.size + data_bytes)))
        st = error_set(err, ERR_IO, "%s: cannot be written: %s", path, strerror(errno));
    return st;
}

static status close_files(output *o, status st, error *err)
{
    for (uint32_t i = 0; i < o->opened; i++)
        if (close(o->files[i]) && !st)
            st = error_set(err, ERR_IO, "%s: cannot be written: %s", o->part.data, strerror(errno));
    o->opened = 0;
    return st;
}

static void free_output(output *o)
{
    buf_free(&o->part);
    buf_free(&o->header);
    free(o->files);
    free(o->starts);
}

static status give_name(const output *o, const char *path, error *err)
{
    if (rename(o->part.data, path))
        return error_set(err, ERR_IO, "%s: cannot be renamed to %s: %s", o->part.data, path, strerror(errno));
    return OK;
}

static status make_gguf(output *o, const model_plan *plan, const gguf_keys *keys, const char *path,
                        const write_options *options, error *err)
{
    gguf_header(plan, keys, &o->header);
    status st = open_output(o, 1, path, err);
    if (st || (st = check_room(path, o->header.size + plan->bytes, err)))
        return st;
    if ((st = start_file(o, o->part.data, plan->bytes, err)) == OK)
        st = model_write_weights(plan, o->files, o->starts, options, err);
    st = close_files(o, st, err);
    if (!st)
        st = give_name(o, path, err);
    if (st)
        unlink(o->part.data);
    return st;
}

status model_write_gguf(const model_plan *plan, const gguf_keys *keys, const char *path, const write_options *options,
                        error *err)
{
    output o = {0};
    status st = check_free(path, err);
    if (!st)
        st = make_gguf(&o, plan, keys, path, options, err);
    free_output(&o);
    return st;
}

/* --- directories --- */

static bool is_ours(const char *name)
{
    const char *end = strrchr(name, '.');
    return end && end > name && (!strcmp(end, ".safetensors") || !strcmp(end, ".json") || !strcmp(end, ".jinja"));
}

/* The folder "PATH.part" of an attempt that failed, or of one that was killed. */
static void remove_folder(const char *path)
{
    DIR *folder = opendir(path);
    if (!folder)
        return;
    for (struct dirent *entry; (entry = readdir(folder));)
        if (is_ours(entry->d_name))
            unlinkat(dirfd(folder), entry->d_name, 0);
    closedir(folder);
    rmdir(path);
}

static status write_small(const output *o, const char *name, span bytes, error *err)
{
    buf path = {0};
    buf_printf(&path, "%s/%s", o->part.data, name);
    if (path.failed)
        return no_memory(err, name);
    int file = open(path.data, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    status st = file < 0 ? error_set(err, ERR_IO, "%s: cannot be made: %s", path.data, strerror(errno))
                         : write_all(file, path.data, bytes.data ? bytes.data : "", bytes.size, err);
    if (file >= 0 && close(file) && !st)
        st = error_set(err, ERR_IO, "%s: cannot be written: %s", path.data, strerror(errno));
    buf_free(&path);
    return st;
}

static status start_shards(output *o, const model_plan *plan, error *err)
{
    status st = OK;
    for (uint32_t f = 0; f < plan->file_count && !st; f++) {
        char name[64];
        buf path = {0};
        safetensors_file_name(plan, f, name);
        buf_printf(&path, "%s/%s", o->part.data, name);
        buf_clear(&o->header);
        safetensors_header(plan, f, &o->header);
        st = path.failed ? no_memory(err, name) : start_file(o, path.data, plan->file_bytes[f], err);
        buf_free(&path);
    }
    return st;
}

static status write_extras(output *o, const model_plan *plan, const write_file *files, size_t count, error *err)
{
    status st = OK;
    if (plan->file_count > 1) {
        buf_clear(&o->header);
        safetensors_index(plan, &o->header);
        st = o->header.failed ? no_memory(err, "the index")
                              : write_small(o, "model.safetensors.index.json", buf_span(&o->header), err);
    }
    for (size_t i = 0; i < count && !st; i++)
        st = write_small(o, files[i].name, files[i].bytes, err);
    return st;
}

static status make_directory(output *o, const model_plan *plan, const write_file *files, size_t file_count,
                             const char *path, const write_options *options, error *err)
{
    status st = open_output(o, plan->file_count, path, err);
    uint64_t small = 0;
    for (size_t i = 0; i < file_count; i++)
        small += files[i].bytes.size;
    if (st || (st = check_room(path, plan->bytes + plan->names.size * 3 + small, err)))
        return st;
    remove_folder(o->part.data);
    if (mkdir(o->part.data, 0755))
        return error_set(err, ERR_IO, "%s: cannot be made: %s", o->part.data, strerror(errno));
    if ((st = write_extras(o, plan, files, file_count, err)) == OK && (st = start_shards(o, plan, err)) == OK)
        st = model_write_weights(plan, o->files, o->starts, options, err);
    st = close_files(o, st, err);
    if (!st)
        st = give_name(o, path, err);
    if (st)
        remove_folder(o->part.data);
    return st;
}

status model_write_directory(const model_plan *plan, const write_file *files, size_t file_count, const char *path,
                             const write_options *options, error *err)
{
    output o = {0};
    status st = check_free(path, err);
    if (!st)
        st = make_directory(&o, plan, files, file_count, path, options, err);
    free_output(&o);
    return st;
}
