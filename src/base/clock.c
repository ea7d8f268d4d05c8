/* base/clock.c: the real clock and one that moves only when told. */
#include "base/clock.h"

#include <time.h>

uint64_t clock_now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

uint64_t clock_unix_seconds(void)
{
    return (uint64_t)time(NULL);
}

static uint64_t real_now(hw_clock *self)
{
    (void)self;
    return clock_now_us();
}

static void real_sleep(hw_clock *self, uint64_t us)
{
    (void)self;
    struct timespec t = {(time_t)(us / 1000000u), (long)(us % 1000000u) * 1000};
    nanosleep(&t, NULL);
}

hw_clock *clock_real(void)
{
    static hw_clock real = {real_now, real_sleep};
    return &real;
}

static uint64_t virtual_now(hw_clock *self)
{
    return ((virtual_clock *)self)->time_us;
}

static void virtual_sleep(hw_clock *self, uint64_t us)
{
    ((virtual_clock *)self)->time_us += us;
}

void virtual_clock_init(virtual_clock *clock, uint64_t start_us)
{
    *clock = (virtual_clock){{virtual_now, virtual_sleep}, start_us};
}
