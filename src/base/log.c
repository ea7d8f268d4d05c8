/* base/log.c: log lines on stderr. */
#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"

static atomic_int lowest_level = LOG_INFO;

void log_set_level(log_level lowest)
{
    atomic_store(&lowest_level, (int)lowest);
}

void log_line(log_level level, const char *format, ...)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};
    if ((int)level < atomic_load(&lowest_level))
        return;
    char line[1200];
    static _Atomic uint64_t first;
    uint64_t now = clock_now_us(), unset = 0;
    if (atomic_compare_exchange_strong(&first, &unset, now))
        unset = now;
    now -= unset;
    int used = snprintf(line, sizeof line, "%llu.%03u %s ", (unsigned long long)(now / 1000000u),
                        (unsigned)(now / 1000u % 1000u), names[level]);
    va_list args;
    va_start(args, format);
    int more = vsnprintf(line + used, sizeof line - (size_t)used - 1, format, args);
    va_end(args);
    size_t size = (size_t)used + (more > 0 ? (size_t)more : 0);
    if (size > sizeof line - 2)
        size = sizeof line - 2;
    line[size++] = '\n';
    if (write(2, line, size) < 0)
        return; /* nowhere to complain to */
}
