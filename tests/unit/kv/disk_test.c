/* tests/unit/kv/disk_test.c: what the disk tier promises, one promise a test. */
#ifdef __linux__
#define _GNU_SOURCE
#endif
#include "unit/kv/disk_fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "base/log.h"

enum { PARTS = 3, PART_BYTES = 5000, MEGABYTE = 1 << 20 };

typedef struct {
    folder f;
    fake_mover m;
    tier *t;
    disk_io io; /* the system's, with another clock */
} fixture;

static uint64_t fake_now_us;

static uint64_t read_fake_now(disk_io *self)
{
    (void)self;
    return fake_now_us;
}

/* In place: the tier keeps the mover's address. */
static void fixture_open(fixture *x, uint64_t bytes_max)
{
    *x = (fixture){.f = folder_make(), .m = fake_mover_of(64, PARTS, PART_BYTES), .io = disk_io_system};
    assert_true(x->f.path[0]);
    x->t = tier_over(&x->f, &x->m, bytes_max, NULL);
    assert_non_null(x->t);
}

static void reopen(fixture *x, uint64_t bytes_max, disk_io *io)
{
    x->t->ops->close(x->t);
    x->t = tier_over(&x->f, &x->m, bytes_max, io);
    assert_non_null(x->t);
}

static void fixture_close(fixture *x)
{
    if (x->t)
        x->t->ops->close(x->t);
    folder_remove(&x->f);
    free(x->m.bytes);
}

static void gives_back_what_was_put(void **state)
{
    (void)state;
    for (int no_place = 0; no_place < 2; no_place++) {
        fixture x;
        fixture_open(&x, 8 * MEGABYTE);
        x.m.no_place = no_place;
        for (uint64_t n = 0; n < 100; n++)
            store(x.t, &x.m, n);
        for (uint64_t n = 0; n < 100; n++) {
            assert_true(has(x.t, n));
            assert_int_equal(load(x.t, &x.m, n), HIT);
        }
        assert_false(has(x.t, 100));
        assert_int_equal(load(x.t, &x.m, 100), MISS);
        tier_counts c = counts_of(x.t);
        assert_int_equal(c.records, 100);
        assert_int_equal(c.puts, 100);
        assert_int_equal(c.gets, 101);
        assert_int_equal(c.misses, 1);
        assert_int_equal(c.damaged + c.dropped + c.errors, 0);
        assert_true(c.online);
        fixture_close(&x);
    }
}

static void comes_back_after_a_close(void **state)
{
    (void)state;
    fixture x;
    fixture_open(&x, 16 * MEGABYTE);
    for (uint64_t n = 0; n < 300; n++) {
        store(x.t, &x.m, n);
        if (n % 100 == 99)
            reopen(&x, 16 * MEGABYTE, NULL);
    }
    for (uint64_t n = 0; n < 300; n++)
        assert_int_equal(load(x.t, &x.m, n), HIT);
    fixture_close(&x);
}

typedef struct {
    uint32_t parts, calls, last_part, order_breaks;
    uint32_t seen[64];
    atomic_bool *stop_at_ten;
} order_log;

static void see_order(void *context, uint32_t index, uint32_t part, status st)
{
    order_log *o = context;
    assert_int_equal(st, OK);
    o->order_breaks += part + 1 < o->last_part; /* a part that comes two late */
    o->last_part = part > o->last_part ? part : o->last_part;
    assert_false(o->seen[index] >> part & 1);
    o->seen[index] |= 1u << part;
    if (++o->calls == 10 && o->stop_at_ten)
        atomic_store(o->stop_at_ten, true);
}

static void lands_each_part_once_and_stops_early(void **state)
{
    (void)state;
    fixture x;
    fixture_open(&x, 8 * MEGABYTE);
    int32_t tokens[64][FIXTURE_TOKENS];
    tier_page pages[64];
    for (uint32_t i = 0; i < 64; i++) {
        fill_page(&x.m, i, i);
        pages[i] = page_of(i, i, tokens[i]);
    }
    x.t->ops->put(x.t, pages, 64);
    memset(x.m.bytes, 0, 64 * PARTS * PART_BYTES);
    order_log o = {0};
    x.t->ops->get(x.t, pages, 64, see_order, &o, NULL);
    assert_int_equal(o.calls, 64 * PARTS);
    for (uint32_t i = 0; i < 64; i++)
        assert_true(page_is(&x.m, i, i));
    atomic_bool stop = false;
    order_log stopped = {.stop_at_ten = &stop};
    x.t->ops->get(x.t, pages, 64, see_order, &stopped, &stop);
    assert_true(stopped.calls >= 10 && stopped.calls <= 10 + DISK_RING_DEPTH * DISK_RING_LANES + DISK_LANES_MAX);
    fixture_close(&x);
}

static void other_tokens_under_a_key_are_a_miss(void **state)
{
    (void)state;
    fixture x;
    fixture_open(&x, 8 * MEGABYTE);
    store(x.t, &x.m, 1);
    int32_t tokens[FIXTURE_TOKENS], others[FIXTURE_TOKENS];
    tier_page p = page_of(1, 1, tokens);
    p.tokens = tokens_of(2, others);
    landing l = {0};
    x.t->ops->get(x.t, &p, 1, see_landing, &l, NULL);
    assert_int_equal(l.failed, 1);
    assert_int_equal(l.parts_ok, 0);
    assert_int_equal(load(x.t, &x.m, 1), HIT); /* it was not forgotten for that */
    fill_page(&x.m, 0, 2);                     /* another page by that key takes its place */
    p.page = 0;
    x.t->ops->put(x.t, &p, 1);
    assert_int_equal(load(x.t, &x.m, 1), MISS);
    l = (landing){0};
    x.t->ops->get(x.t, &p, 1, see_landing, &l, NULL);
    assert_int_equal(l.parts_ok, PARTS);
    fixture_close(&x);
}

static void one_process_has_the_folder(void **state)
{
    (void)state;
    fixture x;
    fixture_open(&x, 8 * MEGABYTE);
    tier *second = NULL;
    error err = {0};
    disk_tier_config c = {.dir = x.f.path, .bytes_max = 8 * MEGABYTE, .mover = &x.m.base};
    assert_int_equal(disk_tier_open(&second, &c, &err), ERR_BUSY);
    char pid[32];
    snprintf(pid, sizeof pid, "process %ld", (long)getpid());
    assert_non_null(strstr(err.text, pid));
    x.t->ops->close(x.t);
    assert_int_equal(disk_tier_open(&x.t, &c, &err), OK);
    fixture_close(&x);
}

static void a_folder_of_another_model_is_emptied(void **state)
{
    (void)state;
    fixture x;
    fixture_open(&x, 8 * MEGABYTE);
    for (uint64_t n = 0; n < 100; n++)
        store(x.t, &x.m, n);
    x.m.base.fingerprint++;
    log_set_level(LOG_ERROR);
    reopen(&x, 8 * MEGABYTE, NULL);
    log_set_level(LOG_WARN);
    for (uint64_t n = 0; n < 100; n++) {
        assert_false(has(x.t, n));
        assert_int_equal(load(x.t, &x.m, n), MISS);
    }
    assert_true(folder_usage(&x.f).size < 20000);
    store(x.t, &x.m, 5);
    reopen(&x, 8 * MEGABYTE, NULL);
    assert_int_equal(load(x.t, &x.m, 5), HIT);
    fixture_close(&x);
}

static void write_file(const folder *f, const char *name, const void *data, size_t size)
{
    char path[400];
    in_folder(f, name, path);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    close(fd);
}

static void leaves_the_files_of_others_alone_and_counts_them(void **state)
{
    (void)state;
    fixture x;
    fixture_open(&x, 8 * MEGABYTE);
    store(x.t, &x.m, 1);
    char *stranger = calloc(1, 2 * MEGABYTE), path[400], away[400];
    memset(stranger, 'x', 2 * MEGABYTE);
    write_file(&x.f, "notes.txt", stranger, 2 * MEGABYTE);
    write_file(&x.f, "0000abcd.seg", stranger, 100000); /* by our name, but nobody knows it */
    write_file(&x.f, "index.new", stranger, 1000);
    in_folder(&x.f, "target.txt", away);
    write_file(&x.f, "target.txt", "keep me", 7);
    in_folder(&x.f, "0000abce.seg", path);
    assert_int_equal(symlink(away, path), 0);
    reopen(&x, 8 * MEGABYTE, NULL);
    assert_int_equal(load(x.t, &x.m, 1), HIT);
    for (uint64_t n = 0; n < 1000; n++) {
        store(x.t, &x.m, n);
        assert_true(folder_usage(&x.f).size <= 8 * MEGABYTE);
    }
    struct stat s;
    in_folder(&x.f, "0000abcd.seg", path);
    assert_int_not_equal(stat(path, &s), 0);
    assert_int_equal(stat(away, &s), 0);
    assert_int_equal(s.st_size, 7);
    in_folder(&x.f, "notes.txt", path);
    assert_int_equal(stat(path, &s), 0);
    assert_int_equal(s.st_size, 2 * MEGABYTE);
    free(stranger);
    fixture_close(&x);
}

static status try_open(const char *dir, uint64_t bytes_max, fake_mover *m, error *err)
{
    tier *t = NULL;
    disk_tier_config c = {.dir = dir, .bytes_max = bytes_max, .mover = &m->base};
    status st = disk_tier_open(&t, &c, err);
    if (t)
        t->ops->close(t);
    return st;
}

static void says_why_a_folder_is_no_good(void **state)
{
    (void)state;
    fixture x;
    fixture_open(&x, 8 * MEGABYTE);
    error err = {0};
    char path[400];
    write_file(&x.f, "file", "", 0);
    in_folder(&x.f, "file", path);
    assert_int_equal(try_open(path, 8 * MEGABYTE, &x.m, &err), ERR_IO);
    assert_non_null(strstr(err.text, "file"));
    in_folder(&x.f, "file/below", path);
    assert_int_equal(try_open(path, 8 * MEGABYTE, &x.m, &err), ERR_IO);
    x.t->ops->close(x.t);
    x.t = NULL;
    assert_int_equal(chmod(x.f.path, 0777), 0);
    assert_int_equal(try_open(x.f.path, 8 * MEGABYTE, &x.m, &err), ERR_IO);
    assert_non_null(strstr(err.text, "others may write"));
    assert_int_equal(chmod(x.f.path, 0700), 0);
    assert_int_equal(try_open(x.f.path, 50000, &x.m, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "too few"));
    assert_int_equal(try_open("", 8 * MEGABYTE, &x.m, &err), ERR_IO);
    fixture_close(&x);
}

static void check_mode(void *context, const char *path, const char *name)
{
    struct stat s;
    (void)context, (void)name;
    assert_int_equal(stat(path, &s), 0);
    assert_int_equal(s.st_mode & 0777, 0600);
}

static void nobody_else_may_read(void **state)
{
    (void)state;
    fixture x;
    fixture_open(&x, 8 * MEGABYTE);
    char path[400];
    in_folder(&x.f, "a/b", path);
    tier *t = NULL;
    disk_tier_config c = {.dir = path, .bytes_max = 8 * MEGABYTE, .mover = &x.m.base};
    mode_t before = umask(0);
    assert_int_equal(disk_tier_open(&t, &c, NULL), OK);
    store(t, &x.m, 1);
    t->ops->close(t);
    umask(before);
    struct stat s;
    assert_int_equal(stat(path, &s), 0);
    assert_int_equal(s.st_mode & 0777, 0700);
    folder inner;
    snprintf(inner.path, sizeof inner.path, "%.120s", path);
    each_file(&inner, check_mode, NULL);
    folder_remove(&inner);
    in_folder(&x.f, "a", path);
    rmdir(path);
    fixture_close(&x);
}

/* ---- forgetting ---------------------------------------------------------------------------------------------- */

typedef struct {
    const void *what;
    size_t size;
    uint32_t found;
} needle;

static void look_for(void *context, const char *path, const char *name)
{
    needle *n = context;
    struct stat s;
    (void)name;
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0 && fstat(fd, &s) == 0);
    char *all = malloc((size_t)s.st_size + 1);
    assert_int_equal(read(fd, all, (size_t)s.st_size), s.st_size);
    n->found += memmem(all, (size_t)s.st_size, n->what, n->size) != NULL;
    free(all);
    close(fd);
}

static bool lies_in(const folder *f, const void *what, size_t size)
{
    needle n = {what, size, 0};
    each_file(f, look_for, &n);
    return n.found > 0;
}

/* Its tokens, its bytes and its key. */
static int traces_of(fixture *x, uint64_t n)
{
    int32_t tokens[FIXTURE_TOKENS];
    prefix_key k = key_of(n);
    fill_page(&x->m, 2, n);
    return lies_in(&x->f, tokens_of(n, tokens), sizeof tokens) + lies_in(&x->f, &k, sizeof k) +
           lies_in(&x->f, fake_place(&x->m, 2, 1), 1000);
}

static void what_is_dropped_is_gone_from_the_files(void **state)
{
    (void)state;
    fixture x;
    fixture_open(&x, 8 * MEGABYTE);
    for (uint64_t n = 0; n < 60; n++)
        store(x.t, &x.m, n);
    x.t->ops->flush(x.t);
    for (uint64_t n = 60; n < 90; n++) /* these are not safe yet when it comes */
        store(x.t, &x.m, n);
    assert_int_equal(traces_of(&x, 4), 3); /* the search finds what is there */
    assert_int_equal(x.t->ops->drop(x.t, 2, NULL), OK);
    for (int again = 0; again < 2; again++) {
        for (uint64_t n = 0; n < 90; n++) {
            assert_int_equal(load(x.t, &x.m, n), space_of(n) == 2 ? MISS : HIT);
            assert_int_equal(traces_of(&x, n) == 0, space_of(n) == 2);
        }
        reopen(&x, 8 * MEGABYTE, NULL);
    }
    assert_int_equal(counts_of(x.t).damaged, 0);
    store(x.t, &x.m, 4); /* may come back */
    assert_int_equal(load(x.t, &x.m, 4), HIT);
    assert_int_equal(x.t->ops->drop(x.t, 0, NULL), OK);
    assert_int_equal(counts_of(x.t).records, 0);
    assert_true(folder_usage(&x.f).size < 20000);
    fixture_close(&x);
}

static void what_is_not_used_expires(void **state)
{
    (void)state;
    fixture x;
    fixture_open(&x, 8 * MEGABYTE);
    x.io.now_us = read_fake_now;
    fake_now_us = 1000000000000;
    reopen(&x, 8 * MEGABYTE, &x.io);
    for (uint64_t n = 0; n < 30; n++)
        store(x.t, &x.m, n);
    fake_now_us += 100 * 1000000ull;
    for (uint64_t n = 0; n < 10; n++)
        touch(x.t, n);
    for (uint64_t n = 10; n < 20; n++)
        assert_int_equal(load(x.t, &x.m, n), HIT); /* a use as well */
    reopen(&x, 8 * MEGABYTE, &x.io);               /* times come back too */
    fake_now_us += 50 * 1000000ull;
    x.t->ops->expire(x.t, 100 * 1000000ull);
    for (uint64_t n = 0; n < 30; n++) {
        assert_int_equal(has(x.t, n), n < 20);
        assert_int_equal(traces_of(&x, n) > 0, n < 20);
    }
    fixture_close(&x);
}

static void what_is_used_outlives_a_sweep(void **state)
{
    (void)state;
    uint64_t cap = 4 * MEGABYTE, records = cap / (DISK_BLOCK + PARTS * 8192);
    fixture x;
    fixture_open(&x, cap);
    for (uint64_t n = 0; n < 30; n++) /* a quarter of it all */
        store(x.t, &x.m, n);
    for (uint64_t n = 1000; n < 1000 + 10 * records; n++) {
        store(x.t, &x.m, n);
        if (n % 20 == 0)
            for (uint64_t chat = 0; chat < 30; chat++)
                touch(x.t, chat);
    }
    uint64_t documents = 0;
    for (uint64_t n = 0; n < 30; n++)
        assert_int_equal(load(x.t, &x.m, n), HIT);
    for (uint64_t n = 1000; n < 1000 + 10 * records; n++)
        documents += has(x.t, n);
    assert_true(documents > (records - 30) * 3 / 4); /* the room is used */
    for (uint64_t n = 1000 + 10 * records - 50; n < 1000 + 10 * records; n++)
        assert_true(has(x.t, n));
    fixture_close(&x);
}

/* ---- trouble ------------------------------------------------------------------------------------------------- */

static int no_space_after; /* writes that still work; -1: all */

static ssize_t limited_write(disk_io *self, int fd, const void *data, size_t size, off_t offset)
{
    (void)self;
    if (no_space_after == 0) {
        errno = ENOSPC;
        return -1;
    }
    no_space_after -= no_space_after > 0;
    return pwrite(fd, data, size, offset);
}

static void a_full_disk_is_a_state_and_passes(void **state)
{
    (void)state;
    fixture x;
    fixture_open(&x, 8 * MEGABYTE);
    log_set_level(LOG_ERROR);
    x.io.pwrite = limited_write;
    x.io.now_us = read_fake_now;
    fake_now_us = 1000000000000;
    no_space_after = -1;
    reopen(&x, 8 * MEGABYTE, &x.io);
    for (uint64_t n = 0; n < 10; n++)
        store(x.t, &x.m, n);
    x.t->ops->flush(x.t);
    no_space_after = 0;
    for (uint64_t n = 10; n < 20; n++)
        store(x.t, &x.m, n);
    tier_counts c = counts_of(x.t);
    assert_false(c.online);
    assert_non_null(strstr(c.state, "No space left"));
    assert_int_equal(c.dropped, 10);
    assert_int_equal(c.errors, 1); /* the others did not try */
    for (uint64_t n = 0; n < 20; n++)
        assert_int_equal(load(x.t, &x.m, n), n < 10 ? HIT : MISS);
    reopen(&x, 8 * MEGABYTE, &x.io); /* a start on a full disk works, with what is there */
    for (uint64_t n = 0; n < 10; n++)
        assert_int_equal(load(x.t, &x.m, n), HIT);
    no_space_after = -1;
    fake_now_us += 10 * 1000000ull;
    for (uint64_t n = 10; n < 20; n++)
        store(x.t, &x.m, n);
    assert_true(counts_of(x.t).online);
    for (uint64_t n = 0; n < 20; n++)
        assert_int_equal(load(x.t, &x.m, n), HIT);
    log_set_level(LOG_WARN);
    fixture_close(&x);
}

static void a_damaged_record_is_a_miss_and_can_be_stored_again(void **state)
{
    (void)state;
    fixture x;
    fixture_open(&x, 8 * MEGABYTE);
    store(x.t, &x.m, 1);
    store(x.t, &x.m, 2);
    x.t->ops->flush(x.t);
    char path[400];
    in_folder(&x.f, "00000001.seg", path);
    int fd = open(path, O_WRONLY);
    assert_int_equal(pwrite(fd, "?", 1, DISK_BLOCK + 8192 + 77), 1);
    close(fd);
    assert_true(has(x.t, 1));
    assert_int_equal(load(x.t, &x.m, 1), MISS);
    assert_false(has(x.t, 1));
    assert_int_equal(load(x.t, &x.m, 2), HIT);
    assert_int_equal(counts_of(x.t).damaged, 1);
    store(x.t, &x.m, 1);
    assert_int_equal(load(x.t, &x.m, 1), HIT);
    reopen(&x, 8 * MEGABYTE, NULL);
    assert_int_equal(load(x.t, &x.m, 1), HIT);
    fixture_close(&x);
}

/* ---- threads ------------------------------------------------------------------------------------------------- */

typedef struct {
    fixture *x;
    atomic_bool stop;
    uint64_t hits;
} reader;

static void *read_on(void *context)
{
    reader *r = context;
    fake_mover m = fake_mover_of(2, PARTS, PART_BYTES); /* pages of its own, moved by the tier's mover below */
    rng random = {7};
    while (!atomic_load(&r->stop)) {
        uint64_t n = rng_below(&random, 400);
        int32_t tokens[FIXTURE_TOKENS];
        tier_page p = page_of(n, 1, tokens);
        landing l = {0};
        r->x->t->ops->get(r->x->t, &p, 1, see_landing, &l, NULL);
        if (l.parts_ok == PARTS) {
            assert_true(page_is(&r->x->m, 1, n));
            r->hits++;
        }
        has(r->x->t, n);
        touch(r->x->t, rng_below(&random, 400));
    }
    free(m.bytes);
    return NULL;
}

static void puts_drops_and_gets_go_on_at_once(void **state)
{
    (void)state;
    fixture x;
    fixture_open(&x, 3 * MEGABYTE);
    reader r = {.x = &x};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, read_on, &r), 0);
    rng random = {9};
    for (int i = 0; i < 1200; i++) {
        store(x.t, &x.m, rng_below(&random, 400));
        if (i % 500 == 250)
            assert_int_equal(x.t->ops->drop(x.t, 1 + rng_below(&random, 3), NULL), OK);
        if (i % 200 == 50)
            x.t->ops->flush(x.t);
        if (i % 1000 == 999)
            x.t->ops->expire(x.t, 1000);
    }
    atomic_store(&r.stop, true);
    pthread_join(thread, NULL);
    assert_true(r.hits > 20);
    assert_int_equal(counts_of(x.t).damaged, 0);
    fixture_close(&x);
}

int main(void)
{
    log_set_level(LOG_WARN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_back_what_was_put),
        cmocka_unit_test(comes_back_after_a_close),
        cmocka_unit_test(lands_each_part_once_and_stops_early),
        cmocka_unit_test(other_tokens_under_a_key_are_a_miss),
        cmocka_unit_test(one_process_has_the_folder),
        cmocka_unit_test(a_folder_of_another_model_is_emptied),
        cmocka_unit_test(leaves_the_files_of_others_alone_and_counts_them),
        cmocka_unit_test(says_why_a_folder_is_no_good),
        cmocka_unit_test(nobody_else_may_read),
        cmocka_unit_test(what_is_dropped_is_gone_from_the_files),
        cmocka_unit_test(what_is_not_used_expires),
        cmocka_unit_test(what_is_used_outlives_a_sweep),
        cmocka_unit_test(a_full_disk_is_a_state_and_passes),
        cmocka_unit_test(a_damaged_record_is_a_miss_and_can_be_stored_again),
        cmocka_unit_test(puts_drops_and_gets_go_on_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
