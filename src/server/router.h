/* server/router.h: which handler answers this path? One const table. Any thread. */
#ifndef HEADWAY_SERVER_ROUTER_H
#define HEADWAY_SERVER_ROUTER_H

#include "server/exchange.h"

/* NULL: no such path (*known false) or not with this method (*known true, `allow` lists the methods). HEAD finds what
 * GET does. */
const route *router_find(http_method method, span path, bool *known, const char **allow);
bool route_takes_form(const route *r); /* its body is multipart/form-data, not JSON */

#endif
