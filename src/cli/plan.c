/* cli/plan.c: `headway plan`: what a machine will do with a model, before anybody buys, loads or deploys. */
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/plan_flags.h"
#include "cli/plan_import.h"

static int print(buf *out, status st, const error *err)
{
    if (!st)
        fwrite(out->data, 1, out->size, stdout);
    buf_free(out);
    return st ? command_fail(&plan_spec, err, PLAN_WRONG_FILE) : 0;
}

static int list(const char *what, bool json)
{
    buf out = {0};
    error err = {0};
    bool models = strcmp(what, "models") == 0;
    if (!models && strcmp(what, "hardware") != 0) {
        error_set(&err, ERR_INVALID, "--list: '%.40s' is not hardware or models", what);
        return command_fail(&plan_spec, &err, PLAN_WRONG_FLAG);
    }
    if (json)
        return print(&out, plan_list_json(models, &out, &err), &err);
    (models ? plan_list_models : plan_list_hardware)(&out);
    return print(&out, OK, &err);
}

typedef struct {
    plan_request request;
    plan_result result;
    plan_machine_words machine;
} plan_one;

static status make(plan_one *one, const command_flags *f, const char *name, const run_set *runs, error *err, int *code)
{
    status st = plan_flags_read(&one->request, &one->machine, f, name, err, code);
    one->request.runs = runs;
    return st ? st : plan_make(&one->result, &one->request, err);
}

static int compare(const command_flags *f, const run_set *runs)
{
    static plan_one sides[2];
    char names[2][64];
    error err = {0};
    buf out = {0};
    int code = PLAN_WRONG_FLAG;
    status st = plan_flags_pair(f, names[0], names[1], &err);
    for (int i = 0; i < 2 && !st; i++)
        st = make(&sides[i], f, names[i], runs, &err, &code);
    if (st)
        return command_fail(&plan_spec, &err, code);
    plan_side a = {&sides[0].request, &sides[0].result}, b = {&sides[1].request, &sides[1].result};
    if (flag_given(f, "--json"))
        return print(&out, plan_compare_json(&a, &b, &out, &err), &err);
    plan_compare_text(&a, &b, &out);
    return print(&out, OK, &err);
}

static void put_examples(buf *out)
{
    buf_text(out, "\nThat was the default model on this machine, by its memory, bandwidth and cores. Ask for others:\n"
                  "  headway plan --model qwen3.6-35b-a3b:mxfp8 --hardware m4-max --ctx 23000 --sessions 6\n"
                  "  headway plan --compare m4-max,rtx-5090 --model llama-3.1-8b:q4_0\n"
                  "  headway plan --model model.gguf --bandwidth 273 --memory 48 --flops 8 --explain\n"
                  "Names: headway plan --list hardware|models. Measure this machine: headway bench, headway tune.\n");
}

static int one_plan(const command_flags *f, const run_set *runs, bool example)
{
    static plan_one one;
    error err = {0};
    buf out = {0};
    int code = PLAN_WRONG_FLAG;
    if (make(&one, f, NULL, runs, &err, &code))
        return command_fail(&plan_spec, &err, code);
    if (flag_given(f, "--json"))
        return print(&out, plan_json(&one.request, &one.result, &out, &err), &err);
    if (example)
        buf_text(&out,
                 "headway plan: what will a machine do with a model? Memory first, then speed. Every figure is an\n"
                 "estimate from bytes and operations (est.) or was measured; --explain shows how it is made.\n\n");
    plan_text(&one.request, &one.result, &out);
    if (flag_given(f, "--explain")) {
        buf_byte(&out, '\n');
        plan_explain(&one.request, &one.result, &out);
    }
    if (example)
        put_examples(&out);
    return print(&out, OK, &err);
}

/* Of flags that say what to do, or which machine, one counts; two would leave one unheard. */
static status check_alone(const command_flags *f, error *err)
{
    static const char *const pairs[][2] = {
        {"--list", "--compare"},    {"--list", "--import"},      {"--import", "--compare"},
        {"--list", "--model"},      {"--list", "--hardware"},    {"--import", "--model"},
        {"--import", "--hardware"}, {"--compare", "--hardware"}, {"--json", "--explain"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (flag_given(f, pairs[i][0]) && flag_given(f, pairs[i][1]))
            return error_set(err, ERR_INVALID, "%s does not go with %s", pairs[i][0], pairs[i][1]);
    return OK;
}

int plan_main(int argc, char **argv)
{
    command_flags f;
    error err = {0};
    run_set runs = {0};
    int code = command_parse(&plan_spec, argc, argv, &f);
    if (code != COMMAND_RUN)
        return code;
    if (check_alone(&f, &err))
        return command_fail(&plan_spec, &err, PLAN_WRONG_FLAG);
    if (flag_given(&f, "--list"))
        return list(flag_text(&f, "--list"), flag_given(&f, "--json"));
    if (flag_given(&f, "--import"))
        return plan_import(flag_text(&f, "--import"), flag_given(&f, "--json"));
    if (run_store_open(&runs, &err))
        fprintf(stderr, "headway plan: measured runs: %s\n", err.text); /* estimates need none */
    code = flag_given(&f, "--compare") ? compare(&f, &runs) : one_plan(&f, &runs, argc == 1);
    run_set_free(&runs);
    return code;
}
