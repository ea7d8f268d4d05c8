/* engine/snapshot_board.c: a sequence lock over atomic words. A word is stored with release and loaded with acquire, so
 * a reader that saw a word of a write in progress also sees its odd version afterwards. */
#include "engine/snapshot_board.h"

#include <string.h>

void snapshot_board_write(snapshot_board *board, const engine_snapshot *snapshot)
{
    uint64_t words[SNAPSHOT_WORDS] = {0};
    memcpy(words, snapshot, sizeof *snapshot);
    uint64_t version = atomic_load_explicit(&board->version, memory_order_relaxed);
    atomic_store_explicit(&board->version, version + 1, memory_order_relaxed);
    for (size_t i = 0; i < SNAPSHOT_WORDS; i++)
        atomic_store_explicit(&board->words[i], words[i], memory_order_release);
    atomic_store_explicit(&board->version, version + 2, memory_order_release);
}

void snapshot_board_read(snapshot_board *board, engine_snapshot *out)
{
    uint64_t words[SNAPSHOT_WORDS], before, after;
    do {
        before = atomic_load_explicit(&board->version, memory_order_acquire);
        for (size_t i = 0; i < SNAPSHOT_WORDS; i++)
            words[i] = atomic_load_explicit(&board->words[i], memory_order_acquire);
        after = atomic_load_explicit(&board->version, memory_order_relaxed);
    } while (before != after || before % 2 != 0);
    memcpy(out, words, sizeof *out);
}
