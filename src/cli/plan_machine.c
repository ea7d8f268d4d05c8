/* cli/plan_machine.c: see the header. */
#include "cli/plan_machine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/run_names.h"
#include "cli/tune_files.h"
#include "tensor/backend.h"

enum { READ_BYTES = 48 << 20 };
static const double clock_guess_ghz = 3.0;

/* Multiplications and additions of a core and cycle. */
static const struct {
    const char *kernels;
    double f32, int8;
} cores[] = {{"avx512bf16", 32, 128}, {"avx512", 32, 128}, {"avx2", 32, 64}, {"neon", 16, 64}, {"generic", 8, 8}};

static double clock_ghz(void)
{
    FILE *file = fopen("/proc/cpuinfo", "r");
    char line[256];
    double mhz = 0, one;
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "cpu MHz : %lf", &one) == 1 && one > mhz)
            mhz = one;
    if (file)
        fclose(file);
    return mhz > 100 ? mhz / 1e3 : clock_guess_ghz;
}

/* The whole memory, or what the process may have of it where that is held down. */
static double memory_gb(void)
{
    double whole = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    double group = 0;
    FILE *file = fopen("/sys/fs/cgroup/memory.max", "r");
    if (file) {
        if (fscanf(file, "%lf", &group) != 1)
            group = 0;
        fclose(file);
    }
    return (group > 0 && group < whole ? group : whole) / 1e9;
}

status plan_machine(hardware *out, plan_machine_words *words, error *err)
{
    backend *device;
    const hardware *row;
    run_hardware_name(words->name); /* under which its own runs are kept */
    if (hardware_find(&row, words->name, NULL) == OK) {
        *out = *row;
        return OK;
    }
    status st = cpu_backend_open(&device, &(backend_config){0, getenv("HEADWAY_CPU")}, err);
    if (st)
        return st;
    double bytes_s = device->ops->read_roof(device, READ_BYTES), ghz = clock_ghz();
    *out = (hardware){.name = words->name,
                      .title = words->title,
                      .family = "cpu",
                      .kind = HW_HOST,
                      .memory_gb = memory_gb(),
                      .bandwidth_gb_s = bytes_s / 1e9,
                      .source =
                          "bandwidth: read just now over 48 MB; matmuls: cores x clock x what their instructions do"};
    for (size_t i = 0; i < sizeof cores / sizeof *cores; i++)
        if (!strcmp(cores[i].kernels, device->kernels)) {
            out->tflops[RATE_F32] = device->threads * ghz * cores[i].f32 / 1e3;
            out->tflops[RATE_INT8] = device->threads * ghz * cores[i].int8 / 1e3;
        }
    tune_machine_name(words->title, sizeof words->title, device->threads, device->kernels);
    device->ops->close(device);
    return OK;
}
