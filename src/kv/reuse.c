/* kv/reuse.c: reuse distances of sampled keys, after SHARDS (Waldspurger, Park, Garthwaite, Ahmad: "Efficient MRC
 * Construction with SHARDS", FAST 2015): a key is watched by its hash, distances among the watched are scaled up.
 *
 * Each use takes the next place in a row of places; a Fenwick tree counts the places that are some key's last one, so
 * the distance is the number of them behind the key's. A request's distances are all taken before its pages move, and
 * they move from the last to the first: as in the tree, where leaves go before what they hang on.
 *
 * The row is rebuilt when it is full: keys that were not used for an hour leave, and the share of the keys that are
 * watched halves when there are still too many, or doubles when there are few. */
#include "kv/reuse.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    EXACT = 64,       /* sizes below have a bucket each */
    PER_OCTAVE = 32,  /* buckets from one power of two to the next above them */
    EXACT_OCTAVE = 6, /* EXACT == 1 << EXACT_OCTAVE */
    BUCKETS = EXACT + (32 - EXACT_OCTAVE) * PER_OCTAVE,
    SHIFT_MAX = 31
};
static const uint64_t HALF_LIFE_US = 600 * (uint64_t)1000000;
static const uint64_t WATCHED_US = 3600 * (uint64_t)1000000;
static const double RESCALE_HALVES = 64;
static const double FADED = 1e-3; /* of all hits: what lies above the rest is not worth a larger cache */

typedef struct {
    prefix_key key;
    uint64_t last_us;
    uint32_t place;
} watched;

struct reuse {
    watched *keys, *spare; /* (keys_max): key_count of them */
    uint32_t *slots;       /* (slot_mask + 1): number in keys + 1, by key.low; 0: free */
    uint32_t *row;         /* (row_size): number in keys + 1; 0: nobody's last place */
    uint32_t *tree;        /* (row_size + 1): Fenwick over the places in use */
    uint32_t keys_max, key_count, slot_mask, row_size, row_used;
    uint32_t shift; /* one key in 1 << shift is watched */
    uint64_t origin_us, rebuilt_us;
    double hits[BUCKETS]; /* by the pages that a cache needs to find it, in uses at origin_us */
    double total;         /* all uses */
};

status reuse_create(reuse **out, uint32_t keys_max, error *err)
{
    if (keys_max < 16 || keys_max > 1 << 28)
        return error_set(err, ERR_INVALID, "reuse: %u keys, want 16 to %u", keys_max, 1u << 28);
    reuse *r = calloc(1, sizeof *r);
    if (r) {
        r->keys_max = keys_max;
        r->row_size = 4 * keys_max;
        for (r->slot_mask = 1; r->slot_mask < 2 * keys_max;)
            r->slot_mask = r->slot_mask * 2 + 1;
        r->keys = calloc(keys_max, sizeof *r->keys);
        r->spare = calloc(keys_max, sizeof *r->spare);
        r->slots = calloc(r->slot_mask + (size_t)1, sizeof *r->slots);
        r->row = calloc(r->row_size, sizeof *r->row);
        r->tree = calloc(r->row_size + (size_t)1, sizeof *r->tree);
    }
    if (!r || !r->keys || !r->spare || !r->slots || !r->row || !r->tree) {
        reuse_destroy(r);
        return error_set(err, ERR_MEMORY, "reuse: no memory for %u keys", keys_max);
    }
    *out = r;
    return OK;
}

void reuse_destroy(reuse *r)
{
    if (!r)
        return;
    free(r->keys);
    free(r->spare);
    free(r->slots);
    free(r->row);
    free(r->tree);
    free(r);
}

static bool is_watched(const reuse *r, prefix_key key)
{
    return r->shift == 0 || key.high >> (64 - r->shift) == 0;
}

/* The slot that holds the key, or the free one where it belongs. */
static uint32_t *slot_of(const reuse *r, prefix_key key)
{
    for (uint32_t at = (uint32_t)key.low & r->slot_mask;; at = (at + 1) & r->slot_mask) {
        uint32_t number = r->slots[at];
        if (!number || (r->keys[number - 1].key.low == key.low && r->keys[number - 1].key.high == key.high))
            return &r->slots[at];
    }
}

static void tree_add(reuse *r, uint32_t place, uint32_t change)
{
    for (uint32_t at = place + 1; at <= r->row_size; at += at & (0 - at))
        r->tree[at] += change;
}

static uint32_t tree_sum(const reuse *r, uint32_t places) /* in use, of the first `places` */
{
    uint32_t sum = 0;
    for (uint32_t at = places; at > 0; at &= at - 1)
        sum += r->tree[at];
    return sum;
}

static void set_place(reuse *r, uint32_t number, uint32_t place)
{
    r->keys[number].place = place;
    r->row[place] = number + 1;
    tree_add(r, place, 1);
}

/* Moves all keys to the front of the row, in order, without those that are old or not watched any more. */
static void rebuild(reuse *r, uint64_t now_us)
{
    uint32_t kept = 0;
    for (uint32_t place = 0; place < r->row_used; place++) {
        if (!r->row[place])
            continue;
        const watched *w = &r->keys[r->row[place] - 1];
        if (w->last_us + WATCHED_US > now_us && is_watched(r, w->key))
            r->spare[kept++] = *w;
    }
    watched *keys = r->spare;
    r->spare = r->keys;
    r->keys = keys;
    memset(r->slots, 0, (r->slot_mask + (size_t)1) * sizeof *r->slots);
    memset(r->row, 0, r->row_size * sizeof *r->row);
    memset(r->tree, 0, (r->row_size + (size_t)1) * sizeof *r->tree);
    r->key_count = r->row_used = kept;
    for (uint32_t i = 0; i < kept; i++) {
        *slot_of(r, keys[i].key) = i + 1;
        set_place(r, i, i);
    }
    r->rebuilt_us = now_us;
}

/* Room for one more key and one more place. */
static void make_room(reuse *r, uint64_t now_us)
{
    rebuild(r, now_us);
    while (r->key_count > r->keys_max / 4 * 3 && r->shift < SHIFT_MAX) {
        r->shift++;
        rebuild(r, now_us);
    }
    if (r->key_count == r->keys_max) { /* hashes that are no hashes: the oldest quarter goes */
        for (uint32_t place = 0; place < r->keys_max / 4; place++)
            r->row[place] = 0;
        rebuild(r, now_us);
    }
}

static uint32_t bucket_of(uint64_t need)
{
    need = need < UINT32_MAX ? need : UINT32_MAX;
    if (need < EXACT)
        return (uint32_t)need;
    uint32_t octave = 31 - (uint32_t)__builtin_clz((uint32_t)need);
    uint32_t part = (uint32_t)(need >> (octave - 5)) & (PER_OCTAVE - 1);
    return EXACT + (octave - EXACT_OCTAVE) * PER_OCTAVE + part;
}

static uint64_t bucket_start(uint32_t bucket)
{
    if (bucket < EXACT)
        return bucket;
    uint32_t octave = EXACT_OCTAVE + (bucket - EXACT) / PER_OCTAVE, part = (bucket - EXACT) % PER_OCTAVE;
    return (uint64_t)(PER_OCTAVE + part) << (octave - 5);
}

/* What a use counts now, beside those at origin_us: older ones are halved for each half-life since. */
static double weight_now(reuse *r, uint64_t now_us)
{
    if (r->total == 0)
        r->origin_us = now_us;
    double halves = now_us > r->origin_us ? (double)(now_us - r->origin_us) / (double)HALF_LIFE_US : 0;
    if (halves < RESCALE_HALVES)
        return exp2(halves);
    double part = exp2(-halves);
    for (uint32_t i = 0; i < BUCKETS; i++)
        r->hits[i] *= part;
    r->total *= part;
    r->origin_us = now_us;
    return 1;
}

static void use_key(reuse *r, prefix_key key, uint64_t now_us)
{
    if (r->row_used == r->row_size || (r->key_count == r->keys_max && !*slot_of(r, key)))
        make_room(r, now_us);
    if (!is_watched(r, key))
        return;
    uint32_t *slot = slot_of(r, key);
    if (*slot) {
        uint32_t place = r->keys[*slot - 1].place;
        r->row[place] = 0;
        tree_add(r, place, UINT32_MAX);
    } else {
        r->keys[r->key_count].key = key;
        *slot = ++r->key_count;
    }
    r->keys[*slot - 1].last_us = now_us;
    set_place(r, *slot - 1, r->row_used++);
}

void reuse_saw(reuse *r, const prefix_key *keys, uint32_t count, uint64_t now_us)
{
    if (now_us >= r->rebuilt_us + HALF_LIFE_US) {
        rebuild(r, now_us);
        r->shift -= r->shift > 0 && r->key_count < r->keys_max / 4;
    }
    double weight = weight_now(r, now_us) * exp2(r->shift);
    uint32_t shift = r->shift;
    for (uint32_t i = 0; i < count; i++) {
        if (!is_watched(r, keys[i]))
            continue;
        r->total += weight;
        uint32_t number = *slot_of(r, keys[i]);
        if (!number)
            continue;
        uint64_t between = r->key_count - tree_sum(r, r->keys[number - 1].place + 1);
        r->hits[bucket_of((between << shift) + 1)] += weight;
    }
    for (uint32_t i = count; i-- > 0;)
        if (is_watched(r, keys[i]))
            use_key(r, keys[i], now_us);
}

bool reuse_knows(const reuse *r, prefix_key key)
{
    return is_watched(r, key) && *slot_of(r, key) != 0;
}

double reuse_hit_share(const reuse *r, uint32_t pages)
{
    double found = 0;
    for (uint32_t i = 0; i < BUCKETS && bucket_start(i) <= pages; i++) {
        double size = (double)(bucket_start(i + 1) - bucket_start(i)),
               inside = (double)((uint64_t)pages + 1 - bucket_start(i));
        found += r->hits[i] * (inside < size ? inside / size : 1);
    }
    return r->total > 0 ? fmin(found / r->total, 1) : 0;
}

uint32_t reuse_largest(const reuse *r)
{
    double all = 0, above = 0;
    for (uint32_t i = 0; i < BUCKETS; i++)
        all += r->hits[i];
    for (uint32_t i = BUCKETS; i-- > 0;) {
        above += r->hits[i];
        if (above > all * FADED) {
            uint64_t last = bucket_start(i + 1) - 1;
            return last < UINT32_MAX ? (uint32_t)last : UINT32_MAX;
        }
    }
    return 0;
}
