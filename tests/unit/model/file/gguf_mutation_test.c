/* Thousands of damaged files, always the same ones: each opens or is refused with one line that names the file, and
 * nothing is read outside its bytes (run under ASan and UBSan to see that; the buffers are of the exact size). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "unit/model/file/gguf_builder.h"
#include "unit/model/file/gguf_walk.h"

enum { BASES = 4, MUTATIONS = 10000, SPLIT_MUTATIONS = 1000 };

static void build_plain(buf *out)
{
    gguf_builder g = builder();
    add_llama_keys(&g);
    add_llama_tensors(&g);
    build(&g, out);
}

static void build_every_value_type(buf *out)
{
    static const uint8_t SIZES[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    gguf_builder g = builder();
    g.version = 2;
    g.alignment = 64;
    add_u32(&g, "general.alignment", 64);
    for (uint32_t type = 0; type <= MV_F64; type++) {
        if (SIZES[type] == 0)
            continue;
        char key[32];
        snprintf(key, sizeof key, "scalar.%u", type);
        buf_append(add_key(&g, key, type), "\1\0\0\0\0\0\0\0", SIZES[type]);
        snprintf(key, sizeof key, "array.%u", type);
        buf *b = add_array(&g, key, type, 3);
        for (int i = 0; i < 3; i++)
            buf_append(b, "\1\0\0\0\0\0\0\0", SIZES[type]);
    }
    add_array(&g, "empty", MV_STRING, 0);
    add_tensor(&g, "t", DT_F32, 7, 3);
    build(&g, out);
}

static void build_every_tensor_type(buf *out)
{
    gguf_builder g = builder();
    for (uint32_t id = 0; id < DT_COUNT; id++)
        if (dtype_get(id))
            add_tensor(&g, dtype_get(id)->name, id, dtype_get(id)->block_elems, 2);
    build(&g, out);
}

static void build_shard(buf *out, uint16_t number, bool first)
{
    gguf_builder g = builder();
    if (first)
        add_llama_keys(&g);
    add_u16(&g, "split.no", number);
    add_u16(&g, "split.count", 2);
    put_u32(add_key(&g, "split.tensors.count", MV_I32), 5);
    if (first)
        add_llama_tensors(&g);
    else
        add_tensor(&g, "blk.0.ffn_up.weight", DT_Q4_0, 32, 8);
    build(&g, out);
}

static void build_second_shard(buf *out)
{
    build_shard(out, 1, false);
}

static uint64_t interesting(rng *r)
{
    static const uint64_t VALUES[] = {0,
                                      1,
                                      2,
                                      3,
                                      4,
                                      8,
                                      9,
                                      31,
                                      32,
                                      33,
                                      64,
                                      0x7f,
                                      0xff,
                                      0x7fff,
                                      0xffff,
                                      0x7fffffff,
                                      0x80000000,
                                      0xffffffff,
                                      0x100000000,
                                      0x3fffffffffffffff,
                                      0x7fffffffffffffff,
                                      0x8000000000000000,
                                      0xfffffffffffffff8,
                                      0xffffffffffffffe0,
                                      0xffffffffffffffff};
    return VALUES[rng_below(r, sizeof VALUES / sizeof *VALUES)];
}

/* A random run of at most 64 bytes inside [0, size). */
static void pick_run(rng *r, size_t size, size_t *at, size_t *length)
{
    *at = (size_t)rng_below(r, size);
    *length = 1 + (size_t)rng_below(r, 64);
    if (*length > size - *at)
        *length = size - *at;
}

/* Changes `b` once; it may grow by up to 64 bytes. */
static void mutate_once(buf *b, rng *r)
{
    size_t at, length, other;
    if (b->size == 0)
        return;
    pick_run(r, b->size, &at, &length);
    uint64_t value = rng_next(r) % 4 ? interesting(r) : rng_next(r);
    switch (rng_below(r, 7)) {
    case 0: /* a flipped bit */
        b->data[at] ^= (char)(1 << rng_below(r, 8));
        break;
    case 1: /* another byte */
        b->data[at] = (char)rng_next(r);
        break;
    case 2: /* a lie in a 64-bit or 32-bit field */
    case 3:
        memcpy(b->data + at, &value, length < 8 ? length : rng_next(r) % 2 ? 8 : 4 < length ? 4 : length);
        break;
    case 4: /* cut */
        b->size = rng_next(r) % 2 ? at : b->size - length;
        break;
    case 5: /* bytes taken out */
        memmove(b->data + at, b->data + at + length, b->size - at - length);
        b->size -= length;
        break;
    default: /* a run said twice */
        other = (size_t)rng_below(r, b->size);
        if (!buf_reserve(b, length))
            return;
        char run[64];
        memcpy(run, b->data + at, length);
        memmove(b->data + other + length, b->data + other, b->size - other);
        memcpy(b->data + other, run, length);
        b->size += length;
    }
}

static void mutate(buf *b, rng *r)
{
    uint64_t rounds = 1 + rng_below(r, 4);
    for (uint64_t i = 0; i < rounds; i++)
        mutate_once(b, r);
}

static void check_refusal(const char *text, const char *name)
{
    if (strncmp(text, name, strlen(name)) != 0 || strstr(text, ": ") == NULL || strchr(text, '\n'))
        fail_msg("not one line that names the file: %s", text);
}

static void refuses_or_reads_ten_thousand_damaged_files(void **state)
{
    (void)state;
    static void (*const BUILD[BASES])(buf *) = {build_plain, build_every_value_type, build_every_tensor_type,
                                                build_second_shard};
    rng r = {20240607};
    unsigned opened = 0;
    for (unsigned i = 0; i < MUTATIONS; i++) {
        buf b = {0};
        BUILD[i % BASES](&b);
        mutate(&b, &r);
        uint8_t *exact = malloc(b.size ? b.size : 1);
        memcpy(exact, b.data, b.size);
        model_file *file = NULL;
        error err = {0};
        status code = gguf_open_memory(&file, "damaged.gguf", exact, b.size, &err);
        if (code == OK) {
            walk_model(file);
            opened++;
        } else {
            assert_int_equal(code, ERR_INVALID);
            check_refusal(err.text, "damaged.gguf: ");
            assert_null(file);
        }
        model_file_close(file);
        free(exact);
        buf_free(&b);
    }
    print_message("%u of %u damaged files opened, the others were refused\n", opened, MUTATIONS);
    assert_in_range(opened, 1, MUTATIONS - 1);
}

static void write_file(const char *path, const buf *b)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(b->data, 1, b->size, f), b->size);
    fclose(f);
}

static void refuses_or_reads_damaged_shards_on_disk(void **state)
{
    (void)state;
    char folder[] = "/tmp/headway-gguf-XXXXXX", paths[2][96];
    assert_non_null(mkdtemp(folder));
    for (int s = 0; s < 2; s++)
        snprintf(paths[s], sizeof paths[s], "%s/m-%05d-of-00002.gguf", folder, s + 1);
    rng r = {99};
    unsigned opened = 0;
    for (unsigned i = 0; i < SPLIT_MUTATIONS; i++) {
        for (uint16_t s = 0; s < 2; s++) {
            buf b = {0};
            build_shard(&b, s, s == 0);
            if (i % 2 == s)
                mutate(&b, &r);
            write_file(paths[s], &b);
            buf_free(&b);
        }
        model_file *file = NULL;
        error err = {0};
        if (model_file_open(&file, paths[rng_below(&r, 2)], &err) == OK) {
            walk_model(file);
            opened++;
        } else {
            check_refusal(err.text, folder);
        }
        model_file_close(file);
    }
    print_message("%u of %u damaged split models opened, the others were refused\n", opened, SPLIT_MUTATIONS);
    unlink(paths[0]);
    unlink(paths[1]);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_or_reads_ten_thousand_damaged_files),
        cmocka_unit_test(refuses_or_reads_damaged_shards_on_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
