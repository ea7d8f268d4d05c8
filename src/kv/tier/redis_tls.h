/* kv/tier/redis_tls.h: TLS for a link, where this build has it (HEADWAY_REDIS_TLS: pkg-config found hiredis_ssl). The
 * server's certificate must be signed by one of the system's authorities (or those of SSL_CERT_FILE) and name the host.
 */
#ifndef HEADWAY_KV_TIER_REDIS_TLS_H
#define HEADWAY_KV_TIER_REDIS_TLS_H

#include "base/error.h"

#include <hiredis.h>

typedef struct redis_tls redis_tls;

status redis_tls_open(redis_tls **out, const char *host, error *err); /* ERR_UNSUPPORTED: not in this build */
void redis_tls_close(redis_tls *t);                                   /* NULL allowed */
status redis_tls_start(redis_tls *t, redisContext *context, error *err);

#endif
