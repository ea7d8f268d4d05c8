/* tests/unit/slow.h: under a sanitizer or an emulator a step costs 5 to 50 times as much. HEADWAY_SLOW (set by `make
 * asan`, `make tsan` and the arm64 tests) asks for fewer of the same kind there; `make unit` runs all. */
#ifndef HEADWAY_TESTS_SLOW_H
#define HEADWAY_TESTS_SLOW_H

#include <stdint.h>
#include <stdlib.h>

static inline uint32_t slowly(uint32_t all, uint32_t fewer)
{
    return getenv("HEADWAY_SLOW") ? fewer : all;
}

#endif
