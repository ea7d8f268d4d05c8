/* metrics/registry.h: counters, gauges and histograms by name, rendered as Prometheus text. Numbers only: who serves
 * the text is not known here. A registry owns its series. Registering: one thread, at any time: a series is linked in
 * once it is complete, and none is ever taken out, so whoever registers at run time bounds how many. Updating and
 * rendering: any thread (every number is atomic; a histogram being updated may show an observation in its sum before it
 * shows in its buckets). A series that could not be registered (out of memory) is NULL, and every update accepts NULL.
 */
#ifndef HEADWAY_METRICS_REGISTRY_H
#define HEADWAY_METRICS_REGISTRY_H

#include "base/buf.h"
#include "base/error.h"

typedef struct metrics_registry metrics_registry;
typedef struct counter counter;
typedef struct gauge gauge;
typedef struct histogram histogram;

typedef struct {
    const char *name;   /* "vllm:prompt_tokens"; a counter is rendered with "_total" behind it */
    const char *help;   /* one line */
    const char *labels; /* `reason="stop"`, comes behind the registry's own; NULL: none */
} metric_name;

/* `labels`: of every series, as label_text makes them; "" or NULL: none. */
status metrics_registry_create(metrics_registry **out, const char *labels, error *err);
void metrics_registry_destroy(metrics_registry *registry); /* NULL is allowed */
void metrics_registry_render(const metrics_registry *registry, buf *out);

/* All texts are copied. Series of one name stand together under one HELP; the same name and labels again gives the same
 * series. */
counter *metrics_counter(metrics_registry *registry, metric_name name);
gauge *metrics_gauge(metrics_registry *registry, metric_name name);
histogram *metrics_histogram(metrics_registry *registry, metric_name name, const double *edges,
                             size_t edge_count); /* rising */

void counter_add(counter *c, double amount);  /* amount >= 0 */
void counter_reach(counter *c, double value); /* up to a total counted elsewhere; never down */
double counter_value(const counter *c);
void gauge_set(gauge *g, double value);
double gauge_value(const gauge *g);
void histogram_observe(histogram *h, double value);
void histogram_observe_times(histogram *h, double value, uint64_t times);
uint64_t histogram_count(const histogram *h);
double histogram_sum(const histogram *h);

void label_text(buf *out, const char *key,
                const char *value); /* appends `key="value"`, escaped, with a comma when one is needed */

#endif
