/* base/thread.c: nice by thread is Linux's own; elsewhere threads keep their priority. */
#define _GNU_SOURCE
#include "base/thread.h"

#include <time.h>
#ifdef __linux__
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

enum { NICE_STEP = 5 };

void thread_step_back(void)
{
#ifdef __linux__
    id_t id = (id_t)syscall(SYS_gettid);
    setpriority(PRIO_PROCESS, id, getpriority(PRIO_PROCESS, id) + NICE_STEP);
#endif
}

void thread_wait_us(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t us)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    uint64_t ns = (uint64_t)until.tv_nsec + us % 1000000u * 1000u;
    until.tv_sec += (time_t)(us / 1000000u + ns / 1000000000u);
    until.tv_nsec = (long)(ns % 1000000000u);
    pthread_cond_timedwait(cond, lock, &until);
}
