/* tests/bench/disk_bench.c: how fast are pages usable from the disk, with a warm page cache and with none?
 * disk_bench DIR [PAGES [PART_BYTES [PARTS [ROUNDS]]]]; a file system like the real one, please. Beside it, what plain
 * reads of the same files in blocks of a part by one thread take, one after the other. */
#ifdef __linux__
#define _GNU_SOURCE
#endif
#include "unit/kv/disk_fixture.h"

#include <sys/mman.h>

#include "base/clock.h"
#include "base/log.h"

static void forget_file(void *context, const char *path, const char *name)
{
    (void)context, (void)name;
    int fd = open(path, O_RDONLY);
    if (fd < 0)
        return;
    fdatasync(fd);
#ifdef __linux__
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
#endif
    close(fd);
}

typedef struct {
    uint64_t bytes;
    size_t block;
} plain_read;

static void read_file(void *context, const char *path, const char *name)
{
    plain_read *p = context;
    void *chunk = malloc(p->block);
    int fd = open(path, O_RDONLY);
    (void)name;
    for (ssize_t got; fd >= 0 && (got = read(fd, chunk, p->block)) > 0;)
        p->bytes += (uint64_t)got;
    close(fd);
    free(chunk);
}

typedef struct {
    uint32_t pages, parts, done;
    uint32_t by_part[PAGE_PARTS_MAX];
    uint64_t start_us, first_us; /* part 0 of all */
} progress;

static void see(void *context, uint32_t index, uint32_t part, status st)
{
    progress *p = context;
    (void)index;
    if (st != OK)
        return;
    p->done++;
    if (++p->by_part[part] == p->pages && part == 0)
        p->first_us = clock_now_us() - p->start_us;
}

enum { WARM, COLD, ROUNDS_MAX = 99 };
static const char *const heats[] = {"warm", "cold"};

typedef struct {
    double ms[ROUNDS_MAX], first_ms[ROUNDS_MAX];
} series;

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void measure(tier *t, const tier_page *pages, uint32_t count, uint32_t parts, series *s, int round)
{
    progress p = {.pages = count, .parts = parts, .start_us = clock_now_us()};
    t->ops->get(t, pages, count, see, &p, NULL);
    s->ms[round] = (double)(clock_now_us() - p.start_us) / 1e3;
    s->first_ms[round] = (double)p.first_us / 1e3;
    if (p.done != count * parts)
        printf("%u of %u parts came\n", p.done, count * parts);
}

static void report(const char *what, const char *how, series *s, int rounds, size_t bytes)
{
    qsort(s->ms, (size_t)rounds, sizeof(double), by_value);
    qsort(s->first_ms, (size_t)rounds, sizeof(double), by_value);
    double ms = s->ms[rounds / 2];
    printf("%s, %-9s best %6.1f ms, median %6.1f ms (%5.0f MB/s), first part after %6.1f ms\n", what, how, s->ms[0], ms,
           (double)bytes / ms / 1e3, s->first_ms[rounds / 2]);
}

/* The ways take turns, so that what else the machine does meets all of them. */
static bool compare(const folder *f, fake_mover *m, const tier_page *pages, uint32_t count, int rounds)
{
    static series by[2][2], plain;
    size_t bytes = count * m->base.parts * m->base.part_bytes;
    char states[2][sizeof(tier_counts){0}.state];
    for (int i = 0; i < rounds; i++) {
        for (int no_uring = 0; no_uring < 2; no_uring++) {
            tier *t;
            disk_tier_config c = {.dir = f->path, .bytes_max = bytes * 4, .mover = &m->base, .no_uring = no_uring};
            if (disk_tier_open(&t, &c, NULL) != OK)
                return false;
            each_file(f, forget_file, NULL);
            measure(t, pages, count, m->base.parts, &by[COLD][no_uring], i);
            plain_read p = {.block = m->base.part_bytes};
            each_file(f, read_file, &p);
            measure(t, pages, count, m->base.parts, &by[WARM][no_uring], i);
            memcpy(states[no_uring], counts_of(t).state, sizeof states[0]);
            t->ops->close(t);
        }
        each_file(f, forget_file, NULL);
        plain_read p = {.block = m->base.part_bytes};
        uint64_t from = clock_now_us();
        each_file(f, read_file, &p);
        plain.ms[i] = (double)(clock_now_us() - from) / 1e3 * (double)bytes / (double)p.bytes;
    }
    for (int heat = WARM; heat <= COLD; heat++)
        for (int no_uring = 0; no_uring < 2; no_uring++)
            report(heats[heat], states[no_uring], &by[heat][no_uring], rounds, bytes);
    report("cold", "plain", &plain, rounds, bytes);
    return true;
}

int main(int argc, char **argv)
{
    uint32_t count = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 250;
    size_t part_bytes = argc > 3 ? strtoul(argv[3], NULL, 10) : 147456;
    uint32_t parts = argc > 4 ? (uint32_t)strtoul(argv[4], NULL, 10) : 5;
    int rounds = argc > 5 ? (int)strtol(argv[5], NULL, 10) : 7;
    fake_mover m = fake_mover_of(count, parts, part_bytes);
    size_t bytes = (size_t)count * parts * part_bytes;
    folder f;
    snprintf(f.path, sizeof f.path, "%s/headway-disk-XXXXXX", argc > 1 ? argv[1] : "/tmp");
    if (!m.bytes || rounds < 1 || rounds > ROUNDS_MAX || !mkdtemp(f.path))
        return 1;
    log_set_level(LOG_WARN);
#ifdef __linux__ /* as the pool of the CPU backend asks for: reads past the page cache go in larger pieces then */
    m.bytes = aligned_alloc(2 << 20, (bytes + (2 << 20)) & ~(size_t)((2 << 20) - 1));
    madvise(m.bytes, bytes, MADV_HUGEPAGE);
#endif
    tier_page *pages = malloc(count * sizeof *pages);
    int32_t(*tokens)[FIXTURE_TOKENS] = malloc(count * sizeof *tokens);
    for (uint32_t i = 0; i < count; i++) {
        fill_page(&m, i, i);
        pages[i] = page_of(i, i, tokens[i]);
    }
    tier *t = tier_over(&f, &m, bytes * 4, NULL);
    if (!t)
        return 1;
    uint64_t from = clock_now_us();
    t->ops->put(t, pages, count);
    uint64_t put_us = clock_now_us() - from;
    t->ops->flush(t);
    printf("%u pages, %.0f MB: put %.0f ms, safe after %.0f ms\n", count, (double)bytes / 1e6, (double)put_us / 1e3,
           (double)(clock_now_us() - from) / 1e3);
    t->ops->close(t);
    bool fine = compare(&f, &m, pages, count, rounds);
    for (uint32_t i = 0; i < count; i++)
        if (!page_is(&m, i, i))
            printf("page %u is wrong\n", i);
    if (!getenv("HEADWAY_KEEP")) /* to read the same files by other means */
        folder_remove(&f);
    return fine ? 0 : 1;
}
