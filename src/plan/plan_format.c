/* plan/plan_format.c: numbers with as many digits as they deserve. */
#include <math.h>
#include <stdio.h>

#include "plan/plan_private.h"

plan_word plan_count(double number)
{
    char digits[32];
    plan_word out;
    int count = snprintf(digits, sizeof digits, "%.0f", fmin(fmax(number, 0), 1e15)), used = 0;
    for (int i = 0; i < count; i++) {
        if (i > 0 && (count - i) % 3 == 0)
            out.text[used++] = ',';
        out.text[used++] = digits[i];
    }
    out.text[used] = 0;
    return out;
}

plan_word plan_streams(uint32_t batch)
{
    plan_word out;
    snprintf(out.text, sizeof out.text, "%u stream%s", batch, batch == 1 ? "" : "s");
    return out;
}

plan_word plan_number(double number)
{
    plan_word out;
    if (!isfinite(number)) {
        snprintf(out.text, sizeof out.text, "-");
        return out;
    }
    if (number >= 999.5)
        return plan_count(number);
    int decimals = number >= 99.95 ? 0 : number >= 9.995 ? 1 : number >= 0.9995 ? 2 : 3;
    snprintf(out.text, sizeof out.text, "%.*f", decimals, number);
    return out;
}

/* Three digits and a unit of `step` times the one before. */
static plan_word with_unit(double number, double step, const char *const *units, size_t count)
{
    plan_word out, value;
    size_t unit = 0;
    while (number >= 0.9995 * step && unit + 1 < count) {
        number /= step;
        unit++;
    }
    value = plan_number(number);
    snprintf(out.text, sizeof out.text, "%.24s %s", value.text, units[unit]);
    return out;
}

plan_word plan_bytes(double bytes)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    plan_word out;
    if (bytes >= 1e5)
        return with_unit(bytes, 1000, units, sizeof units / sizeof *units);
    snprintf(out.text, sizeof out.text, "%.24s B", plan_count(bytes).text);
    return out;
}

plan_word plan_parameters(double number)
{
    static const char *const units[] = {"", "k", "M", "B", "T"};
    return with_unit(number, 1000, units, sizeof units / sizeof *units);
}

plan_word plan_bits(const cost_box *b)
{
    plan_word out;
    if (b->type.always_bits > 0 && b->sums.expert_layers)
        snprintf(out.text, sizeof out.text, "%.4g bits, others %.4g", b->type.bits, b->type.always_bits);
    else
        snprintf(out.text, sizeof out.text, "%.4g bits", b->type.bits);
    return out;
}

plan_word plan_seconds(double seconds)
{
    plan_word out;
    if (!isfinite(seconds))
        snprintf(out.text, sizeof out.text, "never");
    else if (seconds <= 0)
        snprintf(out.text, sizeof out.text, "0 s");
    else if (seconds < 0.9995e-3)
        snprintf(out.text, sizeof out.text, "%.16s us", plan_number(seconds * 1e6).text);
    else if (seconds < 0.9995)
        snprintf(out.text, sizeof out.text, "%.16s ms", plan_number(seconds * 1e3).text);
    else if (seconds < 119.5)
        snprintf(out.text, sizeof out.text, "%.16s s", plan_number(seconds).text);
    else if (seconds < 2 * 3600)
        snprintf(out.text, sizeof out.text, "%.1f min", seconds / 60);
    else
        snprintf(out.text, sizeof out.text, "%.24s h", plan_number(seconds / 3600).text);
    return out;
}
