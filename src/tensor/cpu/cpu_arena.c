/* tensor/cpu/cpu_arena.c: address space is free until it is touched, so the unused end of a chunk costs at most one
 * huge page. */
#include "tensor/cpu/cpu_arena.h"

#include "tensor/cpu/cpu_os.h"

#include <stdlib.h>

enum { CHUNK_BYTES = 64 << 20 };

struct arena_chunk {
    uint8_t *memory;
    size_t bytes, used;
    uint32_t pieces; /* taken and not released */
};

static arena_chunk *chunk_create(size_t bytes)
{
    arena_chunk *c = malloc(sizeof(*c));
    if (!c)
        return NULL;
    *c = (arena_chunk){.memory = cpu_os_alloc(bytes), .bytes = bytes};
    if (!c->memory) {
        free(c);
        return NULL;
    }
    return c;
}

static void chunk_destroy(arena_chunk *c)
{
    cpu_os_free(c->memory, c->bytes);
    free(c);
}

arena_piece arena_take(cpu_arena *arena, size_t bytes)
{
    arena_piece none = {NULL, NULL};
    if (bytes > SIZE_MAX - 64)
        return none;
    bytes = (bytes + 63) & ~(size_t)63;
    arena_chunk *c = arena->open;
    if (!c || c->bytes - c->used < bytes) {
        c = chunk_create(bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES);
        if (!c)
            return none;
        if (!arena->open || c->bytes == CHUNK_BYTES)
            arena->open = c; /* a matrix larger than a chunk has its own, and the open one stays open */
    }
    arena_piece piece = {c, c->memory + c->used};
    c->used += bytes;
    c->pieces++;
    return piece;
}

void arena_release(cpu_arena *arena, arena_piece piece)
{
    if (!piece.data || --piece.chunk->pieces > 0)
        return;
    if (arena->open == piece.chunk)
        arena->open = NULL;
    chunk_destroy(piece.chunk);
}
