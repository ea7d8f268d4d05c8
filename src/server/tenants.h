/* server/tenants.h: who may send requests here, as which tenant, and what is set for each? Made of the config file and
 * the command line's keys; read again on SIGHUP. A name keeps its index for the life of the server (a name that is gone
 * stays as `removed`), so the table can be swapped under requests that run. Loop thread only: workers never look at it.
 */
#ifndef HEADWAY_SERVER_TENANTS_H
#define HEADWAY_SERVER_TENANTS_H

#include "server/config.h"

typedef struct tenants tenants;

typedef struct {             /* borrowed for as long as the tenants live */
    const char *config_path; /* NULL: the tenant "default" alone */
    config_rules rules;      /* for [server] */
    char *const *keys;       /* of the command line, all for "default"; hashed and wiped by tenants_open */
    size_t key_count;
} tenants_source;

status tenants_open(tenants **out, const tenants_source *source, error *err); /* errors as config_read, ERR_INVALID */
void tenants_close(tenants *t);                                               /* NULL allowed */

/* Reads the file again. `apply` is given the new table and may refuse it; on any failure everything stays as it was. */
typedef status (*tenants_apply)(void *context, const tenants *next, error *err);
status tenants_reload(tenants *t, tenants_apply apply, void *context, error *err);

const tenant_table *tenants_table(const tenants *t);
const config_setting *tenants_settings(const tenants *t, uint32_t *count); /* of [server], as they were at the start */
bool tenants_from_file(const tenants *t);
int tenants_of_key(const tenants *t, span authorization, span api_key); /* index, or AUTH_NOBODY */
/* The tenant called `name` that is not removed and has no key of its own: whom a gateway may speak for. AUTH_NOBODY:
 * there is none. */
int tenants_keyless(const tenants *t, span name);
bool tenants_may_raise(const tenants *t, uint32_t index);
const config_forward *tenants_forward(const tenants *t, uint32_t index); /* NULL: it is served here */
size_t tenants_key_count(const tenants *t);

/* ERR_LIMIT: a tenant's gap bound is shorter than `smallest_gap_us`, the shortest that this box can keep. */
status tenants_check_gaps(const tenants *t, uint64_t smallest_gap_us, error *err);
/* ERR_LIMIT: the tenants' cache floors together are more than the cache may hold. */
status tenants_check_floors(const tenants *t, uint64_t cache_bytes, error *err);

#endif
