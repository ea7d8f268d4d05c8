/* tests/unit/cli/run_keeper_test.c: names of machines and models, what the keeper says of power and clocks, and import
 * from a file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "cli/plan_import.h"
#include "cli/run_keeper.h"
#include "cli/run_names.h"

static char folder[64], runs[128];

static int open_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/run_keeper_XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(runs, sizeof runs, "%s/runs.jsonl", folder);
    setenv("HEADWAY_RUNS", runs, 1);
    setenv("HEADWAY_SYSFS", folder, 1);
    setenv("HEADWAY_HARDWARE", "Test Box", 1);
    log_set_level(LOG_ERROR);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    unsetenv("HEADWAY_RUNS");
    unsetenv("HEADWAY_SYSFS");
    unsetenv("HEADWAY_HARDWARE");
    return system(command);
}

static const char *put(const char *path, const char *text)
{
    static char full[512];
    snprintf(full, sizeof full, "%s/%s", folder, path);
    for (char *slash = strchr(full + strlen(folder) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(full, 0777);
        *slash = '/';
    }
    FILE *file = fopen(full, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    return full;
}

/* ---- names ---- */

static void a_machine_is_named_after_its_cpu(void **state)
{
    (void)state;
    static const struct {
        const char *cpuinfo;
        long cores;
        const char *name;
    } cases[] = {
        {"processor\t: 0\nmodel name\t: AMD EPYC\nflags\t\t: fpu vme hypervisor avx2\n", 2,
         "this-machine-amd-epyc-2-cores"},
        {"model name\t: AMD EPYC 9654 96-Core Processor\nflags\t\t: fpu avx2\n", 96, "epyc-9654"},
        {"model name\t: AMD EPYC 9654 96-Core Processor\nflags\t\t: fpu hypervisor\n", 4,
         "this-machine-amd-epyc-9654-4-cores"},
        {"model name\t: AMD RYZEN AI MAX+ 395 w/ Radeon 8060S\nflags\t\t: fpu\n", 16, "strix-halo"},
        {"model name\t: Intel(R) Core(TM) i7-8650U CPU @ 1.90GHz\n", 8, "this-machine-intel-core-i7-8650u-8-cores"},
        {"model name\t: Intel(R) Xeon(R) Platinum 8481C Extremely Long Edition CPU @ 2.70GHz\n", 128,
         "this-machine-intel-xeon-platinum-8481-128-cores"},
        {"processor\t: 0\nBogoMIPS\t: 50.00\n", 1, "this-machine-aarch64-1-core"},
        {"", 0, "this-machine-aarch64-0-cores"},
        {"model name\t: \n", 2, "this-machine-aarch64-2-cores"},
    };
    unsetenv("HEADWAY_HARDWARE");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[48];
        run_hardware_name_of(name, cases[i].cpuinfo, "aarch64", cases[i].cores);
        assert_string_equal(name, cases[i].name);
    }
    char name[48];
    run_hardware_name(name);
    assert_true(name[0] != 0);
    setenv("HEADWAY_HARDWARE", "m4-max", 1);
    run_hardware_name(name);
    assert_string_equal(name, "m4-max");
}

static void a_model_is_named_after_its_shape(void **state)
{
    (void)state;
    const model_shape *known;
    model_shape s;
    size_t index;
    char name[64];
    assert_int_equal(catalogue_find(&known, &index, "smollm2-135m", NULL), OK);
    s = *known;
    snprintf(s.name, sizeof s.name, "whatever a file says");
    run_model_name(name, &s);
    assert_string_equal(name, "smollm2-135m");
    assert_int_equal(catalogue_find(&known, &index, "qwen2.5-coder-0.5b", NULL), OK); /* qwen2.5-0.5b is before it */
    s = *known;
    snprintf(s.name, sizeof s.name, "Qwen2.5 Coder 0.5B Instruct AWQ");
    run_model_name(name, &s);
    assert_string_equal(name, "qwen2.5-coder-0.5b");
    assert_int_equal(catalogue_find(&known, &index, "qwen3.6-35b-a3b", NULL), OK); /* 3.5's shape is the same */
    s = *known;
    run_model_name(name, &s);
    assert_string_equal(name, "qwen3.6-35b-a3b");
    s.layers = 8;
    s.attention_layers = 2;
    s.linear_layers = 6;
    run_model_name(name, &s); /* a part of it is not it */
    assert_string_equal(name, "qwen3.6-35b-a3b-8-layers-2048-wide");
    snprintf(s.name, sizeof s.name, "My (own) Model 0.2");
    run_model_name(name, &s);
    assert_string_equal(name, "my-own-model-0.2");
    s.name[0] = 0;
    run_model_name(name, &s);
    assert_string_equal(name, "unnamed");
}

/* ---- keeping ---- */

/* A config.json is a model that the planner can read. */
static const char config[] =
    "{\"model_type\": \"llama\", \"_name_or_path\": \"x/tiny\", \"num_hidden_layers\": 2, \"hidden_size\": 64, "
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"intermediate_size\": 128, \"vocab_size\": 512, "
    "\"max_position_embeddings\": 512, \"tie_word_embeddings\": true, \"torch_dtype\": \"bfloat16\"}";

static run_figure decode_of(double tok_s)
{
    return (run_figure){RUN_DECODE, 1, 0, 64, 3, tok_s, tok_s - 1, tok_s + 1};
}

static run_set stored(void)
{
    run_set all, own = {0};
    assert_int_equal(run_store_open(&all, NULL), OK);
    for (uint32_t i = 0; i < all.count; i++)
        if (strcmp(all.items[i].hardware, "test-box") == 0)
            run_set_add(&own, &all.items[i]);
    run_set_free(&all);
    return own;
}

static void figures_are_kept_with_power_and_clocks(void **state)
{
    (void)state;
    run_keeper *k = malloc(sizeof *k);
    error err = {""};
    buf said = {0};
    put("class/power_supply/AC/type", "Mains");
    put("class/power_supply/AC/online", "1");
    put("class/power_supply/BAT0/type", "Battery");
    put("class/power_supply/BAT0/status", "Charging");
    put("devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "1000000"); /* idle */
    put("devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "4000000");
    assert_int_equal(run_keeper_open(k, put("config.json", config), &err), OK);
    put("devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "3900000");
    run_figure first = decode_of(100), second = decode_of(80), third = decode_of(60), fourth = decode_of(90);
    run_keeper_add(k, &first);
    put("devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "3200000"); /* by the highest seen, not by the last */
    run_keeper_add(k, &second);
    put("class/power_supply/AC/online", "0");
    put("class/power_supply/BAT0/status", "Discharging");
    run_keeper_add(k, &third);
    put("devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "3900000");
    run_keeper_add(k, &fourth);
    assert_int_equal(run_keeper_close(k, &said, &err), OK);
    assert_non_null(strstr(said.data, "kept 4 figures of tiny:bf16 on test-box"));
    assert_non_null(strstr(said.data, "2 of them on battery"));
    assert_non_null(strstr(said.data, "2 of them while the clocks fell"));
    run_set own = stored();
    assert_int_equal(own.count, 4);
    for (uint32_t i = 0; i < 4; i++) {
        const run_record *r = &own.items[i];
        assert_int_equal(r->power, r->tok_s == 100 || r->tok_s == 80 ? POWER_MAINS : POWER_BATTERY);
        assert_true(r->throttle_known);
        assert_int_equal(r->throttled, r->tok_s == 80 || r->tok_s == 60);
        assert_true(r->tok_s_low == r->tok_s - 1 && r->tok_s_high == r->tok_s + 1 && r->repeats == 3);
        assert_string_equal(r->runtime, "headway");
    }
    run_summary s = run_set_find(&own, RUN_DECODE, "test-box", "tiny", "bf16", 1, 0);
    assert_true(s.n == 1 && s.median == 100 && s.on_battery == 0 && s.throttled == 0);
    run_set_free(&own);
    buf_free(&said);
    free(k);
}

static void what_says_little_is_not_kept(void **state)
{
    (void)state;
    run_keeper *k = malloc(sizeof *k);
    error err = {""};
    buf said = {0};
    assert_int_equal(run_keeper_open(k, put("config.json", config), &err), OK);
    run_figure few = decode_of(50), shortest = {RUN_PREFILL, 1, 31, 0, 3, 50, 50, 50}, none = decode_of(0);
    few.output_tokens = 4;
    few.repeats = 1;
    run_keeper_add(k, &few);
    run_keeper_add(k, &shortest);
    run_keeper_add(k, &none);
    assert_int_equal(run_keeper_close(k, &said, &err), OK);
    assert_true(said.size == 0 && access(runs, F_OK) != 0);
    assert_int_equal(run_keeper_open(k, "/no/such/model", &err), ERR_NOT_FOUND);
    setenv("HEADWAY_HARDWARE", "a\nb", 1);
    assert_int_equal(run_keeper_open(k, put("config.json", config), &err), ERR_INVALID);
    free(k);
    bool on;
    assert_int_equal(run_keeper_wanted("on", &on, &err), OK);
    assert_true(on);
    assert_int_equal(run_keeper_wanted("off", &on, &err), OK);
    assert_false(on);
    assert_int_equal(run_keeper_wanted("yes", &on, &err), ERR_INVALID);
    assert_string_equal(err.text, "--keep: 'yes' is neither on nor off");
}

static void a_rate_above_the_row_that_was_named_is_not_kept(void **state)
{
    (void)state;
    run_keeper *k = malloc(sizeof *k);
    error err = {""};
    buf said = {0};
    setenv("HEADWAY_HARDWARE", "m1", 1);
    assert_int_equal(run_keeper_open(k, "llama-3.1-8b:q8_0", &err), OK);
    run_figure fast = decode_of(5000);
    run_keeper_add(k, &fast);
    assert_int_equal(run_keeper_close(k, &said, &err), OK);
    assert_non_null(strstr(said.data, "not kept: tok_s: 5000 is above"));
    assert_true(access(runs, F_OK) != 0);
    buf_free(&said);
    free(k);
}

/* ---- import ---- */

static void put_line(buf *text, double tok_s, const char *date)
{
    buf_printf(text,
               "{\"format\":\"headway-run/1\",\"kind\":\"decode\",\"hardware\":\"test-box\",\"model\":\"m\",\"type\":"
               "\"q4_0\",\"runtime\":\"headway\",\"date\":\"%s\",\"batch\":1,\"prompt_tokens\":0,\"tok_s\":%g}\n",
               date, tok_s);
}

static void seven_runs_of_a_file_are_in_the_store(void **state)
{
    (void)state;
    buf text = {0}, said = {0};
    error err = {""};
    for (int i = 0; i < 7; i++)
        put_line(&text, 60 + i, "2026-11-20");
    put_line(&text, 63, "2026-11-20");  /* a double */
    put_line(&text, 190, "2026-11-20"); /* an outlier */
    put_line(&text, 61, "2999-01-01");
    char *path = strdup(put("others.jsonl", text.data));
    assert_int_equal(plan_import_file(path, NULL, &said, &err), OK);
    assert_non_null(strstr(said.data, "7 runs taken, 1 there already, 1 refused as outliers, 1 refused as wrong"));
    assert_non_null(strstr(said.data, "the first: line 10: date: 2999-01-01 is in the future"));
    run_set own = stored();
    run_summary s = run_set_find(&own, RUN_DECODE, "test-box", "m", "q4_0", 1, 0);
    assert_true(s.n == 7 && s.median == 63 && s.low == 60 && s.high == 66);
    assert_string_equal(s.date, "2026-11-20");
    run_set_free(&own);
    import_report again;
    assert_int_equal(plan_import_file(path, &again, &said, &err), OK);
    assert_true(again.taken == 0 && again.doubles == 8 && again.outliers == 1 && again.refused == 1);
    free(path);
    buf_free(&text);
    buf_free(&said);
}

static void a_file_that_cannot_be_read_is_an_error(void **state)
{
    (void)state;
    buf said = {0};
    error err = {""};
    assert_int_equal(plan_import_file("/no/such.jsonl", NULL, &said, &err), ERR_IO);
    assert_int_equal(plan_import_file(folder, NULL, &said, &err), ERR_IO);
    assert_non_null(strstr(err.text, "is a folder"));
    assert_int_equal(plan_import_file(put("empty", ""), NULL, &said, &err), OK);
    assert_non_null(strstr(said.data, "0 runs taken"));
    assert_non_null(strstr(said.data, "holds no lines"));
    assert_true(access(runs, F_OK) != 0);
    assert_int_equal(plan_import_file("/dev/zero", NULL, &said, &err), ERR_LIMIT);
    buf_free(&said);
}

#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, open_folder, remove_folder)
int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(a_machine_is_named_after_its_cpu),
        WITH_FOLDER(a_model_is_named_after_its_shape),
        WITH_FOLDER(figures_are_kept_with_power_and_clocks),
        WITH_FOLDER(what_says_little_is_not_kept),
        WITH_FOLDER(a_rate_above_the_row_that_was_named_is_not_kept),
        WITH_FOLDER(seven_runs_of_a_file_are_in_the_store),
        WITH_FOLDER(a_file_that_cannot_be_read_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
