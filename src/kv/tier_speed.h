/* kv/tier_speed.h: how long will this tier take to read that many bytes? Two forgetting means: the wait before the
 * first byte, from small reads, and the time of a byte, from large ones. A tier that has shown itself slower than the
 * guess is believed for some minutes and then tried again: who is never asked can show nothing. Pure. */
#ifndef HEADWAY_KV_TIER_SPEED_H
#define HEADWAY_KV_TIER_SPEED_H

#include <stdint.h>

typedef struct {
    double wait_us, byte_us;
    uint64_t learned_us; /* when, last */
} tier_speed;

tier_speed tier_speed_guess(void); /* 1 ms and 1 GB/s */
void tier_speed_learn(tier_speed *s, uint64_t bytes, uint64_t took_us, uint64_t now_us);
double tier_speed_predict(const tier_speed *s, uint64_t bytes, uint64_t now_us); /* microseconds */

#endif
