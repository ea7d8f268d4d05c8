/* kv/tier/redis_link.h: one connection to a Redis server that may go away at any moment and comes back by itself.
 * begin and end bracket its use and hold its lock; in between every send and receive fails once the server is lost.
 * After a loss it waits before it tries again, twice as long each time, up to some seconds. */
#ifndef HEADWAY_KV_TIER_REDIS_LINK_H
#define HEADWAY_KV_TIER_REDIS_LINK_H

#include "kv/tier/redis_url.h"

#include <hiredis.h>

#include <stddef.h>

typedef struct redis_link redis_link;

/* Connects when it is used. A reply of more than `reply_max` bytes is not waited for. */
status redis_link_open(redis_link **out, const redis_url *url, size_t reply_max, error *err);
void redis_link_close(redis_link *l); /* NULL allowed */

/* False: the server is away (and nothing is held). `quiet_us`: how long it may be silent until it is lost. `now`: try
 * even if the wait after the last loss is not over. */
bool redis_link_begin(redis_link *l, uint64_t quiet_us, bool now);
void redis_link_end(redis_link *l);

typedef struct {
    const void *data;
    size_t size;
} redis_word;
bool redis_link_send(redis_link *l, const redis_word *words, int count); /* queues; receive or push sends it */
bool redis_link_push(redis_link *l);                                     /* sends what is queued */
redisReply *redis_link_receive(redis_link *l);                /* freed by freeReplyObject; NULL: the server is lost */
void redis_link_lose(redis_link *l, const char *why);         /* what it said makes no sense */
void redis_link_complain(redis_link *l, const redisReply *e); /* an error reply, for the state text */

bool redis_link_online(redis_link *l);                        /* any thread, as all of these */
void redis_link_state(redis_link *l, char *out, size_t size); /* for people; no credentials */

#endif
