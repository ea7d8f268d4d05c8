/* server/auth.c: API keys. */
#include "server/auth.h"

#include <strings.h>

/* Takes as long for a wrong key as for a right one of the same length. */
static bool same_key(span given, const char *key)
{
    size_t size = strlen(key);
    unsigned char difference = given.size != size;
    for (size_t i = 0; i < given.size; i++)
        difference |= (unsigned char)(given.data[i] ^ key[size ? i % size : 0]);
    return !difference && size;
}

bool auth_allows(const auth_keys *auth, span authorization, span api_key)
{
    if (!auth->count)
        return true;
    span given = api_key;
    if (authorization.size > 7 && strncasecmp(authorization.data, "Bearer ", 7) == 0)
        given = span_of(authorization.data + 7, authorization.size - 7);
    while (given.size && given.data[0] == ' ')
        given = span_of(given.data + 1, given.size - 1);
    bool allowed = false;
    for (size_t i = 0; i < auth->count; i++)
        allowed |= same_key(given, auth->keys[i]);
    return allowed && given.size;
}
