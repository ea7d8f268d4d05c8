/* plan/plan_json.c: a plan and the tables as JSON; every key is in docs/planning.md. */
#include <math.h>

#include "plan/plan_private.h"

void plan_put_string(buf *out, const char *name, const char *text)
{
    if (name)
        buf_printf(out, "\"%s\": ", name);
    if (!text) {
        buf_text(out, "null");
        return;
    }
    buf_byte(out, '"');
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            buf_printf(out, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            buf_printf(out, "\\u%04x", c);
        else
            buf_byte(out, (char)c);
    }
    buf_byte(out, '"');
}

void plan_put_number(buf *out, const char *name, double value)
{
    if (isfinite(value))
        buf_printf(out, value == floor(value) && fabs(value) < 1e15 ? "\"%s\": %.0f" : "\"%s\": %.6g", name, value);
    else
        buf_printf(out, "\"%s\": null", name);
}

static void put_bool(buf *out, const char *name, bool value)
{
    buf_printf(out, "\"%s\": %s", name, value ? "true" : "false");
}

typedef struct {
    const char *name;
    double value;
} number_field;

static void put_numbers(buf *out, const number_field *fields, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        buf_text(out, i ? ", " : "");
        plan_put_number(out, fields[i].name, fields[i].value);
    }
}

#define PUT_NUMBERS(out, ...)                                                                                          \
    put_numbers(out, (const number_field[]){__VA_ARGS__},                                                              \
                sizeof((const number_field[]){__VA_ARGS__}) / sizeof(number_field))

static double known(double value) /* 0: not known */
{
    return value > 0 ? value : NAN;
}

static void put_basis(buf *out, const run_summary *m)
{
    buf_text(out, ", ");
    plan_put_string(out, "basis", m->n ? "measured" : "est.");
    buf_printf(out, ", \"n\": %u, ", m->n);
    plan_put_string(out, "date", m->n ? m->date : NULL);
    buf_text(out, ", ");
    plan_put_string(out, "runtimes", m->n ? m->runtimes : NULL);
    buf_printf(out, ", \"on_battery\": %u, \"throttled\": %u", m->on_battery, m->throttled);
}

/* ---- rows of the tables ---- */

static void put_hardware(const hardware *hw, buf *out)
{
    static const char *const rates[RATE_KINDS] = {"f32", "f16", "fp8", "int8", "fp4"};
    buf_byte(out, '{');
    plan_put_string(out, "name", hw->name);
    buf_text(out, ", ");
    plan_put_string(out, "title", hw->title);
    buf_text(out, ", ");
    plan_put_string(out, "family", hw->family);
    buf_text(out, ", ");
    plan_put_string(out, "kind", hardware_kind_name(hw->kind));
    buf_text(out, ", ");
    PUT_NUMBERS(out, {"bandwidth_gb_s", hw->bandwidth_gb_s}, {"memory_gb", hw->memory_gb},
                {"naive_tok_s", hardware_naive_tok_s(hw)}, {"usable_gb", hardware_usable_bytes(hw) / 1e9});
    buf_text(out, ", \"tflops\": {");
    for (int i = 0; i < RATE_KINDS; i++) {
        buf_text(out, i ? ", " : "");
        plan_put_number(out, rates[i], known(hw->tflops[i]));
    }
    buf_text(out, "}, ");
    PUT_NUMBERS(out, {"link_gb_s", known(hw->link_gb_s)}, {"watts", known(hw->watts)},
                {"gb_s_per_watt", hw->watts > 0 ? hw->bandwidth_gb_s / hw->watts : NAN},
                {"price_usd", known(hw->price_usd)});
    const struct {
        const char *name, *text;
    } words[] = {{"link", hw->link}, {"price_date", hw->price_date}, {"source", hw->source}, {"note", hw->note}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        buf_text(out, ", ");
        plan_put_string(out, words[i].name, words[i].text);
    }
    buf_text(out, ", ");
    put_bool(out, "rumoured", hw->rumoured);
    buf_byte(out, '}');
}

static void put_shape(const model_shape *m, const model_sums *s, buf *out)
{
    PUT_NUMBERS(out, {"parameters", (double)s->total}, {"active_parameters", (double)s->active}, {"layers", m->layers},
                {"hidden", m->hidden}, {"context", m->context}, {"attention_layers", m->attention_layers},
                {"linear_layers", m->linear_layers}, {"window", m->window}, {"experts", m->experts},
                {"experts_used", m->experts_used}, {"other_parameters", (double)m->other_parameters},
                {"kv_values_per_token", s->kv_values}, {"state_bytes", s->state_bytes},
                {"flops_per_token", s->flops_token});
}

/* ---- a plan ---- */

static void put_memory(const plan_result *r, buf *out)
{
    const plan_memory *m = &r->memory;
    buf_text(out, ",\n \"memory\": {");
    buf_printf(out, "\"fits\": %s", !m->known ? "null" : m->fits ? "true" : "false");
    buf_text(out, ", ");
    PUT_NUMBERS(out, {"weights_bytes", m->weights}, {"kv_bytes_per_token", m->kv_token}, {"kv_bytes", m->kv},
                {"state_bytes", m->state}, {"cache_bytes", m->cache}, {"runtime_bytes", m->runtime},
                {"needed_bytes", m->needed}, {"usable_bytes", m->usable}, {"left_bytes", m->left},
                {"session_bytes", m->session}, {"warm_sessions", m->sessions_warm});
    buf_byte(out, '}');
}

static void put_decode_fields(const plan_decode *d, buf *out)
{
    PUT_NUMBERS(out, {"streams", d->batch}, {"depth", d->depth}, {"ceiling_tok_s", d->ceiling}, {"low_tok_s", d->low},
                {"high_tok_s", d->high}, {"estimate_tok_s", d->estimate}, {"step_s", d->step_s},
                {"weight_bytes", d->weight_bytes}, {"kv_bytes", d->kv_bytes}, {"state_bytes", d->state_bytes},
                {"experts", d->experts}, {"reached", d->estimate / d->ceiling}, {"share", d->share});
    buf_text(out, ", ");
    plan_put_string(out, "limit", d->by_matmul ? "matmul" : "bandwidth");
    put_basis(out, &d->measured);
}

static void put_points(const char *name, const plan_decode *points, uint32_t count, buf *out)
{
    buf_printf(out, ",\n  \"%s\": [", name);
    for (uint32_t i = 0; i < count; i++) {
        buf_text(out, i ? ",\n   {" : "\n   {");
        put_decode_fields(&points[i], out);
        buf_byte(out, '}');
    }
    buf_byte(out, ']');
}

static void put_decode(const plan_result *r, buf *out)
{
    buf_text(out, ",\n \"decode\": ");
    if (r->decode.estimate <= 0) {
        buf_text(out, "null");
        return;
    }
    buf_byte(out, '{');
    put_decode_fields(&r->decode, out);
    buf_text(out, ", ");
    plan_put_number(out, "weights_s", r->weights_only.weight_bytes / cost_bandwidth(&r->box));
    buf_text(out, ", ");
    plan_put_string(out, "range_by", r->box.shares.why);
    put_points("depths", r->depths, r->depth_count, out);
    put_points("batches", r->batches, r->batch_count, out);
    buf_byte(out, '}');
}

static void put_prefill(const plan_result *r, buf *out)
{
    const plan_prefill *p = &r->prefill;
    buf_text(out, ",\n \"prefill\": {");
    PUT_NUMBERS(out, {"tok_s", known(p->tok_s)}, {"ttft_s", known(p->asked_s)}, {"ttft_cold_s", known(p->cold_s)},
                {"ttft_warm_s", known(p->warm_s)}, {"ttft_ssd_s", known(p->ssd_s)}, {"prompt_tokens", p->prompt},
                {"cached_tokens", p->cached}, {"warm_new_tokens", p->warm_new}, {"restore_bytes", p->restore_bytes},
                {"restore_s", p->restore_s}, {"restore_ssd_s", known(p->restore_ssd_s)}, {"overhead_s", p->overhead_s},
                {"chunk_s", known(p->chunk_s)}, {"chunk_matmul_s", known(p->chunk_compute_s)},
                {"chunk_read_s", p->chunk_read_s}, {"chunk_bytes", p->chunk_bytes}, {"chunk_experts", p->chunk_experts},
                {"flops", p->flops}, {"time_share", known(r->prefill_time_share)});
    buf_text(out, ", ");
    put_bool(out, "given", p->given);
    put_basis(out, &p->measured);
    buf_byte(out, '}');
}

static void put_gaps(const plan_result *r, buf *out)
{
    buf_text(out, ",\n \"gaps\": [");
    for (uint32_t i = 0; i < r->gap_count; i++) {
        const plan_gap *g = &r->gaps[i];
        buf_text(out, i ? ",\n  {" : "\n  {");
        plan_put_string(out, "policy", g->policy);
        buf_text(out, ", ");
        PUT_NUMBERS(out, {"worst_gap_s", g->gap_s}, {"document_s", g->document_s}, {"chat_tok_s", g->chat_tok_s});
        buf_text(out, ", ");
        plan_put_string(out, "why", g->why);
        buf_byte(out, '}');
    }
    buf_byte(out, ']');
}

static void put_more(const plan_request *q, const plan_result *r, buf *out)
{
    const plan_speculation *s = &r->speculation;
    const plan_upgrades *u = &r->upgrades;
    buf_text(out, ",\n \"speculation\": ");
    if (s->tokens > 0) {
        buf_byte(out, '{');
        PUT_NUMBERS(out, {"draft", q->draft}, {"accept", q->accept}, {"tokens_per_step", s->tokens},
                    {"step_bytes", s->step_bytes}, {"draft_bytes", s->draft_bytes}, {"bytes_per_token", s->bytes_token},
                    {"plain_bytes_per_token", s->plain_bytes / q->batch}, {"estimate_tok_s", s->tok_s},
                    {"gain", s->gain});
        buf_byte(out, '}');
    } else {
        buf_text(out, "null");
    }
    buf_text(out, ",\n \"energy\": {");
    PUT_NUMBERS(out, {"watts", known(r->box.hw.watts * r->box.devices)},
                {"joules_per_1000_written", known(r->joules_decode)},
                {"joules_per_1000_read", known(r->joules_prefill)});
    buf_text(out, "},\n \"twice\": {");
    PUT_NUMBERS(out, {"bandwidth_decode", known(u->bandwidth_decode)},
                {"bandwidth_prefill", known(u->bandwidth_prefill)}, {"matmul_decode", known(u->matmul_decode)},
                {"matmul_prefill", known(u->matmul_prefill)}, {"memory_decode", known(u->memory_decode)},
                {"memory_prefill", known(u->memory_prefill)}, {"memory_warm_sessions", u->memory_sessions});
    buf_text(out, "},\n \"notes\": [");
    for (uint32_t i = 0; i < r->note_count; i++) {
        buf_text(out, i ? ",\n  " : "\n  ");
        plan_put_string(out, NULL, r->notes[i]);
    }
    buf_byte(out, ']');
}

/* Of all weights. */
static double mean_bits(const cost_box *b)
{
    return cost_weight_bytes(b) * 8 / (double)b->sums.total;
}

void plan_json_fields(const plan_request *q, const plan_result *r, buf *out)
{
    const cost_box *b = &r->box;
    plan_put_string(out, "format", "headway-plan/1");
    buf_text(out, ",\n \"model\": ");
    if (q->model) {
        buf_byte(out, '{');
        plan_put_string(out, "name", b->shape.name);
        buf_text(out, ", ");
        plan_put_string(out, "type", b->type.name);
        buf_text(out, ", ");
        plan_put_number(out, "bits_per_weight", b->type.always_bits > 0 ? mean_bits(b) : b->type.bits);
        buf_text(out, ", ");
        put_shape(&b->shape, &b->sums, out);
        buf_byte(out, '}');
    } else {
        buf_text(out, "null");
    }
    buf_text(out, ",\n \"hardware\": ");
    put_hardware(&b->hw, out);
    buf_text(out, ",\n \"load\": {");
    PUT_NUMBERS(out, {"devices", b->devices}, {"link_gb_s", known(b->link_gb_s)}, {"streams", q->batch},
                {"context", q->context}, {"depth", q->depth}, {"prompt_tokens", q->prompt}, {"chunk_tokens", q->chunk},
                {"document_tokens", q->document}, {"gap_s", known(r->gap_s)}, {"chat_share", q->chat_share},
                {"kv_bits", b->kv_bits}, {"sessions", q->sessions}, {"session_tokens", q->session_tokens},
                {"ssd_gb_s", known(q->ssd_gb_s)}, {"read_per_written", q->reads_per_token});
    buf_byte(out, '}');
    put_memory(r, out);
    put_decode(r, out);
    put_prefill(r, out);
    put_gaps(r, out);
    put_more(q, r, out);
}

static status checked(const buf *out, error *err)
{
    return out->failed ? error_set(err, ERR_MEMORY, "out of memory") : OK;
}

status plan_json(const plan_request *q, const plan_result *r, buf *out, error *err)
{
    buf_byte(out, '{');
    plan_json_fields(q, r, out);
    buf_text(out, "}\n");
    return checked(out, err);
}

/* ---- the tables ---- */

status plan_list_json(bool models, buf *out, error *err)
{
    size_t count = models ? catalogue_count() : hardware_count();
    for (size_t i = 0; i < count; i++) {
        buf_text(out, i ? ",\n " : "[");
        if (!models) {
            put_hardware(hardware_at(i), out);
            continue;
        }
        const model_shape *shape = catalogue_at(i);
        model_sums sums;
        model_shape_sums(shape, &sums);
        buf_byte(out, '{');
        plan_put_string(out, "name", shape->name);
        buf_text(out, ", ");
        plan_put_string(out, "title", shape->title);
        buf_text(out, ", ");
        plan_put_string(out, "type", catalogue_type(i));
        buf_text(out, ", ");
        put_shape(shape, &sums, out);
        buf_text(out, ", ");
        plan_put_number(out, "published_parameters", known(catalogue_published(i)));
        buf_text(out, ", ");
        plan_put_string(out, "source", catalogue_source(i));
        buf_byte(out, '}');
    }
    buf_text(out, count ? "]\n" : "[]\n");
    return checked(out, err);
}
