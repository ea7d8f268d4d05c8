/* server/measures_cache.c: from the engine's cache report to its series. */
#include <assert.h>
#include <stdlib.h>

#include "server/cache_lines.h"
#include "server/measures.h"

static_assert((int)CACHE_METRIC_TIERS == (int)TIERS_MAX, "the tiers of kv/tiering.h have their series");
static_assert((int)CACHE_METRIC_MISSES == (int)MISS_CAUSES, "the causes of a miss have their names in metrics/cache.c");
static_assert((int)CACHE_METRIC_EVICTIONS == (int)EVICTED_CAUSES, "as have those of an eviction");
static_assert((int)CACHE_METRIC_STATES == (int)LINE_STATES, "and the states of an entry");

static cache_metric_tiers tiers_of(const cache_report *report)
{
    cache_metric_tiers tiers = {.count = report->tier_count};
    for (uint32_t i = 0; i < report->tier_count; i++)
        tiers.names[i] = report->tier_names[i];
    return tiers;
}

static void show_tenant(cache_tenant_metrics *m, const cache_tenant *now)
{
    for (int i = 0; i < CACHE_PLACES; i++)
        counter_reach(m->hits[i], (double)now->hits[i]);
    for (int i = 0; i < MISS_CAUSES; i++)
        counter_reach(m->misses[i], (double)now->misses[i]);
    counter_reach(m->evicted_pages, (double)now->evicted_pages);
    gauge_set(m->pages, now->pages);
}

/* The totals under vLLM's names: the same tokens as the tenants' series, so that the two add up. */
static void show_totals(server_measures *m, const cache_report *report)
{
    uint64_t looked_up = 0, ram = 0, tiers = 0;
    for (uint32_t i = 0; i < TENANTS_MAX; i++) {
        const cache_tenant *t = &report->tenants[i];
        looked_up += t->looked_up;
        ram += t->hits[PLACE_RAM];
        for (int k = PLACE_TIERS; k < CACHE_PLACES; k++)
            tiers += t->hits[k];
    }
    counter_reach(m->serving.cache_queries, (double)looked_up);
    counter_reach(m->serving.cache_hits, (double)ram);
    counter_reach(m->cache.external_hits, (double)tiers);
    if (report->tier_count)
        counter_reach(m->cache.external_queries, (double)(looked_up - ram));
}

static void show_tier(cache_tier_metrics *m, const tier_counts *now)
{
    gauge_set(m->records, (double)now->records);
    gauge_set(m->bytes, (double)now->bytes);
    gauge_set(m->bytes_max, (double)now->bytes_max);
    gauge_set(m->online, now->online);
    counter_reach(m->puts, (double)now->puts);
    counter_reach(m->put_bytes, (double)now->put_bytes);
    counter_reach(m->gets, (double)now->gets);
    counter_reach(m->get_bytes, (double)now->get_bytes);
    counter_reach(m->misses, (double)now->misses);
    counter_reach(m->damaged, (double)now->damaged);
    counter_reach(m->dropped, (double)now->dropped);
    counter_reach(m->errors, (double)now->errors);
}

static void show_tree(cache_metrics *m, const cache_report *report)
{
    uint32_t states[LINE_STATES] = {0};
    gauge_set(m->idle_pages, report->counts.idle_pages);
    gauge_set(m->idle_pages_max, report->idle_pages_max);
    gauge_set(m->checkpoints, report->counts.state_checkpoints);
    gauge_set(m->nodes, report->counts.nodes);
    gauge_set(m->sessions_live, report->sessions_live);
    gauge_set(m->sessions_fit, report->sessions_fit);
    gauge_set(m->sessions_bytes, (double)report->sessions_bytes);
    for (int i = 0; i < EVICTED_CAUSES; i++) {
        counter_reach(m->evicted_pages[i], (double)report->counts.evicted_pages[i]);
        counter_reach(m->evicted_checkpoints[i], (double)report->counts.evicted_checkpoints[i]);
    }
    for (uint32_t i = 0; i < report->line_count; i++)
        states[cache_line_state(report, i)]++;
    for (int i = 0; i < LINE_STATES; i++)
        gauge_set(m->entries[i], states[i]);
}

void measures_cache(server_measures *m, engine *e, const tenant_table *table)
{
    cache_report *report = malloc(sizeof *report);
    if (!report)
        return;
    engine_read_cache(e, report);
    cache_metric_tiers tiers = tiers_of(report);
    if (!m->cache.idle_pages)
        cache_metrics_register(&m->cache, m->registry, &tiers);
    for (uint32_t i = 0; i < table->count && i < TENANTS_MAX; i++) {
        if (i >= m->cache_tenant_count) {
            cache_tenant_metrics_register(&m->cache_tenants[i], m->registry, table->tenants[i].name, &tiers);
            m->cache_tenant_count = i + 1;
        }
        show_tenant(&m->cache_tenants[i], &report->tenants[i]);
    }
    show_totals(m, report);
    show_tree(&m->cache, report);
    for (uint32_t i = 0; i < m->cache.tier_count; i++)
        show_tier(&m->cache.tiers[i], &report->tiers[i]);
    free(report);
}
