/* kv/tier/disk_log.c: index.log: appended to at a commit, read at the open, written anew when it holds too much that is
 * not so any more. Entries lie at multiples of their size, so a torn one costs nothing but itself. */
#include "kv/tier/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"

static const char log_name[] = "index.log", new_name[] = "index.new";

static disk_log_entry entry_about(disk_tier *t, disk_entry *e)
{
    disk_log_entry about = {.token_count = e->token_count,
                            .segment = e->segment->number,
                            .slot = e->slot,
                            .key = e->key,
                            .space = e->space,
                            .used_us = e->used_us,
                            .tokens_hash = e->tokens_hash};
    disk_log_seal(&about, &t->shape);
    e->logged_us = e->used_us;
    return about;
}

/* ---- the commit ---------------------------------------------------------------------------------------------- */

static void forget_unsynced(disk_tier *t, disk_segment *s)
{
    pthread_mutex_lock(&t->index);
    for (uint32_t i = s->synced; i < s->used; i++)
        if (s->slots[i] >= SLOT_ENTRY) {
            disk_index_remove(t, &t->entries[s->slots[i] - SLOT_ENTRY]);
            t->counts.dropped++;
        }
    pthread_mutex_unlock(&t->index);
}

bool disk_segment_sync(disk_tier *t, disk_segment *s)
{
    bool fine = t->io->sync(t->io, s->fd, false) == 0;
    if (!fine) {
        disk_store_trouble(t, "sync");
        forget_unsynced(t, s);
    }
    s->synced = s->used;
    return fine;
}

static bool sync_segments(disk_tier *t)
{
    bool fine = true;
    for (uint32_t i = 0; i < t->segment_count; i++) {
        disk_segment *s = t->segments[i];
        if (s->synced == s->used)
            continue;
        fine &= disk_segment_sync(t, s);
        disk_segment_close(t, s);
    }
    if (t->names_unsynced && t->io->sync(t->io, t->dir, true) != 0) {
        disk_store_trouble(t, "sync");
        return false;
    }
    t->names_unsynced = false;
    return fine;
}

static uint32_t take_waiting(disk_tier *t, disk_log_entry *out, uint32_t max)
{
    uint32_t count = 0;
    pthread_mutex_lock(&t->index);
    while (t->waiting_count && count < max) {
        disk_entry *e = &t->entries[t->waiting[--t->waiting_count]];
        e->waits = false;
        if (e->live)
            out[count++] = entry_about(t, e);
    }
    pthread_mutex_unlock(&t->index);
    return count;
}

static bool append_waiting(disk_tier *t)
{
    disk_log_entry *chunk = malloc(DISK_LOG_CHUNK * sizeof *chunk);
    uint32_t count, before = t->log_used;
    bool fine = chunk != NULL;
    while (fine && (count = take_waiting(t, chunk, DISK_LOG_CHUNK)) > 0) {
        fine = disk_io_write(t->io, t->log, chunk, count * sizeof *chunk, t->log_used * (uint64_t)DISK_LOG_ENTRY);
        t->log_used += fine ? count : 0;
    }
    free(chunk);
    if (fine && t->log_used > before)
        fine = t->io->sync(t->io, t->log, false) == 0;
    if (!fine) {
        disk_store_trouble(t, "index.log");
        t->log_stale = true; /* what was taken from the list is found again when it is written anew */
    }
    return fine;
}

bool disk_commit(disk_tier *t)
{
    t->committed_us = t->io->now_us(t->io);
    bool fine = sync_segments(t);
    pthread_mutex_lock(&t->index);
    uint32_t waiting = t->waiting_count;
    t->log_stale |= t->reads_damaged;
    t->reads_damaged = false;
    pthread_mutex_unlock(&t->index);
    if (t->log_stale || t->log < 0 || t->log_used + (uint64_t)waiting > t->log_max)
        return disk_log_rewrite(t, false) && fine;
    return (waiting == 0 || append_waiting(t)) && fine;
}

/* ---- the log anew -------------------------------------------------------------------------------------------- */

static uint32_t next_chunk(disk_tier *t, uint32_t *from, disk_log_entry *out)
{
    uint32_t count = 0;
    pthread_mutex_lock(&t->index);
    for (; *from < t->entry_count && count < DISK_LOG_CHUNK; ++*from)
        if (t->entries[*from].live)
            out[count++] = entry_about(t, &t->entries[*from]);
    pthread_mutex_unlock(&t->index);
    return count;
}

/* Entries that become known after the last chunk cannot be: `writing` is held. Returns how many; 0: it failed. */
static uint32_t write_all(disk_tier *t, int fd)
{
    disk_log_entry *chunk = malloc(DISK_LOG_CHUNK * sizeof *chunk), first = disk_log_first(&t->shape);
    uint32_t used = 1, from = 0, count;
    bool fine = chunk && disk_io_write(t->io, fd, &first, sizeof first, 0);
    while (fine && (count = next_chunk(t, &from, chunk)) > 0) {
        fine = disk_io_write(t->io, fd, chunk, count * sizeof *chunk, used * (uint64_t)DISK_LOG_ENTRY);
        used += count;
    }
    free(chunk);
    return fine && t->io->sync(t->io, fd, false) == 0 ? used : 0;
}

static bool overwrite_log(disk_tier *t, int fd)
{
    static const char zeros[DISK_BLOCK];
    struct stat about;
    bool fine = fstat(fd, &about) == 0;
    for (off_t at = 0; fine && at < about.st_size; at += DISK_BLOCK)
        fine = disk_io_write(t->io, fd, zeros, sizeof zeros, (uint64_t)at);
    return fine && t->io->sync(t->io, fd, false) == 0;
}

bool disk_log_rewrite(disk_tier *t, bool overwrite)
{
    int fd = t->io->open(t->io, t->dir, new_name, O_RDWR | O_CREAT | O_TRUNC);
    uint32_t used = fd >= 0 ? write_all(t, fd) : 0;
    if (!used || t->io->rename(t->io, t->dir, new_name, log_name) != 0 || t->io->sync(t->io, t->dir, true) != 0) {
        disk_store_trouble(t, new_name);
        t->log_stale = true; /* the old one may be gone already: the next commit makes sure */
        if (fd >= 0)
            close(fd);
        t->io->remove(t->io, t->dir, new_name);
        return false;
    }
    bool fine = !overwrite || t->log < 0 || overwrite_log(t, t->log);
    if (!fine)
        disk_store_trouble(t, "index.log");
    if (t->log >= 0)
        close(t->log);
    t->log = fd;
    t->log_used = used;
    t->log_stale = false;
    pthread_mutex_lock(&t->index);
    while (t->waiting_count) /* all of them were written */
        t->entries[t->waiting[--t->waiting_count]].waits = false;
    pthread_mutex_unlock(&t->index);
    return fine;
}

/* ---- the log read -------------------------------------------------------------------------------------------- */

/* A later entry overrides an earlier one of the same key and one of the same slot. False: it speaks of what is not. */
static bool learn(disk_tier *t, disk_log_entry *about, uint64_t now_us)
{
    if (about->segment >= t->next_number)
        t->next_number = about->segment + 1;
    disk_segment *s = disk_segment_find(t, about->segment);
    disk_entry *e = disk_index_find(t, about->key);
    about->used_us = about->used_us > now_us ? now_us : about->used_us;
    if (e && e->segment == s && e->slot == about->slot && e->tokens_hash == about->tokens_hash) {
        e->used_us = e->logged_us = about->used_us;
        return true;
    }
    if (e)
        disk_index_remove(t, e);
    if (!s || about->slot >= s->used || about->token_count > DISK_TOKENS_MAX)
        return false;
    if (s->slots[about->slot] >= SLOT_ENTRY)
        disk_index_remove(t, &t->entries[s->slots[about->slot] - SLOT_ENTRY]);
    return disk_index_add(t, about, s) != NULL;
}

static void learn_chunk(disk_tier *t, disk_log_entry *chunk, uint32_t count, uint32_t known[4])
{
    uint64_t now_us = t->io->now_us(t->io);
    for (uint32_t i = 0; i < count; i++) {
        disk_log_kind kind = disk_log_read(&chunk[i], &t->shape);
        known[kind]++;
        if (kind == DISK_LOG_PAGE && !learn(t, &chunk[i], now_us))
            t->log_stale = true;
    }
}

status disk_log_load(disk_tier *t, bool *foreign, error *err)
{
    t->io->remove(t->io, t->dir, new_name);
    t->log_stale = true;
    t->log = t->io->open(t->io, t->dir, log_name, O_RDWR);
    struct stat about;
    if (t->log < 0 && errno == ENOENT)
        return OK; /* the first commit makes one */
    if (t->log < 0 || fstat(t->log, &about) != 0 || !S_ISREG(about.st_mode))
        return error_set(err, ERR_IO, "%s/%s: %s", t->path, log_name, t->log < 0 ? strerror(errno) : "not a file");
    disk_log_entry *chunk = malloc(DISK_LOG_CHUNK * sizeof *chunk);
    if (!chunk)
        return error_set(err, ERR_MEMORY, "%s: no memory to read the index", t->path);
    t->log_stale = false;
    uint32_t known[4] = {0};
    uint64_t entries = (uint64_t)about.st_size / DISK_LOG_ENTRY;
    for (uint64_t at = 0; at < entries && at < t->log_max && !known[DISK_LOG_FOREIGN]; at += DISK_LOG_CHUNK) {
        uint32_t count = entries - at < DISK_LOG_CHUNK ? (uint32_t)(entries - at) : DISK_LOG_CHUNK;
        if (disk_io_read(t->io, t->log, chunk, count * sizeof *chunk, at * DISK_LOG_ENTRY))
            learn_chunk(t, chunk, count, known);
        else
            known[DISK_LOG_DAMAGED] += count;
    }
    free(chunk);
    *foreign = known[DISK_LOG_FOREIGN] > 0;
    if (known[DISK_LOG_DAMAGED])
        log_warn("%s: %u damaged entries of the index are skipped", t->path, known[DISK_LOG_DAMAGED]);
    if (known[DISK_LOG_DAMAGED] || *foreign || known[DISK_LOG_FIRST] != 1 || about.st_size % DISK_LOG_ENTRY ||
        entries > t->log_max)
        t->log_stale = true;
    t->log_used = (uint32_t)(entries > t->log_max ? t->log_max : entries);
    return OK;
}
