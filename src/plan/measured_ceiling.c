/* plan/measured_ceiling.c: what can no run exceed? The bytes of a step at the full bandwidth of the row. */
#include "plan/measured_private.h"

/* Weights below this may lie in a cache for good, and are read so many times faster at most. */
static const double cached_host = 1.2e9, cached_other = 256e6, cache_gain = 8;

/* By the very name first: a store has thousands of lines, and most of them have it. */
static const hardware *find_hardware(const char *name, bool loosely)
{
    const hardware *row;
    for (size_t i = 0; i < hardware_count(); i++)
        if (strcmp(hardware_at(i)->name, name) == 0)
            return hardware_at(i);
    return loosely && hardware_find(&row, name, NULL) == OK ? row : NULL;
}

static const model_shape *find_shape(const char *name, bool loosely)
{
    const model_shape *shape;
    size_t index;
    for (size_t i = 0; i < catalogue_count(); i++)
        if (strcmp(catalogue_at(i)->name, name) == 0)
            return catalogue_at(i);
    return loosely && catalogue_find(&shape, &index, name, NULL) == OK ? shape : NULL;
}

static const weight_type *find_type(const char *name)
{
    for (size_t i = 0; i < weight_type_count(); i++)
        if (strcmp(weight_type_at(i)->name, name) == 0)
            return weight_type_at(i);
    return NULL;
}

void run_table_names(run_record *r)
{
    const hardware *hw = find_hardware(r->hardware, true);
    const model_shape *shape = find_shape(r->model, true);
    if (hw)
        run_name(r->hardware, sizeof r->hardware, hw->name, true);
    if (shape)
        run_name(r->model, sizeof r->model, shape->name, true);
}

double run_ceiling(const run_record *r)
{
    const hardware *hw = r->kind == RUN_DECODE ? find_hardware(r->hardware, false) : NULL;
    const model_shape *shape = hw ? find_shape(r->model, false) : NULL;
    const weight_type *type = shape ? find_type(r->type) : NULL;
    if (!type || hw->kind == HW_SRAM || hw->kind == HW_SSD)
        return 0;
    cost_box box = {.hw = *hw, .devices = 1, .shape = *shape, .type = *type, .kv_bits = 16};
    model_shape_sums(shape, &box.sums);
    /* Streams of like text may all ask for the same experts. */
    double weights = cost_step_weight_bytes(&box, shape->experts ? 1 : r->batch);
    double kv = r->prompt_tokens ? r->batch * cost_kv_bytes(&box, r->prompt_tokens) : 0;
    bool cached = cost_weight_bytes(&box) < (hw->kind == HW_HOST ? cached_host : cached_other);
    return r->batch * cost_bandwidth(&box) / (weights + kv) * (cached ? cache_gain : 1);
}
