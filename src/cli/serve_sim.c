/* cli/serve_sim.c: see serve_sim.h. Context, pages and streams are what the memory leaves beside the weights, as with a
 * model that is really there. */
#include "cli/serve_sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/serve_flags.h"
#include "cli/simulate.h"

enum { PAGE_TOKENS = 32, PAGES_MIN = 8, PAGES_MAX = 1 << 20, STREAMS = 16, CONTEXT_UNKNOWN = 32768 };
enum { KV_TOKEN_UNKNOWN = 20480 }; /* bytes, of a box whose steps alone are known */

status serve_sim_check(const command_flags *flags, error *err)
{
    const char *runner = flag_text(flags, "--runner"), *hardware = flag_text(flags, "--hardware");
    const char *shape = flag_text(flags, "--model-shape"), *given = hardware ? "--hardware" : "--model-shape";
    if (!hardware && !shape)
        return OK;
    if (!runner || strncmp(runner, "sim", 3) != 0 || (runner[3] && runner[3] != ':'))
        return error_set(err, ERR_INVALID, "%s: only with --runner sim", given);
    return hardware ? OK : error_set(err, ERR_INVALID, "--model-shape: needs --hardware, the machine it runs on");
}

/* The flags of `simulate` have other names. */
static status in_own_words(status st, error *err)
{
    char text[sizeof err->text];
    const char *theirs = "--model";
    size_t size = strlen(theirs);
    if (st && err && strncmp(err->text, theirs, size) == 0 && err->text[size] != '-') {
        snprintf(text, sizeof text, "%s", err->text + size);
        error_set(err, st, "--model-shape%s", text);
    }
    return st;
}

static status open_box(simulate_box *box, const command_flags *flags, error *err)
{
    simulate_options *o = calloc(1, sizeof *o);
    if (!o)
        return error_set(err, ERR_MEMORY, "out of memory");
    o->hardware = flag_text(flags, "--hardware");
    o->model = flag_text(flags, "--model-shape");
    const char *kv = flag_text(flags, "--kv");
    o->kv = kv && strcmp(kv, "auto") == 0 ? NULL : kv;
    status st = flag_text(flags, "--kv-memory") ? flag_bytes(flags, "--kv-memory", &o->kv_memory, err) : OK;
    if (!st)
        st = in_own_words(simulate_box_open(box, o, err), err);
    free(o);
    return st == ERR_NOT_FOUND ? ERR_INVALID : st;
}

/* The memory is the page pool of a traced server, whose states were not in it. */
static bool states_beside(const simulate_box *box)
{
    return box->costs.kv_bytes > 0 && box->kv_memory == (uint64_t)box->costs.kv_bytes;
}

/* The states of all streams lie beside the pages; unless they are counted out they take half of the memory at most. */
static status count_streams(sim_config *config, const simulate_box *box, error *err)
{
    double state = states_beside(box) ? 0 : box->costs.state_bytes, memory = (double)box->kv_memory;
    if (config->max_sequences && config->max_sequences * state >= memory)
        return error_set(err, ERR_LIMIT, "--parallel %u: their states take %.3g GB, there are %.3g for KV and states",
                         config->max_sequences, config->max_sequences * state / 1e9, memory / 1e9);
    if (config->max_sequences)
        return OK;
    double fit = state > 0 ? memory / 2 / state : STREAMS;
    config->max_sequences = fit >= STREAMS ? STREAMS : fit >= 1 ? (uint32_t)fit : 1;
    return OK;
}

static status count_pages(sim_config *config, const simulate_box *box, error *err)
{
    double token_bytes = box->costs.kv_token_bytes > 0 ? box->costs.kv_token_bytes : KV_TOKEN_UNKNOWN;
    double page_bytes = token_bytes * PAGE_TOKENS, state = box->costs.state_bytes;
    double states = states_beside(box) ? 0 : config->max_sequences * state;
    double pages = ((double)box->kv_memory - states) / page_bytes;
    if (pages < PAGES_MIN + 2 * state / page_bytes)
        return error_set(err, ERR_LIMIT,
                         "%s leaves %.3g GB for KV and states, too little for one stream (--kv-memory SIZE)",
                         box->hardware, (double)box->kv_memory / 1e9);
    config->page_tokens = PAGE_TOKENS;
    config->page_count = pages < PAGES_MAX ? (uint32_t)pages : PAGES_MAX;
    config->kv_token_bytes = (uint64_t)(token_bytes + 0.5);
    if (config->context_length)
        return OK;
    uint64_t context = box->context ? box->context : CONTEXT_UNKNOWN, most = (uint64_t)config->page_count * PAGE_TOKENS;
    config->context_length = (uint32_t)(context < most ? context : most);
    return OK;
}

status serve_sim_read(serve_sim *own, sim_config *config, const command_flags *flags, error *err)
{
    *own = (serve_sim){.name = ""};
    if (!flag_text(flags, "--hardware"))
        return OK;
    simulate_box *box = calloc(1, sizeof *box);
    if (!box)
        return error_set(err, ERR_MEMORY, "out of memory");
    status st = open_box(box, flags, err);
    if (!st && !(st = count_streams(config, box, err)) && !(st = count_pages(config, box, err))) {
        const sim_costs *c = &box->costs;
        double step_us = sim_costs_decode_us(c, 1, 0), chunk_us = sim_costs_prefill_us(c, 0, 2048);
        snprintf(own->name, sizeof own->name, "%s", flag_text(flags, "--model-shape") ? box->model : "sim");
        snprintf(own->text, sizeof own->text,
                 "simulated %s, model %s: a decode step takes %.3g ms (%.3g tok/s), 2,048 tokens of a prompt %.3g s; "
                 "%.3g GB of KV",
                 box->hardware, box->model, step_us / 1e3, 1e6 / step_us, chunk_us / 1e6,
                 (double)config->page_count * PAGE_TOKENS * (double)config->kv_token_bytes / 1e9);
        own->costs = *c;
        config->costs = &own->costs;
        config->model_name = own->name;
    }
    free(box);
    return st;
}
