/* tensor/cpu/cpu_os.c: the operating system's part. Memory above HUGE_PAGE is mapped, and above HUGE_MIN it lies on a
 * 2 MiB border and is offered for huge pages: a decode step walks all weights once, and with 4 KiB pages the TLB is
 * what it waits for. Below, a huge page would mostly hold what nobody touches. */
#define _GNU_SOURCE
#include "tensor/cpu/cpu_os.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/resource.h>
#include <sys/syscall.h>
#endif
#ifndef MAP_ANONYMOUS
#define MAP_ANONYMOUS MAP_ANON
#endif

enum { HUGE_PAGE = 2 << 20, HUGE_MIN = 48 << 20, NICE_STEP = 5 };

uint32_t cpu_os_cores(void)
{
#ifdef __linux__
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 0)
        return (uint32_t)CPU_COUNT(&set);
#endif
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (uint32_t)n : 1;
}

void cpu_os_lower_priority(void)
{
#ifdef __linux__
    pid_t id = (pid_t)syscall(SYS_gettid);
    int now = getpriority(PRIO_PROCESS, (id_t)id);
    setpriority(PRIO_PROCESS, (id_t)id, now + NICE_STEP);
#endif
}

void cpu_os_yield(void)
{
    sched_yield();
}

static size_t mapped_size(size_t bytes)
{
    return (bytes + 65535) & ~(size_t)65535;
}

static void *map_huge(size_t bytes)
{
    size_t want = mapped_size(bytes) + HUGE_PAGE;
    char *base = mmap(NULL, want, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        return NULL;
    size_t lead = (HUGE_PAGE - (uintptr_t)base % HUGE_PAGE) % HUGE_PAGE;
    if (lead)
        munmap(base, lead);
    if (HUGE_PAGE - lead)
        munmap(base + lead + mapped_size(bytes), HUGE_PAGE - lead);
#ifdef MADV_HUGEPAGE
    if (bytes >= HUGE_MIN)
        madvise(base + lead, mapped_size(bytes), MADV_HUGEPAGE);
#endif
    return base + lead;
}

void *cpu_os_alloc(size_t bytes)
{
    if (bytes == 0)
        bytes = 64;
    if (bytes > SIZE_MAX - 2 * HUGE_PAGE)
        return NULL;
    if (bytes >= HUGE_PAGE)
        return map_huge(bytes);
    size_t size = (bytes + 63) & ~(size_t)63;
    void *memory = aligned_alloc(64, size);
    if (memory)
        memset(memory, 0, size);
    return memory;
}

void cpu_os_free(void *memory, size_t bytes)
{
    if (!memory)
        return;
    if (bytes >= HUGE_PAGE)
        munmap(memory, mapped_size(bytes));
    else
        free(memory);
}

void cpu_os_touch(void *memory, size_t bytes)
{
#ifdef MADV_POPULATE_WRITE
    size_t page = (size_t)sysconf(_SC_PAGESIZE), before = (uintptr_t)memory % page;
    madvise((char *)memory - before, bytes + before, MADV_POPULATE_WRITE); /* where it cannot be, it comes when used */
#else
    (void)memory, (void)bytes;
#endif
}
