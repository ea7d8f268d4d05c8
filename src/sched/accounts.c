/* sched/accounts.c: see the header. */
#include "sched/accounts.h"

#include <math.h>

static const double lane_floor = 0.1;                         /* of prefill time, for each lane with work */
static const double prefill_floor = 0.1;                      /* of device time, while streams decode */
static const double batch_part = 0.25;                        /* of what is not interactive decode */
static const double lane_memory_us = 2e6, owed_most_us = 5e5; /* 500 ms */

void accounts_init(accounts *a, const tenant_table *tenants, double chat_share)
{
    *a = (accounts){.tenants = *tenants, .chat_share = chat_share};
}

void accounts_set_tenants(accounts *a, const tenant_table *tenants)
{
    a->tenants = *tenants;
}

/* ---- tenants ---- */

static double lowest_active(const accounts *a)
{
    double lowest = INFINITY;
    for (uint32_t i = 0; i < TENANTS_MAX; i++)
        if (a->sequences[i] > 0 && a->virtual_us[i] < lowest)
            lowest = a->virtual_us[i];
    return lowest;
}

void accounts_enter(accounts *a, uint32_t tenant)
{
    if (a->sequences[tenant] == 0) {
        double lowest = lowest_active(a);
        if (isfinite(lowest) && a->virtual_us[tenant] < lowest)
            a->virtual_us[tenant] = lowest;
    }
    a->sequences[tenant]++;
}

void accounts_leave(accounts *a, uint32_t tenant)
{
    a->sequences[tenant]--;
}

void accounts_charge(accounts *a, uint32_t tenant, double us)
{
    double weight = tenant < a->tenants.count ? a->tenants.tenants[tenant].weight : 1;
    a->virtual_us[tenant] += us / (weight > 0 ? weight : 1);
    a->device_us[tenant] += (uint64_t)us;
}

/* ---- lanes ---- */

lane accounts_pick_lane(const accounts *a, uint32_t ready)
{
    double total = 0;
    for (int l = 0; l < LANES; l++)
        total += a->lane_us[l];
    for (int l = LANES - 1; l > 0; l--)
        if (ready >> l & 1 && total > 0 && a->lane_us[l] < lane_floor * total)
            return (lane)l;
    for (int l = 0; l < LANES; l++)
        if (ready >> l & 1)
            return (lane)l;
    return LANES;
}

void accounts_charge_lane(accounts *a, lane l, uint32_t ready, double us)
{
    if ((ready & (ready - 1)) == 0) { /* nobody else wanted it */
        for (int i = 0; i < LANES; i++)
            a->lane_us[i] = 0;
        return;
    }
    double total = 0;
    a->lane_us[l] += us;
    for (int i = 0; i < LANES; i++) {
        if (!(ready >> i & 1)) /* it has no claim while it has no work */
            a->lane_us[i] = 0;
        total += a->lane_us[i];
    }
    for (int i = 0; i < LANES && total > lane_memory_us; i++)
        a->lane_us[i] *= lane_memory_us / total;
}

/* ---- kinds of work ---- */

static double bounded(double owed_us)
{
    return fmin(fmax(owed_us, -owed_most_us), owed_most_us);
}

void accounts_work(accounts *a, const work_done *w)
{
    bool other = w->prompts || w->batch;
    a->chat_owed_us = w->streams && other ? bounded(a->chat_owed_us + a->chat_share * w->us - w->interactive_us) : 0;
    a->prefill_owed_us =
        w->streams && w->prompts ? bounded(a->prefill_owed_us + prefill_floor * w->us - w->prefill_us) : 0;
    double rest_us = w->us - w->interactive_us;
    a->batch_owed_us = w->batch && other ? bounded(a->batch_owed_us + batch_part * rest_us - w->batch_us) : 0;
}
