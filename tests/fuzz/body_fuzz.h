/* tests/fuzz/body_fuzz.h: bodies of one dialect through its handlers. The first byte picks the endpoint, the rest is
 * the body; mutations keep it JSON most of the time. A target is this and its endpoints. */
#ifndef HEADWAY_TESTS_BODY_FUZZ_H
#define HEADWAY_TESTS_BODY_FUZZ_H

#include "fuzz/json_mutator.h"
#include "server/router.h"
#include "unit/server/bodies.h"

static void body_fuzz_run(const char *const *paths, size_t count, const uint8_t *data, size_t size)
{
    static bodies world;
    bool known;
    const char *allow;
    if (!world.tokenizer)
        bodies_open(&world);
    if (size < 2)
        return;
    world.route = router_find(HTTP_POST, span_from(paths[data[0] % count]), &known, &allow);
    if (!world.route)
        abort();
    bodies_run(&world, world.route->handle, (const char *)data + 1, size - 1);
}

#define BODY_FUZZ(...)                                                                                                 \
    int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)                                                       \
    {                                                                                                                  \
        static const char *const paths[] = {__VA_ARGS__};                                                              \
        body_fuzz_run(paths, sizeof paths / sizeof *paths, data, size);                                                \
        return 0;                                                                                                      \
    }                                                                                                                  \
    size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)                         \
    {                                                                                                                  \
        return json_mutate(data, size, max_size, seed, 1);                                                             \
    }

#endif
