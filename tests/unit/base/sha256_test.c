/* tests/unit/base/sha256_test.c: SHA-256 against the vectors of FIPS 180-4 and of the long-message tests; hex; wiping.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/secret.h"
#include "base/sha256.h"

static void check(span data, const char *expected)
{
    uint8_t hash[SHA256_BYTES];
    char hex[SHA256_HEX + 1];
    sha256(data, hash);
    sha256_write_hex(hash, hex);
    assert_string_equal(hex, expected);
}

static void gives_the_hashes_of_the_standard(void **state)
{
    (void)state;
    check(span_from(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    check(span_from("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    check(span_from("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    check(span_from(
              "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrst"
              "nopqrstu"),
          "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
}

static void gives_the_hash_of_a_million_letters(void **state)
{
    (void)state;
    char *text = malloc(1000000);
    memset(text, 'a', 1000000);
    check(span_of(text, 1000000), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(text);
}

/* 55 is the last length whose padding fits the block. */
static void pads_at_the_border_of_a_block(void **state)
{
    (void)state;
    char text[65];
    memset(text, 'a', sizeof text);
    check(span_of(text, 55), "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
    check(span_of(text, 56), "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a");
    check(span_of(text, 64), "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
    check(span_of(text, 65), "635361c48bb9eab14198e76ea8ab7f1a41685d6ad62aa9146d301d4f17eb0ae0");
}

static void reads_back_the_hex_that_it_writes(void **state)
{
    (void)state;
    uint8_t hash[SHA256_BYTES], again[SHA256_BYTES];
    char hex[SHA256_HEX + 1];
    sha256(span_from("abc"), hash);
    sha256_write_hex(hash, hex);
    assert_true(sha256_read_hex(span_from(hex), again));
    assert_memory_equal(hash, again, sizeof hash);
    hex[0] = 'B';
    assert_true(sha256_read_hex(span_from(hex), again));
    assert_memory_equal(hash, again, sizeof hash);
    hex[63] = 'g';
    assert_false(sha256_read_hex(span_from(hex), again));
    assert_false(sha256_read_hex(span_of(hex, 63), again));
}

static void compares_every_byte_and_wipes_every_byte(void **state)
{
    (void)state;
    unsigned char a[16], b[16], zero[16] = {0};
    for (size_t i = 0; i < sizeof a; i++)
        a[i] = b[i] = (unsigned char)(i + 1);
    assert_true(secret_equal(a, b, sizeof a));
    for (size_t i = 0; i < sizeof a; i++) {
        b[i] ^= 0x80;
        assert_false(secret_equal(a, b, sizeof a));
        b[i] ^= 0x80;
    }
    secret_wipe(a, sizeof a);
    assert_memory_equal(a, zero, sizeof a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_the_hashes_of_the_standard),
        cmocka_unit_test(gives_the_hash_of_a_million_letters),
        cmocka_unit_test(pads_at_the_border_of_a_block),
        cmocka_unit_test(reads_back_the_hex_that_it_writes),
        cmocka_unit_test(compares_every_byte_and_wipes_every_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
