/* kv/tier/redis_link.c: hiredis, blocking, with limits on every wait. The state text has a lock of its own, so that
 * whoever reads it does not wait for the network. */
#define _GNU_SOURCE
#include "kv/tier/redis_link.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/secret.h"
#include "kv/tier/redis_tls.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#define CONNECT_US 200000u
#define RETRY_US_MIN 100000u
#define RETRY_US_MAX 5000000u

struct redis_link {
    redis_url url;
    size_t reply_max;
    pthread_mutex_t lock;  /* from begin to end */
    redisContext *context; /* NULL: not connected */
    redis_tls *tls;
    uint64_t quiet_us, retry_at_us, retry_us;

    pthread_mutex_t text_lock; /* of what follows */
    bool online, lost_once;
    char text[96];
};

static void set_state(redis_link *l, bool online, const char *words)
{
    pthread_mutex_lock(&l->text_lock);
    bool changed = l->online != online || (!online && !l->lost_once);
    l->online = online;
    l->lost_once |= !online;
    snprintf(l->text, sizeof l->text, "%.60s:%u %s", l->url.host, l->url.port, words);
    char copy[sizeof l->text];
    memcpy(copy, l->text, sizeof copy);
    pthread_mutex_unlock(&l->text_lock);
    if (changed)
        log_line(online ? LOG_INFO : LOG_WARN, "Redis: %s", copy);
}

status redis_link_open(redis_link **out, const redis_url *url, size_t reply_max, error *err)
{
    redis_link *l = calloc(1, sizeof *l);
    if (!l)
        return error_set(err, ERR_MEMORY, "Redis: out of memory");
    l->url = *url;
    l->reply_max = reply_max;
    l->retry_us = RETRY_US_MIN;
    pthread_mutex_init(&l->lock, NULL);
    pthread_mutex_init(&l->text_lock, NULL);
    snprintf(l->text, sizeof l->text, "%.60s:%u not asked yet", url->host, url->port);
    status st = url->tls ? redis_tls_open(&l->tls, url->host, err) : OK;
    if (st) {
        redis_link_close(l);
        return st;
    }
    *out = l;
    return OK;
}

static void hang_up(redis_link *l)
{
    if (l->context)
        redisFree(l->context);
    l->context = NULL;
}

void redis_link_close(redis_link *l)
{
    if (!l)
        return;
    hang_up(l);
    redis_tls_close(l->tls);
    secret_wipe(&l->url, sizeof l->url);
    pthread_mutex_destroy(&l->lock);
    pthread_mutex_destroy(&l->text_lock);
    free(l);
}

void redis_link_lose(redis_link *l, const char *why)
{
    hang_up(l);
    uint64_t now_us = clock_now_us();
    if (now_us >= l->retry_at_us) { /* else it was tried before its time: that makes nobody wait longer */
        l->retry_at_us = now_us + l->retry_us;
        l->retry_us = l->retry_us * 2 < RETRY_US_MAX ? l->retry_us * 2 : RETRY_US_MAX;
    }
    set_state(l, false, why);
}

static void lose_by_context(redis_link *l)
{
    char why[160];
    bool late = l->context->err == REDIS_ERR_IO && (errno == EAGAIN || errno == EWOULDBLOCK);
    snprintf(why, sizeof why, "%s", late ? "does not answer" : l->context->errstr);
    redis_link_lose(l, why);
}

static struct timeval time_of(uint64_t us)
{
    return (struct timeval){(time_t)(us / 1000000u), (suseconds_t)(us % 1000000u)};
}

/* ---- words ---- */

enum { ELEMENTS_MAX = 1 << 16 }; /* hiredis makes room for as many as the other side announces */
static redisReplyObjectFunctions hiredis_own;
#if HIREDIS_MAJOR >= 1
typedef size_t element_count;
#else
typedef int element_count;
#endif

static void *create_array(const redisReadTask *task, element_count elements)
{
    return elements <= ELEMENTS_MAX ? hiredis_own.createArray(task, elements) : NULL;
}

static redisReplyObjectFunctions bounded;
static pthread_once_t bounded_once = PTHREAD_ONCE_INIT;

static void make_bounded(void)
{
    redisReader *reader = redisReaderCreate();
    if (!reader)
        return;
    hiredis_own = bounded = *reader->fn;
    bounded.createArray = create_array;
    redisReaderFree(reader);
}

static bool bound_replies(redisContext *context)
{
    pthread_once(&bounded_once, make_bounded);
    if (bounded.createArray)
        context->reader->fn = &bounded;
    return bounded.createArray != NULL;
}

bool redis_link_send(redis_link *l, const redis_word *words, int count)
{
    enum { WORDS_MAX = 1056 };
    if (!l->context || count > WORDS_MAX)
        return false;
    const char *argv[WORDS_MAX];
    size_t sizes[WORDS_MAX];
    for (int i = 0; i < count; i++) {
        argv[i] = words[i].data;
        sizes[i] = words[i].size;
    }
    if (redisAppendCommandArgv(l->context, count, argv, sizes) == REDIS_OK)
        return true;
    lose_by_context(l);
    return false;
}

bool redis_link_push(redis_link *l)
{
    int done = 0;
    while (l->context && !done)
        if (redisBufferWrite(l->context, &done) != REDIS_OK)
            lose_by_context(l);
    return l->context != NULL;
}

/* Reads some; false: lost. */
static bool read_more(redis_link *l)
{
    if (l->context->reader->len > l->reply_max) {
        redis_link_lose(l, "sends more than it was asked for");
        return false;
    }
    if (redisBufferRead(l->context) == REDIS_OK)
        return true;
    lose_by_context(l);
    return false;
}

redisReply *redis_link_receive(redis_link *l)
{
    void *reply = NULL;
    bool pushed = false;
    while (l->context && !reply) {
        if (redisGetReplyFromReader(l->context, &reply) != REDIS_OK)
            lose_by_context(l);
        else if (!reply && (pushed || (pushed = redis_link_push(l))))
            read_more(l);
    }
    return reply;
}

void redis_link_complain(redis_link *l, const redisReply *e)
{
    char words[128];
    snprintf(words, sizeof words, "says: %.100s", e && e->type == REDIS_REPLY_ERROR ? e->str : "something unexpected");
    for (char *c = words; *c; c++)
        if ((unsigned char)*c < ' ')
            *c = ' ';
    set_state(l, l->context != NULL, words);
}

/* ---- the way in ---- */

/* One command that is answered by a status. Nothing else will do: a port that echoes is no Redis, and a connection to a
 * port of this machine where nobody listens may even end at itself. */
static bool command(redis_link *l, const redis_word *words, int count)
{
    if (!redis_link_send(l, words, count))
        return false;
    redisReply *reply = redis_link_receive(l);
    if (!reply)
        return false;
    bool good = reply->type == REDIS_REPLY_STATUS;
    if (!good) {
        char why[128];
        snprintf(why, sizeof why, "says: %.100s", reply->type == REDIS_REPLY_ERROR ? reply->str : "what no Redis says");
        redis_link_lose(l, why);
    }
    freeReplyObject(reply);
    return good;
}

#define WORD(text) ((redis_word){(text), strlen(text)})

static bool introduce(redis_link *l)
{
    if (l->url.password[0]) {
        redis_word words[3] = {WORD("AUTH"), WORD(l->url.user), WORD(l->url.password)};
        if (!l->url.user[0])
            words[1] = words[2];
        if (!command(l, words, l->url.user[0] ? 3 : 2))
            return false;
    }
    if (l->url.db > 0) {
        char number[16];
        snprintf(number, sizeof number, "%u", l->url.db);
        if (!command(l, (redis_word[]){WORD("SELECT"), WORD(number)}, 2))
            return false;
    }
    return command(l, (redis_word[]){WORD("PING")}, 1); /* is it one, and may we speak? */
}

static bool connect_now(redis_link *l)
{
    l->context = redisConnectWithTimeout(l->url.host, l->url.port, time_of(CONNECT_US));
    if (!l->context) {
        redis_link_lose(l, "no memory for a connection");
        return false;
    }
    if (l->context->err) {
        lose_by_context(l);
        return false;
    }
    if (!bound_replies(l->context)) {
        redis_link_lose(l, "no memory for a connection");
        return false;
    }
    redisEnableKeepAlive(l->context);
    redisSetTimeout(l->context, time_of(CONNECT_US));
    l->quiet_us = CONNECT_US;
    error err = {""};
    if (l->tls && redis_tls_start(l->tls, l->context, &err)) {
        redis_link_lose(l, err.text);
        return false;
    }
    if (!introduce(l))
        return false;
    l->retry_us = RETRY_US_MIN;
    set_state(l, true, "connected");
    return true;
}

/* A server that is gone is an error of write(), not a signal. The calling thread, one of the tiers', keeps it blocked:
 * unblocked, the pending one would be delivered. */
static void block_pipe_signal(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
}

bool redis_link_begin(redis_link *l, uint64_t quiet_us, bool now)
{
    block_pipe_signal();
    pthread_mutex_lock(&l->lock);
    if (!l->context && (now || clock_now_us() >= l->retry_at_us))
        connect_now(l);
    if (l->context && l->quiet_us != quiet_us) {
        redisSetTimeout(l->context, time_of(quiet_us));
        l->quiet_us = quiet_us;
    }
    if (l->context)
        return true;
    pthread_mutex_unlock(&l->lock);
    return false;
}

void redis_link_end(redis_link *l)
{
    pthread_mutex_unlock(&l->lock);
}

bool redis_link_online(redis_link *l)
{
    pthread_mutex_lock(&l->text_lock);
    bool online = l->online;
    pthread_mutex_unlock(&l->text_lock);
    return online;
}

void redis_link_state(redis_link *l, char *out, size_t size)
{
    pthread_mutex_lock(&l->text_lock);
    snprintf(out, size, "%s", l->text);
    pthread_mutex_unlock(&l->text_lock);
}
