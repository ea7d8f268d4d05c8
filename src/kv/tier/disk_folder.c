/* kv/tier/disk_folder.c: a folder taken into use: made, locked, looked through, its index read and what a crash or a
 * stranger left put right. Nothing that lies in it makes the open fail; what the tier does not know by name it leaves
 * alone and counts. */
#include "kv/tier/disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"

enum {
    SEGMENT_BYTES = 64 << 20,
    SEGMENT_RECORDS = 16,
    SEGMENTS_WANTED = 32,     /* of a small cap: what is kept free to copy to is one of so many */
    NUMBER_MAX = 0xf0000000u, /* of a segment; higher ones are not ours */
    FILES_MAX = 1 << 20,
    OWN_BYTES = 4 * DISK_BLOCK, /* the folder itself, the lock, change */
};

/* ---- the folder and its lock --------------------------------------------------------------------------------- */

static bool make_folders(char *path)
{
    for (char *at = path + 1; *at; at++) {
        if (*at != '/')
            continue;
        *at = '\0';
        bool fine = mkdir(path, 0700) == 0 || errno == EEXIST;
        *at = '/';
        if (!fine)
            return false;
    }
    return mkdir(path, 0700) == 0 || errno == EEXIST;
}

/* The folder may be reached over links, but it must be a place where nobody else can put or swap files. */
static status check_folder(disk_tier *t, error *err)
{
    struct stat about;
    if (fstat(t->dir, &about) != 0)
        return error_set(err, ERR_IO, "%s: %s", t->path, strerror(errno));
    if (about.st_uid != geteuid())
        return error_set(err, ERR_IO,
                         "%s: belongs to user %u, not to %u who runs this; give the cache a folder of its own", t->path,
                         (unsigned)about.st_uid, (unsigned)geteuid());
    if (about.st_mode & (S_IWGRP | S_IWOTH))
        return error_set(err, ERR_IO, "%s: others may write there (mode %03o); give the cache a folder of its own",
                         t->path, (unsigned)about.st_mode & 0777);
    return OK;
}

static status lock_folder(disk_tier *t, error *err)
{
    char pid[24] = "";
    t->lock_file = t->io->open(t->io, t->dir, "lock", O_RDWR | O_CREAT);
    if (t->lock_file < 0)
        return error_set(err, ERR_IO, "%s: cannot be written: %s", t->path, strerror(errno));
    if (flock(t->lock_file, LOCK_EX | LOCK_NB) != 0) {
        ssize_t got = pread(t->lock_file, pid, sizeof pid - 1, 0);
        long holder = got > 0 ? strtol(pid, NULL, 10) : 0;
        if (holder > 0)
            return error_set(err, ERR_BUSY, "%s: in use by process %ld; each server needs a folder of its own", t->path,
                             holder);
        return error_set(err, ERR_BUSY, "%s: in use by another process; each server needs a folder of its own",
                         t->path);
    }
    int size = snprintf(pid, sizeof pid, "%-15ld\n", (long)getpid());
    if (pwrite(t->lock_file, pid, (size_t)size, 0) != size)
        log_debug("%s: the lock does not name its holder", t->path); /* a full disk: no harm */
    return OK;
}

status disk_folder_open(disk_tier *t, const char *dir, error *err)
{
    t->path = strdup(dir);
    if (!t->path)
        return error_set(err, ERR_MEMORY, "%s: no memory", dir);
    if (!*dir || !make_folders(t->path))
        return error_set(err, ERR_IO, "%s: cannot be made: %s", dir, *dir ? strerror(errno) : "no name");
    t->dir = open(t->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (t->dir < 0)
        return error_set(err, ERR_IO, "%s: %s", dir, strerror(errno));
    status st = check_folder(t, err);
    return st == OK ? lock_folder(t, err) : st;
}

/* ---- what lies in it ----------------------------------------------------------------------------------------- */

typedef struct {
    uint32_t number;
    uint64_t bytes;
} found_file;

typedef struct {
    found_file *files;
    uint32_t count, room;
} found_files;

static bool segment_number(const char *name, uint32_t *out)
{
    char *end;
    if (strspn(name, "0123456789abcdef") != 8 || strcmp(name + 8, ".seg") != 0)
        return false;
    *out = (uint32_t)strtoul(name, &end, 16);
    return end == name + 8;
}

static bool remember(found_files *f, uint32_t number, uint64_t bytes)
{
    if (f->count == f->room) {
        uint32_t room = f->room ? f->room * 2 : 64;
        found_file *more = realloc(f->files, room * sizeof *more);
        if (!more)
            return false;
        f->files = more;
        f->room = room;
    }
    f->files[f->count++] = (found_file){number, bytes};
    return true;
}

/* Segments into `f`; the size of strangers into the tier. A link or a folder by the name of a segment is a stranger. */
static bool look_at(disk_tier *t, found_files *f, const char *name)
{
    static const char *const own[] = {"lock", "index.log", "index.new"};
    struct stat about;
    uint32_t number;
    if (fstatat(t->dir, name, &about, AT_SYMLINK_NOFOLLOW) != 0)
        return true;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strcmp(name, own[i]) == 0)
            return true;
    if (S_ISREG(about.st_mode) && segment_number(name, &number) && number < NUMBER_MAX && f->count < FILES_MAX)
        return remember(f, number, (uint64_t)about.st_size);
    uint64_t allocated = (uint64_t)about.st_blocks * 512, size = S_ISREG(about.st_mode) ? (uint64_t)about.st_size : 0;
    t->foreign_bytes += strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ? 0 : size > allocated ? size : allocated;
    return true;
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = ((const found_file *)a)->number, y = ((const found_file *)b)->number;
    return (x > y) - (x < y);
}

static status scan(disk_tier *t, found_files *f, error *err)
{
    int fd = openat(t->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    if (!d) {
        if (fd >= 0)
            close(fd);
        return error_set(err, ERR_IO, "%s: cannot be read: %s", t->path, strerror(errno));
    }
    bool fine = true;
    for (struct dirent *e; fine && (e = readdir(d)) != NULL;)
        fine = look_at(t, f, e->d_name);
    closedir(d);
    if (f->count)
        qsort(f->files, f->count, sizeof *f->files, by_number);
    return fine ? OK : error_set(err, ERR_MEMORY, "%s: no memory to look through it", t->path);
}

/* ---- how it is divided --------------------------------------------------------------------------------------- */

static uint64_t up_to_block(uint64_t bytes)
{
    return (bytes + DISK_BLOCK - 1) / DISK_BLOCK * DISK_BLOCK;
}

/* The cap less what is not records: the log, twice over while it is written anew, the folder, a block a segment for
 * the file system. */
static status divide(disk_tier *t, const found_files *f, error *err)
{
    uint64_t record = t->shape.record_bytes, records = t->bytes_max / record;
    uint64_t log_max = 3 * records + 64;
    uint64_t besides = up_to_block(log_max * DISK_LOG_ENTRY) + up_to_block((records + 1) * DISK_LOG_ENTRY) + OWN_BYTES +
                       t->foreign_bytes;
    uint64_t slots = SEGMENT_BYTES / record > SEGMENT_RECORDS ? SEGMENT_BYTES / record : SEGMENT_RECORDS;
    if (besides >= t->bytes_max || (t->bytes_max - besides) / (record + DISK_BLOCK) < 4) {
        uint64_t least = (record + DISK_BLOCK) * 4 + OWN_BYTES + 4 * DISK_BLOCK + t->foreign_bytes;
        return error_set(
            err, t->foreign_bytes ? ERR_IO : ERR_INVALID,
            "%s: %llu bytes are too few: a page has %llu, other files in the folder %llu; give at least %llu", t->path,
            (unsigned long long)t->bytes_max, (unsigned long long)record, (unsigned long long)t->foreign_bytes,
            (unsigned long long)least);
    }
    t->data_max = t->bytes_max - besides;
    if (slots > t->data_max / record / SEGMENTS_WANTED)
        slots = t->data_max / record / SEGMENTS_WANTED;
    t->slots = slots ? (uint32_t)slots : 1;
    uint64_t segments = t->data_max / (t->slots * record + DISK_BLOCK);
    t->data_max -= segments * DISK_BLOCK;
    if (records > UINT32_MAX / 8 || log_max > UINT32_MAX / 2)
        return error_set(err, ERR_INVALID, "%s: %llu bytes are more than the index can hold", t->path,
                         (unsigned long long)t->bytes_max);
    uint64_t found = 0; /* of a larger cap, perhaps: they must fit in the index before some can go */
    for (uint32_t i = 0; i < f->count; i++)
        found += f->files[i].bytes / record < SEGMENT_BYTES / DISK_BLOCK ? f->files[i].bytes / record
                                                                         : SEGMENT_BYTES / DISK_BLOCK;
    found = found < UINT32_MAX / 8 ? found : UINT32_MAX / 8;
    t->log_max = (uint32_t)log_max;
    t->entry_max = (uint32_t)(records + found) + t->slots;
    t->segment_max = (uint32_t)(segments + 4 + f->count);
    return OK;
}

/* ---- put right ----------------------------------------------------------------------------------------------- */

static bool add_segments(disk_tier *t, const found_files *f)
{
    for (uint32_t i = 0; i < f->count; i++) {
        uint64_t used = f->files[i].bytes / t->shape.record_bytes;
        uint32_t most = SEGMENT_BYTES / DISK_BLOCK; /* more slots no segment ever had */
        if (!disk_segment_add(t, f->files[i].number, used < most ? (uint32_t)used : most))
            return false;
    }
    return true;
}

/* The end of a segment behind its last record is cut off; slots without a record before that become holes. */
static void cut_tail(disk_tier *t, disk_segment *s, uint64_t bytes)
{
    uint32_t used = s->used;
    while (used && s->slots[used - 1] < SLOT_ENTRY)
        used--;
    uint64_t end = used * (uint64_t)t->shape.record_bytes;
    if (used && end < bytes && (!disk_segment_open(t, s) || t->io->resize(t->io, s->fd, (off_t)end) != 0)) {
        disk_store_trouble(t, disk_segment_name(s->number).name);
        return;
    }
    t->data_bytes -= (s->used - used) * (uint64_t)t->shape.record_bytes;
    s->used = s->synced = used;
    for (uint32_t i = 0; i < used; i++)
        if (s->slots[i] < SLOT_ENTRY)
            s->slots[i] = SLOT_UNWIPED;
    s->unwiped = used - s->live;
}

static void put_right(disk_tier *t, const found_files *f)
{
    for (uint32_t i = 0; i < t->segment_count; i++)
        cut_tail(t, t->segments[i], f->files[i].bytes);
    disk_store_remove_empty(t);
    disk_store_wipe(t, false);
    for (uint32_t i = 0; i < t->segment_count; i++)
        disk_segment_close(t, t->segments[i]);
    disk_segment *last = t->segment_count ? t->segments[t->segment_count - 1] : NULL;
    if (last && last->used < t->slots && disk_segment_open(t, last))
        t->active = last;
    if (last && last->number >= t->next_number)
        t->next_number = last->number + 1;
    disk_store_shrink(t);
}

/* Of another model or version, or nothing of it can be read. */
static void empty_folder(disk_tier *t)
{
    log_warn("%s: its %u files are of another model, KV type or version; emptied", t->path, t->segment_count);
    for (uint32_t i = 0; i < t->entry_count; i++)
        if (t->entries[i].live)
            disk_index_remove(t, &t->entries[i]);
    disk_store_remove_empty(t);
    t->log_stale = true;
}

status disk_folder_load(disk_tier *t, error *err)
{
    found_files f = {0};
    bool foreign = false;
    status st = scan(t, &f, err);
    if (st == OK)
        st = divide(t, &f, err);
    if (st == OK)
        st = disk_index_create(t, err);
    t->record = st == OK ? aligned_alloc(DISK_BLOCK, t->shape.record_bytes) : NULL;
    if (st == OK && (!t->record || !add_segments(t, &f)))
        st = error_set(err, ERR_MEMORY, "%s: no memory for the index of %u files", t->path, f.count);
    t->next_number = 1;
    if (st == OK)
        st = disk_log_load(t, &foreign, err);
    if (st == OK && foreign)
        empty_folder(t);
    else if (st == OK)
        put_right(t, &f);
    free(f.files);
    return st;
}
