/* base/rng.h: seeded pseudo-random numbers (SplitMix64). The caller owns the state; same seed, same numbers everywhere.
 */
#ifndef HEADWAY_BASE_RNG_H
#define HEADWAY_BASE_RNG_H

#include <stdint.h>

typedef struct {
    uint64_t state;
} rng;

static inline uint64_t rng_next(rng *r)
{
    uint64_t z = (r->state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static inline double rng_unit(rng *r) /* [0, 1), 53 bits */
{
    return (double)(rng_next(r) >> 11) * 0x1p-53;
}

static inline uint64_t rng_below(rng *r, uint64_t bound) /* [0, bound), bound > 0 */
{
    return (uint64_t)(((unsigned __int128)rng_next(r) * bound) >> 64);
}

#endif
