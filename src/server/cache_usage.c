/* server/cache_usage.c: see cache_usage.h. */
#include "server/cache_usage.h"

const char *const cache_miss_words[MISS_CAUSES] = {"new", "evicted", "state", "slower", "failed", "last"};
const char *const cache_eviction_words[EVICTED_CAUSES] = {"room", "budget", "ttl", "deleted"};

uint32_t cache_hit_tokens(const cache_lookup *lookup)
{
    uint32_t sum = 0;
    for (int i = 0; i < CACHE_PLACES; i++)
        sum += lookup->hits[i];
    return sum;
}

const char *cache_main_cause(const cache_lookup *lookup)
{
    int best = MISS_LAST;
    for (int i = 0; i < MISS_CAUSES; i++)
        if (i != MISS_LAST && lookup->misses[i] && (best == MISS_LAST || lookup->misses[i] > lookup->misses[best]))
            best = i;
    return lookup->misses[best] ? cache_miss_words[best] : NULL;
}

uint32_t cache_differs_at(const cache_lookup *lookup)
{
    uint32_t hit = cache_hit_tokens(lookup);
    return lookup->differs_at > hit ? lookup->differs_at : hit;
}

/* The choices of a prompt share it: the first one counts, as in `usage`. */
static cache_lookup sum_of(const exchange *x)
{
    cache_lookup sum = {0};
    for (uint32_t i = 0; i < x->count; i += x->plan.choices) {
        const cache_lookup *one = &x->generations[i].lookup;
        sum.looked_up += one->looked_up;
        for (int k = 0; k < CACHE_PLACES; k++)
            sum.hits[k] += one->hits[k];
        for (int k = 0; k < MISS_CAUSES; k++)
            sum.misses[k] += one->misses[k];
        sum.differs_at = one->differs_at; /* of use where there is one prompt */
    }
    return sum;
}

void cache_usage_header(const exchange *x, buf *out)
{
    cache_lookup sum = sum_of(x);
    const char *cause = cache_main_cause(&sum);
    if (!sum.looked_up)
        return;
    buf_printf(out, "x-headway-cache: hit=%u/%u", cache_hit_tokens(&sum), sum.looked_up);
    for (uint32_t i = 0; i < CACHE_PLACES; i++)
        if (sum.hits[i])
            buf_printf(out, "; %s=%u", server_cache_place(x->server, i), sum.hits[i]);
    if (x->plan.prompt_count == 1 && cache_differs_at(&sum) < sum.looked_up)
        buf_printf(out, "; differs_at=%u", cache_differs_at(&sum));
    if (cause)
        buf_printf(out, "; cause=%s", cause);
    buf_text(out, "\r\n");
}

void cache_usage_field(const exchange *x, const generation *g, buf *out)
{
    const cache_lookup *l = &g->lookup;
    const char *comma = "";
    if (!l->looked_up)
        return;
    buf_printf(out, ",\"headway_cache\":{\"looked_up\":%u,\"hit\":%u,\"hits\":{", l->looked_up, cache_hit_tokens(l));
    for (uint32_t i = 0; i < CACHE_PLACES; i++)
        if (l->hits[i]) {
            buf_printf(out, "%s\"%s\":%u", comma, server_cache_place(x->server, i), l->hits[i]);
            comma = ",";
        }
    buf_text(out, "},\"misses\":{");
    comma = "";
    for (uint32_t i = 0; i < MISS_CAUSES; i++)
        if (l->misses[i]) {
            buf_printf(out, "%s\"%s\":%u", comma, cache_miss_words[i], l->misses[i]);
            comma = ",";
        }
    buf_text(out, "},\"differs_at\":");
    if (cache_differs_at(l) < l->looked_up)
        buf_printf(out, "%u}", cache_differs_at(l));
    else
        buf_text(out, "null}");
}
