/* server/batch/service.h: files and batches of one server: the store, and the batches that run. Batches run in turn, a
 * line at a time, as requests of the batch class that come without a connection; as many at once as the engine gives
 * slots to that class. Loop thread, but for batch_service_store and batch_service_poke. */
#ifndef HEADWAY_SERVER_BATCH_SERVICE_H
#define HEADWAY_SERVER_BATCH_SERVICE_H

#include <uv.h>

#include "server/batch/store.h"
#include "server/server.h"

typedef struct batch_service batch_service;

status batch_service_open(batch_service **out, server *s, uv_loop_t *loop, const server_batch_config *config,
                          error *err);
void batch_service_turn(batch_service *b); /* at the end of a turn of the loop */
bool batch_service_busy(batch_service *b); /* answers are on their way to the disk: the server may not end yet */
void batch_service_stop(batch_service *b); /* nothing is begun any more */
/* When the loop has run out, no worker is left and all exchanges are gone; NULL allowed. */
void batch_service_close(batch_service *b);

batch_store *batch_service_store(batch_service *b); /* any thread */
void batch_service_poke(batch_service *b);          /* any thread: the store has changed, look soon */

#endif
