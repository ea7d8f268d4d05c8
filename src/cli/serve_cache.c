/* cli/serve_cache.c: see serve_cache.h. */
#include "cli/serve_cache.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"

static const uint64_t disk_bytes_default = UINT64_C(8) << 30;

/* ---- the flags ---- */

static status check_together(const serve_cache *c, const command_flags *flags, error *err)
{
    bool ram = flag_given(flags, "--cache-ram");
    if (ram && c->wish.sessions)
        return error_set(err, ERR_INVALID,
                         "--cache-sessions: it sizes the cache as --cache-ram does; give one of the two");
    if (c->wish.session_tokens && !c->wish.sessions)
        return error_set(err, ERR_INVALID, "--cache-session-tokens: of how many sessions? --cache-sessions is missing");
    if (flag_given(flags, "--cache-disk-size") && !c->disk)
        return error_set(err, ERR_INVALID, "--cache-disk-size: --cache-disk DIR is missing");
    if (c->off && (c->disk || c->redis || c->ttl_us))
        return error_set(err, ERR_INVALID, "%s: --cache-ram 0 keeps no prefixes, so there is nothing to %s",
                         c->disk    ? "--cache-disk"
                         : c->redis ? "--cache-redis"
                                    : "--cache-ttl",
                         c->disk || c->redis ? "store" : "forget");
    if (c->disk && !c->disk[0])
        return error_set(err, ERR_INVALID, "--cache-disk: empty, want a folder");
    if (c->redis && !c->redis[0])
        return error_set(err, ERR_INVALID, "--cache-redis: empty, want redis://HOST[:PORT]");
    if (c->disk && c->disk_bytes < UINT64_C(1) << 20)
        return error_set(err, ERR_INVALID, "--cache-disk-size: less than 1M holds nothing of use");
    return OK;
}

status serve_cache_read(serve_cache *out, const command_flags *flags, error *err)
{
    uint64_t number = 0;
    status st = OK;
    *out = (serve_cache){.disk = flag_text(flags, "--cache-disk"),
                         .redis = flag_text(flags, "--cache-redis"),
                         .disk_bytes = disk_bytes_default};
    if (flag_given(flags, "--cache-ram") && !(st = flag_bytes(flags, "--cache-ram", &out->wish.bytes, err)))
        out->off = out->wish.bytes == 0;
    if (!st && flag_given(flags, "--cache-disk-size"))
        st = flag_bytes(flags, "--cache-disk-size", &out->disk_bytes, err);
    if (!st && flag_given(flags, "--cache-sessions") &&
        !(st = flag_number(flags, "--cache-sessions", 1, UINT32_MAX, &number, err)))
        out->wish.sessions = (uint32_t)number;
    if (!st && flag_given(flags, "--cache-session-tokens") &&
        !(st = flag_number(flags, "--cache-session-tokens", 1, UINT32_MAX, &number, err)))
        out->wish.session_tokens = (uint32_t)number;
    if (!st && flag_given(flags, "--cache-ttl") &&
        !(st = flag_number(flags, "--cache-ttl", 1, UINT32_MAX, &number, err)))
        out->ttl_us = number * 1000000;
    return st ? st : check_together(out, flags, err);
}

/* ---- words ---- */

static void write_size(buf *out, uint64_t bytes)
{
    double mb = (double)bytes / 1048576;
    if (mb >= 1024)
        buf_printf(out, "%.3g GB", mb / 1024);
    else
        buf_printf(out, mb < 10 ? "%.2g MB" : "%.0f MB", mb);
}

static void write_count(buf *out, uint64_t n)
{
    if (n >= 1000)
        buf_printf(out, "%" PRIu64 ",%03u", n / 1000, (unsigned)(n % 1000));
    else
        buf_printf(out, "%" PRIu64, n);
}

static void write_sessions(buf *out, uint64_t sessions, uint32_t tokens)
{
    if (!sessions)
        buf_text(out, "less than 1 session of ");
    else
        buf_printf(out, "%" PRIu64 " session%s of ", sessions, sessions == 1 ? "" : "s");
    write_count(out, tokens);
    buf_text(out, " tokens");
}

/* Of a URL the part without user and password. */
static const char *place_of(const char *url)
{
    const char *at = strrchr(url, '@'), *start = strstr(url, "://");
    return at ? at + 1 : start ? start + 3 : url;
}

static void write_tier(buf *out, const serve_cache *c, tier *t)
{
    tier_counts now = {0};
    bool disk = strcmp(t->ops->name, "disk") == 0;
    t->ops->read_counts(t, &now);
    buf_printf(out, "; %s %s", t->ops->name, disk ? c->disk : place_of(c->redis));
    if (disk) {
        buf_byte(out, ' ');
        write_size(out, c->disk_bytes);
        buf_text(out, ", ");
        write_size(out, now.bytes);
        buf_text(out, " there");
    }
    if (now.state[0])
        buf_printf(out, " (%s)", now.state);
}

void serve_cache_describe(const serve_cache *c, const runner *r, const cache_config *config, char *text, size_t size)
{
    buf out = {0};
    const runner_info *info = &r->info;
    uint64_t bytes = config->idle_bytes ? config->idle_bytes : info->page_count * info->page_bytes;
    uint32_t tokens = cache_wish_tokens(&c->wish, info->context_length);
    uint64_t one = cache_session_pages(&c->wish, info, info->context_length) * info->page_bytes;
    buf_text(&out, "cache: ");
    if (config->off) {
        buf_text(&out, "off");
    } else if (c->wish.sessions) {
        write_sessions(&out, c->wish.sessions, tokens);
        buf_text(&out, " = ");
        write_size(&out, bytes);
    } else {
        write_size(&out, bytes);
        buf_printf(&out, " of idle prefixes%s, ",
                   config->idle_bytes ? "" : " (all of the KV memory, when nobody needs it)");
        write_sessions(&out, one ? bytes / one : 0, tokens);
    }
    if (c->ttl_us)
        buf_printf(&out, "; forgotten after %" PRIu64 " s without use", c->ttl_us / 1000000);
    for (uint32_t i = 0; i < config->tier_count; i++)
        write_tier(&out, c, config->tiers[i]);
    snprintf(text, size, "%.*s", (int)out.size, out.data ? out.data : "");
    buf_free(&out);
}

/* ---- the pool and the tiers ---- */

static status size_pool(const serve_cache *c, const runner *r, cache_config *out, error *err)
{
    const runner_info *info = &r->info;
    uint64_t pages = cache_wish_pages(&c->wish, info, info->context_length);
    if (c->wish.session_tokens > info->context_length)
        return error_set(err, ERR_INVALID, "--cache-session-tokens: %u, and the context holds %u tokens",
                         c->wish.session_tokens, info->context_length);
    if (c->wish.bytes && !c->wish.sessions && !pages)
        return error_set(err, ERR_INVALID, "--cache-ram: less than one page (%" PRIu64 " bytes); 0 keeps no prefixes",
                         info->page_bytes);
    if (pages > info->page_count) {
        buf need = {0}, have = {0};
        write_size(&need, pages * info->page_bytes);
        write_size(&have, info->page_count * info->page_bytes);
        error_set(err, ERR_INVALID,
                  "%s: that is %.*s, and the KV memory, of which it is a part, has %.*s (--kv-memory)",
                  c->wish.sessions ? "--cache-sessions" : "--cache-ram", (int)need.size, need.data, (int)have.size,
                  have.data);
        buf_free(&need);
        buf_free(&have);
        return ERR_INVALID;
    }
    out->idle_bytes = pages < info->page_count ? pages * info->page_bytes : 0;
    return OK;
}

static status open_disk(const serve_cache *c, runner *r, cache_config *out, error *err)
{
    disk_tier_config config = {.dir = c->disk, .bytes_max = c->disk_bytes, .mover = r->mover};
    status st = disk_tier_open(&out->tiers[out->tier_count], &config, err);
    if (st)
        return error_prefix(err, st, "--cache-disk %s", c->disk);
    out->tier_count++;
    return OK;
}

static status open_redis(const serve_cache *c, runner *r, cache_config *out, error *err)
{
    redis_tier_config config = {.url = c->redis, .ttl_us = c->ttl_us, .mover = r->mover};
    status st = redis_tier_open(&out->tiers[out->tier_count], &config, err);
    if (st) /* without the URL: it may hold a password */
        return error_prefix(err, st == ERR_UNSUPPORTED ? ERR_INVALID : st, "--cache-redis");
    out->tier_count++;
    return OK;
}

status serve_cache_open(const serve_cache *c, runner *r, cache_config *out, error *err)
{
    *out = (cache_config){.off = c->off, .ttl_us = c->ttl_us};
    status st = c->off ? OK : size_pool(c, r, out, err);
    if (!st && (c->disk || c->redis) && !r->mover)
        st = error_set(err, ERR_INVALID, "%s: the pages of this runner (%s) cannot be stored",
                       c->disk ? "--cache-disk" : "--cache-redis", r->ops->name);
    if (!st && c->disk)
        st = open_disk(c, r, out, err);
    if (!st && c->redis)
        st = open_redis(c, r, out, err);
    while (st && out->tier_count) {
        tier *last = out->tiers[--out->tier_count];
        last->ops->close(last);
    }
    return st;
}
