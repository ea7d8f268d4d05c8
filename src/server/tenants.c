/* server/tenants.c: the file merged into what was there before. A reload builds a whole new state beside the old one
 * and swaps the two only when everything, the engine included, has taken it. */
#include "server/tenants.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/secret.h"

typedef struct { /* what a reload replaces */
    tenant_table table;
    bool may_raise[TENANTS_MAX], keyed[TENANTS_MAX];
    uint32_t lines[TENANTS_MAX]; /* of the section; 0: none */
    config_forward forward[TENANTS_MAX];
    auth_keys auth;
    config_setting settings[CONFIG_SETTINGS_MAX];
    uint32_t setting_count;
} tenants_state;

struct tenants {
    const char *path;
    config_rules rules;
    auth_keys own; /* of the command line */
    tenants_state *state;
};

static int find_name(const tenant_table *table, span name)
{
    for (uint32_t i = 0; i < table->count; i++)
        if (span_is(name, table->tenants[i].name))
            return (int)i;
    return AUTH_NOBODY;
}

/* The tenants of before, all removed but "default", which is as without a file. */
static void start_from(tenants_state *next, const tenants_state *before)
{
    next->table = before ? before->table : tenant_table_default();
    next->table.tenants[0] = tenant_table_default().tenants[0];
    for (uint32_t i = 1; i < next->table.count; i++)
        next->table.tenants[i].removed = true;
}

static status merge_tenants(const tenants *t, tenants_state *next, const config *c, uint32_t *index, error *err)
{
    for (uint32_t i = 0; i < c->tenant_count; i++) {
        const config_tenant *from = &c->tenants[i];
        int at = find_name(&next->table, span_from(from->who.name));
        if (at < 0 && next->table.count == TENANTS_MAX)
            return error_set(err, ERR_LIMIT,
                             "%s:%u: tenant %s: the server has had %d tenants since its start, those removed and "
                             "\"default\" included; a restart forgets them",
                             t->path, from->line, from->who.name, TENANTS_MAX);
        index[i] = at < 0 ? next->table.count++ : (uint32_t)at;
        next->table.tenants[index[i]] = from->who;
        next->may_raise[index[i]] = from->may_raise;
        next->keyed[index[i]] = from->keyed;
        next->forward[index[i]] = from->forward;
        next->lines[index[i]] = from->line;
    }
    return OK;
}

static status merge_keys(const tenants *t, tenants_state *next, const config *c, const uint32_t *index, error *err)
{
    next->auth = t->own;
    for (size_t i = 0; i < c->keys.count; i++) {
        uint32_t tenant = index[c->keys.keys[i].tenant];
        auth_result result = auth_add(&next->auth, c->keys.keys[i].hash, tenant);
        if (result == AUTH_FULL)
            return error_set(err, ERR_LIMIT, "%s: more than %d keys, --api-key included", t->path, AUTH_KEYS_MAX);
        if (result == AUTH_TWICE && tenant != 0)
            return error_set(err, ERR_INVALID, "%s: a key of tenant %s is given by --api-key too, for \"default\"",
                             t->path, next->table.tenants[tenant].name);
    }
    return OK;
}

static status read_state(const tenants *t, tenants_state **out, error *err)
{
    uint32_t index[TENANTS_MAX];
    tenants_state *next = calloc(1, sizeof *next);
    config *c = calloc(1, sizeof *c);
    status st = next && c ? OK : error_set(err, ERR_MEMORY, "out of memory for the tenants");
    if (st == OK && t->path)
        st = config_read(c, t->path, &t->rules, err);
    if (st == OK)
        start_from(next, t->state);
    if (st == OK && !(st = merge_tenants(t, next, c, index, err)) && !(st = merge_keys(t, next, c, index, err))) {
        memcpy(next->settings, c->settings, sizeof next->settings);
        next->setting_count = c->setting_count;
        *out = next;
        next = NULL;
    }
    secret_wipe(c, c ? sizeof *c : 0);
    free(c);
    free(next);
    return st;
}

static status take_own_keys(tenants *t, const tenants_source *source, error *err)
{
    status st = OK;
    for (size_t i = 0; i < source->key_count; i++) {
        span key = span_from(source->keys[i]);
        uint8_t hash[SHA256_BYTES];
        if (!auth_key_is_valid(key))
            st = error_set(err, ERR_INVALID, "--api-key: a key has 1 to %d visible ASCII characters, no blanks",
                           AUTH_KEY_BYTES_MAX);
        sha256(key, hash);
        if (auth_add(&t->own, hash, 0) == AUTH_FULL)
            st = error_set(err, ERR_LIMIT, "--api-key: more than %d keys", AUTH_KEYS_MAX);
        secret_wipe(source->keys[i], key.size);
    }
    return st;
}

status tenants_open(tenants **out, const tenants_source *source, error *err)
{
    tenants *t = calloc(1, sizeof *t);
    if (!t)
        return error_set(err, ERR_MEMORY, "out of memory for the tenants");
    t->path = source->config_path;
    t->rules = source->rules;
    status st = take_own_keys(t, source, err);
    if (st == OK)
        st = read_state(t, &t->state, err);
    if (st) {
        tenants_close(t);
        return st;
    }
    *out = t;
    return OK;
}

void tenants_close(tenants *t)
{
    if (!t)
        return;
    free(t->state);
    free(t);
}

/* [server] is read at the start only: what has changed since waits for a restart. */
static void keep_settings(const tenants_state *before, tenants_state *next, const char *path)
{
    bool same = before->setting_count == next->setting_count;
    for (uint32_t i = 0; same && i < next->setting_count; i++)
        same = strcmp(before->settings[i].name, next->settings[i].name) == 0 &&
               strcmp(before->settings[i].value, next->settings[i].value) == 0;
    if (!same)
        log_warn("%s: [server] has changed: that needs a restart", path);
    memcpy(next->settings, before->settings, sizeof next->settings);
    next->setting_count = before->setting_count;
}

status tenants_reload(tenants *t, tenants_apply apply, void *context, error *err)
{
    tenants_state *before = t->state, *next = NULL;
    status st = read_state(t, &next, err);
    if (st)
        return st;
    keep_settings(before, next, t->path);
    t->state = next;
    if ((st = apply(context, t, err))) {
        t->state = before;
        free(next);
    } else {
        free(before);
    }
    return st;
}

const tenant_table *tenants_table(const tenants *t)
{
    return &t->state->table;
}

const config_setting *tenants_settings(const tenants *t, uint32_t *count)
{
    *count = t->state->setting_count;
    return t->state->settings;
}

bool tenants_from_file(const tenants *t)
{
    return t->path != NULL;
}

int tenants_of_key(const tenants *t, span authorization, span api_key)
{
    return auth_tenant(&t->state->auth, authorization, api_key);
}

int tenants_keyless(const tenants *t, span name)
{
    int at = find_name(&t->state->table, name);
    return at < 0 || t->state->keyed[at] || t->state->table.tenants[at].removed ? AUTH_NOBODY : at;
}

bool tenants_may_raise(const tenants *t, uint32_t index)
{
    return t->state->may_raise[index];
}

const config_forward *tenants_forward(const tenants *t, uint32_t index)
{
    return t->state->forward[index].url[0] ? &t->state->forward[index] : NULL;
}

size_t tenants_key_count(const tenants *t)
{
    return t->state->auth.count;
}

status tenants_check_gaps(const tenants *t, uint64_t smallest_gap_us, error *err)
{
    for (uint32_t i = 0; i < t->state->table.count; i++) {
        const tenant *who = &t->state->table.tenants[i];
        if (!who->removed && who->gap_us && who->gap_us < smallest_gap_us)
            return error_set(
                err, ERR_LIMIT, "%s:%u: tenant %s: gap-ms = %g: the shortest that this box can keep is %.1f", t->path,
                t->state->lines[i], who->name, (double)who->gap_us * 1e-3, (double)smallest_gap_us * 1e-3 + 0.05);
    }
    return OK;
}

status tenants_check_floors(const tenants *t, uint64_t cache_bytes, error *err)
{
    uint64_t left = cache_bytes;
    for (uint32_t i = 0; i < t->state->table.count; i++) {
        const tenant *who = &t->state->table.tenants[i];
        if (who->removed)
            continue;
        if (who->cache_floor > left)
            return error_set(err, ERR_LIMIT,
                             "%s:%u: tenant %s: cache-floor = %.4g MB: the cache holds %.4g MB, and the tenants before "
                             "have %.4g MB of it",
                             t->path, t->state->lines[i], who->name, (double)who->cache_floor / 1048576,
                             (double)cache_bytes / 1048576, (double)(cache_bytes - left) / 1048576);
        left -= who->cache_floor;
    }
    return OK;
}
