/* server/batch/disk.c: see disk.h. */
#include "server/batch/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 4096, PIECE = 1 << 18 };

static status fail(error *err, const char *path)
{
    return error_set(err, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, "%s: %s", path, strerror(errno));
}

status disk_make_folder(const char *path, error *err)
{
    struct stat what;
    if (mkdir(path, 0700) && errno != EEXIST)
        return fail(err, path);
    if (stat(path, &what))
        return fail(err, path);
    return S_ISDIR(what.st_mode) ? OK : error_set(err, ERR_IO, "%s: not a folder", path);
}

static bool write_all(int fd, uint64_t at, span text)
{
    for (size_t done = 0; done < text.size;) {
        ssize_t wrote = pwrite(fd, text.data + done, text.size - done, (off_t)(at + done));
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return false;
        done += (size_t)wrote;
    }
    return true;
}

/* A name that was made or replaced is there after a crash only when its folder is on the disk. */
static void sync_folder_of(const char *path)
{
    char folder[PATH_BYTES];
    const char *slash = strrchr(path, '/');
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    int fd = open(folder, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    (void)fsync(fd);
    close(fd);
}

status disk_replace(const char *path, span text, error *err)
{
    char next[PATH_BYTES];
    snprintf(next, sizeof next, "%s.tmp", path);
    int fd = open(next, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return fail(err, next);
    bool good = write_all(fd, 0, text) && fsync(fd) == 0;
    status st = good ? OK : fail(err, next);
    close(fd);
    if (st == OK && rename(next, path))
        st = fail(err, path);
    if (st)
        unlink(next);
    else
        sync_folder_of(path);
    return st;
}

status disk_read_at(int fd, uint64_t at, size_t size, buf *out, error *err)
{
    if (!buf_reserve(out, size))
        return error_set(err, ERR_MEMORY, "out of memory");
    while (size) {
        ssize_t got = pread(fd, out->data + out->size, size, (off_t)at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail(err, "reading");
        if (!got)
            break;
        out->size += (size_t)got;
        at += (uint64_t)got;
        size -= (size_t)got;
    }
    out->data[out->size] = 0;
    return OK;
}

status disk_read(const char *path, size_t max, buf *out, error *err)
{
    struct stat what;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return fail(err, path);
    status st = fstat(fd, &what) ? fail(err, path) : OK;
    if (st == OK && (uint64_t)what.st_size > max)
        st = error_set(err, ERR_LIMIT, "%s: more than %zu bytes", path, max);
    if (st == OK)
        st = disk_read_at(fd, 0, (size_t)what.st_size, out, err);
    close(fd);
    return st;
}

status disk_open_append(const char *path, int *fd, error *err)
{
    *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (*fd < 0)
        return fail(err, path);
    sync_folder_of(path);
    return OK;
}

status disk_append(int fd, uint64_t at, span text, error *err)
{
    if (ftruncate(fd, (off_t)at) || !write_all(fd, at, text))
        return fail(err, "writing");
#ifdef __APPLE__
    return fsync(fd) ? fail(err, "writing") : OK;
#else
    return fdatasync(fd) ? fail(err, "writing") : OK;
#endif
}
