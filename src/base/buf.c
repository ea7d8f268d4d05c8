/* base/buf.c: the growable byte buffer. */
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

bool buf_reserve(buf *b, size_t more)
{
    if (b->failed)
        return false;
    if (more > SIZE_MAX - b->size - 1 || (b->limit && b->size + more > b->limit)) {
        b->failed = true;
        return false;
    }
    size_t need = b->size + more + 1;
    if (need <= b->capacity)
        return true;
    size_t capacity = b->capacity ? b->capacity : 64;
    while (capacity < need)
        capacity = capacity > SIZE_MAX / 2 ? need : capacity * 2;
    char *grown = realloc(b->data, capacity);
    if (!grown) {
        b->failed = true;
        return false;
    }
    b->data = grown;
    b->capacity = capacity;
    b->data[b->size] = 0;
    return true;
}

void buf_append(buf *b, const void *data, size_t size)
{
    if (!buf_reserve(b, size))
        return;
    if (size)
        memcpy(b->data + b->size, data, size);
    b->size += size;
    b->data[b->size] = 0;
}

void buf_text(buf *b, const char *text)
{
    buf_append(b, text, strlen(text));
}

void buf_byte(buf *b, char byte)
{
    buf_append(b, &byte, 1);
}

void buf_printf(buf *b, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int size = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (size >= 0 && buf_reserve(b, (size_t)size)) {
        vsnprintf(b->data + b->size, (size_t)size + 1, format, again);
        b->size += (size_t)size;
    }
    va_end(again);
}

void buf_clear(buf *b)
{
    b->size = 0;
    b->failed = false;
    if (b->data)
        b->data[0] = 0;
}

void buf_free(buf *b)
{
    free(b->data);
    b->data = NULL;
    b->size = b->capacity = 0;
    b->failed = false;
}
