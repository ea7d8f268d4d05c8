/* metrics/cadence.h: is the promise kept, and what does it cost? Bound, slack, violations by cause, the step model's
 * error, device time by kind of step. Copied in from the engine's numbers before rendering. Any thread, after
 * cadence_metrics_register. */
#ifndef HEADWAY_METRICS_CADENCE_H
#define HEADWAY_METRICS_CADENCE_H

#include "metrics/registry.h"

enum { CADENCE_CAUSES = 5, CADENCE_KINDS = 3 }; /* in the engine's order: gap_cause; decode, prefill, fused */

typedef struct {
    counter *violations[CADENCE_CAUSES], *gaps, *alarms, *step_s[CADENCE_KINDS];
    gauge *bound_s, *smallest_s, *slack_s, *bytes_per_s, *roof_ratio;
    gauge *error_median[CADENCE_KINDS], *error_under[CADENCE_KINDS];
} cadence_metrics;

void cadence_metrics_register(cadence_metrics *out, metrics_registry *registry);

#endif
