/* server/dashboard/assets.c: answers with a file of the table, or says that the client's copy is still good. */
#include "server/dashboard/assets.h"

/* Nothing from elsewhere, nothing inline: what a page could be tricked into loading is not loaded. */
static const char page_headers[] =
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n"
    "X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nX-Frame-Options: DENY\r\n"
    "Cross-Origin-Opener-Policy: same-origin\r\nCross-Origin-Resource-Policy: same-origin\r\n"
    "Permissions-Policy: camera=(), microphone=(), geolocation=()\r\n"
    "Cache-Control: no-cache\r\n"; /* keep it, but ask each time whether it is still good */

static const char *type_of(const char *name)
{
    static const char *const types[][2] = {{".html", "text/html; charset=utf-8"},
                                           {".css", "text/css; charset=utf-8"},
                                           {".js", "text/javascript; charset=utf-8"},
                                           {".svg", "image/svg+xml"}};
    size_t size = strlen(name);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        size_t ending = strlen(types[i][0]);
        if (size > ending && strcmp(name + size - ending, types[i][0]) == 0)
            return types[i][1];
    }
    return "application/octet-stream";
}

/* Is `tag` in the client's list? Weak tags compare equal too. */
static bool still_good(span list, const char *tag)
{
    size_t size = strlen(tag);
    if (span_is(list, "*"))
        return true;
    for (size_t at = 0; at + size <= list.size; at++)
        if (memcmp(list.data + at, tag, size) == 0)
            return true;
    return false;
}

static void answer_asset(exchange *x, span name)
{
    for (size_t i = 0; i < dashboard_asset_count; i++) {
        const asset *a = &dashboard_assets[i];
        if (!span_is(name, a->name))
            continue;
        buf_text(&x->answer.headers, page_headers);
        buf_printf(&x->answer.headers, "ETag: %s\r\n", a->tag);
        x->answer.type = type_of(a->name);
        x->answer.status = 304;
        if (still_good(buf_span(&x->if_none_match), a->tag))
            return;
        x->answer.status = 200;
        buf_append(&x->answer.body, a->data, a->size);
        return;
    }
    api_fail(&x->error, 404, NULL, "the dashboard has no file %.*s", (int)(name.size < 100 ? name.size : 100),
             name.data);
}

void dashboard_page(exchange *x)
{
    answer_asset(x, span_from("index.html"));
}

void dashboard_asset(exchange *x)
{
    static const size_t prefix = sizeof "/dashboard/" - 1;
    span name = span_of(x->body.data + prefix, x->body.size > prefix ? x->body.size - prefix : 0);
    answer_asset(x, name);
}
