/* plan/plan_list.c: the two tables as text. */
#include "plan/plan_private.h"

#define W(word) (word).text

static const char *mark(const hardware *hw)
{
    return hw->rumoured          ? "rumoured"
           : hw->kind == HW_SRAM ? "SRAM: no model alone"
           : hw->kind == HW_SSD  ? "SSD: once a turn"
           : hw->note            ? "see its note"
                                 : "";
}

void plan_list_hardware(buf *out)
{
    buf_printf(out, "%-22s %-38s %9s %10s %10s  %s\n", "name", "", "memory", "GB/s", "naive*", "");
    for (size_t i = 0; i < hardware_count(); i++) {
        const hardware *hw = hardware_at(i);
        buf_printf(out, "%-22s %-38.38s %9s %10s %10s  %s\n", hw->name, hw->title,
                   hw->memory_gb > 0 ? W(plan_bytes(hw->memory_gb * 1e9)) : "-", W(plan_number(hw->bandwidth_gb_s)),
                   W(plan_number(hardware_naive_tok_s(hw))), mark(hw));
    }
    buf_text(out, "* tok/s by bandwidth alone: 65 x GB/s / 546, as the case study scales its own measurement\n");
}

void plan_list_models(buf *out)
{
    buf_printf(out, "%-28s %-32s %9s %9s %10s %10s\n", "name", "", "total", "a token", "KV a token", "context");
    for (size_t i = 0; i < catalogue_count(); i++) {
        const model_shape *shape = catalogue_at(i);
        model_sums sums;
        model_shape_sums(shape, &sums);
        buf_printf(out, "%-28s %-32.32s %9s %9s %10s %10s\n", shape->name, shape->title,
                   W(plan_parameters((double)sums.total)), W(plan_parameters((double)sums.active)),
                   W(plan_bytes((sums.kv_values + sums.window_values) * 2)), W(plan_count(shape->context)));
    }
    buf_text(out, "NAME:TYPE says how the weights are stored, e.g. qwen3.6-35b-a3b:mxfp8; KV in 16 bits\n");
}
