/* server/auth.h: whose key is this? API keys are kept as SHA-256 hashes only, and looked up in a time that does not
 * depend on which key was given. Keys are random text, so a hash without salt is enough: there is no dictionary of
 * them. A set is filled by one thread and then immutable. */
#ifndef HEADWAY_SERVER_AUTH_H
#define HEADWAY_SERVER_AUTH_H

#include "base/sha256.h"

enum {
    AUTH_KEYS_MAX = 1024,
    AUTH_KEY_BYTES_MAX = 512, /* of a key in plain text */
    AUTH_NOBODY = -1,
};

typedef struct {
    uint8_t hash[SHA256_BYTES];
    uint32_t tenant;
} auth_key;

typedef struct { /* zero-initialise */
    auth_key keys[AUTH_KEYS_MAX];
    size_t count; /* 0: everyone may, as tenant 0 */
} auth_keys;

typedef enum { AUTH_ADDED, AUTH_FULL, AUTH_TWICE } auth_result;
auth_result auth_add(auth_keys *auth, const uint8_t hash[SHA256_BYTES], uint32_t tenant);

/* May `key` be one: 1 to AUTH_KEY_BYTES_MAX visible ASCII characters, as a header can carry them? */
bool auth_key_is_valid(span key);

/* `authorization`: the header's value ("Bearer KEY"); `api_key`: that of x-api-key. Either may be empty. The tenant's
 * index, or AUTH_NOBODY. */
int auth_tenant(const auth_keys *auth, span authorization, span api_key);

#endif
