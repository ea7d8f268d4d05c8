/* cli/simulate_box.c: what a simulated box costs: a row of the hardware table with a model of the catalogue, the steps
 * that `tune` measured, a server's trace, or a row fitted to figures that somebody published. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "cli/plan_model.h"
#include "cli/simulate.h"

enum { MEASURED_FILE_MAX = 64 << 20 };

static bool is_file(const char *name)
{
    size_t size = strlen(name);
    return strchr(name, '/') || (size > 5 && !strcmp(name + size - 5, ".json"));
}

static bool is_trace(span text) /* a list of events; a steps.json is an object */
{
    size_t i = 0;
    while (i < text.size && strchr(" \t\r\n", text.data[i]) && text.data[i])
        i++;
    return i < text.size && text.data[i] == '[';
}

static status read_measured(sim_costs *out, const char *path, error *err)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return error_set(err, ERR_INVALID, "--hardware %s: no such file", path);
    buf text = {.limit = MEASURED_FILE_MAX};
    char piece[16384];
    for (size_t size; !text.failed && (size = fread(piece, 1, sizeof piece, file)) > 0;)
        buf_append(&text, piece, size);
    bool failed = ferror(file) != 0;
    fclose(file);
    if (failed) {
        buf_free(&text);
        return error_set(err, ERR_INVALID, "--hardware %s: cannot be read", path);
    }
    status st = text.failed
                    ? error_set(err, ERR_INVALID, "--hardware %s: larger than 64 MB, no steps.json or trace", path)
                : text.size == 0            ? error_set(err, ERR_INVALID, "--hardware %s: empty", path)
                : is_trace(buf_span(&text)) ? sim_costs_from_trace(out, buf_span(&text), path, err)
                                            : sim_costs_from_steps(out, buf_span(&text), path, err);
    buf_free(&text);
    return st;
}

static status open_model(cost_box *box, const simulate_options *o, error *err)
{
    char type[16];
    const weight_type *weights;
    status st = plan_model_open(&box->shape, type, o->model, err);
    if (!st && !type[0])
        st = error_set(err, ERR_INVALID, "%s does not say how its weights are stored (%s:TYPE)", o->model, o->model);
    if (!st)
        st = weight_type_find(&weights, type, err);
    if (st)
        return error_prefix(err, ERR_INVALID, "--model");
    box->type = *weights;
    model_shape_sums(&box->shape, &box->sums);
    st = kv_bits_find(&box->kv_bits, o->kv ? o->kv : "f16", err);
    return st ? error_prefix(err, ERR_INVALID, "--kv") : OK;
}

static status open_box(cost_box *box, const simulate_options *o, error *err)
{
    const hardware *row;
    status st = open_model(box, o, err);
    if (st)
        return st;
    if (hardware_find(&row, o->hardware, err))
        return error_prefix(err, ERR_INVALID, "--hardware");
    if (row->kind == HW_SSD)
        return error_set(err, ERR_INVALID, "--hardware %s: a tier, nothing computes on it", row->name);
    box->hw = *row;
    box->devices = o->devices ? o->devices : 1;
    box->link_gb_s = box->devices > 1 ? (o->link_gb_s > 0 ? o->link_gb_s : row->link_gb_s) : 0;
    if (box->devices > 1 && box->link_gb_s <= 0)
        return error_set(err, ERR_INVALID, "--devices %u: %s has no link that is known (--link GB/s)", box->devices,
                         row->name);
    box->step_bytes_fixed = o->step_gb * 1e9;
    box->shares = cost_shares_for(row, &box->shape);
    return OK;
}

static status check_fit(const simulate_fit *f, const char *hardware, error *err)
{
    bool any = f->decode_tok_s > 0 || f->document_s > 0 || f->chunk_s > 0;
    bool all = f->decode_tok_s > 0 && f->document_s > 0 && f->chunk_s > 0;
    if (any && !all)
        return error_set(err, ERR_INVALID,
                         "a fit needs all three: --fit-decode (tok/s), --fit-document (s), --fit-chunk (s)");
    if (any && is_file(hardware))
        return error_set(err, ERR_INVALID, "--fit-decode: %s is measured already", hardware);
    return OK;
}

static status size_memory(simulate_box *out, const cost_box *box, const simulate_options *o, error *err)
{
    double usable = hardware_usable_bytes(&box->hw) * box->devices, weights = cost_weight_bytes(box);
    out->kv_memory = o->kv_memory;
    if (o->kv_memory)
        return OK;
    if (usable <= weights)
        return error_set(
            err, ERR_LIMIT,
            "%s does not fit: its weights are %.3g GB, %s has %.3g for a model (--kv-memory SIZE: simulate "
            "it all the same)",
            o->model, weights / 1e9, box->hw.name, usable / 1e9);
    out->kv_memory = (uint64_t)(usable - weights);
    return OK;
}

static status from_steps(simulate_box *out, const simulate_options *o, error *err)
{
    const uint64_t memory = 16ull << 30; /* of a box whose steps alone are known */
    status st = read_measured(&out->costs, o->hardware, err);
    uint64_t measured = (uint64_t)out->costs.kv_bytes;
    out->kv_memory = o->kv_memory ? o->kv_memory : measured ? measured : memory;
    out->context = (uint32_t)out->costs.context;
    snprintf(out->hardware, sizeof out->hardware, "%s", o->hardware);
    snprintf(out->model, sizeof out->model, "%s", o->model ? o->model : "as measured");
    return st;
}

status simulate_box_open(simulate_box *out, const simulate_options *o, error *err)
{
    *out = (simulate_box){.kv_memory = 0};
    if (!o->hardware)
        return error_set(err, ERR_INVALID,
                         "--hardware: missing, want a name of `headway plan --list hardware`, or the "
                         "steps.json that `headway tune` wrote, or a server's trace");
    status st = check_fit(&o->fit, o->hardware, err);
    if (st)
        return st;
    if (is_file(o->hardware))
        return from_steps(out, o, err);
    if (!o->model)
        return error_set(err, ERR_INVALID, "--model: missing, want a name of `headway plan --list models`");
    cost_box *box = calloc(1, sizeof *box);
    if (!box)
        return error_set(err, ERR_MEMORY, "out of memory");
    st = open_box(box, o, err);
    if (!st)
        st = size_memory(out, box, o, err);
    if (!st && o->fit.decode_tok_s > 0)
        sim_costs_fit(&out->costs, box, o->fit.decode_tok_s, o->fit.document_s, o->fit.document_tokens, o->fit.chunk_s,
                      o->fit.chunk_tokens);
    else if (!st)
        sim_costs_from_box(&out->costs, box);
    out->context = box->shape.context;
    out->link_gb_s = box->hw.link_gb_s;
    snprintf(out->model, sizeof out->model, "%s:%s", box->shape.name, box->type.name ? box->type.name : "");
    snprintf(out->hardware, sizeof out->hardware, "%s%s", box->hw.name ? box->hw.name : "",
             o->fit.decode_tok_s > 0 ? " (fitted)" : "");
    if (box->devices > 1) {
        size_t used = strlen(out->hardware);
        snprintf(out->hardware + used, sizeof out->hardware - used, " x %u", box->devices);
    }
    free(box);
    return st;
}
