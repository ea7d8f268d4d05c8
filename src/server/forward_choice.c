/* server/forward_choice.c: a tenant's own `forward` first, then --forward-batch for the class, which the head says or,
 * by its service_tier, the body. A request whose class may still be lowered keeps its head and body until then. */
#include "server/forward_choice.h"

#include "server/api/openai.h"

const config_forward *forward_target(const server *s, const request_terms *terms)
{
    const config_forward *own = tenants_forward(server_tenants_of(s), terms->tenant);
    return own || terms->klass != CLASS_BATCH ? own : server_forward_batch(s);
}

bool forward_may(const route *r)
{
    return (r->format && r->format->whole) || r->handle == openai_embeddings;
}

/* Their tokens are not ours to count: the tenant's concurrent and queued requests bound them, and all together. */
bool forward_admit(const server *s, const request_terms *terms, api_error *e)
{
    const tenant *who = &server_tenants(s)->tenants[terms->tenant];
    uint32_t all = 0, own = 0, own_max = who->concurrent_max ? who->concurrent_max + who->queued_max : UINT32_MAX;
    if (!forward_target(s, terms))
        return true;
    for (const exchange *x = server_exchanges(s); x; x = x->next)
        if (forward_under_way(x->forward)) {
            all++;
            own += x->terms.tenant == terms->tenant;
        }
    if (all < FORWARDS_MAX && own < own_max)
        return true;
    bool tenants_own = own >= own_max;
    e->code = tenants_own ? "tenant_queue_full" : "queue_full";
    e->dropped = true;
    e->retry_after = 1;
    return api_fail(e, 429, NULL, "%u requests are forwarded at this moment, at most %u may be",
                    tenants_own ? own : all, tenants_own ? own_max : FORWARDS_MAX);
}

void forward_keep_head(exchange *x, const http_head *head, const char *data)
{
    const config_forward *to = forward_may(x->route) ? forward_target(x->server, &x->terms) : NULL;
    if (!to && x->route->format && x->route->format->whole)
        to = server_forward_batch(x->server); /* if the body says that it is batch work */
    if (to && !(x->forward = forward_prepare(to, x->route->path, head, data)))
        api_fail(&x->error, 503, NULL, "out of memory");
}

static void start(exchange *x)
{
    error err = {""};
    forwards *all = server_forwards(x->server, &err);
    if (!all)
        api_fail(&x->error, 503, NULL, "%s", err.text);
    else if (server_draining(x->server))
        api_fail(&x->error, 503, NULL, "the server is shutting down");
    else if (forward_went_in_circles(x->forward))
        api_fail(&x->error, 502, NULL, "servers forward this request to each other");
    if (x->error.status)
        exchange_respond(x);
    else
        forward_start(x, all);
}

bool forward_at_once(exchange *x)
{
    if (!x->forward || !forward_target(x->server, &x->terms))
        return false;
    start(x);
    return true;
}

bool forward_after_all(exchange *x)
{
    request_terms terms = x->terms;
    if (!x->forward)
        return false;
    terms_take_tier(&terms, server_tenants_of(x->server), x->plan.tier);
    if (!forward_target(x->server, &terms)) {
        forward_free(x->forward);
        x->forward = NULL;
        return false;
    }
    if (forward_admit(x->server, &terms, &x->error))
        start(x);
    else
        exchange_respond(x);
    return true;
}
