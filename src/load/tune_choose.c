/* load/tune_choose.c: from points to the sweet spot. */
#include "load/tune.h"

#include <math.h>
#include <stdlib.h>

static const double odd_factor = 4.0 / 3;  /* outside of both neighbours by this */
static const double same_premium = 1.05;   /* closer than this no run can tell */
static const double share_tolerance = 0.9; /* of the chat's share: its rate is that of a short window */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double tune_quantile(const double *sorted, uint32_t count, double part)
{
    double rank = ceil(part * count);
    return sorted[rank < 1 ? 0 : rank > count ? count - 1 : (uint32_t)rank - 1];
}

tune_spread tune_spread_of(double *values, uint32_t count)
{
    qsort(values, count, sizeof *values, by_value);
    double median = count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
    return (tune_spread){median, values[0], values[count - 1], count};
}

void tune_add_sample(tune_point *p, const tune_sample *sample)
{
    if (p->sample_count == TUNE_SAMPLES_MAX)
        return;
    p->samples[p->sample_count] = *sample;
    const tune_sample *best = &p->samples[p->best];
    bool better = best->starved ? !sample->starved : !sample->starved && sample->p99_us < best->p99_us;
    if (p->sample_count == 0 || better)
        p->best = p->sample_count;
    p->sample_count++;
}

/* ---- points that do not fit ---- */

/* The nearest measured point of the same curve on one side: the next smaller (or larger) chunk or bound. */
static const tune_sample *neighbour(const tune_report *r, const tune_point *p, bool larger)
{
    const tune_point *found = NULL;
    double at = p->bound_sweep ? (double)p->gap_us : p->chunk, found_at = 0;
    for (uint32_t i = 0; i < r->point_count; i++) {
        const tune_point *q = &r->points[i];
        if (q == p || q->bound_sweep != p->bound_sweep || strcmp(q->policy, p->policy) != 0 || !tune_value(q) ||
            (p->bound_sweep && q->chat_share != p->chat_share))
            continue;
        double q_at = q->bound_sweep ? (double)q->gap_us : q->chunk;
        bool side = larger ? q_at > at : q_at < at, nearer = larger ? q_at < found_at : q_at > found_at;
        if (side && (!found || nearer)) {
            found = q;
            found_at = q_at;
        }
    }
    return found ? tune_value(found) : NULL;
}

static bool breaks_out(double value, double a, double b)
{
    return value > odd_factor * fmax(a, b) || value * odd_factor < fmin(a, b);
}

bool tune_is_odd(const tune_report *r, uint32_t index)
{
    const tune_point *p = &r->points[index];
    const tune_sample *own = tune_value(p);
    if (!own)
        return p->refused[0] && p->gap_us >= r->smallest_gap_us;
    if (own->starved)
        return false;
    if (strcmp(p->policy, "cadence") == 0 && own->p99_us > (double)p->gap_us)
        return true;
    const tune_sample *a = neighbour(r, p, false), *b = neighbour(r, p, true);
    if (!a || !b || a->starved || b->starved)
        return false;
    return breaks_out(own->premium, a->premium, b->premium) || breaks_out(own->p99_us, a->p99_us, b->p99_us);
}

/* ---- the sweet spot ---- */

bool tune_keeps(const tune_report *r, const tune_point *p)
{
    const tune_sample *s = tune_value(p);
    return s && !s->starved && s->p99_us <= (double)r->gap_us &&
           s->chat_tokens_per_s >= share_tolerance * r->chat_share * r->solo_tokens_per_s;
}

/* Of policies that cost the same: the one that holds the bound by the clock, not because a chunk happens to fit it. */
static int rank_of(const tune_point *p)
{
    static const char *const order[] = {"cadence", "gate", "chunked", "prefill-first"};
    int rank = 0;
    while (rank < 4 && strcmp(order[rank], p->policy) != 0)
        rank++;
    return rank;
}

static bool is_candidate(const tune_report *r, const tune_point *p, const char *policy)
{
    return !p->bound_sweep && (!policy || strcmp(p->policy, policy) == 0) && tune_keeps(r, p);
}

int tune_sweet(const tune_report *r, const char *policy)
{
    double least = INFINITY;
    int best = -1;
    for (uint32_t i = 0; i < r->point_count; i++)
        if (is_candidate(r, &r->points[i], policy))
            least = fmin(least, tune_value(&r->points[i])->premium);
    for (uint32_t i = 0; i < r->point_count; i++) {
        const tune_point *p = &r->points[i];
        double premium = tune_value(p) ? tune_value(p)->premium : 0;
        if (!is_candidate(r, p, policy) || premium > same_premium * least)
            continue;
        int closer = best < 0 ? -1 : rank_of(p) - rank_of(&r->points[best]);
        if (closer < 0 || (closer == 0 && premium < tune_value(&r->points[best])->premium))
            best = (int)i;
    }
    return best;
}

int tune_choice(const tune_report *r)
{
    int best = tune_sweet(r, NULL);
    if (best >= 0)
        return best;
    for (uint32_t i = 0; i < r->point_count; i++) {
        const tune_sample *s = tune_value(&r->points[i]);
        if (!s || s->starved || r->points[i].bound_sweep)
            continue;
        if (best < 0 || s->p99_us < tune_value(&r->points[best])->p99_us)
            best = (int)i;
    }
    return best;
}
