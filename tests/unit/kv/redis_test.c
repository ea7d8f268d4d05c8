/* tests/unit/kv/redis_test.c: the Redis tier against a real server that is killed, stopped, full, strange; and against
 * one that is none. Where redis-server is not installed only the pure parts run. */
#include "unit/kv/redis_server.h"

#include "base/rng.h"
#include "kv/tier/redis_record.h"
#include "kv/tier/redis_url.h"
#include "unit/kv/memory_tier.h"

#include <setjmp.h>
#include <cmocka.h>

static bool have_redis;

#define NEEDS_REDIS()                                                                                                  \
    do {                                                                                                               \
        (void)state;                                                                                                   \
        if (!have_redis)                                                                                               \
            skip();                                                                                                    \
    } while (0)

/* ---- URLs ---- */

static void urls_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text, *host, *user, *password;
        uint32_t port, db;
        bool tls;
    } good[] = {
        {"redis://h", "h", "", "", 6379, 0, false},
        {"redis://h/", "h", "", "", 6379, 0, false},
        {"redis://cache.example:7000/3", "cache.example", "", "", 7000, 3, false},
        {"rediss://h:1", "h", "", "", 1, 0, true},
        {"redis://secret@h", "h", "", "secret", 6379, 0, false},
        {"redis://:secret@h:9/1", "h", "", "secret", 9, 1, false},
        {"redis://me:p%40ss%3a%2F@h", "h", "me", "p@ss:/", 6379, 0, false},
        {"redis://me:a@b@h", "h", "me", "a@b", 6379, 0, false},
        {"redis://[::1]", "::1", "", "", 6379, 0, false},
        {"redis://[fe80::2]:77/5", "fe80::2", "", "", 77, 5, false},
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        redis_url url;
        assert_int_equal(redis_url_read(&url, good[i].text, NULL), OK);
        assert_string_equal(url.host, good[i].host);
        assert_string_equal(url.user, good[i].user);
        assert_string_equal(url.password, good[i].password);
        assert_int_equal(url.port, good[i].port);
        assert_int_equal(url.db, good[i].db);
        assert_int_equal(url.tls, good[i].tls);
    }
}

static void bad_urls_are_refused_without_their_secrets(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "redis",
        "redis:/h",
        "http://h",
        "redis://",
        "redis://:hunter2@",
        "redis://hunter2@:7",
        "redis://hunter2@h:0",
        "redis://hunter2@h:65536",
        "redis://hunter2@h:7x",
        "redis://hunter2@h:",
        "redis://hunter2@h/x",
        "redis://hunter2@h/70000",
        "redis://hunter2@h/-1",
        "redis://hunter2%4@h",
        "redis://hunter2%zz@h",
        "redis://hunter2%00@h",
        "redis://me:@h",
        "redis://@h",
        "redis://[::1",
        "redis://hunter2@[::1]7",
        "redis://hunter2@h h",
        "redis://hunter2@h?x=1",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        redis_url url;
        error err = {""};
        if (redis_url_read(&url, bad[i], &err) != ERR_INVALID)
            fail_msg("%s was taken", bad[i]);
        assert_true(err.text[0]);
        assert_null(strstr(err.text, "hunter2"));
    }
    char text[2000] = "redis://";
    memset(text + 8, 'p', 1500);
    memcpy(text + 1508, "@h", 3);
    redis_url url;
    assert_int_equal(redis_url_read(&url, text, NULL), ERR_INVALID);
}

/* ---- records ---- */

typedef struct {
    redis_server server;
    array_mover mover;
    tier *t;
    char url[128];
} bench;

static const tier_ops *ops(const bench *b)
{
    return b->t->ops;
}

static int32_t *tokens_of(uint32_t number)
{
    static int32_t tokens[MOVER_PAGES][PAGE_TOKENS];
    for (int i = 0; i < PAGE_TOKENS; i++)
        tokens[number][i] = (int32_t)(number * 10 + (uint32_t)i);
    return tokens[number];
}

static tier_page page_of(uint32_t number, uint64_t space)
{
    return (tier_page){{number * 0x9E3779B97F4A7C15u, space}, space, tokens_of(number), PAGE_TOKENS, number};
}

static void fill(bench *b, uint32_t page, uint32_t with)
{
    for (uint32_t p = 0; p < MOVER_PARTS; p++)
        memset(b->mover.bytes[page][p], (int)(with * 7 + p + 1), MOVER_PART_BYTES);
}

static bool holds(const bench *b, uint32_t page, uint32_t what)
{
    for (uint32_t p = 0; p < MOVER_PARTS; p++)
        for (int i = 0; i < MOVER_PART_BYTES; i++)
            if (b->mover.bytes[page][p][i] != (char)(what * 7 + p + 1))
                return false;
    return true;
}

static void make_mover(bench *b)
{
    b->mover.base = (page_mover){&array_ops, MOVER_PARTS, MOVER_PART_BYTES, 0xABCDEF};
    for (uint32_t i = 0; i < MOVER_PAGES; i++)
        fill(b, i, i);
}

static void any_wrong_bit_of_a_record_is_found(void **state)
{
    (void)state;
    bench *b = calloc(1, sizeof *b);
    make_mover(b);
    tier_page page = page_of(5, 9);
    size_t head = record_head_bytes(PAGE_TOKENS), size = record_bytes(&b->mover.base, PAGE_TOKENS);
    char *record = calloc(1, size);
    memcpy(record + head, b->mover.bytes[5], MOVER_PARTS * MOVER_PART_BYTES);
    record_write_head(record, &b->mover.base, &page);
    uint64_t sums[PAGE_PARTS_MAX];
    assert_true(record_check_head(record, &b->mover.base, &page, sums));
    for (size_t bit = 0; bit < size * 8; bit++) {
        record[bit / 8] ^= (char)(1 << bit % 8);
        bool good = record_check_head(record, &b->mover.base, &page, sums);
        for (uint32_t p = 0; p < MOVER_PARTS; p++)
            good &= record_check_part(record + head + p * MOVER_PART_BYTES, &b->mover.base, sums[p]);
        assert_false(good);
        record[bit / 8] ^= (char)(1 << bit % 8);
    }
    tier_page other = page;
    other.key.low++;
    assert_false(record_check_head(record, &b->mover.base, &other, sums));
    other = page;
    other.space++;
    assert_false(record_check_head(record, &b->mover.base, &other, sums));
    other = page;
    other.tokens = tokens_of(6);
    assert_false(record_check_head(record, &b->mover.base, &other, sums));
    b->mover.base.fingerprint++;
    assert_false(record_check_head(record, &b->mover.base, &page, sums));
    free(record);
    free(b);
}

/* ---- with a server ---- */

static bench *bench_open(const char *credentials, uint64_t ttl_us, const char *const *options)
{
    bench *b = calloc(1, sizeof *b);
    make_mover(b);
    for (int i = 0; options && options[i]; i++)
        b->server.extra[i] = options[i];
    assert_true(redis_server_start(&b->server));
    snprintf(b->url, sizeof b->url, "redis://%s127.0.0.1:%u", credentials, b->server.port);
    redis_tier_config config = {.url = b->url, .ttl_us = ttl_us, .mover = &b->mover.base};
    assert_int_equal(redis_tier_open(&b->t, &config, NULL), OK);
    return b;
}

static void bench_close(bench *b)
{
    ops(b)->close(b->t);
    redis_server_kill(&b->server);
    free(b);
}

static void put_range(bench *b, uint32_t first, uint32_t count, uint64_t space)
{
    tier_page pages[MOVER_PAGES] = {0};
    for (uint32_t i = 0; i < count; i++)
        pages[i] = page_of(first + i, space);
    ops(b)->put(b->t, pages, count);
}

static uint32_t has_range(bench *b, uint32_t first, uint32_t count, uint64_t space)
{
    prefix_key keys[MOVER_PAGES] = {0};
    bool there[MOVER_PAGES];
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; i++)
        keys[i] = page_of(first + i, space).key;
    ops(b)->has(b->t, keys, count, there);
    for (uint32_t i = 0; i < count; i++)
        found += there[i];
    return found;
}

typedef struct {
    uint32_t landed[MOVER_PAGES][MOVER_PARTS], failed[MOVER_PAGES], calls, stop_after, last_part;
    bool in_order;
    _Atomic bool stop;
} landings;

static void note(void *context, uint32_t index, uint32_t part, status st)
{
    landings *l = context;
    l->calls++;
    if (l->calls == l->stop_after)
        l->stop = true;
    if (st) {
        assert_int_equal(st, ERR_NOT_FOUND);
        l->failed[index]++;
        return;
    }
    l->in_order &= part >= l->last_part;
    l->last_part = part;
    l->landed[index][part]++;
}

/* Reads pages [first, first + count) of `space` into pages [100, ...). Every page lands whole or fails once. Returns
 * how many came back right. */
static uint32_t get_range(bench *b, uint32_t first, uint32_t count, uint64_t space)
{
    static landings l;
    l = (landings){.in_order = true};
    tier_page pages[MOVER_PAGES] = {0};
    for (uint32_t i = 0; i < count; i++) {
        pages[i] = page_of(first + i, space);
        pages[i].page = 100 + i;
        fill(b, 100 + i, 250);
    }
    ops(b)->get(b->t, pages, count, note, &l, &l.stop);
    uint32_t whole = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t parts = 0;
        for (uint32_t p = 0; p < MOVER_PARTS; p++) {
            assert_true(l.landed[i][p] <= 1);
            parts += l.landed[i][p];
            bool right = b->mover.bytes[100 + i][p][0] == (char)((first + i) * 7 + p + 1);
            assert_int_equal(right, l.landed[i][p]); /* nothing else was written into the page */
        }
        assert_int_equal(l.failed[i], parts < MOVER_PARTS);
        assert_true(parts < MOVER_PARTS || holds(b, 100 + i, first + i));
        whole += parts == MOVER_PARTS;
    }
    assert_true(l.in_order);
    return whole;
}

static tier_counts counts_of(bench *b)
{
    tier_counts c;
    ops(b)->read_counts(b->t, &c);
    return c;
}

static void pages_come_back_byte_for_byte(void **state)
{
    NEEDS_REDIS();
    bench *b = bench_open("", 0, NULL);
    assert_int_equal(has_range(b, 0, 80, 1), 0);
    put_range(b, 0, 80, 1);
    assert_int_equal(has_range(b, 0, 90, 1), 80);
    assert_int_equal(has_range(b, 0, 80, 2), 0);
    assert_int_equal(get_range(b, 0, 80, 1), 80);
    assert_int_equal(get_range(b, 0, 100, 1), 80); /* the others are misses */
    tier_counts c = counts_of(b);
    assert_int_equal(c.puts, 80);
    assert_int_equal(c.put_bytes, 80 * record_bytes(&b->mover.base, PAGE_TOKENS));
    assert_int_equal(c.gets, 160);
    assert_int_equal(c.misses, 20);
    assert_int_equal(c.errors + c.damaged + c.dropped, 0);
    assert_true(c.online);
    put_range(b, 0, 80, 1); /* there already */
    assert_int_equal(counts_of(b).puts, 80);
    bench_close(b);
}

static void bounce_read(page_mover *self, page_id page, uint32_t part, void *dst)
{
    memcpy(dst, ((array_mover *)self)->bytes[page][part], MOVER_PART_BYTES);
}

static void bounce_write(page_mover *self, page_id page, uint32_t part, const void *src)
{

    memcpy(((array_mover *)self)->bytes[page][part], src, MOVER_PART_BYTES);
}

static void pages_without_a_place_in_memory_go_too(void **state)
{
    NEEDS_REDIS();
    static const page_mover_ops far_ops = {NULL, bounce_read, bounce_write, NULL};
    bench *b = bench_open("", 0, NULL);
    b->mover.base.ops = &far_ops;
    put_range(b, 0, 10, 1);
    assert_int_equal(get_range(b, 0, 10, 1), 10);
    bench_close(b);
}

static void another_model_finds_nothing(void **state)
{
    NEEDS_REDIS();
    bench *b = bench_open("", 0, NULL);
    put_range(b, 0, 10, 1);
    b->mover.base.fingerprint++;
    assert_int_equal(has_range(b, 0, 10, 1), 0);
    assert_int_equal(get_range(b, 0, 10, 1), 0);
    put_range(b, 0, 5, 1);
    assert_int_equal(ops(b)->drop(b->t, 0, NULL), OK); /* of this model's only */
    assert_int_equal(has_range(b, 0, 10, 1), 0);
    b->mover.base.fingerprint--;
    assert_int_equal(get_range(b, 0, 10, 1), 10);
    bench_close(b);
}

static void key_of(bench *b, uint32_t number, uint64_t space, char out[RECORD_KEY_SIZE])
{
    record_key(out, b->mover.base.fingerprint, page_of(number, space).key);
}

static void strange_values_are_misses_and_are_replaced(void **state)
{
    NEEDS_REDIS();
    bench *b = bench_open("", 0, NULL);
    put_range(b, 0, 8, 1);
    char key[RECORD_KEY_SIZE], other[RECORD_KEY_SIZE];
    key_of(b, 1, 1, key);
    redis_say(&b->server, "SET %s short", key);
    key_of(b, 2, 1, key);
    redis_say(&b->server, "DEL %s", key);
    redis_say(&b->server, "LPUSH %s a b c", key);
    key_of(b, 3, 1, key);
    redis_say(&b->server, "SETRANGE %s 3000000 x", key); /* far too long */
    key_of(b, 4, 1, key);
    redis_say(&b->server, "SETRANGE %s 0 00000000", key);
    key_of(b, 5, 1, key);
    key_of(b, 6, 1, other);
    redis_say(&b->server, "RENAME %s %s", other, key); /* a whole record under another's key */
    assert_int_equal(has_range(b, 0, 8, 1), 8 - 4);    /* 4 and 5 look right from outside */
    assert_int_equal(get_range(b, 0, 8, 1), 3);        /* 0, 7, and 3 by its beginning, which is right */
    put_range(b, 0, 8, 1);
    assert_int_equal(get_range(b, 0, 8, 1), 8);
    bench_close(b);
}

static void flipped_bytes_are_misses(void **state)
{
    NEEDS_REDIS();
    bench *b = bench_open("", 0, NULL);
    rng random = {11};
    size_t size = record_bytes(&b->mover.base, PAGE_TOKENS);
    for (int round = 0; round < 300; round++) {
        put_range(b, 0, 4, 1);
        uint32_t victim = (uint32_t)rng_below(&random, 4);
        unsigned at = (unsigned)rng_below(&random, size);
        char key[RECORD_KEY_SIZE];
        key_of(b, victim, 1, key);
        redisReply *was = redisCommand(b->server.client, "GETRANGE %s %u %u", key, at, at);
        char flipped = (char)(was->str[0] ^ (1 << rng_below(&random, 8)));
        freeReplyObject(was);
        assert_int_equal(redis_say(&b->server, "SETRANGE %s %u %b", key, at, &flipped, (size_t)1), size);
        assert_int_equal(get_range(b, 0, 4, 1), 3);
        assert_int_equal(has_range(b, victim, 1, 1), 0); /* thrown out */
    }
    assert_int_equal(counts_of(b).damaged, 300);
    bench_close(b);
}

/* ---- forgetting ---- */

static void a_drop_forgets_its_space_only(void **state)
{
    NEEDS_REDIS();
    bench *b = bench_open("", 0, NULL);
    put_range(b, 0, 90, 1);
    put_range(b, 0, 90, 2);
    redis_say(&b->server, "SET somebody else's");
    assert_int_equal(redis_say(&b->server, "DBSIZE"), 183);
    assert_int_equal(ops(b)->drop(b->t, 1, NULL), OK);
    assert_int_equal(has_range(b, 0, 90, 1), 0);
    assert_int_equal(get_range(b, 0, 90, 2), 90);
    assert_int_equal(redis_say(&b->server, "DBSIZE"), 92); /* the set of the space is gone too */
    assert_int_equal(ops(b)->drop(b->t, 0, NULL), OK);
    assert_int_equal(redis_say(&b->server, "DBSIZE"), 1);
    bench_close(b);
}

static void records_live_as_long_as_they_are_used(void **state)
{
    NEEDS_REDIS();
    bench *b = bench_open("", 2000000, NULL);
    put_range(b, 0, 4, 1);
    assert_int_equal(has_range(b, 0, 4, 1), 4);
    prefix_key used = page_of(2, 1).key;
    for (int i = 0; i < 6; i++) {
        tier_pause(400000);
        ops(b)->touch(b->t, &used, 1);
    }
    assert_int_equal(has_range(b, 0, 4, 1), 1);
    assert_int_equal(get_range(b, 2, 1, 1), 1);
    char space[RECORD_KEY_SIZE];
    record_space_key(space, b->mover.base.fingerprint, 1);
    assert_int_equal(redis_say(&b->server, "ZCARD %s", space), 4);
    ops(b)->expire(b->t, 2000000); /* one of the four is still there */
    assert_int_equal(redis_say(&b->server, "ZCARD %s", space), 1);
    tier_pause(2300000);
    ops(b)->expire(b->t, 2000000);
    assert_int_equal(redis_say(&b->server, "DBSIZE"), 0);
    bench_close(b);
}

static void places_of_evicted_records_do_not_pile_up(void **state)
{
    NEEDS_REDIS();
    bench *b = bench_open("", 0, NULL);
    char space[RECORD_KEY_SIZE], key[RECORD_KEY_SIZE];
    record_space_key(space, b->mover.base.fingerprint, 1);
    for (int round = 0; round < 40; round++) {
        put_range(b, 0, 64, 1); /* the server evicts them all, again and again, under other keys */
        for (uint32_t i = 0; i < 64; i++) {
            key_of(b, i, 1, key);
            redis_say(&b->server, "DEL %s", key);
            redis_say(&b->server, "ZADD %s 1 evicted-%d-%u", space, round, i);
        }
    }
    assert_true(redis_say(&b->server, "ZCARD %s", space) < 1024); /* of 2,560 */
    bench_close(b);
}

/* ---- trouble ---- */

static void wrong_credentials_are_misses_and_are_not_told(void **state)
{
    NEEDS_REDIS();
    static const char *const options[] = {"--requirepass", "hunter2", NULL};
    bench *b = bench_open("hunter3@", 0, options);
    put_range(b, 0, 4, 1);
    assert_int_equal(has_range(b, 0, 4, 1), 0);
    tier_counts c = counts_of(b);
    assert_false(c.online);
    assert_int_equal(c.dropped, 4);
    assert_non_null(strstr(c.state, "WRONGPASS"));
    assert_null(strstr(c.state, "hunter"));
    error err = {""};
    assert_int_equal(ops(b)->drop(b->t, 1, &err), ERR_IO);
    assert_null(strstr(err.text, "hunter"));
    bench_close(b);
    b = bench_open("", 0, options);
    assert_int_equal(has_range(b, 0, 4, 1), 0);
    assert_non_null(strstr(counts_of(b).state, "NOAUTH"));
    bench_close(b);
    b = bench_open("hunter%32@", 0, options);
    put_range(b, 0, 4, 1);
    assert_int_equal(get_range(b, 0, 4, 1), 4);
    assert_int_equal(redis_say(&b->server, "AUTH hunter2"), 2);
    assert_int_equal(redis_say(&b->server, "ACL SETUSER me on >us:me ~* +@all"), 2);
    uint16_t port = b->server.port;
    tier *mine;
    char url[64];
    snprintf(url, sizeof url, "redis://me:us%%3Ame@127.0.0.1:%u", port);
    redis_tier_config config = {.url = url, .mover = &b->mover.base};
    assert_int_equal(redis_tier_open(&mine, &config, NULL), OK);
    prefix_key key = page_of(0, 1).key;
    bool there = false;
    mine->ops->has(mine, &key, 1, &there);
    assert_true(there);
    mine->ops->close(mine);
    bench_close(b);
}

static void the_number_of_a_database_is_minded(void **state)
{
    NEEDS_REDIS();
    bench *b = bench_open("", 0, NULL);
    snprintf(b->url + strlen(b->url), sizeof b->url - strlen(b->url), "/3");
    tier *third;
    assert_int_equal(redis_tier_open(&third, &(redis_tier_config){.url = b->url, .mover = &b->mover.base}, NULL), OK);
    put_range(b, 0, 2, 1);
    prefix_key key = page_of(0, 1).key;
    bool there = true;
    third->ops->has(third, &key, 1, &there);
    assert_false(there);
    tier_page page = page_of(0, 1);
    third->ops->put(third, &page, 1);
    third->ops->has(third, &key, 1, &there);
    assert_true(there);
    third->ops->close(third);
    bench_close(b);
}

static void a_full_server_drops_what_comes(void **state)
{
    NEEDS_REDIS();
    static const char *const options[] = {"--maxmemory", "1200kb", "--maxmemory-policy", "noeviction", NULL};
    bench *b = bench_open("", 0, options);
    for (uint64_t space = 1; space < 60; space++)
        put_range(b, 0, 100, space);
    tier_counts c = counts_of(b);
    assert_true(c.dropped > 0 && c.online);
    assert_non_null(strstr(c.state, "OOM"));
    assert_int_equal(c.puts + c.dropped, 59 * 100);
    bench_close(b);
}

static bool back_within(bench *b, uint64_t us)
{
    for (uint64_t end_us = clock_now_us() + us; clock_now_us() < end_us; tier_pause(20000)) {
        put_range(b, 0, 4, 1);
        if (has_range(b, 0, 4, 1) == 4)
            return true;
    }
    error err = {""};
    ops(b)->drop(b->t, 77, &err);
    print_message("not back: %s; %s\n", counts_of(b).state, err.text);
    return false;
}

static void a_stopped_server_is_a_miss_until_it_goes_on(void **state)
{
    NEEDS_REDIS();
    bench *b = bench_open("", 0, NULL);
    put_range(b, 0, 40, 1);
    kill(b->server.pid, SIGSTOP);
    uint64_t start_us = clock_now_us();
    assert_int_equal(has_range(b, 0, 40, 1), 0);
    assert_true(clock_now_us() - start_us < 2000000);
    start_us = clock_now_us();
    for (int i = 0; i < 1000; i++) /* lost: nobody waits for it any more */
        assert_int_equal(has_range(b, 0, 40, 1), 0);
    assert_int_equal(get_range(b, 0, 40, 1), 0);
    put_range(b, 40, 40, 1);
    error err = {""};
    assert_int_equal(ops(b)->drop(b->t, 1, &err), ERR_IO);
    assert_true(clock_now_us() - start_us < 5000000);
    assert_false(counts_of(b).online);
    kill(b->server.pid, SIGCONT);
    assert_true(back_within(b, 15000000));
    assert_int_equal(get_range(b, 0, 4, 1), 4);
    bench_close(b);
}

typedef struct {
    bench *b;
    uint64_t after_us;
} killer;

static void *kill_later(void *argument)
{
    killer *k = argument;
    tier_pause(k->after_us);
    kill(k->b->server.pid, SIGKILL);
    return NULL;
}

static void a_killed_server_is_a_miss_until_it_is_back(void **state)
{
    NEEDS_REDIS();
    bench *b = bench_open("", 0, NULL);
    rng random = {3};
    for (int round = 0; round < 12; round++) {
        killer k = {b, rng_below(&random, 30000)};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, kill_later, &k), 0);
        for (uint64_t end_us = clock_now_us() + 60000; clock_now_us() < end_us;) {
            put_range(b, 0, 90, 1);
            get_range(b, 0, 90, 1); /* checks that what landed is right and the rest failed once */
            ops(b)->drop(b->t, 1, NULL);
        }
        pthread_join(thread, NULL);
        redis_server_kill(&b->server);
        assert_int_equal(has_range(b, 0, 4, 1), 0);
        assert_false(counts_of(b).online);
        assert_true(redis_server_start(&b->server)); /* on the same port */
        assert_true(back_within(b, 15000000));
    }
    bench_close(b);
}

static void a_stopped_read_leaves_the_connection_usable(void **state)
{
    NEEDS_REDIS();
    bench *b = bench_open("", 0, NULL);
    put_range(b, 0, 90, 1);
    for (uint32_t after = 1; after < 90 * MOVER_PARTS; after += 7) {
        static landings l;
        l = (landings){.in_order = true, .stop_after = after};
        tier_page pages[90] = {0};
        for (uint32_t i = 0; i < 90; i++) {
            pages[i] = page_of(i, 1);
            pages[i].page = 100 + i;
        }
        ops(b)->get(b->t, pages, 90, note, &l, &l.stop);
        assert_int_equal(l.calls, after);
    }
    assert_int_equal(get_range(b, 0, 90, 1), 90);
    assert_int_equal(counts_of(b).errors, 0);
    bench_close(b);
}

/* ---- who is no Redis at all ---- */

typedef struct {
    int listener;
    _Atomic bool stop;
    uint64_t seed;
} liar;

static size_t lie(rng *random, char *out, size_t room)
{
    static const char *const lies[] = {"$99999999999999999999\r\n",
                                       "*1000000000\r\n",
                                       "$-7\r\n",
                                       ":9x\r\n",
                                       "HTTP/1.1 400 Bad\r\n\r\n",
                                       "+OK\r\n",
                                       "$3\r\nabcdef",
                                       "*2\r\n*2\r\n*2\r\n",
                                       "-ERR \x01\x02\r\n",
                                       ":1\r\n",
                                       "$400\r\nxxxxxxxxx",
                                       "*-1\r\n",
                                       "%9\r\n",
                                       "\r\n"};
    size_t size = 0;
    for (uint64_t i = 0, n = 1 + rng_below(random, 6); i < n; i++) {
        const char *text = lies[rng_below(random, sizeof lies / sizeof lies[0])];
        size += (size_t)snprintf(out + size, room - size, "%s", text);
    }
    return size;
}

static void *serve_lies(void *argument)
{
    liar *l = argument;
    rng random = {l->seed};
    while (!l->stop) {
        int fd = accept(l->listener, NULL, NULL);
        if (fd < 0)
            break;
        char in[4096], out[1024];
        bool polite = rng_below(&random, 2); /* a right answer to PING first */
        for (int turn = 0; turn < 4 && recv(fd, in, sizeof in, 0) > 0; turn++) {
            size_t size =
                turn == 0 && polite ? (size_t)snprintf(out, sizeof out, "+PONG\r\n") : lie(&random, out, sizeof out);
            if (send(fd, out, size, MSG_NOSIGNAL) < 0 || ((turn > 0 || !polite) && rng_below(&random, 32) > 0))
                break; /* hardly ever waiting: the other side would too */
        }
        close(fd);
    }
    return NULL;
}

static void lies_are_misses(void **state)
{
    (void)state;
    bench *b = calloc(1, sizeof *b);
    make_mover(b);
    liar l = {.listener = socket(AF_INET, SOCK_STREAM, 0), .seed = 5};
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    assert_int_equal(bind(l.listener, (struct sockaddr *)&at, size), 0);
    assert_int_equal(listen(l.listener, 8), 0);
    assert_int_equal(getsockname(l.listener, (struct sockaddr *)&at, &size), 0);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, serve_lies, &l), 0);
    snprintf(b->url, sizeof b->url, "redis://127.0.0.1:%u", ntohs(at.sin_port));
    for (int round = 0; round < 60; round++) { /* a tier each: none of them waits before it tries */
        assert_int_equal(redis_tier_open(&b->t, &(redis_tier_config){.url = b->url, .mover = &b->mover.base}, NULL),
                         OK);
        has_range(b, 0, 5, 1); /* may say yes: the liar can send any number */
        assert_int_equal(get_range(b, 0, 5, 1), 0);
        put_range(b, 0, 5, 1);
        ops(b)->expire(b->t, 1000000);
        ops(b)->drop(b->t, round % 2, NULL);
        ops(b)->close(b->t);
    }
    l.stop = true;
    shutdown(l.listener, SHUT_RDWR);
    close(l.listener);
    pthread_join(thread, NULL);
    free(b);
}

static void nobody_there_is_no_error(void **state)
{
    (void)state;
    bench *b = calloc(1, sizeof *b);
    make_mover(b);
    snprintf(b->url, sizeof b->url, "redis://127.0.0.1:%u", free_port());
    assert_int_equal(redis_tier_open(&b->t, &(redis_tier_config){.url = b->url, .mover = &b->mover.base}, NULL), OK);
    uint64_t start_us = clock_now_us();
    for (int i = 0; i < 200; i++)
        assert_int_equal(has_range(b, 0, 5, 1), 0);
    assert_int_equal(get_range(b, 0, 5, 1), 0);
    assert_true(clock_now_us() - start_us < 1000000);
    assert_non_null(strstr(counts_of(b).state, "refused"));
    ops(b)->close(b->t);
    free(b);
}

static void what_cannot_be_is_refused_at_once(void **state)
{
    (void)state;
    bench *b = calloc(1, sizeof *b);
    make_mover(b);
    error err = {""};
    tier *t = NULL;
    assert_int_equal(redis_tier_open(&t, &(redis_tier_config){.url = "nonsense", .mover = &b->mover.base}, &err),
                     ERR_INVALID);
#ifndef HEADWAY_REDIS_TLS
    assert_int_equal(redis_tier_open(&t, &(redis_tier_config){.url = "rediss://h", .mover = &b->mover.base}, &err),
                     ERR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "libhiredis-dev"));
#endif
    b->mover.base.part_bytes = (size_t)200 << 20;
    assert_int_equal(redis_tier_open(&t, &(redis_tier_config){.url = "redis://h", .mover = &b->mover.base}, &err),
                     ERR_LIMIT);
    free(b);
}

int main(void)
{
    redis_server probe = {0};
    have_redis = redis_server_start(&probe);
    if (have_redis)
        redis_server_kill(&probe);
    else
        printf("redis_test: redis-server is not installed: the tests that need it are skipped\n");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(urls_are_read),
        cmocka_unit_test(bad_urls_are_refused_without_their_secrets),
        cmocka_unit_test(any_wrong_bit_of_a_record_is_found),
        cmocka_unit_test(what_cannot_be_is_refused_at_once),
        cmocka_unit_test(nobody_there_is_no_error),
        cmocka_unit_test(lies_are_misses),
        cmocka_unit_test(pages_come_back_byte_for_byte),
        cmocka_unit_test(pages_without_a_place_in_memory_go_too),
        cmocka_unit_test(another_model_finds_nothing),
        cmocka_unit_test(strange_values_are_misses_and_are_replaced),
        cmocka_unit_test(flipped_bytes_are_misses),
        cmocka_unit_test(a_drop_forgets_its_space_only),
        cmocka_unit_test(records_live_as_long_as_they_are_used),
        cmocka_unit_test(places_of_evicted_records_do_not_pile_up),
        cmocka_unit_test(wrong_credentials_are_misses_and_are_not_told),
        cmocka_unit_test(the_number_of_a_database_is_minded),
        cmocka_unit_test(a_full_server_drops_what_comes),
        cmocka_unit_test(a_stopped_server_is_a_miss_until_it_goes_on),
        cmocka_unit_test(a_killed_server_is_a_miss_until_it_is_back),
        cmocka_unit_test(a_stopped_read_leaves_the_connection_usable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
