/* kv/tier/disk_uring.h: many reads in flight at once, by io_uring. In a build without it, and under a kernel that
 * refuses it, disk_ring_open answers NULL and the caller reads by threads. A ring belongs to one thread at a time. */
#ifndef HEADWAY_KV_TIER_DISK_URING_H
#define HEADWAY_KV_TIER_DISK_URING_H

#include <stdint.h>
#include <sys/uio.h>

typedef struct disk_ring disk_ring;

disk_ring *disk_ring_open(uint32_t depth);
void disk_ring_close(disk_ring *r); /* nothing is in flight; NULL allowed */
/* Queues a read; at most `depth` may be between here and disk_ring_wait. `parts` and what it names stay until then. */
void disk_ring_read(disk_ring *r, int fd, const struct iovec *parts, uint32_t count, uint64_t offset, uint32_t tag);
/* Hands over what is queued and waits for one. The bytes read, or -errno. */
int64_t disk_ring_wait(disk_ring *r, uint32_t *tag);

#endif
