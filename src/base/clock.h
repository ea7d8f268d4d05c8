/* base/clock.h: what time is it? The only place that reads the machine's clock; everything else gets time as an
 * argument or a `hw_clock` to ask. Any thread. */
#ifndef HEADWAY_BASE_CLOCK_H
#define HEADWAY_BASE_CLOCK_H

#include <stdint.h>

typedef struct hw_clock hw_clock;
struct hw_clock {
    uint64_t (*now_us)(hw_clock *self);            /* monotonic microseconds */
    void (*sleep_us)(hw_clock *self, uint64_t us); /* real: sleeps; virtual: moves time on */
};

hw_clock *clock_real(void);  /* a static object */
uint64_t clock_now_us(void); /* of the real clock */
uint64_t clock_unix_seconds(void);

typedef struct {
    hw_clock base; /* first: a virtual_clock* is a hw_clock* */
    uint64_t time_us;
} virtual_clock;
void virtual_clock_init(virtual_clock *clock, uint64_t start_us);

#endif
