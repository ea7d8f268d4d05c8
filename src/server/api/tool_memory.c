/* server/api/tool_memory.c: a table in which each key has one slot; whoever comes later takes it. When the texts
 * together are too large a hand goes round and frees slots. */
#include "server/api/tool_memory.h"

#include <pthread.h>
#include <stdlib.h>
#include <xxhash.h>

enum { ID_MAX = 64 };

typedef struct {
    uint32_t tenant, size;
    uint8_t id_size;
    char id[ID_MAX];
    char *text; /* owned; NULL: free */
} slot;

struct tool_memory {
    pthread_mutex_t lock;
    size_t bytes;
    uint32_t hand;
    slot slots[TOOL_MEMORY_SLOTS];
};

tool_memory *tool_memory_create(void)
{
    tool_memory *m = calloc(1, sizeof *m);
    if (m)
        pthread_mutex_init(&m->lock, NULL);
    return m;
}

static void clear(tool_memory *m, slot *s)
{
    m->bytes -= s->text ? s->size : 0;
    free(s->text);
    s->text = NULL;
}

void tool_memory_destroy(tool_memory *m)
{
    if (!m)
        return;
    for (uint32_t i = 0; i < TOOL_MEMORY_SLOTS; i++)
        clear(m, &m->slots[i]);
    pthread_mutex_destroy(&m->lock);
    free(m);
}

static slot *slot_of(tool_memory *m, uint32_t tenant, span id)
{
    return &m->slots[XXH3_64bits_withSeed(id.data, id.size, tenant) % TOOL_MEMORY_SLOTS];
}

void tool_memory_put(tool_memory *m, uint32_t tenant, span id, span arguments)
{
    if (!m || !id.size || id.size > ID_MAX || !arguments.size || arguments.size > TOOL_MEMORY_TEXT_MAX)
        return;
    char *text = malloc(arguments.size);
    if (!text)
        return;
    memcpy(text, arguments.data, arguments.size);
    pthread_mutex_lock(&m->lock);
    while (m->bytes + arguments.size > TOOL_MEMORY_BYTES)
        clear(m, &m->slots[m->hand++ % TOOL_MEMORY_SLOTS]);
    slot *s = slot_of(m, tenant, id);
    clear(m, s);
    *s = (slot){.tenant = tenant, .size = (uint32_t)arguments.size, .id_size = (uint8_t)id.size, .text = text};
    memcpy(s->id, id.data, id.size);
    m->bytes += arguments.size;
    pthread_mutex_unlock(&m->lock);
}

bool tool_memory_get(tool_memory *m, uint32_t tenant, span id, buf *arguments)
{
    if (!m || !id.size || id.size > ID_MAX)
        return false;
    pthread_mutex_lock(&m->lock);
    const slot *s = slot_of(m, tenant, id);
    bool found = s->text && s->tenant == tenant && span_equal(span_of(s->id, s->id_size), id);
    if (found)
        buf_append(arguments, s->text, s->size);
    pthread_mutex_unlock(&m->lock);
    return found;
}
