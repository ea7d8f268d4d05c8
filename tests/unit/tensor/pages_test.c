/* tests/unit/tensor/pages_test.c: a page's bytes from outside come back as they went in, and whatever a page held
 * before never shows in attention, on every kernel table of this machine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/backend.h"

enum { DIM = 64, HEADS = 2, LAYERS = 2, TOKENS = 40, PAGE_COUNT = 8, TABLE_COUNT = 4 };
static const char *const TABLES[] = {"generic", "avx2", "avx512", "neon"};
static const uint32_t PAGES[] = {5, 2}, STATE_PAGES[] = {2, 5};

typedef struct {
    backend *device;
    kv_cache *cache;
    state_cache *states;
    size_t page_bytes;
    buffer *k, *v, *out;
} bench;

static bool open_bench(bench *b, const char *table)
{
    error err = {0};
    *b = (bench){0};
    if (cpu_backend_open(&b->device, &(backend_config){2, table}, &err))
        return false;
    const backend_ops *ops = b->device->ops;
    kv_cache_config kv = {.layers = LAYERS, .kv_heads = HEADS, .head_dim = DIM, .page_count = PAGE_COUNT};
    state_config states = {1, 1, 1, 1, 32, 160, 4};
    assert_int_equal(ops->kv_create(b->device, &kv, &b->cache, &err), OK);
    assert_int_equal(ops->state_create(b->device, &states, &b->states, &err), OK);
    b->page_bytes = ops->kv_page_bytes(&kv);
    assert_true(ops->state_bytes(&states) > b->page_bytes / 2 && ops->state_bytes(&states) <= 2 * b->page_bytes);
    size_t floats = (size_t)TOKENS * HEADS * DIM;
    float *values = malloc(floats * sizeof *values);
    for (size_t i = 0; i < floats; i++)
        values[i] = (float)(i % 31) / 16 - 1;
    buffer **all[] = {&b->k, &b->v, &b->out};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ops->buffer_create(b->device, floats, all[i]), OK);
        ops->upload(b->device, *all[i], 0, values, floats);
    }
    free(values);
    return true;
}

static void close_bench(bench *b)
{
    const backend_ops *ops = b->device->ops;
    ops->buffer_destroy(b->device, b->k);
    ops->buffer_destroy(b->device, b->v);
    ops->buffer_destroy(b->device, b->out);
    ops->state_destroy(b->device, b->states);
    ops->kv_destroy(b->device, b->cache);
    ops->close(b->device);
}

/* Writes all tokens, `first` of them in a call of their own, and attends with the keys as queries. */
static void attend(bench *b, uint32_t first, float *out)
{
    const backend_ops *ops = b->device->ops;
    view k = {b->k, 0, HEADS * DIM}, v = {b->v, 0, HEADS * DIM}, o = {b->out, 0, HEADS * DIM};
    kv_segment whole = {PAGES, 0, 0, TOKENS};
    for (uint32_t layer = 0; layer < LAYERS; layer++) {
        kv_segment parts[] = {{PAGES, 0, 0, first}, {PAGES, first, first, TOKENS - first}};
        for (int i = 0; i < 2; i++)
            ops->kv_write(b->device, &(kv_write_args){b->cache, layer, k, v, &parts[i], 1});
        ops->attend(b->device, &(attend_args){.cache = b->cache,
                                              .layer = layer,
                                              .q = k,
                                              .out = o,
                                              .heads = HEADS,
                                              .segments = &whole,
                                              .segment_count = 1,
                                              .scale = 0.125f});
        ops->download(b->device, b->out, 0, out + (size_t)layer * TOKENS * HEADS * DIM, TOKENS * HEADS * DIM);
    }
}

static void spoil_in_place(bench *b)
{
    for (uint32_t i = 0; i < PAGE_COUNT; i++)
        memset(b->device->ops->kv_page_at(b->device, b->cache, i), 0xff, b->page_bytes);
}

static void spoil_by_writing(bench *b)
{
    uint8_t *bytes = malloc(b->page_bytes);
    memset(bytes, 0xff, b->page_bytes);
    for (uint32_t i = 0; i < PAGE_COUNT; i++)
        b->device->ops->kv_page_write(b->device, b->cache, i, 0, b->page_bytes, bytes);
    free(bytes);
}

/* Both pages become a state's that is all NaN. */
static void spoil_by_saving(bench *b)
{
    const uint32_t others[] = {6, 7};
    for (int i = 0; i < 2; i++)
        memset(b->device->ops->kv_page_at(b->device, b->cache, others[i]), 0xff, b->page_bytes);
    b->device->ops->state_load(b->device, b->states, 0, b->cache, others);
    b->device->ops->state_save(b->device, b->states, 0, b->cache, STATE_PAGES);
}

static void what_a_page_held_never_shows(void **state)
{
    (void)state;
    void (*const spoil[])(bench *) = {spoil_in_place, spoil_by_writing, spoil_by_saving};
    enum { FLOATS = LAYERS * TOKENS * HEADS * DIM };
    float *clean = malloc(FLOATS * sizeof *clean), *got = malloc(FLOATS * sizeof *got);
    for (int t = 0; t < TABLE_COUNT; t++) {
        bench b;
        if (!open_bench(&b, TABLES[t]))
            continue;
        attend(&b, 1, clean);
        for (int i = 0; i < FLOATS; i++)
            assert_true(isfinite(clean[i]));
        for (size_t i = 0; i < sizeof spoil / sizeof *spoil; i++)
            for (uint32_t first = 1; first < TOKENS; first += 7) {
                spoil[i](&b);
                attend(&b, first, got);
                assert_memory_equal(got, clean, FLOATS * sizeof *got);
            }
        close_bench(&b);
    }
    free(clean);
    free(got);
}

/* Read out in odd pieces and written to other pages, tokens are where they were. */
static void bytes_come_back_in_other_pages(void **state)
{
    (void)state;
    enum { FLOATS = TOKENS * HEADS * DIM };
    bench b;
    assert_true(open_bench(&b, NULL));
    const backend_ops *ops = b.device->ops;
    float *before = malloc(LAYERS * FLOATS * sizeof *before), *after = malloc(FLOATS * sizeof *after);
    uint8_t *bytes = malloc(2 * b.page_bytes);
    attend(&b, 9, before);
    for (int i = 0; i < 2; i++)
        for (size_t at = 0, n; at < b.page_bytes; at += n) {
            n = at + 777 < b.page_bytes ? 777 : b.page_bytes - at;
            ops->kv_page_read(b.device, b.cache, PAGES[i], at, n, bytes + (size_t)i * b.page_bytes + at);
        }
    spoil_in_place(&b);
    const uint32_t moved[] = {1, 7};
    for (int i = 0; i < 2; i++) {
        ops->kv_page_write(b.device, b.cache, moved[i], 0, 100, bytes + (size_t)i * b.page_bytes);
        ops->kv_page_write(b.device, b.cache, moved[i], 100, b.page_bytes - 100,
                           bytes + (size_t)i * b.page_bytes + 100);
    }
    kv_segment segment = {moved, 0, 0, TOKENS};
    for (uint32_t layer = 0; layer < LAYERS; layer++) {
        ops->attend(b.device, &(attend_args){.cache = b.cache,
                                             .layer = layer,
                                             .q = {b.k, 0, HEADS * DIM},
                                             .out = {b.out, 0, HEADS * DIM},
                                             .heads = HEADS,
                                             .segments = &segment,
                                             .segment_count = 1,
                                             .scale = 0.125f});
        ops->download(b.device, b.out, 0, after, FLOATS);
        assert_memory_equal(after, before + (size_t)layer * FLOATS, FLOATS * sizeof *after);
    }
    free(before);
    free(after);
    free(bytes);
    close_bench(&b);
}

static void write_tokens(bench *b, uint32_t count)
{
    view k = {b->k, 0, HEADS * DIM}, v = {b->v, 0, HEADS * DIM};
    kv_segment segment = {PAGES, 0, 0, count};
    for (uint32_t layer = 0; layer < LAYERS; layer++)
        b->device->ops->kv_write(b->device, &(kv_write_args){b->cache, layer, k, v, &segment, 1});
}

/* A page with a few tokens goes to a tier as it is: nothing of who had it before may lie behind them. */
static void behind_a_few_tokens_there_is_nothing(void **state)
{
    (void)state;
    for (int t = 0; t < TABLE_COUNT; t++)
        for (uint32_t few = 1; few < 32; few += 6) {
            bench fresh, used;
            if (!open_bench(&fresh, TABLES[t]))
                continue;
            assert_true(open_bench(&used, TABLES[t]));
            write_tokens(&used, TOKENS);
            write_tokens(&used, few);
            write_tokens(&fresh, few);
            uint8_t *a = malloc(fresh.page_bytes), *b = malloc(fresh.page_bytes);
            fresh.device->ops->kv_page_read(fresh.device, fresh.cache, PAGES[0], 0, fresh.page_bytes, a);
            used.device->ops->kv_page_read(used.device, used.cache, PAGES[0], 0, used.page_bytes, b);
            assert_memory_equal(a, b, fresh.page_bytes);
            free(a);
            free(b);
            close_bench(&fresh);
            close_bench(&used);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_page_held_never_shows),
        cmocka_unit_test(bytes_come_back_in_other_pages),
        cmocka_unit_test(behind_a_few_tokens_there_is_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
