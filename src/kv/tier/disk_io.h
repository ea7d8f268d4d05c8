/* kv/tier/disk_io.h: what the disk tier asks of the operating system, as one table, so that tests can stand between:
 * short writes, a full disk, bad sectors, another time. Functions set errno and return as the system's do. Any thread.
 */
#ifndef HEADWAY_KV_TIER_DISK_IO_H
#define HEADWAY_KV_TIER_DISK_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct disk_io disk_io;
struct disk_io {
    int (*open)(disk_io *self, int dir, const char *name, int flags); /* links are not followed; mode 0600 */
    ssize_t (*pread)(disk_io *self, int fd, void *data, size_t size, off_t offset);
    ssize_t (*pwrite)(disk_io *self, int fd, const void *data, size_t size, off_t offset);
    int (*sync)(disk_io *self, int fd, bool names);                /* data; `names`: of a folder, the names in it */
    int (*punch)(disk_io *self, int fd, off_t offset, off_t size); /* gives the blocks back; reads as zeros then */
    int (*resize)(disk_io *self, int fd, off_t size);
    int (*rename)(disk_io *self, int dir, const char *from, const char *to);
    int (*remove)(disk_io *self, int dir, const char *name);
    uint64_t (*now_us)(disk_io *self); /* since 1970; never goes back while the process lives */
};

extern disk_io disk_io_system;

/* All of it or false, with errno: ENODATA for a file that ends too early. */
bool disk_io_read(disk_io *io, int fd, void *data, size_t size, uint64_t offset);
bool disk_io_write(disk_io *io, int fd, const void *data, size_t size, uint64_t offset);

/* The file will be read in pieces of the size asked for: no reading ahead, and none cut in two for its sake. */
void disk_io_pieces(int fd);
/* Another handle for the same file, whose reads go past the page cache; -1: there is no such thing here. Offsets, sizes
 * and addresses are multiples of a block then. */
int disk_io_direct(int dir, const char *name);
bool disk_io_cached(int fd, uint64_t offset, uint64_t size); /* most of it is in the page cache, or nobody knows */

#endif
