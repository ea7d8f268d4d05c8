/* tensor/cpu/cpu_detect.c: the rows of kernels.h, best first, and which of them this machine can run. */
#include "tensor/cpu/cpu_ops.h"
#include "tensor/cpu/kernels.h"
#include "tensor/cpu/matmul_kernels.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

typedef struct {
    const char *name;
    bool (*present)(void);
    const matmul_kernels *matmul;
    const char *floats; /* whose float family it takes */
    const bf16_kernels *bf16;
} isa;

static bool always(void)
{
    return true;
}

#if defined(__x86_64__)
static bool has_avx2(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vnni");
}

static bool has_avx512bf16(void)
{
    return has_avx512() && __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vbmi");
}
#elif defined(__aarch64__)
static bool has_dotprod(void)
{
#if defined(__linux__)
    const unsigned long dot_product = 1ul << 20; /* HWCAP_ASIMDDP */
    return getauxval(AT_HWCAP) & dot_product;
#else
    return true; /* every Apple machine of this architecture */
#endif
}
#endif

static const isa ISAS[] = {
#if defined(__x86_64__)
    {"avx512bf16", has_avx512bf16, &matmul_kernels_avx512, "avx512", &bf16_kernels_avx512},
    {"avx512", has_avx512, &matmul_kernels_avx512, "avx512", NULL},
    {"avx2", has_avx2, &matmul_kernels_avx2, "avx2", NULL},
#elif defined(__aarch64__)
    {"neon", has_dotprod, &matmul_kernels_neon, "neon", NULL},
#endif
    {"generic", always, &matmul_kernels_generic, "generic", NULL},
};
enum { ISA_COUNT = sizeof(ISAS) / sizeof(ISAS[0]) };

static void list_present(char *text, size_t size)
{
    size_t used = 0;
    text[0] = 0;
    for (size_t i = 0; i < ISA_COUNT && used < size; i++)
        if (ISAS[i].present())
            used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", ISAS[i].name);
}

status cpu_kernels_choose(const char *name, cpu_kernels *out, error *err)
{
    for (size_t i = 0; i < ISA_COUNT; i++) {
        if ((name && strcmp(name, ISAS[i].name) != 0) || !ISAS[i].present())
            continue;
        *out = (cpu_kernels){ISAS[i].name, ISAS[i].matmul, float_kernels_named(ISAS[i].floats), ISAS[i].bf16};
        return OK;
    }
    char have[64];
    list_present(have, sizeof(have));
    return error_set(err, ERR_UNSUPPORTED, "CPU kernels \"%s\": this machine has %s", name, have);
}
