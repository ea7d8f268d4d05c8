/* sched/scheduler_report.c: the prefix cache's numbers for others, and forgetting. */
#include "sched/scheduler_state.h"

#include <string.h>

static void fill_tenants(const scheduler *s, cache_report *report)
{
    for (uint32_t i = 0; i < s->accounts.tenants.count; i++) {
        cache_tenant *t = &report->tenants[i];
        *t = s->cache_counts[i];
        for (uint32_t owner = 2 * i; owner < 2 * i + 2; owner++) {
            t->evicted_pages += prefix_cache_owner_evicted(s->prefixes, owner);
            t->pages += prefix_cache_owner_pages(s->prefixes, owner);
        }
    }
}

/* A line is live when a prompt has continued it. Sizes: its pages, and a checkpoint where states are kept. */
static void fill_lines(const scheduler *s, cache_report *report)
{
    report->line_count = prefix_cache_lines(s->prefixes, report->lines, PREFIX_LINES_MAX);
    uint64_t pages = 0, fit_pages = 0;
    for (uint32_t i = 0; i < report->line_count; i++) {
        const prefix_line *line = &report->lines[i];
        uint32_t whole = line->tokens / s->runner->info.page_tokens;
        report->line_spilled[i] = false;
        if (s->tiers && line->pages_here < whole) {
            tier_ask *ask = tiering_ask(s->tiers, &line->key, 1); /* quick tiers answer at once; of others: unknown */
            report->line_spilled[i] = ask && tiering_answered(ask) && tiering_holder(ask, 0) > 0;
            if (ask)
                tiering_ask_end(s->tiers, ask);
        }
        if (line->uses == 0)
            continue;
        report->sessions_live++;
        pages += whole + s->state_pages;
        if (fit_pages + whole + s->state_pages <= report->idle_pages_max) {
            fit_pages += whole + s->state_pages;
            report->sessions_fit++;
        }
    }
    report->sessions_bytes = pages * report->page_bytes;
}

static void fill_curve(const scheduler *s, cache_report *report)
{
    uint32_t largest = reuse_largest(s->reuse);
    report->curve_count = largest ? REUSE_POINTS : 0;
    for (uint32_t i = 0; i < report->curve_count; i++) {
        uint32_t pages = (uint32_t)((uint64_t)largest * (i + 1) / REUSE_POINTS);
        report->curve[i] = (reuse_point){pages, reuse_hit_share(s->reuse, pages)};
    }
}

void scheduler_fill_cache(const scheduler *s, cache_report *report)
{
    *report = (cache_report){.page_tokens = s->runner->info.page_tokens, .page_bytes = s->runner->info.page_bytes};
    if (!s->prefixes)
        return;
    report->on = true;
    report->counts = prefix_cache_read_counts(s->prefixes);
    report->counts.idle_pages += tails_pages(&s->tails);
    report->idle_pages_max = s->idle_pages_max;
    fill_tenants(s, report);
    fill_lines(s, report);
    fill_curve(s, report);
    if (s->tiers)
        report->tier_count = tiering_read_counts(s->tiers, report->tiers, report->tier_names);
}

uint32_t scheduler_forget(scheduler *s, int tenant)
{
    if (!s->prefixes)
        return 0;
    for (uint32_t i = 0; i < TENANTS_MAX; i++)
        if (tenant < 0 || i == (uint32_t)tenant)
            s->forgotten_us[i] = s->now_us + 1; /* what started at this very time is forgotten too */
    uint32_t first = tenant < 0 ? 0 : 2 * (uint32_t)tenant, count = tenant < 0 ? PREFIX_OWNERS_MAX : 2;
    return prefix_cache_forget(s->prefixes, first, count) + tails_forget(&s->tails, first, count);
}

uint32_t scheduler_spare_pages(const scheduler *s)
{
    page_pool_counts pages = page_pool_read_counts(s->pool);
    return pages.free + pages.idle + tails_pages(&s->tails);
}

void scheduler_set_floors(scheduler *s)
{
    const tenant_table *table = &s->accounts.tenants;
    for (uint32_t i = 0; s->prefixes && i < table->count; i++) {
        uint64_t page_bytes = s->runner->info.page_bytes ? s->runner->info.page_bytes : 1;
        uint64_t pages = table->tenants[i].cache_floor / page_bytes, most = s->runner->info.page_count;
        prefix_cache_set_floor(s->prefixes, 2 * i, (uint32_t)(pages < most ? pages : most));
    }
}

tiering *scheduler_tiering(const scheduler *s)
{
    return s->tiers;
}
