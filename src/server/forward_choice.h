/* server/forward_choice.h: which requests does another server answer, and how many at once? Loop thread. */
#ifndef HEADWAY_SERVER_FORWARD_CHOICE_H
#define HEADWAY_SERVER_FORWARD_CHOICE_H

#include "server/exchange.h"

bool forward_may(const route *r); /* a path whose requests can go elsewhere */
/* Who answers a request on such a path; NULL: this server. */
const config_forward *forward_target(const server *s, const request_terms *terms);
/* Is there room for one more? True where this server answers: its own admission is another matter. */
bool forward_admit(const server *s, const request_terms *terms, api_error *e);

/* In this order, for each exchange: what the head says is kept; the body is here; the body was read and is to be
 * generated. The latter two are true when x has been dealt with. */
void forward_keep_head(exchange *x, const http_head *head, const char *data);
bool forward_at_once(exchange *x);
bool forward_after_all(exchange *x);

#endif
