/* tests/unit/kv/disk_crash_test.c: the disk tier against a naive model, and after all that can happen to a process and
 * to its disk: killed at a random moment or within a write, power gone with writes half done, calls that fail.
 * Always: what comes back is right, the folder opens, what was flushed is kept. DISK_ROUNDS=1 is the size of
 * `make test`; 10 does the 200 kills and 10,000 flips. */
#include "unit/kv/disk_fixture.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/log.h"

enum { PARTS = 2, PART_BYTES = 4096, RECORD = DISK_BLOCK + PARTS * PART_BYTES, NAMES = 400 };

static uint32_t rounds(void)
{
    const char *text = getenv("DISK_ROUNDS");
    return text ? (uint32_t)strtoul(text, NULL, 10) : 1;
}

typedef enum { ABSENT, MAYBE, PRESENT } belief; /* MAYBE: put, but not flushed */

static void check_all(tier *t, fake_mover *m, const uint8_t *known, uint32_t count, const char *when)
{
    for (uint32_t n = 0; n < count; n++) {
        answer a = load(t, m, n);
        if (a == WRONG || (a == HIT && known[n] == ABSENT) || (a == MISS && known[n] == PRESENT))
            fail_msg("%s: record %u is %s", when, n, a == WRONG ? "wrong" : a == HIT ? "still there" : "lost");
    }
}

/* ---- against a naive model ----------------------------------------------------------------------------------- */

static void forget_space(uint8_t *known, uint64_t space)
{
    for (uint32_t n = 0; n < NAMES; n++)
        if (!space || space_of(n) == space)
            known[n] = ABSENT;
}

/* With room for all the model is exact; with a tiny cap a record may be gone, unless it is among the last used. */
static void run_model(uint64_t seed, uint64_t cap, uint32_t steps)
{
    folder f = folder_make();
    fake_mover m = fake_mover_of(2, PARTS, PART_BYTES);
    tier *t = tier_over(&f, &m, cap, NULL);
    uint8_t known[NAMES] = {0};
    bool exact = cap > NAMES * 2 * RECORD;
    rng r = {seed};
    for (uint32_t i = 0; i < steps; i++) {
        uint64_t what = rng_below(&r, 1000), n = rng_below(&r, NAMES);
        assert_non_null(t);
        if (what < 600) {
            store(t, &m, n);
            known[n] = PRESENT;
            assert_true(has(t, n));
        } else if (what < 900) {
            answer a = load(t, &m, n);
            assert_int_not_equal(a, WRONG);
            assert_true(a != HIT || known[n] != ABSENT);
            assert_true(a != MISS || known[n] == ABSENT || !exact);
        } else if (what < 960) {
            touch(t, n);
        } else if (what < 965) {
            uint64_t space = rng_below(&r, 4);
            assert_int_equal(t->ops->drop(t, space, NULL), OK);
            forget_space(known, space);
        } else if (what < 968) {
            t->ops->expire(t, 3600ull * 1000000);
        } else if (what < 985) {
            t->ops->flush(t);
        } else if (what < 995) {
            t->ops->close(t);
            t = tier_over(&f, &m, cap, NULL);
        }
        usage u = folder_usage(&f);
        if (u.size > cap || u.allocated > cap)
            fail_msg("step %u: %llu bytes in files, %llu on the disk, the cap is %llu", i, (unsigned long long)u.size,
                     (unsigned long long)u.allocated, (unsigned long long)cap);
    }
    tier_counts c = counts_of(t);
    assert_int_equal(c.damaged + c.errors + c.dropped, 0);
    t->ops->close(t);
    folder_remove(&f);
    free(m.bytes);
}

static void agrees_with_a_naive_model(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < rounds(); round++) {
        run_model(round * 10 + 1, 64 << 20, 1000);
        run_model(round * 10 + 2, 20 * RECORD, 500); /* one record a segment */
        run_model(round * 10 + 3, 100 * RECORD, 1000);
        run_model(round * 10 + 4, 300 * RECORD, 1500);
    }
}

static void a_smaller_cap_holds_from_the_open_on(void **state)
{
    (void)state;
    folder f = folder_make();
    fake_mover m = fake_mover_of(2, PARTS, PART_BYTES);
    tier *t = tier_over(&f, &m, 500 * RECORD, NULL);
    for (uint64_t n = 0; n < NAMES; n++)
        store(t, &m, n);
    t->ops->close(t);
    t = tier_over(&f, &m, 100 * RECORD, NULL);
    assert_true(folder_usage(&f).size <= 100 * RECORD);
    uint32_t left = 0;
    for (uint64_t n = 0; n < NAMES; n++)
        left += load(t, &m, n) == HIT;
    assert_true(left > 50);
    t->ops->close(t);
    folder_remove(&f);
    free(m.bytes);
}

/* Each life leaves a segment that is hardly used, so that room for the next one takes several of them. What survives of
 * them must leave room for what is stored. */
static void short_lives_leave_room(void **state)
{
    (void)state;
    folder f = folder_make();
    fake_mover m = fake_mover_of(2, PARTS, PART_BYTES);
    rng r = {1};
    for (uint32_t life = 0; life < 600 * rounds(); life++) {
        tier *t = tier_over(&f, &m, 120 * RECORD, NULL);
        assert_non_null(t);
        for (uint64_t steps = 1 + rng_below(&r, 12); steps > 0; steps--) {
            uint64_t n = rng_below(&r, NAMES);
            store(t, &m, n);
            assert_int_equal(load(t, &m, n), HIT);
            for (uint64_t used = rng_below(&r, 8); used > 0; used--)
                assert_int_not_equal(load(t, &m, rng_below(&r, NAMES)), WRONG);
            if (rng_below(&r, 100) == 0)
                assert_int_equal(t->ops->drop(t, 1 + rng_below(&r, 3), NULL), OK);
        }
        assert_true(folder_usage(&f).size <= 120 * RECORD);
        t->ops->close(t);
    }
    folder_remove(&f);
    free(m.bytes);
}

/* ---- killed -------------------------------------------------------------------------------------------------- */

typedef struct { /* from the child: what it had done when it said so */
    enum { SAYS_PUT, SAYS_FLUSHED, SAYS_DROPPING, SAYS_DROPPED } what;
    uint32_t n;
} word;

static int die_at; /* this write of the child is cut short and is its last; 0: none */

static ssize_t deadly_write(disk_io *self, int fd, const void *data, size_t size, off_t offset)
{
    (void)self;
    if (die_at && --die_at == 0) {
        ssize_t half = pwrite(fd, data, size / 2, offset);
        raise(SIGKILL);
        return half;
    }
    return pwrite(fd, data, size, offset);
}

static void say(int to, word w)
{
    if (write(to, &w, sizeof w) != sizeof w)
        _exit(3);
}

static void child_works(const folder *f, fake_mover *m, uint64_t cap, uint64_t seed, int to)
{
    disk_io io = disk_io_system;
    io.pwrite = deadly_write;
    rng r = {seed};
    die_at = rng_below(&r, 2) ? 0 : 1 + (int)rng_below(&r, 150);
    tier *t = tier_over(f, m, cap, &io);
    if (!t)
        _exit(2);
    for (;;) {
        uint32_t n = (uint32_t)rng_below(&r, NAMES);
        uint64_t what = rng_below(&r, 300);
        say(to, (word){SAYS_PUT, n});
        store(t, m, n);
        if (what < 20) {
            t->ops->flush(t);
            say(to, (word){SAYS_FLUSHED, 0});
        } else if (what < 22) {
            uint32_t space = 1 + (uint32_t)rng_below(&r, 3);
            say(to, (word){SAYS_DROPPING, space});
            t->ops->drop(t, space, NULL);
            say(to, (word){SAYS_DROPPED, space});
        } else if (load(t, m, n) == WRONG) {
            _exit(4);
        }
    }
}

static void hear(uint8_t *known, word w)
{
    for (uint32_t n = 0; n < NAMES; n++) {
        bool of_space = space_of(n) == w.n;
        if (w.what == SAYS_FLUSHED && known[n] == MAYBE)
            known[n] = PRESENT;
        if (w.what == SAYS_DROPPING && of_space && known[n] == PRESENT)
            known[n] = MAYBE;
        if (w.what == SAYS_DROPPED && of_space)
            known[n] = ABSENT;
    }
    if (w.what == SAYS_PUT && known[w.n] == ABSENT)
        known[w.n] = MAYBE;
}

static void kill_one(const folder *f, fake_mover *m, uint64_t cap, uint64_t seed, uint8_t *known)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(ends[0]);
        child_works(f, m, cap, seed, ends[1]);
    }
    close(ends[1]);
    rng r = {seed + 1};
    uint64_t until = clock_now_us() + 2000 + rng_below(&r, 60000);
    nanosleep(&(struct timespec){.tv_nsec = (long)(until - clock_now_us()) * 1000 % 1000000000}, NULL);
    kill(child, SIGKILL);
    word w;
    while (read(ends[0], &w, sizeof w) == sizeof w)
        hear(known, w);
    close(ends[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void keeps_what_was_flushed_when_it_is_killed(void **state)
{
    (void)state;
    log_set_level(LOG_ERROR);
    for (int small = 0; small < 2; small++) {
        folder f = folder_make();
        fake_mover m = fake_mover_of(2, PARTS, PART_BYTES);
        uint8_t known[NAMES] = {0};
        uint64_t cap = small ? 120 * RECORD : 64 << 20;
        for (uint32_t i = 0; i < 10 * rounds(); i++) {
            kill_one(&f, &m, cap, i * 2 + 1000 * (uint64_t)small, known);
            tier *t = tier_over(&f, &m, cap, NULL);
            assert_non_null(t);
            for (uint32_t n = 0; small && n < NAMES; n++)
                known[n] = known[n] ? MAYBE : ABSENT;
            check_all(t, &m, known, NAMES, "after a kill");
            assert_true(folder_usage(&f).size <= cap);
            for (uint32_t n = 0; n < NAMES; n++) /* what has survived is safe now */
                known[n] = has(t, n) ? PRESENT : ABSENT;
            t->ops->close(t);
        }
        folder_remove(&f);
        free(m.bytes);
    }
    log_set_level(LOG_WARN);
}

/* ---- a disk that fails, and power that goes ------------------------------------------------------------------ */

enum { UNDO_MAX = 4096 };

typedef struct { /* a write that was not synced: what was there before */
    int fd;      /* of our own */
    dev_t device;
    ino_t inode;
    off_t offset, size_before;
    size_t size;
    uint8_t *before;
} undo;

typedef struct {
    disk_io base; /* first */
    rng random;
    uint32_t fail_one_in; /* calls; 0: none */
    bool dead;            /* the power is gone: nothing works any more */
    undo undos[UNDO_MAX];
    uint32_t undo_count;
    pthread_mutex_t lock;
} bad_disk;

static bool call_fails(bad_disk *d)
{
    pthread_mutex_lock(&d->lock);
    bool fails = d->dead || (d->fail_one_in && rng_below(&d->random, d->fail_one_in) == 0);
    errno = rng_below(&d->random, 2) ? EIO : ENOSPC;
    pthread_mutex_unlock(&d->lock);
    return fails;
}

static ssize_t bad_pread(disk_io *self, int fd, void *data, size_t size, off_t offset)
{
    bad_disk *d = (bad_disk *)self;
    if (call_fails(d))
        return -1;
    return pread(fd, data, size > 1000 && d->fail_one_in ? size / 2 : size, offset); /* short ones are no failure */
}

static void remember(bad_disk *d, int fd, size_t size, off_t offset)
{
    struct stat s;
    pthread_mutex_lock(&d->lock);
    if (d->undo_count < UNDO_MAX && fstat(fd, &s) == 0) {
        undo *u = &d->undos[d->undo_count++];
        *u = (undo){dup(fd), s.st_dev, s.st_ino, offset, s.st_size, size, calloc(1, size)};
        if (pread(fd, u->before, size, offset) < 0)
            u->size = 0;
    }
    pthread_mutex_unlock(&d->lock);
}

static ssize_t bad_pwrite(disk_io *self, int fd, const void *data, size_t size, off_t offset)
{
    bad_disk *d = (bad_disk *)self;
    bool fails = call_fails(d);
    int code = errno;
    if (!d->dead)
        remember(d, fd, size, offset);
    if (fails && !d->dead && size > 600 && pwrite(fd, data, size / 3, offset) < 0) /* some of it is written */
        return -1;
    errno = code;
    return fails ? -1 : pwrite(fd, data, size, offset);
}

static int bad_sync(disk_io *self, int fd, bool names)
{
    bad_disk *d = (bad_disk *)self;
    struct stat s;
    (void)names;
    if (call_fails(d) || fstat(fd, &s) != 0)
        return -1;
    pthread_mutex_lock(&d->lock);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < d->undo_count; i++) {
        if (d->undos[i].inode == s.st_ino && d->undos[i].device == s.st_dev) {
            close(d->undos[i].fd);
            free(d->undos[i].before);
        } else {
            d->undos[kept++] = d->undos[i];
        }
    }
    d->undo_count = kept;
    pthread_mutex_unlock(&d->lock);
    return 0;
}

static int bad_remove(disk_io *self, int dir, const char *name)
{
    return call_fails((bad_disk *)self) ? -1 : unlinkat(dir, name, 0);
}

static int bad_rename(disk_io *self, int dir, const char *from, const char *to)
{
    return call_fails((bad_disk *)self) ? -1 : renameat(dir, from, dir, to);
}

static int bad_resize(disk_io *self, int fd, off_t size)
{
    return call_fails((bad_disk *)self) ? -1 : ftruncate(fd, size);
}

static void bad_disk_init(bad_disk *d, uint64_t seed)
{
    *d = (bad_disk){.base = disk_io_system, .random = {seed}};
    pthread_mutex_init(&d->lock, NULL);
    d->base.pread = bad_pread;
    d->base.pwrite = bad_pwrite;
    d->base.sync = bad_sync;
    d->base.remove = bad_remove;
    d->base.rename = bad_rename;
    d->base.resize = bad_resize;
}

/* Of each write that was not synced, newest first, some sectors have not reached the disk. */
static void lose_power(bad_disk *d)
{
    while (d->undo_count) {
        undo *u = &d->undos[--d->undo_count];
        for (size_t at = 0; at < u->size; at += 512) {
            size_t size = u->size - at < 512 ? u->size - at : 512;
            if (rng_below(&d->random, 2) && pwrite(u->fd, u->before + at, size, u->offset + (off_t)at) < 0)
                break;
        }
        if (rng_below(&d->random, 4) == 0 && ftruncate(u->fd, u->size_before) != 0)
            u->size = 0;
        close(u->fd);
        free(u->before);
    }
}

static void settle(bad_disk *d)
{
    d->fail_one_in = 0;
    while (d->undo_count) {
        close(d->undos[--d->undo_count].fd);
        free(d->undos[d->undo_count].before);
    }
}

static void keeps_what_was_flushed_when_the_power_goes(void **state)
{
    (void)state;
    bad_disk *d = malloc(sizeof *d);
    log_set_level(LOG_ERROR);
    for (uint32_t round = 0; round < 20 * rounds(); round++) {
        folder f = folder_make();
        fake_mover m = fake_mover_of(2, PARTS, PART_BYTES);
        uint8_t known[NAMES] = {0};
        bad_disk_init(d, round);
        tier *t = tier_over(&f, &m, 64 << 20, &d->base);
        assert_non_null(t);
        for (uint32_t i = 0, end = 20 + (uint32_t)rng_below(&d->random, 150); i < end; i++) {
            uint32_t n = (uint32_t)rng_below(&d->random, NAMES);
            store(t, &m, n);
            hear(known, (word){SAYS_PUT, n});
            if (i % 40 == 20) {
                t->ops->flush(t);
                hear(known, (word){SAYS_FLUSHED, 0});
            }
        }
        pthread_mutex_lock(&d->lock);
        d->dead = true;
        pthread_mutex_unlock(&d->lock);
        t->ops->close(t);
        lose_power(d);
        t = tier_over(&f, &m, 64 << 20, NULL);
        assert_non_null(t);
        check_all(t, &m, known, NAMES, "after the power went");
        t->ops->close(t);
        folder_remove(&f);
        free(m.bytes);
    }
    log_set_level(LOG_WARN);
    free(d);
}

/* Copies of what is used are safe before their originals go. */
static void keeps_what_is_used_when_the_power_goes_in_a_sweep(void **state)
{
    (void)state;
    enum { CHATS = 10 };
    bad_disk *d = malloc(sizeof *d);
    log_set_level(LOG_ERROR);
    for (uint32_t round = 0; round < 20 * rounds(); round++) {
        folder f = folder_make();
        fake_mover m = fake_mover_of(2, PARTS, PART_BYTES);
        bad_disk_init(d, round);
        tier *t = tier_over(&f, &m, 200 * RECORD, &d->base);
        assert_non_null(t);
        for (uint64_t n = 0; n < CHATS * 8; n++) /* scattered: the segments they lie in will go */
            store(t, &m, n % 8 ? 1000 + n : n / 8);
        t->ops->flush(t);
        for (uint64_t n = CHATS, end = 200 + rng_below(&d->random, 400); n < end; n++) {
            store(t, &m, n);
            for (uint64_t chat = 0; n % 5 == 0 && chat < CHATS; chat++)
                touch(t, chat);
        }
        pthread_mutex_lock(&d->lock);
        d->dead = true;
        pthread_mutex_unlock(&d->lock);
        t->ops->close(t);
        lose_power(d);
        t = tier_over(&f, &m, 200 * RECORD, NULL);
        assert_non_null(t);
        for (uint64_t n = 0; n < CHATS; n++)
            assert_int_equal(load(t, &m, n), HIT);
        t->ops->close(t);
        folder_remove(&f);
        free(m.bytes);
    }
    log_set_level(LOG_WARN);
    free(d);
}

static void calls_that_fail_are_never_wrong_bytes(void **state)
{
    (void)state;
    bad_disk *d = malloc(sizeof *d);
    log_set_level(LOG_ERROR + 1);
    for (uint32_t round = 0; round < 10 * rounds(); round++) {
        folder f = folder_make();
        fake_mover m = fake_mover_of(2, PARTS, PART_BYTES);
        uint64_t cap = round % 2 ? 100 * RECORD : 64 << 20, hits = 0;
        bad_disk_init(d, round);
        tier *t = tier_over(&f, &m, cap, &d->base);
        assert_non_null(t);
        d->fail_one_in = 5 + (uint32_t)rng_below(&d->random, 100);
        for (uint32_t i = 0; i < 400; i++) {
            uint32_t n = (uint32_t)rng_below(&d->random, NAMES);
            ((disk_tier *)t)->retry_us = 0; /* no second's rest after each failure */
            store(t, &m, n);
            answer a = load(t, &m, n);
            assert_int_not_equal(a, WRONG);
            hits += a == HIT;
            if (i % 50 == 0)
                t->ops->flush(t);
            if (i % 150 == 149)
                t->ops->drop(t, 1, NULL);
            assert_true(folder_usage(&f).size <= cap);
        }
        assert_true(hits > 10);
        t->ops->close(t);
        settle(d);
        t = tier_over(&f, &m, cap, NULL);
        assert_non_null(t);
        for (uint32_t n = 0; n < NAMES; n++)
            assert_int_not_equal(load(t, &m, n), WRONG);
        store(t, &m, 1);
        assert_int_equal(load(t, &m, 1), HIT);
        t->ops->close(t);
        folder_remove(&f);
        free(m.bytes);
    }
    log_set_level(LOG_WARN);
    free(d);
}

/* ---- bits that flip ------------------------------------------------------------------------------------------ */

typedef struct {
    rng random;
    uint64_t total, at; /* bytes of all files; the one that flips */
    uint8_t mask;
} flip;

static void measure_file(void *context, const char *path, const char *name)
{
    struct stat s;
    (void)name;
    if (stat(path, &s) == 0)
        ((flip *)context)->total += (uint64_t)s.st_size;
}

static void flip_in_file(void *context, const char *path, const char *name)
{
    flip *p = context;
    struct stat s;
    (void)name;
    if (stat(path, &s) != 0 || p->at == UINT64_MAX)
        return;
    if (p->at >= (uint64_t)s.st_size) {
        p->at -= (uint64_t)s.st_size;
        return;
    }
    uint8_t byte;
    int fd = open(path, O_RDWR);
    assert_true(pread(fd, &byte, 1, (off_t)p->at) == 1);
    byte ^= p->mask;
    assert_true(pwrite(fd, &byte, 1, (off_t)p->at) == 1);
    close(fd);
    p->at = UINT64_MAX;
}

static void flipped_bits_are_misses(void **state)
{
    (void)state;
    enum { KEPT = 8, FLIPS = 20 };
    log_set_level(LOG_ERROR + 1);
    folder f = folder_make();
    fake_mover m = fake_mover_of(2, PARTS, PART_BYTES);
    flip p = {.random = {3}};
    uint32_t misses = 0;
    for (uint32_t i = 0; i < 50 * rounds(); i++) {
        tier *t = tier_over(&f, &m, 4 << 20, NULL);
        assert_non_null(t);
        for (uint64_t n = 0; n < KEPT; n++)
            store(t, &m, n);
        t->ops->close(t);
        p.total = 0;
        each_file(&f, measure_file, &p);
        for (uint32_t k = 0; k < FLIPS; k++) {
            p.at = rng_below(&p.random, p.total);
            p.mask = (uint8_t)(1u << rng_below(&p.random, 8));
            each_file(&f, flip_in_file, &p);
        }
        t = tier_over(&f, &m, 4 << 20, NULL);
        assert_non_null(t);
        for (uint64_t n = 0; n < KEPT; n++) {
            answer a = load(t, &m, n);
            assert_int_not_equal(a, WRONG);
            misses += a == MISS;
        }
        t->ops->close(t);
    }
    assert_true(misses > 0);
    folder_remove(&f);
    free(m.bytes);
    log_set_level(LOG_WARN);
}

int main(void)
{
    log_set_level(LOG_WARN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_a_naive_model),
        cmocka_unit_test(a_smaller_cap_holds_from_the_open_on),
        cmocka_unit_test(short_lives_leave_room),
        cmocka_unit_test(keeps_what_was_flushed_when_it_is_killed),
        cmocka_unit_test(keeps_what_was_flushed_when_the_power_goes),
        cmocka_unit_test(keeps_what_is_used_when_the_power_goes_in_a_sweep),
        cmocka_unit_test(calls_that_fail_are_never_wrong_bytes),
        cmocka_unit_test(flipped_bits_are_misses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
