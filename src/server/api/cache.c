/* server/api/cache.c: whose cache may this key delete? Its own tenant's. A key of the tenant "default" is the
 * operator's or his gateway's (it speaks for others in llm-d's fairness header too): it may name any tenant, or all.
 * Where there are no keys at all everyone is "default". */
#include "server/api/cache.h"

#include <stdlib.h>

#include "server/debug/query.h"

enum { EVERYBODY = -1 };

static bool find_tenant(exchange *x, const char *name)
{
    const tenant_table *table = server_tenants(x->server);
    for (uint32_t i = 0; i < table->count; i++)
        if (strcmp(table->tenants[i].name, name) == 0) { /* one that is removed may have left something */
            x->cache_of = (int)i;
            return true;
        }
    return api_fail(&x->error, 404, "tenant", "there is no tenant %.63s", name);
}

static bool read_target(exchange *x)
{
    char name[TENANT_NAME_MAX];
    uint64_t all = 0;
    span query = buf_span(&x->query);
    query_result named = query_text(query, "tenant", name, sizeof name), everybody = query_number(query, "all", &all);
    x->cache_of = (int)x->terms.tenant;
    if (named == QUERY_WRONG)
        return api_fail(&x->error, 400, "tenant", "tenant: not a name");
    if (everybody == QUERY_WRONG || all > 1)
        return api_fail(&x->error, 400, "all", "all: want 1");
    if (named == QUERY_TEXT && all)
        return api_fail(&x->error, 400, "all", "one of tenant and all, not both");
    if (named != QUERY_TEXT && !all)
        return true;
    const char *own = server_tenants(x->server)->tenants[x->terms.tenant].name;
    if (x->terms.tenant != 0 && !(named == QUERY_TEXT && strcmp(name, own) == 0)) {
        x->error.code = "not_yours";
        return api_fail(&x->error, 403, all ? "all" : "tenant", "the key of a tenant deletes that tenant's cache only");
    }
    if (named == QUERY_TEXT)
        return find_tenant(x, name);
    x->cache_of = EVERYBODY;
    return true;
}

static void forget(exchange *x)
{
    error err = {0};
    uint32_t pages;
    if (engine_forget(x->model->engine, x->cache_of, &pages, &err)) {
        api_fail(&x->error, 500, NULL, "not everything could be forgotten: %s", err.text);
        return;
    }
    buf_printf(&x->answer.body, "{\"deleted\":true,\"pages\":%u}", pages);
    x->answer.status = 200;
    x->answer.type = "application/json";
}

void api_cache_forget(exchange *x)
{
    if (read_target(x))
        server_run_task(x, forget);
}
