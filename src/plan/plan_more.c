/* plan/plan_more.c: speculation, what an upgrade buys, energy, and what a reader should know besides. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "plan/plan_private.h"

/* ---- speculation ---- */

/* A draft step reads a layer's part of the active weights and the head. */
static double draft_bytes(const cost_box *b)
{
    double layers = b->shape.layers ? b->shape.layers : 1;
    double head = (double)b->sums.head, others = (double)b->sums.always - head;
    double experts = (double)(b->sums.active - b->sums.always);
    return cost_parameter_bytes(b, head + others / layers, experts / layers);
}

void plan_speculation_fill(plan_work *w)
{
    const plan_request *q = w->q;
    const cost_box *b = &w->r->box;
    const plan_decode *d = &w->r->decode;
    plan_speculation *s = &w->r->speculation;
    if (!q->draft || !q->model || d->estimate <= 0)
        return;
    double rows = (double)q->batch * (q->draft + 1), a = q->accept, rate = cost_matmul_rate(b) * b->shares.matmul;
    s->tokens = a < 1 ? (1 - pow(a, q->draft + 1.0)) / (1 - a) : q->draft + 1.0;
    s->draft_bytes = q->draft * draft_bytes(b);
    s->step_bytes = cost_step_weight_bytes(b, rows) + d->kv_bytes + d->state_bytes + s->draft_bytes;
    s->plain_bytes = d->weight_bytes + d->kv_bytes + d->state_bytes;
    s->bytes_token = s->step_bytes / (q->batch * s->tokens);
    double compute_s = rate > 0 ? rows * (b->sums.flops_token + b->sums.flops_head) / rate : 0;
    double step_s = fmax(s->step_bytes / (cost_bandwidth(b) * d->share), compute_s) + cost_link_s(b, rows);
    s->tok_s = q->batch * s->tokens / step_s;
    s->gain = s->tok_s / d->estimate;
}

/* ---- upgrades ---- */

static double decode_s(const plan_work *w, const cost_box *b)
{
    return cost_decode_share_s(b, w->q->batch, w->q->depth, w->r->decode.share);
}

static double prompt_s(const plan_work *w, const cost_box *b)
{
    return plan_prefill_known(w->q, b) ? plan_prefill_s(w->q, b, 0, w->q->prompt) : NAN;
}

void plan_upgrades_fill(plan_work *w)
{
    const cost_box *b = &w->r->box;
    plan_upgrades *u = &w->r->upgrades;
    cost_box wide = *b, strong = *b, large = *b;
    if (!w->q->model)
        return;
    wide.hw.bandwidth_gb_s *= 2;
    for (int i = 0; i < RATE_KINDS; i++)
        strong.hw.tflops[i] *= 2;
    large.hw.memory_gb *= 2;
    u->bandwidth_decode = decode_s(w, b) / decode_s(w, &wide);
    u->matmul_decode = decode_s(w, b) / decode_s(w, &strong);
    u->memory_decode = decode_s(w, b) / decode_s(w, &large);
    u->bandwidth_prefill = prompt_s(w, b) / prompt_s(w, &wide);
    u->matmul_prefill = prompt_s(w, b) / prompt_s(w, &strong);
    u->memory_prefill = prompt_s(w, b) / prompt_s(w, &large);
    u->memory_sessions = plan_memory_sessions(w->r, hardware_usable_bytes(&large.hw) * b->devices);
}

/* ---- energy ---- */

void plan_energy_fill(plan_work *w)
{
    plan_result *r = w->r;
    double watts = r->box.hw.watts * r->box.devices, reads = w->q->reads_per_token;
    if (r->decode.estimate > 0 && r->prefill.tok_s > 0) {
        double read_s = reads / r->prefill.tok_s, write_s = 1 / r->decode.estimate;
        r->prefill_time_share = read_s / (read_s + write_s);
    }
    r->joules_decode = r->decode.estimate > 0 ? 1000 * watts / r->decode.estimate : 0;
    r->joules_prefill = r->prefill.tok_s > 0 ? 1000 * watts / r->prefill.tok_s : 0;
}

/* ---- notes ---- */

static void note(plan_result *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void note(plan_result *r, const char *format, ...)
{
    va_list arguments;
    if (r->note_count == PLAN_NOTES)
        return;
    va_start(arguments, format);
    vsnprintf(r->notes[r->note_count++], sizeof *r->notes, format, arguments);
    va_end(arguments);
}

/* The widest type, narrower than the one asked for, whose weights would leave room for the rest. NULL: none does. */
static const weight_type *type_that_fits(const plan_result *r)
{
    const weight_type *best = NULL;
    double room = r->memory.usable - (r->memory.needed - r->memory.weights), most = 0;
    cost_box with = r->box;
    for (size_t i = 0; i < weight_type_count(); i++) {
        with.type = *weight_type_at(i);
        double bytes = cost_weight_bytes(&with);
        if (bytes > room || bytes <= most || bytes >= r->memory.weights)
            continue;
        best = weight_type_at(i);
        most = bytes;
    }
    return best;
}

static void note_hardware(plan_work *w)
{
    plan_result *r = w->r;
    const hardware *hw = &r->box.hw;
    double weights = r->memory.weights;
    if (hw->rumoured)
        note(r, "%s is rumoured: not announced or not for sale, its numbers are guesses.", hw->name);
    if (hw->kind == HW_SRAM && weights > 0)
        note(r,
             "No chip holds the model: %s of weights take %.0f chips of %s. Then hops between chips set the pace, not "
             "this bandwidth: the rates above are on paper only.",
             plan_bytes(weights).text, ceil(weights / (hw->memory_gb * 1e9)), plan_bytes(hw->memory_gb * 1e9).text);
    if (hw->kind == HW_SSD && w->q->model)
        note(r,
             "A tier for bytes read once a turn (a cache of prefixes), never once a step. Prompts suffer too: a chunk "
             "of "
             "%s tokens touches %.0f%% of the weights, %s, %s to read.",
             plan_count(fmin(w->q->chunk, w->q->prompt)).text, 100 * r->prefill.chunk_bytes / weights,
             plan_bytes(r->prefill.chunk_bytes).text,
             plan_seconds(r->prefill.chunk_bytes / cost_bandwidth(&r->box)).text);
    if (hw->note)
        note(r, "%s: %s", hw->name, hw->note);
}

static void note_fit(plan_work *w)
{
    plan_result *r = w->r;
    const model_shape *shape = &r->box.shape;
    if (!w->q->model)
        return;
    if (r->memory.known && !r->memory.fits && r->memory.usable > 0) {
        const weight_type *t = type_that_fits(r);
        note(r, "Does not fit; the rates are what its bandwidth would give.%s%s%s", t ? " With weights in " : "",
             t ? t->name : "", t ? " it would." : "");
    }
    if (w->q->type_assumed)
        note(r, "Nothing says how its weights are stored: f16 is assumed; --model NAME:TYPE says it.");
    if (shape->sinks && !strcmp(r->box.type.name, "mxfp4")) /* gpt-oss */
        note(r, "Its published files have only the experts in mxfp4: mxfp4_moe (llama.cpp) or mxfp4_bf16 (its makers) "
                "says so; mxfp4 means all of it.");
    if (shape->context && w->q->context > shape->context)
        note(r, "--ctx %s is more than the %s tokens that the model was made for.", plan_count(w->q->context).text,
             plan_count(shape->context).text);
}

/* A median over several runtimes tells little of each. */
static void note_runtimes(plan_work *w)
{
    const plan_decode *d = &w->r->decode;
    char list[160] = "";
    size_t used = 0, others = 0;
    if (!d->measured.n || !strchr(d->measured.runtimes, ','))
        return;
    for (uint32_t i = 0; i < w->pair.count; i++) {
        const char *runtime = w->pair.items[i].runtime;
        uint32_t first = 0;
        while (strcmp(w->pair.items[first].runtime, runtime) != 0)
            first++;
        run_summary m = first == i ? plan_find_runtime(w, runtime, d->batch, d->depth) : (run_summary){0};
        if (m.n && used < sizeof list)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s %s", others++ ? ", " : "", runtime,
                                     plan_number(m.median).text);
    }
    note(w->r, "By runtime, tok/s: %s.", list);
}

static void note_runs(plan_result *r)
{
    const run_summary *all[] = {&r->decode.measured, &r->prefill.measured};
    static const char *const what[] = {"decode", "prefill"};
    for (int i = 0; i < 2; i++) {
        if (all[i]->on_battery)
            note(r, "%u of the %u measured runs of %s were on battery.", all[i]->on_battery, all[i]->n, what[i]);
        if (all[i]->throttled)
            note(r, "In %u of the %u measured runs of %s the clocks fell.", all[i]->throttled, all[i]->n, what[i]);
    }
}

void plan_notes_fill(plan_work *w)
{
    note_hardware(w);
    note_fit(w);
    note_runs(w->r);
    note_runtimes(w);
    if (w->q->model && !plan_prefill_known(w->q, &w->r->box))
        note(w->r, "No matmul rate of %s is known: --flops TFLOPS or --prefill-tok-s says it.", w->r->box.hw.name);
    if (w->r->box.devices > 1)
        note(w->r, "Several devices: each layer split over all, rows handed over twice a layer; 5 us each is a guess.");
}
