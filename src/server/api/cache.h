/* server/api/cache.h: DELETE /v1/cache: what was kept of a tenant's prompts is forgotten, in memory and in the tiers.
 */
#ifndef HEADWAY_SERVER_API_CACHE_H
#define HEADWAY_SERVER_API_CACHE_H

#include "server/exchange.h"

void api_cache_forget(exchange *x); /* loop thread; the work is done on a worker */

#endif
