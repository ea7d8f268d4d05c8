/* An index log and a segment of any bytes open as a folder of the disk tier, answer, take a page and close, and the cap
 * holds. The first byte says how: bit 0 gives every entry of the log a good checksum, bit 1 does so for the headers of
 * the segment, so that what lies behind the checksums is reached too. Up to the second byte x 64 is the log. */
#include "unit/kv/disk_fixture.h"

#include "base/log.h"

enum { PARTS = 1, PART_BYTES = 512, RECORD = DISK_BLOCK + DISK_BLOCK, CAP = 64 * RECORD, LOG_ENTRIES = 64 };

static folder f;

static void remove_folder(void)
{
    folder_remove(&f);
}

static void write_to(const char *name, const void *data, size_t size)
{
    char path[400];
    in_folder(&f, name, path);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    close(fd);
}

static void seal_log(disk_log_entry *log, size_t count, const disk_shape *shape)
{
    if (count)
        log[0] = disk_log_first(shape);
    for (size_t i = 1; i < count; i++) {
        log[i].segment %= 4; /* some are there */
        log[i].slot %= 8;
        disk_log_seal(&log[i], shape);
    }
}

/* What the log says of a slot may be so: a header that was not zero fits to it. */
static void make_segment(uint8_t *segment, const uint8_t *data, size_t size, bool seal, const disk_log_entry *log,
                         size_t count, const disk_shape *shape)
{
    memcpy(segment, data, size);
    for (uint32_t slot = 0; seal && slot < 8; slot++) {
        disk_header *h = (disk_header *)(segment + slot * RECORD);
        tier_page p = {.key = slot < count ? log[slot].key : (prefix_key){slot, 1}};
        disk_header_fill(h, shape, &p);
        h->token_count = data[slot % (size ? size : 1)];
        h->part_check[0] = disk_part_check(segment + slot * RECORD + DISK_BLOCK, PART_BYTES);
        disk_header_seal(h);
    }
}

static void ask_all(tier *t, const disk_log_entry *log, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        tier_page p = {.key = log[i].key, .page = 1};
        landing l = {0};
        bool there;
        t->ops->has(t, &p.key, 1, &there);
        t->ops->get(t, &p, 1, see_landing, &l, NULL);
        if (l.parts_ok > PARTS || l.failed > 1 || l.parts_ok + l.failed == 0 || (l.parts_ok && !there))
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static fake_mover m;
    static disk_log_entry log[LOG_ENTRIES];
    static uint8_t segment[8 * RECORD];
    if (size < 2)
        return 0;
    if (!m.bytes) {
        log_set_level(LOG_ERROR + 1);
        m = fake_mover_of(2, PARTS, PART_BYTES);
        f = folder_make();
        atexit(remove_folder);
    }
    disk_shape shape = disk_shape_of(&m.base);
    size_t log_bytes = (size_t)data[1] * DISK_LOG_ENTRY;
    log_bytes = log_bytes > size - 2 ? size - 2 : log_bytes;
    log_bytes = log_bytes > sizeof log ? sizeof log : log_bytes;
    memset(log, 0, sizeof log);
    memset(segment, 0, sizeof segment);
    memcpy(log, data + 2, log_bytes);
    size_t count = (log_bytes + DISK_LOG_ENTRY - 1) / DISK_LOG_ENTRY, rest = size - 2 - log_bytes;
    if (data[0] & 1)
        seal_log(log, count, &shape);
    rest = rest > sizeof segment ? sizeof segment : rest;
    make_segment(segment, data + 2 + log_bytes, rest, data[0] & 2 && rest, log, count, &shape);
    write_to("index.log", log, log_bytes);
    write_to("00000001.seg", segment, sizeof segment - (data[0] & 4 ? 5000 : 0));
    write_to("00000002.seg", segment, data[0] & 8 ? sizeof segment : 0);
    tier *t = NULL;
    disk_tier_config c = {.dir = f.path, .bytes_max = CAP, .mover = &m.base, .no_uring = true};
    if (disk_tier_open(&t, &c, NULL) != OK)
        abort();
    ask_all(t, log, count);
    store(t, &m, 7);
    if (load(t, &m, 7) != HIT || folder_usage(&f).size > CAP)
        abort();
    if (data[0] & 16 && t->ops->drop(t, data[0] >> 6, NULL) != OK)
        abort();
    t->ops->close(t);
    each_file(&f, remove_one, NULL);
    return 0;
}
