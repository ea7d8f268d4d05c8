/* base/power_info.h: is the machine on mains, and are its clocks held back? Read from a folder shaped like Linux's
 * /sys; a system without one, or a file that is not there, leaves things unknown. Any thread. */
#ifndef HEADWAY_BASE_POWER_INFO_H
#define HEADWAY_BASE_POWER_INFO_H

#include <stdbool.h>
#include <stdint.h>

typedef enum { POWER_UNKNOWN, POWER_MAINS, POWER_BATTERY } power_source;

typedef struct {
    power_source source;
    uint64_t clock_khz;         /* of the fastest core now; 0: not known */
    uint64_t clock_highest_khz; /* that a core can have; 0: not known */
    uint64_t throttle_count;    /* times that heat or power held a core or a package back, since the start */
    bool throttle_counted;      /* throttle_count is known */
} power_info;

/* `root`: "/sys" or a folder like it; NULL: /sys. A clock is that of the moment: it says something of a run when it is
 * read while the cores are still fast, right at the run's end. */
void power_info_read(power_info *out, const char *root);

typedef struct {
    power_source source;             /* battery when it was at either end */
    bool throttled, throttled_known; /* held back while it ran, or its clocks fell */
} power_verdict;
/* Of what ran between two readings. Clocks fell when the second is under 85% of the first, or under half of the
 * highest. Take the highest clock seen so far for `before`: an idle core's tells nothing. */
power_verdict power_between(const power_info *before, const power_info *after);

const char *power_source_name(power_source source); /* "mains", "battery", "unknown" */

#endif
