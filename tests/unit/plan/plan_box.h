/* tests/unit/plan/plan_box.h: boxes and requests by the tables' names, for tests. */
#ifndef TESTS_PLAN_BOX_H
#define TESTS_PLAN_BOX_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "plan/plan.h"

static inline void assert_near(double got, double wanted, double share)
{
    if (!(fabs(got - wanted) <= share * fabs(wanted)))
        fail_msg("%.9g, not %.9g within %g", got, wanted, share);
}

/* `model`: "NAME:TYPE". */
static inline cost_box box_of(const char *hw_name, const char *model)
{
    const hardware *hw = NULL;
    const model_shape *shape = NULL;
    const weight_type *type = NULL;
    char name[64], type_name[16];
    size_t index;
    error err = {""};
    if (hardware_find(&hw, hw_name, &err) || model_name_split(model, name, type_name, &err) ||
        catalogue_find(&shape, &index, name, &err) || weight_type_find(&type, type_name, &err))
        fail_msg("%s", err.text);
    cost_box b = {.hw = *hw, .devices = 1, .shape = *shape, .type = *type, .kv_bits = 16};
    model_shape_sums(shape, &b.sums);
    b.shares = cost_shares_for(hw, shape);
    return b;
}

static inline plan_request request_of(const char *hw_name, const char *model)
{
    return (plan_request){.box = box_of(hw_name, model),
                          .model = true,
                          .model_from = "the catalogue",
                          .hardware_from = "the table",
                          .batch = 1,
                          .context = 8192,
                          .prompt = 4096,
                          .cached = -1,
                          .chunk = 2048,
                          .document = 60000,
                          .chat_share = 0.25,
                          .ssd_gb_s = 7,
                          .session_tokens = 23000,
                          .overhead_s = -1,
                          .accept = 0.7,
                          .reads_per_token = 77};
}

static inline plan_result made(const plan_request *q)
{
    plan_result r;
    error err = {""};
    if (plan_make(&r, q, &err))
        fail_msg("%s", err.text);
    return r;
}

#endif
