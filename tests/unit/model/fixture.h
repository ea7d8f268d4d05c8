/* tests/unit/model/fixture.h: a loaded model with one KV pool, for tests. */
#ifndef HEADWAY_TESTS_MODEL_FIXTURE_H
#define HEADWAY_TESTS_MODEL_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/model.h"

enum { FIXTURE_SLOTS = 8 };
#define VECTORS "tests/numeric/vectors/arch/"
#define HYBRIDS "tests/numeric/vectors/hybrid/"

typedef struct {
    backend *device;
    model *model;
    kv_cache *cache;
    state_cache *states; /* NULL when the model keeps none */
    head_scratch head;
    uint32_t page_count;
} fixture;

static inline void fixture_open_kv(fixture *f, const char *path, uint32_t threads, uint32_t page_count, kv_type stored)
{
    error err = {0};
    model_file *file = NULL;
    *f = (fixture){.page_count = page_count};
    if (model_file_open(&file, path, &err) ||
        cpu_backend_open(&f->device, &(backend_config){threads, getenv("HEADWAY_CPU")}, &err) ||
        model_load(&f->model, file, f->device, NULL, &err))
        fail_msg("%s", err.text);
    f->model->kv_stored = stored;
    kv_cache_config kv = model_kv_config(f->model, page_count);
    if (f->device->ops->kv_create(f->device, &kv, &f->cache, &err) || head_create(&f->head, f->model, &err))
        fail_msg("%s", err.text);
    state_config states = model_state_config(f->model, FIXTURE_SLOTS);
    if (states.layers && f->device->ops->state_create(f->device, &states, &f->states, &err))
        fail_msg("%s", err.text);
    model_file_close(file);
}

static inline void fixture_open(fixture *f, const char *path, uint32_t threads, uint32_t page_count)
{
    fixture_open_kv(f, path, threads, page_count, KV_F16);
}

static inline void fixture_close(fixture *f)
{
    f->device->ops->kv_destroy(f->device, f->cache);
    f->device->ops->state_destroy(f->device, f->states);
    head_destroy(f->model, &f->head);
    model_free(f->model);
    f->device->ops->close(f->device);
}

/* Logits of all rows of a finished batch, (rows, vocab). */
static inline void fixture_logits(const fixture *f, const batch *b, float *out)
{
    uint32_t rows[HEAD_ROWS];
    for (uint32_t at = 0; at < b->rows; at += HEAD_ROWS) {
        uint32_t n = b->rows - at < HEAD_ROWS ? b->rows - at : HEAD_ROWS;
        for (uint32_t i = 0; i < n; i++)
            rows[i] = at + i;
        head_logits(f->model, &f->head, b, rows, n, out + (size_t)at * f->model->config.vocab);
    }
}

#endif
