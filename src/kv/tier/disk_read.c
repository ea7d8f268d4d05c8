/* kv/tier/disk_read.c: many pages from the disk into place. The reads are numbered by part, then by page: that is the
 * order in which they start. Lanes take them one after the other: threads with a ring of io_uring each, so that many
 * reads are in flight, or, without one, more threads with one read each. A lane checks what it read, so that hashing
 * goes on beside reading. The header is read with the first part; a later part that comes before its header waits for
 * it with its checksum. Records that the page cache has are copied from there; others are read past it: that leaves the
 * processor to the engine, and what is restored lies in memory once, not twice. */
#include "kv/tier/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    disk_segment *segment;
    int fd;               /* -1: could not be opened */
    int direct;           /* -1: read through the page cache */
    uint32_t slot, asked; /* its number in the caller's list */
    bool failed, header, damaged;
    uint32_t read, landed;                             /* bits, by part */
    uint64_t is[PAGE_PARTS_MAX], want[PAGE_PARTS_MAX]; /* checksums */
} read_page;

typedef struct {
    disk_segment *segment;
    int fd, direct;
} read_file;

typedef struct {
    disk_tier *t;
    const tier_page *asked;
    read_page *pages;
    uint32_t page_count;
    read_file *files;
    uint32_t file_count;
    tier_landed landed;
    void *context;
    const _Atomic bool *stop;
    _Atomic uint32_t next;
    pthread_mutex_t lock; /* over `pages` and calls of `landed` */
} read_job;

typedef struct { /* one read in flight */
    uint32_t number;
    int fd;
    uint64_t offset;
    uint8_t *place;     /* where the part is wanted; NULL: the mover takes it */
    struct iovec to[2]; /* the header and the part; the header is read with part 0 only */
    disk_header *header;
    uint8_t *own; /* a buffer for a part, made when it is needed */
} read_slot;

typedef struct {
    read_job *job;
    disk_ring *ring;
    read_slot *slots;
    disk_header *headers; /* one for each slot */
    uint32_t depth;
    pthread_t thread;
} read_lane;

/* ---- what to read -------------------------------------------------------------------------------------------- */

static read_file *open_file(read_job *j, disk_segment *s)
{
    for (uint32_t i = j->file_count; i-- > 0;)
        if (j->files[i].segment == s)
            return &j->files[i];
    disk_name n = disk_segment_name(s->number);
    read_file *f = &j->files[j->file_count++];
    *f = (read_file){s, j->t->io->open(j->t->io, j->t->dir, n.name, O_RDONLY), -1};
    disk_io_pieces(f->fd);
    if (f->fd >= 0)
        f->direct = disk_io_direct(j->t->dir, n.name);
    return f;
}

static void miss(read_job *j, uint32_t asked)
{
    pthread_mutex_lock(&j->t->index);
    j->t->counts.misses++;
    pthread_mutex_unlock(&j->t->index);
    j->landed(j->context, asked, 0, ERR_NOT_FOUND);
}

/* Pages that the index knows, each with a reader's share of its segment. */
static void find_pages(read_job *j, uint32_t count)
{
    disk_tier *t = j->t;
    uint64_t now_us = t->io->now_us(t->io);
    for (uint32_t i = 0; i < count; i++) {
        const tier_page *p = &j->asked[i];
        uint64_t tokens = p->token_count <= DISK_TOKENS_MAX ? disk_tokens_hash(p->tokens, p->token_count) : 0;
        read_page found = {.asked = i};
        pthread_mutex_lock(&t->index);
        disk_entry *e = disk_index_find(t, p->key);
        if (e && e->token_count == p->token_count && e->tokens_hash == tokens) {
            found.segment = e->segment;
            found.slot = e->slot;
            e->segment->readers++;
            disk_index_use(t, e, now_us);
        }
        t->counts.gets++;
        pthread_mutex_unlock(&t->index);
        if (!found.segment) {
            miss(j, i);
            continue;
        }
        const read_file *f = open_file(j, found.segment);
        uint64_t record = t->shape.record_bytes;
        found.fd = f->fd;
        found.direct = f->direct < 0 || disk_io_cached(f->fd, found.slot * record, record) ? -1 : f->direct;
        j->pages[j->page_count++] = found;
    }
}

static void release_pages(read_job *j)
{
    disk_tier *t = j->t;
    pthread_mutex_lock(&t->index);
    for (uint32_t i = 0; i < j->page_count; i++)
        j->pages[i].segment->readers--;
    pthread_cond_broadcast(&t->unread);
    pthread_mutex_unlock(&t->index);
    for (uint32_t i = 0; i < j->file_count; i++) {
        if (j->files[i].fd >= 0)
            close(j->files[i].fd);
        if (j->files[i].direct >= 0)
            close(j->files[i].direct);
    }
}

/* ---- what came ----------------------------------------------------------------------------------------------- */

/* A record that cannot be read is forgotten, so that it is stored again when it was computed again. One that was
 * forgotten or moved while it was read is a miss like any other. */
static void forget_damaged(read_job *j, const read_page *p)
{
    disk_tier *t = j->t;
    pthread_mutex_lock(&t->index);
    disk_entry *e = disk_index_find(t, j->asked[p->asked].key);
    if (e && e->segment == p->segment && e->slot == p->slot) {
        disk_index_remove(t, e);
        t->counts.damaged++;
        t->reads_damaged = true;
    }
    pthread_mutex_unlock(&t->index);
}

static void fail_page(read_job *j, read_page *p, bool damaged)
{
    pthread_mutex_lock(&j->lock);
    if (!p->failed) {
        p->failed = true;
        if (damaged)
            forget_damaged(j, p);
        miss(j, p->asked);
    }
    pthread_mutex_unlock(&j->lock);
}

/* Says which parts of the page are in place. False: one of them is not what the header says. */
static bool land_parts(read_job *j, read_page *p)
{
    if (!p->header || p->failed)
        return true;
    uint32_t fresh = p->read & ~p->landed;
    for (uint32_t part = 0; part < j->t->shape.parts; part++) {
        if (!(fresh >> part & 1))
            continue;
        if (p->is[part] != p->want[part])
            return false;
        p->landed |= 1u << part;
        j->landed(j->context, p->asked, part, OK);
    }
    if (fresh && p->landed == (1u << j->t->shape.parts) - 1) {
        pthread_mutex_lock(&j->t->index);
        j->t->counts.get_bytes += j->t->shape.record_bytes;
        pthread_mutex_unlock(&j->t->index);
    }
    return true;
}

static uint32_t part_of(const read_job *j, const read_slot *s)
{
    return s->number / j->page_count;
}

static read_page *page_of(const read_job *j, const read_slot *s)
{
    return &j->pages[s->number % j->page_count];
}

static size_t slot_bytes(const read_job *j, const read_slot *s)
{
    return s->to[1].iov_len + (part_of(j, s) == 0 ? s->to[0].iov_len : 0);
}

/* One piece after the other, by this thread. Returns what the ring would. */
static int64_t read_here(const read_job *j, const read_slot *s, int fd)
{
    bool with_header = part_of(j, s) == 0;
    uint64_t offset = s->offset;
    if (with_header && !disk_io_read(j->t->io, fd, s->header, DISK_BLOCK, offset))
        return -1;
    offset += with_header ? DISK_BLOCK : 0;
    if (!disk_io_read(j->t->io, fd, s->to[1].iov_base, s->to[1].iov_len, offset))
        return -1;
    return (int64_t)slot_bytes(j, s);
}

static void finish(read_job *j, read_slot *s, int64_t result)
{
    disk_tier *t = j->t;
    uint32_t part = part_of(j, s);
    read_page *p = page_of(j, s);
    const tier_page *asked = &j->asked[p->asked];
    /* Cut short, or not to be had so: once more, through the page cache. */
    if (result != (int64_t)slot_bytes(j, s) && read_here(j, s, p->fd) < 0) {
        pthread_mutex_lock(&t->index);
        t->counts.errors++;
        pthread_mutex_unlock(&t->index);
        fail_page(j, p, true);
        return;
    }
    uint64_t check = disk_part_check(s->to[1].iov_base, t->shape.part_bytes);
    bool good = part != 0 || (disk_header_whole(s->header, &t->shape) && disk_header_is(s->header, asked));
    if (good && !s->place)
        t->mover->ops->write(t->mover, asked->page, part, s->own);
    else if (good && s->to[1].iov_base != s->place)
        memcpy(s->place, s->own, t->shape.part_bytes);
    pthread_mutex_lock(&j->lock);
    if (good && part == 0) {
        memcpy(p->want, s->header->part_check, sizeof p->want);
        p->header = true;
    }
    p->is[part] = check;
    p->read |= 1u << part;
    good = good && land_parts(j, p);
    pthread_mutex_unlock(&j->lock);
    if (!good)
        fail_page(j, p, true);
}

/* ---- lanes --------------------------------------------------------------------------------------------------- */

/* Where to read from and to: into place, where that is possible. False: no memory. */
static bool aim(read_job *j, read_slot *s)
{
    page_mover *m = j->t->mover;
    const disk_shape *shape = &j->t->shape;
    const read_page *p = page_of(j, s);
    uint32_t part = part_of(j, s);
    s->place = m->ops->at(m, j->asked[p->asked].page, part);
    bool blocks = (uintptr_t)s->place % 512 == 0 && shape->part_bytes == shape->part_stride;
    if ((!s->place || (p->direct >= 0 && !blocks)) && !s->own)
        s->own = aligned_alloc(DISK_BLOCK, shape->part_stride);
    bool through_own = s->own && (!s->place || (p->direct >= 0 && !blocks));
    if (!s->place && !through_own)
        return false;
    s->fd = p->direct >= 0 && (blocks || through_own) ? p->direct : p->fd;
    s->to[0] = (struct iovec){s->header, DISK_BLOCK};
    s->to[1] = (struct iovec){through_own ? s->own : s->place, through_own ? shape->part_stride : shape->part_bytes};
    s->offset = p->slot * (uint64_t)shape->record_bytes + (part ? DISK_BLOCK + part * shape->part_stride : 0);
    return true;
}

/* The next read that is worth it, or false. */
static bool take(read_job *j, read_slot *s)
{
    uint32_t total = j->page_count * j->t->shape.parts;
    for (;;) {
        if (j->stop && atomic_load_explicit(j->stop, memory_order_relaxed))
            return false;
        s->number = atomic_fetch_add_explicit(&j->next, 1, memory_order_relaxed);
        if (s->number >= total)
            return false;
        read_page *p = page_of(j, s);
        pthread_mutex_lock(&j->lock);
        bool failed = p->failed;
        pthread_mutex_unlock(&j->lock);
        if (failed)
            continue;
        if (p->fd >= 0 && aim(j, s))
            return true;
        fail_page(j, p, false); /* no handle, no memory: the record may be fine */
    }
}

static void start(read_lane *l, uint32_t tag)
{
    const read_slot *s = &l->slots[tag];
    bool with_header = part_of(l->job, s) == 0;
    disk_ring_read(l->ring, s->fd, s->to + !with_header, 1 + with_header, s->offset, tag);
}

static void run_ring(read_lane *l)
{
    uint32_t in_flight = 0;
    for (uint32_t i = 0; i < l->depth && take(l->job, &l->slots[i]); i++, in_flight++)
        start(l, i);
    while (in_flight) {
        uint32_t tag;
        int64_t result = disk_ring_wait(l->ring, &tag);
        finish(l->job, &l->slots[tag], result);
        if (take(l->job, &l->slots[tag]))
            start(l, tag);
        else
            in_flight--;
    }
}

static void *run_lane(void *lane)
{
    read_lane *l = lane;
    if (l->ring)
        run_ring(l);
    else
        while (take(l->job, l->slots))
            finish(l->job, l->slots, read_here(l->job, l->slots, l->slots->fd));
    return NULL;
}

static void lane_close(read_lane *l)
{
    for (uint32_t i = 0; l->slots && i < l->depth; i++)
        free(l->slots[i].own);
    free(l->slots);
    free(l->headers);
}

static bool lane_open(read_lane *l, read_job *j, uint32_t number)
{
    *l = (read_lane){.job = j, .ring = number < j->t->ring_count ? j->t->rings[number] : NULL};
    l->depth = l->ring ? DISK_RING_DEPTH : 1;
    l->slots = calloc(l->depth, sizeof *l->slots);
    l->headers = aligned_alloc(DISK_BLOCK, l->depth * sizeof *l->headers);
    if (!l->slots || !l->headers) {
        lane_close(l);
        return false;
    }
    for (uint32_t i = 0; i < l->depth; i++)
        l->slots[i].header = &l->headers[i];
    return true;
}

/* The calling thread is the first lane; those that cannot be had are done without. */
static void run_lanes(read_job *j)
{
    read_lane lanes[DISK_LANES_MAX];
    uint32_t wanted = j->t->ring_count ? j->t->ring_count : DISK_LANES_MAX / 2, opened = 0, threads = 0;
    uint32_t reads = j->page_count * j->t->shape.parts;
    for (uint32_t i = 0; !j->t->ring_count && i < j->page_count; i++)
        if (j->pages[i].direct >= 0)
            wanted = DISK_LANES_MAX; /* they wait for the disk; copies from the page cache would only get in each
                                        other's way, and a part that comes late holds up those behind it */
    for (uint32_t i = 0; i < wanted && (i == 0 || i * 4 < reads); i++) {
        if (!lane_open(&lanes[i], j, i))
            break;
        opened++;
        if (i > 0 && pthread_create(&lanes[i].thread, NULL, run_lane, &lanes[i]) != 0)
            break;
        threads += i > 0;
    }
    if (opened)
        run_lane(&lanes[0]);
    for (uint32_t i = 1; i <= threads; i++)
        pthread_join(lanes[i].thread, NULL);
    for (uint32_t i = 0; i < opened; i++)
        lane_close(&lanes[i]);
    for (uint32_t i = 0; !opened && i < j->page_count; i++)
        fail_page(j, &j->pages[i], false);
}

void disk_read_pages(disk_tier *t, const tier_page *pages, uint32_t count, tier_landed landed, void *context,
                     const _Atomic bool *stop)
{
    read_job j = {.t = t, .asked = pages, .landed = landed, .context = context, .stop = stop};
    pthread_mutex_lock(&t->reading);
    j.pages = malloc((count + 1) * sizeof *j.pages);
    j.files = malloc((count + 1) * sizeof *j.files);
    pthread_mutex_init(&j.lock, NULL);
    if (j.pages && j.files)
        find_pages(&j, count);
    else
        for (uint32_t i = 0; i < count; i++)
            miss(&j, i);
    if (j.page_count)
        run_lanes(&j);
    release_pages(&j);
    pthread_mutex_destroy(&j.lock);
    free(j.files);
    free(j.pages);
    pthread_mutex_unlock(&t->reading);
}
