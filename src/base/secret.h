/* base/secret.h: bytes that must not be guessed by timing or left lying about. Any thread. */
#ifndef HEADWAY_BASE_SECRET_H
#define HEADWAY_BASE_SECRET_H

#include <stdbool.h>
#include <stddef.h>

void secret_wipe(void *data, size_t size); /* zeroes, also where the compiler sees no later use; NULL with 0 allowed */
/* The time it takes depends on `size` alone. */
bool secret_equal(const void *a, const void *b, size_t size);

#endif
