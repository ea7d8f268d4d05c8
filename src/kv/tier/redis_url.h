/* kv/tier/redis_url.h: redis://[user[:password]@]host[:port][/db], rediss:// for TLS. Pure. */
#ifndef HEADWAY_KV_TIER_REDIS_URL_H
#define HEADWAY_KV_TIER_REDIS_URL_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    bool tls;
    char host[256];
    uint16_t port;
    uint32_t db;
    char user[256];     /* "": the default user */
    char password[512]; /* "": none. Never in a text for people. */
} redis_url;

/* Percent signs are decoded in user and password; a lone word before the @ is the password. ERR_INVALID says what is
 * wrong without repeating the URL. */
status redis_url_read(redis_url *out, const char *url, error *err);

#endif
