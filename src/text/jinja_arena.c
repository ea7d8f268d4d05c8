/* text/jinja_arena.c: the bump allocator and the jump out. */
#include "text/jinja_arena.h"

#include <stdio.h>
#include <stdlib.h>

struct jinja_chunk {
    jinja_chunk *next;
    size_t size, used; /* of data */
    _Alignas(16) char data[];
};

void jinja_vthrow(jinja_trap *trap, status code, const char *format, va_list args)
{
    if (trap->err)
        vsnprintf(trap->err->text, sizeof trap->err->text, format, args);
    trap->code = code;
    longjmp(trap->jump, 1);
}

void jinja_throw(jinja_trap *trap, status code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    jinja_vthrow(trap, code, format, args);
}

static void arena_add_chunk(jinja_arena *arena, size_t need)
{
    size_t size = 16 << 10;
    if (arena->used > size)
        size = arena->used < (1u << 20) ? arena->used : 1u << 20;
    if (size < need)
        size = need;
    if (size > SIZE_MAX / 2 || (arena->limit && size > arena->limit - arena->used)) {
        size = need; /* the last bytes before the limit are still usable */
        if (need > SIZE_MAX / 2 || need > arena->limit - arena->used)
            jinja_throw(arena->trap, ERR_LIMIT, "template needs more than %zu MB of memory", arena->limit >> 20);
    }
    jinja_chunk *chunk = malloc(sizeof *chunk + size);
    if (!chunk)
        jinja_throw(arena->trap, ERR_MEMORY, "out of memory in a template (%zu bytes wanted)", size);
    chunk->size = size;
    chunk->used = 0;
    chunk->next = arena->chunks;
    arena->chunks = chunk;
    arena->used += size;
}

void *jinja_alloc_raw(jinja_arena *arena, size_t size)
{
    if (size > SIZE_MAX / 4)
        jinja_throw(arena->trap, ERR_LIMIT, "template asks for too much memory");
    size = (size + 15) & ~(size_t)15;
    if (!arena->chunks || arena->chunks->size - arena->chunks->used < size)
        arena_add_chunk(arena, size);
    void *out = arena->chunks->data + arena->chunks->used;
    arena->chunks->used += size;
    return out;
}

void *jinja_alloc(jinja_arena *arena, size_t size)
{
    void *out = jinja_alloc_raw(arena, size);
    memset(out, 0, size);
    return out;
}

void *jinja_grow(jinja_arena *arena, void *old, size_t old_size, size_t new_size)
{
    char *grown = jinja_alloc_raw(arena, new_size);
    if (old_size)
        memcpy(grown, old, old_size);
    memset(grown + old_size, 0, new_size - old_size);
    return grown;
}

void jinja_arena_free(jinja_arena *arena)
{
    while (arena->chunks) {
        jinja_chunk *next = arena->chunks->next;
        free(arena->chunks);
        arena->chunks = next;
    }
    arena->used = 0;
}
