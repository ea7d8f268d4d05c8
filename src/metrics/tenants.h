/* metrics/tenants.h: the numbers of one tenant. Registered when the tenant is first seen (at the start or at a reload);
 * the caller bounds how many there are. Totals are copied in before rendering; gaps are observed as tokens come. One
 * thread writes. */
#ifndef HEADWAY_METRICS_TENANTS_H
#define HEADWAY_METRICS_TENANTS_H

#include "metrics/registry.h"
#include "metrics/token_window.h"

enum { TENANT_CLASSES = 2, TENANT_WINDOWS = 2 };

typedef struct {
    gauge *running, *waiting, *tokens_held;
    counter *device_s, *prompt_tokens, *cached_tokens, *generated_tokens, *requests, *refused, *gaps, *violations;
    gauge *input_output[TENANT_WINDOWS], *reuse[TENANT_WINDOWS]; /* over an hour, over a day */
    histogram *gap_s[TENANT_CLASSES];                            /* NULL until the first gap */
    token_window *window;                                        /* NULL: out of memory, or not registered */
    char name[64];
} tenant_metrics;

typedef struct {
    uint32_t running, waiting;
    uint64_t tokens_held, device_us;
    token_totals tokens;
    uint64_t requests, refused, gaps, violations;
} tenant_numbers;

void tenant_metrics_register(tenant_metrics *out, metrics_registry *registry, const char *name);
void tenant_metrics_close(tenant_metrics *m);
/* Copies the totals; once a minute a sample of them goes into the window. */
void tenant_metrics_update(tenant_metrics *m, const tenant_numbers *now, uint64_t now_us);
/* A gap between two tokens of a stream. `klass`: 0 interactive, 1 batch. */
void tenant_metrics_gap(tenant_metrics *m, metrics_registry *registry, uint32_t klass, double gap_s);

#endif
