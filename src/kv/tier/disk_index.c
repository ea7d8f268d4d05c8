/* kv/tier/disk_index.c: which record lies where, in memory. A hash table over the keys with chains through the entries,
 * and for each segment which entry has which slot. Every entry is in exactly one slot, every slot has at most one. */
#include "kv/tier/disk.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

status disk_index_create(disk_tier *t, error *err)
{
    uint32_t buckets = 64;
    while (buckets < t->entry_max)
        buckets *= 2;
    t->bucket_mask = buckets - 1;
    t->entries = calloc(t->entry_max, sizeof *t->entries);
    t->buckets = malloc(buckets * sizeof *t->buckets);
    t->waiting = malloc(t->entry_max * sizeof *t->waiting);
    t->segments = calloc(t->segment_max, sizeof *t->segments);
    if (!t->entries || !t->buckets || !t->waiting || !t->segments)
        return error_set(err, ERR_MEMORY, "%s: no memory for an index of %u records", t->path, t->entry_max);
    memset(t->buckets, 0xff, buckets * sizeof *t->buckets);
    t->free_entry = DISK_NONE;
    t->entry_count = 0; /* entries that were ever used: those after it have not been touched, so not paid for */
    return OK;
}

void disk_index_destroy(disk_tier *t)
{
    for (uint32_t i = 0; i < t->segment_count; i++)
        free(t->segments[i]);
    free(t->segments);
    free(t->entries);
    free(t->buckets);
    free(t->waiting);
}

static uint32_t *bucket_of(disk_tier *t, prefix_key key)
{
    return &t->buckets[key.low & t->bucket_mask];
}

disk_entry *disk_index_find(disk_tier *t, prefix_key key)
{
    for (uint32_t i = *bucket_of(t, key); i != DISK_NONE; i = t->entries[i].next)
        if (t->entries[i].key.low == key.low && t->entries[i].key.high == key.high)
            return &t->entries[i];
    return NULL;
}

static disk_entry *take_entry(disk_tier *t)
{
    if (t->free_entry != DISK_NONE) {
        disk_entry *e = &t->entries[t->free_entry];
        t->free_entry = e->next;
        return e;
    }
    return t->entry_count < t->entry_max ? &t->entries[t->entry_count++] : NULL;
}

disk_entry *disk_index_add(disk_tier *t, const disk_log_entry *about, disk_segment *s)
{
    assert(about->slot < s->used && s->slots[about->slot] < SLOT_ENTRY);
    disk_entry *e = take_entry(t);
    if (!e)
        return NULL;
    uint32_t index = (uint32_t)(e - t->entries), *bucket = bucket_of(t, about->key);
    *e = (disk_entry){.key = about->key,
                      .space = about->space,
                      .used_us = about->used_us,
                      .logged_us = about->used_us,
                      .tokens_hash = about->tokens_hash,
                      .segment = s,
                      .slot = about->slot,
                      .token_count = about->token_count,
                      .next = *bucket,
                      .live = true,
                      .waits = e->waits};
    *bucket = index;
    s->unwiped -= s->slots[about->slot] == SLOT_UNWIPED;
    s->slots[about->slot] = SLOT_ENTRY + index;
    s->live++;
    t->counts.records++;
    return e;
}

static void leave_slot(disk_entry *e)
{
    e->segment->slots[e->slot] = SLOT_UNWIPED;
    e->segment->unwiped++;
    e->segment->live--;
}

void disk_index_remove(disk_tier *t, disk_entry *e)
{
    uint32_t index = (uint32_t)(e - t->entries), *link = bucket_of(t, e->key);
    assert(e->live && e->segment->slots[e->slot] == SLOT_ENTRY + index);
    while (*link != index)
        link = &t->entries[*link].next;
    *link = e->next;
    leave_slot(e);
    e->live = false;
    e->segment = NULL;
    e->next = t->free_entry;
    t->free_entry = index;
    t->counts.records--;
}

void disk_index_move(disk_tier *t, disk_entry *e, disk_segment *s, uint32_t slot)
{
    assert(e->live && s->slots[slot] < SLOT_ENTRY);
    leave_slot(e);
    e->segment = s;
    e->slot = slot;
    s->unwiped -= s->slots[slot] == SLOT_UNWIPED;
    s->slots[slot] = SLOT_ENTRY + (uint32_t)(e - t->entries);
    s->live++;
    disk_index_log(t, e);
}

void disk_index_log(disk_tier *t, disk_entry *e)
{
    if (e->waits)
        return;
    assert(t->waiting_count < t->entry_max);
    e->waits = true;
    t->waiting[t->waiting_count++] = (uint32_t)(e - t->entries);
}

/* The time is kept exactly here, to ten seconds in the log: a chat that is used all day would fill it otherwise. */
void disk_index_use(disk_tier *t, disk_entry *e, uint64_t now_us)
{
    e->used_us = now_us > e->used_us ? now_us : e->used_us;
    if (e->used_us - e->logged_us >= 10000000u)
        disk_index_log(t, e);
}

disk_segment *disk_segment_add(disk_tier *t, uint32_t number, uint32_t used)
{
    uint32_t room = used > t->slots ? used : t->slots;
    if (t->segment_count == t->segment_max)
        return NULL;
    disk_segment *s = calloc(1, sizeof *s + room * sizeof *s->slots);
    if (!s)
        return NULL;
    s->number = number;
    s->room = room;
    s->used = s->synced = used;
    s->fd = -1;
    t->segments[t->segment_count++] = s;
    assert(t->segment_count < 2 || t->segments[t->segment_count - 2]->number < number);
    t->data_bytes += used * (uint64_t)t->shape.record_bytes;
    return s;
}

void disk_segment_forget(disk_tier *t, disk_segment *s)
{
    assert(s->live == 0 && s->readers == 0 && s->fd < 0);
    uint32_t at = 0;
    while (t->segments[at] != s)
        at++;
    memmove(&t->segments[at], &t->segments[at + 1], (t->segment_count - at - 1) * sizeof *t->segments);
    t->segment_count--;
    t->data_bytes -= s->used * (uint64_t)t->shape.record_bytes;
    free(s);
}

disk_segment *disk_segment_find(disk_tier *t, uint32_t number)
{
    uint32_t low = 0, high = t->segment_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (t->segments[middle]->number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low < t->segment_count && t->segments[low]->number == number ? t->segments[low] : NULL;
}

disk_name disk_segment_name(uint32_t number)
{
    disk_name n;
    snprintf(n.name, sizeof n.name, "%08x.seg", number);
    return n;
}
