/* kv/tier_speed.c: each read is laid to the one of the two means that it says more about. */
#include "kv/tier_speed.h"

#include <math.h>

#define GUESS_WAIT_US 1000.0
#define GUESS_BYTE_US 1e-3
#define NEWEST_SHARE 0.3        /* of a mean, by the newest read */
#define BELIEF_HALVES_US 120e6  /* the surplus over the guess is half as much after so long without a read */
enum { LARGE_BYTES = 1 << 20 }; /* from here on the bytes take most of the time */

tier_speed tier_speed_guess(void)
{
    return (tier_speed){GUESS_WAIT_US, GUESS_BYTE_US, 0};
}

static double aged(double measured, double guess, double belief)
{
    return measured > guess ? guess + (measured - guess) * belief : measured;
}

static tier_speed as_of(const tier_speed *s, uint64_t now_us)
{
    double age_us = now_us > s->learned_us ? (double)(now_us - s->learned_us) : 0;
    double belief = exp2(-age_us / BELIEF_HALVES_US);
    return (tier_speed){aged(s->wait_us, GUESS_WAIT_US, belief), aged(s->byte_us, GUESS_BYTE_US, belief), now_us};
}

void tier_speed_learn(tier_speed *s, uint64_t bytes, uint64_t took_us, uint64_t now_us)
{
    tier_speed now = as_of(s, now_us);
    double took = (double)took_us, size = (double)bytes;
    if (bytes >= LARGE_BYTES) {
        double seen = fmax(took - now.wait_us, took / 2) / size;
        now.byte_us += NEWEST_SHARE * (seen - now.byte_us);
    } else {
        double seen = fmax(took - size * now.byte_us, took / 2);
        now.wait_us += NEWEST_SHARE * (seen - now.wait_us);
    }
    *s = now;
}

double tier_speed_predict(const tier_speed *s, uint64_t bytes, uint64_t now_us)
{
    tier_speed now = as_of(s, now_us);
    return now.wait_us + (double)bytes * now.byte_us;
}
