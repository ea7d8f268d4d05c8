/* server/forward.h: requests that another OpenAI-compatible server answers, for a tenant with `forward` or for batch
 * work with --forward-batch. The body goes there as it came; a stream of events comes back as it comes, anything else
 * whole. Of the client's headers only those on a list are passed on, and never its key. libcurl's multi interface on
 * the loop. Loop thread only. */
#ifndef HEADWAY_SERVER_FORWARD_H
#define HEADWAY_SERVER_FORWARD_H

#include <uv.h>

#include "metrics/registry.h"
#include "server/config.h"
#include "server/http.h"

typedef struct forwards forwards; /* all of a server's */
typedef struct forward forward;   /* one; the exchange's */
struct exchange;

enum { FORWARDS_MAX = 512, FORWARD_HOPS_MAX = 3 };

status forwards_open(forwards **out, uv_loop_t *loop, metrics_registry *registry, error *err);
void forwards_close(forwards *f); /* every forward is freed; the loop must run once more. NULL allowed */

/* What the head says is kept: path, headers. NULL: no memory. */
forward *forward_prepare(const config_forward *to, const char *path, const http_head *head, const char *data);
bool forward_under_way(const forward *w);            /* started, not ended. NULL allowed */
bool forward_went_in_circles(const forward *w);      /* it has been forwarded too often already */
void forward_start(struct exchange *x, forwards *f); /* x->forward, with x->body; leads to an answer */
void forward_room(struct exchange *x);               /* the client may take more again */
void forward_free(forward *w);                       /* ends it if it runs. NULL allowed */

#endif
