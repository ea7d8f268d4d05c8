/* plan/plan_list.c: the two tables as text. */
#include "plan/plan_private.h"

#define W(word) (word).text

static const char *mark(const hardware *hw)
{
    return hw->rumoured ? "rumoured" : hw->kind == HW_SRAM ? "SRAM" : hw->kind == HW_SSD ? "SSD" : "";
}

static const char *number_or_none(double number, plan_word *word)
{
    *word = plan_number(number);
    return number > 0 ? word->text : "-";
}

void plan_list_hardware(buf *out)
{
    buf_printf(out, "%-20s %-38s %8s %7s %6s %7s\n", "name", "", "memory", "GB/s", "f16 T", "tok/s*");
    for (size_t i = 0; i < hardware_count(); i++) {
        const hardware *hw = hardware_at(i);
        plan_word rate;
        size_t start = out->size;
        buf_printf(out, "%-20s %-38.38s %8s %7s %6s %7s %s", hw->name, hw->title,
                   hw->memory_gb > 0 ? W(plan_bytes(hw->memory_gb * 1e9)) : "-", W(plan_number(hw->bandwidth_gb_s)),
                   number_or_none(hw->tflops[RATE_F16], &rate), W(plan_number(hardware_naive_tok_s(hw))), mark(hw));
        while (!out->failed && out->size > start && out->data[out->size - 1] == ' ')
            out->size--;
        buf_byte(out, '\n');
    }
    buf_text(out, "* by bandwidth alone: 65 x GB/s / 546, as the case study scales its own 65 tok/s of a 35B-A3B.\n"
                  "SRAM: no model lies on one chip. SSD: for bytes read once a turn. More: --json.\n");
}

void plan_list_models(buf *out)
{
    buf_printf(out, "%-25s %-32s %9s %9s %10s %10s\n", "name", "", "total", "a token", "KV a token", "context");
    for (size_t i = 0; i < catalogue_count(); i++) {
        const model_shape *shape = catalogue_at(i);
        model_sums sums;
        model_shape_sums(shape, &sums);
        buf_printf(out, "%-25s %-32.32s %9s %9s %10s %10s\n", shape->name, shape->title,
                   W(plan_parameters((double)sums.total)), W(plan_parameters((double)sums.active)),
                   W(plan_bytes((sums.kv_values + sums.window_values) * 2)), W(plan_count(shape->context)));
    }
    buf_text(out, "NAME:TYPE says how the weights are stored, e.g. qwen3.6-35b-a3b:mxfp8; KV in 16 bits\n");
}
