/* tensor/cpu/generic/half.h: f16 in plain C. Round to nearest even; subnormals kept. Pure; any thread. */
#ifndef HEADWAY_TENSOR_CPU_GENERIC_HALF_H
#define HEADWAY_TENSOR_CPU_GENERIC_HALF_H

#include <stdint.h>
#include <string.h>

static inline float half_to_float(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, magnitude = h & 0x7fffu, bits;
    if (magnitude < 0x400) { /* zero or subnormal: magnitude * 2^-24 */
        float f = (float)magnitude * 0x1p-24f;
        memcpy(&bits, &f, 4);
    } else {
        bits = (magnitude << 13) + (magnitude >= 0x7c00 ? 0x70000000u : 0x38000000u);
    }
    bits |= sign;
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

/* Clamps to +-65504 (NaN too), so that the result is finite. */
static inline uint16_t half_from_float(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, 4);
    uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude >= 0x477fe000u)
        return (uint16_t)(sign | 0x7bffu);
    if (magnitude < 0x38800000u) { /* below 2^-14: adding 0.5 leaves round(x * 2^24) in the low bits */
        float a;
        memcpy(&a, &magnitude, 4);
        a += 0.5f;
        memcpy(&bits, &a, 4);
        return (uint16_t)(sign | (bits - 0x3f000000u));
    }
    magnitude += 0xfffu + (magnitude >> 13 & 1u);
    return (uint16_t)(sign | ((magnitude - 0x38000000u) >> 13));
}

#endif
