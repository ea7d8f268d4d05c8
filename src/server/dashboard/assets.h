/* server/dashboard/assets.h: the dashboard's files, as they lie in src/server/dashboard, inside the binary. The build
 * makes the table (tools/embed.sh). */
#ifndef HEADWAY_SERVER_DASHBOARD_ASSETS_H
#define HEADWAY_SERVER_DASHBOARD_ASSETS_H

#include "server/exchange.h"

typedef struct {
    const char *name; /* "index.html" */
    const char *tag;  /* of the content, as ETag has it, quotes included */
    const unsigned char *data;
    size_t size;
} asset;

extern const asset dashboard_assets[];
extern const size_t dashboard_asset_count;

void dashboard_page(exchange *x);  /* GET / */
void dashboard_asset(exchange *x); /* GET /dashboard/NAME; the path is in x->body */

#endif
