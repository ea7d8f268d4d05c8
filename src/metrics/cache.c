/* metrics/cache.c: names and help. */
#include "metrics/cache.h"

static counter *count_of(metrics_registry *r, const char *name, const char *help, const char *labels)
{
    return metrics_counter(r, (metric_name){name, help, labels});
}

static gauge *gauge_of(metrics_registry *r, const char *name, const char *help, const char *labels)
{
    return metrics_gauge(r, (metric_name){name, help, labels});
}

static void register_tier(cache_tier_metrics *m, metrics_registry *r, const char *name)
{
    buf text = {0};
    label_text(&text, "tier", name);
    const char *labels = text.data;
    m->records = gauge_of(r, "headway_cache_tier_records", "Pages that lie in a tier.", labels);
    m->bytes = gauge_of(r, "headway_cache_tier_bytes", "Bytes that a tier takes.", labels);
    m->bytes_max =
        gauge_of(r, "headway_cache_tier_bytes_max", "Bytes that a tier may take; 0: its own affair.", labels);
    m->online = gauge_of(r, "headway_cache_tier_online", "1 when a tier can be used.", labels);
    m->puts = count_of(r, "headway_cache_tier_stored_pages", "Pages stored in a tier.", labels);
    m->put_bytes = count_of(r, "headway_cache_tier_stored_bytes", "Bytes stored in a tier.", labels);
    m->gets = count_of(r, "headway_cache_tier_restored_pages", "Pages read back from a tier.", labels);
    m->get_bytes = count_of(r, "headway_cache_tier_restored_bytes", "Bytes read back from a tier.", labels);
    m->misses = count_of(r, "headway_cache_tier_missed_pages", "Pages asked of a tier that were not there.", labels);
    m->damaged = count_of(r, "headway_cache_tier_damaged_pages", "Pages of a tier that were not whole.", labels);
    m->dropped = count_of(r, "headway_cache_tier_dropped_pages", "Pages that a tier did not take or gave up.", labels);
    m->errors = count_of(r, "headway_cache_tier_errors", "Failed reads, writes and connections of a tier.", labels);
    buf_free(&text);
}

static void register_evictions(cache_metrics *m, metrics_registry *r)
{
    static const char *const causes[CACHE_METRIC_EVICTIONS] = {"cause=\"room\"", "cause=\"budget\"", "cause=\"ttl\"",
                                                               "cause=\"deleted\""};
    for (int i = 0; i < CACHE_METRIC_EVICTIONS; i++) {
        m->evicted_pages[i] =
            count_of(r, "headway_cache_evicted_pages", "Cached pages given up, by what asked for it.", causes[i]);
        m->evicted_checkpoints[i] =
            count_of(r, "headway_cache_evicted_checkpoints", "Recurrent states given up.", causes[i]);
    }
}

void cache_metrics_register(cache_metrics *m, metrics_registry *r, const cache_metric_tiers *tiers)
{
    static const char *const states[CACHE_METRIC_STATES] = {"state=\"warm\"", "state=\"cooling\"", "state=\"spilled\"",
                                                            "state=\"gone\""};
    *m = (cache_metrics){0};
    m->external_queries =
        count_of(r, "vllm:external_prefix_cache_queries", "Tokens that were not in memory and asked of a tier.", NULL);
    m->external_hits = count_of(r, "vllm:external_prefix_cache_hits", "Tokens that a tier gave back.", NULL);
    m->idle_pages = gauge_of(r, "headway_cache_idle_pages", "Pages that only the cache holds.", NULL);
    m->idle_pages_max = gauge_of(r, "headway_cache_idle_pages_max", "Pages that only the cache may hold.", NULL);
    m->checkpoints = gauge_of(r, "headway_cache_checkpoints", "Recurrent states that are kept.", NULL);
    m->nodes = gauge_of(r, "headway_cache_pages", "Pages in the prefix tree, in use or idle.", NULL);
    for (int i = 0; i < CACHE_METRIC_STATES; i++)
        m->entries[i] = gauge_of(r, "headway_cache_entries", "The newest entries, by where they lie.", states[i]);
    m->sessions_live = gauge_of(r, "headway_cache_sessions_live", "Sessions that come back to their prefix.", NULL);
    m->sessions_fit = gauge_of(r, "headway_cache_sessions_fit", "Of the live sessions, how many fit now.", NULL);
    m->sessions_bytes = gauge_of(r, "headway_cache_sessions_bytes", "Bytes for all live sessions.", NULL);
    register_evictions(m, r);
    m->tier_count = tiers->count < CACHE_METRIC_TIERS ? tiers->count : CACHE_METRIC_TIERS;
    for (uint32_t i = 0; i < m->tier_count; i++)
        register_tier(&m->tiers[i], r, tiers->names[i]);
}

static counter *count_for(metrics_registry *r, const char *tenant, const char *key, const char *value, const char *name,
                          const char *help)
{
    buf labels = {0};
    label_text(&labels, "tenant", tenant);
    if (key)
        label_text(&labels, key, value);
    counter *c = count_of(r, name, help, labels.data);
    buf_free(&labels);
    return c;
}

void cache_tenant_metrics_register(cache_tenant_metrics *m, metrics_registry *r, const char *tenant,
                                   const cache_metric_tiers *tiers)
{
    static const char *const causes[CACHE_METRIC_MISSES] = {"new", "evicted", "state", "slower", "failed", "last"};
    static const char *const hits = "Prompt tokens that were found, by where they lay.";
    *m = (cache_tenant_metrics){0};
    m->hits[0] = count_for(r, tenant, "tier", "ram", "headway_cache_hit_tokens", hits);
    for (uint32_t i = 0; i < tiers->count && i < CACHE_METRIC_TIERS; i++)
        m->hits[1 + i] = count_for(r, tenant, "tier", tiers->names[i], "headway_cache_hit_tokens", hits);
    for (int i = 0; i < CACHE_METRIC_MISSES; i++)
        m->misses[i] = count_for(r, tenant, "cause", causes[i], "headway_cache_miss_tokens",
                                 "Prompt tokens that had to be computed, by why.");
    m->evicted_pages = count_for(r, tenant, NULL, NULL, "headway_cache_tenant_evicted_pages",
                                 "Cached pages of a tenant that were given up.");
    buf labels = {0};
    label_text(&labels, "tenant", tenant);
    m->pages = gauge_of(r, "headway_cache_tenant_pages", "Cached pages of a tenant.", labels.data);
    buf_free(&labels);
}
