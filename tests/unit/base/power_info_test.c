/* tests/unit/base/power_info_test.c: power and clocks out of made-up /sys folders. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/power_info.h"

static char root[64];

/* Writes a file below the root, with its folders. */
static void put(const char *path, const char *text)
{
    char full[512];
    snprintf(full, sizeof full, "%s/%s", root, path);
    for (char *slash = strchr(full + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(full, 0777);
        *slash = '/';
    }
    FILE *file = fopen(full, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int open_root(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/power_info_XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command);
}

static power_info look(void)
{
    power_info p;
    power_info_read(&p, root);
    return p;
}

static void nothing_there_is_nothing_known(void **state)
{
    (void)state;
    power_info p = look();
    assert_int_equal(p.source, POWER_UNKNOWN);
    assert_true(p.clock_khz == 0 && p.clock_highest_khz == 0 && !p.throttle_counted);
    power_verdict v = power_between(&p, &p);
    assert_true(v.source == POWER_UNKNOWN && !v.throttled && !v.throttled_known);
    power_info_read(&p, "/no/such/folder");
    assert_int_equal(p.source, POWER_UNKNOWN);
    char longest[3000];
    memset(longest, 'a', sizeof longest);
    longest[sizeof longest - 1] = 0;
    power_info_read(&p, longest);
    assert_int_equal(p.source, POWER_UNKNOWN);
}

static void a_battery_that_drains_is_battery(void **state)
{
    (void)state;
    put("class/power_supply/BAT0/type", "Battery\n");
    put("class/power_supply/BAT0/status", "Discharging\n");
    put("class/power_supply/AC/type", "Mains\n");
    put("class/power_supply/AC/online", "0\n");
    assert_int_equal(look().source, POWER_BATTERY);
    put("class/power_supply/AC/online", "1\n");
    assert_int_equal(look().source, POWER_MAINS);
}

static void a_full_battery_is_mains_and_a_mouse_is_nothing(void **state)
{
    (void)state;
    put("class/power_supply/BAT1/type", "Battery");
    put("class/power_supply/BAT1/status", "Full");
    assert_int_equal(look().source, POWER_MAINS);
    put("class/power_supply/BAT1/status", "Unknown");
    assert_int_equal(look().source, POWER_UNKNOWN);
    put("class/power_supply/hidpp/type", "Battery\n");
    put("class/power_supply/hidpp/scope", "Device\n");
    put("class/power_supply/hidpp/status", "Discharging\n");
    assert_int_equal(look().source, POWER_UNKNOWN);
    put("class/power_supply/ucsi/type", "USB\n");
    put("class/power_supply/ucsi/online", "1\n");
    assert_int_equal(look().source, POWER_MAINS);
}

static void a_port_without_a_charger_says_nothing_of_the_battery(void **state)
{
    (void)state;
    put("class/power_supply/ucsi/type", "USB\n");
    put("class/power_supply/ucsi/online", "0\n");
    put("class/power_supply/BAT0/type", "Battery\n");
    put("class/power_supply/BAT0/status", "Not charging\n");
    assert_int_equal(look().source, POWER_MAINS);
    put("class/power_supply/BAT0/status", "Discharging\n");
    assert_int_equal(look().source, POWER_BATTERY);
}

static void the_fastest_core_and_the_sum_of_counts(void **state)
{
    (void)state;
    put("devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "3600000\n");
    put("devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "4000000\n");
    put("devices/system/cpu/cpu11/cpufreq/scaling_cur_freq", "800000\n");
    put("devices/system/cpu/cpu11/thermal_throttle/core_throttle_count", "3\n");
    put("devices/system/cpu/cpu11/thermal_throttle/package_throttle_count", "4\n");
    put("devices/system/cpu/cpufreq/scaling_cur_freq", "9999999\n"); /* no core */
    put("devices/system/cpu/cpu2/cpufreq/scaling_cur_freq", "-5\n");
    put("devices/system/cpu/cpu3/cpufreq/scaling_cur_freq", "<unknown>\n");
    power_info p = look();
    assert_int_equal(p.clock_khz, 3600000);
    assert_int_equal(p.clock_highest_khz, 4000000);
    assert_true(p.throttle_counted);
    assert_int_equal(p.throttle_count, 7);
}

static void clocks_that_fall_or_counts_that_rise_are_throttling(void **state)
{
    (void)state;
    power_info a = {.clock_khz = 4000000, .clock_highest_khz = 4200000}, b = a;
    assert_true(power_between(&a, &b).throttled_known && !power_between(&a, &b).throttled);
    b.clock_khz = 3500000;
    assert_false(power_between(&a, &b).throttled);
    b.clock_khz = 3300000;
    assert_true(power_between(&a, &b).throttled);
    a.clock_khz = b.clock_khz = 2000000; /* slow from the start */
    assert_true(power_between(&a, &b).throttled);
    a = b = (power_info){.throttle_counted = true, .throttle_count = 5};
    assert_true(power_between(&a, &b).throttled_known && !power_between(&a, &b).throttled);
    b.throttle_count = 6;
    assert_true(power_between(&a, &b).throttled);
    a.throttle_counted = false;
    assert_false(power_between(&a, &b).throttled_known);
}

static void a_run_was_on_battery_when_either_end_was(void **state)
{
    (void)state;
    power_info mains = {.source = POWER_MAINS}, battery = {.source = POWER_BATTERY}, unknown = {0};
    assert_int_equal(power_between(&mains, &battery).source, POWER_BATTERY);
    assert_int_equal(power_between(&battery, &mains).source, POWER_BATTERY);
    assert_int_equal(power_between(&mains, &unknown).source, POWER_MAINS);
    assert_int_equal(power_between(&unknown, &mains).source, POWER_MAINS);
    assert_string_equal(power_source_name(POWER_MAINS), "mains");
    assert_string_equal(power_source_name(POWER_BATTERY), "battery");
    assert_string_equal(power_source_name(POWER_UNKNOWN), "unknown");
}

#define WITH_ROOT(test) cmocka_unit_test_setup_teardown(test, open_root, remove_root)
int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_ROOT(nothing_there_is_nothing_known),
        WITH_ROOT(a_battery_that_drains_is_battery),
        WITH_ROOT(a_full_battery_is_mains_and_a_mouse_is_nothing),
        WITH_ROOT(a_port_without_a_charger_says_nothing_of_the_battery),
        WITH_ROOT(the_fastest_core_and_the_sum_of_counts),
        cmocka_unit_test(clocks_that_fall_or_counts_that_rise_are_throttling),
        cmocka_unit_test(a_run_was_on_battery_when_either_end_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
