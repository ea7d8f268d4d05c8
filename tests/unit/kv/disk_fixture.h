/* tests/unit/kv/disk_fixture.h: pages without a model. Record n has a key, tokens and bytes that follow from n, so that
 * whatever comes back can be judged; the mover keeps `page_count` pages in memory. */
#ifndef HEADWAY_TESTS_DISK_FIXTURE_H
#define HEADWAY_TESTS_DISK_FIXTURE_H

#include "kv/tier/disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/rng.h"

enum { FIXTURE_TOKENS = 32 };

typedef struct {
    page_mover base; /* first */
    uint8_t *bytes;  /* (page_count, parts, part_bytes) */
    uint32_t page_count;
    bool no_place; /* at() answers NULL */
} fake_mover;

static uint8_t *fake_place(fake_mover *m, page_id page, uint32_t part)
{
    return m->bytes + ((size_t)page * m->base.parts + part) * m->base.part_bytes;
}

static void *fake_at(page_mover *self, page_id page, uint32_t part)
{
    fake_mover *m = (fake_mover *)self;
    return m->no_place ? NULL : fake_place(m, page, part);
}

static void fake_read(page_mover *self, page_id page, uint32_t part, void *dst)
{
    memcpy(dst, fake_place((fake_mover *)self, page, part), self->part_bytes);
}

static void fake_write(page_mover *self, page_id page, uint32_t part, const void *src)
{
    memcpy(fake_place((fake_mover *)self, page, part), src, self->part_bytes);
}

static fake_mover fake_mover_of(uint32_t page_count, uint32_t parts, size_t part_bytes)
{
    static const page_mover_ops ops = {fake_at, fake_read, fake_write, NULL};
    return (fake_mover){.base = {&ops, parts, part_bytes, 0x1234},
                        .bytes = aligned_alloc(4096, (page_count * parts * part_bytes + 4095) / 4096 * 4096),
                        .page_count = page_count};
}

/* ---- record n ------------------------------------------------------------------------------------------------ */

static prefix_key key_of(uint64_t n)
{
    rng r = {n};
    return (prefix_key){rng_next(&r), rng_next(&r)};
}

static uint64_t space_of(uint64_t n)
{
    return n % 3 + 1;
}

static const int32_t *tokens_of(uint64_t n, int32_t out[FIXTURE_TOKENS])
{
    for (int i = 0; i < FIXTURE_TOKENS; i++)
        out[i] = (int32_t)(n * 1000003u + (uint64_t)i * 7919u) & 0xffffff;
    return out;
}

/* Eight bytes a time, so that large pages are quick; never zero. */
static void fill_page(fake_mover *m, page_id page, uint64_t n)
{
    size_t size = m->base.parts * m->base.part_bytes;
    uint8_t *to = fake_place(m, page, 0);
    uint64_t word = (n + 1) * 0x9E3779B97F4A7C15u;
    for (size_t i = 0; i < size; i += 8, word += 0x0101010101010101u) {
        uint64_t w = word | 0x0101010101010101u;
        memcpy(to + i, &w, size - i < 8 ? size - i : 8);
    }
}

static bool page_is(fake_mover *m, page_id page, uint64_t n)
{
    size_t size = m->base.parts * m->base.part_bytes;
    const uint8_t *at = fake_place(m, page, 0);
    uint64_t word = (n + 1) * 0x9E3779B97F4A7C15u;
    for (size_t i = 0; i < size; i += 8, word += 0x0101010101010101u) {
        uint64_t w = word | 0x0101010101010101u;
        if (memcmp(at + i, &w, size - i < 8 ? size - i : 8) != 0)
            return false;
    }
    return true;
}

static tier_page page_of(uint64_t n, page_id page, int32_t tokens[FIXTURE_TOKENS])
{
    return (tier_page){key_of(n), space_of(n), tokens_of(n, tokens), FIXTURE_TOKENS, page};
}

static void store(tier *t, fake_mover *m, uint64_t n)
{
    int32_t tokens[FIXTURE_TOKENS];
    fill_page(m, 0, n);
    tier_page p = page_of(n, 0, tokens);
    t->ops->put(t, &p, 1);
}

typedef struct {
    uint32_t parts_ok, failed;
} landing;

static void see_landing(void *context, uint32_t index, uint32_t part, status st)
{
    landing *l = (landing *)context + index;
    (void)part;
    if (st == OK)
        l->parts_ok++;
    else
        l->failed++;
}

typedef enum { MISS, HIT, WRONG } answer;

static answer load(tier *t, fake_mover *m, uint64_t n)
{
    int32_t tokens[FIXTURE_TOKENS];
    tier_page p = page_of(n, 1, tokens);
    landing l = {0};
    memset(fake_place(m, 1, 0), 0, m->base.parts * m->base.part_bytes);
    t->ops->get(t, &p, 1, see_landing, &l, NULL);
    if (l.failed)
        return l.failed == 1 && l.parts_ok < m->base.parts ? MISS : WRONG;
    return l.parts_ok == m->base.parts && page_is(m, 1, n) ? HIT : WRONG;
}

static bool has(tier *t, uint64_t n)
{
    prefix_key k = key_of(n);
    bool out;
    t->ops->has(t, &k, 1, &out);
    return out;
}

static void touch(tier *t, uint64_t n)
{
    prefix_key k = key_of(n);
    t->ops->touch(t, &k, 1);
}

static tier_counts counts_of(tier *t)
{
    tier_counts c;
    t->ops->read_counts(t, &c);
    return c;
}

/* ---- folders ------------------------------------------------------------------------------------------------- */

typedef struct {
    char path[128];
} folder;

static folder folder_make(void)
{
    folder f;
    const char *base = getenv("TMPDIR");
    snprintf(f.path, sizeof f.path, "%s/headway-disk-XXXXXX", base && strlen(base) < 90 ? base : "/tmp");
    if (!mkdtemp(f.path))
        f.path[0] = '\0';
    return f;
}

static void in_folder(const folder *f, const char *name, char out[400])
{
    snprintf(out, 400, "%s/%s", f->path, name);
}

/* Calls `see` for each regular file. */
static void each_file(const folder *f, void (*see)(void *context, const char *path, const char *name), void *context)
{
    DIR *d = opendir(f->path);
    for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
        char path[400];
        in_folder(f, e->d_name, path);
        if (e->d_name[0] != '.')
            see(context, path, e->d_name);
    }
    if (d)
        closedir(d);
}

static void remove_one(void *context, const char *path, const char *name)
{
    (void)context, (void)name;
    unlink(path);
}

static void folder_remove(folder *f)
{
    each_file(f, remove_one, NULL);
    rmdir(f->path);
}

typedef struct {
    uint64_t size, allocated; /* of all files, the folder itself too */
    uint32_t files;
} usage;

static void add_usage(void *context, const char *path, const char *name)
{
    usage *u = context;
    struct stat s;
    (void)name;
    if (lstat(path, &s) != 0)
        return; /* gone meanwhile */
    u->size += (uint64_t)s.st_size;
    u->allocated += (uint64_t)s.st_blocks * 512;
    u->files++;
}

static usage folder_usage(const folder *f)
{
    usage u = {0};
    each_file(f, add_usage, &u);
    add_usage(&u, f->path, ".");
    return u;
}

static tier *tier_over(const folder *f, fake_mover *m, uint64_t bytes_max, disk_io *io)
{
    tier *t = NULL;
    error err = {0};
    disk_tier_config c = {
        .dir = f->path, .bytes_max = bytes_max, .mover = &m->base, .no_uring = getenv("HEADWAY_NO_URING") != NULL};
    if (disk_tier_open_io(&t, &c, io ? io : &disk_io_system, &err) != OK)
        fprintf(stderr, "open: %s\n", err.text);
    return t;
}

#endif
