/* server/terms.c: the llm-d headers and OpenAI's service tiers, read into class and bounds. */
#include "server/terms.h"

#include <stdio.h>
#include <strings.h>

#include "base/decimal.h"

static const struct {
    const char *name;
    service_tier tier;
} tiers[] = {
    {"auto", TIER_AUTO},   {"default", TIER_DEFAULT},   {"flex", TIER_FLEX},
    {"scale", TIER_SCALE}, {"priority", TIER_PRIORITY}, {"fast", TIER_PRIORITY},
};

bool service_tier_read(span name, service_tier *out)
{
    for (size_t i = 0; i < sizeof tiers / sizeof *tiers; i++)
        if (span_is(name, tiers[i].name)) {
            *out = tiers[i].tier;
            return true;
        }
    return false;
}

static void ask_class(request_terms *terms, const tenants *t, request_class klass)
{
    bool raise = klass == CLASS_INTERACTIVE && terms->klass == CLASS_BATCH;
    bool may =
        tenants_table(t)->tenants[terms->tenant].klass == CLASS_INTERACTIVE || tenants_may_raise(t, terms->tenant);
    terms->lowered = raise && !may;
    if (!terms->lowered)
        terms->klass = klass;
}

/* ---- the head ---- */

static span get_either(const http_head *head, const char *data, const char **name, const char *older)
{
    span value = http_head_get(head, data, *name);
    if (value.data)
        return value;
    *name = older;
    return http_head_get(head, data, older);
}

static bool read_bound(const http_head *head, const char *data, const char *name, const char *older, uint64_t *us,
                       api_error *e)
{
    double ms = 0;
    span value = get_either(head, data, &name, older);
    if (!value.data)
        return true;
    if (!decimal_read(value, &ms) || ms < 1 || ms > 3600000)
        return api_fail(e, 400, name, "%s: '%.*s' is not a number of milliseconds from 1 to 3600000", name,
                        (int)(value.size < 40 ? value.size : 40), value.data);
    *us = (uint64_t)(ms * 1000);
    return true;
}

static bool is_word(span word, const char *const *list)
{
    for (; *list; list++)
        if (word.size == strlen(*list) && strncasecmp(word.data, *list, word.size) == 0)
            return true;
    return false;
}

/* An objective's name is the operator's own; the words in it that name a class count, and batch before interactive. */
static void read_objective(request_terms *terms, const tenants *t, span name)
{
    static const char *const batch[] = {"batch", "flex", "background", "offline", "sheddable", NULL};
    static const char *const interactive[] = {"interactive", "chat", "realtime", NULL};
    bool is_batch = false, is_interactive = false;
    for (size_t start = 0, at = 0; at <= name.size; at++) {
        if (at < name.size && !strchr("-_./: ", name.data[at]))
            continue;
        span word = span_of(name.data + start, at - start);
        is_batch |= is_word(word, batch);
        is_interactive |= is_word(word, interactive);
        start = at + 1;
    }
    if (is_batch || is_interactive)
        ask_class(terms, t, is_batch ? CLASS_BATCH : CLASS_INTERACTIVE);
}

bool terms_read_head(request_terms *out, const tenants *t, uint32_t key_tenant, const http_head *head, const char *data,
                     api_error *e)
{
    const char *fairness = "x-llm-d-inference-fairness-id";
    *out = (request_terms){.tenant = key_tenant};
    span id = get_either(head, data, &fairness, "x-gateway-inference-fairness-id");
    int named = key_tenant == 0 && id.size ? tenants_keyless(t, id) : AUTH_NOBODY;
    if (named >= 0)
        out->tenant = (uint32_t)named;
    out->klass = tenants_table(t)->tenants[out->tenant].klass;
    span objective = http_head_get(head, data, "x-llm-d-inference-objective");
    if (objective.size)
        read_objective(out, t, objective);
    return read_bound(head, data, "x-llm-d-slo-ttft-ms", "x-slo-ttft-ms", &out->first_token_us, e) &&
           read_bound(head, data, "x-llm-d-slo-tpot-ms", "x-slo-tpot-ms", &out->gap_us, e);
}

/* ---- the body ---- */

void terms_take_tier(request_terms *terms, const tenants *t, service_tier tier)
{
    if (tier == TIER_FLEX)
        ask_class(terms, t, CLASS_BATCH);
    else if (tier == TIER_SCALE || tier == TIER_PRIORITY)
        ask_class(terms, t, CLASS_INTERACTIVE);
}

const char *terms_tier_text(const request_terms *terms, service_tier asked)
{
    if (terms->klass == CLASS_BATCH)
        return "flex";
    return asked == TIER_SCALE ? "scale" : asked == TIER_PRIORITY ? "priority" : "default";
}
