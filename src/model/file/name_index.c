/* model/file/name_index.c: see the header. */
#include "model/file/name_index.h"

#include <stdlib.h>
#include <xxhash.h>

static const uint32_t FREE_SLOT = UINT32_MAX;

/* The slot that holds the name, or the free one where it belongs. */
static name_slot *slot_of(const name_index *index, span name, uint32_t hash)
{
    for (uint32_t at = hash & index->mask;; at = (at + 1) & index->mask) {
        name_slot *slot = &index->slots[at];
        if (slot->number == FREE_SLOT || (slot->hash == hash && span_equal(slot->name, name)))
            return slot;
    }
}

static uint32_t hash_of(span name)
{
    return (uint32_t)(XXH3_64bits(name.data, name.size) >> 32);
}

static status grow(name_index *index)
{
    uint32_t size = index->slots ? (index->mask + 1) * 2 : 64;
    name_index larger = {.slots = malloc(size * sizeof(name_slot)), .mask = size - 1, .count = index->count};
    if (!larger.slots)
        return ERR_MEMORY;
    for (uint32_t i = 0; i < size; i++)
        larger.slots[i].number = FREE_SLOT;
    for (uint32_t i = 0; index->slots && i <= index->mask; i++)
        if (index->slots[i].number != FREE_SLOT)
            *slot_of(&larger, index->slots[i].name, index->slots[i].hash) = index->slots[i];
    free(index->slots);
    *index = larger;
    return OK;
}

status name_index_add(name_index *index, span name, uint32_t number)
{
    if ((!index->slots || index->count >= (index->mask + 1) / 2) && grow(index) != OK)
        return ERR_MEMORY;
    uint32_t hash = hash_of(name);
    name_slot *slot = slot_of(index, name, hash);
    if (slot->number != FREE_SLOT)
        return ERR_INVALID;
    *slot = (name_slot){hash, number, name};
    index->count++;
    return OK;
}

int64_t name_index_find(const name_index *index, span name)
{
    if (!index->slots)
        return NAME_ABSENT;
    const name_slot *slot = slot_of(index, name, hash_of(name));
    return slot->number == FREE_SLOT ? NAME_ABSENT : (int64_t)slot->number;
}

void name_index_free(name_index *index)
{
    free(index->slots);
    *index = (name_index){0};
}
