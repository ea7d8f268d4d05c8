/* model/file/file_map.c: POSIX mmap, Linux and macOS. */
#if defined(__APPLE__) && !defined(_DARWIN_C_SOURCE)
#define _DARWIN_C_SOURCE /* madvise */
#endif
#include "model/file/file_map.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static status map_descriptor(file_map *out, int fd, const char *path, size_t size_min, error *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return error_set(err, ERR_IO, "%s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return error_set(err, ERR_INVALID, "%s: is a %s, expected a model file", path,
                         S_ISDIR(st.st_mode) ? "directory" : "special file");
    if (st.st_size < 0 || (uint64_t)st.st_size < size_min)
        return error_set(err, ERR_INVALID, "%s: is %lld bytes long, expected at least the %zu of a header", path,
                         (long long)st.st_size, size_min);
    if ((uint64_t)st.st_size > SIZE_MAX / 2)
        return error_set(err, ERR_LIMIT, "%s: is %lld bytes long, too large to map", path, (long long)st.st_size);
    void *data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED)
        return error_set(err, ERR_IO, "%s: cannot be mapped: %s", path, strerror(errno));
    *out = (file_map){data, (size_t)st.st_size, fd};
    return OK;
}

status file_map_open(file_map *out, const char *path, size_t size_min, error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not block us before it is refused */
    if (fd < 0)
        return error_set(err, ERR_IO, "%s: cannot be opened: %s", path, strerror(errno));
    status code = map_descriptor(out, fd, path, size_min, err);
    if (code)
        close(fd);
    return code;
}

void file_map_close(file_map *map)
{
    if (map->data) {
        munmap((void *)(uintptr_t)map->data, map->size);
        close(map->fd);
    }
    *map = (file_map){0};
}

/* The whole pages inside; false: there are none. */
static bool whole_pages(const void *data, size_t size, uintptr_t *start, size_t *bytes)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), end = ((uintptr_t)data + size) / page * page;
    *start = ((uintptr_t)data + page - 1) / page * page;
    *bytes = end > *start ? end - *start : 0;
    return *bytes > 0;
}

bool file_map_holds(const file_map *map, const void *data)
{
    const uint8_t *at = data, *start = map->data;
    return start && at >= start && at < start + map->size;
}

void file_map_release(const file_map *map, const void *data, size_t size, bool forget)
{
    uintptr_t start;
    size_t bytes;
    if (!whole_pages(data, size, &start, &bytes))
        return;
    madvise((void *)start, bytes, MADV_DONTNEED); /* posix_madvise's DONTNEED does nothing in glibc */
#ifdef POSIX_FADV_DONTNEED
    if (forget)
        posix_fadvise(map->fd, (off_t)(start - (uintptr_t)map->data), (off_t)bytes, POSIX_FADV_DONTNEED);
#else
    (void)map, (void)forget;
#endif
}

void file_map_expect(const void *data, size_t size)
{
    uintptr_t start;
    size_t bytes;
    if (whole_pages(data, size, &start, &bytes))
        madvise((void *)start, bytes, MADV_WILLNEED);
}
