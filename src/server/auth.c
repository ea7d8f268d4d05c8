/* server/auth.c: hashed API keys. */
#include "server/auth.h"

#include <strings.h>

#include "base/secret.h"

auth_result auth_add(auth_keys *auth, const uint8_t hash[SHA256_BYTES], uint32_t tenant)
{
    for (size_t i = 0; i < auth->count; i++)
        if (memcmp(auth->keys[i].hash, hash, SHA256_BYTES) == 0) /* the operator's own keys: nobody to time it */
            return AUTH_TWICE;
    if (auth->count == AUTH_KEYS_MAX)
        return AUTH_FULL;
    auth_key *key = &auth->keys[auth->count++];
    memcpy(key->hash, hash, SHA256_BYTES);
    key->tenant = tenant;
    return AUTH_ADDED;
}

bool auth_key_is_valid(span key)
{
    for (size_t i = 0; i < key.size; i++)
        if (key.data[i] <= ' ' || key.data[i] > '~')
            return false;
    return key.size > 0 && key.size <= AUTH_KEY_BYTES_MAX;
}

int auth_tenant(const auth_keys *auth, span authorization, span api_key)
{
    if (!auth->count)
        return 0;
    span given = api_key;
    if (authorization.size > 7 && strncasecmp(authorization.data, "Bearer ", 7) == 0)
        given = span_of(authorization.data + 7, authorization.size - 7);
    while (given.size && given.data[0] == ' ')
        given = span_of(given.data + 1, given.size - 1);
    if (!given.size)
        return AUTH_NOBODY;
    uint8_t hash[SHA256_BYTES];
    int found = AUTH_NOBODY;
    sha256(given, hash);
    for (size_t i = 0; i < auth->count; i++) { /* always all of them, without a branch on the outcome */
        int mask = -(int)secret_equal(auth->keys[i].hash, hash, SHA256_BYTES);
        found = (found & ~mask) | ((int)auth->keys[i].tenant & mask);
    }
    return found;
}
