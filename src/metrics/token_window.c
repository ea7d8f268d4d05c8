/* metrics/token_window.c: see token_window.h. */
#include "metrics/token_window.h"

enum { SLOTS = WINDOW_DAY + 1 };

static uint64_t minute_of(uint64_t now_us)
{
    return now_us / 60000000u;
}

void token_window_sample(token_window *w, uint64_t now_us, token_totals totals)
{
    uint64_t minute = minute_of(now_us);
    if (!w->count) {
        w->first_minute = w->last_minute = minute;
        w->samples[minute % SLOTS] = (token_totals){0}; /* what is there already came in this minute */
        w->count = 1;
        return;
    }
    if (minute <= w->last_minute)
        return;
    uint64_t from = w->last_minute + 1;
    if (minute - w->last_minute > SLOTS)
        from = minute - SLOTS + 1;
    for (uint64_t m = from; m <= minute; m++)
        w->samples[m % SLOTS] = totals;
    w->last_minute = minute;
    uint64_t kept = minute - w->first_minute + 1;
    w->count = kept < SLOTS ? (uint32_t)kept : SLOTS;
}

token_totals token_window_sum(const token_window *w, uint64_t now_us, token_totals totals, uint32_t minutes)
{
    uint64_t minute = minute_of(now_us), span = minutes < WINDOW_DAY ? minutes : WINDOW_DAY;
    if (!w->count || minute < span || minute - span <= w->first_minute)
        return totals;
    uint64_t from = minute - span;
    if (from > w->last_minute) /* nobody sampled for that long */
        return (token_totals){0};
    token_totals before = w->samples[from % SLOTS];
    return (token_totals){totals.prompt - before.prompt, totals.cached - before.cached,
                          totals.generated - before.generated};
}
