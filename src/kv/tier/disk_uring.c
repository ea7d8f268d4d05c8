/* kv/tier/disk_uring.c: the only file that knows liburing. */
#include "kv/tier/disk_uring.h"

#include <assert.h>
#include <stddef.h>

#ifdef HEADWAY_URING
#include <errno.h>
#include <liburing.h>
#include <stdlib.h>

struct disk_ring {
    struct io_uring ring;
};

disk_ring *disk_ring_open(uint32_t depth)
{
    disk_ring *r = calloc(1, sizeof *r);
    if (r && io_uring_queue_init(depth, &r->ring, 0) != 0) {
        free(r);
        return NULL;
    }
    return r;
}

void disk_ring_close(disk_ring *r)
{
    if (!r)
        return;
    io_uring_queue_exit(&r->ring);
    free(r);
}

void disk_ring_read(disk_ring *r, int fd, const struct iovec *parts, uint32_t count, uint64_t offset, uint32_t tag)
{
    struct io_uring_sqe *e = io_uring_get_sqe(&r->ring);
    assert(e);
    if (count == 1)
        io_uring_prep_read(e, fd, parts->iov_base, (unsigned)parts->iov_len, offset);
    else
        io_uring_prep_readv(e, fd, parts, count, offset);
    io_uring_sqe_set_data64(e, tag);
}

int64_t disk_ring_wait(disk_ring *r, uint32_t *tag)
{
    struct io_uring_cqe *c = NULL;
    /* The buffers belong to the kernel until it says otherwise: there is no way out of here without an answer. */
    while (io_uring_submit_and_wait(&r->ring, 1) < 0 || io_uring_peek_cqe(&r->ring, &c) != 0) {}
    *tag = (uint32_t)c->user_data;
    int64_t result = c->res;
    io_uring_cqe_seen(&r->ring, c);
    return result;
}

#else

disk_ring *disk_ring_open(uint32_t depth)
{
    (void)depth;
    return NULL;
}

void disk_ring_close(disk_ring *r)
{
    (void)r;
}

void disk_ring_read(disk_ring *r, int fd, const struct iovec *parts, uint32_t count, uint64_t offset, uint32_t tag)
{
    (void)r, (void)fd, (void)parts, (void)count, (void)offset, (void)tag;
    assert(!"without io_uring there is no ring");
}

int64_t disk_ring_wait(disk_ring *r, uint32_t *tag)
{
    (void)r, (void)tag;
    assert(!"without io_uring there is no ring");
    return 0;
}

#endif
