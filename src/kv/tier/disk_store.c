/* kv/tier/disk_store.c: the segments: records appended, copied to the end, wiped, and segments given up. */
#include "kv/tier/disk.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

/* ---- how it goes --------------------------------------------------------------------------------------------- */

enum { RETRY_US = 1000000 };

void disk_store_trouble(disk_tier *t, const char *what)
{
    int code = errno;
    t->retry_us = t->io->now_us(t->io) + RETRY_US;
    pthread_mutex_lock(&t->index);
    bool first = t->counts.online;
    t->counts.online = false;
    t->counts.errors++;
    snprintf(t->counts.state, sizeof t->counts.state, "%s (%s): nothing is stored until that is over", strerror(code),
             what);
    pthread_mutex_unlock(&t->index);
    if (first)
        log_warn("%s: %s: %s; nothing is stored until that is over", t->path, what, strerror(code));
}

void disk_store_fine(disk_tier *t)
{
    pthread_mutex_lock(&t->index);
    bool back = !t->counts.online;
    t->counts.online = true;
    snprintf(t->counts.state, sizeof t->counts.state, "%s", t->ring_count ? "io_uring" : "threads");
    pthread_mutex_unlock(&t->index);
    if (back)
        log_info("%s: writes work again", t->path);
}

/* ---- segments ------------------------------------------------------------------------------------------------ */

bool disk_segment_open(disk_tier *t, disk_segment *s)
{
    if (s->fd < 0)
        s->fd = t->io->open(t->io, t->dir, disk_segment_name(s->number).name, O_RDWR);
    return s->fd >= 0;
}

void disk_segment_close(disk_tier *t, disk_segment *s)
{
    if (s->fd < 0 || s == t->active || s->synced < s->used)
        return;
    close(s->fd);
    s->fd = -1;
}

static uint64_t at_slot(const disk_tier *t, uint32_t slot)
{
    return slot * (uint64_t)t->shape.record_bytes;
}

/* Do so many whole segments fit beside the full ones? */
static bool segments_fit(const disk_tier *t, uint32_t count)
{
    uint64_t full = t->data_bytes - (t->active ? at_slot(t, t->active->used) : 0);
    return full + at_slot(t, count * t->slots) <= t->data_max;
}

static uint32_t live_of(disk_tier *t, const disk_segment *s)
{
    pthread_mutex_lock(&t->index);
    uint32_t live = s->live;
    pthread_mutex_unlock(&t->index);
    return live;
}

static bool begin_segment(disk_tier *t)
{
    disk_name n = disk_segment_name(t->next_number);
    int fd = t->io->open(t->io, t->dir, n.name, O_RDWR | O_CREAT | O_EXCL);
    if (fd < 0) {
        t->next_number += errno == EEXIST; /* somebody else's: passed by the next time */
        disk_store_trouble(t, n.name);
        return false;
    }
    pthread_mutex_lock(&t->index);
    disk_segment *s = disk_segment_add(t, t->next_number, 0);
    pthread_mutex_unlock(&t->index);
    if (!s) {
        close(fd);
        t->io->remove(t->io, t->dir, n.name);
        return false;
    }
    t->next_number++;
    t->names_unsynced = true;
    s->fd = fd;
    t->active = s;
    return true;
}

/* No entry is in it. Waits for those who read it: the bytes count until they are gone. */
static bool remove_segment(disk_tier *t, disk_segment *s)
{
    pthread_mutex_lock(&t->index);
    while (s->readers)
        pthread_cond_wait(&t->unread, &t->index);
    pthread_mutex_unlock(&t->index);
    if (t->io->remove(t->io, t->dir, disk_segment_name(s->number).name) != 0 && errno != ENOENT) {
        disk_store_trouble(t, disk_segment_name(s->number).name);
        return false;
    }
    if (t->active == s)
        t->active = NULL;
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
    pthread_mutex_lock(&t->index);
    disk_segment_forget(t, s);
    pthread_mutex_unlock(&t->index);
    return true;
}

bool disk_store_remove_empty(disk_tier *t)
{
    bool fine = true;
    for (uint32_t i = t->segment_count; i-- > 0;)
        if (live_of(t, t->segments[i]) == 0)
            fine &= remove_segment(t, t->segments[i]);
    return fine;
}

/* ---- what goes when it is full ------------------------------------------------------------------------------- */

static int by_age(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

typedef struct {
    uint64_t used_us;
    uint32_t slot, to;
    prefix_key key;
} survivor;

static int newest_first(const void *a, const void *b)
{
    const survivor *x = a, *y = b;
    return x->used_us != y->used_us ? (x->used_us > y->used_us ? -1 : 1) : (x->slot > y->slot) - (x->slot < y->slot);
}

static int by_slot(const void *a, const void *b)
{
    const survivor *x = a, *y = b;
    return (x->slot > y->slot) - (x->slot < y->slot);
}

static uint32_t read_ages(disk_tier *t, const disk_segment *s, uint64_t *out)
{
    uint32_t count = 0;
    pthread_mutex_lock(&t->index);
    for (uint32_t i = 0; i < s->used; i++)
        if (s->slots[i] >= SLOT_ENTRY)
            out[count++] = t->entries[s->slots[i] - SLOT_ENTRY].used_us;
    pthread_mutex_unlock(&t->index);
    return count;
}

/* Of all records as many as two segments hold are old. The segment with the most room to gain goes: old ones and slots
 * that hold nothing, less what is young and would not find a place; of equals the first. `cut`: what was used after it
 * is not old. */
static disk_segment *choose_victim(disk_tier *t, uint32_t keep_max, uint64_t *cut)
{
    uint32_t room = 1, count = 0;
    for (uint32_t i = 0; i < t->segment_count; i++)
        room += t->segments[i]->used;
    uint64_t *ages = malloc(room * sizeof *ages);
    disk_segment *best = NULL;
    if (!ages)
        return NULL;
    for (uint32_t i = 0; i < t->segment_count; i++)
        count += t->segments[i] == t->active ? 0 : read_ages(t, t->segments[i], ages + count);
    qsort(ages, count, sizeof *ages, by_age);
    *cut = count ? ages[count < 2 * t->slots ? count - 1 : 2 * t->slots - 1] : 0;
    int64_t most = 0;
    for (uint32_t i = 0; i < t->segment_count; i++) {
        disk_segment *s = t->segments[i];
        if (s == t->active)
            continue;
        uint32_t live = read_ages(t, s, ages), young = 0;
        for (uint32_t k = 0; k < live; k++)
            young += ages[k] > *cut;
        int64_t gain = (int64_t)s->used - young - (young > keep_max ? (int64_t)t->slots * (young - keep_max) : 0);
        if (!best || gain > most) {
            best = s;
            most = gain;
        }
    }
    free(ages);
    return best;
}

static uint32_t choose_survivors(disk_tier *t, disk_segment *s, uint64_t cut, survivor *out, uint32_t max)
{
    uint32_t count = 0;
    pthread_mutex_lock(&t->index);
    for (uint32_t i = 0; i < s->used; i++) {
        const disk_entry *e = s->slots[i] >= SLOT_ENTRY ? &t->entries[s->slots[i] - SLOT_ENTRY] : NULL;
        if (e && e->used_us > cut)
            out[count++] = (survivor){e->used_us, i, DISK_NONE, e->key};
    }
    pthread_mutex_unlock(&t->index);
    if (count > max) {
        qsort(out, count, sizeof *out, newest_first);
        count = max;
        qsort(out, count, sizeof *out, by_slot); /* a prefix stays in one row */
    }
    return count;
}

/* To the end of the active segment, whole ones only, and safe there. False: the index has not changed. */
static bool copy_survivors(disk_tier *t, disk_segment *s, survivor *list, uint32_t count)
{
    disk_segment *to = t->active;
    uint32_t end = to ? to->used : 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!disk_io_read(t->io, s->fd, t->record, t->shape.record_bytes, at_slot(t, list[i].slot)) ||
            !disk_record_whole(t->record, &t->shape))
            continue;
        if (!disk_io_write(t->io, to->fd, t->record, t->shape.record_bytes, at_slot(t, end)))
            return false;
        list[i].to = end++;
    }
    return count == 0 || disk_segment_sync(t, to);
}

static void move_survivors(disk_tier *t, disk_segment *s, const survivor *list, uint32_t count)
{
    pthread_mutex_lock(&t->index);
    for (uint32_t i = 0; i < count; i++) {
        t->counts.damaged += list[i].to == DISK_NONE;
        if (list[i].to == DISK_NONE)
            continue;
        disk_segment *to = t->active;
        uint32_t slot = to->used++;
        assert(slot == list[i].to);
        t->data_bytes += t->shape.record_bytes;
        disk_entry *e = disk_index_find(t, list[i].key);
        if (e && e->segment == s && e->slot == list[i].slot) {
            disk_index_move(t, e, to, slot);
        } else { /* a reader has found it damaged meanwhile */
            to->slots[slot] = SLOT_UNWIPED;
            to->unwiped++;
        }
    }
    for (uint32_t i = 0; i < s->used; i++)
        if (s->slots[i] >= SLOT_ENTRY)
            disk_index_remove(t, &t->entries[s->slots[i] - SLOT_ENTRY]);
    if (t->active && count)
        t->active->synced = t->active->used;
    pthread_mutex_unlock(&t->index);
}

static bool evict(disk_tier *t, uint32_t keep_max)
{
    uint64_t cut;
    disk_segment *s = choose_victim(t, keep_max, &cut);
    if (!s)
        return false;
    survivor *list = malloc((s->used + 1) * sizeof *list);
    uint32_t count = list ? choose_survivors(t, s, cut, list, keep_max) : 0;
    bool fine = list && (count == 0 || (disk_segment_open(t, s) && copy_survivors(t, s, list, count)));
    if (fine) {
        move_survivors(t, s, list, count);
        s->synced = s->used; /* there is nothing left in it to lose */
    } else {
        disk_store_trouble(t, disk_segment_name(s->number).name);
    }
    free(list);
    disk_segment_close(t, s);
    /* The log must speak of the copies before their originals go. */
    return fine && (count == 0 || disk_commit(t)) && remove_segment(t, s);
}

bool disk_store_shrink(disk_tier *t)
{
    while (!segments_fit(t, t->active ? 2 : 1)) { /* several times where segments are hardly used */
        uint32_t left = t->active && t->active->used < t->slots ? t->slots - t->active->used - 1 : 0;
        if (!evict(t, left < t->slots / 2 ? left : t->slots / 2))
            return false;
    }
    return true;
}

bool disk_store_room(disk_tier *t)
{
    if (t->active && t->active->used < t->active->room)
        return true;
    if (t->active) {
        disk_segment *full = t->active;
        t->active = NULL;
        disk_segment_close(t, full);
    }
    /* One fits, unless the last eviction failed: then something goes without a place to copy what is young. */
    if (!disk_store_shrink(t) || !begin_segment(t))
        return false;
    disk_store_shrink(t); /* so that one more fits the next time; if not, there is still this one */
    return true;
}

void disk_store_probe(disk_tier *t)
{
    memset(t->record, 0, t->shape.record_bytes);
    if (!disk_store_room(t))
        return;
    disk_segment *s = t->active;
    bool fine = disk_io_write(t->io, s->fd, t->record, t->shape.record_bytes, at_slot(t, s->used));
    if (!fine)
        disk_store_trouble(t, disk_segment_name(s->number).name);
    if (t->io->resize(t->io, s->fd, (off_t)at_slot(t, s->used)) == 0 && fine)
        disk_store_fine(t);
}

/* ---- put and wipe -------------------------------------------------------------------------------------------- */

static void make_record(disk_tier *t, const tier_page *page)
{
    disk_header *h = (disk_header *)t->record;
    disk_header_fill(h, &t->shape, page);
    for (uint32_t p = 0; p < t->shape.parts; p++) {
        uint8_t *to = t->record + DISK_BLOCK + p * t->shape.part_stride;
        const void *from = t->mover->ops->at(t->mover, page->page, p);
        if (from)
            memcpy(to, from, t->shape.part_bytes);
        else
            t->mover->ops->read(t->mover, page->page, p, to);
        memset(to + t->shape.part_bytes, 0, t->shape.part_stride - t->shape.part_bytes);
        h->part_check[p] = disk_part_check(to, t->shape.part_bytes);
    }
    disk_header_seal(h);
}

bool disk_store_put(disk_tier *t, const tier_page *page)
{
    if (!disk_store_room(t))
        return false;
    disk_segment *s = t->active;
    assert(s->used < s->room);
    make_record(t, page);
    if (!disk_io_write(t->io, s->fd, t->record, t->shape.record_bytes, at_slot(t, s->used))) {
        disk_store_trouble(t, disk_segment_name(s->number).name);
        t->io->resize(t->io, s->fd, (off_t)at_slot(t, s->used)); /* if that fails the next one writes over it */
        return false;
    }
    disk_log_entry about = {.token_count = page->token_count,
                            .slot = s->used,
                            .key = page->key,
                            .space = page->space,
                            .used_us = t->io->now_us(t->io),
                            .tokens_hash = disk_tokens_hash(page->tokens, page->token_count)};
    pthread_mutex_lock(&t->index);
    s->used++;
    t->data_bytes += t->shape.record_bytes;
    disk_entry *e = disk_index_add(t, &about, s);
    if (e) {
        disk_index_log(t, e);
        t->counts.puts++;
        t->counts.put_bytes += t->shape.record_bytes;
    } else {
        s->slots[about.slot] = SLOT_UNWIPED;
        s->unwiped++;
    }
    pthread_mutex_unlock(&t->index);
    disk_store_fine(t);
    return e != NULL;
}

static bool overwrite_slots(disk_tier *t, disk_segment *s, uint32_t first, uint32_t count)
{
    memset(t->record, 0, t->shape.record_bytes);
    for (uint32_t i = 0; i < count; i++)
        if (!disk_io_write(t->io, s->fd, t->record, t->shape.record_bytes, at_slot(t, first + i)))
            return false;
    return true;
}

/* The next row of slots that are being wiped, from *from on. */
static bool next_row(disk_tier *t, const disk_segment *s, uint32_t *from, uint32_t *count)
{
    pthread_mutex_lock(&t->index);
    while (*from < s->used && s->slots[*from] != SLOT_WIPING)
        ++*from;
    for (*count = 0; *from + *count < s->used && s->slots[*from + *count] == SLOT_WIPING;)
        ++*count;
    pthread_mutex_unlock(&t->index);
    return *count > 0;
}

/* Overwritten first, so that the old bytes are not left in blocks that the file system calls free; then the blocks are
 * given back, where that is possible. */
static bool wipe_segment(disk_tier *t, disk_segment *s, bool overwrite)
{
    uint32_t count;
    bool fine = disk_segment_open(t, s);
    for (uint32_t from = 0; overwrite && fine && next_row(t, s, &from, &count); from += count)
        fine = overwrite_slots(t, s, from, count);
    fine = fine && (!overwrite || t->io->sync(t->io, s->fd, false) == 0);
    for (uint32_t from = 0; fine && next_row(t, s, &from, &count); from += count)
        if (t->io->punch(t->io, s->fd, (off_t)at_slot(t, from), (off_t)at_slot(t, count)) != 0 && !overwrite)
            fine = overwrite_slots(t, s, from, count);
    return fine;
}

static uint32_t mark_wiped(disk_tier *t, disk_segment *s, uint32_t from, uint32_t to)
{
    uint32_t count = 0;
    pthread_mutex_lock(&t->index);
    for (uint32_t i = 0; i < s->used && s->unwiped; i++)
        if (s->slots[i] == from) {
            s->slots[i] = to;
            count++;
        }
    s->unwiped -= to == SLOT_EMPTY ? count : 0;
    pthread_mutex_unlock(&t->index);
    return count;
}

bool disk_store_wipe(disk_tier *t, bool overwrite)
{
    bool all = true;
    for (uint32_t i = 0; i < t->segment_count; i++) {
        disk_segment *s = t->segments[i];
        if (!mark_wiped(t, s, SLOT_UNWIPED, SLOT_WIPING))
            continue;
        bool fine = wipe_segment(t, s, overwrite);
        if (!fine)
            disk_store_trouble(t, disk_segment_name(s->number).name);
        all &= fine;
        mark_wiped(t, s, SLOT_WIPING, fine ? SLOT_EMPTY : SLOT_UNWIPED);
        disk_segment_close(t, s);
    }
    return all;
}
