/* server/batch/api.h: OpenAI's Files and Batches endpoints. Each handler starts on the loop thread, where the tenant's
 * name is known, and goes on as a task of a worker. 404 without --batch-dir. */
#ifndef HEADWAY_SERVER_BATCH_API_H
#define HEADWAY_SERVER_BATCH_API_H

#include "server/exchange.h"

void files_create(exchange *x);
void files_list(exchange *x);
void files_get(exchange *x); /* also its content */
void files_delete(exchange *x);
void batches_create(exchange *x);
void batches_list(exchange *x);
void batches_get(exchange *x);
void batches_cancel(exchange *x);

#endif
