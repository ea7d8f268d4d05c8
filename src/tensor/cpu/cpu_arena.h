/* tensor/cpu/cpu_arena.h: where do packed weights live?
 * In chunks of address space backed by huge pages, carved in order: the matrices of a small model are below the size of
 * one huge page each, and a decode step walks them all. A chunk goes back to the system when its last piece is
 * released. Owner: one cpu backend; one thread. */
#ifndef HEADWAY_TENSOR_CPU_CPU_ARENA_H
#define HEADWAY_TENSOR_CPU_CPU_ARENA_H

#include <stddef.h>
#include <stdint.h>

typedef struct arena_chunk arena_chunk;

typedef struct {
    arena_chunk *open; /* the chunk being carved, or NULL; zero-initialise */
} cpu_arena;

typedef struct {
    arena_chunk *chunk;
    uint8_t *data; /* zeroed, 64-byte aligned; NULL when there is no memory */
} arena_piece;

arena_piece arena_take(cpu_arena *arena, size_t bytes);
void arena_release(cpu_arena *arena, arena_piece piece); /* data NULL allowed */

#endif
