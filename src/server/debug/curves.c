/* server/debug/curves.c: GET /debug/curves: the curves that `headway tune` drew of this box, as it wrote them. */
#include "server/debug/debug.h"

#include <errno.h>
#include <stdio.h>

void debug_curves(exchange *x)
{
    const char *path = server_curves_path(x->server);
    FILE *file = path[0] ? fopen(path, "rb") : NULL;
    if (!file) {
        if (path[0] && errno != ENOENT)
            api_fail(&x->error, 500, NULL, "the curves cannot be read: %s", strerror(errno));
        else
            api_fail(&x->error, 404, NULL,
                     "no curves were measured: `headway tune --out DIR` makes them, then "
                     "`headway serve --curves DIR/curves.json`");
        return;
    }
    buf *out = &x->answer.body;
    char piece[16384];
    size_t size;
    out->limit = CURVES_BYTES_MAX;
    while ((size = fread(piece, 1, sizeof piece, file)) > 0 && !out->failed)
        buf_append(out, piece, size);
    bool failed = ferror(file);
    fclose(file);
    if (failed || out->failed || !out->size) {
        buf_free(out);
        api_fail(&x->error, 500, NULL, "the file of the curves is empty, unreadable or over %d bytes",
                 CURVES_BYTES_MAX);
        return;
    }
    buf_text(&x->answer.headers, "Cache-Control: no-cache\r\nX-Content-Type-Options: nosniff\r\n");
    x->answer.status = 200;
    x->answer.type = "application/json";
}
