/* model/arch/rope.c: inverse frequencies of rotary embeddings under each scaling rule (models.md 1.1). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "model/arch/arch.h"
#include "tensor/quant.h"

typedef struct {
    span type; /* "none", "linear", "yarn" */
    float factor, attn_factor, beta_fast, beta_slow;
    uint32_t original;
} scaling;

static status read_scaling(const model *m, const model_file *file, scaling *s, error *err)
{
    char key[64] = "";
    snprintf(key, sizeof key, "%s.rope.scaling.type", m->arch->name);
    *s = (scaling){.type = span_from("none"), .factor = 1};
    status st = model_file_string(file, key, &s->type, err);
    if (st && st != ERR_NOT_FOUND)
        return st;
    bool typed = st == OK;
    if ((st = arch_f32(m, file, "rope.scaling.factor", 0, &s->factor, err)) ||
        (st = arch_f32(m, file, "rope.scaling.attn_factor", 1, &s->attn_factor, err)) ||
        (st = arch_f32(m, file, "rope.scaling.yarn_beta_fast", 32, &s->beta_fast, err)) ||
        (st = arch_f32(m, file, "rope.scaling.yarn_beta_slow", 1, &s->beta_slow, err)) ||
        (st = arch_u32(m, file, "rope.scaling.original_context_length", m->config.context, 1, UINT32_MAX, &s->original,
                       err)))
        return st;
    if (!typed && s->factor > 0) /* old files give a factor alone: linear */
        s->type = span_from("linear");
    if (s->factor < 0 || (s->factor == 0 && !span_is(s->type, "none")))
        s->factor = 1;
    if (!span_is(s->type, "none") && !span_is(s->type, "linear") && !span_is(s->type, "yarn"))
        return error_set(err, ERR_UNSUPPORTED, "%s: %s: \"%.*s\", want none, linear or yarn", model_file_path(file),
                         key, (int)s->type.size, s->type.data);
    return OK;
}

static double yarn_dim(double rotary, double base, double original, double turns)
{
    return rotary * log(original / (turns * 2 * M_PI)) / (2 * log(base));
}

static void apply_yarn(const scaling *s, uint32_t rotary, float base, rope_table *out)
{
    double low = fmax(0, floor(yarn_dim(rotary, (double)base, s->original, (double)s->beta_fast)));
    double high = fmin(rotary - 1.0, ceil(yarn_dim(rotary, (double)base, s->original, (double)s->beta_slow)));
    for (uint32_t i = 0; i < rotary / 2; i++) {
        double ramp = fmin(1, fmax(0, ((double)i - low) / fmax(high - low, 0.001)));
        double w = (double)out->inv_freq[i];
        out->inv_freq[i] = (float)(w * (1 - ramp) + w / (double)s->factor * ramp);
    }
    out->factor = s->attn_factor * (0.1f * logf(s->factor) + 1.0f);
}

/* rope_freqs.weight (llama3): each inverse frequency is divided by its entry. */
static status apply_factors(const model_file *file, uint32_t rotary, rope_table *out, error *err)
{
    const model_tensor *t = model_file_tensor(file, "rope_freqs.weight");
    if (!t)
        return OK;
    if (t->type != DT_F32 || t->bytes != rotary / 2 * sizeof(float))
        return error_set(err, ERR_INVALID, "%s: tensor rope_freqs.weight: want %u floats", model_file_path(file),
                         rotary / 2);
    float *factors = malloc(t->bytes);
    if (!factors)
        return error_set(err, ERR_MEMORY, "rope_freqs.weight: out of memory");
    quant_dequantize_row(DT_F32, t->data, factors, rotary / 2);
    for (uint32_t i = 0; i < rotary / 2; i++)
        out->inv_freq[i] /= factors[i];
    free(factors);
    return OK;
}

status build_rope(const model *m, const model_file *file, float base, bool scaled, rope_table *out, error *err)
{
    uint32_t rotary = m->config.rotary;
    if (!(base > 1))
        return error_set(err, ERR_INVALID, "%s: rope base %g, want more than 1", model_file_path(file), (double)base);
    out->factor = 1;
    out->inv_freq = malloc(rotary / 2 * sizeof *out->inv_freq);
    if (!out->inv_freq)
        return error_set(err, ERR_MEMORY, "rope table: out of memory");
    for (uint32_t i = 0; i < rotary / 2; i++)
        out->inv_freq[i] = (float)pow((double)base, -2.0 * i / rotary);
    if (!scaled)
        return OK;
    scaling s;
    status st = read_scaling(m, file, &s, err);
    if (st)
        return st;
    if (span_is(s.type, "linear"))
        for (uint32_t i = 0; i < rotary / 2; i++)
            out->inv_freq[i] /= s.factor;
    if (span_is(s.type, "yarn"))
        apply_yarn(&s, rotary, base, out);
    return apply_factors(file, rotary, out, err);
}
