/* server/terms.h: on what terms is this request served: as whose, in which class, within which bounds? The tenant's
 * config is the start; the head's llm-d fields and the body's service_tier say more. Loop thread. */
#ifndef HEADWAY_SERVER_TERMS_H
#define HEADWAY_SERVER_TERMS_H

#include "server/http.h"
#include "server/json_text.h"
#include "server/tenants.h"

typedef enum { TIER_NONE, TIER_AUTO, TIER_DEFAULT, TIER_FLEX, TIER_SCALE, TIER_PRIORITY } service_tier;
bool service_tier_read(span name, service_tier *out); /* auto, default, flex, scale, priority, fast; false: another */

typedef struct {
    uint32_t tenant;
    request_class klass;
    uint64_t gap_us, first_token_us; /* asked for by the request itself; 0: not */
    bool lowered;                    /* asked to be interactive, and its tenant may not */
} request_terms;

/* From the head: objective, fairness id and bounds. `key_tenant`: whose key it came with. False: `e` names the header
 * that is wrong. */
bool terms_read_head(request_terms *out, const tenants *t, uint32_t key_tenant, const http_head *head, const char *data,
                     api_error *e);
void terms_take_tier(request_terms *terms, const tenants *t, service_tier tier);
/* What an answer says to a request that sent a service_tier: how it was served. */
const char *terms_tier_text(const request_terms *terms, service_tier asked);

#endif
