/* Whole files: the same bytes for every number of threads, read back by the loader, nothing left after a failure. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "model/file/model_file.h"
#include "model/write/model_write.h"
#include "tensor/quant.h"

#define CONFIGS "tests/data/configs/"

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/headway-write-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

static void path_of(const char *name, char out[128])
{
    snprintf(out, 128, "%s/%s", folder, name);
}

static model_plan plan_of(const char *path, model_format format, weight_type type, uint64_t seed)
{
    json_t *config = json_load_file(path, 0, NULL);
    model_shape shape;
    model_plan plan = {0};
    error err = {0};
    if (shape_read(&shape, config, path, &err) || model_plan_build(&plan, &shape, format, type, seed, &err))
        fail_msg("%s", err.text);
    json_decref(config);
    return plan;
}

static status write_gguf(const model_plan *plan, const char *path, uint32_t threads, const sig_atomic_t *stop,
                         error *err)
{
    gguf_keys keys = {0};
    write_options options = {.threads = threads, .stop = stop};
    gguf_put_plan(&keys, plan, "a test");
    status st = model_write_gguf(plan, &keys, path, &options, err);
    gguf_keys_free(&keys);
    return st;
}

static buf read_file(const char *path)
{
    buf out = {0};
    char block[4096];
    size_t got;
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    while ((got = fread(block, 1, sizeof block, file)) > 0)
        buf_append(&out, block, got);
    fclose(file);
    return out;
}

static void the_same_seed_gives_the_same_bytes_on_one_thread_and_two(void **state)
{
    (void)state;
    char one[128], two[128], other[128];
    path_of("one.gguf", one);
    path_of("two.gguf", two);
    path_of("other.gguf", other);
    model_plan plan = plan_of(CONFIGS "tiny_qwen3_5_moe.json", FORMAT_GGUF, TYPE_MXFP4, 11);
    model_plan unlike = plan_of(CONFIGS "tiny_qwen3_5_moe.json", FORMAT_GGUF, TYPE_MXFP4, 12);
    error err = {0};
    assert_int_equal(write_gguf(&plan, one, 1, NULL, &err), OK);
    assert_int_equal(write_gguf(&plan, two, 2, NULL, &err), OK);
    assert_int_equal(write_gguf(&unlike, other, 2, NULL, &err), OK);
    buf a = read_file(one), b = read_file(two), c = read_file(other);
    assert_int_equal(a.size, b.size);
    assert_memory_equal(a.data, b.data, a.size);
    assert_memory_not_equal(a.data, c.data, a.size);
    buf_free(&a);
    buf_free(&b);
    buf_free(&c);
    model_plan_free(&plan);
    model_plan_free(&unlike);
    unlink(one);
    unlink(two);
    unlink(other);
}

static void check_tensor(const model_plan *plan, const plan_tensor *t, const model_file *file)
{
    const model_tensor *got = model_file_tensor(file, plan_name(plan, t));
    assert_non_null(got);
    assert_int_equal(got->ne[0], t->cols);
    assert_int_equal(got->ne[1] * got->ne[2] * got->ne[3], t->rows);
    float *want = malloc(3 * t->cols * sizeof *want), *back = want + t->cols;
    size_t row_bytes = dtype_row_bytes(dtype_get(got->type), t->cols);
    for (uint64_t r = 0; r < t->rows; r++) {
        plan_row(plan, t, r, want, want + 2 * t->cols);
        quant_dequantize_row((dtype)got->type, (const uint8_t *)got->data + r * row_bytes, back, t->cols);
        for (uint64_t i = 0; i < t->cols; i++)
            if (!(back[i] - want[i] <= 0.1f && want[i] - back[i] <= 0.1f))
                fail_msg("%s: row %d, column %d", plan_name(plan, t), (int)r, (int)i);
    }
    free(want);
}

static void the_loader_reads_back_every_tensor_and_key(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"tiny_llama3", "tiny_gemma3", "tiny_qwen2", "tiny_qwen3_5", "tiny_qwen3_next"};
    for (size_t k = 0; k < sizeof NAMES / sizeof *NAMES; k++) {
        char path[128], source[128];
        error err = {0};
        path_of("read.gguf", path);
        snprintf(source, sizeof source, CONFIGS "%s.json", NAMES[k]);
        model_plan plan = plan_of(source, FORMAT_GGUF, TYPE_Q8_0, 3);
        for (size_t i = 0; i < plan.count; i++) /* where one step of q8_0 is small */
            plan.tensors[i].parts[0].scale =
                plan.tensors[i].parts[0].scale > 0.5f ? 0.5f : plan.tensors[i].parts[0].scale;
        assert_int_equal(write_gguf(&plan, path, 2, NULL, &err), OK);
        model_file *file = NULL;
        if (model_file_open(&file, path, &err))
            fail_msg("%s", err.text);
        assert_int_equal(model_file_tensor_count(file), plan.count);
        for (size_t i = 0; i < plan.count; i++)
            check_tensor(&plan, &plan.tensors[i], file);
        bool synthetic = false;
        uint64_t seed = 0;
        assert_int_equal(model_file_bool(file, "headway.synthetic", &synthetic, &err), OK);
        assert_int_equal(model_file_u64(file, "headway.synthetic_seed", &seed, &err), OK);
        assert_true(synthetic && seed == 3);
        model_file_close(file);
        model_plan_free(&plan);
        unlink(path);
    }
}

static void what_exists_is_not_overwritten(void **state)
{
    (void)state;
    char path[128];
    error err = {0};
    path_of("there.gguf", path);
    FILE *file = fopen(path, "wb");
    fputs("mine", file);
    fclose(file);
    model_plan plan = plan_of(CONFIGS "tiny_llama.json", FORMAT_GGUF, TYPE_F16, 1);
    assert_int_equal(write_gguf(&plan, path, 1, NULL, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "exists already"));
    buf left = read_file(path);
    assert_string_equal(left.data, "mine");
    buf_free(&left);
    model_plan_free(&plan);
    unlink(path);
}

static void a_stop_leaves_nothing_behind(void **state)
{
    (void)state;
    char path[128], part[160];
    error err = {0};
    sig_atomic_t stop = 1;
    path_of("stopped", path);
    snprintf(part, sizeof part, "%s.part", path);
    model_plan plan = plan_of(CONFIGS "tiny_llama.json", FORMAT_GGUF, TYPE_F16, 1);
    assert_int_equal(write_gguf(&plan, path, 2, &stop, &err), ERR_CANCELLED);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_not_equal(access(part, F_OK), 0);
    model_plan_free(&plan);
    plan = plan_of(CONFIGS "tiny_llama.json", FORMAT_MLX, TYPE_AFFINE4, 1);
    write_options options = {.threads = 1, .stop = &stop};
    const write_file extra = {"config.json", span_from("{}")};
    assert_int_equal(model_write_directory(&plan, &extra, 1, path, &options, &err), ERR_CANCELLED);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_not_equal(access(part, F_OK), 0);
    model_plan_free(&plan);
}

static void a_disk_without_room_is_said_before_anything_is_written(void **state)
{
    (void)state;
    char path[128], part[160];
    error err = {0};
    path_of("huge", path);
    snprintf(part, sizeof part, "%s.part", path);
    model_plan plan = plan_of(CONFIGS "tiny_llama.json", FORMAT_GGUF, TYPE_F16, 1);
    plan.bytes = (uint64_t)1 << 60;
    assert_int_equal(write_gguf(&plan, path, 1, NULL, &err), ERR_LIMIT);
    assert_non_null(strstr(err.text, "GB free"));
    assert_int_not_equal(access(part, F_OK), 0);
    model_plan_free(&plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_seed_gives_the_same_bytes_on_one_thread_and_two),
        cmocka_unit_test(the_loader_reads_back_every_tensor_and_key),
        cmocka_unit_test(what_exists_is_not_overwritten),
        cmocka_unit_test(a_stop_leaves_nothing_behind),
        cmocka_unit_test(a_disk_without_room_is_said_before_anything_is_written),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
