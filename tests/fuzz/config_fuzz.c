/* tests/fuzz/config_fuzz.c: config files of any bytes. Refused ones name a line that is there; what is accepted is
 * within its limits, and reading it again gives the same. */
#include <stdlib.h>

#include "server/config.h"

static status takes_short_values(void *context, const char *name, const char *value, error *err)
{
    (void)context;
    return strlen(name) + strlen(value) < 40 ? OK : error_set(err, ERR_INVALID, "too long");
}

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void check_accepted(const config *c)
{
    require(c->setting_count <= CONFIG_SETTINGS_MAX && c->tenant_count <= TENANTS_MAX &&
            c->keys.count <= AUTH_KEYS_MAX);
    for (uint32_t i = 0; i < c->tenant_count; i++) {
        const tenant *t = &c->tenants[i].who;
        size_t size = strnlen(t->name, TENANT_NAME_MAX);
        require(size > 0 && size < TENANT_NAME_MAX && t->weight >= 0.001 && t->weight <= 1000 && !t->removed);
        require(!t->gap_us || (t->gap_us >= 1000 && t->gap_us <= 3600000000u));
        for (uint32_t k = 0; k < i; k++)
            require(strcmp(t->name, c->tenants[k].who.name) != 0);
    }
    for (size_t i = 0; i < c->keys.count; i++)
        require(c->keys.keys[i].tenant < c->tenant_count && c->tenants[c->keys.keys[i].tenant].keyed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static config first, second;
    const config_rules rules = {.check = takes_short_values};
    error err = {""};
    size_t lines = 1;
    for (size_t i = 0; i < size; i++)
        lines += data[i] == '\n';
    if (config_parse(&first, "f", span_of((const char *)data, size), &rules, &err)) {
        unsigned long line = strncmp(err.text, "f:", 2) == 0 ? strtoul(err.text + 2, NULL, 10) : 0;
        require((line >= 1 && line <= lines) || size > CONFIG_BYTES_MAX);
        return 0;
    }
    check_accepted(&first);
    require(config_parse(&second, "f", span_of((const char *)data, size), &rules, &err) == OK);
    require(first.setting_count == second.setting_count && first.tenant_count == second.tenant_count);
    require(memcmp(&first.keys, &second.keys, sizeof first.keys) == 0);
    return 0;
}
