/* model/write/fill.c: SplitMix64's finaliser over a counter; four of its 16-bit pieces summed are close to normal. */
#include "model/write/fill.h"

#include <math.h>

#include "tensor/quant.h"

static const uint64_t STEP = 0x9E3779B97F4A7C15u;

static inline uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

uint64_t fill_key(uint64_t seed, const char *tensor)
{
    uint64_t hash = 0xCBF29CE484222325u; /* FNV-1a */
    for (; *tensor; tensor++)
        hash = (hash ^ (uint8_t)*tensor) * 0x100000001B3u;
    return mix(mix(seed + STEP) ^ hash);
}

/* The sum of four numbers of 16 bits has mean 131,070 and deviation 65536 / sqrt(3), near enough. */
static inline float centred(uint64_t bits)
{
    uint64_t pairs = (bits & 0x0000FFFF0000FFFFu) + ((bits >> 16) & 0x0000FFFF0000FFFFu);
    uint32_t sum = (uint32_t)pairs + (uint32_t)(pairs >> 32);
    return (float)((int32_t)sum - 131070);
}

void fill_row(uint64_t key, uint64_t row, fill_kind kind, float scale, bool exact, float *out, size_t count)
{
    uint64_t base = mix(key + (row + 1) * STEP);
    if (kind == FILL_LOG_UNIFORM) {
        for (size_t i = 0; i < count; i++) {
            double unit = (double)(mix(base + (i + 1) * STEP) >> 11) * 0x1p-53;
            out[i] = (float)log(0.3 + 7.7 * unit);
        }
    } else {
        float unit = scale * (1.7320508f / 65536), mean = kind == FILL_ONE ? 1 : 0;
        for (size_t i = 0; i < count; i++)
            out[i] = mean + unit * centred(mix(base + (i + 1) * STEP));
    }
    for (size_t i = 0; exact && i < count; i++)
        out[i] = bf16_to_f32(f32_to_bf16(out[i]));
}
