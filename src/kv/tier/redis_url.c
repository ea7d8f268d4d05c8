/* kv/tier/redis_url.c: reads from both ends: the scheme, then credentials up to the last @, then host, port, number. */
#include "kv/tier/redis_url.h"

#include "base/span.h"

#include <ctype.h>

enum { REDIS_PORT = 6379, DB_MAX = 65535 };

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)tolower((unsigned char)c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool decode(span in, char *out, size_t room)
{
    size_t size = 0;
    for (size_t i = 0; i < in.size; i++) {
        char c = in.data[i];
        if (c == '%') {
            int high = in.size - i > 2 ? hex_digit(in.data[i + 1]) : -1;
            int low = in.size - i > 2 ? hex_digit(in.data[i + 2]) : -1;
            if (high < 0 || low < 0)
                return false;
            c = (char)(high * 16 + low);
            i += 2;
        }
        if (c == 0 || size + 1 >= room)
            return false;
        out[size++] = c;
    }
    out[size] = 0;
    return true;
}

static bool read_number(span text, uint32_t max, uint32_t *out)
{
    uint32_t value = 0;
    if (text.size == 0 || text.size > 9)
        return false;
    for (size_t i = 0; i < text.size; i++) {
        if (!isdigit((unsigned char)text.data[i]))
            return false;
        value = value * 10 + (uint32_t)(text.data[i] - '0');
    }
    *out = value;
    return value <= max;
}

static span until(span *text, char end) /* takes what lies before `end`, and it; all where there is none */
{
    const char *at = text->size ? memchr(text->data, end, text->size) : NULL;
    span head = {text->data, at ? (size_t)(at - text->data) : text->size};
    size_t taken = head.size + (at != NULL);
    *text = (span){text->data + taken, text->size - taken};
    return head;
}

static status read_credentials(redis_url *out, span text, error *err)
{
    span first = text, rest = text;
    bool both = text.size && memchr(text.data, ':', text.size) != NULL;
    if (both)
        first = until(&rest, ':');
    bool good = both ? decode(first, out->user, sizeof out->user) && decode(rest, out->password, sizeof out->password)
                     : decode(text, out->password, sizeof out->password);
    if (!good)
        return error_set(err, ERR_INVALID, "Redis URL: user or password is too long or has a bad %% sequence");
    if (!out->password[0])
        return error_set(err, ERR_INVALID, "Redis URL: no password before the @");
    return OK;
}

static status read_place(redis_url *out, span text, error *err)
{
    bool numbered = text.size && memchr(text.data, '/', text.size) != NULL;
    span place = until(&text, '/'), host = place;
    if (numbered && text.size && !read_number(text, DB_MAX, &out->db))
        return error_set(err, ERR_INVALID, "Redis URL: after the / comes the number of a database");
    if (place.size && place.data[0] == '[') { /* an IPv6 address */
        place = (span){place.data + 1, place.size - 1};
        host = until(&place, ']');
        if (host.data[host.size] != ']' || (place.size && place.data[0] != ':'))
            return error_set(err, ERR_INVALID, "Redis URL: an address in [ ], then a port or nothing");
    } else {
        host = until(&place, ':');
        place = (span){host.data + host.size, (size_t)(place.data + place.size - host.data) - host.size};
    }
    uint32_t port = REDIS_PORT;
    if (place.size && (!read_number((span){place.data + 1, place.size - 1}, 65535, &port) || port == 0))
        return error_set(err, ERR_INVALID, "Redis URL: the port is a number from 1 to 65535");
    out->port = (uint16_t)port;
    if (host.size == 0 || host.size >= sizeof out->host)
        return error_set(err, ERR_INVALID, "Redis URL: no host, or one that is too long");
    for (size_t i = 0; i < host.size; i++)
        if (!isgraph((unsigned char)host.data[i]) || strchr("?#%\\", host.data[i]))
            return error_set(err, ERR_INVALID, "Redis URL: the host has a character that no host has");
    memcpy(out->host, host.data, host.size);
    out->host[host.size] = 0;
    return OK;
}

status redis_url_read(redis_url *out, const char *url, error *err)
{
    static const char plain[] = "redis://", tls[] = "rediss://";
    *out = (redis_url){.tls = strncmp(url, tls, sizeof tls - 1) == 0};
    if (!out->tls && strncmp(url, plain, sizeof plain - 1) != 0)
        return error_set(err, ERR_INVALID, "Redis URL: it starts with redis:// or rediss://");
    span rest = span_from(url + (out->tls ? sizeof tls : sizeof plain) - 1);
    const char *at = strrchr(rest.data, '@');
    if (at) {
        status st = read_credentials(out, (span){rest.data, (size_t)(at - rest.data)}, err);
        if (st)
            return st;
        rest = span_from(at + 1);
    }
    return read_place(out, rest, err);
}
