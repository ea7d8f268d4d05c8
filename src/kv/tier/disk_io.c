/* kv/tier/disk_io.c: the system's own calls. What only Linux has is here, with what stands in for it elsewhere. */
#ifdef __linux__
#define _GNU_SOURCE
#endif
#include "kv/tier/disk_io.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif
#include <unistd.h>

#include "base/clock.h"

static int system_open(disk_io *self, int dir, const char *name, int flags)
{
    (void)self;
    return openat(dir, name, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
}

static ssize_t system_pread(disk_io *self, int fd, void *data, size_t size, off_t offset)
{
    (void)self;
    return pread(fd, data, size, offset);
}

static ssize_t system_pwrite(disk_io *self, int fd, const void *data, size_t size, off_t offset)
{
    (void)self;
    return pwrite(fd, data, size, offset);
}

static int system_sync(disk_io *self, int fd, bool names)
{
    (void)self;
#ifdef __linux__
    if (!names)
        return fdatasync(fd);
#else
    (void)names;
#endif
    return fsync(fd);
}

static int system_punch(disk_io *self, int fd, off_t offset, off_t size)
{
    (void)self;
#ifdef FALLOC_FL_PUNCH_HOLE
    return fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, size);
#else
    (void)fd, (void)offset, (void)size;
    errno = ENOTSUP;
    return -1;
#endif
}

static int system_resize(disk_io *self, int fd, off_t size)
{
    (void)self;
    return ftruncate(fd, size);
}

static int system_rename(disk_io *self, int dir, const char *from, const char *to)
{
    (void)self;
    return renameat(dir, from, dir, to);
}

static int system_remove(disk_io *self, int dir, const char *name)
{
    (void)self;
    return unlinkat(dir, name, 0);
}

static uint64_t unix_offset_us; /* what to add to the monotonic clock */

static void read_unix_offset(void)
{
    unix_offset_us = clock_unix_seconds() * 1000000u - clock_now_us();
}

static uint64_t system_now_us(disk_io *self)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)self;
    pthread_once(&once, read_unix_offset);
    return unix_offset_us + clock_now_us();
}

disk_io disk_io_system = {
    .open = system_open,
    .pread = system_pread,
    .pwrite = system_pwrite,
    .sync = system_sync,
    .punch = system_punch,
    .resize = system_resize,
    .rename = system_rename,
    .remove = system_remove,
    .now_us = system_now_us,
};

bool disk_io_read(disk_io *io, int fd, void *data, size_t size, uint64_t offset)
{
    for (size_t done = 0; done < size;) {
        ssize_t got = io->pread(io, fd, (char *)data + done, size - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            errno = got == 0 ? ENODATA : errno;
            return false;
        }
        done += (size_t)got;
    }
    return true;
}

bool disk_io_write(disk_io *io, int fd, const void *data, size_t size, uint64_t offset)
{
    for (size_t done = 0; done < size;) {
        ssize_t put = io->pwrite(io, fd, (const char *)data + done, size - done, (off_t)(offset + done));
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0) {
            errno = put == 0 ? ENOSPC : errno;
            return false;
        }
        done += (size_t)put;
    }
    return true;
}

void disk_io_pieces(int fd)
{
#ifdef __linux__
    if (fd >= 0)
        posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
#else
    (void)fd;
#endif
}

int disk_io_direct(int dir, const char *name)
{
#ifdef O_DIRECT
    return openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_DIRECT);
#else
    (void)dir, (void)name;
    return -1;
#endif
}

/* cachestat came with Linux 6.5; the C library does not know it yet everywhere. */
bool disk_io_cached(int fd, uint64_t offset, uint64_t size)
{
#ifdef __linux__
    enum { CACHESTAT = 451 };
    struct {
        uint64_t offset, size;
    } range = {offset, size};
    struct {
        uint64_t cached, dirty, writeback, evicted, recently_evicted;
    } pages = {0};
    if (syscall(CACHESTAT, fd, &range, &pages, 0) == 0)
        return pages.cached * 2 * (uint64_t)sysconf(_SC_PAGESIZE) > size;
#else
    (void)fd, (void)offset, (void)size;
#endif
    return true;
}
