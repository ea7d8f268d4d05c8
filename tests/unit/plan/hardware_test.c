/* tests/unit/plan/hardware_test.c: the hardware table against the case study's own, its invariants, finding rows by
 * all sorts of names, and numbers that cannot be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <ctype.h>
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "plan/hardware.h"

static const hardware *row_named(const char *name)
{
    const hardware *row = NULL;
    error err = {""};
    if (hardware_find(&row, name, &err))
        fail_msg("%s", err.text);
    return row;
}

static void assert_near(double got, double wanted, double share)
{
    if (!(fabs(got - wanted) <= share * wanted))
        fail_msg("%g, not %g within %g", got, wanted, share);
}

/* Its table in its order; tok_s 0: not in the text's list of scaled rates. */
static const struct {
    const char *name;
    double memory_gb, bandwidth_gb_s, tok_s;
} text_rows[] = {
    {"m4", 32, 120, 14},
    {"m5", 32, 153, 18},
    {"m4-max", 128, 546, 65},
    {"m5-max", 128, 614, 73},
    {"m3-ultra", 512, 819, 98},
    {"m5-ultra", 768, 1228, 145},
    {"rtx-3090", 24, 936, 110},
    {"rtx-4090", 24, 1008, 120},
    {"rtx-5090", 32, 1792, 215},
    {"a100", 80, 2039, 240},
    {"h100", 80, 3350, 400},
    {"h200", 141, 4800, 570},
    {"b100", 192, 8000, 950},
    {"b200", 192, 8000, 950},
    {"b300", 288, 8000, 950},
    {"rubin", 288, 13000, 1500},
    {"groq-lpu", 0.23, 80000, 9500},
    {"aidaptiv", 8000, 14, 0},
};

static void holds_the_rows_of_the_case_study(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof text_rows / sizeof *text_rows; i++) {
        const hardware *row = row_named(text_rows[i].name);
        assert_string_equal(row->name, text_rows[i].name);
        assert_true(row->memory_gb == text_rows[i].memory_gb);
        assert_true(row->bandwidth_gb_s == text_rows[i].bandwidth_gb_s);
        if (text_rows[i].tok_s > 0)
            assert_near(hardware_naive_tok_s(row), text_rows[i].tok_s, 0.04);
    }
    double ssd = hardware_naive_tok_s(row_named("aidaptiv")), slow = hardware_naive_tok_s(row_named("ssd-pcie4"));
    assert_true(ssd > 1 && ssd < 2 && slow > 0.5 && slow < 1);
    assert_true(hardware_naive_tok_s(row_named("m4-max")) == 65);
}

static void keeps_the_proportions_of_the_case_study(void **state)
{
    (void)state;
    const hardware *m4_max = row_named("m4-max"), *h100 = row_named("h100");
    assert_near(m4_max->bandwidth_gb_s / m4_max->watts, 5.5, 0.02);
    assert_near(h100->bandwidth_gb_s / h100->watts, 4.8, 0.02);
    assert_near(h100->bandwidth_gb_s / m4_max->bandwidth_gb_s, 6.1, 0.02);
    assert_near(row_named("m3-ultra")->bandwidth_gb_s / m4_max->bandwidth_gb_s, 1.5, 0.001);
    assert_near(m4_max->bandwidth_gb_s / row_named("m4-pro")->bandwidth_gb_s, 2, 0.001);
    assert_near(row_named("m5-max")->bandwidth_gb_s / row_named("m5-pro")->bandwidth_gb_s, 2, 0.001);
    assert_near(row_named("m5-ultra")->bandwidth_gb_s / row_named("a100")->bandwidth_gb_s, 0.6, 0.02);
    assert_near(row_named("m5")->tflops[RATE_F16] / row_named("m4")->tflops[RATE_F16], 4, 0.02);
    assert_near(row_named("m5-max")->tflops[RATE_F16] / m4_max->tflops[RATE_F16], 4, 0.02);
    /* The data sheets' peaks lie 61 times apart. The text's 15 to 30 is of rates in use: an H100 at 25% to 49% of its
     * peak, where prompts of a real server run, against all of the M4 Max's. */
    double peaks = h100->tflops[RATE_F16] / m4_max->tflops[RATE_F16];
    assert_true(0.25 * peaks >= 15 && 0.49 * peaks <= 30);
    assert_int_equal((int)ceil(36 / row_named("groq-lpu")->memory_gb), 157);
    assert_non_null(strstr(row_named("groq-lpu")->note, "157"));
}

static void says_what_is_special(void **state)
{
    (void)state;
    for (size_t i = 0; i < hardware_count(); i++) {
        const hardware *row = hardware_at(i);
        assert_int_equal(row->rumoured, strcmp(row->name, "m5-ultra") == 0);
        if (row->kind == HW_SSD)
            assert_non_null(strstr(row->note, "once a turn"));
        if (row->kind == HW_SRAM)
            assert_non_null(strstr(row->note, "no model fits on one"));
    }
    assert_int_equal(row_named("aidaptiv")->kind, HW_SSD);
    assert_int_equal(row_named("groq-lpu")->kind, HW_SRAM);
    assert_int_equal(row_named("strix-halo")->kind, HW_UNIFIED);
    assert_int_equal(row_named("dgx-spark")->kind, HW_UNIFIED);
}

/* ---- the table's own rules ---- */

static bool is_month(const char *text)
{
    return text && strlen(text) == 7 && text[4] == '-' && strspn(text, "0123456789-") == 7 &&
           strncmp(text, "2018", 4) > 0;
}

static void check_row(const hardware *row)
{
    error err = {""};
    if (hardware_check(row, &err))
        fail_msg("%s", err.text);
    assert_true(strlen(row->name) >= 2 && strlen(row->name) <= 24);
    assert_int_equal(strspn(row->name, "abcdefghijklmnopqrstuvwxyz0123456789-"), strlen(row->name));
    assert_true(row->name[0] != '-' && row->name[strlen(row->name) - 1] != '-');
    assert_true(row->title && *row->title && row->source && *row->source);
    assert_true(strlen(row->title) <= 38); /* the printed table cuts longer ones */
    assert_true(!row->note || *row->note);
    assert_int_equal(row->price_usd > 0, row->price_date != NULL);
    assert_true(!row->price_date || is_month(row->price_date));
    assert_int_equal(row->link_gb_s > 0, row->link != NULL);
    /* By their makers narrower numbers go no slower; measured, bf16 may. */
    const double *t = row->tflops;
    assert_true(t[RATE_F16] == 0 || t[RATE_F16] >= t[RATE_F32] || strstr(row->source, "measured"));
    assert_true(t[RATE_FP8] == 0 || t[RATE_FP8] >= t[RATE_F16]);
    assert_true(t[RATE_INT8] == 0 || t[RATE_INT8] >= t[RATE_F16]);
    assert_true(t[RATE_FP4] == 0 || t[RATE_FP4] >= t[RATE_FP8]);
    bool computes = row->kind != HW_SSD;
    assert_int_equal(computes, t[RATE_F32] > 0 || t[RATE_F16] > 0);
    double usable = hardware_usable_bytes(row);
    bool holds = computes && row->kind != HW_SRAM;
    assert_true(holds ? usable > 0 && usable < row->memory_gb * 1e9 : usable == 0);
}

static void holds_rows_that_can_be(void **state)
{
    (void)state;
    assert_true(hardware_count() >= 90);
    assert_null(hardware_at(hardware_count()));
    assert_null(hardware_at(SIZE_MAX));
    for (size_t i = 0; i < hardware_count(); i++)
        check_row(hardware_at(i));
}

static void is_sorted_by_family_and_bandwidth(void **state)
{
    (void)state;
    static const char *const families[] = {"apple", "geforce", "nvidia", "amd", "cpu", "other"};
    size_t family = 0;
    for (size_t i = 0; i < hardware_count(); i++) {
        const hardware *row = hardware_at(i), *last = i ? hardware_at(i - 1) : row;
        while (family < 6 && strcmp(families[family], row->family) != 0)
            family++;
        assert_true(family < 6);
        if (strcmp(last->family, row->family) == 0)
            assert_true(row->bandwidth_gb_s >= last->bandwidth_gb_s);
    }
    assert_int_equal(family, 5);
}

/* ---- names ---- */

static void assert_finds(const char *name, const char *wanted)
{
    assert_string_equal(row_named(name)->name, wanted);
}

static void finds_every_row_by_its_name_as_people_write_it(void **state)
{
    (void)state;
    for (size_t i = 0; i < hardware_count(); i++) {
        const hardware *row = hardware_at(i), *found = NULL;
        char loud[64], joined[64];
        size_t size = strlen(row->name), kept = 0;
        for (size_t j = 0; j <= size; j++)
            loud[j] = row->name[j] == '-' ? (j % 2 ? ' ' : '_') : (char)toupper((unsigned char)row->name[j]);
        for (size_t j = 0; j <= size; j++)
            if (row->name[j] != '-')
                joined[kept++] = row->name[j];
        assert_int_equal(hardware_find(&found, row->name, NULL), OK);
        assert_ptr_equal(found, row); /* also: no two rows of one name */
        assert_int_equal(hardware_find(&found, loud, NULL), OK);
        assert_ptr_equal(found, row);
        assert_int_equal(hardware_find(&found, joined, NULL), OK);
        assert_ptr_equal(found, row);
    }
}

static void finds_other_names_of_a_device(void **state)
{
    (void)state;
    assert_finds("  M4 Max ", "m4-max");
    assert_finds("Apple M4 Max (40)", "m4-max");
    assert_finds("NVIDIA GeForce RTX 4090", "rtx-4090");
    assert_finds("GeForce RTX 4070 Ti SUPER", "rtx-4070-ti-super");
    assert_finds("AMD Radeon RX 7900 XTX", "rx-7900-xtx");
    assert_finds("AMD Instinct MI300X", "mi300x");
    assert_finds("AMD Ryzen AI Max+ 395", "strix-halo");
    assert_finds("GB10", "dgx-spark");
    assert_finds("H100-SXM", "h100");
    assert_finds("A100-SXM4-80GB", "a100");
    assert_finds("Intel Xeon 6980P", "xeon-6980p");
    assert_finds("Radeon AI PRO R9700", "r9700");
}

/* The message of a name that is not there; *out must not have moved. */
static const char *refusal(const char *name)
{
    static error err;
    const hardware *row = (const hardware *)&err;
    assert_int_equal(hardware_find(&row, name, &err), ERR_NOT_FOUND);
    assert_ptr_equal(row, (const hardware *)&err);
    assert_int_equal(hardware_find(&row, name, NULL), ERR_NOT_FOUND);
    assert_true(*err.text && strlen(err.text) < 320);
    for (const char *c = err.text; *c; c++)
        assert_true(*c >= ' ' && *c < 127);
    assert_non_null(strstr(err.text, "--list hardware"));
    return err.text;
}

static void offers_the_nearest_names(void **state)
{
    (void)state;
    static const struct {
        const char *name, *first;
    } typos[] = {
        {"m4-mxa", "nearest: m4-max"},
        {"h010", "nearest: h100"}, /* two letters swapped are one step */
        {"rtx-5009", "nearest: rtx-5090"},
        {"4090", "nearest: rtx-4090"},
        {"h1000", "nearest: h100"},
        {"m3-ulta", "nearest: m3-ultra"},
        {"strixhalo2", "nearest: strix-halo"},
        {"rasberry-pi-5", "raspberry-pi-5"},
        {"m4-mаx", "m4-max"}, /* an a of another alphabet */
    };
    for (size_t i = 0; i < sizeof typos / sizeof *typos; i++) {
        const char *text = refusal(typos[i].name);
        if (!strstr(text, typos[i].first))
            fail_msg("%s: no %s", text, typos[i].first);
    }
    assert_null(strstr(refusal("banana"), "nearest"));
    assert_null(strstr(refusal("?"), "nearest"));
}

static void is_safe_with_hostile_names(void **state)
{
    (void)state;
    refusal(NULL);
    refusal("");
    refusal(" - _ ");
    refusal("\x01\x02\n\r\x7f\xff");
    refusal("m4-max\n"); /* a line's end is no blank between words */
    refusal("%s%n%s%n");
    refusal("\"; rm -rf / #");
    size_t size = 1 << 20;
    char *large = malloc(size + 1);
    assert_non_null(large);
    memset(large, 'm', size);
    large[size] = 0;
    refusal(large);
    memset(large, '-', size);
    refusal(large);
    memcpy(large + size - 6, "m4-max", 6); /* blanks, however many, do not count */
    assert_finds(large, "m4-max");
    free(large);
}

/* Words of random bytes, and names with one to three random changes: found exactly or refused well. */
static void answers_random_names(void **state)
{
    (void)state;
    rng r = {20261130};
    size_t found = 0;
    for (int round = 0; round < 4000; round++) {
        char name[96];
        size_t size = rng_below(&r, sizeof name);
        for (size_t i = 0; i < size; i++)
            name[i] = (char)(1 + rng_below(&r, 255));
        if (round % 4) {
            const char *own = hardware_at(rng_below(&r, hardware_count()))->name;
            size = strlen(own);
            memcpy(name, own, size);
            for (uint64_t changes = 1 + rng_below(&r, 3); changes > 0; changes--)
                name[rng_below(&r, size)] =
                    (char)(round % 2 ? "0123456789- abcmrtx"[rng_below(&r, 19)] : (char)(1 + rng_below(&r, 255)));
        }
        name[size] = 0;
        const hardware *row = NULL;
        if (hardware_find(&row, name, NULL) != OK) {
            refusal(name);
            continue;
        }
        found++;
        assert_ptr_equal(row_named(row->name), row);
    }
    assert_true(found > 50 && found < 3000);
}

/* ---- numbers ---- */

static void refuses(hardware row, const char *what)
{
    error err = {""};
    assert_int_equal(hardware_check(&row, &err), ERR_INVALID);
    if (!strstr(err.text, what) || !strstr(err.text, "box"))
        fail_msg("%s: no %s", err.text, what);
    assert_int_equal(hardware_check(&row, NULL), ERR_INVALID);
}

/* Each number of a row, as an offset, and its word in messages. */
static const struct {
    size_t at;
    const char *what;
} numbers[] = {
    {offsetof(hardware, memory_gb), "memory"},
    {offsetof(hardware, bandwidth_gb_s), "bandwidth"},
    {offsetof(hardware, tflops[RATE_F32]), "matmul rate"},
    {offsetof(hardware, tflops[RATE_FP4]), "matmul rate"},
    {offsetof(hardware, link_gb_s), "link"},
    {offsetof(hardware, watts), "power"},
    {offsetof(hardware, price_usd), "price"},
};

static hardware with(hardware row, size_t number, double value)
{
    memcpy((char *)&row + numbers[number].at, &value, sizeof value);
    return row;
}

static void refuses_numbers_that_cannot_be(void **state)
{
    (void)state;
    const hardware good = {.name = "box", .kind = HW_HOST, .memory_gb = 64, .bandwidth_gb_s = 80};
    assert_int_equal(hardware_check(&good, NULL), OK);
    static const double never[] = {NAN, INFINITY, -INFINITY, -1, -1e-300, 1e-300, 1e30, 1e300};
    for (size_t number = 0; number < sizeof numbers / sizeof *numbers; number++)
        for (size_t i = 0; i < sizeof never / sizeof *never; i++)
            refuses(with(good, number, never[i]), numbers[number].what);
    refuses(with(good, 0, NAN), "finite");
    refuses(with(good, 1, -INFINITY), "finite");
    refuses(with(good, 0, 0), "memory");
    refuses(with(good, 1, 0), "bandwidth");
    hardware row = good;
    row.kind = HW_KINDS;
    refuses(row, "kind");
    row.kind = (hardware_kind)-1;
    refuses(row, "kind");
    row = good;
    row.name = NULL; /* of flags: it has none */
    assert_int_equal(hardware_check(&row, NULL), OK);
    row.watts = -1;
    assert_int_equal(hardware_check(&row, NULL), ERR_INVALID);
}

static double usable_gb(hardware_kind kind, double memory_gb)
{
    return hardware_usable_bytes(&(hardware){.kind = kind, .memory_gb = memory_gb, .bandwidth_gb_s = 1}) / 1e9;
}

static void leaves_memory_to_the_system(void **state)
{
    (void)state;
    assert_near(usable_gb(HW_UNIFIED, 128), 112, 1e-9);
    assert_near(usable_gb(HW_UNIFIED, 32), 24, 1e-9);
    assert_near(usable_gb(HW_UNIFIED, 8), 4, 1e-9);
    assert_true(usable_gb(HW_UNIFIED, 2) == 0);
    assert_near(usable_gb(HW_HOST, 64), 56, 1e-9);
    assert_near(usable_gb(HW_HOST, 4), 3, 1e-9);
    assert_near(usable_gb(HW_HOST, 1000), 968, 1e-9);
    assert_near(usable_gb(HW_CARD, 24), 22.56, 1e-9);
    assert_near(usable_gb(HW_SERVER, 80), 75.2, 1e-9);
    assert_near(usable_gb(HW_SRAM, 40), 37.6, 1e-9);
    assert_true(usable_gb(HW_SRAM, 0.23) == 0);
    assert_true(usable_gb(HW_SSD, 8000) == 0);
}

static void names_its_kinds(void **state)
{
    (void)state;
    for (int a = 0; a < HW_KINDS; a++)
        for (int b = 0; b < a; b++)
            assert_string_not_equal(hardware_kind_name((hardware_kind)a), hardware_kind_name((hardware_kind)b));
    assert_string_equal(hardware_kind_name(HW_SSD), "ssd");
    assert_string_equal(hardware_kind_name(HW_KINDS), "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(holds_the_rows_of_the_case_study),
        cmocka_unit_test(keeps_the_proportions_of_the_case_study),
        cmocka_unit_test(says_what_is_special),
        cmocka_unit_test(holds_rows_that_can_be),
        cmocka_unit_test(is_sorted_by_family_and_bandwidth),
        cmocka_unit_test(finds_every_row_by_its_name_as_people_write_it),
        cmocka_unit_test(finds_other_names_of_a_device),
        cmocka_unit_test(offers_the_nearest_names),
        cmocka_unit_test(is_safe_with_hostile_names),
        cmocka_unit_test(answers_random_names),
        cmocka_unit_test(refuses_numbers_that_cannot_be),
        cmocka_unit_test(leaves_memory_to_the_system),
        cmocka_unit_test(names_its_kinds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
