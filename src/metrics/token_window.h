/* metrics/token_window.h: how many tokens in the last hour, in the last day? A ring of totals, one for each minute of a
 * day; the caller brings the totals and the time. Bounded: 35 KB, whatever happens. One thread. */
#ifndef HEADWAY_METRICS_TOKEN_WINDOW_H
#define HEADWAY_METRICS_TOKEN_WINDOW_H

#include <stdint.h>

enum { WINDOW_HOUR = 60, WINDOW_DAY = 24 * 60 }; /* minutes */

typedef struct {
    uint64_t prompt, cached, generated; /* since the start */
} token_totals;

typedef struct { /* zero-initialise */
    uint64_t first_minute, last_minute;
    uint32_t count;                       /* of samples, up to all */
    token_totals samples[WINDOW_DAY + 1]; /* [minute % (WINDOW_DAY + 1)]: as the minute began */
} token_window;

/* To be called at least once a minute; minutes without a call count as if nothing had happened in them before `now`. */
void token_window_sample(token_window *w, uint64_t now_us, token_totals totals);
/* What came in the last `minutes` (at most WINDOW_DAY), to the minute; everything when the window is younger. */
token_totals token_window_sum(const token_window *w, uint64_t now_us, token_totals totals, uint32_t minutes);

#endif
