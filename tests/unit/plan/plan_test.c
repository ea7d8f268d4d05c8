/* tests/unit/plan/plan_test.c: a plan against both texts, against the runs that are known, at its edges; and what is
 * printed of every row of the tables. */
#include "plan_box.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/rng.h"
#include "unit/slow.h"

static const char *const TEXT_MODEL = "qwen3.6-35b-a3b:mxfp8";

static run_set known_set(void)
{
    run_set s = {0};
    run_record r;
    for (const char *const *line = known_runs; *line; line++)
        if (run_record_read(&r, span_from(*line), NULL) == OK)
            assert_int_equal(run_set_add(&s, &r), OK);
    return s;
}

/* ---- the texts ---- */

static void says_what_the_case_study_measured(void **state)
{
    (void)state;
    run_set runs = known_set();
    plan_request q = request_of("m4-max", TEXT_MODEL);
    q.runs = &runs;
    plan_result r = made(&q);
    assert_near(r.decode.ceiling, 180, 0.005);
    assert_near(r.decode.estimate, 65, 1e-9);
    assert_int_equal(r.decode.measured.n, 1);
    assert_true(r.decode.low <= 60 && r.decode.high >= 70);
    assert_near(r.decode.estimate / r.decode.ceiling, 0.36, 0.02);
    q.prompt = 60000;
    r = made(&q);
    assert_near(r.prefill.cold_s, 44, 0.01);
    assert_int_equal(r.prefill.measured.n, 1);
    assert_true(r.prefill_time_share > 0.75 && r.prefill_time_share < 0.85);
    assert_string_equal(r.gaps[0].policy, "prefill-first");
    assert_near(r.gaps[0].chat_tok_s, 0.67, 0.02);
    run_set_free(&runs);
}

static void counts_the_memory_of_the_deployment(void **state)
{
    (void)state;
    static const char *const small[] = {"m4", "m5", "rtx-3090", "rtx-4090", "rtx-5090"};
    plan_request q = request_of("m4-max", TEXT_MODEL);
    q.context = q.depth = 23000;
    q.sessions = 6;
    plan_result r = made(&q);
    assert_true(r.memory.fits && r.memory.needed > 40e9 && r.memory.needed < 50e9);
    assert_int_equal(r.memory.kv_token, 20480);
    assert_near(r.memory.kv, 0.47e9, 0.01);
    assert_near(r.memory.needed, r.memory.weights + r.memory.kv + r.memory.state + r.memory.cache + r.memory.runtime,
                1e-12);
    assert_true(r.memory.sessions_warm * r.memory.session <= r.memory.left + r.memory.cache);
    assert_true((r.memory.sessions_warm + 1) * r.memory.session > r.memory.left + r.memory.cache);
    for (size_t i = 0; i < sizeof small / sizeof *small; i++) {
        plan_request other = request_of(small[i], TEXT_MODEL);
        other.sessions = 6;
        r = made(&other);
        assert_true(!r.memory.fits && r.memory.left < 0);
        assert_non_null(strstr(r.notes[r.note_count - 1], "Does not fit"));
    }
}

static void restores_a_prefix_from_the_disk(void **state)
{
    (void)state;
    plan_request q = request_of("m4-max", TEXT_MODEL);
    q.prompt = 23000;
    plan_result r = made(&q);
    assert_true(r.prefill.restore_ssd_s > 0.05 && r.prefill.restore_ssd_s < 0.1);
    assert_true(r.prefill.ssd_s < 1 && r.prefill.cold_s > 10);
    q.cached = 22999;
    r = made(&q);
    assert_true(r.prefill.warm_new == 1 && r.prefill.asked_s == r.prefill.warm_s && r.prefill.warm_s < 0.3);
}

static void divides_given_bytes(void **state)
{
    (void)state;
    plan_request q = request_of("m4-pro", TEXT_MODEL);
    q.model = false;
    q.box.shape = (model_shape){0};
    q.box.sums = (model_sums){0};
    q.box.step_bytes_fixed = 4.5e9;
    plan_result r = made(&q);
    assert_near(r.decode.low, 45.5, 0.001);
    assert_near(r.decode.high, 51.57, 0.001);
    assert_false(r.memory.known);
    q.box.hw = request_of("a100-40gb", TEXT_MODEL).box.hw;
    q.box.step_bytes_fixed = 26e9;
    r = made(&q);
    assert_near(1 / r.decode.ceiling, 16.7e-3, 0.005);
    assert_true(1 / r.decode.high > 18.5e-3 && 1 / r.decode.low > 22e-3); /* what was predicted, what was measured */
}

static void reads_prompts_at_a_given_rate(void **state)
{
    (void)state;
    plan_request q = request_of("m4", TEXT_MODEL);
    q.prefill_tok_s = 500;
    q.prompt = 1000;
    q.overhead_s = 0;
    plan_result r = made(&q);
    assert_near(r.prefill.cold_s, 2, 1e-9);
    assert_true(r.prefill.given && r.prefill.measured.n == 0);
    q.overhead_s = 0.5;
    assert_near(made(&q).prefill.cold_s, 2.5, 1e-9);
}

static bool noted(const plan_result *r, const char *words)
{
    for (uint32_t i = 0; i < r->note_count; i++)
        if (strstr(r->notes[i], words))
            return true;
    return false;
}

static void flags_what_is_no_device(void **state)
{
    (void)state;
    plan_request q = request_of("groq-lpu", TEXT_MODEL);
    plan_result r = made(&q);
    assert_true(!r.memory.fits && noted(&r, "156 chips") && noted(&r, "on paper only"));
    q = request_of("aidaptiv", TEXT_MODEL);
    r = made(&q);
    assert_true(!r.memory.fits && r.decode.ceiling < 5 && r.decode.estimate > 1 && r.decode.estimate < 2);
    assert_true(noted(&r, "once a turn") && noted(&r, "99% of the weights"));
    q = request_of("m5-ultra", TEXT_MODEL);
    r = made(&q);
    assert_true(noted(&r, "rumoured"));
}

static void buys_nothing_of_decode_with_memory_or_cores(void **state)
{
    (void)state;
    plan_request q = request_of("m4-max", TEXT_MODEL);
    plan_upgrades u = made(&q).upgrades;
    assert_true(u.memory_decode == 1 && u.matmul_decode == 1 && u.memory_prefill == 1);
    assert_near(u.bandwidth_decode, 2, 1e-9);
    assert_true(u.matmul_prefill > 1.7 && u.bandwidth_prefill < 1.1);
    assert_true(u.memory_sessions > made(&q).memory.sessions_warm);
}

/* ---- runs ---- */

static void leaves_no_known_run_outside(void **state)
{
    (void)state;
    run_set runs = known_set();
    uint32_t seen = 0;
    for (uint32_t i = 0; i < runs.count; i++) {
        const run_record *run = &runs.items[i];
        const model_shape *shape;
        const hardware *hw;
        char model[80];
        if (hardware_find(&hw, run->hardware, NULL) || catalogue_find(&shape, NULL, run->model, NULL))
            continue;
        snprintf(model, sizeof model, "%s:%s", run->model, run->type);
        plan_request q = request_of(run->hardware, model);
        q.batch = run->batch;
        q.depth = run->prompt_tokens;
        q.prompt = run->prompt_tokens ? run->prompt_tokens : 1;
        for (int with = 0; with < 2; with++) {
            q.runs = with ? &runs : NULL;
            plan_result r = made(&q);
            if (run->kind == RUN_PREFILL) {
                assert_true(!with || r.prefill.measured.n > 0);
                continue;
            }
            assert_true(with == (r.decode.measured.n > 0));
            assert_true(r.decode.low <= r.decode.estimate && r.decode.estimate <= r.decode.high);
            if (with || run->batch <= 4)
                assert_true(r.decode.low <= run->tok_s && run->tok_s <= r.decode.high);
            seen++;
        }
    }
    assert_true(seen >= 60);
    run_set_free(&runs);
}

static run_record run_of(double tok_s, const char *date)
{
    run_record r = {.kind = RUN_DECODE,
                    .hardware = "m4-pro",
                    .model = "llama-3.1-8b",
                    .type = "q4_0",
                    .runtime = "mlx-lm",
                    .tok_s = tok_s,
                    .batch = 1,
                    .repeats = 1};
    snprintf(r.date, sizeof r.date, "%s", date);
    return r;
}

static void turns_estimates_into_measurements(void **state)
{
    (void)state;
    run_set runs = {0};
    plan_request q = request_of("m4-pro", "llama-3.1-8b:q4_0");
    plan_result before = made(&q);
    assert_int_equal(before.decode.measured.n, 0);
    for (int i = 0; i < 7; i++) {
        run_record r = run_of(40 + i, i == 3 ? "2026-11-30" : "2026-10-01");
        r.power = POWER_BATTERY;
        assert_int_equal(run_set_add(&runs, &r), OK);
    }
    q.runs = &runs;
    plan_result r = made(&q);
    assert_int_equal(r.decode.measured.n, 7);
    assert_true(r.decode.estimate == 43 && r.decode.low <= 40 && r.decode.high >= 46);
    assert_string_equal(r.decode.measured.date, "2026-11-30");
    assert_true(noted(&r, "7 of the 7 measured runs of decode were on battery"));
    assert_true(r.depths[1].calibrated && r.depths[1].measured.n == 0);
    assert_true(r.depths[1].estimate < 43 && r.depths[1].estimate > 43 * 0.8); /* by the pair's own share */
    q.hardware_changed = true;                                                 /* another machine, then */
    assert_int_equal(made(&q).decode.measured.n, 0);
    q.hardware_changed = false;
    q.box.devices = 2;
    q.box.link_gb_s = 10;
    assert_int_equal(made(&q).decode.measured.n, 0);
    run_set_free(&runs);
}

static void tells_runtimes_apart(void **state)
{
    (void)state;
    run_set runs = {0};
    plan_request q = request_of("m4-pro", "llama-3.1-8b:q4_0");
    for (int i = 0; i < 4; i++) {
        run_record r = run_of(i < 3 ? 40 + i : 20, "2026-11-30");
        snprintf(r.runtime, sizeof r.runtime, "%s", i < 3 ? "mlx-lm" : "llama.cpp");
        assert_int_equal(run_set_add(&runs, &r), OK);
    }
    q.runs = &runs;
    plan_result r = made(&q);
    assert_int_equal(r.decode.measured.n, 4);
    assert_true(noted(&r, "mlx-lm 41.0") && noted(&r, "llama.cpp 20.0"));
    runs.count = 3;
    r = made(&q);
    assert_false(noted(&r, "By runtime"));
    run_set_free(&runs);
}

static void knows_little_of_many_streams(void **state)
{
    (void)state;
    plan_request q = request_of("m4-max", TEXT_MODEL);
    for (q.batch = 4; q.batch <= 8; q.batch += 4) {
        plan_result r = made(&q);
        double high = q.batch > 4 ? 0.85 : r.box.shares.shallow_high;
        assert_near(r.decode.high, q.batch / cost_decode_share_s(&r.box, q.batch, 0, high), 1e-9);
    }
}

static void takes_a_measured_prefill_for_the_matmuls(void **state)
{
    (void)state;
    run_set runs = {0};
    run_record run = run_of(300, "2026-11");
    run.kind = RUN_PREFILL;
    run.prompt_tokens = 4096;
    assert_int_equal(run_set_add(&runs, &run), OK);
    plan_request q = request_of("m4-pro", "llama-3.1-8b:q4_0");
    q.runs = &runs;
    plan_result r = made(&q);
    assert_near(r.prefill.tok_s, 300, 1e-9);
    assert_near(cost_prefill_s(&r.box, 0, 4096, q.chunk), 4096 / 300.0, 1e-6); /* the same by its chunks */
    q.prompt = 512;
    r = made(&q);
    assert_true(r.prefill.measured.n == 0 && r.prefill.tok_s > 300 && r.prefill.tok_s < 330);
    run_set_free(&runs);
}

/* ---- parts ---- */

static void expects_tokens_of_a_draft(void **state)
{
    (void)state;
    plan_request q = request_of("m4-max", "llama-3.1-70b:q4_0");
    assert_true(made(&q).speculation.tokens == 0);
    q.draft = 4;
    for (int i = 0; i <= 10; i++) {
        q.accept = i / 10.0;
        double sum = 0;
        for (int k = 0; k <= 4; k++)
            sum += pow(q.accept, k);
        assert_near(made(&q).speculation.tokens, sum, 1e-9);
    }
    plan_result all = made(&q);
    assert_true(all.speculation.gain > 4 && all.speculation.gain < 5);
    assert_near(all.speculation.bytes_token, all.speculation.step_bytes / 5, 1e-9);
    q.accept = 0;
    assert_true(made(&q).speculation.gain < 1); /* drafts for nothing */
    plan_request moe = request_of("m4-max", TEXT_MODEL);
    moe.draft = 4;
    moe.accept = 1;
    assert_true(made(&moe).speculation.gain < all.speculation.gain); /* more rows touch more experts */
}

static void bounds_the_gaps_by_policy(void **state)
{
    (void)state;
    plan_request q = request_of("m4-max", TEXT_MODEL);
    q.gap_s = 0.1;
    q.chat_share = 0;
    plan_result r = made(&q);
    assert_int_equal(r.gap_count, 5);
    double step = r.decode.step_s, alone = cost_prefill_s(&r.box, 0, 60000, 2048);
    assert_near(r.gaps[0].gap_s, cost_chunk_s(&r.box, 60000 - 2048, 2048) + step, 1e-9);
    assert_true(r.gaps[1].gap_s < r.gaps[0].gap_s && r.gaps[2].gap_s == r.gaps[0].gap_s);
    assert_true(r.gaps[3].gap_s == 0.1 && r.gaps[4].gap_s == step && isinf(r.gaps[4].document_s));
    assert_near(r.gaps[3].document_s, alone * 0.1 / (0.1 - step) + r.prefill.overhead_s, 1e-6);
    assert_true(r.gaps[2].document_s > r.gaps[0].document_s && r.gaps[2].chat_tok_s > r.gaps[0].chat_tok_s);
    q.gap_s = step / 2; /* a step is longer */
    assert_true(made(&q).gaps[3].gap_s == step);
    q.gap_s = 0;
    assert_near(made(&q).gap_s, fmax(0.05, 4 * step), 1e-9);
}

static void refuses_what_cannot_be(void **state)
{
    (void)state;
    static const struct {
        const char *flag;
        size_t offset;
        double value;
    } wrong[] = {{"--ctx", offsetof(plan_request, context), -1},
                 {"--ctx", offsetof(plan_request, context), NAN},
                 {"--prompt", offsetof(plan_request, prompt), 0},
                 {"--cached", offsetof(plan_request, cached), 4096},
                 {"--chunk", offsetof(plan_request, chunk), 0},
                 {"--document", offsetof(plan_request, document), 0},
                 {"--accept", offsetof(plan_request, accept), 1.01},
                 {"--accept", offsetof(plan_request, accept), -0.1},
                 {"--sessions", offsetof(plan_request, sessions), INFINITY},
                 {"--chat-share", offsetof(plan_request, chat_share), 1}};
    plan_result r;
    error err;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        plan_request q = request_of("m4-max", TEXT_MODEL);
        memcpy((char *)&q + wrong[i].offset, &wrong[i].value, sizeof wrong[i].value);
        assert_int_equal(plan_make(&r, &q, &err), ERR_INVALID);
        assert_non_null(strstr(err.text, wrong[i].flag));
    }
    plan_request q = request_of("m4-max", TEXT_MODEL);
    q.batch = 0;
    assert_int_equal(plan_make(&r, &q, &err), ERR_INVALID);
    q = request_of("m4-max", TEXT_MODEL);
    q.box.devices = 2;
    assert_int_equal(plan_make(&r, &q, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "--link"));
    q = request_of("m4-max", TEXT_MODEL);
    q.model = false;
    assert_int_equal(plan_make(&r, &q, &err), ERR_INVALID);
}

/* ---- what is printed ---- */

static bool letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static void check_text(buf *out)
{
    static const char *const wrong[] = {"nan", "inf", "null", "-0"};
    size_t columns = 0;
    assert_false(out->failed);
    for (size_t i = 0; i < out->size; i++) {
        columns = out->data[i] == '\n' ? 0 : columns + 1;
        if (columns > 100)
            fail_msg("more than 100 columns: %.*s", (int)columns, out->data + i + 1 - columns);
    }
    for (size_t w = 0; w < sizeof wrong / sizeof *wrong; w++)
        for (const char *at = strstr(out->data, wrong[w]); at; at = strstr(at + 1, wrong[w]))
            if (!letter(at[strlen(wrong[w])]) && (at == out->data || at[-1] == ' ' || at[-1] == '('))
                fail_msg("%.60s", at);
}

static json_t *parsed(buf *out)
{
    json_error_t why;
    json_t *root = json_loadb(out->data, out->size, JSON_REJECT_DUPLICATES, &why);
    if (!root)
        fail_msg("%s at %d: %s", why.text, why.position, out->data);
    return root;
}

static double number_at(json_t *root, const char *part, const char *key)
{
    json_t *value = json_object_get(json_object_get(root, part), key);
    if (!json_is_number(value))
        fail_msg("%s.%s is no number", part, key);
    return json_number_value(value);
}

static void check_prints(const char *hw, const char *model, uint32_t batch)
{
    plan_request q = request_of(hw, model);
    q.batch = batch;
    q.draft = 3;
    q.depth = q.context;
    q.sessions = 6;
    plan_result r = made(&q);
    buf out = {0};
    error err;
    plan_text(&q, &r, &out);
    check_text(&out);
    buf_clear(&out);
    plan_explain(&q, &r, &out);
    check_text(&out);
    buf_clear(&out);
    assert_int_equal(plan_json(&q, &r, &out, &err), OK);
    json_t *root = parsed(&out);
    assert_near(number_at(root, "decode", "estimate_tok_s"), r.decode.estimate, 1e-5);
    assert_near(number_at(root, "memory", "weights_bytes"), r.memory.weights, 1e-5);
    json_decref(root);
    buf_free(&out);
}

static void prints_every_row_of_the_tables(void **state)
{
    (void)state;
    char model[96];
    for (size_t i = 0; i < hardware_count(); i++)
        check_prints(hardware_at(i)->name, i % 2 ? TEXT_MODEL : "llama-3.1-8b:q4_0", 1 + (uint32_t)(i % 7));
    for (size_t i = 0; i < catalogue_count(); i++) {
        snprintf(model, sizeof model, "%s:%s", catalogue_at(i)->name, catalogue_type(i));
        check_prints("h200", model, 1);
    }
}

static double between(rng *r, double least, double most) /* by factors */
{
    return floor(least * pow(most / least, rng_unit(r)));
}

static void holds_for_random_loads(void **state)
{
    (void)state;
    rng r = {20261130};
    buf out = {0};
    error err;
    for (uint32_t i = 0; i < slowly(1500, 300); i++) {
        size_t m = rng_below(&r, catalogue_count());
        char model[96];
        snprintf(model, sizeof model, "%s:%s", catalogue_at(m)->name,
                 weight_type_at(rng_below(&r, weight_type_count()))->name);
        plan_request q = request_of(hardware_at(rng_below(&r, hardware_count()))->name, model);
        q.batch = (uint32_t)between(&r, 1, 4096);
        q.context = between(&r, 1, 1e7);
        q.depth = rng_below(&r, 2) ? q.context : 0;
        q.prompt = between(&r, 2, 1e6);
        q.cached = rng_below(&r, 2) ? floor(q.prompt * 0.9) : -1;
        q.chunk = between(&r, 1, 1e5);
        q.document = between(&r, 1, 1e6);
        q.gap_s = rng_below(&r, 2) ? between(&r, 1, 1e5) / 1e3 : 0;
        q.sessions = between(&r, 1, 1000) - 1;
        q.session_tokens = between(&r, 1, 1e6);
        q.draft = (uint32_t)rng_below(&r, 9);
        q.accept = rng_unit(&r);
        q.box.devices = 1 + (uint32_t)rng_below(&r, 8);
        q.box.link_gb_s = 25;
        plan_result p = made(&q);
        const plan_decode *d = &p.decode;
        assert_true(d->low > 0 && d->low <= d->estimate && d->estimate <= d->high && d->high <= d->ceiling * 1.01);
        assert_true(p.memory.fits == (p.memory.needed <= p.memory.usable));
        assert_true(p.prefill.tok_s == 0 || (p.prefill.warm_s > 0 && p.prefill.cold_s > p.prefill.overhead_s));
        for (uint32_t g = 0; g < p.gap_count; g++)
            assert_true(p.gaps[g].gap_s > 0 && p.gaps[g].document_s > 0 && p.gaps[g].chat_tok_s <= 1.001 / d->step_s);
        buf_clear(&out);
        plan_text(&q, &p, &out);
        plan_explain(&q, &p, &out);
        check_text(&out);
        buf_clear(&out);
        assert_int_equal(plan_json(&q, &p, &out, &err), OK);
        json_decref(parsed(&out));
    }
    buf_free(&out);
}

static void names_its_keys(void **state)
{
    (void)state;
    static const struct {
        const char *part, *key;
    } keys[] = {{"decode", "ceiling_tok_s"}, {"decode", "low_tok_s"},
                {"decode", "high_tok_s"},    {"decode", "n"},
                {"prefill", "tok_s"},        {"prefill", "ttft_s"},
                {"memory", "weights_bytes"}, {"memory", "kv_bytes_per_token"},
                {"decode", "estimate_tok_s"}};
    plan_request q = request_of("m4-max", TEXT_MODEL);
    plan_result r = made(&q);
    buf out = {0};
    error err;
    assert_int_equal(plan_json(&q, &r, &out, &err), OK);
    json_t *root = parsed(&out);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        number_at(root, keys[i].part, keys[i].key);
    assert_true(json_is_true(json_object_get(json_object_get(root, "memory"), "fits")));
    assert_string_equal(json_string_value(json_object_get(json_object_get(root, "decode"), "basis")), "est.");
    json_decref(root);
    buf_clear(&out);
    assert_int_equal(plan_list_json(false, &out, &err), OK);
    root = parsed(&out);
    assert_int_equal(json_array_size(root), hardware_count());
    json_t *row = json_array_get(root, 0);
    assert_non_null(json_string_value(json_object_get(row, "name")));
    assert_true(json_is_number(json_object_get(row, "bandwidth_gb_s")) &&
                json_is_number(json_object_get(row, "memory_gb")) &&
                json_is_number(json_object_get(row, "naive_tok_s")));
    json_decref(root);
    buf_clear(&out);
    assert_int_equal(plan_list_json(true, &out, &err), OK);
    root = parsed(&out);
    assert_int_equal(json_array_size(root), catalogue_count());
    json_decref(root);
    buf_clear(&out);
    plan_list_hardware(&out);
    plan_list_models(&out);
    check_text(&out);
    buf_free(&out);
}

static void sets_two_side_by_side(void **state)
{
    (void)state;
    plan_request x = request_of("m4-max", TEXT_MODEL), y = request_of("h100", TEXT_MODEL);
    plan_result p = made(&x), q = made(&y);
    buf out = {0};
    error err;
    plan_compare_text(&(plan_side){&x, &p}, &(plan_side){&y, &q}, &out);
    check_text(&out);
    assert_non_null(strstr(out.data, "prefill is bound by              matmul           matmul"));
    buf_clear(&out);
    assert_int_equal(plan_compare_json(&(plan_side){&x, &p}, &(plan_side){&y, &q}, &out, &err), OK);
    json_t *root = parsed(&out), *rows = json_object_get(root, "rows");
    assert_near(number_at(rows, "bandwidth_gb_s", "ratio"), 6.1, 0.02);
    double more = number_at(rows, "usable_f16_tera", "ratio"); /* the text: 15 to 30 times */
    assert_true(more > 15 && more < 30);
    assert_near(number_at(rows, "gb_s_per_watt", "a"), 5.5, 0.01);
    assert_near(number_at(rows, "gb_s_per_watt", "b"), 4.8, 0.01);
    json_decref(root);
    buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(says_what_the_case_study_measured),
        cmocka_unit_test(counts_the_memory_of_the_deployment),
        cmocka_unit_test(restores_a_prefix_from_the_disk),
        cmocka_unit_test(divides_given_bytes),
        cmocka_unit_test(reads_prompts_at_a_given_rate),
        cmocka_unit_test(flags_what_is_no_device),
        cmocka_unit_test(buys_nothing_of_decode_with_memory_or_cores),
        cmocka_unit_test(leaves_no_known_run_outside),
        cmocka_unit_test(turns_estimates_into_measurements),
        cmocka_unit_test(tells_runtimes_apart),
        cmocka_unit_test(knows_little_of_many_streams),
        cmocka_unit_test(takes_a_measured_prefill_for_the_matmuls),
        cmocka_unit_test(expects_tokens_of_a_draft),
        cmocka_unit_test(bounds_the_gaps_by_policy),
        cmocka_unit_test(refuses_what_cannot_be),
        cmocka_unit_test(prints_every_row_of_the_tables),
        cmocka_unit_test(holds_for_random_loads),
        cmocka_unit_test(names_its_keys),
        cmocka_unit_test(sets_two_side_by_side),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
