/* model/file/name_index.h: from a name to its number. Open addressing over XXH3; never more than half full. Names are
 * borrowed from the mapping. Built by one thread, then read by any. */
#ifndef HEADWAY_MODEL_FILE_NAME_INDEX_H
#define HEADWAY_MODEL_FILE_NAME_INDEX_H

#include "base/span.h"
#include "base/status.h"

typedef struct {
    uint32_t hash;
    uint32_t number; /* NAME_ABSENT: the slot is free */
    span name;
} name_slot;

typedef struct {
    name_slot *slots;
    uint32_t mask; /* slots - 1 */
    uint32_t count;
} name_index;

enum { NAME_ABSENT = -1 };

/* OK; ERR_INVALID when the name is there already; ERR_MEMORY. */
status name_index_add(name_index *index, span name, uint32_t number);
int64_t name_index_find(const name_index *index, span name); /* NAME_ABSENT when it is not there */
void name_index_free(name_index *index);

#endif
