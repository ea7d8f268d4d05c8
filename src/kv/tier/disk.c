/* kv/tier/disk.c: the table of the disk tier, its opening and its close, and the thread that commits once a second. */
#include "kv/tier/disk.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

enum { COMMIT_US = 1000000 };

static disk_tier *of(tier *base)
{
    return (disk_tier *)base;
}

static void disk_has(tier *base, const prefix_key *keys, uint32_t count, bool *out)
{
    disk_tier *t = of(base);
    pthread_mutex_lock(&t->index);
    for (uint32_t i = 0; i < count; i++)
        out[i] = disk_index_find(t, keys[i]) != NULL;
    pthread_mutex_unlock(&t->index);
}

/* It is there already, so it was used. Another record under the same key makes way. */
static bool is_there(disk_tier *t, const tier_page *page, uint64_t now_us)
{
    pthread_mutex_lock(&t->index);
    disk_entry *e = disk_index_find(t, page->key);
    bool same =
        e && e->token_count == page->token_count && e->tokens_hash == disk_tokens_hash(page->tokens, page->token_count);
    if (same)
        disk_index_use(t, e, now_us);
    else if (e)
        disk_index_remove(t, e);
    pthread_mutex_unlock(&t->index);
    return same;
}

static void disk_put(tier *base, const tier_page *pages, uint32_t count)
{
    disk_tier *t = of(base);
    for (uint32_t i = 0; i < count; i++) {
        pthread_mutex_lock(&t->writing); /* for each: others may come between */
        uint64_t now_us = t->io->now_us(t->io);
        bool stored = pages[i].token_count <= DISK_TOKENS_MAX &&
                      (is_there(t, &pages[i], now_us) || (now_us >= t->retry_us && disk_store_put(t, &pages[i])));
        if (!stored) {
            pthread_mutex_lock(&t->index);
            t->counts.dropped++;
            pthread_mutex_unlock(&t->index);
        }
        if (now_us - t->committed_us >= COMMIT_US && now_us >= t->retry_us)
            disk_commit(t);
        pthread_mutex_unlock(&t->writing);
    }
}

static void disk_get(tier *base, const tier_page *pages, uint32_t count, tier_landed landed, void *context,
                     const _Atomic bool *stop)
{
    disk_read_pages(of(base), pages, count, landed, context, stop);
}

static void disk_touch(tier *base, const prefix_key *keys, uint32_t count)
{
    disk_tier *t = of(base);
    uint64_t now_us = t->io->now_us(t->io);
    pthread_mutex_lock(&t->index);
    for (uint32_t i = 0; i < count; i++) {
        disk_entry *e = disk_index_find(t, keys[i]);
        if (e)
            disk_index_use(t, e, now_us);
    }
    pthread_mutex_unlock(&t->index);
}

typedef struct {
    bool by_age;
    uint64_t space, before_us;
} forget_rule;

static uint32_t forget(disk_tier *t, forget_rule rule)
{
    uint32_t count = 0;
    pthread_mutex_lock(&t->index);
    for (uint32_t i = 0; i < t->entry_count; i++) {
        disk_entry *e = &t->entries[i];
        if (e->live && (rule.by_age ? e->used_us < rule.before_us : !rule.space || e->space == rule.space)) {
            disk_index_remove(t, e);
            count++;
        }
    }
    pthread_mutex_unlock(&t->index);
    return count;
}

/* Off the medium: the records, what the log says of them, and whole files where nothing else is in them. */
static bool erase(disk_tier *t)
{
    bool wiped = disk_store_wipe(t, true);
    pthread_mutex_lock(&t->index);
    t->reads_damaged = false;
    pthread_mutex_unlock(&t->index);
    for (uint32_t i = 0; i < t->segment_count; i++) /* the log may speak only of what is safe */
        if (t->segments[i]->synced < t->segments[i]->used)
            disk_segment_sync(t, t->segments[i]);
    bool logged = disk_log_rewrite(t, true);
    return disk_store_remove_empty(t) && wiped && logged;
}

static status disk_drop(tier *base, uint64_t space, error *err)
{
    disk_tier *t = of(base);
    pthread_mutex_lock(&t->writing);
    uint32_t count = forget(t, (forget_rule){.space = space});
    bool fine = erase(t);
    status st = OK;
    if (!fine) {
        pthread_mutex_lock(&t->index);
        st = error_set(err, ERR_IO, "%s: %u records are forgotten, but not all could be erased: %s", t->path, count,
                       t->counts.state);
        pthread_mutex_unlock(&t->index);
    }
    pthread_mutex_unlock(&t->writing);
    return st;
}

static void disk_expire(tier *base, uint64_t ttl_us)
{
    disk_tier *t = of(base);
    pthread_mutex_lock(&t->writing);
    uint64_t now_us = t->io->now_us(t->io);
    if (forget(t, (forget_rule){.by_age = true, .before_us = now_us > ttl_us ? now_us - ttl_us : 0}))
        erase(t);
    pthread_mutex_unlock(&t->writing);
}

static void disk_flush(tier *base)
{
    disk_tier *t = of(base);
    pthread_mutex_lock(&t->writing);
    disk_commit(t);
    pthread_mutex_unlock(&t->writing);
}

static void disk_read_counts(tier *base, tier_counts *out)
{
    disk_tier *t = of(base);
    pthread_mutex_lock(&t->index);
    *out = t->counts;
    out->bytes = t->data_bytes;
    pthread_mutex_unlock(&t->index);
    out->bytes_max = t->bytes_max;
}

/* ---- the ticker ---------------------------------------------------------------------------------------------- */

static void tick(disk_tier *t)
{
    pthread_mutex_lock(&t->writing);
    uint64_t now_us = t->io->now_us(t->io);
    pthread_mutex_lock(&t->index);
    bool trouble = !t->counts.online;
    pthread_mutex_unlock(&t->index);
    if (now_us >= t->retry_us) {
        if (trouble)
            disk_store_probe(t);
        disk_store_wipe(t, true); /* what a reader found damaged */
        if (now_us - t->committed_us >= COMMIT_US)
            disk_commit(t);
    }
    pthread_mutex_unlock(&t->writing);
}

static void *run_ticker(void *context)
{
    disk_tier *t = context;
    struct pollfd end = {.fd = t->wake[0], .events = POLLIN};
    while (poll(&end, 1, COMMIT_US / 1000) <= 0)
        tick(t);
    return NULL;
}

static bool start_ticker(disk_tier *t)
{
    if (pipe(t->wake) != 0) {
        t->wake[0] = t->wake[1] = -1;
        return false;
    }
    fcntl(t->wake[0], F_SETFD, FD_CLOEXEC);
    fcntl(t->wake[1], F_SETFD, FD_CLOEXEC);
    t->ticks = pthread_create(&t->ticker, NULL, run_ticker, t) == 0;
    return t->ticks;
}

static void stop_ticker(disk_tier *t)
{
    if (t->wake[1] >= 0)
        close(t->wake[1]); /* the other end is readable then */
    if (t->ticks)
        pthread_join(t->ticker, NULL);
    if (t->wake[0] >= 0)
        close(t->wake[0]);
}

/* ---- open and close ------------------------------------------------------------------------------------------ */

static void close_fd(int fd)
{
    if (fd >= 0)
        close(fd);
}

static void destroy(disk_tier *t)
{
    stop_ticker(t);
    for (uint32_t i = 0; i < t->ring_count; i++)
        disk_ring_close(t->rings[i]);
    for (uint32_t i = 0; i < t->segment_count; i++)
        close_fd(t->segments[i]->fd);
    close_fd(t->log);
    close_fd(t->lock_file);
    close_fd(t->dir);
    disk_index_destroy(t);
    free(t->record);
    free(t->path);
    pthread_cond_destroy(&t->unread);
    pthread_mutex_destroy(&t->writing);
    pthread_mutex_destroy(&t->index);
    pthread_mutex_destroy(&t->reading);
    free(t);
}

static void disk_close(tier *base)
{
    disk_tier *t = of(base);
    pthread_mutex_lock(&t->writing);
    pthread_mutex_lock(&t->index);
    for (uint32_t i = 0; i < t->entry_count; i++) /* the exact times */
        if (t->entries[i].live && t->entries[i].used_us != t->entries[i].logged_us)
            disk_index_log(t, &t->entries[i]);
    pthread_mutex_unlock(&t->index);
    disk_commit(t);
    pthread_mutex_unlock(&t->writing);
    destroy(t);
}

static const tier_ops disk_ops = {
    .name = "disk",
    .has_is_quick = true,
    .has = disk_has,
    .put = disk_put,
    .get = disk_get,
    .touch = disk_touch,
    .drop = disk_drop,
    .expire = disk_expire,
    .flush = disk_flush,
    .read_counts = disk_read_counts,
    .close = disk_close,
};

static disk_tier *tier_of(const disk_tier_config *config, disk_io *io)
{
    disk_tier *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->base.ops = &disk_ops;
    t->io = io;
    t->mover = config->mover;
    t->shape = disk_shape_of(config->mover);
    t->bytes_max = config->bytes_max;
    t->dir = t->lock_file = t->log = t->wake[0] = t->wake[1] = -1;
    t->counts.online = true;
    pthread_mutex_init(&t->writing, NULL);
    pthread_mutex_init(&t->index, NULL);
    pthread_mutex_init(&t->reading, NULL);
    pthread_cond_init(&t->unread, NULL);
    return t;
}

static void open_rings(disk_tier *t)
{
    while (t->ring_count < DISK_RING_LANES && (t->rings[t->ring_count] = disk_ring_open(DISK_RING_DEPTH)) != NULL)
        t->ring_count++;
}

/* Is the folder one that can be written to? A disk that is full or fails now may be well later, and what is there can
 * be read; a folder that is read-only will not change by itself. */
static status try_writing(disk_tier *t, error *err)
{
    errno = 0;
    if (disk_commit(t) || (errno != EACCES && errno != EROFS && errno != EPERM))
        return OK;
    return error_set(err, ERR_IO, "%s: cannot be written: %s", t->path, strerror(errno));
}

status disk_tier_open_io(tier **out, const disk_tier_config *config, disk_io *io, error *err)
{
    assert(config->mover->parts >= 1 && config->mover->parts <= PAGE_PARTS_MAX && config->mover->part_bytes > 0);
    uint64_t from_us = io->now_us(io);
    disk_tier *t = tier_of(config, io);
    if (!t)
        return error_set(err, ERR_MEMORY, "%s: no memory", config->dir);
    if (!config->no_uring)
        open_rings(t);
    snprintf(t->counts.state, sizeof t->counts.state, "%s", t->ring_count ? "io_uring" : "threads");
    status st = disk_folder_open(t, config->dir, err);
    if (st == OK)
        st = disk_folder_load(t, err);
    if (st == OK)
        st = try_writing(t, err);
    if (st == OK && !start_ticker(t))
        st = error_set(err, ERR_IO, "%s: no thread to be had: %s", config->dir, strerror(errno));
    if (st != OK) {
        destroy(t);
        return st;
    }
    log_info("%s: %llu records, %llu of %llu MB, read in %llu ms (%s)", t->path, (unsigned long long)t->counts.records,
             (unsigned long long)(t->data_bytes >> 20), (unsigned long long)(t->bytes_max >> 20),
             (unsigned long long)((io->now_us(io) - from_us) / 1000), t->counts.state);
    *out = &t->base;
    return OK;
}

status disk_tier_open(tier **out, const disk_tier_config *config, error *err)
{
    return disk_tier_open_io(out, config, &disk_io_system, err);
}
