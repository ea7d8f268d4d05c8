/* kv/tier/redis_tls.c: hiredis is handed an SSL object made here: its own way of making one checks no host name. */
#include "kv/tier/redis_tls.h"

#ifdef HEADWAY_REDIS_TLS

#include <arpa/inet.h>
#include <hiredis_ssl.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct redis_tls {
    SSL_CTX *context;
    char host[256];
};

status redis_tls_open(redis_tls **out, const char *host, error *err)
{
    redis_tls *t = calloc(1, sizeof *t);
    if (!t)
        return error_set(err, ERR_MEMORY, "Redis: out of memory");
    memcpy(t->host, host, strnlen(host, sizeof t->host - 1));
    t->context = SSL_CTX_new(TLS_client_method());
    if (!t->context || !SSL_CTX_set_default_verify_paths(t->context) ||
        !SSL_CTX_set_min_proto_version(t->context, TLS1_2_VERSION)) {
        redis_tls_close(t);
        return error_set(err, ERR_IO, "Redis: TLS cannot be set up here");
    }
    SSL_CTX_set_verify(t->context, SSL_VERIFY_PEER, NULL);
    *out = t;
    return OK;
}

void redis_tls_close(redis_tls *t)
{
    if (!t)
        return;
    SSL_CTX_free(t->context);
    free(t);
}

static bool is_address(const char *host)
{
    unsigned char bytes[16];
    return inet_pton(AF_INET, host, bytes) == 1 || inet_pton(AF_INET6, host, bytes) == 1;
}

status redis_tls_start(redis_tls *t, redisContext *context, error *err)
{
    SSL *ssl = SSL_new(t->context);
    if (!ssl)
        return error_set(err, ERR_MEMORY, "no memory for TLS");
    bool named = is_address(t->host) ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), t->host)
                                     : SSL_set1_host(ssl, t->host) && SSL_set_tlsext_host_name(ssl, t->host);
    if (!named) {
        SSL_free(ssl);
        return error_set(err, ERR_IO, "TLS: not a host name");
    }
    if (redisInitiateSSL(context, ssl) != REDIS_OK) {
        long why = SSL_get_verify_result(ssl);
        status st =
            error_set(err, ERR_IO, "TLS: %s", why == X509_V_OK ? context->errstr : X509_verify_cert_error_string(why));
        SSL_free(ssl); /* hiredis takes it only when it succeeds */
        return st;
    }
    return OK;
}

#else

struct redis_tls {
    char none;
};

status redis_tls_open(redis_tls **out, const char *host, error *err)
{
    (void)out;
    (void)host;
    return error_set(err, ERR_UNSUPPORTED,
                     "rediss:// needs hiredis with TLS, which this build lacks: install a libhiredis-dev that has "
                     "hiredis_ssl (1.0 or newer) and build again, or use redis:// through a local TLS proxy");
}

void redis_tls_close(redis_tls *t)
{
    (void)t;
}

status redis_tls_start(redis_tls *t, redisContext *context, error *err)
{
    (void)t;
    (void)context;
    return error_set(err, ERR_UNSUPPORTED, "no TLS in this build");
}

#endif
