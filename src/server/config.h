/* server/config.h: what does the config file say? An INI file: [server] holds settings of the command line,
 * [tenant NAME] a tenant's keys, class and limits. Reading a file changes nothing: the caller gets the whole of it or
 * an error with file, line and key. Keys in plain text are hashed and wiped. Any thread. */
#ifndef HEADWAY_SERVER_CONFIG_H
#define HEADWAY_SERVER_CONFIG_H

#include "base/error.h"
#include "sched/tenant.h"
#include "server/auth.h"

enum {
    CONFIG_BYTES_MAX = 256 * 1024,
    CONFIG_SETTINGS_MAX = 32,
    CONFIG_VALUE_MAX = 192, /* a line has fewer bytes than 200 */
};

typedef struct { /* of [server] */
    char name[32], value[CONFIG_VALUE_MAX];
    uint32_t line;
} config_setting;

typedef struct { /* another server that answers; url "": none */
    char url[CONFIG_VALUE_MAX], key[CONFIG_VALUE_MAX];
} config_forward;

/* ERR_INVALID: not http:// or https:// and a host, or it holds what does not belong there, such as a password. */
status config_forward_check(const char *url, error *err);

typedef struct { /* of [tenant NAME] */
    tenant who;
    config_forward forward;
    bool may_raise; /* its requests may ask for a class above its own */
    bool keyed;     /* has keys of its own */
    uint32_t line;  /* of the section */
} config_tenant;

typedef struct {
    config_setting settings[CONFIG_SETTINGS_MAX];
    uint32_t setting_count;
    config_tenant tenants[TENANTS_MAX]; /* in the file's order; "default" among them when it has a section */
    uint32_t tenant_count;
    auth_keys keys;  /* .tenant: index in `tenants` */
    bool plain_keys; /* some key stood in plain text */
} config;

/* Is `value` good for the setting `name` of [server]? Not OK: refused, with this text. */
typedef struct {
    status (*check)(void *context, const char *name, const char *value, error *err);
    void *context;
} config_rules;

/* `file` names the text in errors. ERR_INVALID or ERR_LIMIT: "FILE:LINE: KEY: what is wrong and what was wanted"; `out`
 * is then of no use. */
status config_parse(config *out, const char *file, span text, const config_rules *rules, error *err);
/* Reads the file at `path`; warns in the log when it holds plain keys and all users may read it. ERR_IO: not readable.
 */
status config_read(config *out, const char *path, const config_rules *rules, error *err);

#endif
