/* tests/tools/model_logits.c: logits of every position, for comparisons with other engines.
 * usage: model_logits MODEL OUT [CHUNK [THREADS [KV_TYPE]]] < prompts: one prompt of token ids a line. OUT gets f32
 * (positions, vocab), prompt after prompt. CHUNK 0: the whole prompt at once. HEADWAY_CPU picks the kernels. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/model.h"
#include "tensor/kv_type.h"

enum { PROMPT_MAX = 8192 };

static uint32_t read_prompt(int32_t *ids)
{
    static char line[1 << 20];
    uint32_t count = 0;
    if (!fgets(line, sizeof line, stdin))
        return 0;
    for (char *p = line, *end; count < PROMPT_MAX; p = end) {
        long id = strtol(p, &end, 10);
        if (end == p)
            break;
        ids[count++] = (int32_t)id;
    }
    return count;
}

static int fail(const char *what, const error *err)
{
    fprintf(stderr, "%s: %s\n", what, err->text);
    return 1;
}

int main(int argc, char **argv)
{
    static int32_t ids[PROMPT_MAX];
    static uint32_t pages[PROMPT_MAX / KV_PAGE_TOKENS];
    error err = {0};
    model_file *file;
    backend *device;
    model *m;
    batch *b;
    kv_cache *cache;
    state_cache *states = NULL;
    head_scratch head;
    if (argc < 3)
        return fprintf(stderr, "usage: model_logits MODEL OUT [CHUNK [THREADS [KV_TYPE]]]\n"), 2;
    uint32_t chunk = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 0,
             threads = argc > 4 ? (uint32_t)strtoul(argv[4], NULL, 10) : 2;
    if (model_file_open(&file, argv[1], &err) ||
        cpu_backend_open(&device, &(backend_config){threads, getenv("HEADWAY_CPU")}, &err) ||
        model_load(&m, file, device, NULL, &err))
        return fail(argv[1], &err);
    if (argc > 5 && kv_type_find(argv[5], &m->kv_stored, &err))
        return fail("KV_TYPE", &err);
    kv_cache_config kv = model_kv_config(m, PROMPT_MAX / KV_PAGE_TOKENS);
    state_config state = model_state_config(m, 1);
    if (batch_create(&b, m, PROMPT_MAX, 1, &err) || head_create(&head, m, &err) ||
        device->ops->kv_create(device, &kv, &cache, &err) ||
        (state.layers && device->ops->state_create(device, &state, &states, &err)))
        return fail("scratch", &err);
    for (uint32_t i = 0; i < PROMPT_MAX / KV_PAGE_TOKENS; i++)
        pages[i] = i;
    FILE *out = fopen(argv[2], "wb");
    float *logits = malloc((size_t)HEAD_ROWS * m->config.vocab * sizeof *logits);
    if (!out || !logits)
        return fail(argv[2], &err);
    for (uint32_t count; (count = read_prompt(ids));) {
        uint32_t step = chunk ? chunk : count;
        for (uint32_t at = 0; at < count; at += step) {
            uint32_t n = count - at < step ? count - at : step;
            batch_start(b, cache, states);
            batch_add(b, 0, pages, at, ids + at, n);
            device->ops->step_begin(device);
            while (!batch_advance(m, b))
                ;
            for (uint32_t r = 0; r < n; r += HEAD_ROWS) {
                uint32_t rows[HEAD_ROWS], group = n - r < HEAD_ROWS ? n - r : HEAD_ROWS;
                for (uint32_t i = 0; i < group; i++)
                    rows[i] = r + i;
                head_logits(m, &head, b, rows, group, logits);
                fwrite(logits, sizeof *logits, (size_t)group * m->config.vocab, out);
            }
            device->ops->step_end(device);
        }
    }
    int failed = fclose(out);
    free(logits);
    device->ops->kv_destroy(device, cache);
    device->ops->state_destroy(device, states);
    head_destroy(m, &head);
    batch_destroy(m, b);
    model_free(m);
    device->ops->close(device);
    model_file_close(file);
    return failed != 0;
}
