/* server/engine_stubs.c: what is declared and not there yet, as weak symbols that any other definition replaces. */
#include <string.h>

#include "engine/engine.h"

__attribute__((weak)) void engine_read_cache(engine *e, cache_report *out)
{
    (void)e;
    memset(out, 0, sizeof *out);
}

__attribute__((weak)) status engine_forget(engine *e, int tenant, error *err)
{
    (void)e, (void)tenant, (void)err;
    return OK;
}

__attribute__((weak)) status disk_tier_open(tier **out, const disk_tier_config *config, error *err)
{
    (void)out, (void)config;
    return error_set(err, ERR_UNSUPPORTED, "this build has no disk tier");
}

__attribute__((weak)) status redis_tier_open(tier **out, const redis_tier_config *config, error *err)
{
    (void)out, (void)config;
    return error_set(err, ERR_UNSUPPORTED, "this build has no Redis tier");
}
