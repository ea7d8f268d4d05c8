/* engine/snapshot_board.h: the newest engine_snapshot, as a consistent copy. Single writer (the engine thread), which
 * never waits; any number of readers, which try again when a write came in between. Zero-initialise. */
#ifndef HEADWAY_ENGINE_SNAPSHOT_BOARD_H
#define HEADWAY_ENGINE_SNAPSHOT_BOARD_H

#include "engine/engine.h"

#include <stdatomic.h>

enum { SNAPSHOT_WORDS = (sizeof(engine_snapshot) + 7) / 8 };

typedef struct {
    _Atomic uint64_t version; /* odd while a write goes on */
    _Atomic uint64_t words[SNAPSHOT_WORDS];
} snapshot_board;

void snapshot_board_write(snapshot_board *board, const engine_snapshot *snapshot);
void snapshot_board_read(snapshot_board *board, engine_snapshot *out);

#endif
