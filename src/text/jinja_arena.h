/* text/jinja_arena.h: where do the trees and values of one template live?
 * A bump allocator: everything goes at once with jinja_arena_free. Growth past `limit` or out of memory jumps to the
 * owner's `jinja_trap`, so callers never see NULL. One thread. */
#ifndef HEADWAY_TEXT_JINJA_ARENA_H
#define HEADWAY_TEXT_JINJA_ARENA_H

#include <setjmp.h>
#include <stdarg.h>

#include "base/error.h"
#include "base/span.h"

/* The one way out of the parser and the evaluator: a failure fills `err` and jumps. Nothing but arenas is held across
 * it. */
typedef struct {
    jmp_buf jump;
    error *err; /* NULL allowed */
    status code;
} jinja_trap;

_Noreturn void jinja_throw(jinja_trap *trap, status code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
_Noreturn void jinja_vthrow(jinja_trap *trap, status code, const char *format, va_list args);

typedef struct jinja_chunk jinja_chunk;
typedef struct {
    jinja_chunk *chunks;
    size_t used, limit; /* bytes taken from the system; limit 0: none */
    jinja_trap *trap;
} jinja_arena; /* zero-initialise, set trap and limit */

void *jinja_alloc(jinja_arena *arena, size_t size);     /* aligned to 16, zeroed */
void *jinja_alloc_raw(jinja_arena *arena, size_t size); /* not zeroed */
void *jinja_grow(jinja_arena *arena, void *old, size_t old_size, size_t new_size);
void jinja_arena_free(jinja_arena *arena);

#endif
