/* base/memory_info.c: memory figures: /proc and control groups on Linux, sysconf elsewhere. */
#include "base/memory_info.h"

#include <stdio.h>
#include <unistd.h>

static uint64_t read_number(const char *path, const char *format)
{
    FILE *f = fopen(path, "r");
    if (!f)
        return 0;
    char line[256];
    unsigned long long value = 0;
    while (fgets(line, sizeof line, f))
        if (sscanf(line, format, &value) == 1)
            break;
    fclose(f);
    return value;
}

uint64_t memory_available(void)
{
    uint64_t bytes = read_number("/proc/meminfo", "MemAvailable: %llu") * 1024;
    if (!bytes)
        bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 2;
    uint64_t limit = read_number("/sys/fs/cgroup/memory.max", "%llu");
    uint64_t used = read_number("/sys/fs/cgroup/memory.current", "%llu");
    if (limit > used && limit - used < bytes)
        bytes = limit - used;
    return bytes;
}

uint64_t memory_resident(void)
{
    return read_number("/proc/self/status", "VmRSS: %llu") * 1024;
}
