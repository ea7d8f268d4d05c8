/* tests/unit/runner/fingerprint_test.c: pages of another model, KV type or rounding are told apart; the same model's
 * are not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rng.h"
#include "runner/fingerprint.h"

#define ROOM "tests/numeric/vectors/"

typedef struct {
    const char *kernels;
    kv_type type;
    bool inexact;
    uint64_t spent_us;
} how;

static uint64_t fingerprint_of(const char *path, how *h)
{
    error err = {0};
    model_file *file = NULL;
    backend *device = NULL;
    model *m = NULL;
    if (model_file_open(&file, path, &err) || cpu_backend_open(&device, &(backend_config){1, h->kernels}, &err) ||
        model_load(&m, file, device, NULL, &err))
        fail_msg("%s", err.text);
    kv_cache_config kv = {.layers = m->config.kv_layers,
                          .kv_heads = m->config.kv_heads,
                          .head_dim = m->config.head_dim,
                          .exact = !h->inexact,
                          .type = h->type};
    uint64_t start_us = clock_now_us(), found = kv_fingerprint(m, file, &kv);
    h->spent_us = clock_now_us() - start_us;
    model_file_close(file);
    model_free(m);
    device->ops->close(device);
    return found;
}

static void the_same_file_has_one_and_others_have_others(void **state)
{
    (void)state;
    static const char *const paths[] = {
        ROOM "arch/llama.gguf",        ROOM "arch/llama_linear.gguf", ROOM "arch/llama_llama3.gguf",
        ROOM "arch/llama_untied.gguf", ROOM "arch/llama_yarn.gguf",   ROOM "arch/qwen2.gguf",
        ROOM "arch/gemma3.gguf",       ROOM "hybrid/qwen35.gguf",     ROOM "hybrid/qwen35moe.gguf",
        ROOM "hybrid/qwen3next.gguf",  ROOM "hybrid/qwen3moe.gguf",   ROOM "hf/qwen3moe",
        ROOM "hf/mlx_affine",          ROOM "hf/qwen3_fp8",           ROOM "hf/qwen3_sharded",
    };
    enum { COUNT = sizeof paths / sizeof *paths };
    uint64_t found[COUNT];
    for (int i = 0; i < COUNT; i++) {
        found[i] = fingerprint_of(paths[i], &(how){0});
        assert_int_equal(found[i], fingerprint_of(paths[i], &(how){0}));
        for (int k = 0; k < i; k++)
            assert_int_not_equal(found[i], found[k]);
    }
}

static void kv_type_and_rounding_count(void **state)
{
    (void)state;
    uint64_t found[KV_TYPES + 2];
    int count = 0;
    for (int type = 0; type < KV_TYPES; type++)
        found[count++] = fingerprint_of(ROOM "arch/llama.gguf", &(how){.kernels = "generic", .type = (kv_type)type});
    found[count++] = fingerprint_of(ROOM "arch/llama.gguf", &(how){.kernels = "generic", .inexact = true});
    backend *best = NULL;
    assert_int_equal(cpu_backend_open(&best, &(backend_config){1, NULL}, NULL), OK);
    if (strcmp(best->kernels, "generic") != 0)
        found[count++] = fingerprint_of(ROOM "arch/llama.gguf", &(how){0});
    best->ops->close(best);
    for (int i = 0; i < count; i++)
        for (int k = 0; k < i; k++)
            assert_int_not_equal(found[i], found[k]);
}

/* A copy of the file with one bit of a tensor turned. */
static void a_turned_bit_in_a_small_tensor_is_noticed(void **state)
{
    (void)state;
    error err = {0};
    const char *path = ROOM "arch/llama.gguf";
    char copy[64];
    snprintf(copy, sizeof copy, "/tmp/headway-fingerprint-%d.gguf", (int)getpid());
    model_file *file = NULL;
    assert_int_equal(model_file_open(&file, path, &err), OK);
    size_t bytes = (size_t)model_file_bytes(file), tensors = model_file_tensor_count(file), data_bytes = 0;
    for (size_t i = 0; i < tensors; i++)
        data_bytes += model_file_tensor_at(file, i)->bytes;
    model_file_close(file);
    FILE *in = fopen(path, "rb");
    uint8_t *all = malloc(bytes);
    assert_true(in && fread(all, 1, bytes, in) == bytes);
    fclose(in);
    uint64_t before = fingerprint_of(path, &(how){0});
    rng r = {5};
    for (int i = 0; i < 40; i++) {
        size_t at = i == 0 ? bytes : bytes - data_bytes / 2 + rng_below(&r, data_bytes / 2 - 64);
        if (at < bytes)
            all[at] ^= 1;
        FILE *out = fopen(copy, "wb");
        assert_true(out && fwrite(all, 1, bytes, out) == bytes);
        fclose(out);
        uint64_t after = fingerprint_of(copy, &(how){0});
        assert_true((after == before) == (i == 0)); /* the first is a plain copy; the place does not count */
        if (at < bytes)
            all[at] ^= 1;
    }
    unlink(copy);
    free(all);
}

static void a_large_model_takes_a_moment(void **state)
{
    (void)state;
    char path[512];
    const char *home = getenv("HOME"), *cache = getenv("XDG_CACHE_HOME");
    snprintf(path, sizeof path, "%s%s/headway/models/SmolLM2-135M-Instruct.Q4_1.gguf",
             cache  ? cache
             : home ? home
                    : "",
             cache ? "" : "/.cache");
    if (access(path, R_OK)) {
        printf("skipped: the default model is not in the cache\n");
        skip();
    }
    how first = {0}, again = {0};
    assert_int_equal(fingerprint_of(path, &first), fingerprint_of(path, &again));
    printf("%.1f ms, %.1f ms\n", (double)first.spent_us / 1e3, (double)again.spent_us / 1e3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_file_has_one_and_others_have_others),
        cmocka_unit_test(kv_type_and_rounding_count),
        cmocka_unit_test(a_turned_bit_in_a_small_tensor_is_noticed),
        cmocka_unit_test(a_large_model_takes_a_moment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
