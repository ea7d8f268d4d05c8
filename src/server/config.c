/* server/config.c: inih cuts the lines into names and values; sections, line numbers and all rules are kept here,
 * because it tells handlers neither the line nor an empty or repeated section, and cuts what is too long. */
#include "server/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ini.h>

#include "base/decimal.h"
#include "base/log.h"
#include "base/secret.h"

enum { IN_NOTHING = -1, IN_SERVER = -2 };

#define BOUND_MS_MAX 3600000.0

typedef struct {
    config *out;
    const char *file;
    const config_rules *rules;
    error *err;
    span rest; /* not read yet */
    uint32_t line;
    int section;   /* IN_NOTHING, IN_SERVER or the index of a tenant */
    uint32_t seen; /* bit i: tenant_keys[i] stood in this section */
    uint32_t key_lines[AUTH_KEYS_MAX];
    uint32_t server_line; /* of [server]; 0: not yet */
    status failed;
} reader;

/* The first complaint stays. Always false. */
static bool fail(reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool fail(reader *r, const char *format, ...)
{
    char text[400];
    va_list arguments;
    if (r->failed)
        return false;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    r->failed = error_set(r->err, ERR_INVALID, "%s:%u: %s", r->file, r->line, text);
    return false;
}

/* ---- the values of a tenant ---- */

static bool read_number(reader *r, const char *name, const char *value, double min, double max, double *out)
{
    if (!decimal_read(span_from(value), out) || *out < min || *out > max)
        return fail(r, "%s: '%s' is not a number from %g to %.10g", name, value, min, max);
    return true;
}

static bool read_count(reader *r, const char *name, const char *value, double max, uint64_t *out)
{
    double number = 0;
    if (!decimal_read(span_from(value), &number) || number > max || number != (double)(uint64_t)number)
        return fail(r, "%s: '%s' is not a whole number from 0 (no limit) to %.0f", name, value, max);
    *out = (uint64_t)number;
    return true;
}

static bool read_class(reader *r, config_tenant *t, const char *name, const char *value)
{
    if (strcmp(value, "interactive") && strcmp(value, "batch"))
        return fail(r, "%s: '%s', want interactive or batch", name, value);
    t->who.klass = strcmp(value, "batch") == 0 ? CLASS_BATCH : CLASS_INTERACTIVE;
    return true;
}

static bool read_weight(reader *r, config_tenant *t, const char *name, const char *value)
{
    return read_number(r, name, value, 0.001, 1000, &t->who.weight);
}

static bool read_concurrent(reader *r, config_tenant *t, const char *name, const char *value)
{
    uint64_t count = 0;
    bool ok = read_count(r, name, value, 1e6, &count);
    t->who.concurrent_max = (uint32_t)count;
    return ok;
}

static bool read_queued(reader *r, config_tenant *t, const char *name, const char *value)
{
    uint64_t count = 0;
    bool ok = read_count(r, name, value, 1e6, &count);
    t->who.queued_max = (uint32_t)count;
    return ok;
}

static bool read_tokens(reader *r, config_tenant *t, const char *name, const char *value)
{
    return read_count(r, name, value, 1e12, &t->who.tokens_max);
}

static bool read_ms(reader *r, const char *name, const char *value, uint64_t *us)
{
    double ms = 0;
    bool ok = read_number(r, name, value, 1, BOUND_MS_MAX, &ms);
    *us = (uint64_t)(ms * 1000);
    return ok;
}

static bool read_gap(reader *r, config_tenant *t, const char *name, const char *value)
{
    return read_ms(r, name, value, &t->who.gap_us);
}

static bool read_first_token(reader *r, config_tenant *t, const char *name, const char *value)
{
    return read_ms(r, name, value, &t->who.first_token_us);
}

static bool read_may_raise(reader *r, config_tenant *t, const char *name, const char *value)
{
    if (strcmp(value, "yes") && strcmp(value, "no"))
        return fail(r, "%s: '%s', want yes or no", name, value);
    t->may_raise = strcmp(value, "yes") == 0;
    return true;
}

static bool is_name(span name)
{
    for (size_t i = 0; i < name.size; i++) {
        char c = name.data[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!letter && !(c && strchr("-_.:/@", c)))
            return false;
    }
    return name.size > 0 && name.size < TENANT_NAME_MAX;
}

static bool read_share_prefix(reader *r, config_tenant *t, const char *name, const char *value)
{
    if (!is_name(span_from(value)))
        return fail(r, "%s: a group's name has 1 to %d letters, digits and - _ . : / @", name, TENANT_NAME_MAX - 1);
    snprintf(t->who.share_prefix, sizeof t->who.share_prefix, "%s", value);
    return true;
}

static bool read_cache_floor(reader *r, config_tenant *t, const char *name, const char *value)
{
    return decimal_read_bytes(span_from(value), &t->who.cache_floor) ||
           fail(r, "%s: '%s' is not a size such as 512M or 1.5G", name, value);
}

status config_forward_check(const char *url, error *err)
{
    bool tls = strncmp(url, "https://", 8) == 0;
    const char *host = url + (tls ? 8 : 7);
    if (!tls && strncmp(url, "http://", 7) != 0)
        return error_set(err, ERR_INVALID, "want the http:// or https:// address of a server");
    for (const char *c = host; *c; c++)
        if (*c <= ' ' || *c > '~' || strchr("@?#\\\"<>", *c))
            return error_set(err, ERR_INVALID, "an address has a host, a port and a path; a key goes into forward-key");
    if (!host[0] || host[0] == '/' || host[0] == ':')
        return error_set(err, ERR_INVALID, "the address has no host");
    return OK;
}

static bool read_forward(reader *r, config_tenant *t, const char *name, const char *value)
{
    error why = {""};
    if (config_forward_check(value, &why))
        return fail(r, "%s: %s", name, why.text); /* without the value: somebody may have put a key in it */
    snprintf(t->forward.url, sizeof t->forward.url, "%s", value);
    return true;
}

static bool read_forward_key(reader *r, config_tenant *t, const char *name, const char *value)
{
    if (!auth_key_is_valid(span_from(value)))
        return fail(r, "%s: a key has visible ASCII characters only, no blanks", name);
    snprintf(t->forward.key, sizeof t->forward.key, "%s", value);
    r->out->plain_keys = true;
    return true;
}

static bool add_key(reader *r, config_tenant *t, const char *name, const uint8_t hash[SHA256_BYTES])
{
    auth_keys *keys = &r->out->keys;
    switch (auth_add(keys, hash, (uint32_t)(t - r->out->tenants))) {
    case AUTH_ADDED:
        r->key_lines[keys->count - 1] = r->line;
        t->keyed = true;
        return true;
    case AUTH_FULL:
        return fail(r, "%s: more than %d keys", name, AUTH_KEYS_MAX);
    default:
        break;
    }
    for (size_t i = 0; i < keys->count; i++)
        if (memcmp(keys->keys[i].hash, hash, SHA256_BYTES) == 0)
            return fail(r, "%s: the same key stands in line %u already", name, r->key_lines[i]);
    return false;
}

/* Never with the key in the message: it goes to the log. */
static bool read_key(reader *r, config_tenant *t, const char *name, const char *value)
{
    uint8_t hash[SHA256_BYTES];
    if (!auth_key_is_valid(span_from(value)))
        return fail(r, "%s: a key has visible ASCII characters only, no blanks", name);
    sha256(span_from(value), hash);
    r->out->plain_keys = true;
    return add_key(r, t, name, hash);
}

static bool read_key_hash(reader *r, config_tenant *t, const char *name, const char *value)
{
    static const char prefix[] = "sha256:";
    uint8_t hash[SHA256_BYTES];
    span text = span_from(value);
    bool known = text.size > sizeof prefix - 1 && memcmp(value, prefix, sizeof prefix - 1) == 0;
    if (!known || !sha256_read_hex(span_from(value + sizeof prefix - 1), hash))
        return fail(r, "%s: want sha256: and 64 hex digits, as `headway hash-key` prints them", name);
    return add_key(r, t, name, hash);
}

static const struct {
    const char *name;
    bool (*read)(reader *r, config_tenant *t, const char *name, const char *value);
    bool repeats;
} tenant_keys[] = {
    {"key", read_key, true},
    {"key-hash", read_key_hash, true},
    {"class", read_class, false},
    {"weight", read_weight, false},
    {"concurrent", read_concurrent, false},
    {"queued", read_queued, false},
    {"tokens", read_tokens, false},
    {"gap-ms", read_gap, false},
    {"ttft-ms", read_first_token, false},
    {"may-raise", read_may_raise, false},
    {"share-prefix", read_share_prefix, false},
    {"cache-floor", read_cache_floor, false},
    {"forward", read_forward, false},
    {"forward-key", read_forward_key, false},
};
enum { TENANT_KEYS = sizeof tenant_keys / sizeof *tenant_keys };

/* A line below counts as a dash: "share_prefix" is "share-prefix". */
static bool same_key(const char *known, const char *given)
{
    while (*known && (*known == *given || (*known == '-' && *given == '_'))) {
        known++;
        given++;
    }
    return !*known && !*given;
}

static bool take_tenant_value(reader *r, const char *name, const char *value)
{
    for (uint32_t i = 0; i < TENANT_KEYS; i++) {
        if (!same_key(tenant_keys[i].name, name))
            continue;
        if (!tenant_keys[i].repeats && r->seen & 1u << i)
            return fail(r, "%s: given twice for tenant %s", name, r->out->tenants[r->section].who.name);
        r->seen |= 1u << i;
        return tenant_keys[i].read(r, &r->out->tenants[r->section], name, value);
    }
    return fail(
        r,
        "%.40s: no such key of a tenant, want key, key-hash, class, weight, concurrent, queued, tokens, gap-ms, "
        "ttft-ms, may-raise, share-prefix, cache-floor, forward or forward-key",
        name);
}

static bool take_setting(reader *r, const char *name, const char *value)
{
    config *c = r->out;
    error why = {""};
    for (uint32_t i = 0; i < c->setting_count; i++)
        if (strcmp(c->settings[i].name, name) == 0)
            return fail(r, "%s: given in line %u already", name, c->settings[i].line);
    if (r->rules->check(r->rules->context, name, value, &why))
        return fail(r, "%.40s: %.300s", name, why.text);
    config_setting *s = &c->settings[c->setting_count];
    if (c->setting_count == CONFIG_SETTINGS_MAX || strlen(name) >= sizeof s->name || strlen(value) >= sizeof s->value)
        return fail(r, "%.40s: too many settings, or too long", name);
    snprintf(s->name, sizeof s->name, "%s", name);
    snprintf(s->value, sizeof s->value, "%s", value);
    s->line = r->line;
    c->setting_count++;
    return true;
}

/* ---- sections ---- */

static bool start_tenant(reader *r, span name)
{
    config *c = r->out;
    if (!is_name(name))
        return fail(r, "a tenant's name has 1 to %d letters, digits and - _ . : / @", TENANT_NAME_MAX - 1);
    for (uint32_t i = 0; i < c->tenant_count; i++)
        if (span_is(name, c->tenants[i].who.name))
            return fail(r, "tenant %s: has a section in line %u already", c->tenants[i].who.name, c->tenants[i].line);
    if (c->tenant_count == TENANTS_MAX)
        return fail(r, "more than %d tenants", TENANTS_MAX);
    config_tenant *t = &c->tenants[c->tenant_count];
    *t = (config_tenant){.who.weight = 1, .line = r->line};
    memcpy(t->who.name, name.data, name.size);
    r->section = (int)c->tenant_count++;
    r->seen = 0;
    return true;
}

static span trimmed(span text)
{
    while (text.size && (text.data[0] == ' ' || text.data[0] == '\t'))
        text = span_of(text.data + 1, text.size - 1);
    while (text.size &&
           (text.data[text.size - 1] == ' ' || text.data[text.size - 1] == '\t' || text.data[text.size - 1] == '\r'))
        text.size--;
    return text;
}

static bool take_section(reader *r, span line)
{
    const char *end = memchr(line.data, ']', line.size);
    if (!end)
        return fail(r, "the section's ']' is missing");
    span inside = trimmed(span_of(line.data + 1, (size_t)(end - line.data) - 1));
    span after = trimmed(span_of(end + 1, line.size - (size_t)(end - line.data) - 1));
    if (after.size && after.data[0] != ';' && after.data[0] != '#')
        return fail(r, "there is more after the section's ']'");
    if (span_is(inside, "server")) {
        if (r->server_line)
            return fail(r, "[server] stands in line %u already", r->server_line);
        r->server_line = r->line;
        r->section = IN_SERVER;
        return true;
    }
    static const char word[] = "tenant";
    size_t size = sizeof word - 1;
    if (inside.size > size && memcmp(inside.data, word, size) == 0 &&
        (inside.data[size] == ' ' || inside.data[size] == '\t'))
        return start_tenant(r, trimmed(span_of(inside.data + size, inside.size - size)));
    return fail(r, "[%.*s]: no such section, want [server] or [tenant NAME]",
                (int)(inside.size < 80 ? inside.size : 80), inside.data);
}

/* ---- lines ---- */

static bool is_text(span line)
{
    for (size_t i = 0; i < line.size; i++)
        if ((unsigned char)line.data[i] < ' ' && line.data[i] != '\t')
            return false;
    return true;
}

/* What inih reads from: one line without blanks around it (it would take an indented line for a continuation). */
static char *next_line(char *line, int size, void *stream)
{
    reader *r = stream;
    if (r->failed || !r->rest.size)
        return NULL;
    const char *end = memchr(r->rest.data, '\n', r->rest.size);
    size_t used = end ? (size_t)(end - r->rest.data) + 1 : r->rest.size;
    span text = trimmed(span_of(r->rest.data, used - (end != NULL)));
    r->rest = span_of(r->rest.data + used, r->rest.size - used);
    r->line++;
    if (text.size + 2 > (size_t)size) {
        fail(r, "the line has more than %d bytes", size - 2);
        return NULL;
    }
    if (!is_text(text)) {
        fail(r, "the line holds a control character");
        return NULL;
    }
    if (text.size && text.data[0] == '[') {
        if (!take_section(r, text))
            return NULL;
        text.size = 0; /* done with */
    }
    memcpy(line, text.data, text.size);
    line[text.size] = '\n';
    line[text.size + 1] = 0;
    return line;
}

static int take_value(void *user, const char *section, const char *name, const char *value)
{
    reader *r = user;
    (void)section; /* cut at 50 bytes: ours counts */
    if (r->failed)
        return 0;
    if (r->section == IN_NOTHING)
        return fail(r, "%.40s: stands before any section, want [server] or [tenant NAME]", name);
    if (!value || !value[0])
        return fail(r, "%.40s: the value is missing", name);
    return r->section == IN_SERVER ? take_setting(r, name, value) : take_tenant_value(r, name, value);
}

/* inih's line buffer lay about here. */
static void __attribute__((noinline)) wipe_stack(void)
{
    char space[2048];
    secret_wipe(space, sizeof space);
}

status config_parse(config *out, const char *file, span text, const config_rules *rules, error *err)
{
    reader r = {.out = out, .file = file, .rules = rules, .err = err, .rest = text, .section = IN_NOTHING};
    memset(out, 0, sizeof *out);
    if (text.size > CONFIG_BYTES_MAX)
        return error_set(err, ERR_LIMIT, "%s: longer than %d bytes", file, CONFIG_BYTES_MAX);
    if (text.size >= 3 && memcmp(text.data, "\xef\xbb\xbf", 3) == 0)
        r.rest = span_of(text.data + 3, text.size - 3);
    int line = ini_parse_stream(next_line, &r, take_value, &r);
    wipe_stack();
    if (line < 0)
        return error_set(err, ERR_MEMORY, "%s: out of memory", file);
    if (line > 0 && (!r.failed || (uint32_t)line < r.line)) { /* a line that inih found to be no NAME = VALUE */
        r.failed = OK;
        r.line = (uint32_t)line;
        fail(&r, "want NAME = VALUE, a [section] or a comment after ; or #");
    }
    return r.failed;
}

/* ---- the file ---- */

static status read_all(int file, const char *path, char *text, size_t *size, error *err)
{
    ssize_t count = 1;
    for (*size = 0; count > 0 && *size <= CONFIG_BYTES_MAX; *size += (size_t)(count > 0 ? count : 0))
        count = read(file, text + *size, CONFIG_BYTES_MAX + 1 - *size);
    if (count < 0)
        return error_set(err, ERR_IO, "%s: %s", path, strerror(errno));
    return OK;
}

status config_read(config *out, const char *path, const config_rules *rules, error *err)
{
    struct stat facts;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not hold us up */
    if (file < 0)
        return error_set(err, ERR_IO, "%s: %s", path, strerror(errno));
    char *text = malloc(CONFIG_BYTES_MAX + 1);
    size_t size = 0;
    status st = OK;
    if (!text)
        st = error_set(err, ERR_MEMORY, "%s: out of memory", path);
    else if (fstat(file, &facts) || !S_ISREG(facts.st_mode))
        st = error_set(err, ERR_IO, "%s: not a regular file", path);
    else if (!(st = read_all(file, path, text, &size, err)))
        st = config_parse(out, path, span_of(text, size), rules, err);
    close(file);
    secret_wipe(text, text ? size : 0);
    free(text);
    if (st == OK && out->plain_keys && facts.st_mode & S_IROTH)
        log_warn("%s holds keys in plain text and every user may read it: chmod 600, or key-hash (headway hash-key)",
                 path);
    return st;
}
