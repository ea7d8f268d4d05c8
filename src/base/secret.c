/* base/secret.c: see secret.h. */
#include "base/secret.h"

void secret_wipe(void *data, size_t size)
{
    volatile unsigned char *at = data;
    while (size--)
        *at++ = 0;
}

bool secret_equal(const void *a, const void *b, size_t size)
{
    const unsigned char *x = a, *y = b;
    unsigned char difference = 0;
    for (size_t i = 0; i < size; i++)
        difference |= (unsigned char)(x[i] ^ y[i]);
    return difference == 0;
}
