/* server/auth.h: may this client in? API keys, compared in constant time. Immutable after start; any thread. */
#ifndef HEADWAY_SERVER_AUTH_H
#define HEADWAY_SERVER_AUTH_H

#include "base/span.h"

typedef struct {
    const char *const *keys; /* borrowed */
    size_t count;            /* 0: everyone may */
} auth_keys;

/* `authorization`: the header's value ("Bearer KEY"); `api_key`: that of x-api-key. Either may be empty. */
bool auth_allows(const auth_keys *auth, span authorization, span api_key);

#endif
