/* kv/tier/redis.c: pages on a Redis server, shared with other servers of the same model. Two connections, one for the
 * thread that writes and one for the thread that reads. Keys:
 *   headway:FINGERPRINT:KEY           a record (redis_record.h), with a time to live where there is one
 *   headway:FINGERPRINT:space:SPACE   a sorted set of the KEYs stored in that space, by the time they were seen last
 * A record and its place in the set come and go in one transaction, so a drop finds all there are. Records that expire
 * or are evicted leave their place behind: every so often the oldest places are looked at and the empty ones go.
 * Parts are read by GETRANGE, in the order of layers, and no reply is longer than what was asked for. Bytes go into a
 * page only after their checksum was found right. */
#include "base/clock.h"
#include "base/secret.h"
#include "kv/tier/redis_link.h"
#include "kv/tier/redis_record.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HAS_QUIET_US 100000u  /* silences until the server counts as lost: somebody waits for the answer, */
#define GET_QUIET_US 500000u  /* for the page, */
#define PUT_QUIET_US 1000000u /* nobody does */
#define GET_US_MIN 1000000u   /* a read that drips: this and 10 MB/s, then it is over */
#define GET_BYTES_PER_US 10u
#define VALUE_BYTES_MAX ((uint64_t)512 << 20) /* Redis's own limit */
enum {
    REPLY_SPARE = 1 << 20,  /* beyond a part: lists of keys */
    WINDOW_BYTES = 8 << 20, /* asked for or sent without an answer */
    HAS_BATCH = 512,        /* keys in flight */
    SWEEP_EVERY = 256,      /* puts */
    SWEEP_PLACES = 512,     /* looked at by a sweep */
    SCAN_STEP = 512         /* keys of the server's that one step of a scan looks at */
};

typedef struct {
    tier base;
    page_mover *mover;
    uint64_t ttl_us;
    redis_link *reader, *writer;
    size_t record_room;
    char *record; /* (record_room) the writer's */
    uint32_t puts_to_sweep;
    char scan_cursor[24]; /* of expire */
    pthread_mutex_t lock; /* of counts */
    tier_counts counts;
} redis_tier;

typedef struct { /* a key or a number as it is sent */
    char text[RECORD_KEY_SIZE];
    size_t size;
} name;

#define WORD(literal) ((redis_word){(literal), sizeof(literal) - 1})

static redis_word word_of(const name *n)
{
    return (redis_word){n->text, n->size};
}

static name number(uint64_t value)
{
    name n;
    n.size = (size_t)snprintf(n.text, sizeof n.text, "%llu", (unsigned long long)value);
    return n;
}

static name key_name(const redis_tier *t, prefix_key key)
{
    name n;
    n.size = record_key(n.text, t->mover->fingerprint, key);
    return n;
}

static name space_name(const redis_tier *t, uint64_t space)
{
    name n;
    n.size = record_space_key(n.text, t->mover->fingerprint, space);
    return n;
}

static void add(redis_tier *t, uint64_t *counter, uint64_t value)
{
    pthread_mutex_lock(&t->lock);
    *counter += value;
    pthread_mutex_unlock(&t->lock);
}

/* The integer of a reply, which it frees; -1: the server is lost or does not say a number. */
static long long integer_of(redis_tier *t, redis_link *l, redisReply *reply)
{
    if (!reply)
        return -1;
    long long value = reply->type == REDIS_REPLY_INTEGER ? reply->integer : -1;
    if (value < 0) {
        redis_link_complain(l, reply);
        add(t, &t->counts.errors, 1);
    }
    freeReplyObject(reply);
    return value;
}

/* ---- has ---- */

/* A length that no record of ours has is none: what is in the way is not worth fetching. */
static bool is_record_length(const redis_tier *t, long long length)
{
    return length >= (long long)record_bytes(t->mover, 0) &&
           length <= (long long)record_bytes(t->mover, RECORD_TOKENS_MAX);
}

static void has_batch(redis_tier *t, redis_link *l, const prefix_key *keys, uint32_t count, bool *out)
{
    for (uint32_t i = 0; i < count; i++) {
        name key = key_name(t, keys[i]);
        redis_link_send(l, (redis_word[]){WORD("STRLEN"), word_of(&key)}, 2);
    }
    for (uint32_t i = 0; i < count; i++)
        out[i] = is_record_length(t, integer_of(t, l, redis_link_receive(l)));
}

static void redis_has(tier *base, const prefix_key *keys, uint32_t count, bool *out)
{
    redis_tier *t = (redis_tier *)base;
    memset(out, 0, count * sizeof *out);
    if (!redis_link_begin(t->reader, HAS_QUIET_US, false))
        return;
    for (uint32_t first = 0; first < count; first += HAS_BATCH)
        has_batch(t, t->reader, keys + first, count - first < HAS_BATCH ? count - first : HAS_BATCH, out + first);
    redis_link_end(t->reader);
}

/* ---- put ---- */

static uint64_t ttl_ms(const redis_tier *t)
{
    return t->ttl_us / 1000 > 0 ? t->ttl_us / 1000 : 1;
}

static void touch_keys(redis_tier *t, redis_link *l, const prefix_key *keys, uint32_t count)
{
    name ttl = number(ttl_ms(t));
    for (uint32_t i = 0; i < count; i++) {
        name key = key_name(t, keys[i]);
        redis_word words[3] = {t->ttl_us ? WORD("PEXPIRE") : WORD("TOUCH"), word_of(&key), word_of(&ttl)};
        redis_link_send(l, words, t->ttl_us ? 3 : 2);
    }
    for (uint32_t i = 0; i < count; i++)
        integer_of(t, l, redis_link_receive(l));
}

static size_t build_record(redis_tier *t, const tier_page *page)
{
    const page_mover *m = t->mover;
    char *to = t->record + record_head_bytes(page->token_count);
    for (uint32_t p = 0; p < m->parts; p++, to += m->part_bytes) {
        const void *at = m->ops->at ? m->ops->at(t->mover, page->page, p) : NULL;
        if (at)
            memcpy(to, at, m->part_bytes);
        else
            m->ops->read(t->mover, page->page, p, to);
    }
    record_write_head(t->record, m, page);
    return record_bytes(m, page->token_count);
}

static void send_page(redis_tier *t, redis_link *l, const tier_page *page)
{
    name key = key_name(t, page->key), space = space_name(t, page->space);
    name now = number(clock_unix_seconds()), ttl = number(ttl_ms(t));
    redis_word record = {t->record, build_record(t, page)};
    redis_link_send(l, (redis_word[]){WORD("MULTI")}, 1);
    redis_link_send(l, (redis_word[]){WORD("ZADD"), word_of(&space), word_of(&now), word_of(&key)}, 4);
    redis_word set[5] = {WORD("SET"), word_of(&key), record, WORD("PX"), word_of(&ttl)};
    redis_link_send(l, set, t->ttl_us ? 5 : 3);
    redis_link_send(l, (redis_word[]){WORD("EXEC")}, 1);
}

/* The replies to send_page: is the page stored? */
static bool receive_page(redis_tier *t, redis_link *l)
{
    redisReply *reply = NULL;
    for (int i = 0; i < 4; i++) {
        freeReplyObject(reply);
        if (!(reply = redis_link_receive(l)))
            return false;
        if (reply->type == REDIS_REPLY_ERROR && i < 3)
            redis_link_complain(l, reply); /* its reason: EXEC says only that there was one */
    }
    bool stored =
        reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 && reply->element[1]->type == REDIS_REPLY_STATUS;
    freeReplyObject(reply);
    if (!stored)
        add(t, &t->counts.errors, 1);
    return stored;
}

static void count_puts(redis_tier *t, uint64_t stored, uint64_t bytes, uint64_t dropped)
{
    pthread_mutex_lock(&t->lock);
    t->counts.puts += stored;
    t->counts.put_bytes += bytes;
    t->counts.dropped += dropped;
    pthread_mutex_unlock(&t->lock);
}

static uint32_t put_new(redis_tier *t, redis_link *l, const tier_page *pages, uint32_t count, const bool *there)
{
    uint64_t bytes = 0, size = record_bytes(t->mover, RECORD_TOKENS_MAX);
    uint32_t in_flight = 0, stored = 0, lacking = 0, in_flight_max = (uint32_t)(WINDOW_BYTES / size + 1);
    for (uint32_t i = 0; i < count; i++) {
        if (there[i])
            continue;
        lacking++;
        if (pages[i].token_count > RECORD_TOKENS_MAX)
            continue;
        if (in_flight == in_flight_max) {
            stored += receive_page(t, l);
            in_flight--;
        }
        send_page(t, l, &pages[i]);
        in_flight += redis_link_push(l);
        bytes += record_bytes(t->mover, pages[i].token_count);
    }
    for (; in_flight > 0; in_flight--)
        stored += receive_page(t, l);
    if (lacking)
        count_puts(t, stored, bytes / lacking * stored, lacking - stored);
    return stored;
}

static void sweep(redis_tier *t, redis_link *l, redis_word space);

/* Those that are there, whole by their length, are made young; the others are written, over whatever is in the way. */
static void put_pages(redis_tier *t, redis_link *l, const tier_page *pages, uint32_t count, prefix_key *keys,
                      bool *there)
{
    uint32_t old = 0;
    for (uint32_t i = 0; i < count; i++)
        keys[i] = pages[i].key;
    has_batch(t, l, keys, count, there);
    for (uint32_t i = 0; i < count; i++)
        if (there[i])
            keys[old++] = pages[i].key;
    touch_keys(t, l, keys, old);
    t->puts_to_sweep += put_new(t, l, pages, count, there);
    if (t->puts_to_sweep < SWEEP_EVERY)
        return;
    name space = space_name(t, pages[count - 1].space);
    sweep(t, l, word_of(&space));
    t->puts_to_sweep = 0;
}

static void redis_put(tier *base, const tier_page *pages, uint32_t count)
{
    redis_tier *t = (redis_tier *)base;
    prefix_key *keys = malloc((count + 1) * sizeof *keys);
    bool *there = calloc(count + 1, sizeof *there);
    if (count > 0 && keys && there && redis_link_begin(t->writer, PUT_QUIET_US, false)) {
        put_pages(t, t->writer, pages, count, keys, there);
        redis_link_end(t->writer);
    } else {
        count_puts(t, 0, 0, count);
    }
    free(keys);
    free(there);
}

static void redis_touch(tier *base, const prefix_key *keys, uint32_t count)
{
    redis_tier *t = (redis_tier *)base;
    if (!redis_link_begin(t->writer, PUT_QUIET_US, false))
        return;
    for (uint32_t first = 0; first < count; first += HAS_BATCH)
        touch_keys(t, t->writer, keys + first, count - first < HAS_BATCH ? count - first : HAS_BATCH);
    redis_link_end(t->writer);
}

/* ---- get ---- */

typedef struct {
    redis_tier *tier;
    const tier_page *pages;
    uint32_t count;
    tier_landed landed;
    void *context;
    const _Atomic bool *stop;
    bool *failed, *damaged;                /* (count) */
    uint64_t (*checksums)[PAGE_PARTS_MAX]; /* (count): as the heads say */
    uint64_t until_us;
} reading;

static size_t head_bytes(const reading *g, uint32_t page, uint32_t part) /* a head comes with part 0 */
{
    return part == 0 ? record_head_bytes(g->pages[page].token_count) : 0;
}

static void ask_part(reading *g, uint32_t page, uint32_t part)
{
    redis_tier *t = g->tier;
    uint64_t part_bytes = t->mover->part_bytes, head = record_head_bytes(g->pages[page].token_count);
    name key = key_name(t, g->pages[page].key);
    name first = number(part == 0 ? 0 : head + part * part_bytes), last = number(head + (part + 1) * part_bytes - 1);
    redis_link_send(t->reader, (redis_word[]){WORD("GETRANGE"), word_of(&key), word_of(&first), word_of(&last)}, 4);
}

static bool place_part(reading *g, uint32_t page, uint32_t part, const char *bytes)
{
    page_mover *m = g->tier->mover;
    if (part == 0 && !record_check_head(bytes, m, &g->pages[page], g->checksums[page]))
        return false;
    const char *body = bytes + head_bytes(g, page, part);
    if (!record_check_part(body, m, g->checksums[page][part]))
        return false;
    void *at = m->ops->at ? m->ops->at(m, g->pages[page].page, part) : NULL;
    if (at)
        memcpy(at, body, m->part_bytes);
    else
        m->ops->write(m, g->pages[page].page, part, body);
    return true;
}

static void fail(reading *g, uint32_t page)
{
    g->failed[page] = true;
    g->landed(g->context, page, 0, ERR_NOT_FOUND);
}

/* Takes the reply for a part; false: the server is lost. */
static bool take_part(reading *g, uint32_t page, uint32_t part)
{
    redis_tier *t = g->tier;
    redisReply *reply = redis_link_receive(t->reader);
    if (!reply)
        return false;
    bool text = reply->type == REDIS_REPLY_STRING;
    bool sized = text && reply->len == head_bytes(g, page, part) + t->mover->part_bytes;
    bool good = sized && place_part(g, page, part, reply->str);
    pthread_mutex_lock(&t->lock);
    t->counts.gets += good && part + 1 == t->mover->parts;
    t->counts.get_bytes += good ? reply->len : 0;
    t->counts.misses += text && reply->len == 0;
    t->counts.damaged += text && reply->len > 0 && !good;
    g->damaged[page] = text && reply->len > 0 && !good;
    t->counts.errors += !text;
    pthread_mutex_unlock(&t->lock);
    if (!text)
        redis_link_complain(t->reader, reply);
    freeReplyObject(reply);
    if (good)
        g->landed(g->context, page, part, OK);
    else
        fail(g, page);
    return true;
}

static void drain(reading *g, uint32_t replies)
{
    for (; replies > 0; replies--) {
        redisReply *reply = redis_link_receive(g->tier->reader);
        if (!reply)
            return;
        freeReplyObject(reply);
    }
}

/* One part of all pages that have not failed; false: no more is to be read. */
static bool read_part(reading *g, uint32_t part)
{
    uint32_t asked = 0, in_flight = 0;
    uint32_t in_flight_max = (uint32_t)(WINDOW_BYTES / g->tier->mover->part_bytes + 1);
    for (uint32_t page = 0; page < g->count; page++) {
        bool some = false;
        for (; asked < g->count && in_flight < in_flight_max; asked++) {
            if (g->failed[asked]) /* by an earlier part: its turn in this one has not come */
                continue;
            ask_part(g, asked, part);
            in_flight++;
            some = true;
        }
        if (some && !redis_link_push(g->tier->reader))
            return false;
        if (g->failed[page])
            continue;
        if (atomic_load(g->stop)) {
            drain(g, in_flight);
            return false;
        }
        if (clock_now_us() > g->until_us) {
            redis_link_lose(g->tier->reader, "is too slow");
            return false;
        }
        if (!take_part(g, page, part))
            return false;
        in_flight--;
    }
    return true;
}

/* A later put is to find the place empty. */
static void discard_damaged(reading *g)
{
    uint32_t sent = 0;
    for (uint32_t i = 0; i < g->count; i++) {
        name key = key_name(g->tier, g->pages[i].key);
        if (g->damaged[i])
            sent += redis_link_send(g->tier->reader, (redis_word[]){WORD("UNLINK"), word_of(&key)}, 2);
    }
    drain(g, sent);
}

static void redis_get(tier *base, const tier_page *pages, uint32_t count, tier_landed landed, void *context,
                      const _Atomic bool *stop)
{
    redis_tier *t = (redis_tier *)base;
    uint64_t bytes = count * record_bytes(t->mover, RECORD_TOKENS_MAX);
    reading g = {.tier = t,
                 .pages = pages,
                 .count = count,
                 .landed = landed,
                 .context = context,
                 .stop = stop,
                 .failed = calloc(count + 1, sizeof *g.failed),
                 .damaged = calloc(count + 1, sizeof *g.damaged),
                 .checksums = calloc(count + 1, sizeof *g.checksums),
                 .until_us = clock_now_us() + GET_US_MIN + bytes / GET_BYTES_PER_US};
    uint32_t part = 0;
    if (g.failed && g.damaged && g.checksums && redis_link_begin(t->reader, GET_QUIET_US, false)) {
        while (part < t->mover->parts && read_part(&g, part))
            part++;
        discard_damaged(&g);
        redis_link_end(t->reader);
    }
    for (uint32_t i = 0; part < t->mover->parts && !atomic_load(stop) && i < count; i++)
        if (!g.failed || !g.failed[i])
            landed(context, i, 0, ERR_NOT_FOUND);
    free(g.failed);
    free(g.damaged);
    free(g.checksums);
}

/* ---- forgetting ---- */

static redisReply *ask(redis_link *l, const redis_word *words, int count)
{
    return redis_link_send(l, words, count) ? redis_link_receive(l) : NULL;
}

static bool is_list(const redisReply *r)
{
    if (!r || r->type != REDIS_REPLY_ARRAY)
        return false;
    for (size_t i = 0; i < r->elements; i++)
        if (r->element[i]->type != REDIS_REPLY_STRING)
            return false;
    return true;
}

static redisReply *oldest_places(redis_link *l, redis_word space)
{
    name last = number(SWEEP_PLACES - 1);
    redisReply *places = ask(l, (redis_word[]){WORD("ZRANGE"), space, WORD("0"), word_of(&last)}, 4);
    if (is_list(places) && places->elements <= SWEEP_PLACES)
        return places;
    if (places)
        redis_link_complain(l, places);
    freeReplyObject(places);
    return NULL;
}

/* Of the oldest places, those whose record is gone go; the others count as seen now. */
static void sweep(redis_tier *t, redis_link *l, redis_word space)
{
    redisReply *places = oldest_places(l, space);
    if (!places)
        return;
    uint32_t count = (uint32_t)places->elements;
    name now = number(clock_unix_seconds());
    bool gone[SWEEP_PLACES] = {false};
    for (uint32_t i = 0; i < count; i++)
        redis_link_send(l, (redis_word[]){WORD("EXISTS"), {places->element[i]->str, places->element[i]->len}}, 2);
    for (uint32_t i = 0; i < count; i++)
        gone[i] = integer_of(t, l, redis_link_receive(l)) == 0;
    for (uint32_t i = 0; i < count; i++) {
        redis_word place = {places->element[i]->str, places->element[i]->len};
        if (gone[i])
            redis_link_send(l, (redis_word[]){WORD("ZREM"), space, place}, 3);
        else
            redis_link_send(l, (redis_word[]){WORD("ZADD"), space, WORD("XX"), word_of(&now), place}, 5);
    }
    for (uint32_t i = 0; i < count; i++)
        freeReplyObject(redis_link_receive(l));
    freeReplyObject(places);
}

/* One step of a scan over the server's keys that start with ours and `infix`; NULL: it failed. The keys are element 1.
 */
static redisReply *scan_step(redis_tier *t, redis_link *l, const char *cursor, const char *infix)
{
    name pattern, step = number(SCAN_STEP);
    pattern.size = (size_t)snprintf(pattern.text, sizeof pattern.text, "headway:%016llx:%s*",
                                    (unsigned long long)t->mover->fingerprint, infix);
    redisReply *r = ask(
        l,
        (redis_word[]){
            WORD("SCAN"), {cursor, strlen(cursor)}, WORD("MATCH"), word_of(&pattern), WORD("COUNT"), word_of(&step)},
        6);
    bool good = r && r->type == REDIS_REPLY_ARRAY && r->elements == 2 && r->element[0]->type == REDIS_REPLY_STRING &&
                r->element[0]->len < sizeof t->scan_cursor && is_list(r->element[1]);
    if (good)
        return r;
    if (r)
        redis_link_complain(l, r);
    freeReplyObject(r);
    return NULL;
}

/* Records end by themselves; the sets of spaces where nothing is stored any more are found by a scan, a step a call. */
static void redis_expire(tier *base, uint64_t ttl_us)
{
    redis_tier *t = (redis_tier *)base;
    (void)ttl_us;
    if (!redis_link_begin(t->writer, PUT_QUIET_US, false))
        return;
    redisReply *r = scan_step(t, t->writer, t->scan_cursor, "space:");
    snprintf(t->scan_cursor, sizeof t->scan_cursor, "%s", r ? r->element[0]->str : "0");
    for (size_t i = 0; r && i < r->element[1]->elements; i++)
        sweep(t, t->writer, (redis_word){r->element[1]->element[i]->str, r->element[1]->element[i]->len});
    freeReplyObject(r);
    redis_link_end(t->writer);
}

static bool unlink_keys(redis_link *l, redisReply *const *keys, size_t count, redis_word space)
{
    bool good = true;
    for (size_t i = 0; i < count; i++) {
        redis_word key = {keys[i]->str, keys[i]->len};
        redis_link_send(l, (redis_word[]){WORD("MULTI")}, 1);
        redis_link_send(l, (redis_word[]){WORD("UNLINK"), key}, 2);
        redis_link_send(l, (redis_word[]){WORD("ZREM"), space.size ? space : key, key}, 3);
        redis_link_send(l, (redis_word[]){WORD("EXEC")}, 1);
    }
    for (size_t i = 0; i < 4 * count; i++) {
        redisReply *reply = redis_link_receive(l);
        bool refused = reply && reply->type == REDIS_REPLY_ERROR;
        if (refused)
            redis_link_complain(l, reply);
        good &= reply && !refused;
        freeReplyObject(reply);
    }
    return good;
}

static bool drop_space(redis_tier *t, redis_link *l, uint64_t space)
{
    name set = space_name(t, space);
    for (;;) {
        redisReply *places = oldest_places(l, word_of(&set));
        bool good = places && unlink_keys(l, places->element, places->elements, word_of(&set));
        bool last = good && places->elements == 0;
        freeReplyObject(places);
        if (!good || last)
            return good;
    }
}

static bool drop_all(redis_tier *t, redis_link *l)
{
    char cursor[sizeof t->scan_cursor] = "0";
    for (;;) {
        redisReply *r = scan_step(t, l, cursor, "");
        bool good = r && unlink_keys(l, r->element[1]->element, r->element[1]->elements, (redis_word){NULL, 0});
        if (r)
            snprintf(cursor, sizeof cursor, "%s", r->element[0]->str);
        freeReplyObject(r);
        if (!good || strcmp(cursor, "0") == 0)
            return good;
    }
}

static status redis_drop(tier *base, uint64_t space, error *err)
{
    redis_tier *t = (redis_tier *)base;
    bool good = false;
    if (redis_link_begin(t->writer, PUT_QUIET_US, true)) {
        good = space ? drop_space(t, t->writer, space) : drop_all(t, t->writer);
        redis_link_end(t->writer);
    }
    if (good)
        return OK;
    char state[96];
    redis_link_state(t->writer, state, sizeof state);
    return error_set(err, ERR_IO, "not everything is forgotten: %s", state);
}

/* ---- the rest ---- */

static void redis_flush(tier *base) /* how safe a record is there is the server's own matter */
{
    (void)base;
}

static void redis_read_counts(tier *base, tier_counts *out)
{
    redis_tier *t = (redis_tier *)base;
    pthread_mutex_lock(&t->lock);
    *out = t->counts;
    pthread_mutex_unlock(&t->lock);
    bool reads = redis_link_online(t->reader), writes = redis_link_online(t->writer);
    out->online = reads || writes;
    redis_link_state(writes && !reads ? t->writer : t->reader, out->state, sizeof out->state);
}

static void redis_close(tier *base)
{
    redis_tier *t = (redis_tier *)base;
    redis_link_close(t->reader);
    redis_link_close(t->writer);
    pthread_mutex_destroy(&t->lock);
    free(t->record);
    free(t);
}

static const tier_ops redis_ops = {"redis",    false,        redis_has,   redis_put,         redis_get,  redis_touch,
                                   redis_drop, redis_expire, redis_flush, redis_read_counts, redis_close};

status redis_tier_open(tier **out, const redis_tier_config *config, error *err)
{
    redis_url url;
    status st = redis_url_read(&url, config->url, err);
    if (st)
        return st;
    if (record_bytes(config->mover, RECORD_TOKENS_MAX) > VALUE_BYTES_MAX)
        return error_set(err, ERR_LIMIT, "Redis: a page of %zu bytes is more than a value may have there (512 MB)",
                         config->mover->parts * config->mover->part_bytes);
    redis_tier *t = calloc(1, sizeof *t);
    if (!t)
        return error_set(err, ERR_MEMORY, "Redis: out of memory");
    t->base.ops = &redis_ops;
    t->mover = config->mover;
    t->ttl_us = config->ttl_us;
    memcpy(t->scan_cursor, "0", 2);
    pthread_mutex_init(&t->lock, NULL);
    t->record_room = record_bytes(config->mover, RECORD_TOKENS_MAX);
    t->record = malloc(t->record_room);
    size_t reply_max = config->mover->part_bytes + record_head_bytes(RECORD_TOKENS_MAX) + REPLY_SPARE;
    st = t->record ? redis_link_open(&t->reader, &url, reply_max, err)
                   : error_set(err, ERR_MEMORY, "Redis: out of memory");
    if (!st)
        st = redis_link_open(&t->writer, &url, reply_max, err);
    secret_wipe(&url, sizeof url);
    if (st) {
        redis_close(&t->base);
        return st;
    }
    *out = &t->base;
    return OK;
}
