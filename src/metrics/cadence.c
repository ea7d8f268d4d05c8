/* metrics/cadence.c: names and help. */
#include "metrics/cadence.h"

#include <stdio.h>

static const char *const kinds[CADENCE_KINDS] = {"decode", "prefill", "fused"};

static void register_kinds(cadence_metrics *m, metrics_registry *r)
{
    static const char *const help = "Step model: (measured - predicted) / predicted over the newest steps; 0.5 is the "
                                    "median of its size, 0.95-under how much longer than predicted 95% took at most.";
    for (int i = 0; i < CADENCE_KINDS; i++) {
        char labels[80];
        snprintf(labels, sizeof labels, "kind=\"%s\"", kinds[i]);
        m->step_s[i] =
            metrics_counter(r, (metric_name){"headway_step_seconds", "Device time in steps, by their kind.", labels});
        snprintf(labels, sizeof labels, "kind=\"%s\",quantile=\"0.5\"", kinds[i]);
        m->error_median[i] = metrics_gauge(r, (metric_name){"headway_step_model_error_ratio", help, labels});
        snprintf(labels, sizeof labels, "kind=\"%s\",quantile=\"0.95-under\"", kinds[i]);
        m->error_under[i] = metrics_gauge(r, (metric_name){"headway_step_model_error_ratio", help, labels});
    }
}

void cadence_metrics_register(cadence_metrics *m, metrics_registry *r)
{
    static const char *const causes[CADENCE_CAUSES] = {"cause=\"prefill\"", "cause=\"decode\"", "cause=\"machine\"",
                                                       "cause=\"preemption\"", "cause=\"policy\""};
    *m = (cadence_metrics){0};
    for (int i = 0; i < CADENCE_CAUSES; i++)
        m->violations[i] =
            metrics_counter(r, (metric_name){"headway_gap_violations",
                                             "Gaps of interactive streams over their bound, by what made "
                                             "them late.",
                                             causes[i]});
    m->gaps = metrics_counter(r, (metric_name){"headway_gaps", "Gaps of interactive streams.", NULL});
    m->alarms = metrics_counter(
        r, (metric_name){"headway_alarms",
                         "Gaps over their bound while utilization and total throughput looked healthy: what neither "
                         "of the two shows.",
                         NULL});
    m->bound_s = metrics_gauge(
        r, (metric_name){"headway_gap_bound_seconds", "Bound on the gap of streams that bring none.", NULL});
    m->smallest_s = metrics_gauge(
        r, (metric_name){"headway_gap_smallest_seconds", "Smallest bound that this box keeps for one stream.", NULL});
    m->slack_s = metrics_gauge(
        r, (metric_name){"headway_slack_seconds", "Time to the earliest deadline at the last plan; +Inf: none.", NULL});
    m->bytes_per_s =
        metrics_gauge(r, (metric_name){"headway_bytes_per_second",
                                       "Useful bytes of the steps of the last moment by their time.", NULL});
    m->roof_ratio = metrics_gauge(
        r, (metric_name){"headway_roof_ratio", "headway_bytes_per_second by the measured read rate.", NULL});
    register_kinds(m, r);
}
