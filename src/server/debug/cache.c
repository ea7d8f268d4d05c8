/* server/debug/cache.c: the part of /debug/state that is about the prefix cache. */
#include <inttypes.h>
#include <stdlib.h>

#include "server/cache_lines.h"
#include "server/cache_usage.h"
#include "server/debug/debug.h"
#include "server/measures.h"

static void write_words(buf *out, const char *name, const char *const *words, const uint64_t *numbers, int count)
{
    buf_printf(out, ",\"%s\":{", name);
    for (int i = 0; i < count; i++)
        buf_printf(out, "%s\"%s\":%" PRIu64, i ? "," : "", words[i], numbers[i]);
    buf_byte(out, '}');
}

static void write_totals(buf *out, const exchange *x, const cache_report *r)
{
    uint64_t looked_up = 0, hits[CACHE_PLACES] = {0}, misses[MISS_CAUSES] = {0};
    const char *places[CACHE_PLACES];
    for (int i = 0; i < TENANTS_MAX; i++) {
        looked_up += r->tenants[i].looked_up;
        for (int k = 0; k < CACHE_PLACES; k++)
            hits[k] += r->tenants[i].hits[k];
        for (int k = 0; k < MISS_CAUSES; k++)
            misses[k] += r->tenants[i].misses[k];
    }
    for (uint32_t i = 0; i < CACHE_PLACES; i++)
        places[i] = server_cache_place(x->server, i);
    buf_printf(out, ",\"looked_up\":%" PRIu64, looked_up);
    write_words(out, "hits", places, hits, PLACE_TIERS + (int)r->tier_count);
    write_words(out, "misses", cache_miss_words, misses, MISS_CAUSES);
    write_words(out, "evicted_pages", cache_eviction_words, r->counts.evicted_pages, EVICTED_CAUSES);
}

/* The time to the first token of a prompt of mean length, by what the step model says of the part that is not found. */
static void write_curve(buf *out, const exchange *x, const cache_report *r)
{
    const histogram *prompts = server_measures_of(x->server)->serving.request_prompt_tokens;
    uint64_t requests = histogram_count(prompts);
    double mean = requests ? histogram_sum(prompts) / (double)requests : 0;
    step_model model = engine_step_model(x->model->engine);
    buf_printf(out, ",\"prompt_tokens_mean\":%.0f,\"curve\":[", mean);
    for (uint32_t i = 0; i < r->curve_count; i++) {
        double found = r->curve[i].hit_share * mean;
        double us = mean >= 1 ? step_model_prefill_us(&model, (uint32_t)found, (uint32_t)(mean - found + 0.5)) : 0;
        buf_printf(out, "%s{\"bytes\":%" PRIu64 ",\"hit_share\":%.4f,\"first_token_us\":%.0f}", i ? "," : "",
                   r->curve[i].pages * r->page_bytes, r->curve[i].hit_share, us);
    }
    buf_byte(out, ']');
}

static void write_lines(buf *out, const exchange *x, const cache_report *r, uint64_t now_us)
{
    static const char *const states[LINE_STATES] = {"warm", "cooling", "spilled", "gone"};
    const tenant_table *table = server_tenants(x->server);
    buf_text(out, ",\"lines\":[");
    for (uint32_t i = 0; i < r->line_count; i++) {
        const prefix_line *line = &r->lines[i];
        uint32_t who = line->owner / CACHE_OWNERS_OF_TENANT;
        buf_text(out, i ? ",{\"tenant\":" : "{\"tenant\":");
        json_text_string(out, span_from(who < table->count ? table->tenants[who].name : "?"));
        buf_printf(out,
                   ",\"class\":\"%s\",\"tokens\":%u,\"here\":%u,\"uses\":%u,\"state\":\"%s\",\"on_tier\":%s,\"age_us\":"
                   "%" PRIu64 "}",
                   line->owner % CACHE_OWNERS_OF_TENANT == CLASS_BATCH ? "batch" : "interactive", line->tokens,
                   line->pages_here * r->page_tokens, line->uses, states[cache_line_state(r, i)],
                   r->line_spilled[i] ? "true" : "false", now_us > line->last_us ? now_us - line->last_us : 0);
    }
    buf_byte(out, ']');
}

static void write_tiers(buf *out, const cache_report *r)
{
    buf_text(out, ",\"tiers\":[");
    for (uint32_t i = 0; i < r->tier_count; i++) {
        const tier_counts *t = &r->tiers[i];
        buf_printf(out,
                   "%s{\"name\":\"%s\",\"online\":%s,\"records\":%" PRIu64 ",\"bytes\":%" PRIu64
                   ",\"bytes_max\":%" PRIu64 ",\"stored_bytes\":%" PRIu64 ",\"restored_bytes\":%" PRIu64
                   ",\"damaged\":%" PRIu64 ",\"errors\":%" PRIu64 ",\"state\":",
                   i ? "," : "", r->tier_names[i], t->online ? "true" : "false", t->records, t->bytes, t->bytes_max,
                   t->put_bytes, t->get_bytes, t->damaged, t->errors);
        json_text_string(out, span_from(t->state));
        buf_byte(out, '}');
    }
    buf_byte(out, ']');
}

void debug_write_cache(buf *out, const exchange *x, uint64_t now_us)
{
    cache_report *r = malloc(sizeof *r);
    if (!r)
        return;
    engine_read_cache(x->model->engine, r);
    buf_printf(out,
               ",\"cache\":{\"enabled\":%s,\"page_tokens\":%u,\"page_bytes\":%" PRIu64
               ",\"pages\":%u,\"idle_pages\":%u,\"idle_pages_max\":%u,\"checkpoints\":%u",
               x->model->cache_bytes ? "true" : "false", r->page_tokens, r->page_bytes, r->counts.nodes,
               r->counts.idle_pages, r->idle_pages_max, r->counts.state_checkpoints);
    buf_printf(out, ",\"sessions_live\":%u,\"sessions_fit\":%u,\"sessions_bytes\":%" PRIu64, r->sessions_live,
               r->sessions_fit, r->sessions_bytes);
    write_totals(out, x, r);
    write_curve(out, x, r);
    write_lines(out, x, r, now_us);
    write_tiers(out, r);
    buf_byte(out, '}');
    free(r);
}
