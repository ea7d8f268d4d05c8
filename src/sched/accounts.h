/* sched/accounts.h: who has had how much of the device, and who is owed some? Three books over the time of steps:
 * tenants (virtual time = device time / weight: the lowest goes first), lanes of waiting prompts (the higher one first,
 * but none below its floor), and kinds of work (interactive decode against its share, prefill and batch decode against
 * their floors). Debts are bounded, so that no past is repaid at length. Numbers only. Owner: the scheduler. */
#ifndef HEADWAY_SCHED_ACCOUNTS_H
#define HEADWAY_SCHED_ACCOUNTS_H

#include "sched/tenant.h"

typedef enum { /* of prompts, the first ones first */
               LANE_SHORT,
               LANE_TURN, /* long, of a conversation that is mostly cached; never batch */
               LANE_SHORT_BATCH,
               LANE_DOCUMENT,
               LANE_DOCUMENT_BATCH,
               LANES
} lane;

typedef struct {
    tenant_table tenants;
    double virtual_us[TENANTS_MAX];
    uint64_t device_us[TENANTS_MAX];
    uint32_t sequences[TENANTS_MAX]; /* in the scheduler */
    double lane_us[LANES];           /* of the newest seconds in which more than one lane had work */
    double chat_share;
    double chat_owed_us, prefill_owed_us, batch_owed_us;
} accounts;

void accounts_init(accounts *a, const tenant_table *tenants, double chat_share);
void accounts_set_tenants(accounts *a, const tenant_table *tenants); /* indices stay */

void accounts_enter(accounts *a, uint32_t tenant); /* a sequence: after a pause its tenant has no credit saved */
void accounts_leave(accounts *a, uint32_t tenant);
void accounts_charge(accounts *a, uint32_t tenant, double us); /* device time used for it */
static inline double accounts_virtual(const accounts *a, uint32_t tenant)
{
    return a->virtual_us[tenant];
}

/* `ready`: bit per lane that has a prompt. The lane to advance; LANES when none has. */
lane accounts_pick_lane(const accounts *a, uint32_t ready);
void accounts_charge_lane(accounts *a, lane l, uint32_t ready, double us);

typedef struct { /* one step */
    double us;
    double interactive_us; /* of it, what a decode step of the interactive streams alone takes */
    double prefill_us, batch_us;
    bool streams; /* interactive streams could decode */
    bool prompts; /* a prompt waited */
    bool batch;   /* batch streams could decode */
} work_done;
void accounts_work(accounts *a, const work_done *work);

#endif
